"""Measures the round trip just before a loss: it is long before an overflowing queue, normal before a bad link.

The segment before a retransmitted one got through. Where a queue overflowed, it waited in the full queue and its
acknowledgement came late; where a link drops at random, the acknowledgement came as usual. A segment whose own
acknowledgement waited for a repair is omitted.
"""

from dataclasses import dataclass

import numpy as np

from skewscope.engine.model.arrays import F64, I64
from skewscope.engine.wire.sequence import SPAN


@dataclass(frozen=True, slots=True)
class SentSegments:
    """Segments that a host sent, ordered by (flow, time): first sendings that were acknowledged, or repeats."""

    flow: I64
    position: I64
    """Where a first sending ends, or where a repeat begins."""
    time: F64
    duration: F64
    """Seconds until a first sending was acknowledged."""


def durations_before_losses(first: SentSegments, again: SentSegments) -> tuple[I64, F64]:
    """Returns ([loss] row in `again`, [loss] s until the segment before it was acknowledged), where known."""
    if not len(first.flow) or not len(again.flow):
        return np.empty(0, np.int64), np.empty(0)
    run = np.unique(np.concatenate((first.flow, again.flow)), return_inverse=True)[1]
    of_first, of_again = run[: len(first.flow)], run[len(first.flow) :]
    at = (
        np.searchsorted(first.position + of_first * (2 * SPAN), again.position + of_again * (2 * SPAN), side="right")
        - 1
    )
    rows = np.flatnonzero((at >= 0) & (of_first[np.maximum(at, 0)] == of_again))
    at = at[rows]
    start = min(float(first.time.min()), float(again.time.min()))
    whole = 1 + max(float((first.time + first.duration).max()), float(again.time.max())) - start
    repeats = again.time - start + of_again * whole
    sent = first.time[at] - start + of_first[at] * whole
    clean = np.searchsorted(repeats, sent) == np.searchsorted(repeats, sent + first.duration[at])
    return rows[clean], first.duration[at[clean]]
