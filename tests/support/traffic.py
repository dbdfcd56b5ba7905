"""Generated traffic of a parallel group, as each of its ports would capture it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.ingest.feed import Block, SeriesTable, merge_blocks
from skewscope.engine.model.topology import Group, Node, Port, Topology
from skewscope.engine.wire.join import WireJoin
from skewscope.engine.wire.packets import ACK, PSH, TCP, Packets
from skewscope.engine.wire.reducer import PortReducer
from skewscope.engine.wire.view import GroupView, PortView

START = 1_000_000.0
STOPPED_S = 8.0
"""Seconds seen after a member has stopped."""
ANNOUNCEMENT = 48
"""Bytes with which a receiver or a sender announces itself."""


@dataclass
class Send:
    """One burst: `sender` to `receiver` at `time`."""

    time: float
    sender: int
    receiver: int
    segments: int
    size: int = 0
    """Bytes of a segment's payload; 0 for the shape's."""


@dataclass
class Shape:
    """A group and its communication pattern."""

    size: int = 4
    kind: str = "tensor-parallel"
    compute: float = 8e-3
    transit: float = 50e-6
    spacing: float = 5e-6
    """Between segments of a burst."""
    segment: int = 4096
    segments: int = 4
    jitter: float = 0.05
    late: dict[int, float] = field(default_factory=dict)
    """Extra seconds of compute by member."""
    offset: tuple[float, ...] = ()
    """How wrong each port's clock is."""
    stopped: int = -1
    """Member that stops at `stop`; what depends on it never comes."""
    stop: float = np.inf

    def until_stop(self, times: np.ndarray) -> np.ndarray:
        """Returns [member] times, infinite where the member has stopped before."""
        is_gone = (np.arange(self.size) == self.stopped) & (times > self.stop)
        return np.where(is_gone, np.inf, times)


def mesh(shape: Shape, rounds: int, seed: int = 1) -> Iterator[Send]:
    """Returns an all-to-all exchange, then a barrier."""
    rng = np.random.default_rng(seed)
    ready = np.full(shape.size, START)
    for _ in range(rounds):
        begin = ready + works(shape, rng)
        for i in range(shape.size):
            for k in range(1, shape.size):
                yield Send(begin[i] + k * shape.spacing * shape.segments, i, (i + k) % shape.size, shape.segments)
        arrive = begin + shape.size * shape.spacing * shape.segments + shape.transit
        ready = np.maximum(ready, arrive.max())


def ring(shape: Shape, rounds: int, seed: int = 1) -> Iterator[Send]:
    """Returns a ring all-reduce: 2(n-1) steps, each sent after the previous one arrived from the neighbour."""
    rng = np.random.default_rng(seed)
    ready = np.full(shape.size, START)
    hop = shape.transit + shape.spacing * shape.segments
    for _ in range(rounds):
        begin = ready + works(shape, rng)
        for _step in range(2 * (shape.size - 1)):
            begin = shape.until_stop(begin)
            for i in range(shape.size):
                yield Send(begin[i], i, (i + 1) % shape.size, shape.segments)
            begin = np.maximum(begin + shape.spacing * shape.segments, np.roll(begin, 1) + hop)
        ready = begin


def announced_ring(shape: Shape, rounds: int, seed: int = 1) -> Iterator[Send]:
    """Returns a ring all-reduce whose receivers announce themselves: nothing is sent to a member that has not begun."""
    rng = np.random.default_rng(seed)
    ready = np.full(shape.size, START)
    hop = shape.transit + shape.spacing * shape.segments
    for _ in range(rounds):
        begin = ready + works(shape, rng)
        for _step in range(2 * (shape.size - 1)):
            begin = shape.until_stop(begin)
            for i in range(shape.size):
                yield Send(begin[i], i, (i - 1) % shape.size, 1, ANNOUNCEMENT)
            sent = shape.until_stop(np.maximum(begin, np.roll(begin, -1) + shape.transit) + shape.spacing)
            for i in range(shape.size):
                yield Send(sent[i], i, (i + 1) % shape.size, 1, ANNOUNCEMENT)
                yield Send(sent[i] + shape.spacing, i, (i + 1) % shape.size, shape.segments)
            begin = np.maximum(sent + shape.spacing * shape.segments, np.roll(sent, 1) + hop)
        ready = begin


def halving(shape: Shape, rounds: int, seed: int = 1) -> Iterator[Send]:
    """Returns recursive halving and doubling: in each step pairs exchange, ever farther apart, then back."""
    rng = np.random.default_rng(seed)
    ready = np.full(shape.size, START)
    hop = shape.transit + shape.spacing * shape.segments
    distances = [1 << k for k in range(shape.size.bit_length() - 1)]
    for _ in range(rounds):
        begin = ready + works(shape, rng)
        for distance in distances[::-1] + distances:
            partner = np.arange(shape.size) ^ distance
            begin = shape.until_stop(begin)
            for i in range(shape.size):
                yield Send(begin[i], i, int(partner[i]), shape.segments)
            begin = np.maximum(begin, begin[partner]) + hop
        ready = begin


def pipeline(shape: Shape, rounds: int, seed: int = 1, flight: int = 1) -> Iterator[Send]:
    """Returns a pipeline with `flight` batches in flight; the last stage reports to the first."""
    rng = np.random.default_rng(seed)
    free = np.full(shape.size, START)
    done = [START] * flight
    hop = shape.transit + shape.spacing * shape.segments
    for turn in range(rounds):
        time = done[turn % flight]
        work = works(shape, rng)
        for stage in range(shape.size):
            free[stage] = time = max(time, free[stage]) + work[stage]
            last = stage == shape.size - 1
            yield Send(time, stage, (stage + 1) % shape.size, 1 if last else shape.segments)
            time += hop
        done[turn % flight] = time


def sharded(shape: Shape, rounds: int, seed: int = 1, layers: int = 4) -> Iterator[Send]:
    """Returns steps of sharded data parallelism: weights are gathered before each layer, forward and back.

    Gradients are scattered after each layer on the way back; layers take twice as long there. At times the processor is
    taken from a member inside a collective.
    """
    rng = np.random.default_rng(seed)
    ready = np.full(shape.size, START)
    hop = shape.transit + shape.spacing * shape.segments
    passes = [(1, 1.0)] * layers + [(2, 2.0)] * layers
    for _ in range(rounds):
        for collectives, factor in passes:
            for _collective in range(collectives):
                for _step in range(shape.size - 1):
                    ready = ready + rng.exponential(shape.compute / 4, shape.size) * (rng.random(shape.size) < 0.2)
                    for i in range(shape.size):
                        yield Send(ready[i], i, (i - 1) % shape.size, 1, ANNOUNCEMENT)
                    sent = np.maximum(ready, np.roll(ready, -1) + shape.transit) + shape.spacing
                    for i in range(shape.size):
                        yield Send(sent[i], i, (i + 1) % shape.size, shape.segments)
                    ready = np.maximum(sent + shape.spacing * shape.segments, np.roll(sent, 1) + hop)
            ready = ready + factor * works(shape, rng)


def training(shape: Shape, rounds: int, seed: int = 1, batches: int = 4) -> Iterator[Send]:
    """Returns the steps of a pipeline in training: batches forward, then back; a sender waits until its receiver asks.

    A sender announces its output as it is done, and sends it once the receiver has taken the one before.
    """
    rng = np.random.default_rng(seed)
    free = np.full(shape.size, START)
    hop = shape.transit + shape.spacing * shape.segments
    for _ in range(rounds):
        for factor, stages in ((1.0, range(shape.size)), (2.0, range(shape.size - 1, -1, -1))):
            for _batch in range(batches):
                work = factor * works(shape, rng)
                arrived = -np.inf
                for stage in stages:
                    done = max(arrived, free[stage]) + work[stage]
                    free[stage] = done if stage != shape.stopped or done <= shape.stop else np.inf
                    if stage == stages[-1]:
                        continue
                    receiver = stage + stages.step
                    yield Send(free[stage], stage, receiver, 1, ANNOUNCEMENT)
                    asked = free[receiver] + shape.spacing
                    yield Send(asked, receiver, stage, 1, ANNOUNCEMENT)
                    free[stage] = max(free[stage], asked + shape.transit) + shape.spacing
                    yield Send(free[stage], stage, receiver, shape.segments)
                    arrived = free[stage] + hop


def works(shape: Shape, rng: np.random.Generator) -> np.ndarray:
    extra = np.array([shape.late.get(i, 0.0) for i in range(shape.size)])
    return (shape.compute + extra) * (1 + shape.jitter * rng.uniform(-1, 1, shape.size))


def captured(shape: Shape, sends: list[Send], port: int) -> Packets:
    """Returns the packets that the port of one member captures, on its own clock."""
    mine = [s for s in sends if port in (s.sender, s.receiver)]
    count = np.array([s.segments for s in mine])
    which = np.repeat(np.arange(len(mine)), count)
    number = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    sender, receiver = np.array([s.sender for s in mine])[which], np.array([s.receiver for s in mine])[which]
    time = np.array([s.time for s in mine])[which] + number * shape.spacing
    time += np.where(receiver == port, shape.transit, 0.0) + (shape.offset[port] if shape.offset else 0.0)
    length = np.array([s.size or shape.segment for s in mine])[which]
    order = np.argsort(time, kind="stable")
    sender, receiver, time, length = sender[order], receiver[order], time[order], length[order]
    seq = np.zeros(len(time), np.uint32)
    for pair in set(zip(sender.tolist(), receiver.tolist(), strict=True)):
        flow = (sender == pair[0]) & (receiver == pair[1])
        seq[flow] = (np.cumsum(length[flow]) - length[flow] + 7).astype(np.uint32)
    return packets(time=time, src=sender + 1, dst=receiver + 1, seq=seq, length=length)


def packets(**columns: np.ndarray) -> Packets:
    """Returns TCP packets; omitted columns get defaults."""
    n = len(columns["time"])
    types = {name: kind for name, kind in _TYPES.items() if name not in columns}
    whole = {name: np.zeros(n, kind) for name, kind in types.items()}
    whole |= {name: np.asarray(value).astype(_TYPES[name]) for name, value in columns.items()}
    usual = {"proto": TCP, "flags": ACK | PSH, "sport": 7000, "dport": 7000, "window": 500}
    for name, value in usual.items():
        if name not in columns:
            whole[name][:] = value
    if "size" not in columns:
        whole["size"] = whole["length"] + 66
    return Packets(**whole)


_TYPES = {
    "time": np.float64, "src": np.uint64, "dst": np.uint64, "sport": np.uint16, "dport": np.uint16, "proto": np.uint8,
    "length": np.int32, "size": np.int32, "seq": np.uint32, "ack": np.uint32, "flags": np.uint8, "window": np.uint16,
    "opcode": np.uint8, "qp": np.uint32, "psn": np.uint32, "syndrome": np.uint8, "ecn": np.uint8,
}  # fmt: skip


def topology(shape: Shape) -> Topology:
    nodes = tuple(Node(f"n{i}", ports=(Port(f"n{i}", "ew", "east-west"),)) for i in range(shape.size))
    return Topology(nodes, (Group("G", shape.kind, tuple(n.name for n in nodes), "n0"),))


def view(shape: Shape, port: int) -> PortView:
    names = tuple(f"n{i}" for i in range(shape.size))
    group = GroupView("G", shape.kind, port, names, {i + 1: i for i in range(shape.size)})
    peers = {i + 1: f"n{i}/ew" for i in range(shape.size) if i != port}
    return PortView(f"n{port}/ew", f"n{port}", "east-west", frozenset([port + 1]), peers, (group,))


@dataclass
class Told:
    """All samples of the reducers and the join."""

    table: SeriesTable
    block: Block

    def of(self, signal: str, entity: str) -> np.ndarray:
        """Returns the values of one series in time order, all selectors together."""
        numbers = [i for i, k in enumerate(self.table.keys) if k.signal == signal and k.entity == entity]
        return self.block.value[np.isin(self.block.series, numbers)]

    def typical(self, signal: str, entity: str) -> float:
        """Returns its median without the first values."""
        values = self.of(signal, entity)
        return float(np.median(values[len(values) // 4 :])) if len(values) else float("nan")


def told(shape: Shape, make: Callable[..., Iterator[Send]], rounds: int = 200, chunk: int = 5, **kw: int) -> Told:
    """Returns the samples of a group, by port and joined."""
    sends = [send for send in make(shape, rounds, **kw) if np.isfinite(send.time)]
    table, ports = SeriesTable(), range(shape.size)
    until = shape.stop + STOPPED_S if np.isfinite(shape.stop) else 0.0
    parts = [reduced(PortReducer(view(shape, p)), captured(shape, sends, p), table, chunk, until) for p in ports]
    block = merge_blocks(parts)
    join, ticks = WireJoin(topology(shape)), [block]
    latest, times = np.empty(0), np.empty(0)
    for end in np.unique(block.time):
        room = len(table.keys) - len(latest)
        latest, times = np.append(latest, np.full(room, np.nan)), np.append(times, np.full(room, -np.inf))
        now = block.time == end
        latest[block.series[now]], times[block.series[now]] = block.value[now], end
        ticks.append(join(float(end), table, latest, times))
    return Told(table, merge_blocks(ticks))


def reduced(reducer: PortReducer, captured: Packets, table: SeriesTable, chunk: int = 5, until: float = 0.0) -> Block:
    """Returns the samples of one port, also of a silence that lasts until a time."""
    parts = []
    first = np.floor(captured.time.min())
    while first <= max(captured.time.max(), until):
        inside = (captured.time >= first) & (captured.time < first + chunk)
        samples = reducer.reduce(captured.take(inside), first, chunk)
        for key, time, value in zip(samples.keys, samples.times, samples.values, strict=True):
            parts.append(Block(time, np.full(len(time), table.number(key), np.int32), value))
        first += chunk
    return merge_blocks(parts)
