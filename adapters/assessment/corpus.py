"""The simulated corpus: fleets in which one fault after another comes and goes, beside what only looks like one."""

from collections.abc import Callable, Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from skewscope.adapters.simulator import benign
from skewscope.adapters.simulator.benign import EVENTS
from skewscope.adapters.simulator.emit import Emitter
from skewscope.adapters.simulator.exporters import PERIODS
from skewscope.adapters.simulator.faults.registry import Target, alike, faults, target
from skewscope.adapters.simulator.fleet import Fleet, Plan, build
from skewscope.adapters.simulator.load import made_up, of_trace
from skewscope.adapters.simulator.push import F64, Push
from skewscope.adapters.simulator.world import World
from skewscope.engine.feed import Block, SeriesTable
from skewscope.kb.model import Catalogue

START = 1_750_000_000.0
SETTLING = 60.0
"""Seconds of health at the beginning of a run."""
BEFORE, AT_FIRST = 30, 5
"""Seconds before a fault with which a job's pace is compared, and of the fault that are left out."""
LASTS, BETWEEN = 45.0, 60.0
"""Seconds that a fault stays, and that follow until the next one."""
EACH = 120.0
"""Seconds from one benign event of a quiet fleet to the next."""
PATCH = 64
"""Nodes of a quiet fleet of which one replica at a time has something benign happen to it."""
TRIES = 20
EVERYWHERE = frozenset({"pool", "leaf"})
"""Targets that several jobs share."""
STRENGTHS = {"mild": 0.25, "medium": 0.6, "heavy": 1.0}


Together = Sequence[tuple[str, str]]
"""(condition or benign event, severity) of what begins at about the same time."""


@dataclass(frozen=True, slots=True)
class Episode:
    """Something that happens in a run: a fault, or a benign event where there is no condition."""

    condition: str
    severity: str
    strength: float
    at: Target
    begin: float
    """Seconds after the start."""
    end: float
    event: str = ""
    """The benign event's name."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run: a fleet, and what befalls it."""

    name: str
    plan: Plan
    episodes: tuple[Episode, ...]
    lasts: float
    profile: str = "fine"
    without: tuple[str, ...] = ()
    """Exporters that are not there."""
    trace: Path | None = None
    """Of requests; None for a made-up load."""


def scenarios(
    conditions: Sequence[str], seed: int, *, nodes: int = 64, each: int = 5, strengths: Sequence[str] = ()
) -> list[Scenario]:
    """Runs in which every condition occurs at every severity, `each` episodes to a run."""
    random = np.random.default_rng(seed)
    wanted = [((name, severity),) for name in conditions for severity in strengths or STRENGTHS]
    return _runs([wanted[n] for n in random.permutation(len(wanted))], random, nodes, each, "faults")


def pairs(conditions: Sequence[str], seed: int, *, count: int, nodes: int = 64, each: int = 4) -> list[Scenario]:
    """Runs in which two different conditions occur at a time, in different jobs."""
    random = np.random.default_rng(seed)
    names = [name for name in conditions if faults()[name].target not in EVERYWHERE]
    wanted: list[Together] = []
    while len(wanted) < count and len(names) > 1:
        a, b = (str(name) for name in random.choice(names, 2, replace=False))
        if set(faults()[a].fabrics) & set(faults()[b].fabrics):
            wanted.append(((a, "medium"), (b, "medium")))
    return _runs(wanted, random, nodes, each, "pairs")


def _runs(wanted: Sequence[Together], random: np.random.Generator, nodes: int, each: int, name: str) -> list[Scenario]:
    """Runs of what is wanted, by the fabric on which it occurs."""
    by_fabric: dict[str, list[Together]] = {}
    for some in wanted:
        common = [f for f in faults()[some[0][0]].fabrics if all(f in faults()[one].fabrics for one, _ in some)]
        by_fabric.setdefault(common[0], []).append(some)
    found = []
    for fabric, all_ in sorted(by_fabric.items()):
        for n in range(0, len(all_), each):
            plan = Plan(nodes, fabric=fabric, seed=int(random.integers(1 << 30)))
            found.append(replace(arranged(plan, all_[n : n + each]), name=f"{name}-{fabric}-{n // each}"))
    return found


def arranged(plan: Plan, what: Sequence[Together]) -> Scenario:
    """One run with these conditions or benign events, each at a severity, one after another or together."""
    random = np.random.default_rng(plan.seed)
    fleet, episodes, t = build(plan), [], SETTLING
    for some in what:
        taken: set[int] = set()
        ends = t
        for name, severity in some:
            begin = t + float(random.integers(0, 8))
            benign = name in EVENTS
            at = _somebody(fleet, random, set()) if benign else _elsewhere(name, fleet, random, taken)
            taken.add(at.job)
            condition, event = ("", name) if benign else (name, "")
            episodes.append(Episode(condition, severity, STRENGTHS[severity], at, begin, begin + LASTS, event))
            ends = max(ends, begin + LASTS)
        t = ends + BETWEEN
    names = "-".join(name for some in what for name, _ in some)
    return Scenario(names or "healthy", plan, tuple(episodes), t)


def _elsewhere(name: str, fleet: Fleet, random: np.random.Generator, taken: Collection[int]) -> Target:
    """Somebody whom a fault can befall, in a job that has none yet if there is one."""
    found = target(faults()[name], fleet, random)
    for _ in range(TRIES):
        if found.job not in taken:
            break
        found = target(faults()[name], fleet, random)
    return found


def _somebody(fleet: Fleet, random: np.random.Generator, besides: AbstractSet[int]) -> Target:
    """A replica to which something benign happens, in a pool where it happens to nobody of `besides`.

    Who drains all but one replica of a pool has made a backlog, and that is worth telling.
    """
    job = int(random.choice(np.flatnonzero(fleet.serving)))
    for _ in range(TRIES):
        if besides.isdisjoint(alike(fleet, job)):
            break
        job = int(random.choice(np.flatnonzero(fleet.serving)))
    made = fleet.jobs[job]
    return Target("group", made.name, (), made.nodes[0], 0, 0, job, 0, made.nodes)


QUIET = SETTLING + EACH * (len(EVENTS) + 1)
"""Seconds in which a quiet fleet has met every benign event."""


def quiet(seed: int, *, nodes: int, seconds: float, profile: str = "fine") -> Scenario:
    """A run without any fault, with benign events one after another; a large fleet has as many to a node as a small."""
    random = np.random.default_rng(seed)
    plan = Plan(nodes, seed=seed)
    fleet, episodes, t = build(plan), [], SETTLING
    names = sorted(EVENTS)
    turn = 0
    while t + EACH < seconds:
        name = names[turn % len(names)]
        hit: set[int] = set()
        for _ in range(1 if name in benign.EVERYWHERE else max(1, nodes // PATCH)):
            at = _somebody(fleet, random, hit)
            hit.add(at.job)
            episodes.append(Episode("", "", float(random.uniform(0.3, 1)), at, t, t + 60, name))
        turn += 1
        t += EACH
    return Scenario(f"quiet-{seed}", plan, tuple(episodes), seconds, profile)


Blocks = Iterator[Block]


def played(
    scenario: Scenario, catalogue: Catalogue, table: SeriesTable, paces: list[F64] | None = None
) -> tuple[Fleet, Blocks]:
    """The fleet of a scenario, and its samples tick by tick; with `paces`, each job's rounds per second go there."""
    fleet = build(scenario.plan)
    random = np.random.default_rng(scenario.plan.seed)
    load = of_trace(scenario.trace, fleet, random) if scenario.trace else made_up(fleet, random)
    world = World(fleet, load, random)
    emitter = Emitter(fleet, catalogue, table, PERIODS[scenario.profile], scenario.without)

    touch = touching(scenario)

    def blocks() -> Blocks:
        for _ in range(int(scenario.lasts)):
            world.step(touch)
            if paces is not None:
                paces.append(world.rounds.rate.copy())
            yield emitter.block(world, START)

    return fleet, blocks()


def lost(episode: Episode, paces: Sequence[F64]) -> float:
    """Share of its rounds that a job loses to what befalls it; NaN where it made none before."""
    pace = np.array([one[episode.at.job] for one in paces])
    before = pace[max(int(episode.begin) - BEFORE, 0) : int(episode.begin)].mean()
    during = pace[int(episode.begin) + AT_FIRST : int(episode.end)].mean()
    return float(1 - during / before) if before > 0 else float("nan")


def touching(scenario: Scenario) -> Callable[[Push, World], None]:
    """What is wrong in each second of a scenario."""

    def touch(push: Push, world: World) -> None:
        for episode in scenario.episodes:
            if episode.begin <= world.t < episode.end:
                act = faults()[episode.condition].act if episode.condition else EVENTS[episode.event]
                act(push, world, episode.at, episode.strength, world.t - episode.begin)

    return touch
