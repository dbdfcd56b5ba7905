"""A parallel group at one port: its bursts read as rounds or as a pipeline, and told per tick."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.feed import F64
from skewscope.engine.wire.bursts import BurstCutter, Bursts, GapThreshold
from skewscope.engine.wire.chunk import I64, Chunk, Mask, Samples
from skewscope.engine.wire.rounds import RoundReader, Rounds
from skewscope.engine.wire.stages import INPUT, OUTPUT, StageReader, Steps
from skewscope.engine.wire.ticks import deviations, means, quantiles
from skewscope.engine.wire.view import PIPELINES, TRANSFERS, GroupView

QUEUED = 0.05
"""In a pipeline, hand-overs that were queued follow one another much closer than usual and are still several."""

FULL = 1000
"""Bytes of payload from which a packet is part of a cache rather than a message about one."""
CACHE = 1 << 16
"""Bytes below which what is sent in one go is no cache."""


class GroupReducer(Protocol):
    """Reads one group at one port, over chunks."""

    def reduce(self, chunk: Chunk, data: Mask, out: Samples) -> None:
        """Put the chunk's signals of the group into `out`; `data` marks packets that carry data for the first time."""


def reducer_of(group: GroupView) -> GroupReducer:
    """The reading that fits the group's kind."""
    if group.kind in TRANSFERS:
        return TransferReducer(group)
    return PipelineReducer(group) if group.kind in PIPELINES else BarrierReducer(group)


def members(group: GroupView, keys: NDArray[np.uint64]) -> I64:
    """The member behind each address key; -1 for an address of none."""
    known = np.array(sorted(group.keys), np.uint64)
    place = np.array([group.keys[k] for k in sorted(group.keys)], np.int64)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.asarray(np.where(known[at] == keys, place[at], -1))


@dataclass
class BarrierReducer:
    """A group whose members all send, then wait for all: mesh, ring or tree alike."""

    group: GroupView
    cutter: BurstCutter = field(default_factory=BurstCutter)
    reader: RoundReader = field(default_factory=RoundReader)
    sent: float = 0.0
    begun: float = np.nan
    """Begin of the last round."""

    def reduce(self, chunk: Chunk, data: Mask, out: Samples) -> None:
        packets = chunk.packets
        other = members(self.group, np.where(chunk.tx, packets.dst, packets.src))
        mine = np.flatnonzero(data & (other >= 0) & (other != self.group.own))
        stream = np.where(chunk.tx[mine], self.group.own, other[mine])
        ring = len(np.unique(stream)) == 2 < len(self.group.nodes)
        bursts = self.cutter.cut(
            stream,
            packets.time[mine], packets.length[mine].astype(float), chunk.until, chunk.ticks * chunk.step,
            steps=2 * len(self.group.nodes) if ring else 0,
        )  # fmt: skip
        rounds = self.reader.read(bursts, chunk.until)
        self._tell_bursts(chunk, out, bursts.take(bursts.stream == self.group.own))
        if len(rounds.begin):
            self._tell_lags(chunk, out, rounds)
            self._tell_pace(chunk, out, rounds)

    def _tell_bursts(self, chunk: Chunk, out: Samples, own: Bursts) -> None:
        name, at = self.group.name, _tick(chunk, own.begin)
        out.put("wire.own_burst_bytes", quantiles(at, own.size, (0.5,), chunk.ticks)[0], name)
        count = np.bincount(at, minlength=chunk.ticks)
        if count.any() or self.sent:
            out.put("wire.bursts", self.sent + np.cumsum(count), name)
        self.sent += float(count.sum())

    def _tell_lags(self, chunk: Chunk, out: Samples, rounds: Rounds) -> None:
        lag, senders = rounds.lag, len(rounds.senders)
        at = _tick(chunk, rounds.last)
        cell = (at[:, None] * senders + np.arange(senders)).ravel()
        median, p95 = quantiles(cell, lag.ravel(), (0.5, 0.95), chunk.ticks * senders)
        last = means(cell, (lag == lag.max(axis=1, keepdims=True)).astype(float).ravel(), chunk.ticks * senders)
        for column, member in enumerate(rounds.senders):
            for what, values in (("onset_lag", median), ("onset_lag_p95", p95), ("last_share", last)):
                self._put_lag(out, what, values.reshape(chunk.ticks, senders)[:, column], int(member))

    def _put_lag(self, out: Samples, what: str, values: F64, member: int) -> None:
        name = self.group.name
        if member == self.group.own:
            out.put(f"wire.own_{what}", values, name)
        else:
            out.put(f"wire.peer_{what}", values, name, "peer", f"{out.port}>{self.group.nodes[member]}")

    def _tell_pace(self, chunk: Chunk, out: Samples, rounds: Rounds) -> None:
        at, name = _tick(chunk, rounds.last), self.group.name
        first = rounds.begin.min(axis=1)
        period = np.diff(first, prepend=self.begun)
        even = rounds.unbroken & ~np.isnan(period)
        _tell_period(chunk, out, name, at[even], period[even])
        self.begun = float(first[-1])
        spent = np.maximum(rounds.end - rounds.last, 0.0)
        out.put("wire.port_exchange_time", quantiles(at, spent, (0.5,), chunk.ticks)[0], name)


@dataclass
class PipelineReducer:
    """A group whose members send in turn."""

    group: GroupView
    cutter: BurstCutter = field(default_factory=lambda: BurstCutter(GapThreshold(usual=QUEUED)))
    reader: StageReader = field(default_factory=StageReader)
    sent: float = 0.0

    def reduce(self, chunk: Chunk, data: Mask, out: Samples) -> None:
        packets, stages = chunk.packets, len(self.group.nodes)
        other = members(self.group, np.where(chunk.tx, packets.dst, packets.src))
        before, after = (self.group.own - 1) % stages, (self.group.own + 1) % stages
        comes, goes = data & chunk.rx & (other == before), data & chunk.tx & (other == after)
        mine = np.flatnonzero(comes | goes)
        bursts = self.cutter.cut(
            np.where(goes[mine], OUTPUT, INPUT),
            packets.time[mine], packets.length[mine].astype(float), chunk.until, chunk.ticks * chunk.step,
        )  # fmt: skip
        steps = self.reader.read(bursts)
        self._tell(chunk, out, steps, bursts.take(bursts.stream == OUTPUT))

    def _tell(self, chunk: Chunk, out: Samples, steps: Steps, sent: Bursts) -> None:
        name, at = self.group.name, _tick(chunk, steps.time)
        out.put("wire.stage_time", quantiles(at, steps.took, (0.5,), chunk.ticks)[0], name)
        out.put("wire.stage_wait", quantiles(at, steps.waited, (0.5,), chunk.ticks)[0], name)
        begun = _tick(chunk, sent.begin)
        out.put("wire.own_burst_bytes", quantiles(begun, sent.size, (0.5,), chunk.ticks)[0], name)
        out.put("wire.port_exchange_time", quantiles(begun, sent.end - sent.begin, (0.5,), chunk.ticks)[0], name)
        if len(sent) or self.sent:
            count = np.bincount(begun, minlength=chunk.ticks)
            out.put("wire.bursts", self.sent + np.cumsum(count), name)
        self.sent += len(sent)
        known = ~np.isnan(steps.period)
        _tell_period(chunk, out, name, at[known], steps.period[known])


@dataclass
class TransferReducer:
    """A group whose members hand caches to one another, each at its own time."""

    group: GroupView
    cutter: BurstCutter = field(default_factory=lambda: BurstCutter(GapThreshold(usual=QUEUED)))

    def reduce(self, chunk: Chunk, data: Mask, out: Samples) -> None:
        packets = chunk.packets
        other = members(self.group, packets.dst)
        full = data & chunk.tx & (packets.length >= FULL)
        mine = np.flatnonzero(full & (other >= 0) & (other != self.group.own))
        bursts = self.cutter.cut(
            other[mine],
            packets.time[mine], packets.length[mine].astype(float), chunk.until, chunk.ticks * chunk.step,
        )  # fmt: skip
        sent = bursts.take((bursts.size >= CACHE) & (bursts.end > bursts.begin))
        at, name = _tick(chunk, sent.end), self.group.name
        out.put("wire.transfer_bytes", quantiles(at, sent.size, (0.5,), chunk.ticks)[0], name)
        out.put("wire.transfer_speed", quantiles(at, sent.size / (sent.end - sent.begin), (0.5,), chunk.ticks)[0], name)


def _tick(chunk: Chunk, time: F64) -> I64:
    """The tick of each time; what began before the chunk counts in its first tick."""
    return np.asarray(np.clip(np.floor((time - chunk.first) / chunk.step), 0, chunk.ticks - 1).astype(np.int64))


def _tell_period(chunk: Chunk, out: Samples, name: str, at: I64, period: F64) -> None:
    median = quantiles(at, period, (0.5,), chunk.ticks)[0]
    out.put("wire.port_round_period", median, name)
    out.put("wire.port_round_rate", 1.0 / np.where(median > 0, median, np.nan), name)
    with np.errstate(invalid="ignore", divide="ignore"):
        out.put("wire.port_round_period_cv", deviations(at, period, chunk.ticks) / means(at, period, chunk.ticks), name)
