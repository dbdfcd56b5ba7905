"""What one run of a benchmark of serving shows by itself, and where a sweep over loads saturates."""

import math
from collections.abc import Iterator, Sequence

from skewscope.adapters.results.result import LATENCIES, ServingResult
from skewscope.adapters.results.result_finding import (
    LEAST,
    SIGMAS,
    ResultFinding,
    format_number,
    format_ratio,
    format_time,
)

PREFILL_GAIN = 10
"""How many times as fast as one after the other a prompt's tokens are computed, at the least: all of them share each
reading of the weights, of which a decoded token has one for itself."""
TAIL = 2.0
"""Decoding times for which a run may go on after its last request was sent."""
FAR_ABOVE = 5.0
"""How many times the quickest first tokens the typical one takes where most of it is waiting."""
QUEUE = "bench-requests-queue"
MIN_LOAD_STEP = 1.25
"""How many times the load of a level of a sweep that of the next one is, at the least."""


def judge_run(result: ServingResult) -> list[ResultFinding]:
    """Returns what one run shows: requests that wait, that failed, and that its program calls it invalid."""
    return [*find_queue(result), *find_failures(result), *_find_invalid(result)]


def find_queue(result: ServingResult) -> Iterator[ResultFinding]:
    """Yields that requests wait before they are computed."""
    ttft, token = result.typical("ttft"), result.token_time
    is_short = is_served_short(result)
    waits = ttft is not None and token is not None and _waits(result, ttft, token)
    if result.load.is_unlimited or not (is_short or waits):
        return
    served = ""
    if is_short and result.request_rate is not None and result.load.rate is not None:
        served = f"{format_number(result.request_rate)} of {format_number(result.load.rate)} requests/s are served"
    if ttft is None or token is None or not (waits or _is_late(result, ttft)):
        text = f"Fewer requests are served than are sent: {served}"
        yield ResultFinding("bench-throughput-lower", text)
        return
    first = f"the first token comes after {format_time(ttft)} at {format_time(token)} per token"
    yield ResultFinding(
        "bench-requests-queue",
        f"Requests wait before they are computed: {', and '.join(filter(None, (first, served)))}",
    )


def is_served_short(result: ServingResult) -> bool:
    """Returns whether fewer requests/s were served than sent, by more than chance and the end of the run explain."""
    rate, served, count = result.load.rate, result.request_rate, result.completed
    if rate is None or served is None or not count:
        return False
    least = max(LEAST, SIGMAS / math.sqrt(count))
    sent_in = (count + (result.failed or 0)) / rate
    duration = result.duration or count / served
    return served < rate * (1 - least) and duration - sent_in > TAIL * (result.decode_time or 0.0)


def _waits(result: ServingResult, ttft: float, token: float) -> bool:
    """Returns whether a request waits for longer than it is computed, prompt and answer."""
    decode = result.decode_time
    if decode is None or ttft <= decode:
        return False
    if result.input_length is not None:
        return ttft > decode + result.input_length * token / PREFILL_GAIN
    return _is_late(result, ttft)


def _is_late(result: ServingResult, ttft: float) -> bool:
    """Returns whether the typical first token is far behind the quickest ones, or behind a whole answer."""
    quickest = result.latencies["ttft"].least
    if quickest is not None:
        return ttft > FAR_ABOVE * quickest
    return is_served_short(result) and ttft > (result.decode_time or 0.0)


def find_failures(result: ServingResult) -> Iterator[ResultFinding]:
    """Yields that requests failed."""
    if result.failed:
        total = result.failed + (result.completed or 0)
        yield ResultFinding("bench-requests-fail", f"{result.failed} of {total} requests failed")


def _find_invalid(result: ServingResult) -> Iterator[ResultFinding]:
    """Yields that the limits on latencies were not kept; that a run was too short is no fault of what it measured."""
    if "performance" in result.verdict or "early stopping" in result.verdict:
        yield ResultFinding(
            "bench-run-invalid", f"The benchmark calls the run invalid: not satisfied is {result.verdict}"
        )


def find_saturation(results: Sequence[ServingResult]) -> Iterator[ResultFinding]:
    """Yields from which load of a sweep on more load is not served; nothing where the highest one still is."""
    levels = sorted(
        ((load, rate, each) for each in results if (load := each.load.level) and (rate := _served(each))),
        key=lambda level: level[0],
    )
    for n, (load, rate, result) in enumerate(levels[:-1]):
        higher = levels[n + 1 :]
        best = max(other for _, other, _ in higher)
        if higher[-1][0] >= MIN_LOAD_STEP * load and best <= rate * (1 + LEAST):
            top = max(higher, key=lambda level: level[1])
            yield ResultFinding(
                "bench-saturates",
                _saturation_text(
                    (levels[n - 1][2] if n else None, result), top[2], (levels[0][2], higher[-1][2]), rate
                ),
            )
            return


def _served(result: ServingResult) -> float | None:
    return result.request_rate if result.request_rate is not None else result.output_rate


def _saturation_text(
    around: tuple[ServingResult | None, ServingResult],
    top: ServingResult,
    ends: tuple[ServingResult, ServingResult],
    rate: float,
) -> str:
    """Returns where a sweep saturates: at a load, or below it where that is not served already."""
    (below, knee), (lowest, last) = around, ends
    unit = "requests/s" if knee.request_rate is not None else "tokens/s"
    more = format_ratio((last.load.level or 0.0) / (knee.load.level or 1.0))
    best = format_number(_served(top) or 0.0)
    served = f"{format_number(rate)} {unit} are served, and no more than {best} at {more} the load"
    is_short = knee.load.rate is not None and rate * (1 + LEAST) < knee.load.rate
    where = f"between {below.load} and {knee.load}" if is_short and below else f"at {knee.load}"
    text = f"It saturates {where}: {served}"
    grown = [
        f"{LATENCIES[name]} grows from {format_time(first)} to {format_time(then)}"
        for name in ("ttft", "e2e")
        if (first := lowest.typical(name)) and (then := last.typical(name)) and then > first * (1 + LEAST)
    ]
    return "; ".join([text, *grown[:1]])
