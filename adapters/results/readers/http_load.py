"""What load generators of HTTP print at their end: k6, wrk, hey, oha, vegeta, ab and Locust."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from skewscope.adapters.results.result import OfferedLoad, ServingResult, to_count, to_number
from skewscope.adapters.results.result_format import ResultFormat
from skewscope.adapters.results.summaries import make_latency

MAX_LINE, MAX_LINES = 1000, 100_000
NUMBER = r"[\d,]+(?:\.\d+)?"
PART = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>h|ms|m|s|us|\u00b5s|\u03bcs|ns)(?=\d|\b)")
PARTS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ns": 1e-9}
STATUS = re.compile(r"\s*\[(?P<code>\d{3})\]\s+(?P<count>\d+) responses?")
ERROR = re.compile(r"^\s*\[(?P<count>\d+)\]\s+(?!\d+ responses?$)\S")
LEAST_BAD = 400
"""Statuses of HTTP from here on say that a request failed."""


@dataclass(frozen=True, slots=True)
class LoadGenerator:
    """What one program prints."""

    tool: str
    mark: re.Pattern[str]
    lines: tuple[re.Pattern[str], ...]
    """Lines with groups: total, failed (those that failed among them), refused, unread, unsent and late (others), rate,
    duration, concurrency, offered, failed_share and success_share (in percent)."""
    latency: re.Pattern[str] | None = None
    """The line of the latencies: a group for each statistic, or `pairs` such as `avg=1s p(95)=2s`."""
    quantile: re.Pattern[str] | None = None
    """A line for each quantile: percent, seconds and unit."""
    has_statuses: bool = False


GENERATORS = (
    LoadGenerator(
        "k6",
        re.compile(r"^[ \t]*http_req_duration\.*:", re.MULTILINE),
        (
            re.compile(rf"^\s*http_reqs\.*:\s*(?P<total>{NUMBER})\s+(?P<rate>{NUMBER})/s"),
            re.compile(r"^\s*http_req_failed\.*:\s*(?P<failed_share>[\d.]+)%"),
            re.compile(rf"^\s*vus\.*:\s*(?P<concurrency>{NUMBER})\b"),
        ),
        latency=re.compile(r"^\s*http_req_duration\.*:\s*(?P<pairs>\w.*)"),
    ),
    LoadGenerator(
        "wrk",
        re.compile(r"^Running \S+ test @ ", re.MULTILINE),
        (
            re.compile(rf"^\s*(?P<total>{NUMBER}) requests in (?P<duration>\S+),"),
            re.compile(r"^\s*\d+ threads? and (?P<concurrency>\d+) connections"),
            re.compile(
                r"^\s*Socket errors: connect (?P<refused>\d+), read (?P<unread>\d+), write (?P<unsent>\d+), "
                r"timeout (?P<late>\d+)"
            ),
            re.compile(r"^\s*Non-2xx or 3xx responses: (?P<failed>\d+)"),
            re.compile(rf"^Requests/sec:\s+(?P<rate>{NUMBER})"),
        ),
        latency=re.compile(r"^\s*Latency\s+(?P<mean>\d\S+)\s+(?P<std>\d\S+)\s+(?P<max>\d\S+)"),
        quantile=re.compile(r"^\s*(?P<percent>\d+(?:\.\d+)?)%\s+(?P<time>\d\S*)\s*$"),
    ),
    LoadGenerator(
        "hey, oha",
        re.compile(r"^Summary:[ \t]*\n(?:.*\n){0,3}[ \t]+(?:Total|Slowest):", re.MULTILINE),
        (
            re.compile(rf"^\s*Requests/sec:\s+(?P<rate>{NUMBER})"),
            re.compile(rf"^\s*Total:\s+(?P<duration_s>{NUMBER}) secs?"),
        ),
        latency=re.compile(r"^\s*Average:\s+(?P<mean_s>[\d.]+) secs?"),
        quantile=re.compile(r"^\s*(?P<percent>\d+(?:\.\d+)?)% in (?P<seconds>[\d.]+) secs?"),
        has_statuses=True,
    ),
    LoadGenerator(
        "vegeta",
        re.compile(r"^Requests\s+\[total, rate", re.MULTILINE),
        (
            re.compile(
                rf"^Requests\s+\[total, rate(?:, throughput)?\]\s+(?P<total>{NUMBER}), (?P<offered>{NUMBER})"
                rf"(?:, (?P<rate>{NUMBER}))?"
            ),
            re.compile(r"^Success\s+\[ratio\]\s+(?P<success_share>[\d.]+)%"),
        ),
        latency=re.compile(r"^Latencies\s+\[(?P<names>[^\]]+)\]\s+(?P<values>\S.*)"),
    ),
    LoadGenerator(
        "Locust",
        re.compile(r"^[ \t]*(?:Type[ \t]+)?Name[ \t]+# reqs[ \t]+# fails", re.MULTILINE),
        (
            re.compile(
                rf"^\s+Aggregated\s+(?P<total>\d+)\s+(?P<failed>\d+)\([\d.]+%\)\s*\|(?:\s+\d+){{4}}\s*\|\s+(?P<rate>{NUMBER})"
            ),
        ),
        latency=re.compile(
            r"^\s+Aggregated\s+\d+\s+\d+\([\d.]+%\)\s*\|\s+(?P<mean_ms>\d+)\s+(?P<min_ms>\d+)\s+(?P<max_ms>\d+)\s+(?P<median_ms>\d+)"
        ),
    ),
    LoadGenerator(
        "ab",
        re.compile(r"^Concurrency Level:\s+\d", re.MULTILINE),
        (
            re.compile(r"^Concurrency Level:\s+(?P<concurrency>\d+)"),
            re.compile(r"^Complete requests:\s+(?P<total>\d+)"),
            re.compile(r"^Non-2xx responses:\s+(?P<failed>\d+)"),
            re.compile(rf"^Requests per second:\s+(?P<rate>{NUMBER})"),
            re.compile(rf"^Time taken for tests:\s+(?P<duration_s>{NUMBER}) seconds"),
        ),
        quantile=re.compile(r"^\s+(?P<percent>\d+)%\s+(?P<ms>\d+)(?: \(longest request\))?\s*$"),
    ),
)


def _recognise(text: str) -> bool:
    return _find(text) is not None


def _find(text: str) -> LoadGenerator | None:
    return next((each for each in GENERATORS if each.mark.search(text)), None)


def _read(text: str, file: str) -> list[ServingResult]:
    found = _find(text)
    if found is None:
        return []
    numbers: dict[str, str] = {}
    latency: dict[str, float] = {}
    for line in _list_lines(text):
        for pattern in found.lines:
            if match := pattern.match(line):
                numbers.update({name: value for name, value in match.groupdict().items() if value})
        latency.update(_read_latency(found, line))
    total, failed = _count(found, numbers, text)
    if total is None and not latency:
        return []
    duration = _seconds(numbers.get("duration", "")) or to_number(numbers.get("duration_s"))
    return [
        ServingResult(
            file,
            found.tool,
            OfferedLoad(to_number(numbers.get("offered")), to_number(numbers.get("concurrency"))),
            {"e2e": summary} if (summary := make_latency(latency)) else {},
            None if total is None else total - (failed or 0),
            failed,
            duration,
            _number(numbers.get("rate")),
        )
    ]


def _list_lines(text: str) -> Iterator[str]:
    yield from (line[:MAX_LINE] for line in text.splitlines()[:MAX_LINES])


def _number(text: str | None) -> float | None:
    return to_number(text.replace(",", "")) if text else None


def _read_latency(found: LoadGenerator, line: str) -> dict[str, float]:
    """Returns the latencies that a line has, in seconds by their statistic."""
    if found.quantile and (match := found.quantile.match(line)):
        given = match.groupdict()
        time = _seconds(given.get("time") or "") or to_number(given.get("seconds"))
        time = float(given["ms"]) * 1e-3 if given.get("ms") else time
        return {} if time is None else {f"p{given['percent']}": time}
    match = found.latency.match(line) if found.latency else None
    if match is None:
        return {}
    given = match.groupdict()
    if given.get("pairs"):
        pairs = re.findall(r"(\w+(?:\(\d+(?:\.\d+)?\))?)=(\S+)", given["pairs"])
        return _seconds_by_name((name.replace("(", "").replace(")", ""), value) for name, value in pairs)
    if given.get("names"):
        names = [f"p{name}" if name[0].isdigit() else name for name in given["names"].replace(" ", "").split(",")]
        return _seconds_by_name(zip(names, re.split(r",\s*", given["values"].strip()), strict=False))
    numbers = ((name.partition("_"), value) for name, value in given.items() if value)
    return {
        name: time
        for (name, _, unit), value in numbers
        if (time := float(value) * PARTS_S[unit] if unit else _seconds(value)) is not None
    }


def _seconds_by_name(pairs: "Iterator[tuple[str, str]] | zip[tuple[str, str]]") -> dict[str, float]:
    timed = ((("median" if name == "med" else name), _seconds(value)) for name, value in pairs)
    return {name: value for name, value in timed if value is not None}


def _seconds(text: str) -> float | None:
    """Returns the seconds of a time as Go writes it (`1m2.5s`, `635.91us`); None for other texts."""
    parts = list(PART.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        return None
    return sum(float(part["number"]) * PARTS_S[part["unit"]] for part in parts)


def _count(found: LoadGenerator, numbers: dict[str, str], text: str) -> tuple[int | None, int | None]:
    """Returns how many requests there were, and how many of them failed; None where it is not said."""
    if found.has_statuses:
        return _count_statuses(text)
    whole = _number(numbers.get("total"))
    if whole is None:
        return None, None
    total = round(whole)
    if share := numbers.get("failed_share"):
        return total, round(total * float(share) / 100)
    if share := numbers.get("success_share"):
        return total, round(total * (1 - float(share) / 100))
    lost = sum(to_count(numbers.get(name)) or 0 for name in ("refused", "unread", "unsent", "late"))
    return total + lost, (to_count(numbers.get("failed")) or 0) + lost


def _count_statuses(text: str) -> tuple[int | None, int | None]:
    """Returns the requests of all statuses and errors, and those that failed."""
    total = failed = 0
    for line in _list_lines(text):
        if match := STATUS.match(line):
            many = int(match["count"])
            total += many
            failed += many if int(match["code"]) >= LEAST_BAD else 0
        elif match := ERROR.match(line):
            total += int(match["count"])
            failed += int(match["count"])
    return (total, failed) if total else (None, None)


FORMAT = ResultFormat("k6, wrk, hey, oha, vegeta, ab, Locust", _recognise, _read)
