"""What expressions remember of counters: the increase of each over a window, and the seconds it took."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from skewscope.engine.features.counter_history import CounterHistory
from skewscope.engine.ingest.counter_snapshot import CounterSnapshot
from skewscope.engine.ingest.layout import ColumnIndex, ColumnLayout, SeriesRows
from skewscope.engine.ingest.samples import (
    HISTOGRAM_PERIODS,
    MAX_PERIOD_S,
    MIN_PERIODS,
    CommonTimestamp,
    SamplingPeriods,
    common_timestamp_of,
    constant_array,
    is_constant_array,
)
from skewscope.engine.ingest.slots import (
    EDGE_S,
    WIDE_RING_COLUMNS,
    slot_for_window,
)
from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.entities import EntityIndex
from skewscope.kb.model import Signal

IncreaseFunction = Callable[[float, Index], tuple[F64, F64]]
"""From (window in seconds, series) to ([series] increases, [series] seconds)."""


class CounterSource(Protocol):
    """The state of the series that counters are read from."""

    @property
    def tick(self) -> float:
        """Seconds between two ticks."""

    @property
    def signals(self) -> Mapping[str, Signal]:
        """Signals by id."""

    @property
    def entities(self) -> EntityIndex:
        """Entities by kind."""

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kind of entity of each signal in `rows`."""

    @property
    def rows(self) -> Mapping[str, SeriesRows]:
        """The series of each signal that rules read."""

    @property
    def columns(self) -> ColumnIndex:
        """The columns of all frames."""

    @property
    def sampling(self) -> SamplingPeriods:
        """The sampling periods of all series."""

    def counter_totals(self, series: Index | slice) -> tuple[F64, F64]:
        """Returns ([series] totals, [series] times in seconds)."""

    def counter_periods(self, series: Index | slice) -> F64:
        """Returns [series] seconds between two readings of counters that may differ; NaN where not known."""

    def counter_snapshot(self, series: Index | slice, moment: CommonTimestamp | None = None) -> CounterSnapshot:
        """Returns the totals of counters and since when they count."""


NO_LANE = np.full(1, np.nan)
"""What a series without a lane reads."""


@dataclass
class CounterWindows:
    """A signal's counters side by side, in a ring of what they counted."""

    signal: str
    source: CounterSource
    history: CounterHistory
    series: Index = field(default_factory=lambda: np.empty(0, np.intp))
    _version: int = -1
    _index: Index | slice = field(default_factory=lambda: np.empty(0, np.intp))
    """The same as `series`, as a slice where they lie side by side."""
    _sorted: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """The same in order, unless they lie side by side: a table over all numbers would be as long as those of all
    signals together."""
    _sorted_lanes: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """The lane of each series in `_sorted`."""
    _widened_window: float = 0.0  # shorter ones are widened to the periods of all counters; NaN while one is unknown
    _lanes_cache: dict[int, tuple[Index, Index | Mask | None]] = field(default_factory=dict)
    """The lanes of series, by the identity of these: None where they are all lanes in their order, and where there are
    others between these, whether each has a lane."""
    _columns: tuple[ColumnLayout, ...] = ()
    _snapshot: CounterSnapshot | None = None
    _timestamp: CommonTimestamp | None = None
    _increases: dict[float, tuple[F64, F64]] = field(default_factory=dict)
    """This tick's [lane] increases and seconds, by the length of the window: 0 where it is widened by all counters."""
    _statistics: dict[tuple[Hashable, float], tuple[Index, F64]] = field(default_factory=dict)
    """(series, what was computed of their increases)."""
    _next_change: float | None = -np.inf
    """When an increase may next change although no sample comes, in seconds; None: to be looked up anew."""

    def _lanes_of(self, series: Index) -> Index:
        """Returns the lane of each series, -1 where it has none."""
        if isinstance(self._index, slice):
            return np.where((series >= self._index.start) & (series < self._index.stop), series - self._index.start, -1)
        if not len(self._sorted):
            return np.full(series.shape, -1)
        place = np.minimum(np.searchsorted(self._sorted, series), len(self._sorted) - 1)
        return np.where(self._sorted[place] == series, self._sorted_lanes[place], -1)

    def _cached_lanes_of(self, series: Index) -> Index | Mask | None:
        """The same, of series that will be asked for again; see `_lanes_cache`."""
        known = self._lanes_cache.get(id(series))
        if known is None or known[0] is not series:
            # Several expressions ask for the same ones, and keep these as arrays of their own.
            known = next((one for one in self._lanes_cache.values() if np.array_equal(one[0], series)), None)
            lanes = self._find_lanes(series) if known is None else known[1]
            known = self._lanes_cache[id(series)] = series, lanes
        return known[1]

    def _find_lanes(self, series: Index) -> Index | Mask | None:
        if np.array_equal(series.ravel(), self.series):
            return None
        has = (lanes := self._lanes_of(series)) >= 0
        return has if np.array_equal(series[has], self.series) else lanes

    def step(self, t: float) -> None:
        """Take in the totals of the tick that ends at `t` seconds."""
        self.learn_series()
        self._forget_increases()
        self._timestamp = common_timestamp_of(self._columns)
        counted, times = self.source.counter_totals(self._index)
        time = self._timestamp.time if self._timestamp is not None and self._timestamp.is_complete else times
        self.history.step(t, counted, time, self._usual_period)
        self._next_change = None

    def advance(self, t: float) -> None:
        """Move on to the tick that ends at `t` seconds, in which no counter was read and none became stale."""
        if t >= self.next_change - EDGE_S:
            self._forget_increases()
            self.history.advance(t)
            self._next_change = None

    def _forget_increases(self) -> None:
        self._increases.clear()
        self._statistics.clear()
        self._snapshot = None

    def _usual_period(self) -> float:
        """Returns the seconds that nine of ten counters do not exceed between two readings that may differ."""
        polls = self.source.sampling.p90_period(self._index)
        if len(self.series) > WIDE_RING_COLUMNS:
            return polls
        periods = self.source.counter_periods(self._index)
        known = np.sort(periods[~np.isnan(periods)])
        return max(polls, float(known[len(known) * 9 // 10])) if len(known) and polls else polls

    @property
    def next_change(self) -> float:
        """When an increase may next change although its counters were not read, in seconds."""
        if self._next_change is None:
            self._next_change = self.history.next_change(self.source.counter_periods(self._index))
        return self._next_change

    def learn_series(self) -> None:
        """Gives a lane to each series that is new."""
        rows = self.source.rows[self.signal]
        if rows.version == self._version:
            return
        self._version = rows.version
        # Each series occurs once. Lanes keep their order: a new series gets a new lane at the end.
        found = np.sort(rows.series[rows.series >= 0])
        self.series = np.concatenate((self.series, np.setdiff1d(found, self.series, assume_unique=True)))
        first, size = int(self.series.min()), len(self.series)
        straight = bool((self.series == np.arange(first, first + size)).all())
        self._index = slice(first, first + size) if straight else self.series
        self._sorted_lanes = np.argsort(self.series[:0] if straight else self.series, kind="stable")
        self._sorted = self.series[self._sorted_lanes]
        self._columns = self.source.columns.columns_of(self.series)
        self._lanes_cache.clear()
        kind = self.source.kinds[self.signal]
        self.history.expected_counters = self.source.entities.count(kind)

    def statistic(
        self, key: Hashable, window: float, series: Index, compute: Callable[[Index, IncreaseFunction], F64]
    ) -> F64:
        """Returns [entity] a statistic of [selector, entity] series, read-only.

        Windows that are widened to the same length share the computation.
        """
        self._read_counters()
        place = key, self._width_of(window)
        known = self._statistics.get(place)
        if known is None or known[0] is not series:
            known = self._statistics[place] = series, compute(series, self.increase_over)
        return known[1]

    def _read_counters(self) -> CounterSnapshot:
        """Returns the counters as of this tick."""
        if self._snapshot is None:
            self._snapshot = self.source.counter_snapshot(self._index, self._timestamp)
            shortest = min(self._snapshot.period.min(initial=MAX_PERIOD_S), MAX_PERIOD_S)
            self._widened_window = self.history.min_periods * shortest
        return self._snapshot

    def _width_of(self, window: float) -> float:
        """Returns the window, in seconds; 0 where all counters widen it to the same length."""
        return 0.0 if window < self._widened_window else window

    def increase_over(self, window: float, series: Index) -> tuple[F64, F64]:
        """(increase, seconds) of each series over a window; NaN where too little is known."""
        snapshot, width = self._read_counters(), self._width_of(window)
        if width not in self._increases:
            self._increases[width] = self.history.increase_over(window, snapshot)
        more, since = self._increases[width]
        lane = self._cached_lanes_of(series)
        if lane is None:
            return more.reshape(series.shape), since.reshape(series.shape)
        more = _spread(more, lane)
        # Where all were read at the same time, a series without a lane still has no increase.
        return more, constant_array(since[0], *lane.shape) if is_constant_array(since) else _spread(since, lane)

    def subset_increase_over(self, window: float, series: Index) -> tuple[F64, F64]:
        """The same as `over`, where only these series will be asked for."""
        if self._width_of(window) in self._increases:
            return self.increase_over(window, series)
        there = (lane := self._lanes_of(series)) >= 0
        more, since = np.full((2, *series.shape), np.nan)
        if there.any():
            more[there], since[there] = self.history.increase_over(
                window, self.source.counter_snapshot(series[there]), lane[there]
            )
        return more, since


def _spread(values: F64, lane: Index | Mask) -> F64:
    """Returns the values of lanes at the places of series, NaN where these have none; see `_lanes_cache`."""
    if lane.dtype != bool:
        found: F64 = np.concatenate((values, NO_LANE))[lane]
        return found
    spread = np.full(lane.shape, np.nan)
    spread[lane] = values
    return spread


class CounterStore:
    """The counter windows of all signals; windows whose slots are of one length share them."""

    def __init__(self, source: CounterSource) -> None:
        self.source = source
        self._windows: dict[tuple[str, float], CounterWindows] = {}
        self._delivered: list[CounterWindows] = []

    def windows_of(self, signal: str, window: float) -> CounterWindows:
        """The counters of a signal, from which increases over a window of so many seconds are read."""
        slot = slot_for_window(window, self.source.tick)
        is_histogram = self.source.signals[signal].type == "histogram"
        history = CounterHistory(self.source.tick, slot, HISTOGRAM_PERIODS if is_histogram else MIN_PERIODS)
        found = self._windows.setdefault((signal, slot), CounterWindows(signal, self.source, history))
        found.history.request(window)
        return found

    def changing(self, t: float, has_changed: Callable[[str], bool]) -> Iterator[CounterWindows]:
        """Yields the windows of which increases may change in the tick that ends at `t`, by samples of others."""
        for windows in self._delivered:
            if not has_changed(windows.signal) and t >= windows.next_change - EDGE_S:
                yield windows

    def plan(self) -> None:
        """Find the signals that any series delivers."""
        rows = self.source.rows
        self._delivered = [windows for (signal, _), windows in self._windows.items() if rows[signal].selectors]

    def step(self, t: float, has_changed: Callable[[str], bool], *, has_samples: bool) -> None:
        """Take in the totals of the tick that ends at `t`.

        `has_changed` tells whether a signal had samples, `has_samples` whether any had.
        """
        for windows in self._delivered:
            if has_changed(windows.signal):
                windows.step(t)
            elif has_samples:
                windows.advance(t)
