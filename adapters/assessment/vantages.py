"""Vantages: parts of the telemetry, from a single front-end DPU to everything, and everything except one kind."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue, Signal

KeepSeries = Callable[[SeriesKey, Signal, Topology], bool]
COUNTER_PREFIXES = ("port.", "prio.", "cc.", "rdma.", "vport.", "hft.", "switch.", "pcie.", "dpu.")
SERVING_PREFIXES = ("serve.", "rep.", "pool.")
GPU_PREFIXES = ("gpu.", "nccl.")
HOST_ONLY = "host-only"


@dataclass(frozen=True, slots=True)
class Vantage:
    """Filter of series and of their samples."""

    name: str
    keep: KeepSeries
    stride: int = 1
    """One second in `stride` is kept."""


def _keep_all(_key: SeriesKey, _signal: Signal, _topology: Topology) -> bool:
    return True


def _keep_without(prefixes: tuple[str, ...]) -> KeepSeries:
    return lambda key, _signal, _topology: not key.signal.startswith(prefixes)


def _port_network(key: SeriesKey, topology: Topology) -> str:
    """Returns the network of a series' port; '' for others."""
    port = topology.port.get(key.entity.partition(">")[0]) if key.kind in {"port", "peer"} else None
    return port.network if port else ""


def _keep_front_end(key: SeriesKey, signal: Signal, topology: Topology) -> bool:
    """Keeps what a DPU sees of the network to the clients: its own port there, and the requests in it."""
    if signal.dpu_access == HOST_ONLY or {"north-south", "pcie", "dpu"}.isdisjoint(signal.vantage):
        return False
    network = _port_network(key, topology)
    return network == "north-south" or (not network and "east-west" not in signal.vantage)


def _keep_network(_key: SeriesKey, signal: Signal, _topology: Topology) -> bool:
    """Keeps what DPUs on all ports see."""
    own = {"north-south", "east-west", "pcie", "dpu", "fabric"}
    return signal.dpu_access != HOST_ONLY and not own.isdisjoint(signal.vantage)


def _keep_network_and_relays(key: SeriesKey, signal: Signal, topology: Topology) -> bool:
    """Keeps the same, and what is relayed from hosts and GPUs."""
    return _keep_network(key, signal, topology) or "serving" not in signal.vantage


def _keep_half_of_nodes(key: SeriesKey, _signal: Signal, topology: Topology) -> bool:
    """Drops about half of the nodes, and replicas whose front end is on one of them."""
    if key.kind in {"group", "replica"}:
        group = topology.group.get(key.entity)
        name = group.front_end or group.members[0] if group else ""
    else:
        name = key.entity.partition(">")[0].rpartition(":")[2]
    name = topology.node_of.get(name, name.partition("/")[0])
    return name not in topology.node or zlib.crc32(name.encode()) % 2 == 0


FULL_VANTAGE = Vantage("everything", _keep_all)
INCREASING_VANTAGES = (
    Vantage("DPU at the front end", _keep_front_end),
    Vantage("DPUs on the rails too", _keep_network),
    Vantage("with GPUs and hosts relayed", _keep_network_and_relays),
    FULL_VANTAGE,
)
"""From little to all: with serving metrics relayed as well, everything is present."""
REDUCED_VANTAGES = (
    Vantage("without packets", _keep_without(("wire.",))),
    Vantage("without counters", _keep_without(COUNTER_PREFIXES)),
    Vantage("without GPU telemetry", _keep_without(GPU_PREFIXES)),
    Vantage("without serving metrics", _keep_without(SERVING_PREFIXES)),
    Vantage("half of the nodes", _keep_half_of_nodes),
    Vantage("every other sample", _keep_all, 2),
)
VANTAGES: Mapping[str, Vantage] = {one.name: one for one in (*INCREASING_VANTAGES, *REDUCED_VANTAGES)}


@dataclass
class VantageFilter:
    """Filters samples by vantage; takes the blocks of whole seconds, in order."""

    vantage: Vantage
    catalogue: Catalogue
    topology: Topology
    _keep_mask: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    _tick: int = -1

    def apply(self, block: Block, table: SeriesTable) -> Block:
        """Returns the remaining samples of one second."""
        self._tick += 1
        if self.vantage is FULL_VANTAGE:
            return block
        known = len(self._keep_mask)
        if known < len(table.keys):
            more = [self._is_kept(key) for key in table.keys[known:]]
            self._keep_mask = np.concatenate((self._keep_mask, np.array(more, np.bool_)))
        there = self._keep_mask[block.series] & (self._tick % self.vantage.stride == 0)
        return Block(block.time[there], block.series[there], block.value[there])

    def _is_kept(self, key: SeriesKey) -> bool:
        signal = self.catalogue.signals.get(key.signal)
        return signal is not None and self.vantage.keep(key, signal, self.topology)
