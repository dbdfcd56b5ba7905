"""Reduces one port's packets to its `wire.*` samples, on a DPU and over a recording alike."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, I64, Mask
from skewscope.engine.wire.bursts import GapThreshold
from skewscope.engine.wire.chunk import Chunk, PortSamples
from skewscope.engine.wire.groups import GroupReducer, build_reducer
from skewscope.engine.wire.keys import KeyTable, hash_columns
from skewscope.engine.wire.packets import ROCE, Packets
from skewscope.engine.wire.requests import RequestReducer
from skewscope.engine.wire.speed import emit_burst_speed
from skewscope.engine.wire.ticks import ratio
from skewscope.engine.wire.transport import TransportReducer
from skewscope.engine.wire.view import PortView

TICK_LENGTH = 1.0
"""Length of a tick, s; each series has one sample per tick."""


@dataclass
class PortReducer:
    """Reduces one port's packets, stretch by stretch."""

    view: PortView
    transport: TransportReducer = field(default_factory=TransportReducer)
    peers: KeyTable = field(default_factory=KeyTable)
    names: list[str] = field(default_factory=list)
    gap: GapThreshold = field(default_factory=GapThreshold)
    last_sent: float = np.nan
    peer_total: F64 = field(default_factory=lambda: np.zeros(0))
    requests: RequestReducer = field(default_factory=RequestReducer)
    groups: list[GroupReducer] = field(init=False)

    def __post_init__(self) -> None:
        self.groups = [build_reducer(group) for group in self.view.groups if len(group.nodes) > 1]

    def reduce(self, packets: Packets, first: float, ticks: int, step: float = TICK_LENGTH) -> PortSamples:
        """Returns the samples of `ticks` ticks that begin at `first`, from all packets of that stretch in any order."""
        out = PortSamples(first, step, self.view.port)
        chunk = self._chunk(packets, first, ticks, step)
        if not len(chunk.packets) and not self.names:
            return out
        front = self.view.node if self.view.network == "north-south" else ""
        data = self.transport.reduce(chunk, out, self.names, front)
        self._emit_flows(chunk, out, data)
        self._emit_idle(chunk, out, data)
        for group in self.groups:
            group.reduce(chunk, data, out)
        if self.view.network == "north-south":
            self.requests.reduce(chunk, data, out, self.view.node)
        else:
            emit_burst_speed(chunk, data, out)
        return out

    def _chunk(self, packets: Packets, first: float, ticks: int, step: float) -> Chunk:
        tx = self._is_own(packets.src)
        mine = tx != self._is_own(packets.dst)
        if not mine.all() or (packets.time[1:] < packets.time[:-1]).any():
            rows = np.flatnonzero(mine)
            rows = rows[np.argsort(packets.time[rows], kind="stable")]
            packets, tx = packets.take(rows), tx[rows]
        tick = np.clip(np.floor((packets.time - first) / step), 0, ticks - 1).astype(np.int64)
        peer = self._peers(np.where(tx, packets.dst, packets.src))
        edges = tuple(np.searchsorted(tick, np.arange(ticks + 1)).tolist())
        return Chunk(packets, tick, ticks, first, step, tx, ~tx, peer, edges)

    def _is_own(self, keys: NDArray[np.uint64]) -> Mask:
        """Returns [key] whether it is one of the port's addresses, of which there are few."""
        found = np.zeros(len(keys), bool)
        for own in self.view.own:
            found |= keys == np.uint64(own)
        return found

    def _peers(self, keys: NDArray[np.uint64]) -> I64:
        if self.peers.is_full:
            self.peers, self.names, self.peer_total = KeyTable(), [], np.zeros(0)
            self.transport.counts.clear()
        numbers = self.peers.numbers(keys)
        for _ in range(len(self.peers) - len(self.names)):
            self.names.append("")
        if len(self.peer_total) < len(self.names):
            for key, number in zip(self.peers.keys.tolist(), self.peers.key_numbers.tolist(), strict=True):
                self.names[number] = self.view.peers.get(key, "")
            self.peer_total = np.concatenate((self.peer_total, np.zeros(len(self.names) - len(self.peer_total))))
        return numbers

    def _emit_flows(self, chunk: Chunk, out: PortSamples, data: Mask) -> None:
        """Emits the shares of flows and the traffic matrix."""
        packets, ticks = chunk.packets, chunk.ticks
        rows = np.flatnonzero(data)
        last = packets.dport[rows]
        if (packets.proto == ROCE).any():
            last = np.where(packets.proto[rows] == ROCE, packets.qp[rows], last)
        keys = hash_columns(packets.src[rows], packets.dst[rows], packets.sport[rows], last)
        flow = np.unique(keys, return_inverse=True)[1]
        flows = int(flow.max(initial=-1)) + 1
        cell = np.bincount(chunk.tick[rows] * flows + flow, weights=packets.length[rows], minlength=ticks * flows)
        table = cell.reshape(ticks, flows) if flows else np.zeros((ticks, 0))
        total = table.sum(axis=1)
        out.put("wire.active_flows", np.where(total > 0, (table > 0).sum(axis=1), np.nan))
        out.put("wire.flow_share_max", ratio(table.max(axis=1, initial=0.0), total))
        out.put("wire.flow_share_gini", _gini(table))
        sent = np.flatnonzero(data & chunk.tx)
        peers = len(self.names)
        by_peer = np.bincount(
            chunk.peer[sent] * ticks + chunk.tick[sent], weights=packets.length[sent], minlength=peers * ticks
        )
        running = self.peer_total[:, None] + np.cumsum(by_peer.reshape(peers, ticks), axis=1)
        self.peer_total = running[:, -1].copy()
        for number, name in enumerate(self.names):
            if name:
                out.put("wire.peer_bytes", running[number], kind="peer", entity=f"{out.port}>{name}")

    def _emit_idle(self, chunk: Chunk, out: PortSamples, data: Mask) -> None:
        time = chunk.packets.time[data & chunk.tx]
        gaps = np.diff(time, prepend=self.last_sent)
        limit = self.gap.learn(gaps[gaps > 0], chunk.ticks * chunk.step)
        if not len(time) or np.isnan(limit):
            return
        long = gaps > limit
        idle = _overlap(time[long] - gaps[long], time[long], chunk)
        idle += _overlap(time[-1:], np.array([chunk.until]), chunk)
        out.put("wire.tx_idle_ratio", idle / chunk.step)
        self.last_sent = float(time[-1])


def _overlap(begin: F64, end: F64, chunk: Chunk) -> F64:
    """Returns [tick] s of each tick that lie in the given spans, which do not overlap one another."""
    edges = chunk.first + chunk.step * np.arange(chunk.ticks + 1)
    if not len(begin):
        return np.zeros(chunk.ticks)
    covered = np.concatenate(([0.0], np.cumsum(end - begin)))
    at = np.searchsorted(begin, edges, side="right")
    inside = np.where(at > 0, np.minimum(edges, end[np.maximum(at - 1, 0)]) - begin[np.maximum(at - 1, 0)], 0.0)
    total = np.where(at > 0, covered[np.maximum(at - 1, 0)] + inside, 0.0)
    return np.asarray(np.clip(np.diff(total), 0.0, chunk.step))


def _gini(table: NDArray[np.number]) -> F64:
    """Returns [tick] Gini coefficient over the flows with bytes in the tick; NaN without any."""
    ordered = np.sort(table, axis=1)
    count = (table > 0).sum(axis=1)
    rank = np.arange(1, table.shape[1] + 1) - (table.shape[1] - count)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        lorenz = (2 * rank - count[:, None] - 1) * ordered
        return np.asarray(np.where(count > 0, lorenz.sum(axis=1) / (count * ordered.sum(axis=1)), np.nan))
