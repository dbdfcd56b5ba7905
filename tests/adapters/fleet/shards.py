"""Rows of the demo recording as agents send them, and shards that are fed with them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from skewscope.adapters.formats.row_protocol import HelloFrame, RowFrame, SeriesFrame, encode
from skewscope.adapters.runtime.replay import tick_ends
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.topology import Topology
from tests.adapters.controller.fleets import demo

SECONDS = 55.0


@dataclass
class StillClock:
    """A clock that a test sets."""

    time: float = 0.0

    def now(self) -> float:
        return self.time

    def uptime(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


@cache
def demo_topology() -> Topology:
    return demo(SECONDS)[0].topology


@cache
def demo_rows() -> tuple[tuple[float, tuple[tuple[str, bytes], ...]], ...]:
    """The end of each tick, with a body for each node; the first body of a node announces its series."""
    recording, loaded = demo(SECONDS)
    topology = recording.topology
    columns: dict[str, dict[int, int]] = {node.name: {} for node in topology.nodes}
    owner = [_owner(key, topology) for key in loaded.table.keys]
    for number, node in enumerate(owner):
        columns[node][number] = len(columns[node])
    ends = list(tick_ends(loaded, recording))
    edges = np.searchsorted(loaded.block.time, ends, side="right").tolist()
    return tuple(_bodies(ends, edges, loaded, columns))


def _owner(key: SeriesKey, topology: Topology) -> str:
    name = key.entity.split(">")[0].split("/")[0].split(":")[-1]
    return name if name in topology.node else topology.nodes[0].name


def _bodies(ends, edges, loaded, columns) -> Iterator[tuple[float, tuple[tuple[str, bytes], ...]]]:
    block, before = loaded.block, 0
    keys = {node: tuple(loaded.table.keys[number] for number in some) for node, some in columns.items()}
    place = {node: np.full(len(loaded.table.keys), -1) for node in columns}
    for node, some in columns.items():
        place[node][list(some)] = list(some.values())
    for sequence, (t, edge) in enumerate(zip(ends, edges, strict=True)):
        found = []
        for node in columns:
            values = np.full(len(columns[node]), np.nan)
            at = place[node][block.series[before:edge]]
            values[at[at >= 0]] = block.value[before:edge][at >= 0]
            frames = [HelloFrame(node, "b", "test")]
            frames += [SeriesFrame(0, 0, keys[node])] if sequence == 0 else []
            found.append((node, encode([*frames, RowFrame(sequence, t - 0.5, 0, values)])))
        before = edge
        yield t, tuple(found)
