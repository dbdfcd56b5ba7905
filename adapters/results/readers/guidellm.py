"""Results of guidellm: a report with a benchmark for each load, as JSON or YAML."""

import re
from collections.abc import Mapping
from typing import Any

from skewscope.adapters.results.result import OfferedLoad, ServingResult, to_count, to_number, to_rate
from skewscope.adapters.results.result_format import ResultFormat
from skewscope.adapters.results.summaries import json_values, read_date, read_latency, walk, yaml_value

LATENCIES = {
    "time_to_first_token_ms": ("ttft", 1e-3),
    "time_per_output_token_ms": ("tpot", 1e-3),
    "inter_token_latency_ms": ("itl", 1e-3),
    "request_latency": ("e2e", 1.0),
}
BENCHMARKS = re.compile(r'^"?benchmarks"?\s*:|"benchmarks"\s*:', re.MULTILINE)
MARKS = ("guidellm_version", "generative_benchmark", "run_stats", "scheduler_metrics", "requests_per_second")
AT_ONE_TIME = {"synchronous": 1.0}
"""Requests at a time of strategies that are named after it."""


def _recognise(text: str) -> bool:
    return bool(BENCHMARKS.search(text)) and any(mark in text for mark in MARKS)


def _read(text: str, file: str) -> list[ServingResult]:
    is_json = text.lstrip().startswith("{")
    reports = list(json_values(text, file)) if is_json else [yaml_value(text, file)]
    benchmarks = [each for report in reports for each in walk(report, "benchmarks") or () if isinstance(each, Mapping)]
    return [_read_benchmark(each, file) for each in benchmarks if isinstance(each.get("metrics"), Mapping)]


def _read_benchmark(given: Mapping[str, Any], file: str) -> ServingResult:
    metrics = given["metrics"]
    totals = metrics.get("request_totals") or given.get("request_totals") or walk(given, "run_stats", "requests_made")
    start, end = read_date(given.get("start_time")), read_date(given.get("end_time"))
    duration = to_number(given.get("duration"))

    def mean(metric: str) -> float | None:
        return to_number(walk(metrics, metric, "successful", "mean"))

    return ServingResult(
        file,
        "guidellm",
        _load(given),
        {
            name: found
            for metric, (name, scale) in LATENCIES.items()
            if (found := read_latency(walk(metrics, metric, "successful"), scale))
        },
        to_count(walk(totals, "successful")),
        to_count(walk(totals, "errored")),
        duration if duration is not None or start is None or end is None else end - start,
        mean("requests_per_second"),
        mean("output_tokens_per_second"),
        mean("prompt_token_count"),
        mean("output_token_count"),
        start,
    )


def _load(given: Mapping[str, Any]) -> OfferedLoad:
    strategy = walk(given, "config", "strategy") or walk(given, "args", "strategy") or {}
    kind = str(walk(strategy, "type_") or walk(strategy, "kind") or "")
    rate = to_rate(walk(strategy, "rate"))
    streams = to_rate(walk(strategy, "streams")) or AT_ONE_TIME.get(kind)
    return OfferedLoad(rate, None if rate or kind == "throughput" else streams, kind == "throughput")


FORMAT = ResultFormat("guidellm", _recognise, _read)
