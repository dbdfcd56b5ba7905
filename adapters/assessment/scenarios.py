"""The simulated corpus: fleets with one fault after another, next to benign events that look similar."""

from collections.abc import Callable, Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from skewscope.adapters.simulator import benign
from skewscope.adapters.simulator.benign import BENIGN_EVENTS
from skewscope.adapters.simulator.effects import FaultEffects
from skewscope.adapters.simulator.emitter import SampleEmitter
from skewscope.adapters.simulator.exporters import PROFILE_PERIODS
from skewscope.adapters.simulator.faults.registry import FaultTarget, choose_target, fault_models, pool_replicas
from skewscope.adapters.simulator.fleet import FleetPlan, SimulatedFleet, build_fleet
from skewscope.adapters.simulator.load import load_trace, synthetic_load
from skewscope.adapters.simulator.simulation import FleetSimulation
from skewscope.engine.ingest.feed import Block, SeriesTable
from skewscope.engine.model.arrays import F64
from skewscope.kb.model import Catalogue

START_TIME = 1_750_000_000.0
WARM_UP = 60.0
"""Seconds of healthy operation at the beginning of a run."""
BASELINE_SECONDS, ONSET_SECONDS = 30, 5
"""Seconds before a fault that serve as baseline of a job's pace, and seconds of the fault that are skipped."""
FAULT_DURATION, FAULT_GAP = 45.0, 60.0
"""Seconds of a fault, and of the gap until the next one."""
BENIGN_INTERVAL = 120.0
"""Seconds between two benign events of a quiet fleet."""
NODES_PER_BENIGN_EVENT = 64
"""Nodes of a quiet fleet per replica that has a benign event at a time."""
TARGET_ATTEMPTS = 20
SHARED_TARGETS = frozenset({"pool", "leaf"})
"""Targets that several jobs share."""
STRENGTHS = {"mild": 0.25, "medium": 0.6, "heavy": 1.0}


EpisodeGroup = Sequence[tuple[str, str]]
"""(condition or benign event, severity) of episodes that begin at about the same time."""


@dataclass(frozen=True, slots=True)
class Episode:
    """An episode of a run: a fault, or a benign event if the condition is empty."""

    condition: str
    severity: str
    strength: float
    at: FaultTarget
    begin: float
    """Seconds after the start."""
    end: float
    event: str = ""
    """Name of the benign event."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run: a fleet and its episodes."""

    name: str
    plan: FleetPlan
    episodes: tuple[Episode, ...]
    lasts: float
    profile: str = "fine"
    without: tuple[str, ...] = ()
    """Missing exporters."""
    trace: Path | None = None
    """Request trace; None for a synthetic load."""


def single_fault_scenarios(
    conditions: Sequence[str], seed: int, *, nodes: int = 64, each: int = 5, strengths: Sequence[str] = ()
) -> list[Scenario]:
    """Returns runs in which every condition occurs at every severity, `each` episodes per run."""
    random = np.random.default_rng(seed)
    requested = [((name, severity),) for name in conditions for severity in strengths or STRENGTHS]
    return _build_scenarios([requested[n] for n in random.permutation(len(requested))], random, nodes, each, "faults")


def fault_pair_scenarios(
    conditions: Sequence[str], seed: int, *, count: int, nodes: int = 64, each: int = 4
) -> list[Scenario]:
    """Returns runs in which two different conditions occur at a time, in different jobs."""
    random = np.random.default_rng(seed)
    names = [name for name in conditions if fault_models()[name].target not in SHARED_TARGETS]
    requested: list[EpisodeGroup] = []
    while len(requested) < count and len(names) > 1:
        a, b = (str(name) for name in random.choice(names, 2, replace=False))
        if set(fault_models()[a].fabrics) & set(fault_models()[b].fabrics):
            requested.append(((a, "medium"), (b, "medium")))
    return _build_scenarios(requested, random, nodes, each, "pairs")


def _build_scenarios(
    wanted: Sequence[EpisodeGroup], random: np.random.Generator, nodes: int, each: int, name: str
) -> list[Scenario]:
    """Returns runs of the wanted episodes, by the fabric on which they occur."""
    by_fabric: dict[str, list[EpisodeGroup]] = {}
    for some in wanted:
        common = [
            f for f in fault_models()[some[0][0]].fabrics if all(f in fault_models()[one].fabrics for one, _ in some)
        ]
        by_fabric.setdefault(common[0], []).append(some)
    found = []
    for fabric, all_ in sorted(by_fabric.items()):
        for n in range(0, len(all_), each):
            plan = FleetPlan(nodes, fabric=fabric, seed=int(random.integers(1 << 30)))
            found.append(replace(build_scenario(plan, all_[n : n + each]), name=f"{name}-{fabric}-{n // each}"))
    return found


def build_scenario(plan: FleetPlan, what: Sequence[EpisodeGroup]) -> Scenario:
    """Returns one run with these conditions or benign events, each at a severity, sequential or concurrent."""
    random = np.random.default_rng(plan.seed)
    fleet, episodes, t = build_fleet(plan), [], WARM_UP
    for some in what:
        taken: set[int] = set()
        ends = t
        for name, severity in some:
            begin = t + float(random.integers(0, 8))
            benign = name in BENIGN_EVENTS
            at = _choose_replica(fleet, random, set()) if benign else _choose_target(name, fleet, random, taken)
            taken.add(at.job)
            condition, event = ("", name) if benign else (name, "")
            episodes.append(Episode(condition, severity, STRENGTHS[severity], at, begin, begin + FAULT_DURATION, event))
            ends = max(ends, begin + FAULT_DURATION)
        t = ends + FAULT_GAP
    names = "-".join(name for some in what for name, _ in some)
    return Scenario(names or "healthy", plan, tuple(episodes), t)


def _choose_target(
    name: str, fleet: SimulatedFleet, random: np.random.Generator, taken: Collection[int]
) -> FaultTarget:
    """Chooses a target for a fault, preferably in a job without a fault."""
    found = choose_target(fault_models()[name], fleet, random)
    for _ in range(TARGET_ATTEMPTS):
        if found.job not in taken:
            break
        found = choose_target(fault_models()[name], fleet, random)
    return found


def _choose_replica(fleet: SimulatedFleet, random: np.random.Generator, besides: AbstractSet[int]) -> FaultTarget:
    """Chooses a replica for a benign event, in a pool without one of `besides`.

    Draining all but one replica of a pool would create a backlog, which is a real fault.
    """
    job = int(random.choice(np.flatnonzero(fleet.is_serving)))
    for _ in range(TARGET_ATTEMPTS):
        if besides.isdisjoint(pool_replicas(fleet, job)):
            break
        job = int(random.choice(np.flatnonzero(fleet.is_serving)))
    made = fleet.jobs[job]
    return FaultTarget("group", made.name, (), made.nodes[0], 0, 0, job, 0, made.nodes)


QUIET_DURATION = WARM_UP + BENIGN_INTERVAL * (len(BENIGN_EVENTS) + 1)
"""Seconds after which a quiet fleet has had every benign event."""


def quiet_scenario(seed: int, *, nodes: int, seconds: float, profile: str = "fine") -> Scenario:
    """Returns a run without faults, with benign events in sequence: as many per node whatever the size."""
    random = np.random.default_rng(seed)
    plan = FleetPlan(nodes, seed=seed)
    fleet, episodes, t = build_fleet(plan), [], WARM_UP
    names = sorted(BENIGN_EVENTS)
    turn = 0
    while t + BENIGN_INTERVAL < seconds:
        name = names[turn % len(names)]
        hit: set[int] = set()
        for _ in range(1 if name in benign.FLEET_WIDE_EVENTS else max(1, nodes // NODES_PER_BENIGN_EVENT)):
            at = _choose_replica(fleet, random, hit)
            hit.add(at.job)
            episodes.append(Episode("", "", float(random.uniform(0.3, 1)), at, t, t + 60, name))
        turn += 1
        t += BENIGN_INTERVAL
    return Scenario(f"quiet-{seed}", plan, tuple(episodes), seconds, profile)


Blocks = Iterator[Block]


def run_scenario(
    scenario: Scenario, catalogue: Catalogue, table: SeriesTable, paces: list[F64] | None = None
) -> tuple[SimulatedFleet, Blocks]:
    """Returns the fleet and its samples by tick; `paces` collects [job] float64 rounds per second of each tick."""
    fleet = build_fleet(scenario.plan)
    random = np.random.default_rng(scenario.plan.seed)
    load = load_trace(scenario.trace, fleet, random) if scenario.trace else synthetic_load(fleet, random)
    world = FleetSimulation(fleet, load, random)
    emitter = SampleEmitter(fleet, catalogue, table, PROFILE_PERIODS[scenario.profile], scenario.without)

    touch = effect_function(scenario)

    def blocks() -> Blocks:
        for _ in range(int(scenario.lasts)):
            world.step(touch)
            if paces is not None:
                paces.append(world.rounds.rate.copy())
            yield emitter.block(world, START_TIME)

    return fleet, blocks()


def lost_round_share(episode: Episode, paces: Sequence[F64]) -> float:
    """Returns the share of its rounds that a job loses to an episode; NaN if it made none before."""
    pace = np.array([one[episode.at.job] for one in paces])
    before = pace[max(int(episode.begin) - BASELINE_SECONDS, 0) : int(episode.begin)].mean()
    during = pace[int(episode.begin) + ONSET_SECONDS : int(episode.end)].mean()
    return float(1 - during / before) if before > 0 else float("nan")


def effect_function(scenario: Scenario) -> Callable[[FaultEffects, FleetSimulation], None]:
    """Returns the function that applies the active faults of a scenario in each second."""

    def touch(push: FaultEffects, world: FleetSimulation) -> None:
        for episode in scenario.episodes:
            if episode.begin <= world.t < episode.end:
                act = fault_models()[episode.condition].apply if episode.condition else BENIGN_EVENTS[episode.event]
                act(push, world, episode.at, episode.strength, world.t - episode.begin)

    return touch
