"""Levels that shift against their own past.

A shift is told after `RUN` new values in a row beyond the 98 % quantile of at least `MIN_PAST` healthy ones, with the
median of the run shifted by more than the least size that matters and by five median deviations. On eleven completed
MLPerf runs, on which this was set, it sees slow steps after about five of them, with one false alarm in some 8,500
healthy ones for a single series without a least size; least size, deviations and the least time lower that further.
A fault does not teach the past, and few slow first values do not teach its tail. Where there are fewer than `MIN_PAST`
values of the time of work, only what is well above all of them counts; slow first ones are no part of them.
"""

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, Fills, Index, Mask, join_equal, median, nan_to_zero, widen_items
from skewscope.engine.model.parameters import (
    BRIEF_S,
    BURST_S,
    DEVIATIONS,
    HALF,
    MAJORITY,
    MIN_PAST,
    PAST_VALUES,
    QUANTILE,
    RELEARN_S,
    RUN,
    TAIL,
    TENFOLD,
)
from skewscope.engine.model.sparse_columns import SparseColumns
from skewscope.engine.model.transfer import Places, copy_items
from skewscope.engine.symptoms.shift_limits import ShiftLimits

FEW_TIMES = 1.3
"""Few times of work are a past for those that are so many times the longest of them (source:
mlcommons/training_results). Of 4,567 times that RUN steps follow RUN + 1 others in the healthy stretches of ten
published training runs, all are beyond 1.0 times the longest in 108, 1.05 in one, 1.1 in none. They have to be twice as
far beyond the longest as this is beyond the median, since lags of members scatter far more: without that, members were
slow five times in 100 simulated healthy node-days."""

KEPT: Fills = (
    dict.fromkeys(("median", "low", "high", "run_since"), np.nan)
    | {"accepted_at": -np.inf, "started": False, "slow_start": False}
    | dict.fromkeys(("count", "run", "back"), np.int32(0))
    | dict.fromkeys(("shift", "settling", "start_count", "start_after"), np.int8(0))
)
"""Arrays of a series that stay as they are when others are added."""
SPARSE = "memory", "held", "starts", "known"
"""Values that few series have."""
SINCE, BEFORE = 0, 1
"""Rows of a shift: when it began, in seconds, and the healthy level then."""
START_LOW, START_SINCE, START_END = 0, 1, 2
"""Rows of a start: its least slow value, and the times of its first and last one, in seconds."""
KNOWN_HIGH, FORGOTTEN, KEPT_FOR, REPORTED = range(4)
"""Rows of a level that was usual: its largest value; how many values of it have left the past; how many more values it
is known for, NaN while it is none; and the limit of values that were ever reported, which were not usual."""

NEWEST, PAST = slice(RUN), slice(RUN, None)
"""Rows of the memory of a series."""


class LevelShifts:
    """The past of n series and the shifts that they are in. Arrays are [series]."""

    median: F64
    """Of the past, and the limits of healthy values."""
    low: F64
    high: F64
    count: NDArray[np.int32]
    """Values that ever were part of the past, and when the last one became it, s."""
    accepted_at: F64
    run: NDArray[np.int32]
    """Values in a row beyond the high limit; negative below the low one."""
    run_since: F64
    shift: NDArray[np.int8]
    """1 for a shift up, -1 for one down, else 0."""
    back: NDArray[np.int32]
    """Values in a row that are healthy again."""
    settling: NDArray[np.int8]
    """After a shift, up to how many more values the past does without; negative after one down."""
    started: Mask
    """Whether it is known how it started."""
    start_count: NDArray[np.int8]
    """Slow values at the start, and values after them."""
    start_after: NDArray[np.int8]
    slow_start: Mask
    """Whether a slow start became known with the newest value."""

    def __init__(self, limits: ShiftLimits | None = None) -> None:
        """Judges by limits, which `grow` replaces."""
        self.memory = SparseColumns(RUN + PAST_VALUES, np.float32)
        """[newest values, then those of the past; series]; a series that does not change has none."""
        self.held = SparseColumns(2)
        """[SINCE and BEFORE, series] of those that are in a shift."""
        self.starts = SparseColumns(3)
        """[START_LOW, START_SINCE and START_END, series] of those of which it is not known how they started."""
        self.known = SparseColumns(4)
        """[KNOWN_HIGH, FORGOTTEN, KEPT_FOR and REPORTED, series] of those that follow load and left a level."""
        widen_items(self, KEPT, 0)
        self.grow(limits or ShiftLimits.empty())

    def grow(self, limits: ShiftLimits) -> None:
        """Makes room for more series; `limits` are those of all."""
        old, self.limits, self.size = len(self.median), limits, len(limits.up)
        widen_items(self, KEPT, self.size)
        if limits.alike is not None:
            new = np.arange(old, self.size)
            alike = limits.alike[limits.owners(new)]
            self.median[new], self.low[new], self.high[new] = 1.0, 1 / alike, alike
        for name in SPARSE:
            getattr(self, name).grow(self.size)

    def step(self, at: Index, value: F64, time: F64) -> None:
        """Takes in new values.

        Args:
            at: [k] the series that have one.
            value: [k] the values.
            time: [k] their times, seconds.
        """
        if not len(at):
            return
        lanes = self.memory.lanes(at)
        begun = self._accept(at, lanes, time)
        recent = self.memory.values[NEWEST]
        recent[:-1, lanes] = recent[1:, lanes]
        recent[-1, lanes] = value
        if len(begun):
            self._count_newest(at[begun], value[begun], time[begun])
        above = (value > self.high[at]) & self.limits.up[at]
        below = (value < self.low[at]) & self.limits.down[at]
        if above.any() or below.any() or self.run[at].any():
            self._count_runs(at, value, time, above, below)
            self._begin(at, time)
        self._end(at, time, value)
        self._watch_start(at, time, value)

    def drop(self, at: Mask) -> None:
        """Ends the shifts and runs of some series, as what they need to count is gone; `at` is [series]."""
        some = np.flatnonzero(at & ((self.run != 0) | (self.shift != 0)))
        self.run[some] = self.shift[some] = self.back[some] = 0
        self.held.release(some)

    def since(self, series: int) -> float:
        """Returns when the shift of one series began, in seconds; NaN where it is in none."""
        return float(self.held.get(np.array([series]))[SINCE, 0])

    def before(self, series: int) -> float:
        """Returns the healthy level of one series before its shift; NaN where it is in none."""
        return float(self.held.get(np.array([series]))[BEFORE, 0])

    def slow_start_of(self, series: int) -> tuple[float, float]:
        """Returns (least slow value, time of the first one in seconds) of a slow start that has become known."""
        low, since, _ = self.starts.get(np.array([series]))[:, 0].tolist()
        return low, since

    def level(self, series: int) -> float:
        """Returns the median of the newest values of one series."""
        newest = self.memory.get(np.array([series]), NEWEST)
        return median(newest[~np.isnan(newest)])

    def take_over(self, before: "LevelShifts", places: Places) -> None:
        """Goes on with the past and the shifts of the series that another one has as well."""
        copy_items(self, before, KEPT, places)
        for name in SPARSE:
            getattr(self, name).copy_from(places.now, getattr(before, name), places.before)

    # --- past

    def _accept(self, at: Index, lanes: Index, time: F64) -> Index:
        """Moves the oldest recent values into the past: a run that begins is not part of it.

        Returns which of the series have a limit from now on, as places in `at`.
        """
        oldest = self.memory.values[0, lanes]
        due = (self.count[at] < PAST_VALUES // 2) | (time - self.accepted_at[at] >= BURST_S / 2)
        good = ~np.isnan(oldest) & (self.shift[at] == 0) & (self.run[at] == 0) & due
        if self.settling[at].any():
            good &= ~self._settle(at, oldest, good)
        some, new = at[good], oldest[good].astype(np.float64)
        if not len(some):
            return np.empty(0, np.intp)
        # One long step is normal and must not raise the limit for the next ones.
        # Work that takes less than at first has started slowly: its level is that of now.
        is_young = self.limits.is_work[some] & ~self.limits.down[some] & (self.count[some] < PAST_VALUES)
        # Load that falls has another level at once: the one that it leaves is kept in mind.
        falls = is_young | self._follows_load(some) | np.isnan(self.low[some])
        lowest = np.where(falls, -np.inf, self.low[some])
        new = np.where(np.isnan(self.high[some]), new, np.clip(new, lowest, self.high[some]))
        place = RUN + self.count[some] % PAST_VALUES, lanes[good]
        leaving = self.memory.values[place]
        self.memory.values[place] = new
        self.count[some] += 1
        self.accepted_at[some] = time[good]
        enough = self.count[some] >= MIN_PAST
        self._learn_limits(some[enough], leaving[enough])
        few = np.flatnonzero(self.limits.is_work[some] & (self.count[some] < MIN_PAST) & (self.count[some] >= RUN + 1))
        if len(few):
            few = few[self._learn_first_limits(some[few])]
        begun: Index = np.flatnonzero(good)[few]
        return begun

    def _settle(self, at: Index, value: NDArray[np.floating], good: Mask) -> Mask:
        """Returns [k] which values are still the rest of a shift that has ended, as a queue that empties.

        It is over with the first value on the healthy side of the median, or once a whole past has been left out: the
        level is another one then.
        """
        settling = self.settling[at]
        rest: Mask = good & (np.sign(settling) * (value - self.median[at]) > 0)
        self.settling[at[good & ~rest]] = 0
        self.settling[at[rest]] -= np.sign(settling[rest])
        return rest

    def _learn_first_limits(self, at: Index) -> Mask:
        """Learns the limit of times of work that have few values; returns [k] which of them had none before."""
        kept = self.memory.get(at, slice(RUN, RUN + MIN_PAST))
        past, size = np.sort(kept, axis=0).astype(np.float64), self.count[at].astype(np.intp)
        usual = size - self._count_slow_start(at, kept, FEW_TIMES * _quantile(past, size, 0.5))
        enough = usual >= RUN + 1
        begun: Mask = enough & np.isnan(self.high[at])
        at, past, usual = at[enough], past[:, enough], usual[enough]
        middle, most = _quantile(past, usual, 0.5), _quantile(past, usual, 1.0)
        owner = self.limits.owners(at)
        matters = middle + np.maximum(self.limits.floor[owner], self.limits.least[owner] * np.abs(middle))
        self.median[at] = middle
        self.high[at] = np.fmax(np.fmax(FEW_TIMES * most, most + 2 * (most - middle)), matters)
        return begun

    def _count_newest(self, at: Index, value: F64, time: F64) -> None:
        """Counts the values before the newest ones of series that had no limit when these came.

        Their times are not kept: each piece of work had ended when the next one began, whose time of work is known.
        """
        earlier = self.memory.get(at, slice(RUN - 1)).astype(np.float64)
        beyond = np.logical_and.accumulate((earlier > self.high[at])[::-1], axis=0)
        lasted = value + np.where(beyond, earlier[::-1], 0.0).sum(axis=0)
        run = beyond.sum(axis=0)
        first = earlier[::-1][np.maximum(run - 1, 0), np.arange(len(at))]
        self.run[at] = run
        self.run_since[at] = np.where(run > 0, time - (lasted - first), np.nan)

    def _learn_limits(self, at: Index, leaving: NDArray[np.floating]) -> None:
        """Learns the limits of series from their past; `leaving` [k] are the values that have just left it, or NaN."""
        if not len(at):
            return
        kept = self.memory.get(at, PAST)
        # What follows works on rows: they should lie in memory one after another.
        past = np.sort(kept, axis=0).astype(np.float64, order="C")
        size = join_equal(np.minimum(self.count[at], PAST_VALUES))
        middle = _quantile(past, size, 0.5)
        spread = DEVIATIONS * _median_deviation(past, middle, size)
        owner = self.limits.owners(at)
        least, floor = self.limits.least[owner], self.limits.floor[owner]
        scale = np.abs(middle)
        self.median[at] = middle
        higher = np.maximum(middle + np.maximum(spread, floor), middle + scale * least)
        lower = np.minimum(middle - np.maximum(spread, floor), middle - scale * least / (1.0 + least))
        tails = np.minimum(middle / TAIL, lower), np.maximum(TAIL * middle, higher)
        usual = size - self._count_slow_start(at, kept, higher)
        self.high[at] = np.fmax(_quantile(past, usual, QUANTILE, tails), higher)
        self.low[at] = np.fmin(_quantile(past, size, 1 - QUANTILE, tails), lower)
        if (follows := self._follows_load(at)).any():
            self._keep_level(at[follows], leaving[follows], higher[follows])

    def _follows_load(self, at: Index) -> Mask:
        """Returns [k] whether series follow the load, of which only more is bad."""
        follows = self.limits.follows_load
        if follows is None:
            return np.zeros(len(at), bool)
        found: Mask = follows[self.limits.owners(at)] & self.limits.up[at] & ~self.limits.down[at]
        return found

    def _keep_level(self, at: Index, leaving: NDArray[np.floating], higher: F64) -> None:
        """Keeps a level in mind that a series has left for a lower one: where load returns to it, nothing is wrong.

        A level is known for as many values as came before it was left, and where it was never reported.

        Args:
            at: the series.
            leaving: [k] the value that has just left the past of each.
            higher: [k] the limit of those that stay, without their tail.
        """
        reported, before = self.known.get(at)[[REPORTED, FORGOTTEN]]
        leaves = (leaving > higher) & ~(leaving > reported)
        some = leaves | ~np.isnan(before)
        if not some.any():
            return
        at, leaving, leaves = at[some], leaving[some], leaves[some]
        top, before, kept, reported = self.known.get(at)
        forgotten = np.maximum(nan_to_zero(before) + np.where(leaves, 1, -1), 0)
        kept = np.where(forgotten >= PAST_VALUES // RUN, self.count[at], kept - 1)
        is_known = kept > 0
        top = np.where(leaves, np.fmax(np.where((before > 0) | is_known, top, np.nan), leaving), top)
        over = (forgotten == 0) & ~is_known
        lanes = self.known.lanes(at)
        self.known.values[:, lanes] = top, np.where(over, np.nan, forgotten), np.where(is_known, kept, np.nan), reported
        self.known.release(at[over & np.isnan(reported)])
        self.high[at[is_known]] = np.fmax(self.high[at], top)[is_known]

    def _count_slow_start(self, at: Index, past: NDArray[np.floating], high: F64) -> Index | int:
        """Returns [series] how many of the largest values are the first ones of a slow start, which teach no tail.

        One number if that of all is the same.
        """
        few = self.count[at] <= PAST_VALUES
        if not few.any():
            return 0
        slow = past[:MIN_PAST] > high
        last = (slow * np.arange(1, MIN_PAST + 1)[:, None]).max(axis=0)
        count: Index = slow.sum(axis=0)
        is_start = (MAJORITY * count >= last) & (self.count[at] >= 2 * last) & few
        return join_equal(np.where(is_start, count, 0))

    # --- shifts

    def _count_runs(self, at: Index, value: F64, time: F64, above: Mask, below: Mask) -> None:
        """Counts values beyond the limits; of times of work as a cumulative sum (E. S. Page, 1954)."""
        run, is_work = self.run[at], self.limits.is_work[at]
        step = np.where(is_work & (value > TAIL * self.median[at]), 2, 1)
        left = np.where(is_work, np.sign(run) * (np.minimum(np.abs(run), RUN) - 1).clip(0), 0)
        new = np.where(above, np.maximum(run, 0) + step, np.where(below, np.minimum(run, 0) - 1, left))
        begun = (new != 0) & (np.sign(new) != np.sign(run))
        self.run_since[at[begun]] = time[begun]
        self.run[at] = new

    def _begin(self, at: Index, time: F64) -> None:
        long = (np.abs(self.run[at]) >= RUN) & (self.shift[at] == 0)
        some = at[long]
        some = some[time[long] - self.run_since[some] >= self.limits.min_time[self.limits.owners(some)]]
        self.shift[some] = np.sign(self.run[some])
        lanes = self.held.lanes(some)
        self.held.values[:, lanes] = self.run_since[some], self.median[some]
        self.back[some] = 0

    def _end(self, at: Index, time: F64, value: F64) -> None:
        held = self.shift[at] != 0
        if not held.any():
            return
        some, new, when = at[held], value[held], time[held]
        margin = HALF * np.where(
            self.shift[some] > 0, self.high[some] - self.median[some], self.median[some] - self.low[some]
        )
        healthy = np.where(self.shift[some] > 0, new <= self.median[some] + margin, new >= self.median[some] - margin)
        self.back[some] = np.where(healthy, self.back[some] + 1, 0)
        # What was never otherwise has no level that another one could replace.
        is_long = (when - self.held.get(some)[SINCE] >= RELEARN_S) & (self.count[some] > 0)
        over = (self.back[some] >= RUN) | is_long
        relearned = some[is_long]
        lanes = self.known.lanes(relearned)
        self.known.values[REPORTED, lanes] = self.high[relearned]
        self.count[relearned] = 0
        lanes = self.memory.lanes(relearned)
        self.memory.values[PAST, lanes] = np.nan
        self.high[relearned] = self.low[relearned] = np.nan
        ended = some[over]
        self.settling[ended] = PAST_VALUES * self.shift[ended]
        self.settling[relearned] = 0
        self.shift[ended], self.run[ended] = 0, 0
        self.held.release(ended)

    # --- start

    def _watch_start(self, at: Index, time: F64, value: F64) -> None:
        """Finds by hindsight that the first values were far above those that followed; these are the past then."""
        if (told := at[self.slow_start[at]]).size:
            self.slow_start[told] = False
            self.starts.release(told)
        is_open = ~self.started[at]
        if not is_open.any():
            return
        some, new, when = at[is_open], value[is_open], time[is_open]
        lanes = self.starts.lanes(some)
        start = self.starts.values
        first = self.start_count[some] == 0
        start[START_LOW, lanes[first]], start[START_SINCE, lanes[first]] = new[first], when[first]
        fell = TENFOLD * new <= start[START_LOW, lanes]
        slow = ~fell & (self.start_after[some] == 0)
        self.start_count[some[slow]] += 1
        start[START_LOW, lanes[slow]] = np.minimum(start[START_LOW, lanes[slow]], new[slow])
        start[START_END, lanes[slow]] = when[slow]
        self.start_after[some[fell]] += 1
        over = (~fell & ~slow) | (self.start_after[some] >= MIN_PAST) | (self.start_count[some] > PAST_VALUES // 2)
        self.started[some[over]] = True
        lasted = start[START_END, lanes] - start[START_SINCE, lanes] >= (BRIEF_S / 2)
        is_slow = over & (self.start_after[some] >= MIN_PAST) & (self.start_count[some] >= RUN) & lasted
        self.starts.release(some[over & ~is_slow])
        found = some[is_slow]
        self.slow_start[found] = True
        lanes, values = self.memory.lanes(found), self.memory.values
        values[PAST, lanes], values[RUN : 2 * RUN, lanes] = np.nan, values[NEWEST, lanes]
        self.count[found] = RUN
        self.high[found] = self.low[found] = self.median[found] = np.nan
        self.shift[found], self.run[found] = 0, 0
        self.held.release(found)


def _quantile(ordered: F64, size: Index | int, q: float, bounds: tuple[F64, F64] | None = None) -> F64:
    """Returns [series] the quantile of the first `size` values of each ascending column, limited to `bounds`."""
    share: NDArray[np.floating] | float
    if isinstance(size, int):
        row, next_row, share = _place(size, q)
        below, above = ordered[row], ordered[next_row]
    else:
        low, high, share = _places(size, q)
        columns = np.arange(ordered.shape[1])
        below, above = ordered[low, columns], ordered[high, columns]
    if bounds is not None:
        below, above = (np.minimum(np.maximum(one, bounds[0]), bounds[1]) for one in (below, above))
    found: F64 = below + share * (above - below)
    return found


def _places(size: Index, q: float) -> tuple[Index, Index, NDArray[np.floating]]:
    """Returns (lower neighbour, upper neighbour, distance from the lower one) of the quantile of so many values."""
    place = q * (size - 1)
    low: Index = np.floor(place).astype(np.intp)
    high: Index = np.minimum(low + 1, size - 1)
    share: NDArray[np.floating] = place - low
    return low, high, share


def _place(size: int, q: float) -> tuple[int, int, float]:
    """The same, of one number of values."""
    place = q * (size - 1)
    return int(place), min(int(place) + 1, size - 1), place - int(place)


def _median_deviation(ordered: F64, middle: F64, size: Index | int) -> F64:
    """Returns [series] the median distance from `middle` of the first `size` values of each ascending column."""
    if not isinstance(size, int):
        return _quantile(np.sort(np.abs(ordered - middle), axis=0), size, 0.5)
    low, high, share = _place(size, 0.5)
    # The values that are nearest to the middle lie side by side, and the furthest of them is at either end.
    left, right = middle - ordered[: size - low], ordered[low:size] - middle
    above = np.maximum(left[: size - high], right[high - low :]).min(axis=0)
    below = np.maximum(left, right, out=left).min(axis=0)
    found: F64 = below + share * (above - below)
    return found
