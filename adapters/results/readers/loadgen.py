"""The summary that MLPerf's load generator writes (mlperf_log_summary.txt)."""

import re

from skewscope.adapters.results.result import OfferedLoad, ServingResult, to_count, to_number, to_rate
from skewscope.adapters.results.result_format import ResultFormat
from skewscope.adapters.results.summaries import make_latency

BANNER = "MLPerf Results Summary"
LINE = re.compile(r"^[ \t]*(?P<name>[^:\n]{3,80}?)[ \t]*:[ \t]*(?P<value>\S[^\n]*?)[ \t]*$", re.MULTILINE)
LATENCY = re.compile(
    r"(?P<stat>min|max|mean|\d+\.\d+ percentile) "
    r"(?P<kind>first token latency|time (?:to|per) output token|latency) \(ns\)"
)
NAMES = {"first token latency": "ttft", "latency": "e2e"}
OFFERING = ("server", "interactive")
"""Scenarios that offer a rate; the others send when the last one is done, or all at once."""


def _recognise(text: str) -> bool:
    return BANNER in text


def _read(text: str, file: str) -> list[ServingResult]:
    parts = text.split(BANNER)[1:]
    return [_read_summary(part, file) for part in parts]


def _read_summary(text: str, file: str) -> ServingResult:
    values: dict[str, str] = {}
    for found in LINE.finditer(text):
        values.setdefault(found["name"].strip().lower(), found["value"])
    latencies: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        if (latency := LATENCY.fullmatch(name)) and (number := to_number(value)) is not None:
            stat = latency["stat"].removesuffix(" percentile")
            key = f"p{float(stat):g}" if stat[0].isdigit() else stat
            latencies.setdefault(NAMES.get(latency["kind"], "tpot"), {})[key] = number * 1e-9
    scenario = values.get("scenario", "").lower()
    rates = [to_rate(values.get(f"{word} samples per second")) for word in ("scheduled", "completed")]
    return ServingResult(
        file,
        "MLPerf loadgen",
        OfferedLoad(rates[0] if scenario in OFFERING else None),
        {name: summary for name, each in latencies.items() if (summary := make_latency(each))},
        completed=to_count(values.get("min_query_count")),
        request_rate=rates[1] or to_rate(values.get("samples per second")),
        output_rate=to_number(values.get("completed tokens per second") or values.get("tokens per second")),
        subject=scenario,
        verdict=_verdict(values),
    )


def _verdict(values: dict[str, str]) -> str:
    """Returns which conditions were not satisfied; '' for a valid run."""
    if not values.get("result is", "").upper().startswith("INVALID"):
        return ""
    failed = [
        name.removesuffix(" satisfied")
        for name, value in values.items()
        if name.endswith(" satisfied") and value.upper() == "NO"
    ]
    return ", ".join(failed) or "invalid"


FORMAT = ResultFormat("MLPerf loadgen", _recognise, _read)
