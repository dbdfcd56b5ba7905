"""Results of vLLM, SGLang and TensorRT-LLM: an object, or one a line, with keys such as median_ttft_ms."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from skewscope.adapters.results.result import (
    ServingResult,
    read_load,
    to_count,
    to_number,
)
from skewscope.adapters.results.result_format import ResultFormat
from skewscope.adapters.results.summaries import SECONDS, json_values, make_latency, read_date

LATENCY = re.compile(r"(mean|median|avg|std|min|max|p\d{1,2}(?:[._]\d+)?)_(ttft|tpot|itl|e2el|e2e_latency)_(ms|s)$")
MARKS = re.compile(r'"(?:mean|median|p\d\d?)_(?:ttft|tpot|itl|e2el|e2e_latency)_m?s"\s*:')
RATE = re.compile(r'"request_throughput"\s*:\s*[\d.]+')
BESIDE = ('"completed"', '"output_throughput"', '"total_input_tokens"')
"""Keys that stand beside the rate of requests, before the arrays of each request."""
NAMES = {"e2el": "e2e", "e2e_latency": "e2e"}


def _recognise(text: str) -> bool:
    is_json = text.lstrip()[:1] in ("{", "[")
    return is_json and bool(MARKS.search(text) or (RATE.search(text) and any(key in text for key in BESIDE)))


def _read(text: str, file: str) -> list[ServingResult]:
    return [result for value in json_values(text, file) for result in _results(value, file)]


def _results(value: Any, file: str) -> Iterator[ServingResult]:
    if isinstance(value, Mapping) and ("request_throughput" in value or any(map(LATENCY.match, value))):
        yield _read_object(value, file)


def _read_object(given: Mapping[str, Any], file: str) -> ServingResult:
    numbers: dict[str, dict[str, float]] = {}
    for key, value in given.items():
        if (found := LATENCY.match(key)) and (number := to_number(value)) is not None:
            stat, name, unit = found.groups()
            numbers.setdefault(NAMES.get(name, name), {})[stat.replace("_", ".")] = number * SECONDS[unit]
    completed = to_count(given.get("completed"))
    return ServingResult(
        file,
        "a serving benchmark",
        read_load(given.get("request_rate"), given.get("max_concurrency")),
        {name: summary for name, each in numbers.items() if (summary := make_latency(each))},
        completed,
        _failed(given, completed),
        to_number(given.get("duration")),
        to_number(given.get("request_throughput")),
        to_number(given.get("output_throughput")),
        _share(given.get("total_input_tokens"), completed),
        _share(given.get("total_output_tokens"), completed),
        read_date(given.get("date")),
        str(given.get("model_id") or given.get("backend") or ""),
    )


def _failed(given: Mapping[str, Any], completed: int | None) -> int | None:
    """Returns the requests that failed: as counted, else those that were to be sent and did not complete."""
    counted, wanted = to_count(given.get("failed")), to_count(given.get("num_prompts"))
    if counted is not None or wanted is None or completed is None:
        return counted
    return max(wanted - completed, 0)


def _share(total: object, count: int | None) -> float | None:
    number = to_number(total)
    return number / count if number is not None and count else None


FORMAT = ResultFormat("vllm bench serve, benchmark_serving.py, sglang.bench_serving", _recognise, _read)
