"""What of the telemetry is there: from a DPU at the front end alone to everything, and everything but one kind."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.topology import Topology
from skewscope.kb.model import Catalogue, Signal

Keep = Callable[[SeriesKey, Signal, Topology], bool]
COUNTERS = ("port.", "prio.", "cc.", "rdma.", "vport.", "hft.", "switch.", "pcie.", "dpu.")
SERVING = ("serve.", "rep.", "pool.")
GPUS = ("gpu.", "nccl.")
HOST_ONLY = "host-only"


@dataclass(frozen=True, slots=True)
class Vantage:
    """Which series there are, and which of their samples."""

    name: str
    keeps: Keep
    every: int = 1
    """Of the seconds, one in so many."""


def _all(_key: SeriesKey, _signal: Signal, _topology: Topology) -> bool:
    return True


def _without(prefixes: tuple[str, ...]) -> Keep:
    return lambda key, _signal, _topology: not key.signal.startswith(prefixes)


def _network(key: SeriesKey, topology: Topology) -> str:
    """The network of the port that a series is about; '' for others."""
    port = topology.port.get(key.entity.partition(">")[0]) if key.kind in {"port", "peer"} else None
    return port.network if port else ""


def _front(key: SeriesKey, signal: Signal, topology: Topology) -> bool:
    """What a DPU sees of the network to the clients: its own port there, and the requests in it."""
    if signal.dpu_access == HOST_ONLY or {"north-south", "pcie", "dpu"}.isdisjoint(signal.vantage):
        return False
    network = _network(key, topology)
    return network == "north-south" or (not network and "east-west" not in signal.vantage)


def _network_only(_key: SeriesKey, signal: Signal, _topology: Topology) -> bool:
    """What DPUs on all ports see."""
    own = {"north-south", "east-west", "pcie", "dpu", "fabric"}
    return signal.dpu_access != HOST_ONLY and not own.isdisjoint(signal.vantage)


def _relayed(key: SeriesKey, signal: Signal, topology: Topology) -> bool:
    """The same with what is relayed from hosts and GPUs."""
    return _network_only(key, signal, topology) or "serving" not in signal.vantage


def _half_of_the_nodes(key: SeriesKey, _signal: Signal, topology: Topology) -> bool:
    """About half of the nodes deliver nothing, nor does a replica whose front end is on one of them."""
    if key.kind in {"group", "replica"}:
        group = topology.group.get(key.entity)
        name = group.front_end or group.members[0] if group else ""
    else:
        name = key.entity.partition(">")[0].rpartition(":")[2]
    name = topology.node_of.get(name, name.partition("/")[0])
    return name not in topology.node or zlib.crc32(name.encode()) % 2 == 0


FULL = Vantage("everything", _all)
GROWING = (
    Vantage("DPU at the front end", _front),
    Vantage("DPUs on the rails too", _network_only),
    Vantage("with GPUs and hosts relayed", _relayed),
    FULL,
)
"""From little to all: with serving metrics relayed as well, everything is there."""
LACKING = (
    Vantage("without packets", _without(("wire.",))),
    Vantage("without counters", _without(COUNTERS)),
    Vantage("without GPU telemetry", _without(GPUS)),
    Vantage("without serving metrics", _without(SERVING)),
    Vantage("half of the nodes", _half_of_the_nodes),
    Vantage("every other sample", _all, 2),
)
VANTAGES: Mapping[str, Vantage] = {one.name: one for one in (*GROWING, *LACKING)}


@dataclass
class Seen:
    """Samples as a vantage lets them through. Feed it the blocks of whole seconds, in order."""

    vantage: Vantage
    catalogue: Catalogue
    topology: Topology
    _kept: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    _turn: int = -1

    def of(self, block: Block, table: SeriesTable) -> Block:
        """What is left of one second's samples."""
        self._turn += 1
        if self.vantage is FULL:
            return block
        known = len(self._kept)
        if known < len(table.keys):
            more = [self._keeps(key) for key in table.keys[known:]]
            self._kept = np.concatenate((self._kept, np.array(more, np.bool_)))
        there = self._kept[block.series] & (self._turn % self.vantage.every == 0)
        return Block(block.time[there], block.series[there], block.value[there])

    def _keeps(self, key: SeriesKey) -> bool:
        signal = self.catalogue.signals.get(key.signal)
        return signal is not None and self.vantage.keeps(key, signal, self.topology)
