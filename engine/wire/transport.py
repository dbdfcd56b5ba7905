"""Derives loss, reordering, round-trip time and congestion marks from transport headers at one port."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, I64, Mask
from skewscope.engine.wire.chunk import Chunk, PortSamples
from skewscope.engine.wire.keys import KeyTable, hash_columns, renumber, stable_order
from skewscope.engine.wire.losses import SentSegments, durations_before_losses
from skewscope.engine.wire.packets import ACK, FIN, ROCE, ROCE_ACK, ROCE_CNP, RST, SYN, TCP, Packets
from skewscope.engine.wire.sequence import (
    SPAN,
    FlowState,
    SegmentClasses,
    classify_segments,
    highest_before,
    match_acks,
    run_starts,
    unwrap,
)
from skewscope.engine.wire.ticks import quantile, quantiles, ratio, trailing_sums

WINDOW_S = 5.0
"""Seconds over which shares are counted: at 2 % loss, a stage that sends 10 segments a second still shows one."""
MIN_SEGMENTS = 8
"""Segments in the window below which no share of them is emitted."""
REORDER_SHARE = 0.5
"""A segment that fills a hole sooner than this share of the round trip cannot be a retransmission."""
REORDER_FIRST = 100e-6
"""The limit until a round trip was measured, s."""
PORT_STEP = np.uint64(0x9E3779B97F4A7C15)
"""Distance of the keys of two neighbouring ports."""
BIN_S = 0.1
"""Length of the bins in which closed windows are counted, s."""


@dataclass
class TransportReducer:
    """Reduces transport headers of one port, over chunks."""

    flows: KeyTable = field(default_factory=KeyTable)
    tcp: FlowState = field(default_factory=FlowState)
    roce: FlowState = field(default_factory=FlowState)
    acks: FlowState = field(default_factory=FlowState)
    """The highest acknowledgement of each flow."""
    reorder_limit: float = REORDER_FIRST
    counts: dict[str, F64] = field(default_factory=dict)
    """Tail of per-tick counts, for shares over a window longer than a chunk."""

    def reduce(self, chunk: Chunk, out: PortSamples, peer_names: list[str], node: str = "") -> Mask:
        """Adds the chunk's transport samples to `out`; returns [packet] first transmissions that carry data.

        `node` is the node whose clients the port serves, if any.
        """
        if self.flows.is_full:
            self.flows, self.tcp, self.roce, self.acks = KeyTable(), FlowState(), FlowState(), FlowState()
        packets = chunk.packets
        none = [np.zeros(len(packets), bool) for _ in range(3)]
        fate = _PacketClasses(none[0], none[1], none[2], np.full(len(packets), -1, np.int64))
        data = _is_data(packets)
        rtts = [_NO_RTTS]
        for proto, reducer in ((TCP, self._tcp), (ROCE, self._roce)):
            rows = np.flatnonzero(packets.proto == proto)
            if len(rows):
                rtts.append(reducer(chunk, rows, fate))
        self._emit_loss(chunk, out, data, fate, peer_names)
        if node:
            self._emit_lost_requests(chunk, out, fate, node)
        out.put("wire.rtt_before_loss", quantiles(*fate.before_loss, (0.5,), chunk.ticks)[0])
        self._emit_rtt(chunk, out, *(np.concatenate(column) for column in zip(*rtts, strict=True)))
        self._emit_acks(chunk, out, fate.flow)
        _emit_marks(chunk, out)
        return np.asarray(data & ~fate.is_retransmission)

    def _tcp(self, chunk: Chunk, rows: I64, fate: "_PacketClasses") -> tuple[I64, F64]:
        packets = chunk.packets
        flow = self._flow_numbers(packets, rows)
        back = flow ^ 1
        fate.flow[rows] = flow
        advances = packets.length[rows] + ((packets.flags[rows] & (SYN | FIN)) > 0)
        sends = np.flatnonzero((advances > 0) & ((packets.flags[rows] & RST) == 0))
        at = rows[sends]
        before = self.tcp.number.copy(), self.tcp.known.copy()
        judged = classify_segments(
            flow[sends], packets.time[at], packets.seq[at].astype(np.int64), advances[sends].astype(np.int64),
            self.tcp, bits=32, reorder=self.reorder_limit,
        )  # fmt: skip
        fate.is_retransmission[at[judged.order]] = judged.is_retransmission & ~_is_probe(
            judged, packets.length[at[judged.order]]
        )
        fate.is_out_of_order[at[judged.order]] = judged.is_out_of_order
        if not len(sends):
            return _NO_RTTS
        base = _flow_bases(flow[sends], packets.seq[at].astype(np.int64), before, int(flow.max()) + 1, back)
        tcp = _TcpSegments(rows, back, base, judged, at[judged.order])
        self._mark_spurious(packets, tcp, fate)
        return self._tcp_rtt(chunk, tcp, fate)

    def _mark_spurious(self, packets: Packets, tcp: "_TcpSegments", fate: "_PacketClasses") -> None:
        """Marks segments retransmitted after their acknowledgement passed here: it was lost further on."""
        rows, flow, position = tcp.acks(packets)
        base, judged = tcp.base, tcp.segments
        self.acks.reserve(len(base))
        held = (self.acks.number[: len(base)] - base + (1 << 31)) % (1 << 32) - (1 << 31)
        floor = np.where(self.acks.known[: len(base)] & (base >= 0), held, -SPAN)
        told = np.maximum(highest_before(flow, position, floor[flow]), position)
        again = np.flatnonzero(judged.is_retransmission)
        row, whose = tcp.sent[again], judged.flow[again]
        size = len(packets) + 1
        before = np.searchsorted(flow * size + rows, whose * size + row) - 1
        some = (before >= 0) & (flow[np.maximum(before, 0)] == whose) if len(flow) else np.zeros(len(again), bool)
        known = np.where(some, told[np.maximum(before, 0)] if len(flow) else -SPAN, floor[whose])
        fate.is_spurious[row] = fate.is_retransmission[row] & (known >= judged.end[again])
        last = np.flatnonzero(run_starts(flow[::-1])[::-1])
        self.acks.number[flow[last]] = (base[flow[last]] + told[last]) % (1 << 32)
        self.acks.known[flow[last]] = True

    def _flow_numbers(self, packets: Packets, rows: I64) -> I64:
        """Returns [row] the number of its flow; that of the reverse flow differs in the last bit."""
        here = hash_columns(packets.src[rows] + packets.sport[rows] * PORT_STEP)
        there = hash_columns(packets.dst[rows] + packets.dport[rows] * PORT_STEP)
        return 2 * self.flows.numbers(here + there) + (here < there)

    def _tcp_rtt(self, chunk: Chunk, tcp: "_TcpSegments", fate: "_PacketClasses") -> tuple[I64, F64]:
        """Returns ([ack] row, [ack] round trip in s) from the first transmission by the host that it covers."""
        packets, judged = chunk.packets, tcp.segments
        rows, flow, position = tcp.acks(packets, chunk.rx)
        mine = chunk.tx[tcp.sent] & ~judged.is_retransmission & ~judged.is_out_of_order
        if not len(rows) or not mine.any():
            return _NO_RTTS
        found = match_acks(judged.flow[mine], judged.end[mine], flow, position)
        some = found >= 0
        sent = packets.time[tcp.sent[mine][some]]
        heard = rows[found[some]]
        took = packets.time[heard] - sent
        fine = took >= 0
        first = SentSegments(judged.flow[mine][some][fine], judged.end[mine][some][fine], sent[fine], took[fine])
        self._note_losses(chunk, first, tcp, fate)
        return heard[fine], took[fine]

    def _note_losses(self, chunk: Chunk, first: SentSegments, tcp: "_TcpSegments", fate: "_PacketClasses") -> None:
        """Stores the round trips of the segments before lost ones."""
        judged, at = tcp.segments, tcp.sent
        lost = np.flatnonzero(judged.is_retransmission & ~fate.is_spurious[at] & chunk.tx[at])
        again = SentSegments(judged.flow[lost], judged.begin[lost], chunk.packets.time[at[lost]], np.zeros(len(lost)))
        which, took = durations_before_losses(first, again)
        real = took >= self.reorder_limit  # shorter than the path allows: the acknowledgement answered another copy
        fate.before_loss = chunk.tick[at[lost[which[real]]]], took[real]

    def _roce(self, chunk: Chunk, rows: I64, fate: "_PacketClasses") -> tuple[I64, F64]:
        packets = chunk.packets
        opcode = packets.opcode[rows]
        sends = rows[(opcode != ROCE_ACK) & (opcode != ROCE_CNP)]
        flow = self.flows.numbers(hash_columns(packets.src[sends], packets.dst[sends], packets.qp[sends]))
        judged = classify_segments(
            flow, packets.time[sends], packets.psn[sends].astype(np.int64), np.ones(len(sends), np.int64),
            self.roce, bits=24, reorder=self.reorder_limit,
        )  # fmt: skip
        fate.is_retransmission[sends[judged.order]] = judged.is_retransmission
        fate.is_out_of_order[sends[judged.order]] = judged.is_out_of_order
        return _roce_rtt(chunk, sends[~fate.is_retransmission[sends] & chunk.tx[sends]], rows[opcode == ROCE_ACK])

    def _emit_loss(self, chunk: Chunk, out: PortSamples, data: Mask, fate: "_PacketClasses", names: list[str]) -> None:
        again, shuffled = fate.is_retransmission, fate.is_out_of_order
        lost = again & ~fate.is_spurious
        for word, way in (("tx", chunk.tx), ("rx", chunk.rx)):
            sent = self._window_counts(f"sent {word}", chunk, data & way)
            repeated = self._window_counts(f"again {word}", chunk, lost & data & way)
            # One retransmission is no evidence: a late acknowledgement provokes one at the end of a stream.
            out.put("wire.retransmit_ratio", ratio(np.where(repeated > 1, repeated, 0.0), sent, MIN_SEGMENTS), word)
            out.put(
                "wire.out_of_order_ratio",
                ratio(self._window_counts(f"shuffled {word}", chunk, shuffled & way), sent, MIN_SEGMENTS),
                word,
            )
        repeats = self._window_counts("again by peer", chunk, again & data, len(names))
        counted = self._window_counts("sent by peer", chunk, data, len(names))
        share = ratio(repeats, counted, MIN_SEGMENTS)
        # Among few segments, one would weigh too much.
        out.put("wire.own_retransmit_ratio", _lower_median(ratio(np.maximum(repeats - 1, 0), counted, MIN_SEGMENTS)))
        for name, row in zip(names, share, strict=True):
            if name:
                out.put("wire.peer_retransmit_ratio", row, kind="peer", entity=f"{out.port}>{name}")

    def _emit_lost_requests(self, chunk: Chunk, out: PortSamples, fate: "_PacketClasses", node: str) -> None:
        """Emits the share of clients' segments that were lost; a lost acknowledgement is seldom visible."""
        came = chunk.rx & (chunk.packets.proto == TCP)
        lost = fate.is_retransmission & (came != fate.is_spurious)
        counted = self._window_counts("requests", chunk, came)
        out.put(
            "wire.request_loss_ratio",
            ratio(self._window_counts("lost requests", chunk, lost), counted, MIN_SEGMENTS),
            "", "node", node,
        )  # fmt: skip

    def _window_counts(self, what: str, chunk: Chunk, mask: Mask, peers: int = 0) -> F64:
        """Returns [tick] or [peer, tick] counts of `mask` over the last `WINDOW_S` seconds."""
        rows = max(peers, 1)
        if peers:
            at = chunk.tick[mask] + chunk.peer[mask] * chunk.ticks
            now = np.bincount(at, minlength=rows * chunk.ticks).astype(np.float64).reshape(rows, chunk.ticks)
        else:
            now = chunk.count(mask)[None]
        width = max(1, round(WINDOW_S / chunk.step))
        past = self.counts.get(what, np.zeros((rows, 0)))
        if len(past) < rows:
            past = np.vstack((past, np.zeros((rows - len(past), past.shape[1]))))
        whole = np.concatenate((past, now), axis=1)
        self.counts[what] = whole[:, -width:]
        summed = trailing_sums(whole, width)[:, past.shape[1] :]
        return np.asarray(summed if peers else summed[0])

    def _emit_rtt(self, chunk: Chunk, out: PortSamples, heard: I64, took: F64) -> None:
        """Emits round trips, one vote per peer; `heard` are rows of acknowledgements, `took` their seconds."""
        tick, peer = chunk.tick[heard], chunk.peer[heard]
        whose, row = renumber(peer)
        by_peer = quantiles(row * chunk.ticks + tick, took, (0.5,), len(whose) * chunk.ticks)[0]
        out.put("wire.rtt", _lower_median(by_peer.reshape(len(whose), chunk.ticks), least=1))
        out.put("wire.rtt_p95", quantiles(tick, took, (0.95,), chunk.ticks)[0])
        if len(took):
            self.reorder_limit = REORDER_SHARE * quantile(took, 0.1)

    def _emit_acks(self, chunk: Chunk, out: PortSamples, flow: I64) -> None:
        packets = chunk.packets
        pure = (packets.proto == TCP) & (packets.length == 0) & ((packets.flags & (SYN | FIN | RST | ACK)) == ACK)
        rows = np.flatnonzero(pure)
        twice = np.zeros(len(packets), bool)
        twice[rows] = _is_duplicate_ack(flow[rows], packets.ack[rows], packets.window[rows])
        for word, way in (("tx", chunk.tx), ("rx", chunk.rx)):
            counted = self._window_counts(f"acks {word}", chunk, pure & way)
            out.put(
                "wire.dup_ack_ratio",
                ratio(self._window_counts(f"twice {word}", chunk, twice & way), counted, MIN_SEGMENTS),
                word,
            )
        closed = (packets.proto == TCP) & (packets.window == 0) & ((packets.flags & (RST | SYN)) == 0) & chunk.rx
        heard = chunk.count(packets.proto == TCP) > 0
        out.put("wire.zero_window_ratio", np.where(heard, _bin_share(chunk, closed), np.nan))


@dataclass(slots=True)
class _PacketClasses:
    """Classes of each packet of a chunk."""

    is_retransmission: Mask
    """Retransmitted, with data or to open or close a connection."""
    is_out_of_order: Mask
    is_spurious: Mask
    """Retransmitted after its acknowledgement passed here: the loss was in the other direction."""
    flow: I64
    """Numbers of the flows of TCP packets; -1 of others."""
    before_loss: tuple[I64, F64] = field(default_factory=lambda: (np.empty(0, np.int64), np.empty(0)))
    """([loss] tick, [loss] round trip of the segment before it, s)."""


@dataclass(frozen=True, slots=True)
class _TcpSegments:
    """The TCP packets of a chunk."""

    rows: I64
    """[segment] row in the chunk."""
    back: I64
    """[segment] number of the reverse flow."""
    base: I64
    """[flow] where its positions begin; negative where it sent nothing yet."""
    segments: SegmentClasses
    sent: I64
    """[segment] row in the chunk of each classified segment."""

    def acks(self, packets: Packets, among: Mask | None = None) -> tuple[I64, I64, I64]:
        """Returns [ack] (row in the chunk, flow that it acknowledges, position in that flow), by flow, then time."""
        wanted = ((packets.flags[self.rows] & (ACK | RST)) == ACK) & (self.base[self.back] >= 0)
        which = np.flatnonzero(wanted if among is None else wanted & among[self.rows])
        which = which[stable_order(self.back[which])]
        rows, flow = self.rows[which], self.back[which]
        return rows, flow, unwrap(flow, packets.ack[rows].astype(np.int64), self.base[flow], 32)


_NO_RTTS: tuple[I64, F64] = (np.empty(0, np.int64), np.empty(0))


def _is_data(packets: Packets) -> Mask:
    roce = (packets.proto == ROCE) & (packets.opcode != ROCE_ACK) & (packets.opcode != ROCE_CNP)
    return np.asarray((packets.length > 0) & ((packets.proto == TCP) | roce))


def _is_probe(judged: SegmentClasses, length: NDArray[np.int32]) -> Mask:
    """Keep-alives and window probes: one old byte, on purpose."""
    return np.asarray((judged.end - judged.begin <= 1) & (length > 0))


def _flow_bases(flow: I64, number: I64, before: tuple[I64, Mask], flows: int, back: I64) -> I64:
    """Returns [flow] the wrapping number that is its position 0; -1 where the flow sent nothing."""
    size = max(flows, int(back.max(initial=0)) + 1)
    base = np.full(size, -1, np.int64)
    base[flow[::-1]] = number[::-1]
    held, known = before
    old = np.flatnonzero(known[: len(held)])
    base[old[old < size]] = held[old[old < size]]
    return base


def _roce_rtt(chunk: Chunk, sends: I64, acks: I64) -> tuple[I64, F64]:
    """Returns ([ack] row, [ack] round trip in s) from the host's request with the same PSN to the same peer."""
    acks = acks[chunk.rx[acks]]
    if not len(acks) or not len(sends):
        return _NO_RTTS
    packets = chunk.packets
    asked = hash_columns(packets.dst[sends], packets.psn[sends])
    order = np.argsort(asked, kind="stable")
    heard = hash_columns(packets.src[acks], packets.psn[acks])
    at = np.searchsorted(asked[order], heard, side="right") - 1
    match = (at >= 0) & (asked[order][np.maximum(at, 0)] == heard)
    took = packets.time[acks[match]] - packets.time[sends[order[at[match]]]]
    fine = took >= 0
    return acks[match][fine], took[fine]


def _is_duplicate_ack(flow: I64, ack: NDArray[np.uint32], window: NDArray[np.uint16]) -> Mask:
    """Returns [ack] whether a pure acknowledgement repeats the one before it in its flow."""
    order = stable_order(flow)
    same = np.zeros(len(flow), bool)
    if len(flow) > 1:
        here, there = order[1:], order[:-1]
        same[here] = (flow[here] == flow[there]) & (ack[here] == ack[there]) & (window[here] == window[there])
    return same


def _bin_share(chunk: Chunk, mask: Mask) -> F64:
    """Returns [tick] the share of bins of `BIN_S` seconds that hold a packet of the mask."""
    per = max(1, round(chunk.step / BIN_S))
    at = np.floor((chunk.packets.time[mask] - chunk.first) / chunk.step * per).astype(np.int64)
    hit = np.zeros(chunk.ticks * per)
    hit[np.clip(at, 0, len(hit) - 1)] = 1
    return np.asarray(hit.reshape(chunk.ticks, per).mean(axis=1))


def _lower_median(share: F64, least: int = 2) -> F64:
    """Returns [tick] the lower median over peers, which only a majority can raise; NaN with fewer than `least`."""
    if not len(share):
        return np.full(share.shape[1:], np.nan)
    known = (~np.isnan(share)).sum(axis=0)
    ordered = np.sort(share, axis=0)
    middle = np.take_along_axis(ordered, np.maximum(known - 1, 0)[None, :] // 2, axis=0)[0]
    return np.asarray(np.where(known >= least, middle, np.nan))


def _emit_marks(chunk: Chunk, out: PortSamples) -> None:
    packets = chunk.packets

    def per_second(mask: Mask) -> F64:
        return np.asarray(chunk.count(mask) / chunk.step)

    capable = per_second(packets.ecn > 0)
    out.put("wire.ecn_ce_ratio", ratio(per_second(packets.ecn == 3), capable, MIN_SEGMENTS / chunk.step))
    roce = packets.proto == ROCE
    if not roce.any():
        return
    heard = per_second(roce) > 0
    nak = roce & (packets.opcode == ROCE_ACK) & ((packets.syndrome & 0x60) != 0)
    for word, way in (("tx", chunk.tx), ("rx", chunk.rx)):
        out.put("wire.cnp_rate", np.where(heard, per_second(roce & (packets.opcode == ROCE_CNP) & way), np.nan), word)
        out.put("wire.nak_rate", np.where(heard, per_second(nak & way), np.nan), word)
