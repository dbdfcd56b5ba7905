"""Results of inference-perf (summary_lifecycle_metrics.json) and reports of llm-d-benchmark (YAML or JSON)."""

import re
from collections.abc import Mapping
from typing import Any

from skewscope.adapters.results.result import OfferedLoad, ServingResult, to_count, to_number, to_rate
from skewscope.adapters.results.result_format import ResultFormat
from skewscope.adapters.results.summaries import json_values, read_date, read_latency, seconds_in, walk, yaml_value

LATENCIES = {
    "time_to_first_token": "ttft",
    "time_per_output_token": "tpot",
    "inter_token_latency": "itl",
    "request_latency": "e2e",
}
SUMMARY = re.compile(r'"load_summary"\s*:\s*\{')
REPORT = ("latency", "time_to_first_token", "units")
"""Words of a report that has latencies."""
VERSION = re.compile(r"""^[ \t]{0,9}\{?\s{0,9}"?version"?[ \t]*:[ \t]*["']?0\.\d""", re.MULTILINE)
RATES = ("rate_qps", "qps", "qps_values", "request_rate", "rate")


def _recognise(text: str) -> bool:
    is_report = VERSION.search(text) and ("scenario" in text or all(word in text for word in REPORT))
    return bool(SUMMARY.search(text) or is_report)


def _read(text: str, file: str) -> list[ServingResult]:
    is_json = text.lstrip().startswith(("{", "["))
    values = list(json_values(text, file)) if is_json else [yaml_value(text, file)]
    objects = [value for value in values if isinstance(value, Mapping)]
    return [_read_lifecycle(each, file) for each in objects if "load_summary" in each] + [
        _read_report(each, aggregate, file) for each in objects if (aggregate := _aggregate(each))
    ]


def _read_lifecycle(given: Mapping[str, Any], file: str) -> ServingResult:
    successes, load = walk(given, "successes"), given["load_summary"]
    return ServingResult(
        file,
        "inference-perf",
        OfferedLoad(to_rate(walk(load, "requested_rate")), to_rate(walk(load, "concurrency"))),
        _latencies(walk(successes, "latency")),
        to_count(walk(successes, "count")),
        to_count(walk(given, "failures", "count")),
        to_number(walk(load, "send_duration")),
        _number(walk(successes, "throughput", "requests_per_sec")),
        _number(walk(successes, "throughput", "output_tokens_per_sec")),
        _number(walk(successes, "prompt_len")),
        _number(walk(successes, "output_len")),
    )


def _latencies(given: object) -> dict[str, Any]:
    """Returns the latencies by name; those without a unit are in seconds."""
    units = {name: seconds_in(walk(given, name, "units") or "s") for name in LATENCIES}
    return {
        LATENCIES[name]: found
        for name, unit in units.items()
        if unit and (found := read_latency(walk(given, name), unit))
    }


def _number(given: object) -> float | None:
    """Returns a number, or the mean of an object that has one."""
    return to_number(walk(given, "mean") if isinstance(given, Mapping) else given)


def _aggregate(report: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the numbers of all requests of a report, which its versions keep at different places."""
    found = walk(report, "results", "request_performance", "aggregate") or report.get("metrics")
    return found if isinstance(found, Mapping) and "latency" in found else None


def _read_report(report: Mapping[str, Any], given: Mapping[str, Any], file: str) -> ServingResult:
    requests, rates = given.get("requests"), given.get("throughput")
    total, failed = to_count(walk(requests, "total")), to_count(walk(requests, "failures"))
    time = given.get("time") or walk(report, "run", "time")
    load = walk(report, "scenario", "load")
    settings = [each for each in (walk(load, "standardized"), walk(load, "args"), load) if isinstance(each, Mapping)]
    rate = next((found for each in settings for name in RATES if (found := to_rate(each.get(name)))), None)
    concurrency = next((found for each in settings if (found := to_rate(each.get("concurrency")))), None)
    return ServingResult(
        file,
        "llm-d-benchmark",
        OfferedLoad(rate, concurrency),
        _latencies(given.get("latency")),
        total - (failed or 0) if total is not None else None,
        failed,
        to_number(walk(time, "duration")),
        _number(walk(rates, "requests_per_sec") or walk(rates, "request_rate")),
        _number(walk(rates, "output_tokens_per_sec") or walk(rates, "output_token_rate")),
        _number(walk(requests, "input_length")),
        _number(walk(requests, "output_length")),
        read_date(walk(time, "start")),
    )


FORMAT = ResultFormat("inference-perf, llm-d-benchmark", _recognise, _read)
