"""The simulated corpus: fleets in which one fault after another comes and goes, beside what only looks like one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skewscope.adapters.simulator.benign import EVENTS
from skewscope.adapters.simulator.emit import Emitter
from skewscope.adapters.simulator.exporters import PERIODS
from skewscope.adapters.simulator.faults.registry import Target, faults, target
from skewscope.adapters.simulator.fleet import Fleet, Plan, build
from skewscope.adapters.simulator.load import made_up
from skewscope.adapters.simulator.push import Push
from skewscope.adapters.simulator.world import World
from skewscope.engine.feed import Block, SeriesTable
from skewscope.kb.model import Catalogue

START = 1_750_000_000.0
SETTLING = 60.0
"""Seconds of health at the beginning of a run."""
LASTS, BETWEEN = 45.0, 60.0
"""Seconds that a fault stays, and that follow until the next one."""
STRENGTHS = {"mild": 0.25, "medium": 0.6, "heavy": 1.0}


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


def scenarios(
    conditions: Sequence[str], seed: int, *, nodes: int = 64, each: int = 10, strengths: Sequence[str] = ()
) -> list[Scenario]:
    """Runs in which every condition occurs at every severity, `each` episodes to a run."""
    random = np.random.default_rng(seed)
    wanted = [(name, severity) for name in conditions for severity in strengths or STRENGTHS]
    by_fabric: dict[str, list[tuple[str, str]]] = {}
    for n in random.permutation(len(wanted)):
        by_fabric.setdefault(faults()[wanted[n][0]].fabrics[0], []).append(wanted[n])
    found = []
    for fabric, some in sorted(by_fabric.items()):
        for n in range(0, len(some), each):
            plan = Plan(nodes, fabric=fabric, seed=int(random.integers(1 << 30)))
            found.append(replace(arranged(plan, some[n : n + each]), name=f"faults-{fabric}-{n // each}"))
    return found


def arranged(plan: Plan, what: Sequence[tuple[str, str]]) -> Scenario:
    """One run with these conditions or benign events, each at a severity, one after another."""
    random = np.random.default_rng(plan.seed)
    fleet, episodes, t = build(plan), [], SETTLING
    for name, severity in what:
        begin = t + float(random.integers(0, 8))
        benign = name in EVENTS
        at = _somebody(fleet, random) if benign else target(faults()[name], fleet, random)
        condition, event = ("", name) if benign else (name, "")
        episodes.append(Episode(condition, severity, STRENGTHS[severity], at, begin, begin + LASTS, event))
        t = begin + LASTS + BETWEEN
    return Scenario("-".join(name for name, _ in what) or "healthy", plan, tuple(episodes), t)


def _somebody(fleet: Fleet, random: np.random.Generator) -> Target:
    """A replica to which something benign happens."""
    job = int(random.choice(np.flatnonzero(fleet.serving)))
    made = fleet.jobs[job]
    return Target("group", made.name, (), made.nodes[0], 0, 0, job, 0, made.nodes)


def quiet(seed: int, *, nodes: int, seconds: float, profile: str = "fine") -> Scenario:
    """A run without any fault, with benign events one after another."""
    random = np.random.default_rng(seed)
    plan = Plan(nodes, seed=seed)
    fleet, episodes, t = build(plan), [], SETTLING
    names = sorted(EVENTS)
    turn = 0
    while t + 120 < seconds:
        at = _somebody(fleet, random)
        episodes.append(Episode("", "", float(random.uniform(0.3, 1)), at, t, t + 60, names[turn % len(names)]))
        turn += 1
        t += 120
    return Scenario(f"quiet-{seed}", plan, tuple(episodes), seconds, profile)


Blocks = Iterator[Block]


def played(scenario: Scenario, catalogue: Catalogue, table: SeriesTable) -> tuple[Fleet, Blocks]:
    """The fleet of a scenario, and its samples tick by tick."""
    fleet = build(scenario.plan)
    random = np.random.default_rng(scenario.plan.seed)
    world = World(fleet, made_up(fleet, random), random)
    emitter = Emitter(fleet, catalogue, table, PERIODS[scenario.profile], scenario.without)

    touch = touching(scenario)

    def blocks() -> Blocks:
        for _ in range(int(scenario.lasts)):
            world.step(touch)
            yield emitter.block(world, START)

    return fleet, blocks()


def touching(scenario: Scenario) -> Callable[[Push, World], None]:
    """What is wrong in each second of a scenario."""

    def touch(push: Push, world: World) -> None:
        for episode in scenario.episodes:
            if episode.begin <= world.t < episode.end:
                act = faults()[episode.condition].act if episode.condition else EVENTS[episode.event]
                act(push, world, episode.at, episode.strength, world.t - episode.begin)

    return touch
