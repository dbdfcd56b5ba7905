"""Classifies segments as new, retransmitted or out of order, and matches acknowledgements to them.

TCP sequence numbers (32 bits) and RoCEv2 packet sequence numbers (24 bits) are unwrapped per flow and compared with
the highest seen so far at this vantage. Below it, a segment is a *retransmission* if its range was seen before, or if
it fills a hole later than a reordered packet would; else it is *out of order*.
"""

from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, I64, Mask
from skewscope.engine.wire.keys import grow_array, stable_order

SPAN = 1 << 42
"""Sequence space given to one flow in a sort key: 4 TB either way within one block."""


def run_starts(group: I64) -> Mask:
    """Returns [row] whether a new run begins, for a column that is ordered by run."""
    return np.concatenate(([True], group[1:] != group[:-1])) if len(group) else np.empty(0, bool)


def unwrap(group: I64, number: I64, base: I64, bits: int) -> I64:
    """Returns [row] wrapping numbers as positions relative to each run's `base` (read at the run's first row)."""
    half, whole = 1 << (bits - 1), 1 << bits
    first = run_starts(group)
    step = np.empty_like(number)
    step[1:] = number[1:] - number[:-1]
    step[first] = number[first] - base[first]
    step = (step + half) % whole - half
    total = np.cumsum(step)
    run = np.cumsum(first) - 1
    return np.asarray(total - (total - step)[first][run])


def highest_before(group: I64, position: I64, floor: I64) -> I64:
    """Returns [row] the highest position before it in its run, at least `floor` (read at the run's start)."""
    first = run_starts(group)
    run = np.cumsum(first) - 1
    lifted = position + run * (2 * SPAN)
    peak = np.maximum.accumulate(lifted) - run * (2 * SPAN)
    before = np.empty_like(peak)
    before[1:] = peak[:-1]
    before[first] = floor[first]
    return np.asarray(np.maximum(before, floor[first][run]))


@dataclass
class FlowState:
    """State of one kind of flow between blocks, by flow number."""

    number: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    """The wrapping number at the highest position."""
    known: Mask = field(default_factory=lambda: np.zeros(0, bool))

    def reserve(self, flows: int) -> None:
        """Extends the state to so many flows."""
        self.number = np.asarray(grow_array(self.number, flows, 0))
        self.known = np.asarray(grow_array(self.known, flows, 0))


@dataclass(frozen=True, slots=True)
class SegmentClasses:
    """Segments of a block with their classes, in the order (flow, time)."""

    order: I64
    """Row of each in the block."""
    flow: I64
    begin: I64
    end: I64
    """Positions relative to the highest of the flow when the block began."""
    is_retransmission: Mask
    is_out_of_order: Mask
    """[segment] out of order and not retransmitted."""


def classify_segments(
    flow: I64, time: F64, number: I64, extent: I64, state: FlowState, *, bits: int, reorder: float
) -> SegmentClasses:
    """Returns the classes of one block's segments (given in time order) and advances `state`.

    Args:
        flow: [segment] number of its directional flow.
        time: [segment] when it was captured, s.
        number: [segment] wrapping sequence number.
        extent: [segment] how far it advances the sequence (bytes, or 1 for a RoCEv2 packet).
        state: carried from block to block.
        bits: width of the wrapping number.
        reorder: s within which a segment that fills a hole counts as reordered, not as retransmitted.
    """
    order = stable_order(flow)
    flow, time, number, extent = flow[order], time[order], number[order], extent[order]
    state.reserve(int(flow.max()) + 1 if len(flow) else 0)
    base = np.where(state.known[flow], state.number[flow], number) if len(flow) else number
    begin = unwrap(flow, number, base, bits)
    end = begin + extent
    floor = np.where(state.known[flow], 0, begin) if len(flow) else begin
    peak = highest_before(flow, end, floor)
    old = begin < peak
    filler, delay = _hole_fillers(flow, time, begin, peak, old)
    shuffled = filler & (delay < reorder)
    if len(flow):
        last = np.flatnonzero(np.concatenate((flow[1:] != flow[:-1], [True])))
        top = np.maximum(peak[last], end[last])
        state.number[flow[last]] = (base[run_starts(flow)] + top) % (1 << bits)
        state.known[flow[last]] = True
    return SegmentClasses(order, flow, begin, end, old & ~shuffled, shuffled)


def _hole_fillers(flow: I64, time: F64, begin: I64, peak: I64, old: Mask) -> tuple[Mask, F64]:
    """Returns [segment] whether it fills a hole left earlier in the block, and s since then (inf if not)."""
    filler, delay = np.zeros(len(flow), bool), np.full(len(flow), np.inf)
    hole = np.flatnonzero(begin > peak)
    late = np.flatnonzero(old)
    if not len(hole) or not len(late):
        return filler, delay
    run = np.cumsum(run_starts(flow)) - 1
    key = peak[hole] + run[hole] * (2 * SPAN)
    at = np.searchsorted(key, begin[late] + run[late] * (2 * SPAN), side="right") - 1
    at_hole = hole[np.maximum(at, 0)]
    inside = (at >= 0) & (flow[at_hole] == flow[late]) & (begin[late] < begin[at_hole]) & (at_hole < late)
    filler[late] = inside
    delay[late[inside]] = time[late[inside]] - time[at_hole[inside]]
    return filler, delay


def match_acks(flow: I64, end: I64, ack_flow: I64, ack: I64) -> I64:
    """Returns [segment] the row of the first acknowledgement of its flow that covers its end; -1 if none.

    `ack_flow`, `ack` are ordered by (flow, time); `ack` are positions in the same space as `end`.
    """
    if not len(ack_flow):
        return np.full(len(flow), -1, np.int64)
    run = np.cumsum(run_starts(ack_flow)) - 1
    covering = np.maximum.accumulate(ack + run * (2 * SPAN))
    run_of = np.full(int(max(flow.max(initial=0), ack_flow.max())) + 1, -1, np.int64)
    run_of[ack_flow] = run
    wanted = run_of[flow]
    at = np.searchsorted(covering, end + wanted * (2 * SPAN))
    found = (wanted >= 0) & (at < len(ack_flow))
    found &= run[np.minimum(at, len(run) - 1)] == wanted
    return np.asarray(np.where(found, at, -1))
