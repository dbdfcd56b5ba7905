"""Counters: their increases across wraps, resets and saturation.

A counter that cannot be trusted is unknown, never zero.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.kb.model import Signal


@dataclass(frozen=True, slots=True)
class Ranges:
    """[k, n] the ranges that each counter may have: one for each scale of an exporter; NaN for none."""

    sizes: F64
    """After how much it begins again at zero."""
    ends: F64
    """The largest value it can hold."""


@dataclass(frozen=True, slots=True)
class Increases:
    """What a counter did between two samples. Where it broke, `by` is zero and counting begins anew."""

    increase: F64
    reset: Mask
    """Restarted from a smaller value, or only now began."""
    saturated: Mask
    """At the end of its range: how much more was counted cannot be known."""

    def sum_runs(self, start: Index) -> tuple[F64, F64, Index]:
        """For runs of samples of one series each: the increase in all, that up to its last break, and which that is.

        Each run by itself: in one long sum the bytes of a fleet would swallow another counter's milliseconds. Where
        nothing broke the place is -1.
        """
        places = np.arange(len(self.increase))
        last = np.maximum.reduceat(np.where(self.reset, places, -1), start)
        sooner = places <= np.repeat(last, np.diff(np.append(start, len(places))))
        before = np.add.reduceat(np.where(sooner, self.increase, 0.0), start)
        return np.add.reduceat(self.increase, start), before, last


def compute_increases(before: F64, now: F64, ranges: Ranges) -> Increases:
    """Increases from `before` (NaN: no sample yet) to `now`."""
    stuck, was_stuck = _is_at_end(now, ranges), _is_at_end(before, ranges)
    size = np.fmin.reduce(np.where(ranges.ends >= before, ranges.sizes, np.nan), axis=0, initial=np.nan)
    wrapped = now + size - before
    falls = now < before
    # More than half the range between two samples is a restart: one fast wrap looks like several.
    wraps = falls & (wrapped < size / 2) & ~was_stuck
    broke = np.isnan(before) | (falls & ~wraps)
    by = np.where(wraps, wrapped, np.where(broke, 0.0, now - before))
    return Increases(by, broke, stuck)


def _is_at_end(value: F64, ranges: Ranges) -> Mask:
    found: Mask = (value == ranges.ends).any(axis=0)
    return found


def ranges_of(signal: Signal) -> tuple[tuple[float, float], ...]:
    """(size, end) of every range that a signal's counters may have, in its unit."""
    if signal.width_bits <= 0:
        return ()
    scales = {1.0, *(scale for scale in signal.scale.values() if scale > 0)}
    return tuple((2.0**signal.width_bits * s, (2.0**signal.width_bits - 1) * s) for s in sorted(scales))


# --- totals


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """[counter] totals since `start_time`, up to the sample at `time`, in seconds."""

    sum: F64
    time: F64
    start_time: F64
    start_sum: F64
    period: F64
    fresh: NDArray[np.bool_]
    longest_period: float
    """The longest period."""
    latest_start: float = np.nan
    """When the last began, where all are fresh and were read at one time."""


@dataclass(frozen=True, slots=True)
class CounterSpec:
    """What all counters of a signal have in common."""

    is_cumulative: bool
    ranges_id: int
    """Number of the ranges that it may have."""
    least_end: float
    """Below this it is at no end of its range."""
