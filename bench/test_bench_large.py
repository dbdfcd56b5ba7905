"""Measures one tick over thousands of nodes with 8 GPUs and 200 signals each: verdicts and incidents of all rules.

`pytest -s bench/test_bench_large.py` prints median and 99th percentile of a tick's processor time and the memory before
and after. The telemetry is that of a simulated fleet of 64 nodes, healthy and noisy, repeated: each entity has its own
level, and some values of a few GPUs are doubled, on which no rule fires. The rules see one fleet. In a second run a few
entities have faults, and a leaf on which forty groups depend is congested: evidence, incidents and attribution are then
included in the time. Signals that rules read are there every second; signals that the simulator lacks are constant, and
those of pairs of ports are omitted. Further GPU signals fill up to 200 series for each GPU. Generating values is not
timed. `LARGE=2500,5000,10000` chooses the numbers of nodes.
"""

import gc
import os
import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

# Attribution imports it at the first explanation; that must not be part of a measured tick.
import networkx as nx  # noqa: F401
import numpy as np
import pytest

from skewscope.adapters.simulator.effects import FaultEffects
from skewscope.adapters.simulator.emitter import SampleEmitter
from skewscope.adapters.simulator.exporters import PROFILE_PERIODS
from skewscope.adapters.simulator.faults.registry import choose_target, fault_models
from skewscope.adapters.simulator.fleet import FleetPlan, build_fleet
from skewscope.adapters.simulator.load import synthetic_load
from skewscope.adapters.simulator.simulation import FleetSimulation
from skewscope.engine.engine import TICK_S, Engine
from skewscope.engine.ingest.feed import FrameColumn, SampleFrame, SeriesTable, empty_block
from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.topology import Node, Topology, merge_topologies
from skewscope.engine.wire.join import WireJoin
from skewscope.kb.loader import catalogue
from skewscope.rules.entity_kinds import kind_of
from skewscope.rules.loader import load_strict

START = 1.7e9
NODES = 64
SERIES = 200
"""Of each GPU, all kinds of entities of its node counted."""
LEAD, WARM, TIMED = 15, 40, 60
"""Seconds that a pattern runs before its first frame, and ticks before and while it is timed."""
STILL, ABSENT = -2, -1
KNOWN = catalogue()
RULES = load_strict(KNOWN)
READ = sorted({name for rule in RULES.values() for name in rule.signals})


FAULTY = 0
"""The copy on which all of `FAULTS` are."""
FAULTS = (
    "gpu-thermal-throttle",
    "h2d-starvation",
    "power-cap",
    "tp-straggler",
    "host-cpu-bottleneck",
    "nic-slow-receiver",
    "pcie-link-downgrade",
    "link-flap",
    "fabric-loss",
    "edge-saturation",
    "egress-jitter",
    "kv-capacity-preemption-thrash",
    "weights-cold-start",
)
CONGESTED = range(1, 7)
"""The copies that hang on one leaf, which congests."""
BEGINS, ENDS = 5, 40
"""When the faults do, in timed ticks."""

Touch = Callable[[FaultEffects, FleetSimulation], None]


def touching(conditions: Iterable[str], seed: int) -> Touch:
    """Returns the effects of these faults while they last."""
    random, fleet = np.random.default_rng(seed), build_fleet(FleetPlan(NODES))
    acts = [(fault_models()[name].apply, choose_target(fault_models()[name], fleet, random)) for name in conditions]

    def touch(push: FaultEffects, world: FleetSimulation) -> None:
        age = world.t - LEAD - WARM - BEGINS
        for act, at in acts if 0 <= age < ENDS - BEGINS else ():
            act(push, world, at, 1.0, age)

    return touch


class Pattern:
    """A simulated fleet and the newest value of each of its series, wire signals joined per group."""

    def __init__(self, touch: Touch = lambda _push, _world: None) -> None:
        self.touch = touch
        random = np.random.default_rng(1)
        self.fleet = build_fleet(FleetPlan(NODES))
        self.world = FleetSimulation(self.fleet, synthetic_load(self.fleet, random), random)
        self.table = SeriesTable()
        self.emitter = SampleEmitter(self.fleet, KNOWN, self.table, PROFILE_PERIODS["fine"])
        self.join = WireJoin(self.fleet.topology, TICK_S)
        self.latest, self.times = np.empty(0), np.empty(0)
        for _ in range(LEAD):
            self.step()
        self.size = len(self.latest)

    def step(self) -> None:
        self.world.step(self.touch)
        self._take(self.emitter.block(self.world, START))
        self._take(self.join(START + self.world.t, self.table, self.latest, self.times))

    def _take(self, block) -> None:
        more = np.full(max(0, len(self.table.keys) - len(self.latest)), np.nan)
        self.latest, self.times = np.append(self.latest, more), np.append(self.times, more)
        self.latest[block.series], self.times[block.series] = block.value, block.time

    def places(self, small: EntityIndex) -> dict[tuple[str, str], np.ndarray]:
        """Returns by signal and selector the number of each entity's series; -1 where it has none."""
        found: dict[tuple[str, str], np.ndarray] = {}
        for number, key in enumerate(self.table.keys[: self.size]):
            if key.signal in READ and key.entity in small.numbers[key.kind]:
                rows = found.setdefault((key.signal, key.selector), np.full(len(small.names[key.kind]), ABSENT))
                rows[small.numbers[key.kind][key.entity]] = number
        return found

    def newest(self) -> np.ndarray:
        """Returns the values, constant signals at `STILL` and missing ones at `ABSENT`."""
        return np.append(self.latest[: self.size], [1.0, np.nan])


def fleet_of(copies: int, sick: bool) -> Topology:
    """Returns a fleet of so many copies of the pattern."""
    found = merge_topologies(build_fleet(FleetPlan(NODES, prefix=f"c{n}.")).topology for n in range(copies))
    return replace(found, nodes=tuple(replace(_on_one_leaf(node, sick), fleet="fleet") for node in found.nodes))


def _on_one_leaf(node: Node, sick: bool) -> Node:
    if not (sick and _copy(node.name) in CONGESTED):
        return node
    return replace(node, ports=tuple(replace(port, switch=port.switch.partition(".")[2]) for port in node.ports))


def _copy(name: str) -> int:
    """Returns the copy that an entity belongs to."""
    return int(name.partition(".")[0][1:])


class Source:
    """The frames of a large fleet."""

    def __init__(self, copies: int, sick: bool = False) -> None:
        self.patterns = [Pattern()]
        if sick:
            self.patterns += [Pattern(touching(FAULTS, 3)), Pattern(touching(["fabric-congestion"], 4))]
        follows = np.zeros(copies, np.intp)
        if sick:
            follows[FAULTY], follows[list(CONGESTED)] = 1, 2
        self.topology = fleet_of(copies, sick)
        large, small = EntityIndex(self.topology), EntityIndex(self.patterns[0].fleet.topology)
        self.begins = np.cumsum([0] + [pattern.size + 2 for pattern in self.patterns])
        self.columns: list[FrameColumn] = []
        self.series: list[np.ndarray] = []
        kinds = [kind for kind in large.names if kind != "peer"]
        self.like = {kind: _like(large.names[kind], small.numbers[kind]) for kind in kinds}
        self.follows = {kind: _follows(large.names[kind], follows) for kind in kinds}
        places = [pattern.places(small) for pattern in self.patterns]
        for signal, selector in sorted(set().union(*places)):
            self._add(signal, selector, [found.get((signal, selector)) for found in places], ABSENT)
        for signal in sorted(set(READ) - {column.signal for column in self.columns}):
            if kind_of(KNOWN.signals[signal].entity) != "peer":
                alike = signal.replace("hft.port_", "port."), ""
                self._add(signal, "", [found.get(alike) for found in places], STILL)
        random = np.random.default_rng(2)
        # Signals that measure the same must agree, so a level belongs to an entity, not to a signal. A state has none.
        whole = {kind: random.uniform(0.99, 1.01, len(names)) for kind, names in large.names.items()}
        self.level = [self._level(column, whole) for column in self.columns]
        gpus = len(large.names["gpu"])
        self.unread = max(0, SERIES - sum(map(len, self.series)) // gpus)
        others = sorted(s.id for s in KNOWN.signals.values() if kind_of(s.entity) == "gpu" and s.id not in READ)
        self.columns += [FrameColumn(others[n % len(others)], f"part{n}") for n in range(self.unread)]
        self.noise = random.standard_normal(gpus + 10_000).astype(np.float32)
        self.schema = tuple(self.columns)
        self.size = sum(map(len, self.series)) + self.unread * gpus
        self.gpus = gpus

    def _add(self, signal: str, selector: str, rows: Sequence[np.ndarray | None], otherwise: int) -> None:
        """Adds a column of the series that each entity's pattern has; `otherwise` where a pattern has none."""
        kind = kind_of(KNOWN.signals[signal].entity)
        like, follows = self.like[kind], self.follows[kind]
        found = [np.full(like.max() + 1, otherwise) if row is None else row for row in rows]
        whole = np.stack(found)[follows, like]
        there = np.flatnonzero(whole != ABSENT)
        self.columns.append(FrameColumn(signal, selector, None if len(there) == len(whole) else there))
        behind = np.where(whole < 0, self.begins[follows + 1], self.begins[follows])
        self.series.append((behind + whole)[there])

    def _level(self, column: FrameColumn, whole: Mapping[str, np.ndarray]) -> np.ndarray | float:
        signal = KNOWN.signals[column.signal]
        if signal.type not in {"gauge", "counter", "histogram"}:
            return 1.0
        return whole[kind_of(signal.entity)][slice(None) if column.entities is None else column.entities]

    def frame(self) -> SampleFrame:
        """Returns the frame of the next second."""
        for pattern in self.patterns:
            pattern.step()
        newest = np.concatenate([pattern.newest() for pattern in self.patterns])
        t = self.patterns[0].world.t
        values = [newest[rows] * level for rows, level in zip(self.series, self.level, strict=True)]
        for n, column in enumerate(self.columns[: len(values)]):
            if column.signal in {"gpu.temperature", "gpu.util", "pcie.stall_read"}:
                values[n][5:800:97] *= 2.0
        begins = (np.arange(self.unread) * 37 + int(t) * 101) % 10_000
        values += [self.noise[begin : begin + self.gpus] for begin in begins]
        return SampleFrame(self.schema, START + t, values)


def _follows(names: list[str], follows: np.ndarray) -> np.ndarray:
    """Returns the number of the pattern's entity for each entity; 0 for those in no copy."""
    return np.array([follows[_copy(name)] if "." in name else 0 for name in names], np.intp)


def _like(names: list[str], numbers: dict[str, int]) -> np.ndarray:
    """Returns the entity of the pattern for each entity of the large fleet."""
    return np.array([numbers[name.replace(name.partition(".")[0] + ".", "")] for name in names], np.intp)


def memory() -> float:
    """Returns the memory of the process, in GiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**30


@pytest.mark.parametrize("sick", [False, True], ids=["healthy", "faults"])
@pytest.mark.parametrize("nodes", [int(n) for n in os.environ.get("LARGE", "2500,5000,10000").split(",")])
def test_large(nodes, sick):
    source = Source(-(-nodes // NODES), sick)
    before = memory()
    diagnosis = Engine(RULES.values(), KNOWN, source.topology, symptoms=True)
    table, took, held, fired = SeriesTable(), [], [], set()
    # Hundreds of thousands of names stay alive: the garbage collector need not scan them.
    gc.collect()
    gc.freeze()
    for n in range(WARM + TIMED):
        frame = source.frame()
        begin = time.process_time()
        diagnosis.step(frame.time, empty_block(), table, [frame])
        took.append(time.process_time() - begin)
        held.append(memory() - before)
        if n >= WARM:
            fired |= {
                (verdict.rule, int(at)) for verdict in diagnosis.verdicts for at in np.flatnonzero(verdict.firing)
            }
    ms = 1000 * np.array(took[WARM:])
    evaluator = diagnosis._rules.evaluator  # noqa: SLF001 - how many rules are evaluated
    judged = sum(
        not evaluator.is_undelivered(evaluator.number_of(e.when) for e in rule.evidence) for rule in RULES.values()
    )
    rules_fired = len({rule for rule, _ in fired})
    print(
        f"\n{len(source.topology.nodes)} nodes, {source.size / 1e6:.1f} million series, {judged} of {len(RULES)} rules"
        f" judged, {rules_fired} fired at {len(fired)} places: a tick takes {np.median(ms):.0f} ms"
        f" (p99 {np.quantile(ms, 0.99):.0f}); the engine holds {held[WARM]:.2f} GiB, in the end {held[-1]:.2f}"
    )
    assert judged > 0.9 * len(RULES)
    assert not sick or rules_fired >= len(FAULTS)
