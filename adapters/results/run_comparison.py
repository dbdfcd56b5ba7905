"""Two sides of results of one benchmark: what is worse, by how much, and what that says."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from skewscope.adapters.results.result import LATENCIES, OfferedLoad, ServingResult
from skewscope.adapters.results.result_finding import (
    LEAST,
    SIGMAS,
    ResultFinding,
    format_number,
    format_time,
)
from skewscope.adapters.results.serving_findings import QUEUE, find_queue
from skewscope.kb.loader import catalogue

WORSE, BETTER, ALIKE = "worse", "better", "alike"
MIN_REPEATS = 2
"""Runs of a side from which on their spread says how much repeats vary."""
NOUN = re.compile(r"\{(\w+?)s?\}")
"""A unit that is a noun, such as `{request}/s`."""
DECODING = ("tpot", "itl")


@dataclass(frozen=True, slots=True)
class QuantityChange:
    """One quantity of two sides."""

    name: str
    """A latency of `LATENCIES`, or requests, tokens, failed or bandwidth."""
    what: str
    unit: str
    place: str
    """The load at which it was measured, or the nodes."""
    before: float
    after: float
    limit: float
    """The ratio, above 1, up to which a difference is none."""
    verdict: str
    """worse, better or alike."""

    @property
    def ratio(self) -> float:
        """How many times as much it is after as before."""
        return self.after / self.before if self.before else math.inf

    @property
    def badness(self) -> float:
        """How far the two are from each other: the size of the logarithm of their ratio, 1 where one of them is 0."""
        return abs(math.log(self.ratio)) if 0 < self.ratio < math.inf else 1.0

    @property
    def texts(self) -> tuple[str, str]:
        """The numbers before and after, with their unit."""
        if self.unit == "s":
            return format_time(self.before), format_time(self.after)
        unit = "" if self.unit == "1" else " " + NOUN.sub(r"\1s", self.unit)
        return f"{format_number(self.before)}{unit}", f"{format_number(self.after)}{unit}"

    @property
    def text(self) -> str:
        """The two numbers in words."""
        before, after = self.texts
        unit = before.partition(" ")[2]
        return f"{after.removesuffix(f' {unit}') if unit else after} instead of {before}"


@dataclass(frozen=True, slots=True)
class _Quantity:
    """A number of a run that is compared."""

    name: str
    what: str
    unit: str
    is_bad_up: bool
    of: Callable[[ServingResult], float | None]
    error: Callable[[ServingResult], float]
    signal: str = ""
    """The signal of the catalogue whose least change counts where each side is one run."""


def _latency(name: str) -> _Quantity:
    def error(result: ServingResult) -> float:
        found = result.latencies.get(name)
        return found.relative_error(result.completed) if found else math.inf

    return _Quantity(name, LATENCIES[name], "s", True, lambda result: result.typical(name), error, f"serve.{name}")


def _count_error(result: ServingResult) -> float:
    return 1 / math.sqrt(result.completed) if result.completed else math.inf


QUANTITIES = (
    *map(_latency, LATENCIES),
    _Quantity("requests", "requests per second", "requests/s", False, lambda one: one.request_rate, _count_error),
    _Quantity("tokens", "output tokens per second", "tokens/s", False, lambda one: one.output_rate, _count_error),
)


def compare_runs(before: Sequence[ServingResult], after: Sequence[ServingResult]) -> list[QuantityChange]:
    """Returns the quantities of both sides at each load that both have, or at their only loads."""
    sides = _by_load(before), _by_load(after)
    shared = [load for load in sides[0] if load in sides[1]]
    if shared:
        return [change for load in shared for change in _compare_level(sides[0][load], sides[1][load], str(load))]
    if len(sides[0]) == len(sides[1]) == 1:
        (first, old), (then, new) = *sides[0].items(), *sides[1].items()
        return list(_compare_level(old, new, f"{then} instead of {first}"))
    return []


def _by_load(results: Sequence[ServingResult]) -> dict[OfferedLoad, list[ServingResult]]:
    found: dict[OfferedLoad, list[ServingResult]] = {}
    for each in results:
        found.setdefault(each.load, []).append(each)
    return found


def _compare_level(
    before: Sequence[ServingResult], after: Sequence[ServingResult], place: str
) -> Iterator[QuantityChange]:
    for quantity in QUANTITIES:
        sides = [[value for each in side if (value := quantity.of(each))] for side in (before, after)]
        if all(sides):
            yield _judge_change(quantity, (before, after), sides, place)
    failed = [_failed_share(side) for side in (before, after)]
    if None not in failed:
        yield _judge_failures(before, after, place)


def _judge_change(
    quantity: _Quantity,
    runs: tuple[Sequence[ServingResult], Sequence[ServingResult]],
    sides: Sequence[Sequence[float]],
    place: str,
) -> QuantityChange:
    old, new = (median(side) for side in sides)
    limit = _limit(quantity, runs, sides)
    gap = math.log(new / old) * (1 if quantity.is_bad_up else -1)
    verdict = WORSE if gap > math.log(limit) else BETTER if gap < -math.log(limit) else ALIKE
    return QuantityChange(quantity.name, quantity.what, quantity.unit, place, old, new, limit, verdict)


def _limit(
    quantity: _Quantity,
    runs: tuple[Sequence[ServingResult], Sequence[ServingResult]],
    sides: Sequence[Sequence[float]],
) -> float:
    """Returns the ratio up to which two sides differ by chance, or too little to matter.

    Repeats say how much runs vary: all that lies within the spread of either side is no difference. Without repeats it
    is the least change that the catalogue states for the signal, for a rate a tenth.
    """
    spread = max(max(side) / min(side) for side in sides)
    if max(map(len, sides)) >= MIN_REPEATS:
        return max(spread, 1 + LEAST)
    errors = [min(map(quantity.error, side)) for side in runs]
    chance = SIGMAS * math.hypot(*(each for each in errors if math.isfinite(each)))
    judged = catalogue().signals[quantity.signal].judged if quantity.signal else None
    return max(math.exp(min(chance, 1.0)), 1 + (judged.least or LEAST if judged else LEAST))


def _failed_share(side: Sequence[ServingResult]) -> float | None:
    counts = [(each.failed, each.completed or 0) for each in side if each.failed is not None]
    total = sum(failed + done for failed, done in counts if failed is not None)
    return sum(failed for failed, _ in counts if failed is not None) / total if total else None


def _judge_failures(before: Sequence[ServingResult], after: Sequence[ServingResult], place: str) -> QuantityChange:
    """Returns the change of the share of requests that failed: any is worse where none failed before."""
    old, new = (_failed_share(side) or 0.0 for side in (before, after))
    totals = [sum((each.failed or 0) + (each.completed or 0) for each in side) for side in (before, after)]
    both = sum(share * total for share, total in zip((old, new), totals, strict=True)) / max(sum(totals), 1)
    error = math.sqrt(both * (1 - both) * sum(1 / max(total, 1) for total in totals))
    more, less = (new > 0) if not old else new - old > SIGMAS * error, old - new > SIGMAS * error
    verdict = WORSE if more else BETTER if less else ALIKE
    limit = (old + SIGMAS * error) / old if old else 1.0
    return QuantityChange("failed", "requests that failed", "%", place, 100 * old, 100 * new, limit, verdict)


def explain_changes(
    changes: Sequence[QuantityChange], before: Sequence[ServingResult], after: Sequence[ServingResult]
) -> Iterator[ResultFinding]:
    """Yields what the changes say together, the most telling first; nothing where nothing is worse."""
    by_place: dict[str, dict[str, QuantityChange]] = {}
    for change in changes:
        by_place.setdefault(change.place, {})[change.name] = change
    worst = max(by_place.values(), key=_badness, default={})
    worse = {name: change for name, change in worst.items() if change.verdict == WORSE}
    decoding = next((worst[name] for name in DECODING if name in worst), None)
    ttft = worse.get("ttft")
    if decoding and decoding.name in worse:
        yield _decode_finding(decoding, worse)
    if ttft and not (decoding and decoding.name in worse and ttft.ratio < decoding.ratio**2):
        yield _first_token_finding(ttft, decoding, worst, before, after)
    elif not ttft and not (decoding and decoding.name in worse):
        yield from _whole_request_finding(worse)
    if "failed" in worse:
        failed = worse["failed"]
        yield ResultFinding("bench-requests-fail", f"More requests fail: {failed.text}{_at(failed)}")


def _badness(changes: Mapping[str, QuantityChange]) -> float:
    """Returns how much worse the worst quantity of a load is."""
    return max((each.badness for each in changes.values() if each.verdict == WORSE), default=0.0)


def _decode_finding(decoding: QuantityChange, worse: Mapping[str, QuantityChange]) -> ResultFinding:
    served = f"; {worse['tokens'].text}" if "tokens" in worse else ""
    return ResultFinding(
        "bench-decode-slower", f"Decoding is slower: a token takes {decoding.text}{served}{_at(decoding)}"
    )


def _first_token_finding(
    ttft: QuantityChange,
    decoding: QuantityChange | None,
    all_changes: Mapping[str, QuantityChange],
    before: Sequence[ServingResult],
    after: Sequence[ServingResult],
) -> ResultFinding:
    """Returns whether first tokens that are later mean that requests wait, or that their prompts take longer."""
    token = f" while a token takes {format_time(decoding.after)}" if decoding else ""
    served = all_changes.get("requests")
    fewer = f"; served are {served.text}" if served and served.verdict == WORSE else ""
    loads = [each.load.level for side in (before, after) for each in side[:1]]
    more_load = None not in loads and (loads[1] or 0) > (loads[0] or 0) * (1 + LEAST)
    queues = (
        fewer or more_load or any(each.event == "bench-requests-queue" for one in after for each in find_queue(one))
    )
    said = f"the first token comes after {ttft.text}{token}{fewer}{_at(ttft)}"
    if queues:
        return ResultFinding(QUEUE, f"Requests wait before they are computed: {said}")
    return ResultFinding("bench-first-token-slower", f"First tokens are later: {said}")


def _whole_request_finding(worse: Mapping[str, QuantityChange]) -> Iterator[ResultFinding]:
    """Yields what is worse where neither the first token nor decoding is, or was measured."""
    if change := worse.get("e2e"):
        yield ResultFinding("bench-requests-slower", f"Requests take longer: {change.text}{_at(change)}")
    elif change := worse.get("tokens") or worse.get("requests"):
        yield ResultFinding("bench-throughput-lower", f"Less is served: {change.text}{_at(change)}")


def _at(change: QuantityChange) -> str:
    return f", at {change.place}"
