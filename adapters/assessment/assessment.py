"""The whole assessment: single faults, fault pairs, quiet fleets, reduced telemetry, and recordings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path

from skewscope.adapters.assessment.calibration_fit import fit_calibration
from skewscope.adapters.assessment.reliability import RootSample, fit_posterior, root_samples
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
from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.incidents.confidence import Calibration, load_calibration
from skewscope.kb.loader import catalogue

DAY = 86400.0
FEW_CONDITIONS, VANTAGE_FLEETS = 10, 8
"""With reduced telemetry only a third of the conditions is run, unless there are fewer; number of fleets."""
FLEETS_PER_ENGINE = 16
"""Maximum fleets per engine: the more, the cheaper each; limited by a few GiB of memory."""
MANY_NODE_DAYS, LARGE_FLEET = 20.0, 2048
"""Quiet node-days from which on large fleets are used, and their size: a node of a large fleet is cheaper."""
CONDITIONS_PER_PAIR = 3
"""Conditions per pair of faults."""
SIMULATED = "simulated"
"""Origin of generated telemetry."""
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class AssessmentOptions:
    """Options of an assessment."""

    conditions: tuple[str, ...]
    severities: tuple[str, ...] = ()
    """Empty: all."""
    seed: int = 1
    nodes: int = 64
    workers: int = 2
    quiet_node_days: float | None = None
    """Node-days of healthy and benign operation; None: as long as all faults together."""
    vantages: tuple[str, ...] = ()
    """Vantages for which the faults are run again."""
    with_pairs: bool = True
    """Whether fault pairs are run too."""


@dataclass(frozen=True)
class Assessment:
    """The result of an assessment."""

    options: AssessmentOptions
    single: AssessmentScore
    """Single faults and quiet fleets."""
    pairs: AssessmentScore
    by_vantage: Mapping[str, AssessmentScore] = field(default_factory=dict)
    """Medium faults of a third of the conditions, by vantage."""
    recordings: AssessmentScore | None = None


def assess(order: AssessmentOptions, recordings: Sequence[Path] = (), tell: Progress | None = None) -> Assessment:
    """Runs an assessment. Recordings are replayed with all of their telemetry."""
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
    """Returns quiet fleets of the requested total duration, each with every benign event; a third has a coarse profile.

    Many node-days use large fleets.
    """
    requested, nodes = sum(s.lasts for s in faulty) * order.nodes, order.nodes
    if order.quiet_node_days is not None:
        requested = order.quiet_node_days * DAY
        nodes = LARGE_FLEET if order.quiet_node_days >= MANY_NODE_DAYS else nodes
    count = max(1, round(requested / (QUIET_DURATION * nodes))) if requested else 0
    seconds = requested / (count * nodes) if count else 0.0
    profiles = ["usual" if n % 3 == 2 else "fine" for n in range(count)]
    seeds = range(order.seed * 1000, order.seed * 1000 + count)
    return [
        quiet_scenario(seed, nodes=nodes, seconds=ceil(seconds), profile=profile)
        for seed, profile in zip(seeds, profiles, strict=True)
    ]


def calibrate(
    order: AssessmentOptions, recordings: Sequence[Path] = (), tell: Progress | None = None
) -> tuple[Calibration, dict[str, list[RootSample]]]:
    """Fits confidence to simulated faults and quiet fleets, and to labelled recordings.

    First the biases of rules, on the simulated ones alone; then the scaling of distributions, on other seeds of these
    and on the recordings. Returns the calibration, and the samples of its second step by origin.
    """
    say = tell or (lambda _what, _share: None)
    say("calibration of rules", 0.0)
    first = fit_calibration(calibration_samples(_training_runs(order, None), CauseGraph(catalogue())))
    say("calibration of distributions", 0.4)
    others = AssessmentOptions(order.conditions, order.severities, order.seed + 500)
    samples = {SIMULATED: list(root_samples(_training_runs(others, first), first))}
    say("recordings", 0.8)
    for path, run in zip(recordings, replay_all(recordings, order.workers), strict=True):
        samples.setdefault(origin_of(path), []).extend(root_samples([run], load_calibration()))
    nodes, count = order.nodes, len(order.conditions)
    of = f"simulated fleets of {nodes} nodes, {count} conditions, seeds {order.seed} and {order.seed + 500}"
    of += f"; {len(recordings)} recordings of {len(samples) - 1} origins" if recordings else ""
    say("done", 1.0)
    return replace(fit_posterior(samples, first), of=of), samples


def origin_of(path: Path) -> str:
    """Returns the origin of a recording: its name up to the first '-', in its folder."""
    return f"{path.resolve().parent.name}/{path.resolve().name.partition('-')[0]}"


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
    """Runs quiet fleets; the larger they are, the fewer share an engine."""
    if not still:
        return []
    nodes = still[0].plan.nodes
    return run_all(still, order.workers, how, max(1, VANTAGE_FLEETS * order.nodes // nodes))


ALL_VANTAGES = tuple(VANTAGES)
