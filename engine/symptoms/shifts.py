"""Level shifts of many values against their own robust past, which a fault cannot teach.

A shift is told after `RUN` new values in a row beyond the 98 % quantile of at least `MIN_PAST` healthy ones, with the
median of the run shifted by more than the least size that matters and by five median deviations. On eleven completed
MLPerf runs, on which this was set, it sees slow steps after about five of them, with one false alarm in some 8,500
healthy ones for a single series without a least size; least size, deviations and the least time lower that further.
"""

from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F32, F64, Index, Mask

RUN = 4
"""New values in a row that make a shift, and that end it."""
MIN_PAST = 10
PAST = 48
"""Values of the past that are kept of each series."""
PAST_SPACING_S = 15.0
"""Seconds between two values of the past, once there are enough: 48 of them then cover twelve minutes."""
DENSE_PAST = 24
"""So many values are taken at once."""
DEVIATIONS = 5.0
QUANTILE = 0.98
TAIL = 4.0
"""Single steps of up to 3.4 times the median are normal (MLPerf runs); what is longer says nothing about the tail."""
RELEARN_S = 6 * 3600.0
"""A shift that lasts so long is the new level."""
HALF = 0.5
"""A shift ends when the level is back within this part of the least size."""


@dataclass(frozen=True, slots=True)
class ShiftLimits:
    """What counts as a shift, [series] each."""

    least: F64
    """Least relative change."""
    floor: F64
    """Least absolute change."""
    up: Mask
    """Whether higher is bad."""
    down: Mask
    min_time: F64
    """Least seconds that a run must last."""


@dataclass
class LevelShifts:
    """The past of n series and the shifts that they are in."""

    limits: ShiftLimits
    recent: F32 = field(init=False)
    past: F32 = field(init=False)

    def __post_init__(self) -> None:
        self._allocate(0)

    def _allocate(self, size: int) -> None:
        self.size = size
        self.recent = np.full((RUN, size), np.nan, np.float32)
        self.past = np.full((PAST, size), np.nan, np.float32)
        self.count = np.zeros(size, np.int64)
        self.median, self.low, self.high = (np.full(size, np.nan) for _ in range(3))
        self.accepted_at = np.full(size, -np.inf)
        self.run = np.zeros(size, np.int64)
        """Values in a row beyond the high limit; negative below the low one."""
        self.run_since = np.full(size, np.nan)
        self.shift = np.zeros(size, np.int8)
        """1 for a shift up, -1 for one down, else 0."""
        self.since = np.full(size, np.nan)
        self.back = np.zeros(size, np.int64)
        """Values in a row that are healthy again."""
        self.before = np.full(size, np.nan)
        """The healthy level when the shift began."""

    def grow(self, limits: ShiftLimits) -> None:
        """Makes room for more series; `limits` are those of all."""
        old, names = self.size, ("median", "low", "high", "run_since", "since", "before")
        kept = {name: getattr(self, name) for name in (*names, "count", "accepted_at", "run", "shift", "back")}
        recent, past = self.recent, self.past
        self._allocate(len(limits.least))
        self.limits = limits
        self.recent[:, :old], self.past[:, :old] = recent, past
        for name, values in kept.items():
            getattr(self, name)[:old] = values

    def step(self, at: Index, value: F64, time: F64) -> None:
        """Takes in new values.

        Args:
            at: [k] the series that have one.
            value: [k] the values.
            time: [k] their times, seconds.
        """
        if not len(at):
            return
        self._accept(at, time)
        self.recent[:-1, at] = self.recent[1:, at]
        self.recent[-1, at] = value
        above = (value > self.high[at]) & self.limits.up[at]
        below = (value < self.low[at]) & self.limits.down[at]
        self._count_runs(at, time, above, below)
        self._begin(at, time)
        self._end(at, time, value)

    def level(self, series: int) -> float:
        """Returns the median of the newest values of one series."""
        return float(np.nanmedian(self.recent[:, series]))

    # --- past

    def _accept(self, at: Index, time: F64) -> None:
        """Moves the oldest recent values into the past: a run that begins is not part of it."""
        oldest = self.recent[0, at]
        due = (self.count[at] < DENSE_PAST) | (time - self.accepted_at[at] >= PAST_SPACING_S)
        good = ~np.isnan(oldest) & (self.shift[at] == 0) & (self.run[at] == 0) & due
        some, new = at[good], oldest[good].astype(np.float64)
        if not len(some):
            return
        # One long step is normal and must not raise the limit for the next ones.
        new = np.where(np.isnan(self.high[some]), new, np.clip(new, self.low[some], self.high[some]))
        self.past[self.count[some] % PAST, some] = new
        self.count[some] += 1
        self.accepted_at[some] = time[good]
        warm = some[self.count[some] >= MIN_PAST]
        self._learn_limits(warm)

    def _learn_limits(self, at: Index) -> None:
        if not len(at):
            return
        past = np.sort(self.past[:, at].astype(np.float64), axis=0)
        size = np.minimum(self.count[at], PAST)
        middle = _quantile(past, size, 0.5)
        spread = DEVIATIONS * _quantile(np.sort(np.abs(past - middle), axis=0), size, 0.5)
        least, floor = self.limits.least[at], self.limits.floor[at]
        scale = np.abs(middle)
        self.median[at] = middle
        higher = np.maximum(middle + np.maximum(spread, floor), middle + scale * least)
        lower = np.minimum(middle - np.maximum(spread, floor), middle - scale * least / (1.0 + least))
        tail = np.clip(past, np.minimum(middle / TAIL, lower), np.maximum(TAIL * middle, higher))
        self.high[at] = np.fmax(_quantile(tail, size, QUANTILE), higher)
        self.low[at] = np.fmin(_quantile(tail, size, 1 - QUANTILE), lower)

    # --- shifts

    def _count_runs(self, at: Index, time: F64, above: Mask, below: Mask) -> None:
        run = self.run[at]
        new = np.where(above, np.maximum(run, 0) + 1, np.where(below, np.minimum(run, 0) - 1, 0))
        begun = (np.abs(new) == 1) & (np.sign(new) != np.sign(run))
        self.run_since[at[begun]] = time[begun]
        self.run[at] = new

    def _begin(self, at: Index, time: F64) -> None:
        long = (np.abs(self.run[at]) >= RUN) & (self.shift[at] == 0)
        long &= time - self.run_since[at] >= self.limits.min_time[at]
        some = at[long]
        self.shift[some] = np.sign(self.run[some])
        self.since[some], self.before[some] = self.run_since[some], self.median[some]
        self.back[some] = 0

    def _end(self, at: Index, time: F64, value: F64) -> None:
        held = self.shift[at] != 0
        some, new, when = at[held], value[held], time[held]
        if not len(some):
            return
        margin = HALF * np.where(
            self.shift[some] > 0, self.high[some] - self.median[some], self.median[some] - self.low[some]
        )
        healthy = np.where(self.shift[some] > 0, new <= self.median[some] + margin, new >= self.median[some] - margin)
        self.back[some] = np.where(healthy, self.back[some] + 1, 0)
        over = (self.back[some] >= RUN) | (when - self.since[some] >= RELEARN_S)
        relearned = some[(when - self.since[some] >= RELEARN_S)]
        self.count[relearned] = 0
        self.past[:, relearned] = np.nan
        self.high[relearned] = self.low[relearned] = np.nan
        ended = some[over]
        self.shift[ended], self.since[ended], self.run[ended] = 0, np.nan, 0


def _quantile(ordered: F64, size: Index, q: float) -> F64:
    """Returns [series] the quantile of the first `size` values of each column, which are in ascending order."""
    place = q * (size - 1)
    low = np.floor(place).astype(np.intp)
    high = np.minimum(low + 1, size - 1)
    columns = np.arange(ordered.shape[1])
    below, above = ordered[low, columns], ordered[high, columns]
    found: F64 = below + (place - low) * (above - below)
    return found
