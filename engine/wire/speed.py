"""Measures how fast packets follow one another at a port: the speed of its link, as far as senders use it."""

import numpy as np

from skewscope.engine.model.arrays import F64, Mask
from skewscope.engine.wire.chunk import Chunk, PortSamples
from skewscope.engine.wire.keys import stable_order

FAST_SHARE = 2 / 3
"""Share of the bytes that follow the packet before them at the speed or faster: a shaper lets a first part pass."""
MIN_BYTES = 1 << 18
"""Bytes in a tick below which its speed is unknown: what a queue holds passes at once."""
MIN_GAPS = 16
ANSWER_SHARE = 0.25
"""A packet answers one in the other direction if less than this share of the gap before it passed since then."""


def emit_burst_speed(chunk: Chunk, data: Mask, out: PortSamples) -> None:
    """Adds the speed of bursts, B/s, in the faster direction; `data` [packet] marks first transmissions with data.

    A slow link slows what its own port sends and receives. At the other ports it slows one of both, or none. What
    answers a packet in the other direction waited for it, not for the link: a ring forwards what it receives.
    """
    sent, received = data & chunk.tx, data & chunk.rx
    speed = np.fmax(_speed(chunk, sent, received), _speed(chunk, received, sent))
    if not np.isnan(speed).all():
        out.put("wire.burst_speed", speed)


def _speed(chunk: Chunk, mine: Mask, others: Mask) -> F64:
    """Returns [tick] B/s between packets of the same pair of nodes, NaN where too few follow one another.

    Args:
        chunk: all packets of the port.
        mine: [packet] the packets of one direction.
        others: [packet] those of the other one.
    """
    asked = np.maximum.accumulate(np.where(others, chunk.packets.time, -np.inf))
    rows = np.flatnonzero(mine)
    rows = rows[stable_order(chunk.peer[rows])]
    peer, time = chunk.peer[rows], chunk.packets.time[rows]
    size, tick = chunk.packets.length[rows][1:].astype(float), chunk.tick[rows][1:]
    gap = np.diff(time)
    waited = time[1:] - asked[rows][1:]
    kept = (np.diff(peer) == 0) & (gap >= 0) & ((waited >= ANSWER_SHARE * gap) | (gap == 0))
    size, tick, slowness = size[kept], tick[kept], gap[kept] / size[kept]
    order = np.argsort(slowness)  # which of equals comes first does not matter: sizes are whole numbers
    order = order[stable_order(tick[order])]
    size, tick, slowness = size[order], tick[order], slowness[order]
    total = np.bincount(tick, weights=size, minlength=chunk.ticks)
    count = np.bincount(tick, minlength=chunk.ticks)
    before = np.cumsum(total) - total
    at = np.searchsorted(np.cumsum(size), before + FAST_SHARE * total)
    known = (total >= MIN_BYTES) & (count >= MIN_GAPS)
    out = np.full(chunk.ticks, np.nan)
    out[known] = 1.0 / np.maximum(slowness[at[known]], 1e-12)
    return out
