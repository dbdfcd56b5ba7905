"""Counters: their increases across wraps, resets and saturation, and how often they are renewed.

A counter that cannot be trusted is unknown, never zero. A reading that repeats the last one of a counter that is
renewed more rarely than it is read is none: some exporters read a counter each 15 s and serve the same number until
then. Polled each 5 s, such a counter stands for two polls and then jumps: by polls, its rate would be zero and then
three times too high.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.ingest.samples import MAX_PERIOD_S, SortedSamples
from skewscope.engine.model.arrays import F64, MAX_VALUE, Index, Mask, nan_to_zero, pad_to_length
from skewscope.engine.model.sparse_columns import SparseColumns
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
class CounterSpec:
    """What all counters of a signal have in common."""

    is_cumulative: bool
    ranges_id: int
    """Number of the ranges that it may have."""


class CounterTotals:
    """The totals of all counters. Series of other types have a place here too, and no total."""

    def __init__(self) -> None:
        self.sum, self.start_time = np.empty(0), np.empty(0)
        self.start_sums = SparseColumns(1)
        """[1, counter] the totals at that time; those of most counters are zero, which is not stored."""
        self.cumulative, self.saturated = (np.empty(0, bool) for _ in range(2))
        self._last = np.empty(0)
        self._ranges = Ranges(np.full((1, 1), np.nan), np.full((1, 1), np.nan))
        """[k, type of counter] the ranges of each type; the first type has none."""
        self._least_ends = np.full(1, np.inf)
        """[type of counter] below this it is at no end of its range."""
        self._ranges_ids: dict[tuple[tuple[float, float], ...], int] = {(): 0}
        self._ranges_id: NDArray[np.uint16] = np.empty(0, np.uint16)
        self._reset_count = 0
        """Grows when a counter begins anew."""
        self._latest_starts: dict[tuple[int, int], tuple[int, float]] = {}

    def grow(self, size: int) -> None:
        """Make room for `size` series."""
        for name in ("sum", "start_time", "_last"):
            setattr(self, name, pad_to_length(getattr(self, name), size))
        self.start_sums.grow(size)
        more = np.zeros(size - len(self.cumulative), bool)
        self.cumulative, self.saturated = (
            np.concatenate((self.cumulative, more)),
            np.concatenate((self.saturated, more)),
        )
        self._ranges_id = np.concatenate((self._ranges_id, np.zeros(len(more), np.uint16)))

    def spec_of(self, signal: Signal) -> CounterSpec:
        """How a signal counts."""
        ranges = ranges_of(signal) if signal.type == "counter" else ()
        if ranges not in self._ranges_ids:
            shape = max(len(ranges), len(self._ranges.sizes)), len(self._ranges_ids) + 1
            sizes, ends = _pad_to_shape(self._ranges.sizes, shape), _pad_to_shape(self._ranges.ends, shape)
            sizes[: len(ranges), -1], ends[: len(ranges), -1] = zip(*ranges, strict=True)
            self._ranges = Ranges(sizes, ends)
            self._ranges_ids[ranges] = shape[1] - 1
            self._least_ends = np.append(self._least_ends, min(end for _, end in ranges))
        return CounterSpec(signal.type in {"counter", "histogram"}, self._ranges_ids[ranges])

    def place(self, at: int | slice, counting: CounterSpec) -> None:
        """Begins to count what has its place there."""
        self.sum[at] = 0.0
        self.cumulative[at] = counting.is_cumulative
        self._ranges_id[at] = counting.ranges_id

    def last_values(self, at: Index) -> F64:
        """Returns [series] the values that counters had when they were last read; NaN before that."""
        return self._last[at]

    def lowest_end(self, at: slice) -> float:
        """Below this none of some counters is at an end of its range."""
        return float(self._least_ends[self._ranges_id[at]].min(initial=np.inf))

    # --- samples

    def apply(self, found: SortedSamples) -> None:
        """Add samples of counters."""
        if found.is_unique:
            found = self._apply_growth(found)
        if len(found.series):
            self._apply_increases(found)

    def apply_all(self, at: slice, value: F64, end: float) -> bool:
        """Add a sample of each if all counters only grew, far from the end of their range; returns whether they did."""
        by = value - self._last[at]
        top = value.max(initial=-np.inf)
        if not (by.min(initial=0.0) >= 0 and top < end and top <= MAX_VALUE):
            return False
        self.sum[at] += by
        self._last[at] = value
        self.saturated[at] = False
        return True

    def _apply_growth(self, found: SortedSamples) -> SortedSamples:
        """Add counters that only grew, far from the end of their range; returns the samples of the others."""
        at, now = found.series, found.value
        by = now - self._last[at]
        plain: Mask = (by >= 0) & (now < self._least_ends[self._ranges_id[at]])
        if not plain.all():
            some = np.flatnonzero(plain)
            at, now, by = at[some], now[some], by[some]
        self.sum[at] += by
        self._last[at] = now
        self.saturated[at] = False
        return found.select(~plain)

    def _apply_increases(self, found: SortedSamples) -> None:
        at = found.series
        before = np.where(found.first, self._last[at], np.roll(found.value, 1))
        what = compute_increases(before, found.value, self._ranges_of(at))
        start = np.flatnonzero(found.first)
        total, before, place = what.sum_runs(start)
        one, broke = at[start], place >= 0
        self._reset_count += bool(broke.any())
        self.start_time[one[broke]] = found.time[place[broke]]
        self._store_start_sums(one[broke], self.sum[one[broke]] + before[broke])
        self.sum[one] += total
        self._last[one], self.saturated[one] = found.value[found.last], what.saturated[found.last]

    def _store_start_sums(self, at: Index, sums: F64) -> None:
        is_zero = sums == 0
        self.start_sums.release(at[is_zero])
        lanes = self.start_sums.lanes(at[~is_zero])
        self.start_sums.values[0, lanes] = sums[~is_zero]

    def start_sums_of(self, series: Index | slice) -> F64:
        """Returns [series] the totals when counters last began anew; zero for those that never began."""
        at = np.arange(series.start, series.stop) if isinstance(series, slice) else series
        return nan_to_zero(self.start_sums.get(at)[0])

    def _ranges_of(self, at: Index) -> Ranges:
        sort = self._ranges_id[at]
        return Ranges(self._ranges.sizes[:, sort], self._ranges.ends[:, sort])

    def latest_start(self, series: slice) -> float:
        """When the last of some counters began anew; NaN where one never began."""
        key = series.start, series.stop
        breaks, found = self._latest_starts.get(key, (-1, 0.0))
        if breaks != self._reset_count:
            found = float(self.start_time[series].max(initial=-np.inf))
            self._latest_starts[key] = self._reset_count, found
        return found


def _pad_to_shape(array: F64, shape: tuple[int, int]) -> F64:
    out = np.full(shape, np.nan)
    out[: array.shape[0], : array.shape[1]] = array
    return out


MIN_RENEWALS = 3
"""A counter counts as renewed rarely after so many intervals in a row between renewals that are alike."""
MIN_RENEWAL_S = 4.0
"""Shorter intervals are left alone: windows of rules are as long, and bursts of traffic recur as often."""
MIN_POLLS = 1.25
"""An interval between renewals has at least so many polls."""
TOLERANCE_POLLS = 1.6
"""Intervals are alike if they differ by at most so many polls: a renewal is seen up to an uneven poll late."""
LEARNING_RATE = 0.3
"""How much of the difference to a new interval is learned."""
REST_INTERVALS = 2.0
"""A counter that has not changed for so many intervals stands still: its readings count again."""


class CounterRenewals:
    """How often counters are renewed. Arrays are [series], as long as the highest number of a series seen."""

    def __init__(self) -> None:
        self._changed_at, self._interval = np.empty(0), np.empty(0)
        """When each last changed, seconds; the mean interval between changes, NaN before the second one."""
        self._alike = np.empty(0, np.int16)
        """Number of intervals in a row that were alike, at most twice `MIN_RENEWALS`; halved by one that is not."""
        self._held: Mask = np.empty(0, bool)
        """Whether the newest reading repeats the last one before the next renewal is due."""
        self._poll = np.empty(0)
        """Seconds between readings."""
        self._has_rare = False
        """Whether any was ever known to be renewed more rarely than it is read."""

    def learn(self, found: SortedSamples, last: F64, period: F64) -> None:
        """Take in readings of counters.

        `last` are the values before the readings, of all readings of a series alike; `period` is of all series.
        """
        before = last if found.is_unique else np.where(found.first, last, np.roll(found.value, 1))
        differs = (found.value != before) & ~np.isnan(before)
        self._grow(int(found.series.max()) + 1)
        at, time = found.series[found.last], found.time[found.last]
        starts = np.flatnonzero(found.first)
        changes = np.add.reduceat(differs.astype(np.intp), starts)
        changed_at = np.maximum.reduceat(np.where(differs, found.time, -np.inf), starts)
        self._poll[at] = period[at]
        once = changes == 1
        if once.any():
            self._learn_changes(at[once], changed_at[once])
        if (several := changes > 1).any():
            # More changes than ticks: it is renewed often.
            self._interval[at[several]], self._alike[at[several]] = np.nan, 0
            self._changed_at[at[several]] = changed_at[several]
        waits = time - self._changed_at[at] < REST_INTERVALS * self._interval[at]
        rare = self._is_rare(at)
        self._has_rare |= bool(rare.any())
        self._held[at] = (changes == 0) & waits & rare

    def _grow(self, size: int) -> None:
        if size > len(self._held):
            size = max(size, 2 * len(self._held))
            more = size - len(self._held)
            self._changed_at, self._interval = (
                pad_to_length(self._changed_at, size),
                pad_to_length(self._interval, size),
            )
            self._poll = pad_to_length(self._poll, size)
            self._alike = np.concatenate((self._alike, np.zeros(more, np.int16)))
            self._held = np.concatenate((self._held, np.zeros(more, bool)))

    def _learn_changes(self, at: Index, time: F64) -> None:
        """Learn the intervals that end with a change at these times."""
        interval, mean = time - self._changed_at[at], self._interval[at]
        alike = np.abs(interval - mean) <= TOLERANCE_POLLS * self._poll[at]
        trust = np.where(alike, np.minimum(self._alike[at] + 1, 2 * MIN_RENEWALS), self._alike[at] // 2)
        learned = np.where(alike, mean + LEARNING_RATE * (interval - mean), mean)
        self._interval[at], self._alike[at] = np.where(trust > 0, learned, interval), trust
        self._changed_at[at] = time

    def _is_rare(self, at: Index | slice) -> Mask:
        """Returns [series] whether counters are known to be renewed more rarely than they are read."""
        interval = self._interval[at]
        rare = (interval >= np.maximum(MIN_RENEWAL_S, MIN_POLLS * self._poll[at])) & (interval <= MAX_PERIOD_S)
        return np.asarray(rare & (self._alike[at] >= MIN_RENEWALS))

    def read_times(self, series: Index | slice, times: F64) -> F64:
        """Returns [series] seconds of the newest readings that were no repetition, given the times of all readings."""
        if not self._has_rare:
            return times
        known, place = self._places(series)
        if not known.any() or not self._held[place].any():
            return times
        return np.where(known & self._held[place], self._changed_at[place], times)

    def change_times(self, series: Index) -> F64:
        """Returns when counters last changed, in seconds; NaN for those that never did."""
        known, place = self._places(series)
        return np.where(known, self._changed_at[place], np.nan) if known.any() else np.full(series.shape, np.nan)

    def stretched_periods(self, series: Index | slice, periods: F64) -> F64:
        """Returns [series] seconds between readings that are no repetitions, given those between all readings."""
        if not self._has_rare:
            return periods
        known, place = self._places(series)
        if not known.any():
            return periods
        rare = known & self._is_rare(place)
        return np.where(rare, np.fmax(self._interval[place], periods), periods) if rare.any() else periods

    def _places(self, series: Index | slice) -> tuple[Mask, Index]:
        """Returns ([series] whether readings of it were learned, [series] its place here, 0 where not)."""
        if not len(self._held):
            return np.zeros(1, bool), np.zeros(1, np.intp)
        if isinstance(series, slice):
            if series.start >= len(self._held):
                return np.zeros(1, bool), np.zeros(1, np.intp)
            series = np.arange(series.start, series.stop)
        known = (series >= 0) & (series < len(self._held))
        return known, np.where(known, series, 0)
