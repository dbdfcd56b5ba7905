"""Runs scenarios and recordings through the engine, and pairs reported incidents with labels."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from skewscope.adapters.assessment.scenarios import START_TIME, Scenario, lost_round_share, run_scenario
from skewscope.adapters.assessment.vantages import FULL_VANTAGE, VANTAGES, VantageFilter
from skewscope.adapters.formats.bounds import REPLAY_TIMES
from skewscope.adapters.runtime.processes import map_parallel
from skewscope.adapters.runtime.replay import replay
from skewscope.adapters.runtime.watchdog import bound_work
from skewscope.adapters.simulator.faults.registry import FaultTarget
from skewscope.engine.engine import Engine
from skewscope.engine.incidents.confidence import Calibration, load_calibration, weigh_evidence
from skewscope.engine.incidents.diagnosis import VERDICT_NAMES
from skewscope.engine.incidents.grouping import MIN_CROWD
from skewscope.engine.ingest.feed import Block, SeriesTable, concat_blocks, empty_block
from skewscope.engine.model.arrays import F64
from skewscope.engine.model.incident import LIKELY_CONFIDENCE, Incident
from skewscope.engine.model.topology import Topology, merge_topologies
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, Problem
from skewscope.rules.entity_kinds import GROUP_LIKE
from skewscope.rules.loader import load_strict

T = TypeVar("T")
R = TypeVar("R")

MAX_BYTES = 10_000_000
"""Maximum bytes of a file of labels."""
ANYWHERE = "*"
"""Entity of a label that holds for the whole recording."""


@dataclass(frozen=True, slots=True)
class ReportedIncident:
    """The assessed properties of one incident."""

    condition: str
    name: str
    opened_s: float
    """Seconds after the start."""
    confidence: float
    root: str
    """Condition of the incident that explains it; '' for a root."""
    rule: str
    weight: float = 0.0
    """Weight of its evidence, before calibration."""
    posterior: tuple[tuple[str, float], ...] = ()
    """Probabilities of the conditions that it lists, its own among them, likeliest first."""
    none: float = 0.0
    """Probability that it is none of the catalogue."""
    candidates: tuple[str, ...] = ()
    """Candidate conditions that lack telemetry."""
    impact: float | None = None
    """Stated impact, in terms of `metric`; None where it was not measured."""
    metric: str = ""
    members: tuple[str, ...] = ()
    """Nodes of the affected group or replica."""
    candidate_locations: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Candidates with other locations, and the names of these."""
    is_symptom: bool = False
    also: tuple[str, ...] = ()
    """Names of other entities that it holds for."""
    resolved_s: float = math.inf
    """Seconds after the start; infinite while it fires."""

    @property
    def is_diagnosis(self) -> bool:
        """Returns whether it counts as a diagnosis: a root with at least the confidence of a likely one."""
        return not self.is_symptom and not self.root and self.confidence >= LIKELY_CONFIDENCE


@dataclass(frozen=True, slots=True)
class FaultLabel:
    """What was wrong, where, and when."""

    condition: str
    severity: str
    names: tuple[str, ...]
    """Name of the entity and other accepted names; `ANYWHERE` for all."""
    begin: float
    end: float
    lost_round_share: float = float("nan")
    """Share of its rounds that the job lost, if known."""
    or_else: tuple[str, ...] = ()
    """Other conditions that are as right: what was recorded does not tell them apart."""

    def accepts(self, condition: str) -> bool:
        """Returns whether a condition is right."""
        return condition == self.condition or condition in self.or_else


@dataclass(frozen=True, slots=True)
class AssessmentRun:
    """One run, its labels and its incidents."""

    name: str
    nodes: int
    duration: float
    incidents: tuple[ReportedIncident, ...]
    labels: tuple[FaultLabel, ...]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run."""

    vantage: str = FULL_VANTAGE.name
    """Name of the vantage: the available part of the telemetry."""
    calibration: Calibration | None = None
    """Calibration of confidence; None for the one that comes with Skewscope."""


def run_side_by_side(found: Sequence[Scenario], hows: Sequence[RunOptions]) -> list[list[AssessmentRun]]:
    """Runs scenarios side by side in one engine per option; their name prefixes must differ.

    The simulation runs once, whatever the number of options.
    """
    known = catalogue()
    table = SeriesTable()
    paces: list[list[F64]] = [[] for _ in found]
    playing = [run_scenario(scenario, known, table, own) for scenario, own in zip(found, paces, strict=True)]
    topology = merge_topologies(fleet.topology for fleet, _ in playing)
    watching = [_EngineRun.create(how, topology, table.copy()) for how in hows]
    lasts = max(int(scenario.lasts) for scenario in found)
    for n in range(lasts):
        block = concat_blocks(next(blocks, empty_block()) for _, blocks in playing)
        for watch in watching:
            watch.step(START_TIME + n, block)
    return [
        [_to_run(scenario, watch.incidents, own) for scenario, own in zip(found, paces, strict=True)]
        for watch in watching
    ]


@dataclass(frozen=True)
class _EngineRun:
    """One engine and its vantage."""

    topology: Topology
    table: SeriesTable
    engine: Engine
    vantage_filter: VantageFilter

    @staticmethod
    def create(how: RunOptions, topology: Topology, table: SeriesTable) -> "_EngineRun":
        known = catalogue()
        calibration = how.calibration or load_calibration()
        diagnosis = Engine(load_strict(known).values(), known, topology, calibration=calibration, symptoms=True)
        return _EngineRun(topology, table, diagnosis, VantageFilter(VANTAGES[how.vantage], known, topology))

    def step(self, t: float, block: Block) -> None:
        self.engine.step(t, self.vantage_filter.apply(block, self.table), self.table)

    @property
    def incidents(self) -> tuple[ReportedIncident, ...]:
        return to_reported_incidents(self.engine.list_incidents(), START_TIME, self.topology)


def _to_run(scenario: Scenario, everything: Sequence[ReportedIncident], paces: Sequence[F64]) -> AssessmentRun:
    prefix = scenario.plan.prefix
    own = tuple(one for one in everything if one.name.startswith(prefix) and one.opened_s <= scenario.lasts)
    truths = (
        FaultLabel(e.condition, e.severity, (e.at.name, *e.at.also), e.begin, e.end, lost_round_share(e, paces))
        for e in scenario.episodes
        if e.condition
    )
    return AssessmentRun(scenario.name, scenario.plan.nodes, scenario.lasts, own, tuple(truths))


def to_reported_incidents(
    incidents: Iterable[Incident], start: float, topology: Topology
) -> tuple[ReportedIncident, ...]:
    """Converts incidents to their assessed properties, in order."""
    found = list(incidents)
    condition = {one.id: one.condition for one in found}
    return tuple(
        ReportedIncident(
            one.condition,
            one.name,
            one.opened_at - start,
            one.confidence,
            condition.get(one.root_id, ""),
            one.rule,
            _weight_of_evidence(one),
            one.posterior,
            one.none or 0.0,
            one.candidates,
            one.impact.change,
            one.impact.metric,
            _affected_nodes(one, topology),
            one.elsewhere,
            one.is_symptom,
            one.also,
            math.inf if one.resolved_at is None else one.resolved_at - start,
        )
        for one in found
    )


def _affected_nodes(one: Incident, topology: Topology) -> tuple[str, ...]:
    """Returns the nodes of a group, or those behind the switch whose ports are affected."""
    group = topology.group.get(one.name) if one.kind in GROUP_LIKE else None
    if group:
        return tuple(dict.fromkeys(topology.node_of[member] for member in group.members))
    ports = [topology.port.get(name) for name in (one.name, *one.also)]
    switches = {port.switch if port else "" for port in ports}
    if len(ports) < MIN_CROWD or len(switches) > 1 or "" in switches:
        return ()
    return tuple(node.name for node in topology.nodes if any(port.switch in switches for port in node.ports))


def _weight_of_evidence(one: Incident) -> float:
    """Returns what the evidence of an incident adds; a firing rule has all of its required evidence."""
    items = [*((e, False) for e in one.evidence), *((e, True) for e in one.against)]
    verdicts = np.array([[VERDICTS[e.verdict]] for e, _ in items], np.int8).reshape(len(items), 1)
    return float(weigh_evidence([e.weight for e, _ in items], [against for _, against in items], verdicts)[0])


VERDICTS = {word: verdict for verdict, word in VERDICT_NAMES.items()}


def run_all(
    found: Sequence[Scenario], workers: int, how: RunOptions | None = None, beside_each_other: int = 8
) -> list[AssessmentRun]:
    """Runs all scenarios, in order: several at once in each of several processes."""
    return run_variants(found, workers, [how or RunOptions()], beside_each_other)[0]


def run_variants(
    found: Sequence[Scenario], workers: int, hows: Sequence[RunOptions], beside_each_other: int = 8
) -> list[list[AssessmentRun]]:
    """Runs all scenarios, in order, with each option: several at once in each of several processes."""
    named = [_add_prefix(scenario, f"f{n}.") for n, scenario in enumerate(found)]
    batches = _batches(named, workers, beside_each_other)
    ran = _map_parallel(partial(run_side_by_side, hows=hows), batches, workers)
    by_name = [{one.name: one for batch in ran for one in batch[n]} for n in range(len(hows))]
    return [[names[scenario.name] for scenario in found] for names in by_name]


def _batches(found: Sequence[Scenario], workers: int, most: int) -> list[list[Scenario]]:
    """Returns enough batches for all workers, of scenarios of similar duration; longest first."""
    turns = -(-len(found) // (most * max(workers, 1)))
    size = -(-len(found) // (turns * max(workers, 1))) if found else 1
    order = sorted(found, key=lambda scenario: -scenario.lasts)
    return [order[k : k + size] for k in range(0, len(order), size)]


def _add_prefix(scenario: Scenario, prefix: str) -> Scenario:
    """Returns the scenario with a prefix before every name of its fleet."""
    episodes = tuple(replace(episode, at=_prefix_target(episode.at, prefix)) for episode in scenario.episodes)
    return replace(scenario, plan=replace(scenario.plan, prefix=prefix), episodes=episodes)


def _prefix_target(at: FaultTarget, prefix: str) -> FaultTarget:
    return replace(at, name=f"{prefix}{at.name}", also=tuple(f"{prefix}{name}" for name in at.also))


def replay_all(paths: Sequence[Path], workers: int) -> list[AssessmentRun]:
    """Replays labelled recordings in several processes."""
    return _map_parallel(replay_labelled_recording, paths, workers)


def _map_parallel(work: Callable[[T], R], items: Sequence[T], workers: int) -> list[R]:
    """Applies `work` to each item, in order, in as many processes as are worthwhile."""
    if min(workers, len(items)) <= 1:
        return [work(item) for item in items]
    found = dict(map_parallel(work, items, workers))
    return [found[index] for index in range(len(items))]


def replay_labelled_recording(path: Path, how: RunOptions | None = None) -> AssessmentRun:
    """Replays a labelled recording at a vantage.

    Raises:
        InputError: the labels or the recording cannot be read.
        OverBoundError: reading takes longer, or more memory, than it may.
    """
    start, truths = read_labels(path / "labels.json")
    through = _vantage_filter((how or RunOptions()).vantage)
    with bound_work(str(path), REPLAY_TIMES) as most_seconds:
        outcome = replay(path, through=through, most_seconds=most_seconds)
    nodes = len(outcome.topology.nodes)
    return AssessmentRun(
        path.name, nodes, outcome.duration_s, to_reported_incidents(outcome.incidents, start, outcome.topology), truths
    )


def _vantage_filter(vantage: str) -> Callable[[Topology], Callable[[Block, SeriesTable], Block]]:
    return lambda topology: VantageFilter(VANTAGES[vantage], catalogue(), topology).apply


def read_labels(path: Path) -> tuple[float, tuple[FaultLabel, ...]]:
    """Returns the start of a recording, in seconds since 1970, and its labels.

    Raises:
        InputError: the file has none that can be read.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"{path.stat().st_size} bytes, more than {MAX_BYTES}")
        data = json.loads(path.read_text(encoding="utf-8"))
        start = float(data["start"])
        return start, tuple(_parse_label(one, start) for one in data["labels"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        found = f"no readable labels ({' '.join(str(error).split())[:100]})"
        expected = "JSON with start and labels, each with condition, entity, start and end"
        raise InputError([Problem(str(path), 0, "", found, expected)]) from None


def _parse_label(one: Mapping[str, Any], start: float) -> FaultLabel:
    names = (*_one_or_more(one["entity"]), *(str(name) for name in one.get("also", ())))
    condition, *others = _one_or_more(one["condition"])
    begin, end = float(one["start"]) - start, float(one["end"]) - start
    return FaultLabel(condition, str(one.get("severity", "")), names, begin, end, or_else=tuple(others))


def _one_or_more(value: object) -> tuple[str, ...]:
    """Returns a text, or the texts of a list that is not empty.

    Raises:
        ValueError: it is neither.
    """
    found = tuple(value) if isinstance(value, list) else (value,)
    if not found or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{value!r:.60}: neither a name nor a list of names")
    return found
