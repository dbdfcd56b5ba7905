"""Reduces the capture file of one port to samples of `wire.*` signals."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from skewscope.adapters.formats.bounds import CAPTURE_PACKETS, CAPTURE_SECONDS
from skewscope.adapters.formats.packet_headers import address_key, read_packets
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable, merge_blocks
from skewscope.engine.model.topology import Group, Port, Topology
from skewscope.engine.wire.chunk import PortSamples
from skewscope.engine.wire.packets import Packets
from skewscope.engine.wire.reducer import TICK_LENGTH, PortReducer
from skewscope.engine.wire.view import BARRIERS, PIPELINES, TRANSFERS, GroupView, PortView
from skewscope.kb.problems import InputError

TICKS_PER_STRETCH = 5
"""Ticks per reduction: enough packets for long arrays, few enough for the cache."""
CAPTURE_HINT = "Cut it: editcap -A BEGIN -B END IN OUT."
LOSS_SIGNAL = "wire.rtt_before_loss"
"""Has samples only where packets were lost. Every port's series of it is known from the beginning, so that the series
of a capture seldom become more after its first seconds."""
MAX_SILENCE = 60.0
"""Seconds without a packet after which the reducer restarts and the gap is skipped."""


def build_port_view(topology: Topology, port: Port) -> PortView:
    """Returns the part of the topology that the reducer of a port needs."""
    others = [p for p in topology.port.values() if p.network == port.network and p.id != port.id]
    peers = {address_key(a): p.id for p in others for a in p.addresses}
    own = frozenset(address_key(a) for a in port.addresses)
    read = BARRIERS | PIPELINES | TRANSFERS
    groups = [g for g in topology.groups if g.kind in read] if port.network == "east-west" else []
    views = (_build_group_view(topology, g, port) for g in groups)
    return PortView(port.id, port.node, port.network, own, peers, tuple(v for v in views if v is not None))


def _build_group_view(topology: Topology, group: Group, port: Port) -> GroupView | None:
    nodes = tuple(dict.fromkeys(topology.node_of[m] for m in group.members))
    if port.node not in nodes or len(nodes) < 2:
        return None
    keys = {
        address_key(address): place
        for place, name in enumerate(nodes)
        for p in topology.node[name].ports
        if p.network == port.network
        for address in p.addresses
    }
    return GroupView(group.name, group.kind, nodes.index(port.node), nodes, keys)


def reduce_capture(path: Path, view: PortView, table: SeriesTable) -> tuple[Block, list[str]]:
    """Returns the samples of a capture file, and warnings about it.

    Raises:
        InputError: the file is not a capture, or damaged.
    """
    warnings: list[str] = []
    return merge_blocks(block for _, block in reduce_stretches(path, view, table, warnings)), warnings


def reduce_stretches(
    path: Path, view: PortView, table: SeriesTable, warnings: list[str]
) -> Iterator[tuple[float, Block]]:
    """Yields (end in seconds since 1970, samples up to it) of each stretch of a capture file, in order of time.

    Series get numbers of `table`; what is to be said of the file is added to `warnings` after the last stretch.

    Raises:
        InputError: the file is not a capture, or damaged.
    """
    reader = read_packets(path)
    is_empty = True
    for samples in _reduce_stretches(reader, view, str(path)):
        is_empty = False
        if samples.keys:
            table.number(SeriesKey(LOSS_SIGNAL, "port", view.port))
        yield samples.first + TICKS_PER_STRETCH * samples.step, _build_block(samples, table)
    if reader.truncated_records:
        warnings.append(f"{path.name} ends inside a packet: the capture was cut short")
    if reader.short_frames:
        warnings.append(f"{path.name}: {reader.short_frames} packets were captured too short for their headers")
    if reader.roce_v1_frames:
        count = reader.roce_v1_frames
        warnings.append(f"{path.name}: {count} packets are RoCEv1 (EtherType 0x8915), which is not decoded")
    if is_empty:
        warnings.append(f"{path.name} holds no packet from or to {view.port}")


def _build_block(samples: PortSamples, table: SeriesTable) -> Block:
    if not samples.keys:
        return Block(np.empty(0), np.empty(0, np.int32), np.empty(0))
    numbers = np.array([table.number(key) for key in samples.keys], np.int32)
    series = np.repeat(numbers, [len(time) for time in samples.times])
    return Block(np.concatenate(samples.times), series, np.concatenate(samples.values))


def _reduce_stretches(blocks: Iterable[Packets], view: PortView, file: str) -> Iterator[PortSamples]:
    """Yields samples stretch by stretch; stretches begin at whole seconds, independent of the file's blocks."""
    reducer = PortReducer(view)
    for first, packets in split_stretches(blocks, file):
        if not math.isfinite(first):
            reducer = PortReducer(view)
        else:  # also without a packet: silence is a measurement, not a gap
            yield reducer.reduce(packets, first, TICKS_PER_STRETCH)


def _sort_by_second(packets: Packets) -> Packets:
    """Returns the packets by the second that they were captured in; those of one second stay as they are."""
    second = np.floor(packets.time / TICK_LENGTH)
    if (second[1:] >= second[:-1]).all():
        return packets
    return packets.take(np.argsort(second, kind="stable"))


def split_stretches(blocks: Iterable[Packets], file: str = "") -> Iterator[tuple[float, Packets]]:
    """Yields (begin, packets) of stretches of `TICKS_PER_STRETCH` ticks; (inf, no packets) for a longer silence.

    Raises:
        InputError: the capture has more packets in one stretch, or more stretches, than are read without being asked.
    """
    held: list[Packets] = []
    first = math.nan
    length = TICKS_PER_STRETCH * TICK_LENGTH
    most_packets, most_stretches = CAPTURE_PACKETS.limit(), CAPTURE_SECONDS.limit() / length
    stretches = 0
    for block in blocks:
        if not len(block):
            continue
        held.append(block)
        if math.isnan(first):
            first = math.floor(float(block.time.min()) / TICK_LENGTH) * TICK_LENGTH
        if float(block.time.max()) < first + length:
            if sum(map(len, held)) > most_packets:
                raise InputError([CAPTURE_PACKETS.problem(file, hint=CAPTURE_HINT)])
            continue
        # One search in a whole block for each stretch: a capture may have as many stretches as packets.
        whole = _sort_by_second(Packets.concat(held) if len(held) > 1 else held[0])
        second, at = np.floor(whole.time / TICK_LENGTH) * TICK_LENGTH, 0
        while at < len(whole) and second[-1] >= first + length:
            end = int(np.searchsorted(second, first + length))
            yield first, whole.take(slice(at, end))
            at, first, stretches = max(at, end), first + length, stretches + 1
            if stretches > most_stretches:
                raise InputError([CAPTURE_SECONDS.problem(file, hint=CAPTURE_HINT)])
            if second[at] > first + MAX_SILENCE:
                yield math.inf, whole.take(slice(0, 0))
                first = float(second[at])
        held = [whole.take(slice(at, None))]
    if held:
        yield first, Packets.concat(held)
