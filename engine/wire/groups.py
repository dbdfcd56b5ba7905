"""Reads a parallel group at one port, as rounds or as a pipeline, and emits samples per tick."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from skewscope.engine.model.arrays import F64, I64, Mask, sort_unique
from skewscope.engine.wire.bursts import BurstCutter, Bursts, GapThreshold
from skewscope.engine.wire.chunk import Chunk, PortSamples
from skewscope.engine.wire.keys import stable_order
from skewscope.engine.wire.member import MemberReducer, emit_periods, tick_of
from skewscope.engine.wire.pauses import ANNOUNCEMENT_SHARE, usual_packet
from skewscope.engine.wire.pipeline import QUEUED_SHARE, PipelineReducer
from skewscope.engine.wire.rounds import BarrierRounds, RoundReader
from skewscope.engine.wire.ticks import means, quantiles
from skewscope.engine.wire.view import PIPELINES, TRANSFERS, GroupView, members_of

PATTERN_MEMORY = 10.0
"""Half-life of what is known of a group's pattern, s."""
ANNOUNCED_SHARE = 0.15
"""Share of such packets from which sends wait for announcements."""
RECEIVER_SHARE = 0.1
"""A member that is sent this share of the bytes of the one that is sent most takes part in an exchange of all."""

MIN_CACHE_PACKET = 1000
"""Bytes of payload from which a packet is part of a cache and not a control message."""
MIN_CACHE_BYTES = 1 << 16
"""Bytes of a burst below which it is no cache transfer."""


class GroupReducer(Protocol):
    """Reads one group at one port, over chunks."""

    def reduce(self, chunk: Chunk, data: Mask, out: PortSamples) -> None:
        """Adds the group's samples of a chunk to `out`; `data` [packet] marks first transmissions that carry data."""


def build_reducer(group: GroupView) -> GroupReducer:
    """Returns the reducer for the group's kind."""
    if group.kind in TRANSFERS:
        return TransferReducer(group)
    return PipelineReducer(group) if group.kind in PIPELINES else CollectiveReducer(group)


@dataclass
class CollectiveReducer:
    """A group whose members take part in collective operations, of any algorithm.

    Where each member sends one burst to all others, unannounced, a port sees every member and compares them itself.
    Where steps depend on one another, or sends wait for an announcement, it knows its own member.
    """

    group: GroupView
    barrier: "BarrierReducer" = field(init=False)
    member: MemberReducer = field(init=False)
    sent_to: F64 = field(init=False)
    """[member] bytes sent to each, of late."""
    counts: F64 = field(default_factory=lambda: np.zeros(2))
    """Packets of late: all, announcements."""

    def __post_init__(self) -> None:
        self.barrier, self.member = BarrierReducer(self.group), MemberReducer(self.group.name)
        self.sent_to = np.zeros(len(self.group.nodes))

    def reduce(self, chunk: Chunk, data: Mask, out: PortSamples) -> None:
        other = members_of(self.group, np.where(chunk.tx, chunk.packets.dst, chunk.packets.src))
        mine = np.flatnonzero(data & (other >= 0) & (other != self.group.own))
        self._learn_pattern(chunk, mine, other[mine])
        self._emit_partners(chunk, out, mine)
        if self._is_plain_exchange():
            self.barrier.reduce_packets(chunk, mine, other[mine], out)
        else:
            data_size = ANNOUNCEMENT_SHARE * usual_packet(chunk.packets.length[mine].astype(float))
            self.member.reduce(chunk, mine, out, other[mine], data_size if self._is_announced() else 0.0)

    def _learn_pattern(self, chunk: Chunk, mine: I64, other: I64) -> None:
        """Counts bytes by receiver, and announcements: packets far smaller than those that carry most bytes."""
        length = chunk.packets.length[mine].astype(float)
        keep = 0.5 ** (chunk.ticks * chunk.step / PATTERN_MEMORY)
        tx = chunk.tx[mine]
        sent = np.bincount(other[tx], weights=length[tx], minlength=len(self.group.nodes))
        self.sent_to = keep * self.sent_to + sent
        if len(length):
            small = length <= ANNOUNCEMENT_SHARE * usual_packet(length)
            # A small packet before another one to the same member is its header; announcements are alike.
            way = 2 * other + tx
            order = stable_order(way)
            alike = (np.diff(way[order]) == 0) & (np.diff(length[order]) == 0)
            self.counts = keep * self.counts + (len(length), (alike & small[order][1:]).sum())

    def _emit_partners(self, chunk: Chunk, out: PortSamples, mine: I64) -> None:
        """Emits the share of the others to which the member sends, for ticks with packets of the group."""
        busy = np.bincount(chunk.tick[mine], minlength=chunk.ticks) > 0
        out.put("wire.own_partner_share", np.where(busy, self._partner_share(), np.nan), self.group.name)

    def _partner_share(self) -> float:
        """Returns the share of the other members that are sent a fair part; NaN where none is sent anything."""
        others = np.delete(self.sent_to, self.group.own)
        most = others.max(initial=0.0)
        return float((others >= RECEIVER_SHARE * most).mean()) if most > 0 else np.nan

    def _is_plain_exchange(self) -> bool:
        """Whether members send to all others without announcing it; of two, one sends to the other in any case."""
        is_partial = self._partner_share() < 1.0
        return len(self.sent_to) > 2 and not is_partial and not self._is_announced()

    def _is_announced(self) -> bool:
        return bool(self.counts[1] >= ANNOUNCED_SHARE * self.counts[0])


@dataclass
class BarrierReducer:
    """A group whose members each send one burst to all, then wait for all."""

    group: GroupView
    cutter: BurstCutter = field(default_factory=BurstCutter)
    reader: RoundReader = field(default_factory=RoundReader)
    sent: float = 0.0
    last_begin: float = np.nan
    """Begin of the last round, s."""
    last_end: float = np.nan
    """End of the last round, s."""

    def reduce_packets(self, chunk: Chunk, mine: I64, other: I64, out: PortSamples) -> None:
        """Adds the samples of a chunk; `mine` are rows of the group's packets, `other` the other member of each."""
        packets = chunk.packets
        stream = np.where(chunk.tx[mine], self.group.own, other)
        ring = len(sort_unique(stream)) == 2 < len(self.group.nodes)
        bursts = self.cutter.cut(
            stream,
            packets.time[mine], packets.length[mine].astype(float), chunk.until, chunk.ticks * chunk.step,
            steps=2 * len(self.group.nodes) if ring else 0,
        )  # fmt: skip
        rounds = self.reader.read(bursts, chunk.until)
        self._emit_bursts(chunk, out, bursts.take(bursts.stream == self.group.own))
        if len(rounds.begin):
            self._emit_lags(chunk, out, rounds)
            self._emit_pace(chunk, out, rounds)

    def _emit_bursts(self, chunk: Chunk, out: PortSamples, own: Bursts) -> None:
        name, at = self.group.name, tick_of(chunk, own.begin)
        out.put("wire.own_burst_bytes", quantiles(at, own.size, (0.5,), chunk.ticks)[0], name)
        count = np.bincount(at, minlength=chunk.ticks)
        if count.any() or self.sent:
            out.put("wire.bursts", self.sent + np.cumsum(count), name)
        self.sent += float(count.sum())

    def _emit_lags(self, chunk: Chunk, out: PortSamples, rounds: BarrierRounds) -> None:
        lag, senders = rounds.lag, len(rounds.senders)
        at = tick_of(chunk, rounds.last)
        cell = (at[:, None] * senders + np.arange(senders)).ravel()
        median, p95 = quantiles(cell, lag.ravel(), (0.5, 0.95), chunk.ticks * senders)
        last = means(cell, (lag == lag.max(axis=1, keepdims=True)).astype(float).ravel(), chunk.ticks * senders)
        for column, member in enumerate(rounds.senders):
            for what, values in (("onset_lag", median), ("onset_lag_p95", p95), ("last_share", last)):
                self._emit_lag(out, what, values.reshape(chunk.ticks, senders)[:, column], int(member))

    def _emit_lag(self, out: PortSamples, what: str, values: F64, member: int) -> None:
        name = self.group.name
        if member == self.group.own:
            out.put(f"wire.own_{what}", values, name)
        else:
            out.put(f"wire.peer_{what}", values, name, "peer", f"{out.port}>{self.group.nodes[member]}")

    def _emit_pace(self, chunk: Chunk, out: PortSamples, rounds: BarrierRounds) -> None:
        at, name = tick_of(chunk, rounds.last), self.group.name
        first = rounds.begin.min(axis=1)
        period = np.diff(first, prepend=self.last_begin)
        even = rounds.unbroken & ~np.isnan(period)
        emit_periods(chunk, out, name, at[even], period[even])
        pauses = first - np.append(self.last_end, rounds.end[:-1])
        known = ~np.isnan(pauses)
        out.put("wire.own_longest_pause", quantiles(at[known], pauses[known], (1.0,), chunk.ticks)[0], name)
        self.last_begin, self.last_end = float(first[-1]), float(rounds.end[-1])
        spent = np.maximum(rounds.end - rounds.last, 0.0)
        out.put("wire.port_exchange_time", quantiles(at, spent, (0.5,), chunk.ticks)[0], name)


@dataclass
class TransferReducer:
    """A group whose members send caches to one another, each at its own time."""

    group: GroupView
    cutter: BurstCutter = field(default_factory=lambda: BurstCutter(GapThreshold(usual_share=QUEUED_SHARE)))

    def reduce(self, chunk: Chunk, data: Mask, out: PortSamples) -> None:
        packets = chunk.packets
        other = members_of(self.group, packets.dst)
        full = data & chunk.tx & (packets.length >= MIN_CACHE_PACKET)
        mine = np.flatnonzero(full & (other >= 0) & (other != self.group.own))
        bursts = self.cutter.cut(
            other[mine],
            packets.time[mine], packets.length[mine].astype(float), chunk.until, chunk.ticks * chunk.step,
        )  # fmt: skip
        sent = bursts.take((bursts.size >= MIN_CACHE_BYTES) & (bursts.end > bursts.begin))
        at, name = tick_of(chunk, sent.end), self.group.name
        out.put("wire.transfer_bytes", quantiles(at, sent.size, (0.5,), chunk.ticks)[0], name)
        out.put("wire.transfer_speed", quantiles(at, sent.size / (sent.end - sent.begin), (0.5,), chunk.ticks)[0], name)
