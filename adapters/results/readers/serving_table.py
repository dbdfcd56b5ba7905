"""Tables that benchmarks of vLLM, SGLang and others print: a name, a colon or a bar, and a number in each line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from skewscope.adapters.results.result import ServingResult, read_load, to_count, to_number
from skewscope.adapters.results.result_format import ResultFormat
from skewscope.adapters.results.summaries import SECONDS, make_latency

BANNER = "Serving Benchmark Result ="
LATENCY = re.compile(
    r"(?P<stat>Mean|Median|Avg|Average|Std|Min|Max|P\d{1,2}(?:\.\d+)?) "
    r"(?P<latency>TTFT|TPOT|ITL|E2EL|E2E(?: Latency)?|(?:request )?latency|time[- ]to[- ]first[- ]token(?: \[TTFT\])?"
    r"|time[- ]per[- ]output[- ]token(?: \[TPOT\])?|inter[- ]token latency) \((?P<unit>ms|s)\)",
    re.IGNORECASE,
)
NUMBERS = {
    "successful requests": "completed",
    "failed requests": "failed",
    "request rate configured (rps)": "rate",
    "traffic request rate": "rate",
    "maximum request concurrency": "concurrency",
    "max request concurrency": "concurrency",
    "benchmark duration (s)": "duration",
    "total input tokens": "input",
    "total generated tokens": "output",
    "request throughput (req/s)": "request_rate",
    "request throughput (req/sec)": "request_rate",
    "total output throughput (tokens/sec)": "output_rate",
    "number of requests": "completed",
    "number of concurrent requests": "concurrency",
    "number of concurrency": "concurrency",
    "succeed requests": "completed",
    "number of completed requests": "completed",
    "number of errored requests": "failed",
    "time taken for tests (s)": "duration",
    "output token throughput (tok/s)": "output_rate",
}
NAMES = {"e2el": "e2e", "e2e latency": "e2e", "latency": "e2e", "request latency": "e2e"}
NAMES |= {"time to first token": "ttft", "time per output token": "tpot", "inter token latency": "itl"}
LINE = re.compile(
    rf"(?:^|[\s|│])(?P<name>{LATENCY.pattern}|{'|'.join(map(re.escape, NUMBERS))})"
    r"\s*[:|│=]\s*(?P<value>-?[\d.,]+(?:e[+-]?\d+)?|inf|nan|none|not set)\s*(?:[|│]\s*)?$",
    re.IGNORECASE,
)
MIN_LINES = 3
"""Known lines by which a text is such a table."""


@dataclass
class _Table:
    """The numbers of one table."""

    numbers: dict[str, str] = field(default_factory=dict)
    latencies: dict[str, dict[str, float]] = field(default_factory=dict)

    def result(self, file: str) -> ServingResult:
        """Returns the result of the table."""
        given = self.numbers
        completed = to_count(given.get("completed"))
        lengths = [to_number(given.get(name)) for name in ("input", "output")]
        per_request = [total / completed if total is not None and completed else None for total in lengths]
        return ServingResult(
            file,
            "a serving benchmark",
            read_load(given.get("rate"), given.get("concurrency")),
            {name: summary for name, each in self.latencies.items() if (summary := make_latency(each))},
            completed,
            to_count(given.get("failed")),
            to_number(given.get("duration")),
            to_number(given.get("request_rate")),
            to_number(given.get("output_rate")),
            per_request[0],
            per_request[1],
        )


def _recognise(text: str) -> bool:
    return BANNER in text or len({found["name"].lower() for found in _lines(text)}) >= MIN_LINES


def _lines(text: str) -> Iterator[re.Match[str]]:
    for line in text.splitlines():
        if len(line) < 400 and (found := LINE.search(line)):
            yield found


def _read(text: str, file: str) -> list[ServingResult]:
    """Returns a result for each table; what stands before the first line of numbers belongs to the next one."""
    tables, table = [], _Table()
    for found in _lines(text):
        if found["stat"]:
            plain = found["latency"].lower().partition(" [")[0].replace("-", " ")
            name = NAMES.get(plain, plain)
            key, known = found["stat"].lower(), table.latencies.setdefault(name, {})
            value = to_number(found["value"])
            if key not in known and value is not None:
                known[key] = value * SECONDS[found["unit"].lower()]
            continue
        key = NUMBERS[found["name"].lower()]
        if key in table.numbers and (table.latencies or key not in ("rate", "concurrency")):
            tables.append(table)
            table = _Table()
        table.numbers[key] = found["value"]
    return [each.result(file) for each in (*tables, table) if each.latencies or "request_rate" in each.numbers]


FORMAT = ResultFormat("the table of a serving benchmark", _recognise, _read)
