"""The whole assessment: faults alone, in pairs, in quiet fleets, with telemetry taken away, and recordings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from skewscope.adapters.assessment.runner import AssessmentRun, RunOptions, replay_all, run_all, run_variants
from skewscope.adapters.assessment.scenarios import (
    QUIET_DURATION,
    Scenario,
    fault_pair_scenarios,
    quiet_scenario,
    single_fault_scenarios,
)
from skewscope.adapters.assessment.score import AssessmentScore, calibration_samples, score_runs
from skewscope.adapters.assessment.vantages import FULL_VANTAGE, VANTAGES
from skewscope.engine.attribution.calibration import Calibration, fit_calibration, fit_scale
from skewscope.engine.attribution.causes import CauseGraph
from skewscope.engine.attribution.confidence import to_log_odds
from skewscope.kb.loader import catalogue

DAY = 86400.0
FEW_CONDITIONS, VANTAGE_FLEETS = 10, 8
"""With less telemetry only a third of the conditions are told again, unless they are so few; in so many fleets."""
FLEETS_PER_ENGINE = 16
"""So many fleets at most are watched by one engine: the more, the cheaper each; a few GiB are enough."""
MANY_NODE_DAYS, LARGE_FLEET = 20.0, 2048
"""From so many quiet node-days on fleets are so large: a node of a large fleet is cheaper to judge."""
CONDITIONS_PER_PAIR = 3
"""One pair of faults for so many conditions."""
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class AssessmentOptions:
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
    with_pairs: bool = True
    """Whether faults also come in pairs."""


@dataclass(frozen=True)
class Assessment:
    """How everything fared."""

    options: AssessmentOptions
    single: AssessmentScore
    """Faults one after another, and quiet fleets."""
    pairs: AssessmentScore
    by_vantage: Mapping[str, AssessmentScore] = field(default_factory=dict)
    """Medium faults of a third of the conditions, by what of the telemetry was there."""
    recordings: AssessmentScore | None = None


def assess(order: AssessmentOptions, recordings: Sequence[Path] = (), tell: Progress | None = None) -> Assessment:
    """Runs what is ordered. Recordings are judged with everything that they hold."""
    say = tell or (lambda _what, _share: None)
    faulty = single_fault_scenarios(order.conditions, order.seed, nodes=order.nodes, strengths=order.severities)
    two = fault_pair_scenarios(
        order.conditions, order.seed + 1, count=len(order.conditions) // CONDITIONS_PER_PAIR, nodes=order.nodes
    )
    two = two if order.with_pairs else []
    say("faults, alone and in pairs", 0.0)
    still = _quiet_scenarios(order, faulty)
    ran = run_all([*faulty, *two], order.workers, None, FLEETS_PER_ENGINE)
    say("quiet fleets", 0.25)
    alone, together = [*ran[: len(faulty)], *_run_quiet(order, still)], ran[len(faulty) :]
    third = order.conditions[order.seed % 3 :: 3] if len(order.conditions) > FEW_CONDITIONS else order.conditions
    each = -(-len(third) // (VANTAGE_FLEETS * order.workers))
    some = single_fault_scenarios(third, order.seed + 2, nodes=order.nodes, each=each, strengths=("medium",))
    say("telemetry taken away", 0.6)
    ways = run_variants(some, order.workers, [RunOptions(name) for name in order.vantages]) if order.vantages else []
    by_vantage = {name: score_runs(runs) for name, runs in zip(order.vantages, ways, strict=True)}
    say("recordings", 0.9)
    found = score_runs(replay_all(recordings, order.workers)) if recordings else None
    say("done", 1.0)
    return Assessment(order, score_runs(alone), score_runs(together), by_vantage, found)


def _quiet_scenarios(order: AssessmentOptions, faulty: Sequence[Scenario]) -> list[Scenario]:
    """Quiet fleets for as long as is asked for, each until all that is benign has happened; every third is read seldom.

    Many node-days are those of large fleets.
    """
    wanted, nodes = sum(s.lasts for s in faulty) * order.nodes, order.nodes
    if order.quiet_node_days is not None:
        wanted = order.quiet_node_days * DAY
        nodes = LARGE_FLEET if order.quiet_node_days >= MANY_NODE_DAYS else nodes
    count = max(1, round(wanted / (QUIET_DURATION * nodes))) if wanted else 0
    seconds = wanted / (count * nodes) if count else 0.0
    profiles = ["usual" if n % 3 == 2 else "fine" for n in range(count)]
    seeds = range(order.seed * 1000, order.seed * 1000 + count)
    return [
        quiet_scenario(seed, nodes=nodes, seconds=ceil(seconds), profile=profile)
        for seed, profile in zip(seeds, profiles, strict=True)
    ]


def calibrate(order: AssessmentOptions, tell: Progress | None = None) -> Calibration:
    """What confidence is worth on the faults and quiet fleets of an order: first each rule's, then that of roots."""
    say = tell or (lambda _what, _share: None)
    say("what each rule is worth", 0.0)
    first = fit_calibration(calibration_samples(_training_runs(order, None), CauseGraph(catalogue())))
    say("what a root is worth", 0.5)
    sure = score_runs(
        _training_runs(AssessmentOptions(order.conditions, order.severities, order.seed + 500), first)
    ).root_outcomes
    shift, scale = fit_scale([to_log_odds(confidence) for confidence, _ in sure], [right for _, right in sure])
    nodes, count = order.nodes, len(order.conditions)
    of = f"simulated fleets of {nodes} nodes, {count} conditions, seeds {order.seed} and {order.seed + 500}"
    say("done", 1.0)
    return Calibration(first.shift, first.scale, first.rules, shift, scale, of)


def _training_runs(order: AssessmentOptions, worth: Calibration | None) -> list[AssessmentRun]:
    faulty = single_fault_scenarios(order.conditions, order.seed, nodes=order.nodes, strengths=order.severities)
    how = RunOptions(FULL_VANTAGE.name, worth or Calibration())
    return [
        *run_all(faulty, order.workers, how, FLEETS_PER_ENGINE),
        *_run_quiet(order, _quiet_scenarios(order, faulty), how),
    ]


def _run_quiet(
    order: AssessmentOptions, still: Sequence[Scenario], how: RunOptions | None = None
) -> list[AssessmentRun]:
    """Quiet fleets, fewer side by side the larger they are."""
    if not still:
        return []
    nodes = still[0].plan.nodes
    return run_all(still, order.workers, how, max(1, VANTAGE_FLEETS * order.nodes // nodes))


ALL_VANTAGES = tuple(VANTAGES)
