"""Samples and their times: batches in order, and learned sampling periods.

Frames bring whole columns at one time, and so do most scrapes. Where it is known, the times of single samples are not
read.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, Index, Mask, has_all, has_any, pad_to_length
from skewscope.engine.model.sparse_columns import SparseColumns

# --- batches of samples


@dataclass(frozen=True, slots=True)
class SortedSamples:
    """Samples of series, ordered by series and then time; `first` and `last` mark a series' own."""

    series: Index
    time: F64
    value: F64
    first: NDArray[np.bool_]
    last: NDArray[np.bool_]
    is_unique: bool
    """Whether no series has more than one."""

    def select(self, mask: NDArray[np.bool_]) -> "SortedSamples":
        """Some of them."""
        if has_all(mask):
            return self
        at = np.flatnonzero(mask)
        if self.is_unique:
            return build_unique_batch(self.series[at], self.time[at], self.value[at])
        return build_sorted_batch(self.series[at], self.time[at], self.value[at])


def build_sorted_batch(series: Index, time: F64, value: F64) -> SortedSamples:
    """Samples ordered by series and time."""
    first, last = np.ones(len(series), bool), np.ones(len(series), bool)
    first[1:] = last[:-1] = series[1:] != series[:-1]
    return SortedSamples(series, time, value, first, last, is_unique=False)


def build_unique_batch(series: Index, time: F64, value: F64) -> SortedSamples:
    """Samples of which no two are of one series."""
    every = np.ones(len(series), bool)
    return SortedSamples(series, time, value, every, every, is_unique=True)


@dataclass(frozen=True, slots=True)
class EarlierSteps:
    """Samples of one tick that a later one of it replaced, of the times that a job prints: each is one step."""

    is_step: Mask
    """[signal] whether it is such a time."""
    samples: list[tuple[Index, F64, F64]] = field(default_factory=list)
    """(series, times, values), ordered by series and time."""

    def keep(self, found: SortedSamples, signals: NDArray[np.int16]) -> None:
        """Adds those among some samples; `signals` are [sample]."""
        earlier = self.is_step[signals] & ~found.last
        if earlier.any():
            self.samples.append((found.series[earlier], found.time[earlier], found.value[earlier]))


# --- common timestamps


@dataclass(frozen=True, slots=True)
class CommonTimestamp:
    """The one time of the newest samples of many entities; an entity without one at that time has no value now."""

    time: float
    is_complete: bool = True
    """Whether all that ever bring samples brought one."""


CONSTANT_TIMESTAMP = CommonTimestamp(-np.inf)
"""Of what is always the same."""


def constant_array(value: float, *shape: int) -> F64:
    """Returns [shape] the same number everywhere, read-only, in the memory of one number."""
    return np.ndarray(shape, np.float64, np.array([value]), strides=(0,) * len(shape))


def is_constant_array(values: F64) -> bool:
    """Whether an array is one made by `constant_array`."""
    return len(values) > 0 and values.strides == (0,)


def merge_timestamps(moments: Iterable[CommonTimestamp | None]) -> CommonTimestamp | None:
    """The common timestamp of values that depend on all of these; None if their times differ."""
    found = CONSTANT_TIMESTAMP
    for moment in moments:
        if moment is None:
            return None
        if found is CONSTANT_TIMESTAMP:
            found = moment
        elif moment is not CONSTANT_TIMESTAMP:
            if moment.time != found.time:
                return None
            if not moment.is_complete:
                found = moment
    return found


def merge_complete_timestamps(parts: Iterable[CommonTimestamp | None]) -> CommonTimestamp | None:
    """The same, for values that outlast a missing sample: None unless every entity has a new one."""
    found = merge_timestamps(parts)
    return found if found is not None and found.is_complete else None


class TimedColumn(Protocol):
    """A column of a frame: series that are delivered together."""

    @property
    def time(self) -> float:
        """Seconds: of its newest samples; NaN before the first."""

    @property
    def is_complete(self) -> bool:
        """Whether the newest delivery had a valid value for every series."""


def common_timestamp_of(columns: Sequence[TimedColumn]) -> CommonTimestamp | None:
    """The one time at which all columns were last delivered; None if there are several, or no columns."""
    if not columns or any(column.time != columns[0].time for column in columns):
        return None
    return CommonTimestamp(columns[0].time, all(column.is_complete for column in columns))


# --- sampling periods

WARM_UP_INTERVALS = 5
"""So many intervals are collected before their median is trusted to change only slowly."""
MIN_INTERVALS = 3
"""Slots are fitted to a period of at least so many intervals: a single long interval is an outage."""
LEARNING_RATE = 0.1
"""How much of a new interval, on a logarithmic scale, is believed after that."""
STALE_PERIODS = 3.0
"""A value is stale after so many periods, and no sooner than after so many ticks."""
MAX_PERIOD_S = 60.0
"""Longest period that widens a window, and longest time that a series seen only once stays fresh, half of it."""
MIN_PERIODS = 3.0
"""A window is never shorter than so many sampling periods..."""
HISTOGRAM_PERIODS = 2.0
"""...and of histograms than so many: what they say rests on all observations between two readings."""


def widen_window(window: float, period: F64, periods: float = MIN_PERIODS) -> F64:
    """The window, no shorter than a few periods."""
    return np.fmax(window, periods * np.minimum(period, MAX_PERIOD_S))


MAX_SERIES_SCANNED = 4096
"""The usual period is taken from a regular selection of at most about this many series."""


@dataclass
class SamplingPeriods:
    """Sampling periods of many series, in seconds; NaN where fewer than two samples came."""

    tick: float
    period: F64 = field(default_factory=lambda: np.empty(0))
    version: int = 0
    """Grows when a period changes."""
    count: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    """How many intervals a period rests on, at most `WARM_UP_INTERVALS`."""
    _first_intervals: SparseColumns = field(default_factory=lambda: SparseColumns(WARM_UP_INTERVALS))
    """Of series with fewer."""
    _extremes: dict[tuple[int, int], tuple[int, float]] = field(default_factory=dict)
    _horizons: tuple[int, F64] = (-1, np.empty(0))
    """The ages at which values of few series are stale, as of a version."""

    def grow(self, size: int) -> None:
        """Make room for `size` series."""
        old = len(self.period)
        self.period = pad_to_length(self.period, size)
        self.count = np.concatenate((self.count, np.zeros(max(size - old, 0), np.uint8)))
        self._first_intervals.grow(size)
        self.version += 1

    def copy_from(self, into: Index | slice, other: "SamplingPeriods", at: Index | slice) -> None:
        """Copy the periods of some series from another table."""
        self.period[into], self.count[into] = other.period[at], other.count[at]
        new, old = (np.arange(len(one.period))[places] for one, places in ((self, into), (other, at)))
        self._first_intervals.copy_from(new, other._first_intervals, old)  # noqa: SLF001 - one of its own kind
        self.version += 1

    def broadcast_from(self, into: slice, other: "SamplingPeriods") -> None:
        """Give many series the period of the only series of another table."""
        self.period[into], self.count[into] = other.period[0], other.count[0]
        new = np.arange(len(self.period))[into]
        self._first_intervals.copy_from(new, other._first_intervals, np.zeros_like(new))  # noqa: SLF001 - as above
        self.version += 1

    def p90_period(self, at: Index | slice = slice(None)) -> float:
        """The period that nine of ten series do not exceed, of those that rest on more than chance; 0 without any."""
        if isinstance(at, slice):
            begin, end, _ = at.indices(len(self.period))
            some = np.arange(begin, end, max(1, (end - begin) // MAX_SERIES_SCANNED))
        else:
            some = at[:: max(1, len(at) // MAX_SERIES_SCANNED)]
        known = self.period[some[self.count[some] >= MIN_INTERVALS]]
        place = len(known) * 9 // 10
        return float(np.partition(known, place)[place]) if len(known) else 0.0

    def common_period(self, who: Mask) -> float:
        """The period of some series, if it is the same and known for good; else NaN."""
        period = self.period[who]
        same = len(period) and (period == period[0]).all() and (self.count[who] == WARM_UP_INTERVALS).all()
        return float(period[0]) if same else np.nan

    def longest_period(self, at: slice) -> float:
        """The longest of some periods; 0 where none is known."""
        key = at.start or 0, -1 if at.stop is None else at.stop
        return self._extreme(key, lambda: float(np.fmax.reduce(self.period[at], initial=0.0)))

    def stale_after(self, at: Index | slice = slice(None)) -> F64:
        """Returns [k] the ages in seconds at which values of some series are stale."""
        if len(self.period) > MAX_SERIES_SCANNED:
            return self._compute_horizons(self.period[at])
        if self._horizons[0] != self.version:
            self._horizons = self.version, self._compute_horizons(self.period)
        return self._horizons[1][at]

    def _compute_horizons(self, period: F64) -> F64:
        return np.where(np.isnan(period), self._first_horizon, STALE_PERIODS * np.maximum(period, self.tick))

    @property
    def _first_horizon(self) -> float:
        """The age at which the value of a series is stale that was seen only once."""
        return max(MAX_PERIOD_S / 2, STALE_PERIODS * self.tick)

    def are_stale(self, age: F64, at: Index | slice = slice(None)) -> Mask:
        """Returns [k] whether values of some series are stale; `age` is theirs in seconds, NaN where there is none."""
        # No horizon is shorter.
        stale: Mask = age > STALE_PERIODS * self.tick
        if np.count_nonzero(stale):
            some = np.flatnonzero(stale) + at.indices(len(self.period))[0] if isinstance(at, slice) else at[stale]
            stale[stale] = age[stale] > self.stale_after(some)
        return stale

    def are_fresh(self, age: F64, at: Index | slice = slice(None)) -> Mask:
        """The opposite; values that there are not are neither."""
        return ~(self.are_stale(age, at) | np.isnan(age))

    def shortest_stale_after(self) -> float:
        """The shortest horizon."""
        return self._extreme((-2, -2), self._find_shortest_horizon)

    def _find_shortest_horizon(self) -> float:
        least, first = float(self.period.min(initial=np.inf)), np.inf
        if np.isnan(least):
            least, first = float(np.fmin.reduce(self.period, initial=np.inf)), self._first_horizon
        return min(first, STALE_PERIODS * max(least, self.tick))

    def _extreme(self, key: tuple[int, int], compute: Callable[[], float]) -> float:
        version, found = self._extremes.get(key, (-1, 0.0))
        if version != self.version:
            self._extremes[key] = self.version, (found := compute())
        return found

    def learn(self, at: Index | slice, interval: F64) -> None:
        """Learn one interval in seconds of each of the series `at`; NaN, zero and negative ones are ignored."""
        known = self.period[at]
        # A steady period has nothing to teach, once it has been seen for long enough.
        new = (interval > 0) & ((interval != known) | (self.count[at] < WARM_UP_INTERVALS))
        if not has_any(new):
            return
        self.version += 1
        some: Index = np.flatnonzero(new) if isinstance(at, slice) else at[new]
        interval = interval[new]
        young = self.count[some] < WARM_UP_INTERVALS
        if has_any(young):
            self._collect(some[young], interval[young])
        old = ~young
        if has_any(old):
            some, interval = some[old], interval[old]
            known = self.period[some]
            known *= np.clip(interval / known, 0.5, 2.0) ** LEARNING_RATE
            self._set(some, known)

    def _collect(self, at: Index, interval: F64) -> None:
        count, lanes = self.count[at].astype(np.intp), self._first_intervals.lanes(at)
        self._first_intervals.values[count, lanes] = interval
        ordered = np.sort(self._first_intervals.values[:, lanes], axis=0)
        self._set(at, np.take_along_axis(ordered, (count // 2)[None, :], axis=0)[0])
        self.count[at] += 1
        self._first_intervals.release(at[self.count[at] == WARM_UP_INTERVALS])

    def _set(self, at: Index, period: F64) -> None:
        self.period[at] = period


# --- values of several expressions side by side

MAX_COLUMNS = 1 << 16
"""Columns that are processed together, unless one expression has more: they should fit into the cache."""

Sampler = Callable[[Sequence[int]], tuple[F64, F64 | float]]
"""Returns this tick's values of some expressions side by side, and their times: one number if all are equal."""

Item = TypeVar("Item")


def split_by_width(items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yields the items in order, in lists of at most `MAX_COLUMNS` columns, unless one item alone has more."""
    part: list[Item] = []
    width = 0
    for item in items:
        if part and width + size(item) > MAX_COLUMNS:
            yield part
            part, width = [], 0
        part.append(item)
        width += size(item)
    if part:
        yield part
