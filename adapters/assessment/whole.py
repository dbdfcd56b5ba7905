"""The whole assessment: faults alone, in pairs, in quiet fleets, with telemetry taken away, and recordings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from skewscope.adapters.assessment.corpus import QUIET, Scenario, pairs, quiet, scenarios
from skewscope.adapters.assessment.drive import How, Run, recorded_all, run_all, run_each_way
from skewscope.adapters.assessment.score import Score, heard, scored
from skewscope.adapters.assessment.vantages import FULL, VANTAGES
from skewscope.engine.attribution import Causes
from skewscope.engine.calibration import Calibration, fitted, scaled
from skewscope.engine.confidence import to_log_odds
from skewscope.kb.load import catalogue

DAY = 86400.0
FEW, AT_ONCE = 10, 8
"""With less telemetry only a third of the conditions are told again, unless they are so few; in so many fleets."""
SIDE_BY_SIDE = 16
"""So many fleets at most are watched by one engine: the more, the cheaper each; a few GiB are enough."""
MANY, LARGE = 20.0, 2048
"""From so many quiet node-days on fleets are so large: a node of a large fleet is cheaper to judge."""
PAIRS_TO_EACH = 3
"""One pair of faults for so many conditions."""
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be assessed."""

    conditions: tuple[str, ...]
    severities: tuple[str, ...] = ()
    """None: all."""
    seed: int = 1
    nodes: int = 64
    workers: int = 2
    quiet_node_days: float | None = None
    """Of healthy and benign running; None: as long as all faults together."""
    vantages: tuple[str, ...] = ()
    """With what of the telemetry the faults are told again."""
    together: bool = True
    """Whether faults also come in pairs."""


@dataclass(frozen=True)
class Assessment:
    """How everything fared."""

    order: Order
    alone: Score
    """Faults one after another, and quiet fleets."""
    pairs: Score
    by_vantage: Mapping[str, Score] = field(default_factory=dict)
    """Medium faults of a third of the conditions, by what of the telemetry was there."""
    recorded: Score | None = None


def assessed(order: Order, recordings: Sequence[Path] = (), tell: Progress | None = None) -> Assessment:
    """Runs what is ordered. Recordings are judged with everything that they hold."""
    say = tell or (lambda _what, _share: None)
    faulty = scenarios(order.conditions, order.seed, nodes=order.nodes, strengths=order.severities)
    two = pairs(order.conditions, order.seed + 1, count=len(order.conditions) // PAIRS_TO_EACH, nodes=order.nodes)
    two = two if order.together else []
    say("faults, alone and in pairs", 0.0)
    still = _still(order, faulty)
    ran = run_all([*faulty, *two], order.workers, None, SIDE_BY_SIDE)
    say("quiet fleets", 0.25)
    alone, together = [*ran[: len(faulty)], *_quiet(order, still)], ran[len(faulty) :]
    third = order.conditions[order.seed % 3 :: 3] if len(order.conditions) > FEW else order.conditions
    each = -(-len(third) // (AT_ONCE * order.workers))
    some = scenarios(third, order.seed + 2, nodes=order.nodes, each=each, strengths=("medium",))
    say("telemetry taken away", 0.6)
    ways = run_each_way(some, order.workers, [How(name) for name in order.vantages]) if order.vantages else []
    by_vantage = {name: scored(runs) for name, runs in zip(order.vantages, ways, strict=True)}
    say("recordings", 0.9)
    found = scored(recorded_all(recordings, order.workers)) if recordings else None
    say("done", 1.0)
    return Assessment(order, scored(alone), scored(together), by_vantage, found)


def _still(order: Order, faulty: Sequence[Scenario]) -> list[Scenario]:
    """Quiet fleets for as long as is asked for, each until all that is benign has happened; every third is read seldom.

    Many node-days are those of large fleets.
    """
    wanted, nodes = sum(s.lasts for s in faulty) * order.nodes, order.nodes
    if order.quiet_node_days is not None:
        wanted = order.quiet_node_days * DAY
        nodes = LARGE if order.quiet_node_days >= MANY else nodes
    count = max(1, round(wanted / (QUIET * nodes))) if wanted else 0
    seconds = wanted / (count * nodes) if count else 0.0
    profiles = ["usual" if n % 3 == 2 else "fine" for n in range(count)]
    seeds = range(order.seed * 1000, order.seed * 1000 + count)
    return [
        quiet(seed, nodes=nodes, seconds=ceil(seconds), profile=profile)
        for seed, profile in zip(seeds, profiles, strict=True)
    ]


def calibrated(order: Order, tell: Progress | None = None) -> Calibration:
    """What confidence is worth on the faults and quiet fleets of an order: first each rule's, then that of roots."""
    say = tell or (lambda _what, _share: None)
    say("what each rule is worth", 0.0)
    first = fitted(heard(_training(order, None), Causes(catalogue())))
    say("what a root is worth", 0.5)
    sure = scored(_training(Order(order.conditions, order.severities, order.seed + 500), first)).sure
    shift, scale = scaled([to_log_odds(confidence) for confidence, _ in sure], [right for _, right in sure])
    nodes, count = order.nodes, len(order.conditions)
    of = f"simulated fleets of {nodes} nodes, {count} conditions, seeds {order.seed} and {order.seed + 500}"
    say("done", 1.0)
    return Calibration(first.shift, first.scale, first.rules, shift, scale, of)


def _training(order: Order, worth: Calibration | None) -> list[Run]:
    faulty = scenarios(order.conditions, order.seed, nodes=order.nodes, strengths=order.severities)
    how = How(FULL.name, worth or Calibration())
    return [*run_all(faulty, order.workers, how, SIDE_BY_SIDE), *_quiet(order, _still(order, faulty), how)]


def _quiet(order: Order, still: Sequence[Scenario], how: How | None = None) -> list[Run]:
    """Quiet fleets, fewer side by side the larger they are."""
    if not still:
        return []
    nodes = still[0].plan.nodes
    return run_all(still, order.workers, how, max(1, AT_ONCE * order.nodes // nodes))


EVERY_VANTAGE = tuple(VANTAGES)
