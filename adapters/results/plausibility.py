"""Numbers of results that nothing can be: what a damaged file says of a time or a rate is as good as not said."""

from dataclasses import replace

from skewscope.adapters.results.result import (
    BandwidthResult,
    BenchmarkResult,
    LatencySummary,
    OfferedLoad,
)

MOST, LEAST_TIME = 1e15, 1e-12
"""Bounds far beyond any time in seconds, rate or count, and below any time."""


def drop_impossible(result: BenchmarkResult) -> BenchmarkResult:
    """Returns a result without numbers that are negative or beyond all bounds."""
    if isinstance(result, BandwidthResult):
        known = {size: speed for size, speed in result.bandwidths.items() if size > 0 and _is_possible(speed)}
        return replace(result, bandwidths=known)
    load = result.load
    return replace(
        result,
        load=OfferedLoad(_bounded(load.rate), _bounded(load.concurrency), load.is_unlimited),
        latencies={name: found for name, each in result.latencies.items() if (found := _possible_latency(each))},
        completed=_count(result.completed),
        failed=_count(result.failed),
        duration=_bounded(result.duration),
        request_rate=_bounded(result.request_rate),
        output_rate=_bounded(result.output_rate),
        input_length=_bounded(result.input_length),
        output_length=_bounded(result.output_length),
    )


def _possible_latency(given: LatencySummary) -> LatencySummary | None:
    quantiles = tuple((share, value) for share, value in given.quantiles if _is_possible(value))
    mean = _bounded(given.mean)
    std = given.std if given.std is not None and 0 <= given.std < MOST else None
    return LatencySummary(mean, std, quantiles) if mean is not None or quantiles else None


def _count(value: int | None) -> int | None:
    return value if value is not None and 0 <= value < MOST else None


def _bounded(value: float | None) -> float | None:
    return value if _is_possible(value) else None


def _is_possible(value: float | None) -> bool:
    return value is not None and LEAST_TIME < value < MOST
