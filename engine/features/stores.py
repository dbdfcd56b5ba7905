"""What expressions remember besides windows of values: the increases of counters, and healthy pasts.

Counters: the increase of each over a window, and the seconds it took. Baselines: what is normal for each entity by its
own past, learned only while it looks healthy.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from skewscope.engine.features.peer_statistics import MIN_SPREAD_SHARE, safe_divide, scaled_distance
from skewscope.engine.ingest.counters import CounterSnapshot
from skewscope.engine.ingest.layout import ColumnIndex, ColumnLayout, SeriesRows
from skewscope.engine.ingest.samples import (
    MAX_PERIOD_S,
    MIN_PERIODS,
    CommonTimestamp,
    Sampler,
    SamplingPeriods,
    common_timestamp_of,
    constant_array,
    is_constant_array,
    split_by_width,
    widen_window,
)
from skewscope.engine.ingest.slots import (
    ALL_COLUMNS,
    EDGE_S,
    FIT_STEPS,
    WIDE_RING_COLUMNS,
    ColumnIndexer,
    SlotOffset,
    SlotRing,
    depth_for,
    join_equal,
    slot_for_window,
)
from skewscope.engine.model.arrays import F64, MAX_VALUE, Index, Mask, nan_to_zero, pad_to_length, sort_unique
from skewscope.engine.model.entities import EntityIndex
from skewscope.kb.model import Signal


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


class CounterHistory:
    """The totals of counters over time, in a ring: one column (lane) for each counter."""

    def __init__(self, tick: float, slot: float) -> None:
        self.total_ring = SlotRing(tick, slot, ("counted",))
        self.time_ring = SlotRing(tick, slot, ("time",))
        """When the counters were read: one column for all, as long as they are read together."""
        self._has_shared_time = False
        self.windows: set[float] = set()
        """Lengths of the windows, in seconds."""
        self.longest_window = 0.0
        self.expected_counters = 0
        """Lanes that there will be: those of a fleet come one after another."""
        self._tick_count = 0
        """Ticks with samples."""

    def request(self, window: float) -> None:
        """Keep enough for a window of so many seconds."""
        self.windows.add(window)
        self.longest_window = max(self.longest_window, window)
        self._coarsen(self.longest_window)

    def _coarsen(self, longest: float) -> None:
        self.total_ring.coarsen(longest)
        self.time_ring.coarsen(longest)

    def advance(self, t: float) -> None:
        """Move on to the tick that ends at `t` seconds, in which no counter was read."""
        self.total_ring.advance(t)
        self.time_ring.advance(t)

    def next_change(self, period: F64) -> float:
        """Returns the time in seconds at which an increase may next change although the counters were not read.

        `period` is of each lane, in seconds.
        """
        ring = self.total_ring
        if ring.size > WIDE_RING_COLUMNS:
            return -np.inf
        offsets = (sort_unique(ring.slot_counts(widen_window(window, period))) for window in self.windows)
        return ring.next_exit({slots for some in offsets for slots in some.tolist()})

    def step(self, t: float, counted: F64, time: F64 | float, usual: Callable[[], float]) -> None:
        """Take in the totals and the times they were read; `usual` returns the usual period in seconds."""
        if not self.total_ring.size and (lanes := max(len(counted), self.expected_counters)) > WIDE_RING_COLUMNS:
            depth = depth_for(lanes, self.longest_window, self.total_ring.slot)
            self.total_ring, self.time_ring = (
                SlotRing(self.total_ring.tick, self.total_ring.slot, (name,), depth=depth)
                for name in ("counted", "time")
            )
            self._coarsen(self.longest_window)
        self._fit(len(counted), isinstance(time, float))
        for ring, name, row in ((self.total_ring, "counted", counted), (self.time_ring, "time", time)):
            ring.advance(t)
            ring.replace(name, row)
        self.total_ring.mark_slots(self.total_ring.current)
        if self._tick_count < FIT_STEPS or self._tick_count % FIT_STEPS == 0:
            self._coarsen(max(self.longest_window, MIN_PERIODS * min(usual(), MAX_PERIOD_S)))
        self._tick_count += 1

    def _fit(self, size: int, together: bool) -> None:
        """Make room for `size` counters, and for separate times if they are not read together."""
        if not self.total_ring.size:
            self._has_shared_time = together
        elif self._has_shared_time and not (together and size == self.total_ring.size):
            self.time_ring.widen(self.total_ring.size)
            self._has_shared_time = False
        elif together and not self._has_shared_time and self._tick_count % FIT_STEPS == 0:
            self._has_shared_time = self.time_ring.narrow()
        self.total_ring.grow(size)
        self.time_ring.grow(1 if self._has_shared_time else size)

    def increase_over(self, window: float, tally: CounterSnapshot, at: ColumnIndexer = ALL_COLUMNS) -> tuple[F64, F64]:
        """Returns ([lane] increase, [lane] seconds) since the last sample before the window; NaN where too short.

        `tally` is of the lanes `at`.
        """
        wide: F64 | float = window
        steps: SlotOffset = self.total_ring.slot_count(window)
        if MIN_PERIODS * tally.longest_period > window:
            wide = widen_window(window, tally.period)
            steps = join_equal(self.total_ring.slot_counts(wide))
        sums, times = self.total_ring.look_back("counted", steps, at), self._times_before(steps, at)
        if isinstance(wide, float) and len(times) == 1 and times[0] >= tally.latest_start:
            took = float(tally.time[0] - times[0])
            if took >= wide / 2 and took > 0:
                return tally.sum - sums, constant_array(took, len(sums))
        since, more = tally.time - times, tally.sum - sums
        short = ~(times >= tally.start_time)
        if np.count_nonzero(short):
            since = np.where(short, tally.time - tally.start_time, since)
            more = np.where(short, tally.sum - tally.start_sum, more)
        good = tally.fresh & (since > 0)
        half = wide / 2
        if np.count_nonzero(since >= half) < len(since):
            good &= since + nan_to_zero(tally.period) >= half
        return (
            (more, since)
            if np.count_nonzero(good) == len(good)
            else (np.where(good, more, np.nan), np.where(good, since, np.nan))
        )

    def _times_before(self, steps: SlotOffset, at: ColumnIndexer) -> F64:
        """Returns [lane] when counters were last read before so many slots; one time if it is the same for all."""
        if not self._has_shared_time:
            return self.time_ring.look_back("time", steps, at)
        if isinstance(steps, int):
            return self.time_ring.look_back("time", steps)
        return self.time_ring.look_back("time", steps, np.zeros(len(steps), np.intp))


@dataclass
class CounterWindows:
    """A signal's counters side by side, in a ring of what they counted."""

    signal: str
    source: CounterSource
    history: CounterHistory
    series: Index = field(default_factory=lambda: np.empty(0, np.intp))
    _version: int = -1
    _sorted: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """The same in order: a table over all numbers would be as long as those of all signals together."""
    _sorted_lanes: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """The lane of each series in `_sorted`."""
    _index: Index | slice = field(default_factory=lambda: np.empty(0, np.intp))
    """The same as `series`, as a slice where they lie side by side."""
    _widened_window: float = 0.0  # shorter ones are widened to the periods of all counters; NaN while one is unknown
    _lanes_cache: dict[int, tuple[Index, Index | None]] = field(default_factory=dict)
    """The lanes of series, by the identity of these; None for those that are all lanes in their order."""
    _columns: tuple[ColumnLayout, ...] = ()
    _snapshot: CounterSnapshot | None = None
    _timestamp: CommonTimestamp | None = None
    _increases: dict[float, tuple[F64, F64]] = field(default_factory=dict)
    _next_change: float | None = -np.inf
    """When an increase may next change although no sample comes, in seconds; None: to be looked up anew."""

    def _lanes_of(self, series: Index) -> Index:
        """Returns the lane of each series, -1 where it has none."""
        if not len(self._sorted):
            return np.full(series.shape, -1)
        place = np.minimum(np.searchsorted(self._sorted, series), len(self._sorted) - 1)
        return np.where(self._sorted[place] == series, self._sorted_lanes[place], -1)

    def _cached_lanes_of(self, series: Index) -> Index | None:
        """The same, of series that will be asked for again; None for all lanes in their order."""
        known = self._lanes_cache.get(id(series))
        if known is None or known[0] is not series:
            is_whole = np.array_equal(series.ravel(), self.series)
            known = self._lanes_cache[id(series)] = series, None if is_whole else self._lanes_of(series)
        return known[1]

    def step(self, t: float) -> None:
        """Take in the totals of the tick that ends at `t` seconds."""
        self.learn_series()
        self._increases.clear()
        self._snapshot = None
        self._timestamp = common_timestamp_of(self._columns)
        counted, times = self.source.counter_totals(self._index)
        time = self._timestamp.time if self._timestamp is not None and self._timestamp.is_complete else times
        self.history.step(t, counted, time, self._usual_period)
        self._next_change = None

    def advance(self, t: float) -> None:
        """Move on to the tick that ends at `t` seconds, in which no counter was read and none became stale."""
        if t >= self.next_change - EDGE_S:
            self._increases.clear()
            self._snapshot = None
            self.history.advance(t)
            self._next_change = None

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
        self._sorted_lanes = np.argsort(self.series, kind="stable")
        self._sorted = self.series[self._sorted_lanes]
        straight = bool((self.series == np.arange(first, first + size)).all())
        self._index = slice(first, first + size) if straight else self.series
        self._columns = self.source.columns.columns_of(self.series)
        self._lanes_cache.clear()
        kind = self.source.kinds[self.signal]
        self.history.expected_counters = self.source.entities.count(kind)

    def increase_over(self, window: float, series: Index) -> tuple[F64, F64]:
        """(increase, seconds) of each series over a window; NaN where too little is known."""
        if self._snapshot is None:
            self._snapshot = self.source.counter_snapshot(self._index, self._timestamp)
            self._widened_window = MIN_PERIODS * min(self._snapshot.period.min(initial=MAX_PERIOD_S), MAX_PERIOD_S)
        width = 0.0 if window < self._widened_window else window  # widened to the same by all counters
        if width not in self._increases:
            self._increases[width] = self.history.increase_over(window, self._snapshot)
        more, since = self._increases[width]
        lane = self._cached_lanes_of(series)
        if lane is None:
            return more.reshape(series.shape), since.reshape(series.shape)
        more = np.concatenate((more, NO_LANE))[lane]
        # Where all were read at the same time, a series without a lane still has no increase.
        return more, constant_array(since[0], *lane.shape) if is_constant_array(since) else np.concatenate(
            (since, NO_LANE)
        )[lane]

    def subset_increase_over(self, window: float, series: Index) -> tuple[F64, F64]:
        """The same as `over`, where only these series will be asked for."""
        if window in self._increases or (window < self._widened_window and 0.0 in self._increases):
            return self.increase_over(window, series)
        there = (lane := self._lanes_of(series)) >= 0
        more, since = np.full((2, *series.shape), np.nan)
        if there.any():
            more[there], since[there] = self.history.increase_over(
                window, self.source.counter_snapshot(series[there]), lane[there]
            )
        return more, since


class CounterStore:
    """The counter windows of all signals; windows whose slots are of one length share them."""

    def __init__(self, source: CounterSource) -> None:
        self.source = source
        self._windows: dict[tuple[str, float], CounterWindows] = {}
        self._delivered: list[CounterWindows] = []

    def windows_of(self, signal: str, window: float) -> CounterWindows:
        """The counters of a signal, from which increases over a window of so many seconds are read."""
        slot = slot_for_window(window, self.source.tick)
        history = CounterHistory(self.source.tick, slot)
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


MIN_SAMPLES = 8
"""A baseline is unknown before so many samples ..."""
MIN_MEMORY_SHARE = 1 / 6
"""... and this share of its memory have gone by."""
MAX_SURPRISE = 3.0
"""A sample further off than this many deviations is learned as if it were just so far off."""
MANY_COLUMNS = 256
"""Of no more columns, the exponential of each takes less time than to see that all are the same."""
BLOCK_COLUMNS = 1 << 13
"""So many columns learn at a time: what is worked with should stay in the cache."""
STATE_ARRAYS = ("mean", "variance", "_seen", "_first", "_last")


class Baseline:
    """Exponentially weighted mean and variance of one value of each entity of a kind."""

    def __init__(self, memory: float) -> None:
        self.memory = memory
        self.mean, self.variance = np.empty(0), np.empty(0)
        self._seen, self._first, self._last = (np.empty(0) for _ in range(3))
        self._ready = np.empty(0, bool)
        """[entity] whether its past is long enough; once it is, it stays so."""
        self._block_start: dict[int, float] = {}
        """By first column of a block without immature columns: the latest of its first times, in seconds."""
        self._newest_time = -np.inf
        """Time of the newest sample of all."""

    def grow(self, size: int) -> None:
        """Make room for `size` entities."""
        old = len(self._seen)
        for name in STATE_ARRAYS:
            setattr(self, name, pad_to_length(getattr(self, name), size))
        self._seen[old:] = 0.0
        self._update_ready(ALL_COLUMNS)

    def copy_from(self, into: ColumnIndexer, other: "Baseline", at: ColumnIndexer) -> None:
        """Copy what other columns of another baseline learned."""
        if not len(other._seen):  # noqa: SLF001 - one of its own kind
            return
        self._newest_time = max(self._newest_time, other._newest_time)  # noqa: SLF001
        for name in STATE_ARRAYS:
            getattr(self, name)[into] = getattr(other, name)[at]
        self._update_ready(ALL_COLUMNS)

    def _update_ready(self, at: slice) -> None:
        """Recompute which of some entities are ready."""
        seen, first = self._seen[at], self._first[at]
        ready = (seen >= MIN_SAMPLES) & (self._last[at] - first >= MIN_MEMORY_SHARE * self.memory)
        if at == ALL_COLUMNS:
            self._ready = ready
            self._block_start.clear()
            return
        self._ready[at] = ready
        if (ready | (seen == 0)).all():
            self._block_start[at.start] = float(np.fmax.reduce(first, initial=-np.inf))
        else:
            self._block_start.pop(at.start, None)

    def ready_mask(self, at: Index | slice = ALL_COLUMNS) -> Mask:
        """Returns [entity] whether its past is long enough to compare with."""
        return self._ready[at]

    def z_score(self, x: F64, at: Index | slice = ALL_COLUMNS) -> F64:
        """Returns [entity] the distance of each value from the past, in deviations; NaN while that is too short."""
        mean = self.mean[at]
        # The yardstick: a standard deviation, and no less than a small share of the mean.
        yardstick = np.sqrt(self.variance[at]) + MIN_SPREAD_SHARE * np.abs(mean)
        return np.where(self.ready_mask(at), scaled_distance(x - mean, yardstick), np.nan)

    def drift(self, x: F64, at: Index | slice = ALL_COLUMNS) -> F64:
        """Returns [entity] each value over the mean of the past, minus 1; NaN while the past is too short."""
        mean = self.mean[at]
        return np.where(self.ready_mask(at), safe_divide(x - mean, np.abs(mean)), np.nan)

    def learn(self, x: F64, time: F64 | float, frozen: Mask | None) -> None:
        """Learn new values of entities that look healthy, and of all whose past is still too short.

        The past of an entity begins with its first sample, healthy or not. `time` is in seconds, one number if it is
        the same for all; `frozen` excludes entities, None excludes none.
        """
        if isinstance(time, float) and time <= self._newest_time:
            time = np.full(len(x), time)
        for begin in range(0, len(x), BLOCK_COLUMNS):
            at = slice(begin, min(begin + BLOCK_COLUMNS, len(x)))
            new = np.abs(x[at]) <= MAX_VALUE
            if not isinstance(time, float):
                new &= ~(time[at] <= self._last[at]) & ~np.isnan(time[at])
            if frozen is not None and frozen[at].any():
                new &= ~frozen[at] | ~self.ready_mask(at)
            self._learn(at, x[at], time if isinstance(time, float) else time[at], new)
        newest = time if isinstance(time, float) else float(np.fmax.reduce(time, initial=-np.inf))
        self._newest_time = max(self._newest_time, newest)

    def _learn(self, at: slice, x: F64, time: F64 | float, new: Mask) -> None:
        whole = bool(new.all())
        if not (whole or new.any()):
            return
        seen, mean, variance = self._seen[at], self.mean[at], self.variance[at]
        # An entity without a first time was never seen.
        ripe = at.start in self._block_start and not (new & np.isnan(self._first[at])).any()
        if not ripe:
            self._init_first_samples(at, x, time, new)
        weight = self._weight(at, time, new, ripe=ripe)
        away = _clip_surprise(x - mean, mean, variance, None if ripe else seen)
        step = weight * away
        where: Mask | bool = True if whole else new
        np.add(mean, step, out=mean, where=where)
        step *= away
        step += variance
        np.multiply(1 - weight, step, out=variance, where=where)
        np.add(seen, 1.0, out=seen, where=where)
        np.copyto(self._last[at], time, where=where)
        if not ripe:
            self._update_ready(at)

    def _init_first_samples(self, at: slice, x: F64, time: F64 | float, new: Mask) -> None:
        """Store first samples."""
        first = (self._seen[at] == 0) & new
        if first.any():
            self._first[at][first] = time if isinstance(time, float) else time[first]
            self.mean[at][first], self.variance[at][first] = x[first], 0.0

    def _weight(self, at: slice, time: F64 | float, new: Mask, *, ripe: bool) -> F64:
        # At first a plain mean: each sample counts alike until the memory is as long as it should be.
        plain = 1 / (self._seen[at] + 1)
        if ripe and isinstance(time, float) and time - self._block_start[at.start] >= self.memory:
            return np.maximum(plain, self._decay(time - self._last[at], new))
        young = time - self._first[at] < self.memory
        if (young | ~new).all():
            return plain
        return np.where(young, plain, np.maximum(plain, self._decay(time - self._last[at], new)))

    def _decay(self, step: F64, new: Mask) -> F64:
        """Returns [entity] the share of the past that is forgotten in so many seconds, of those `new`."""
        if len(step) > MANY_COLUMNS:
            usual = step[np.argmax(new)]
            if ((step == usual) | ~new).all():
                step = np.array([usual])
        found: F64 = 1 - np.exp(-nan_to_zero(step) / self.memory)
        return found


def _clip_surprise(away: F64, mean: F64, variance: F64, seen: F64 | None) -> F64:
    """Returns [entity] `away`, changed in place: limited to a surprise once enough samples were seen.

    `seen` is the number of samples so far; None stands for enough.
    """
    most = np.sqrt(variance)
    most += MIN_SPREAD_SHARE * np.abs(mean)
    most *= MAX_SURPRISE
    if seen is not None and (few := seen < MIN_SAMPLES).any():
        most[few] = np.inf
    np.minimum(away, most, out=away)
    return np.maximum(away, np.negative(most, out=most), out=away)


# --- storage


@dataclass
class BaselineSlice:
    """The healthy past of one expression: some columns of a baseline."""

    number: int
    """Of the expression."""
    kind: str
    """Of its entities."""
    memory: float
    """Seconds."""
    baseline: Baseline = field(default_factory=lambda: Baseline(1.0))
    columns: slice = field(default_factory=lambda: slice(0, 0))


class BaselineStore:
    """The healthy pasts of all expressions that are compared with one, side by side by the length of their memory."""

    def __init__(self) -> None:
        self.slices: dict[tuple[int, float], BaselineSlice] = {}
        self._groups: list[list[BaselineSlice]] = []

    def slice_of(self, number: int, kind: str, memory: float) -> BaselineSlice:
        """The past of expression `number`, with a memory of so many seconds."""
        return self.slices.setdefault((number, memory), BaselineSlice(number, kind, memory))

    def allocate(self, is_active: Callable[[int], bool], size: Callable[[str], int]) -> None:
        """Make room for the active expressions, each as wide as its kind of entity."""
        grouped: dict[float, list[BaselineSlice]] = defaultdict(list)
        for past in self.slices.values():
            if is_active(past.number):
                grouped[past.memory].append(past)
        self._groups = [
            part for _, group in sorted(grouped.items()) for part in split_by_width(group, lambda past: size(past.kind))
        ]
        for group in self._groups:
            _allocate_baseline(group, [size(past.kind) for past in group])

    def learn(
        self,
        sampled: Sampler,
        frozen: Callable[[BaselineSlice], Mask | None],
        has_changed: Callable[[int], bool] = lambda _: True,
    ) -> list[BaselineSlice]:
        """Learn the tick's values of entities that are not frozen; a mask of None stands for none frozen.

        Only pasts that lie beside one whose expression has changed are looked at, and returned.
        """
        looked_at: list[BaselineSlice] = []
        for group in self._groups:
            if not any(has_changed(past.number) for past in group):
                continue
            looked_at += group
            values, times = sampled([past.number for past in group])
            masks = [frozen(past) for past in group]
            cold = None
            if any(mask is not None for mask in masks):
                sizes = [past.columns.stop - past.columns.start for past in group]
                cold = np.concatenate(
                    [np.zeros(n, bool) if mask is None else mask for mask, n in zip(masks, sizes, strict=True)]
                )
            group[0].baseline.learn(values, times, cold)
        return looked_at


def _allocate_baseline(group: Sequence[BaselineSlice], sizes: Sequence[int]) -> None:
    baseline = Baseline(group[0].memory)
    baseline.grow(sum(sizes))
    begin = 0
    for past, size in zip(group, sizes, strict=True):
        width = past.columns.stop - past.columns.start
        baseline.copy_from(slice(begin, begin + width), past.baseline, past.columns)
        past.baseline, past.columns = baseline, slice(begin, begin + size)
        begin += size
