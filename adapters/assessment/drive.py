"""Scenarios and recordings through the engine: what it told, beside what was true."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from skewscope.adapters.assessment.corpus import START, Scenario, lost, played
from skewscope.adapters.assessment.vantages import FULL, VANTAGES, Seen
from skewscope.adapters.processes import spread
from skewscope.adapters.replay import replay
from skewscope.adapters.simulator.faults.registry import Target
from skewscope.engine.attribution import CROWD
from skewscope.engine.calibration import Calibration, calibration
from skewscope.engine.cases import WORDS
from skewscope.engine.confidence import log_odds
from skewscope.engine.diagnosis import Diagnosis
from skewscope.engine.feed import F64, Block, SeriesTable, empty, together
from skewscope.engine.incident import LIKELY, Incident
from skewscope.engine.incidents import as_contract
from skewscope.engine.topology import Topology, beside
from skewscope.kb.load import catalogue
from skewscope.kb.problems import InputError, Problem
from skewscope.rules.kinds import GROUP_LIKE
from skewscope.rules.load import rules

T = TypeVar("T")
R = TypeVar("R")

MOST_BYTES = 10_000_000
"""Of a file of labels."""
ANYWHERE = "*"
"""The entity of a label that is true of the whole recording."""


@dataclass(frozen=True, slots=True)
class Told:
    """One incident, as far as it is judged."""

    condition: str
    name: str
    opened: float
    """Seconds after the start."""
    confidence: float
    root: str
    """The condition of what explains it; '' for a root."""
    rule: str
    log_odds: float = 0.0
    """By the weights of its evidence alone."""
    competing: tuple[str, ...] = ()
    """Other conditions that it may be, likeliest first."""
    candidates: tuple[str, ...] = ()
    """Conditions that it may be as well, and that nothing there could judge."""
    impact: float = float("nan")
    """What it says that it costs, of `metric`."""
    metric: str = ""
    members: tuple[str, ...] = ()
    """Nodes of the group or replica that it is told on."""
    elsewhere: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Candidates that may be apart from there, and the names of where."""

    @property
    def diagnosis(self) -> bool:
        """Whether it is told as one: a root, and likely enough to be more than a suspicion."""
        return not self.root and self.confidence >= LIKELY


@dataclass(frozen=True, slots=True)
class Truth:
    """What was wrong, where, and when."""

    condition: str
    severity: str
    names: tuple[str, ...]
    """The entity's name, and others under which it is rightly told; `ANYWHERE` for all."""
    begin: float
    end: float
    lost: float = float("nan")
    """Share of its rounds that the job lost to it, where that is known."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run and what was told in it."""

    name: str
    nodes: int
    lasts: float
    told: tuple[Told, ...]
    truths: tuple[Truth, ...]


@dataclass(frozen=True, slots=True)
class How:
    """How runs are judged."""

    vantage: str = FULL.name
    """The name of what of the telemetry is there."""
    worth: Calibration | None = None
    """What confidence is worth; None for what comes with Skewscope."""


def run(found: Sequence[Scenario], hows: Sequence[How]) -> list[list[Run]]:
    """What the engine makes of scenarios that are watched side by side, each way; their prefixes differ.

    What happens is played once, however many ways it is looked at.
    """
    known = catalogue()
    table = SeriesTable()
    paces: list[list[F64]] = [[] for _ in found]
    playing = [played(scenario, known, table, own) for scenario, own in zip(found, paces, strict=True)]
    topology = beside(fleet.topology for fleet, _ in playing)
    watching = [_Watch.of(how, topology, table.copy()) for how in hows]
    lasts = max(int(scenario.lasts) for scenario in found)
    for n in range(lasts):
        block = together(next(blocks, empty()) for _, blocks in playing)
        for watch in watching:
            watch.step(START + n, block)
    return [[_own(scenario, watch.told, own) for scenario, own in zip(found, paces, strict=True)] for watch in watching]


@dataclass(frozen=True)
class _Watch:
    """One engine, and what it sees of what happens."""

    topology: Topology
    table: SeriesTable
    diagnosis: Diagnosis
    seen: Seen

    @staticmethod
    def of(how: How, topology: Topology, table: SeriesTable) -> "_Watch":
        known = catalogue()
        diagnosis = Diagnosis(rules(known).values(), known, topology, worth=how.worth or calibration())
        return _Watch(topology, table, diagnosis, Seen(VANTAGES[how.vantage], known, topology))

    def step(self, t: float, block: Block) -> None:
        self.diagnosis.step(t, self.seen.of(block, self.table), self.table)

    @property
    def told(self) -> tuple[Told, ...]:
        return told(as_contract(self.diagnosis.incidents, ""), START, self.topology)


def _own(scenario: Scenario, everything: Sequence[Told], paces: Sequence[F64]) -> Run:
    prefix = scenario.plan.prefix
    own = tuple(one for one in everything if one.name.startswith(prefix) and one.opened <= scenario.lasts)
    truths = (
        Truth(e.condition, e.severity, (e.at.name, *e.at.also), e.begin, e.end, lost(e, paces))
        for e in scenario.episodes
        if e.condition
    )
    return Run(scenario.name, scenario.plan.nodes, scenario.lasts, own, tuple(truths))


def told(incidents: Iterable[Incident], start: float, topology: Topology) -> tuple[Told, ...]:
    """What is judged of some incidents, in their order."""
    found = list(incidents)
    condition = {one.id: one.condition for one in found}
    return tuple(
        Told(
            one.condition,
            one.name,
            one.opened_at - start,
            one.confidence,
            condition.get(one.explained_by or "", ""),
            one.rule,
            _by_weights(one),
            tuple(rival.condition for rival in one.competing),
            one.candidates,
            float("nan") if one.impact.change is None else one.impact.change,
            one.impact.metric,
            _members(one, topology),
            one.elsewhere,
        )
        for one in found
    )


def _members(one: Incident, topology: Topology) -> tuple[str, ...]:
    """The nodes of a group, or those behind the switch on which several ports suffer."""
    group = topology.group.get(one.name) if one.kind in GROUP_LIKE else None
    if group:
        return tuple(dict.fromkeys(topology.node_of[member] for member in group.members))
    ports = [topology.port.get(name) for name in (one.name, *one.also)]
    switches = {port.switch if port else "" for port in ports}
    if len(ports) < CROWD or len(switches) > 1 or "" in switches:
        return ()
    return tuple(node.name for node in topology.nodes if any(port.switch in switches for port in node.ports))


def _by_weights(one: Incident) -> float:
    """The log-odds of an incident by its evidence; what has fired has all that its rule requires."""
    items = [*((e, False) for e in one.evidence), *((e, True) for e in one.against)]
    verdicts = [VERDICTS[e.verdict] for e, _ in items]
    return log_odds([e.weight for e, _ in items], [against for _, against in items], verdicts, one.coverage)


VERDICTS = {word: verdict for verdict, word in WORDS.items()}


def run_all(found: Sequence[Scenario], workers: int, how: How | None = None, beside_each_other: int = 8) -> list[Run]:
    """All scenarios, in order: several at once in each of several processes."""
    return run_each_way(found, workers, [how or How()], beside_each_other)[0]


def run_each_way(
    found: Sequence[Scenario], workers: int, hows: Sequence[How], beside_each_other: int = 8
) -> list[list[Run]]:
    """All scenarios, in order, each way: several at once in each of several processes."""
    named = [_renamed(scenario, f"f{n}.") for n, scenario in enumerate(found)]
    batches = _batches(named, workers, beside_each_other)
    ran = _in_turn(partial(run, hows=hows), batches, workers)
    by_name = [{one.name: one for batch in ran for one in batch[n]} for n in range(len(hows))]
    return [[names[scenario.name] for scenario in found] for names in by_name]


def _batches(found: Sequence[Scenario], workers: int, most: int) -> list[list[Scenario]]:
    """As many batches as keep all workers busy, of scenarios that last about as long; longest first."""
    turns = -(-len(found) // (most * max(workers, 1)))
    size = -(-len(found) // (turns * max(workers, 1))) if found else 1
    order = sorted(found, key=lambda scenario: -scenario.lasts)
    return [order[k : k + size] for k in range(0, len(order), size)]


def _renamed(scenario: Scenario, prefix: str) -> Scenario:
    """The same scenario in a fleet whose every name begins with a prefix."""
    episodes = tuple(replace(episode, at=_prefixed(episode.at, prefix)) for episode in scenario.episodes)
    return replace(scenario, plan=replace(scenario.plan, prefix=prefix), episodes=episodes)


def _prefixed(at: Target, prefix: str) -> Target:
    return replace(at, name=f"{prefix}{at.name}", also=tuple(f"{prefix}{name}" for name in at.also))


def recorded_all(paths: Sequence[Path], workers: int) -> list[Run]:
    """Labelled recordings, replayed in several processes."""
    return _in_turn(recorded, paths, workers)


def _in_turn(work: Callable[[T], R], items: Sequence[T], workers: int) -> list[R]:
    """What `work` gives for each item, in order, in as many processes as that is worth."""
    if min(workers, len(items)) <= 1:
        return [work(item) for item in items]
    found = dict(spread(work, items, workers))
    return [found[index] for index in range(len(items))]


def recorded(path: Path, how: How | None = None) -> Run:
    """A labelled recording, replayed with what of it is there.

    Raises:
        InputError: its labels cannot be read, or the recording cannot.
    """
    start, truths = _labels(path / "labels.json")
    outcome = replay(path, through=_through((how or How()).vantage))
    nodes = len(outcome.topology.nodes)
    return Run(path.name, nodes, outcome.duration_s, told(outcome.incidents, start, outcome.topology), truths)


def _through(vantage: str) -> Callable[[Topology], Callable[[Block, SeriesTable], Block]]:
    return lambda topology: Seen(VANTAGES[vantage], catalogue(), topology).of


def _labels(path: Path) -> tuple[float, tuple[Truth, ...]]:
    """When a recording starts, and what was wrong in it."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"{path.stat().st_size} bytes, more than {MOST_BYTES}")
        data = json.loads(path.read_text(encoding="utf-8"))
        start = float(data["start"])
        return start, tuple(_truth(one, start) for one in data["labels"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        found = f"no readable labels ({' '.join(str(error).split())[:100]})"
        expected = "JSON with start and labels, each with condition, entity, start and end"
        raise InputError([Problem(str(path), 0, "", found, expected)]) from None


def _truth(one: Mapping[str, Any], start: float) -> Truth:
    names = tuple(str(name) for name in (one["entity"], *one.get("also", ())))
    begin, end = float(one["start"]) - start, float(one["end"]) - start
    return Truth(str(one["condition"]), str(one.get("severity", "")), names, begin, end)
