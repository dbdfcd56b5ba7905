"""One tick over a fleet of thousands of nodes, 8 GPUs and 200 signals each: verdicts and incidents of all rules.

`pytest -s bench/test_bench_large.py` prints median and 99th percentile of a tick's processor time and the memory before
and after. The telemetry is that of a simulated fleet of 64 nodes, healthy and noisy, repeated: each entity has its own
level, so that no two are alike, and of a few GPUs some values are doubled, on which no rule fires. All is one fleet to
the rules. What they read is there every second; signals that the simulator lacks stand still, and those of pairs
of ports are left out. Further GPU signals fill it up to 200 series for each GPU. Making the values is not timed.
`LARGE=2500,5000,10000` chooses how many nodes.
"""

import os
import resource
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skewscope.adapters.simulator.emit import Emitter
from skewscope.adapters.simulator.exporters import PERIODS
from skewscope.adapters.simulator.fleet import Plan, build
from skewscope.adapters.simulator.load import made_up
from skewscope.adapters.simulator.world import World
from skewscope.engine.diagnosis import TICK, Diagnosis
from skewscope.engine.entities import Entities
from skewscope.engine.feed import Column, Frame, SeriesTable, empty
from skewscope.engine.topology import Topology, beside
from skewscope.engine.wire.join import WireJoin
from skewscope.kb.load import catalogue
from skewscope.rules.kinds import kind_of
from skewscope.rules.load import rules

START = 1.7e9
NODES = 64
SERIES = 200
"""Of each GPU, all kinds of entities of its node counted."""
WARM, TIMED = 40, 60
KNOWN = catalogue()
RULES = rules(KNOWN)
READ = sorted({name for rule in RULES.values() for name in rule.signals})


class Pattern:
    """A simulated fleet and the newest value of each of its series, what ports tell of their groups joined."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        self.fleet = build(Plan(NODES))
        self.world = World(self.fleet, made_up(self.fleet, random), random)
        self.table = SeriesTable()
        self.emitter = Emitter(self.fleet, KNOWN, self.table, PERIODS["fine"])
        self.join = WireJoin(self.fleet.topology, TICK)
        self.latest, self.times = np.empty(0), np.empty(0)

    def step(self) -> None:
        self.world.step()
        self._take(self.emitter.block(self.world, START))
        self._take(self.join(START + self.world.t, self.table, self.latest, self.times))

    def _take(self, block) -> None:
        more = np.full(max(0, len(self.table.keys) - len(self.latest)), np.nan)
        self.latest, self.times = np.append(self.latest, more), np.append(self.times, more)
        self.latest[block.series], self.times[block.series] = block.value, block.time


def fleet_of(copies: int) -> Topology:
    """One fleet of so many like the pattern."""
    found = beside(build(Plan(NODES, prefix=f"c{n}.")).topology for n in range(copies))
    return replace(found, nodes=tuple(replace(node, fleet="fleet") for node in found.nodes))


class Source:
    """The frames of a large fleet."""

    def __init__(self, copies: int) -> None:
        self.pattern = Pattern()
        for _ in range(15):
            self.pattern.step()
        self.topology = fleet_of(copies)
        large, small = Entities(self.topology), Entities(self.pattern.fleet.topology)
        places: dict[tuple[str, str], np.ndarray] = {}
        for number, key in enumerate(self.pattern.table.keys):
            if key.signal in READ and key.entity in small.numbers[key.kind]:
                rows = places.setdefault((key.signal, key.selector), np.full(len(small.names[key.kind]), -1))
                rows[small.numbers[key.kind][key.entity]] = number
        self.columns: list[Column] = []
        self.series: list[np.ndarray] = []
        self.like = {kind: _like(large.names[kind], small.numbers[kind]) for kind in large.names if kind != "peer"}
        for (signal, selector), rows in sorted(places.items()):
            self._add(signal, selector, rows)
        for signal in sorted(set(READ) - {column.signal for column in self.columns}):
            kind = kind_of(KNOWN.signals[signal].entity)
            if kind != "peer":
                alike = signal.replace("hft.port_", "port."), ""
                self._add(signal, "", places.get(alike, np.full(len(small.names[kind]), -2)))
        random = np.random.default_rng(2)
        # What is counted twice must agree: an entity's level is that of all its signals.
        whole = {kind: random.uniform(0.99, 1.01, len(names)) for kind, names in large.names.items()}
        self.level = [
            whole[kind_of(KNOWN.signals[column.signal].entity)][
                slice(None) if column.entities is None else column.entities
            ]
            for column in self.columns
        ]
        gpus = len(large.names["gpu"])
        self.unread = max(0, SERIES - sum(map(len, self.series)) // gpus)
        others = sorted(s.id for s in KNOWN.signals.values() if kind_of(s.entity) == "gpu" and s.id not in READ)
        self.columns += [Column(others[n % len(others)], f"part{n}") for n in range(self.unread)]
        self.noise = random.standard_normal(gpus + 10_000).astype(np.float32)
        self.schema = tuple(self.columns)
        self.size = sum(map(len, self.series)) + self.unread * gpus
        self.gpus = gpus

    def _add(self, signal: str, selector: str, rows: np.ndarray) -> None:
        whole = rows[self.like[kind_of(KNOWN.signals[signal].entity)]]
        there = np.flatnonzero(whole != -1)
        self.columns.append(Column(signal, selector, None if len(there) == len(whole) else there))
        self.series.append(whole[there])

    def frame(self) -> Frame:
        """The next second."""
        self.pattern.step()
        newest = np.append(self.pattern.latest, [1.0, np.nan])
        values = [newest[rows] * level for rows, level in zip(self.series, self.level, strict=True)]
        for n, column in enumerate(self.columns[: len(values)]):
            if column.signal in {"gpu.temperature", "gpu.util", "pcie.stall_read"}:
                values[n][5:800:97] *= 2.0
        begins = (np.arange(self.unread) * 37 + int(self.pattern.world.t) * 101) % 10_000
        values += [self.noise[begin : begin + self.gpus] for begin in begins]
        return Frame(self.schema, START + self.pattern.world.t, values)


def _like(names: list[str], numbers: dict[str, int]) -> np.ndarray:
    """The entity of the pattern that each one of the large fleet is like."""
    return np.array([numbers[name.replace(name.partition(".")[0] + ".", "")] for name in names], np.intp)


def memory() -> float:
    """What the process holds, GiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**30


@pytest.mark.parametrize("nodes", [int(n) for n in os.environ.get("LARGE", "2500,5000,10000").split(",")])
def test_large(nodes):
    source = Source(-(-nodes // NODES))
    before = memory()
    diagnosis = Diagnosis(RULES.values(), KNOWN, source.topology)
    table, took, held = SeriesTable(), [], []
    for _ in range(WARM + TIMED):
        frame = source.frame()
        begin = time.process_time()
        diagnosis.step(frame.time, empty(), table, [frame])
        took.append(time.process_time() - begin)
        held.append(memory() - before)
    ms = 1000 * np.array(took[WARM:])
    judged = sum(not diagnosis.detector.evaluator.silent(e.when for e in rule.evidence) for rule in RULES.values())
    print(
        f"\n{len(source.topology.nodes)} nodes, {source.size / 1e6:.1f} million series, {judged} of {len(RULES)} rules"
        f" judged: a tick takes {np.median(ms):.0f} ms (p99 {np.quantile(ms, 0.99):.0f}); the engine holds"
        f" {held[WARM]:.2f} GiB, in the end {held[-1]:.2f}"
    )
    print({verdict.rule: int(verdict.firing.sum()) for verdict in diagnosis.verdicts if verdict.firing.any()})
    assert judged > 0.9 * len(RULES)
