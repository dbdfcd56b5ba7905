"""The simulated corpus: fleets in which one fault after another comes and goes, beside what only looks like one."""

from collections.abc import Callable, Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from skewscope.adapters.simulator import benign
from skewscope.adapters.simulator.benign import BENIGN_EVENTS
from skewscope.adapters.simulator.effects import F64, FaultEffects
from skewscope.adapters.simulator.emitter import SampleEmitter
from skewscope.adapters.simulator.exporters import PROFILE_PERIODS
from skewscope.adapters.simulator.faults.registry import FaultTarget, choose_target, fault_models, pool_replicas
from skewscope.adapters.simulator.fleet import FleetPlan, SimulatedFleet, build_fleet
from skewscope.adapters.simulator.load import load_trace, synthetic_load
from skewscope.adapters.simulator.simulation import FleetSimulation
from skewscope.engine.ingest.feed import Block, SeriesTable
from skewscope.kb.model import Catalogue

START_TIME = 1_750_000_000.0
WARM_UP = 60.0
"""Seconds of health at the beginning of a run."""
BASELINE_SECONDS, ONSET_SECONDS = 30, 5
"""Seconds before a fault with which a job's pace is compared, and of the fault that are left out."""
FAULT_DURATION, FAULT_GAP = 45.0, 60.0
"""Seconds that a fault stays, and that follow until the next one."""
BENIGN_INTERVAL = 120.0
"""Seconds from one benign event of a quiet fleet to the next."""
NODES_PER_BENIGN_EVENT = 64
"""Nodes of a quiet fleet of which one replica at a time has something benign happen to it."""
TARGET_ATTEMPTS = 20
SHARED_TARGETS = frozenset({"pool", "leaf"})
"""Targets that several jobs share."""
STRENGTHS = {"mild": 0.25, "medium": 0.6, "heavy": 1.0}


EpisodeGroup = Sequence[tuple[str, str]]
"""(condition or benign event, severity) of what begins at about the same time."""


@dataclass(frozen=True, slots=True)
class Episode:
    """Something that happens in a run: a fault, or a benign event where there is no condition."""

    condition: str
    severity: str
    strength: float
    at: FaultTarget
    begin: float
    """Seconds after the start."""
    end: float
    event: str = ""
    """The benign event's name."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run: a fleet, and what befalls it."""

    name: str
    plan: FleetPlan
    episodes: tuple[Episode, ...]
    lasts: float
    profile: str = "fine"
    without: tuple[str, ...] = ()
    """Exporters that are not there."""
    trace: Path | None = None
    """Of requests; None for a made-up load."""


def single_fault_scenarios(
    conditions: Sequence[str], seed: int, *, nodes: int = 64, each: int = 5, strengths: Sequence[str] = ()
) -> list[Scenario]:
    """Runs in which every condition occurs at every severity, `each` episodes to a run."""
    random = np.random.default_rng(seed)
    wanted = [((name, severity),) for name in conditions for severity in strengths or STRENGTHS]
    return _build_scenarios([wanted[n] for n in random.permutation(len(wanted))], random, nodes, each, "faults")


def fault_pair_scenarios(
    conditions: Sequence[str], seed: int, *, count: int, nodes: int = 64, each: int = 4
) -> list[Scenario]:
    """Runs in which two different conditions occur at a time, in different jobs."""
    random = np.random.default_rng(seed)
    names = [name for name in conditions if fault_models()[name].target not in SHARED_TARGETS]
    wanted: list[EpisodeGroup] = []
    while len(wanted) < count and len(names) > 1:
        a, b = (str(name) for name in random.choice(names, 2, replace=False))
        if set(fault_models()[a].fabrics) & set(fault_models()[b].fabrics):
            wanted.append(((a, "medium"), (b, "medium")))
    return _build_scenarios(wanted, random, nodes, each, "pairs")


def _build_scenarios(
    wanted: Sequence[EpisodeGroup], random: np.random.Generator, nodes: int, each: int, name: str
) -> list[Scenario]:
    """Runs of what is wanted, by the fabric on which it occurs."""
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
    """One run with these conditions or benign events, each at a severity, one after another or together."""
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
    """Somebody whom a fault can befall, in a job that has none yet if there is one."""
    found = choose_target(fault_models()[name], fleet, random)
    for _ in range(TARGET_ATTEMPTS):
        if found.job not in taken:
            break
        found = choose_target(fault_models()[name], fleet, random)
    return found


def _choose_replica(fleet: SimulatedFleet, random: np.random.Generator, besides: AbstractSet[int]) -> FaultTarget:
    """A replica to which something benign happens, in a pool where it happens to nobody of `besides`.

    Who drains all but one replica of a pool has made a backlog, and that is worth telling.
    """
    job = int(random.choice(np.flatnonzero(fleet.is_serving)))
    for _ in range(TARGET_ATTEMPTS):
        if besides.isdisjoint(pool_replicas(fleet, job)):
            break
        job = int(random.choice(np.flatnonzero(fleet.is_serving)))
    made = fleet.jobs[job]
    return FaultTarget("group", made.name, (), made.nodes[0], 0, 0, job, 0, made.nodes)


QUIET_DURATION = WARM_UP + BENIGN_INTERVAL * (len(BENIGN_EVENTS) + 1)
"""Seconds in which a quiet fleet has met every benign event."""


def quiet_scenario(seed: int, *, nodes: int, seconds: float, profile: str = "fine") -> Scenario:
    """A run without any fault, with benign events one after another; a large fleet has as many to a node as a small."""
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
    """The fleet of a scenario, and its samples tick by tick; with `paces`, each job's rounds per second go there."""
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
    """Share of its rounds that a job loses to what befalls it; NaN where it made none before."""
    pace = np.array([one[episode.at.job] for one in paces])
    before = pace[max(int(episode.begin) - BASELINE_SECONDS, 0) : int(episode.begin)].mean()
    during = pace[int(episode.begin) + ONSET_SECONDS : int(episode.end)].mean()
    return float(1 - during / before) if before > 0 else float("nan")


def effect_function(scenario: Scenario) -> Callable[[FaultEffects, FleetSimulation], None]:
    """What is wrong in each second of a scenario."""

    def touch(push: FaultEffects, world: FleetSimulation) -> None:
        for episode in scenario.episodes:
            if episode.begin <= world.t < episode.end:
                act = fault_models()[episode.condition].apply if episode.condition else BENIGN_EVENTS[episode.event]
                act(push, world, episode.at, episode.strength, world.t - episode.begin)

    return touch
