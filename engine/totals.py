"""What counters counted since they began, by the place of their series: arrays that samples are added up in."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.counters import Ranges, increases, ranges_of
from skewscope.engine.rhythm import longer
from skewscope.engine.samples import Samples
from skewscope.engine.sets import F64, LARGEST, Index, Mask
from skewscope.kb.model import Signal


@dataclass(frozen=True, slots=True)
class Counting:
    """What all counters of a signal have in common."""

    counts: bool
    ranges: int
    """Number of the ranges that it may have."""
    least_end: float
    """Below this it is at no end of its range."""


class Totals:
    """The state of all counters; what is no counter has a place here too, and is never added up."""

    def __init__(self) -> None:
        self.sum, self.born, self.born_sum = (np.empty(0) for _ in range(3))
        self.counter, self.stuck = (np.empty(0, bool) for _ in range(2))
        self._last, self._least_end = np.empty(0), np.empty(0)
        self._ranges = Ranges(np.full((1, 1), np.nan), np.full((1, 1), np.nan))
        """[k, sorts] the ranges of each sort of counter; of the first, none."""
        self._sorts: dict[tuple[tuple[float, float], ...], int] = {(): 0}
        self._sort: NDArray[np.uint16] = np.empty(0, np.uint16)
        self._breaks = 0
        """Grows when a counter begins anew."""
        self._newest_born: dict[tuple[int, int], tuple[int, float]] = {}

    def grow(self, size: int) -> None:
        """Makes room for so many series."""
        for name in ("sum", "born", "born_sum", "_last", "_least_end"):
            setattr(self, name, longer(getattr(self, name), size))
        more = np.zeros(size - len(self.counter), bool)
        self.counter, self.stuck = np.concatenate((self.counter, more)), np.concatenate((self.stuck, more))
        self._sort = np.concatenate((self._sort, np.zeros(len(more), np.uint16)))

    def counting(self, signal: Signal) -> Counting:
        """How a signal counts."""
        ranges = ranges_of(signal) if signal.type == "counter" else ()
        if ranges not in self._sorts:
            shape = max(len(ranges), len(self._ranges.sizes)), len(self._sorts) + 1
            sizes, ends = _taller(self._ranges.sizes, shape), _taller(self._ranges.ends, shape)
            sizes[: len(ranges), -1], ends[: len(ranges), -1] = zip(*ranges, strict=True)
            self._ranges = Ranges(sizes, ends)
            self._sorts[ranges] = shape[1] - 1
        least = min((end for _, end in ranges), default=np.inf)
        return Counting(signal.type in {"counter", "histogram"}, self._sorts[ranges], least)

    def place(self, at: int | slice, counting: Counting) -> None:
        """Begins to count what has its place there."""
        self.sum[at] = 0.0
        self.counter[at] = counting.counts
        self._sort[at], self._least_end[at] = counting.ranges, counting.least_end

    def end(self, at: slice) -> float:
        """Below this none of some counters is at an end of its range."""
        return float(self._least_end[at].min(initial=np.inf))

    # --- samples

    def take(self, found: Samples) -> None:
        """Takes in samples of counters."""
        if found.single:
            found = self._grown(found)
        if len(found.series):
            self._counted(found)

    def take_all(self, at: slice, value: F64, end: float) -> bool:
        """Takes in a sample of each if all of them only grew, far from the end of their range; whether they did."""
        by = value - self._last[at]
        top = value.max(initial=-np.inf)
        if not (by.min(initial=0.0) >= 0 and top < end and top <= LARGEST):
            return False
        self.sum[at] += by
        self._last[at] = value
        self.stuck[at] = False
        return True

    def _grown(self, found: Samples) -> Samples:
        """Takes in counters that only grew, far from the end of their range; gives the rest."""
        at, now = found.series, found.value
        by = now - self._last[at]
        plain: Mask = (by >= 0) & (now < self._least_end[at])
        if not plain.all():
            some = np.flatnonzero(plain)
            at, now, by = at[some], now[some], by[some]
        self.sum[at] += by
        self._last[at] = now
        self.stuck[at] = False
        return found.kept(~plain)

    def _counted(self, found: Samples) -> None:
        at = found.series
        before = np.where(found.first, self._last[at], np.roll(found.value, 1))
        what = increases(before, found.value, self._ranges_of(at))
        start = np.flatnonzero(found.first)
        total, before, place = what.added_up(start)
        one, broke = at[start], place >= 0
        self._breaks += bool(broke.any())
        self.born[one[broke]] = found.time[place[broke]]
        self.born_sum[one[broke]] = self.sum[one[broke]] + before[broke]
        self.sum[one] += total
        self._last[one], self.stuck[one] = found.value[found.last], what.stuck[found.last]

    def _ranges_of(self, at: Index) -> Ranges:
        sort = self._sort[at]
        return Ranges(self._ranges.sizes[:, sort], self._ranges.ends[:, sort])

    def last_born(self, series: slice) -> float:
        """When the last of some counters began anew; NaN where one never began."""
        key = series.start, series.stop
        breaks, found = self._newest_born.get(key, (-1, 0.0))
        if breaks != self._breaks:
            found = float(self.born[series].max(initial=-np.inf))
            self._newest_born[key] = self._breaks, found
        return found


def _taller(array: F64, shape: tuple[int, int]) -> F64:
    out = np.full(shape, np.nan)
    out[: array.shape[0], : array.shape[1]] = array
    return out
