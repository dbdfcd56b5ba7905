"""The state of all series: newest values, times and counter totals. Samples come in as columns.

Arrays run over the numbers of the series table. Which series an entity's signal has is an index: a row for each
(signal, selector), over the entities of the signal's kind. Nothing here loops over samples or entities.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.ingest.counter_snapshot import CounterSnapshot
from skewscope.engine.ingest.counters import CounterRenewals, CounterSpec, CounterTotals
from skewscope.engine.ingest.deliveries import SignalDeliveries, find_signals_with_others
from skewscope.engine.ingest.feed import Block, FrameColumn, SampleFrame, SeriesKey, SeriesTable
from skewscope.engine.ingest.layout import ColumnIndex, ColumnLayout, FrameLayout, SeriesRows, grow_index
from skewscope.engine.ingest.samples import (
    MAX_SERIES_SCANNED,
    CommonTimestamp,
    EarlierSteps,
    SamplingPeriods,
    SortedSamples,
    build_sorted_batch,
    build_unique_batch,
    constant_array,
    widen_window,
)
from skewscope.engine.model.arrays import F64, I32, MAX_VALUE, Index, Mask, nan_to_zero, pad_to_length
from skewscope.engine.model.entities import EntityIndex
from skewscope.kb.model import Signal
from skewscope.rules.entity_kinds import contains, kind_of

WATERMARK = 5.0
"""Seconds by which a sample may come after a later one of its series and still be placed."""
GROWTH_DIVISOR = 16
"""Arrays grow by at least this fraction of their length, since growing copies them."""
CHUNK_SAMPLES = 1 << 15
"""So many samples are taken in at a time: what is worked with should stay in the cache."""


@dataclass(slots=True)
class SampleCounts:
    """What became of the samples."""

    taken: int = 0
    gaps: int = 0
    late: int = 0
    """Came after a later sample of their series, within the watermark."""
    dropped: int = 0
    """Came too late."""
    in_future: int = 0
    """Carried a time later than the tick's; counted as of now."""
    unplaced: int = 0
    """Series on an entity that the topology does not have, or beyond `layout.MAX_SELECTORS`."""


@dataclass(frozen=True, slots=True)
class _SignalTraits:
    """What all series of a signal have in common."""

    kind: str
    """Of entity."""
    counter_spec: CounterSpec


class SeriesState:
    """The state of all series as of the last tick."""

    def __init__(
        self,
        signals: Mapping[str, Signal],
        entities: EntityIndex,
        wanted: Collection[str],
        tick: float,
        also: Collection[str] = (),
    ) -> None:
        self.signals = signals
        self.entities = entities
        self.rule_signals = frozenset(wanted)
        self.extra_signals = frozenset(also)
        """Signals of which `latest` and `times` are kept, though no rule reads them."""
        self.tick = tick
        self.t = -np.inf
        self.counts = SampleCounts()
        self.rows: dict[str, SeriesRows] = {name: SeriesRows() for name in sorted(self.rule_signals)}
        self.kinds = {name: kind_of(signals[name].entity) for name in self.rows}
        """The kind of entity of each signal in `rows`."""
        self.sampling = SamplingPeriods(tick)
        self.latest: F64 = np.full(1, np.nan)
        """Newest value as delivered; NaN after a gap."""
        self.times: F64 = np.full(1, np.nan)
        """Of the newest sample that was no gap."""
        self.first_samples = 0
        """Grows when a series has its first sample."""
        self.late_samples: list[SortedSamples] = []
        """Samples of this tick that belong into the past."""
        self._known_count = 0
        """Number of series of the table that have a place here."""
        self._size = 0
        """Number of series with a place, those of frames included."""
        self._index_of = np.empty(0, np.intp)
        self._is_identity = True
        """Whether a series' place is its number."""
        self._layouts: dict[int, FrameLayout] = {}
        """By the schema's identity."""
        self.columns = ColumnIndex()
        """The columns of all frames."""
        self._used = np.empty(0, bool)
        self._read = np.empty(0, bool)
        """[series] whether rules use it, or a derivation reads it."""
        self._totals = CounterTotals()
        self.renewals = CounterRenewals()
        self._traits_by_signal: dict[str, _SignalTraits] = {}
        self._fresh_values: F64 = np.full(1, np.nan)
        self.signal_numbers: Mapping[str, int] = {name: n for n, name in enumerate(self.rows)}
        """The place of each signal in `changed_signals`."""
        self.changed_signals: Mask = np.zeros(len(self.rows) + 1, bool)
        """[signal] whether a sample of it came in this tick, or a value became stale; the last one is of no signal."""
        self._earlier = EarlierSteps(np.array([*(signals[name].is_printed_time for name in self.rows), False]))
        self._signal_of: NDArray[np.int16] = np.empty(0, np.int16)
        """[series] place of its signal in `changed_signals`; -1 for those that no rule reads."""
        self.deliveries = SignalDeliveries(len(self.rows))
        """Of the series that come in no frame."""
        self._stale: Mask | None = None
        """[series] whether the value is stale; None: none is."""

    # --- series

    def register_series(self, table: SeriesTable) -> None:
        """Places series that are new in the table: the only loop, and only over those."""
        size, known = len(table.keys), self._known_count
        if size == known:
            return
        first, new = self._size, size - known
        # Not twice as much: of a fleet that is there, little more comes.
        self._grow(first + max(new, known // GROWTH_DIVISOR))
        self._known_count, self._size = size, first + new
        self._is_identity &= first == known
        self._index_of = np.concatenate((self._index_of, np.arange(first, first + new)))
        placed: dict[str, list[tuple[int, int, int]]] = {}
        for number in range(known, size):
            self._register(int(self._index_of[number]), table.keys[number], placed)
        for signal, places in placed.items():
            row, entity, at = np.array(places, np.intp).T
            self.rows[signal].place(row, entity, at, self.entities.count(self.kinds[signal]))

    @property
    def earlier_steps(self) -> Sequence[tuple[Index, F64, F64]]:
        """(series, times, values) of this tick, ordered by series and time, that a later one of the tick replaced."""
        return self._earlier.samples

    @property
    def known_count(self) -> int:
        """Number of series of the table that have a place here."""
        return self._known_count

    def newest_by_number(self, size: int) -> tuple[F64, F64]:
        """Returns ([series] newest values, [series] their times in seconds) of the first `size` series of the table."""
        at: Index | slice = slice(0, size) if self._is_identity else self._index_of[:size]
        return self.latest[at], self.times[at]

    def places_of(self, numbers: Index) -> Index:
        """Returns where some series of the table are, by their numbers."""
        return numbers if self._is_identity else self._index_of[numbers]

    def stale_ages_by_number(self, series: Index) -> F64:
        """Returns [series] float64: age in seconds at which the value of a series of the table is stale."""
        found: F64 = self.sampling.stale_after(self.places_of(series))
        return found

    def _grow(self, size: int) -> None:
        if size < len(self._used):
            return
        # One more: what a series that there is not would hold.
        size += 1
        self.sampling.grow(size)
        self._totals.grow(size)
        self.latest, self.times = pad_to_length(self.latest, size), pad_to_length(self.times, size)
        more = np.zeros(size - len(self._used), bool)
        self._used, self._read = np.concatenate((self._used, more)), np.concatenate((self._read, more))
        self._signal_of = np.concatenate((self._signal_of, np.full(len(more), -1, np.int16)))

    def _register(self, number: int, key: SeriesKey, placed: dict[str, list[tuple[int, int, int]]]) -> None:
        """Finds the place of one series, and adds its (row, entity, number) to those that are placed of its signal."""
        self._read[number] = key.signal in self.extra_signals
        if key.signal not in self.rule_signals:
            return
        sort = self._traits_by_signal.get(key.signal) or self._traits_of(key.signal)
        entity, selector = self._resolve_entity(key, sort.kind)
        rows = self.rows[key.signal]
        if entity < 0 or not rows.has_room(selector):
            self.counts.unplaced += 1
            return
        self._used[number] = self._read[number] = True
        self._set_signal(number, key.signal)
        self._totals.place(number, sort.counter_spec)
        placed.setdefault(key.signal, []).append((rows.row_of(selector), entity, number))

    def _set_signal(self, at: int | slice, name: str) -> None:
        """Stores which signal some series are of."""
        self._signal_of[at] = self.signal_numbers[name]
        self.deliveries.place(self.signal_numbers[name], 1 if isinstance(at, int) else at.stop - at.start)
        self.changed_signals[self.signal_numbers[name]] = True

    def _traits_of(self, name: str) -> _SignalTraits:
        """What all series of a signal have in common."""
        signal = self.signals[name]
        found = self._traits_by_signal[name] = _SignalTraits(self.kinds[name], self._totals.spec_of(signal))
        return found

    def _resolve_entity(self, key: SeriesKey, kind: str) -> tuple[int, str]:
        """The entity of the signal's own kind that a series is about, and the selector that distinguishes it there."""
        if key.kind == kind:
            return self.entities.get_or_add(kind, key.entity), key.selector
        number = self.entities.numbers.get(key.kind, {}).get(key.entity, -1)
        if number < 0:
            return -1, ""
        if contains(kind, key.kind):
            return int(self.entities.container_index(key.kind, kind)[number]), _join_selectors(key.entity, key.selector)
        return self.entities.sole_relative(key.kind, number, kind), key.selector

    # --- samples

    def begin_tick(self, t: float) -> None:
        """Starts the tick that ends at `t`; time never runs backwards."""
        self.t = max(self.t, t)
        self.late_samples = []
        self._earlier.samples.clear()
        self.changed_signals[:] = False

    def ingest(self, block: Block, table: SeriesTable) -> None:
        """Take in the samples of this tick."""
        self.register_series(table)
        for found in self._split_batches(block):
            sound = np.abs(found.value) <= MAX_VALUE
            self._note_delivery(found, sound)
            good = found.select(sound)
            if len(good.series):
                self._apply(self._split_late(good))
            if not sound.all():
                self._apply_gaps(found.select(~sound))

    def _note_delivery(self, found: SortedSamples, sound: Mask) -> None:
        signal_of = self._signal_of[found.series]

        def has_others() -> Mask:
            return find_signals_with_others(
                self._signal_of, self.latest, self._stale, found.series, len(self.signal_numbers)
            )

        are_newest = not (found.time <= self.times[found.series]).any()
        self.changed_signals[self.deliveries.note(found, signal_of, sound, has_others, are_newest=are_newest)] = True

    def _split_batches(self, block: Block) -> Iterator[SortedSamples]:
        """Yields batches of series with one sample each, then sorted batches of the others."""
        series, time, value = block.series, block.time, block.value
        if not len(series):
            return
        if series.min() < 0 or series.max() >= self._known_count or not np.isfinite(time).all():
            sound = np.isfinite(time) & (series >= 0) & (series < self._known_count)
            series, time, value = series[sound], time[sound], value[sound]
        if (series[1:] > series[:-1]).all() or not (several := np.bincount(series)[series] > 1).any():
            yield from self._unique_batches(series, time, value)
            return
        if not several.all():
            one = ~several
            yield from self._unique_batches(series[one], time[one], value[one])
            series, time, value = series[several], time[several], value[several]
        yield from self._sorted_batches(series, time, value)

    def _unique_batches(self, series: I32, time: F64, value: F64) -> Iterator[SortedSamples]:
        """Yields samples of distinct series, in chunks that fit into the cache."""
        for begin in range(0, len(series), CHUNK_SAMPLES):
            some = slice(begin, begin + CHUNK_SAMPLES)
            yield build_unique_batch(*self._select_read(series[some], time[some], value[some]))

    def _sorted_batches(self, series: I32, time: F64, value: F64) -> Iterator[SortedSamples]:
        """Samples put in order, as many at a time; all of a series are together."""
        by_series = np.argsort(series, kind="stable")
        numbers = series[by_series]
        end = 0
        while end < len(numbers):
            begin, last = end, min(end + CHUNK_SAMPLES, len(numbers)) - 1
            end = int(np.searchsorted(numbers, numbers[last], side="right"))
            some = by_series[begin:end]
            at, when, what = self._select_read(series[some], time[some], value[some])
            order = np.lexsort((what, when, at))
            at, when, what = at[order], when[order], what[order]
            # Of two samples of one series at one time, one is enough.
            same = np.append((at[1:] == at[:-1]) & (when[1:] == when[:-1]), False)[: len(at)]
            yield build_sorted_batch(at[~same], when[~same], what[~same])

    def _select_read(self, series: I32, time: F64, value: F64) -> tuple[Index, F64, F64]:
        """Returns (places, times, values) of the samples that are read: rules read few of all signals."""
        at: Index = series.astype(np.intp) if self._is_identity else self._index_of[series]
        read = self._read[at]
        if not read.all():
            self.counts.taken += len(read) - int(np.count_nonzero(read))
            at, time, value = at[read], time[read], value[read]
        if len(time) and time.max() > self.t:
            self.counts.in_future += int((time > self.t + self.tick).sum())
            time = np.minimum(time, self.t)
        return at, time, value

    def _split_late(self, found: SortedSamples) -> SortedSamples:
        newest = self.times[found.series]
        behind = found.time <= newest
        if not behind.any():
            return found
        age = newest - found.time
        late = behind & (age > 0) & (age <= WATERMARK)
        self.counts.late += int(late.sum())
        self.counts.dropped += int((behind & (age > WATERMARK)).sum())
        self.late_samples.append(found.select(late))
        return found.select(~behind)

    def _apply(self, found: SortedSamples) -> None:
        if not len(found.series):
            return
        self.counts.taken += len(found.series)
        used = self._used[found.series]
        counted = found.select(used & self._totals.cumulative[found.series])
        if len(counted.series):
            self.renewals.learn(counted, self._totals.last_values(counted.series), self.sampling.period)
            self._totals.apply(counted)
        self._learn_intervals(found if used.all() else found.select(used))
        if not found.is_unique:
            self._earlier.keep(found, self._signal_of[found.series])
            found = found.select(found.last)
        self.latest[found.series], self.times[found.series] = found.value, found.time

    def _learn_intervals(self, found: SortedSamples) -> None:
        if found.is_unique:
            before = self.times[found.series]
            self.first_samples += bool(np.isnan(before).any())
            self.sampling.learn(found.series, found.time - before)
            return
        at = found.series[found.first]
        samples = np.flatnonzero(found.last) - np.flatnonzero(found.first) + 1
        before = self.times[at]
        anew = np.isnan(before)
        self.first_samples += bool(anew.any())
        since = np.where(anew, found.time[found.first], before)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.sampling.learn(at, (found.time[found.last] - since) / (samples - anew))

    def _apply_gaps(self, found: SortedSamples) -> None:
        self.counts.gaps += len(found.series)
        newer = found.time > np.nan_to_num(self.times[found.series], nan=-np.inf)
        self.latest[found.series[newer]] = np.nan

    # --- frames

    def ingest_frame(self, frame: SampleFrame) -> None:
        """Take in the columns of a frame that rules read; a frame older than the last one is dropped."""
        laid = self._layout_of(frame.schema)
        time = min(frame.time, self.t)
        if time <= laid.time:
            self.counts.dropped += sum(part.series.stop - part.series.start for part in laid.columns)
            return
        if not np.isnan(laid.time):
            self._learn_frame_interval(laid, time - laid.time)
        for part in laid.columns:
            self.changed_signals[self._signal_of[part.series.start : part.series.start + 1]] = True
            self.deliveries.forget(self._signal_of[part.series.start : part.series.start + 1])
            self._apply_column(part, np.asarray(frame.values[part.number], np.float64), time)
        laid.time = time

    def _layout_of(self, schema: tuple[FrameColumn, ...]) -> FrameLayout:
        """Where the columns of a schema are; they get their places when it is first seen."""
        found = self._layouts.get(id(schema))
        if found is None:
            wanted = [(n, column) for n, column in enumerate(schema) if column.signal in self.rule_signals]
            sizes = [self._column_size(column) for _, column in wanted]
            self._grow(self._size + sum(sizes))
            found = self._layouts[id(schema)] = FrameLayout(schema, SamplingPeriods(self.tick))
            found.sampling.grow(1)
            for (n, column), size in zip(wanted, sizes, strict=True):
                found.columns.append(self._allocate_column(n, column, size))
                self.columns.add(found.columns[-1])
        return found

    def _column_size(self, column: FrameColumn) -> int:
        if column.entities is not None:
            return len(column.entities)
        return self.entities.known_count(self.kinds[column.signal])

    def _allocate_column(self, number: int, column: FrameColumn, size: int) -> ColumnLayout:
        sort = self._traits_by_signal.get(column.signal) or self._traits_of(column.signal)
        at = slice(self._size, self._size + size)
        self._size = at.stop
        self._is_identity &= self._known_count == self._size
        self._used[at] = self._read[at] = True
        self._set_signal(at, column.signal)
        self._totals.place(at, sort.counter_spec)
        who = np.arange(size) if column.entities is None else column.entities
        rows = self.rows[column.signal]
        rows.place(rows.row_of(column.selector), who, np.arange(at.start, at.stop), self.entities.count(sort.kind))
        return ColumnLayout(number, at, sort.counter_spec.is_cumulative, self._totals.lowest_end(at))

    def _learn_frame_interval(self, laid: FrameLayout, interval: float) -> None:
        """The period of a frame is that of all its series."""
        laid.sampling.version = 0
        laid.sampling.learn(slice(0, 1), np.array([interval]))
        if laid.sampling.version:
            for part in laid.columns:
                self.sampling.broadcast_from(part.series, laid.sampling)

    def _apply_column(self, part: ColumnLayout, value: F64, time: float) -> None:
        at, part.time = part.series, time
        self.counts.taken += len(value)
        grew = part.is_cumulative and self._totals.apply_all(at, value, part.lowest_end)
        # The smallest and the largest value show at once that all are valid: NaN is neither.
        part.is_complete = grew or bool(value.min(initial=0.0) >= -MAX_VALUE and value.max(initial=0.0) <= MAX_VALUE)
        # Once every series has had a sample, none has its first one any more.
        if not part.has_started:
            self.first_samples += 1
            part.has_started = part.is_complete
        if part.is_complete:
            if part.is_cumulative and not grew:
                self._totals.apply(build_unique_batch(np.arange(at.start, at.stop), np.full(len(value), time), value))
            self.latest[at], self.times[at] = value, time
            return
        sound = np.flatnonzero(np.abs(value) <= MAX_VALUE)
        found = build_unique_batch(at.start + sound, np.full(len(sound), time), value[sound])
        if part.is_cumulative and len(sound):
            self._totals.apply(found)
        self.counts.gaps += len(value) - len(sound)
        self.latest[at] = np.nan
        self.latest[found.series], self.times[found.series] = found.value, time

    # --- what rules read

    def refresh(self) -> None:
        """Prepare the tick's values: those older than their series' horizon are unknown."""
        self._fresh_values = self.latest
        before, self._stale = self._stale, None
        # Usually none is: the oldest time and the shortest horizon show that without a pass over all.
        if self.t - np.fmin.reduce(self.times) > self.sampling.shortest_stale_after():
            self._stale = self.sampling.are_stale(self.t - self.times)
            self._fresh_values = np.where(self._stale, np.nan, self.latest)
        self._mark_stale_changes(before)

    def _mark_stale_changes(self, before: Mask | None) -> None:
        """Marks the signals of series that became stale or fresh in this tick."""
        if before is None and self._stale is None:
            return
        size = len(self._signal_of)
        now, before = (np.zeros(size, bool) if one is None else one[:size] for one in (self._stale, before))
        changed = now.copy()
        changed[: len(before)] ^= before
        self.changed_signals[self._signal_of[changed]] = True

    def next_stale_time(self) -> float:
        """Returns the time in seconds at which the next fresh value becomes stale, if no sample comes; inf for none."""
        ends = self.times[: len(self.sampling.period)] + self.sampling.stale_after()
        if self._stale is not None:
            ends = ends[~self._stale]
        return float(np.fmin.reduce(ends, initial=np.inf))

    def sampled_since(self) -> float:
        """Returns the time in seconds since when nine of ten fresh series have been sampled; -inf without any."""
        step = max(1, len(self._signal_of) // MAX_SERIES_SCANNED)
        times = self.times[: len(self._signal_of) : step]
        stale = False if self._stale is None else self._stale[: len(self._signal_of) : step]
        known = np.sort(times[~(np.isnan(times) | stale)])
        return float(known[len(known) // 10]) if len(known) else -np.inf

    def fresh_values(self, series: Index | slice) -> F64:
        """Fresh values of series by number; NaN for stale ones and for -1."""
        found: F64 = self._fresh_values[series]
        return found

    def newest_times(self, series: Index | slice) -> F64:
        """Times of the newest samples, stale or not; NaN where none came."""
        found: F64 = self.times[series]
        return found

    def counter_totals(self, series: Index | slice) -> tuple[F64, F64]:
        """How much counters counted, and up to when, by series number."""
        return self._totals.sum[series], self.renewals.read_times(series, self.times[series])

    def counter_starts(self, series: Index | slice) -> F64:
        """Returns [series] when counters last began anew, by series number; NaN where one never did."""
        found: F64 = self._totals.start_time[series]
        return found

    def standing_times(self, series: Index) -> F64:
        """Returns the seconds between the last change of counters and their newest readings; NaN for stale ones."""
        fresh = ~np.isnan(self._fresh_values[series])
        stood = self.renewals.read_times(series, self.times[series]) - self.renewals.change_times(series)
        return np.where(fresh, stood, np.nan)

    def counter_periods(self, series: Index | slice) -> F64:
        """Returns [series] seconds between two readings of counters that may differ; NaN where not known."""
        return self.renewals.stretched_periods(series, self.sampling.period[series])

    def counter_snapshot(self, series: Index | slice, moment: CommonTimestamp | None = None) -> CounterSnapshot:
        """The totals of counters by series number; `moment` is the one time at which all were read, if there is one."""
        totals = self._totals
        if isinstance(series, slice) and moment is not None and self._all_trusted(series, moment):
            size = series.stop - series.start
            return CounterSnapshot(
                totals.sum[series],
                constant_array(moment.time, size),
                totals.start_time[series],
                partial(totals.start_sums_of, series),
                self.sampling.period[series],
                np.ones(size, bool),
                self.sampling.longest_period(series),
                totals.latest_start(series),
            )
        fresh = self.sampling.are_fresh(self.t - self.times[series], series) & ~totals.saturated[series]
        period = self.counter_periods(series)
        return CounterSnapshot(
            totals.sum[series],
            self.renewals.read_times(series, self.times[series]),
            totals.start_time[series],
            partial(totals.start_sums_of, series),
            period,
            fresh & ~np.isnan(self.latest[series]),
            float(np.fmax.reduce(period, axis=None, initial=0.0)),
        )

    def is_ripening(self, series: Index, t: float, window: float) -> Mask:
        """Returns [series] whether counters are read and began less than half a window before the tick at `t`."""
        period, start = self.counter_periods(series), self._totals.start_time[series]
        is_read = self.sampling.are_fresh(t - self.times[series], series)
        needed = widen_window(window, nan_to_zero(period)) / 2
        return is_read & (np.isnan(period) | (self.times[series] - start + period < needed))

    def _all_trusted(self, series: slice, moment: CommonTimestamp) -> bool:
        """Whether counters that were read at one time can all be believed."""
        young = self.t - moment.time <= self.sampling.shortest_stale_after()
        return young and moment.is_complete and not self._totals.saturated[series].any()

    def rows_of(self, name: str) -> SeriesRows:
        """The rows of a signal, as wide as its kind is now."""
        rows = self.rows[name]
        shape = len(rows.selectors), self.entities.count(self.kinds[name])
        if rows.series.shape != shape:
            rows.series = grow_index(rows.series, shape)
        return rows


def _join_selectors(*parts: str) -> str:
    return ",".join(part for part in parts if part)
