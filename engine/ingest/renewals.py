"""Counters that are renewed more rarely than they are read: a reading that repeats the last one is none.

Some exporters read a counter each 15 s and serve the same number until then. Polled each 5 s, such a counter stands for
two polls and then jumps: by polls, its rate would be zero and then three times too high.
"""

import numpy as np

from skewscope.engine.ingest.sampling import MAX_PERIOD_S, SortedSamples, pad_to_length
from skewscope.engine.model.arrays import F64, Index, Mask

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
        self._held[at] = (changes == 0) & waits & self._is_rare(at)

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
        known, place = self._places(series)
        if not known.any() or not self._held[place].any():
            return times
        return np.where(known & self._held[place], self._changed_at[place], times)

    def stretched_periods(self, series: Index | slice, periods: F64) -> F64:
        """Returns [series] seconds between readings that are no repetitions, given those between all readings."""
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
