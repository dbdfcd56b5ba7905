"""What sub-expressions read: signals, rates of counters, quantiles of histograms, folded to one value an entity."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewscope.engine.features.peer_statistics import sum_rows
from skewscope.engine.ingest.counter_windows import CounterHistory, CounterSnapshot
from skewscope.engine.ingest.layout import ColumnLayout, common_timestamp_of
from skewscope.engine.ingest.ring_buffer import slot_for_window
from skewscope.engine.ingest.series_rows import SeriesRows, match_selectors
from skewscope.engine.ingest.series_state import SeriesState
from skewscope.engine.ingest.timestamps import CommonTimestamp, constant_array, is_constant_array
from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.entity_subset import ArgumentFunction, EntitySubset
from skewscope.engine.model.sets import F64, Index, Mask
from skewscope.rules.entity_kinds import NETWORKS, kind_of
from skewscope.rules.expression import Expr

IncreaseFunction = Callable[[float, Index], tuple[F64, F64]]


@dataclass
class OperatorContext:
    """What steps have in common: the panel and the topology."""

    series_state: SeriesState
    entities: EntityIndex
    counters: dict[tuple[str, float], "CounterWindows"] = field(default_factory=dict)

    def counters_of(self, signal: str, window: float) -> "CounterWindows":
        """The ring of a signal's counters, from which a window of this length is read."""
        slot = slot_for_window(window, self.series_state.tick)
        found = self.counters.setdefault(
            (signal, slot), CounterWindows(signal, self.series_state, CounterHistory(self.series_state.tick, slot))
        )
        found.history.request(window)
        return found


# --- signals


@dataclass
class SeriesSelector:
    """The series of a signal that an expression means, as an index over the entities of the signal's kind."""

    expr: Expr
    context: OperatorContext
    part: str = ""
    _version: tuple[int, int] = (-1, -1)
    _series: Index = field(default_factory=lambda: np.empty((0, 0), np.intp))
    _columns_series: Index | None = None
    _columns: tuple[ColumnLayout, ...] = ()
    _index_series: Index | None = None
    _index: Index | slice | None = None
    selectors: list[str] = field(default_factory=list)

    def series(self) -> Index:
        """[selectors, entities] numbers of series, -1 where an entity has none."""
        rows = self.context.series_state.rows[self.expr.name]
        version = rows.version, self.context.entities.version
        if version != self._version:
            self._version = version
            self._series = self._select(self.context.series_state.rows_of(self.expr.name))
        return self._series

    def index(self) -> Index | slice | None:
        """Where the one series of each entity is, as a slice if they lie side by side; None where there are several."""
        series = self.series()
        if self._index_series is not series:
            self._index_series, self._index = series, None
            if len(series) == 1:
                first, size = (int(series[0, 0]) if series.size else 0), series.shape[1]
                straight = first >= 0 and bool((series[0] == np.arange(first, first + size)).all())
                self._index = slice(first, first + size) if straight else series[0]
        return self._index

    def timestamp(self) -> CommonTimestamp | None:
        """When the newest samples were taken, if all at one time."""
        series = self.series()
        if self._columns_series is not series:
            self._columns_series, self._columns = series, self.context.series_state.columns.columns_of(series)
        return common_timestamp_of(self._columns)

    def _select(self, rows: SeriesRows) -> Index:
        words = [word for word in self.expr.subscripts if word.replace("_", "-") not in NETWORKS]
        found = match_selectors(rows.selectors, words)
        self.selectors = [rows.selectors[n] for n in found]
        series = rows.series[found]
        networks = [word.replace("_", "-") for word in self.expr.subscripts if word not in words]
        ports = self.ports()
        if networks and ports is not None:
            inside = self.context.entities.in_networks(networks)
            series = np.where((ports >= 0) & inside[ports], series, -1)
        return series

    def ports(self) -> Index | None:
        """The port of each entity of the signal's kind; None where it lies in none."""
        entities, kind = self.context.entities, self.expr.kind
        if kind == "port":
            return np.arange(entities.count("port"))
        return entities.container_index(kind, "port") if kind == "peer" else None


class SignalReader:
    """The newest fresh value of a signal; an entity's several series folded into one."""

    def __init__(self, expr: Expr, shared: OperatorContext) -> None:
        self.selector = SeriesSelector(expr, shared)
        self.series_state = shared.series_state
        self.factor = expr.value
        self.fold = FOLDS[self.series_state.signals[expr.name].fold]

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        place = self.selector.index()
        return (
            self._read(self.selector.series())
            if place is None
            else _scale(self.series_state.fresh_values(place), self.factor)
        )

    def run_subset(self, some: EntitySubset, ask: ArgumentFunction) -> F64:  # noqa: ARG002
        return self._read(self.selector.series()[:, some.indices])

    def _read(self, series: Index) -> F64:
        if not len(series):
            return np.full(series.shape[1], np.nan)
        if len(series) == 1:
            return _scale(self.series_state.fresh_values(series[0]), self.factor)
        return _scale(self.fold(self.series_state.fresh_values(series), series >= 0), self.factor)

    def timestamp(self) -> CommonTimestamp | None:
        """When the newest samples were taken, if all at one time."""
        return self.selector.timestamp()

    def time(self) -> F64:
        """When the newest sample of each entity was taken, stale or not."""
        place = self.selector.index()
        if place is not None:
            return self.series_state.newest_times(place)
        found: F64 = np.fmax.reduce(self.series_state.newest_times(self.selector.series()), axis=0, initial=np.nan)
        return found


def _scale(values: F64, factor: float) -> F64:
    """The values in the unit of the rules, not to be written to."""
    return values if factor == 1.0 else values * factor


class LateSamples:
    """Samples of a signal that came after later ones; none where an entity's value is folded from several series."""

    def __init__(self, expr: Expr, shared: OperatorContext) -> None:
        self.selector = SeriesSelector(expr, shared)
        self.series_state = shared.series_state
        self.factor = expr.value

    def iter_samples(self) -> Iterator[tuple[Index, F64, F64]]:
        """(entities, times, values) of those of this tick."""
        series = self.selector.series() if self.series_state.late_samples else np.empty((0, 0), np.intp)
        if len(series) != 1:
            return
        there = np.flatnonzero(series[0] >= 0)
        of = np.full(int(series.max(initial=-1)) + 2, -1, np.intp)
        of[series[0][there]] = there
        for late in self.series_state.late_samples:
            entity = of[np.minimum(late.series, len(of) - 1)]
            yield entity[entity >= 0], late.time[entity >= 0], late.value[entity >= 0] * self.factor


class SignalPresence:
    """1 for entities that ever reported a signal, unknown for others."""

    def __init__(self, expr: Expr, shared: OperatorContext) -> None:
        self.selector = SeriesSelector(expr, shared)
        self.series_state = shared.series_state
        self._first_samples = -1
        self._series: Index | None = None
        self._presence: F64 = np.empty(0)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        series = self.selector.series()
        if self._first_samples != self.series_state.first_samples or self._series is not series:
            times = np.fmax.reduce(self.series_state.newest_times(series), axis=0, initial=np.nan)
            self._presence = np.where(np.isnan(times), np.nan, 1.0)
            self._first_samples, self._series = self.series_state.first_samples, series
        return self._presence


def _complete_sum(values: F64, expected: Mask) -> F64:
    """The sum; unknown where any series that there is says nothing."""
    if len(values) == 1:
        return np.where(expected[0], values[0], np.nan)
    silent = (np.isnan(values) & expected).any(axis=0) | ~expected.any(axis=0)
    return np.where(silent, np.nan, sum_rows(np.where(expected, values, 0.0)))


def _mean(values: F64, expected: Mask) -> F64:  # noqa: ARG001 - the same for all folds
    known = ~np.isnan(values)
    found: F64 = sum_rows(np.where(known, values, 0.0)) / known.sum(axis=0)
    return found


FOLDS: Mapping[str, Callable[[F64, Mask], F64]] = {
    "sum": _complete_sum,
    "mean": _mean,
    "max": lambda values, _: np.fmax.reduce(values, axis=0),
    "min": lambda values, _: np.fmin.reduce(values, axis=0),
}


# --- counters


@dataclass
class CounterWindows:
    """A signal's counters side by side, in a ring of what they counted."""

    signal: str
    series_state: SeriesState
    history: CounterHistory
    series: Index = field(default_factory=lambda: np.empty(0, np.intp))
    _version: int = -1
    _sorted: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """The same in order: a table over all numbers would be as long as those of all signals together."""
    _sorted_lanes: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """The lane of each of these."""
    _index: Index | slice = field(default_factory=lambda: np.empty(0, np.intp))
    """The same as `series`, as a slice where they lie side by side."""
    _whole_series: Index | None = None
    """The series that were last seen to be all lanes in their order."""
    _lanes_cache: dict[int, tuple[Index, Index]] = field(default_factory=dict)
    """The lanes of series, by the identity of these."""
    _columns: tuple[ColumnLayout, ...] = ()
    _snapshot: CounterSnapshot | None = None
    _timestamp: CommonTimestamp | None = None
    _increases: dict[float, tuple[F64, F64]] = field(default_factory=dict)

    def _lanes_of(self, series: Index) -> Index:
        """The lane of each series; -1 where there is none."""
        if not len(self._sorted):
            return np.full(series.shape, -1)
        place = np.minimum(np.searchsorted(self._sorted, series), len(self._sorted) - 1)
        return np.where(self._sorted[place] == series, self._sorted_lanes[place], -1)

    def _cached_lanes_of(self, series: Index) -> Index:
        """The same, of series that will be asked for again."""
        known = self._lanes_cache.get(id(series))
        if known is None or known[0] is not series:
            known = self._lanes_cache[id(series)] = series, self._lanes_of(series)
        return known[1]

    def _is_whole(self, series: Index) -> bool:
        if (
            self._whole_series is not series
            and series.size == len(self.series)
            and (series.ravel() == self.series).all()
        ):
            self._whole_series = series
        return self._whole_series is series

    def step(self, t: float) -> None:
        """Takes in the tick."""
        self._learn()
        self._increases.clear()
        self._snapshot = None
        self._timestamp = common_timestamp_of(self._columns)
        counted, times = self.series_state.counter_totals(self._index)
        time = self._timestamp.time if self._timestamp is not None and self._timestamp.is_complete else times
        self.history.step(t, counted, time, lambda: self.series_state.sampling.p90_period(self._index))

    def _learn(self) -> None:
        rows = self.series_state.rows[self.signal]
        if rows.version == self._version:
            return
        self._version = rows.version
        # Each series stands there once. Lanes keep their order: a new series gets a new lane at the end.
        found = np.sort(rows.series[rows.series >= 0])
        self.series = np.concatenate((self.series, np.setdiff1d(found, self.series, assume_unique=True)))
        first, size = int(self.series.min()), len(self.series)
        self._sorted_lanes = np.argsort(self.series, kind="stable")
        self._sorted = self.series[self._sorted_lanes]
        self._whole_series = None
        straight = bool((self.series == np.arange(first, first + size)).all())
        self._index = slice(first, first + size) if straight else self.series
        self._columns = self.series_state.columns.columns_of(self.series)
        self._lanes_cache.clear()
        self.history.expected_counters = self.series_state.entities.count(
            kind_of(self.series_state.signals[self.signal].entity)
        )

    def increase_over(self, window: float, series: Index) -> tuple[F64, F64]:
        """(increase, seconds) of each series over a window; NaN where too little is known."""
        if window not in self._increases:
            if self._snapshot is None:
                self._snapshot = self.series_state.counter_snapshot(self._index, self._timestamp)
            self._increases[window] = self.history.increase_over(window, self._snapshot)
        more, since = self._increases[window]
        if self._is_whole(series):
            return more.reshape(series.shape), since.reshape(series.shape)
        lane = self._cached_lanes_of(series)
        more = np.append(more, np.nan)[lane]
        # Where all were read in the same time, who has no lane still has no increase.
        return more, constant_array(since[0], *lane.shape) if is_constant_array(since) else np.append(since, np.nan)[
            lane
        ]

    def subset_increase_over(self, window: float, series: Index) -> tuple[F64, F64]:
        """The same as `over`, where only these series will be asked for."""
        if window in self._increases:
            return self.increase_over(window, series)
        lane = self._lanes_of(series)
        there = lane >= 0
        more, since = np.full((2, *series.shape), np.nan)
        if there.any():
            more[there], since[there] = self.history.increase_over(
                window, self.series_state.counter_snapshot(series[there]), lane[there]
            )
        return more, since


class Rate:
    """Increase of a counter per second; an entity's several counters folded into one."""

    def __init__(self, expr: Expr, shared: OperatorContext) -> None:
        (self.window,), signal = expr.params, expr.args[0]
        self.selector = SeriesSelector(signal, shared)
        self.counters = shared.counters_of(signal.name, self.window)
        self.fold = FOLDS[shared.series_state.signals[signal.name].fold]
        self.factor = signal.value

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        series = self.selector.series()
        return self._compute(series, self.counters.increase_over)

    def run_subset(self, some: EntitySubset, ask: ArgumentFunction) -> F64:  # noqa: ARG002
        return self._compute(self.selector.series()[:, some.indices], self.counters.subset_increase_over)

    def _compute(self, series: Index, over: IncreaseFunction) -> F64:
        if not len(series):
            return np.full(series.shape[1], np.nan)
        more, since = over(self.window, series)
        if len(series) == 1:
            return _scale(more[0] / since[0], self.factor)
        return self.fold(more / since, series >= 0) * self.factor


class HistogramStatistic:
    """What a histogram's counters say about the observations of a window."""

    def __init__(self, expr: Expr, shared: OperatorContext) -> None:
        signal = expr.args[0]
        self.quantile = expr.params[0] if expr.name == "bucket_quantile" else None
        self.window = expr.params[-1]
        self.selector = SeriesSelector(signal, shared)
        self.counters = shared.counters_of(signal.name, self.window)
        self.factor = signal.value
        self._known_selectors = -1
        self._rows: dict[str | float, list[int]] = {}
        self._bounds: list[float] = []

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self._compute(self.selector.series(), self.counters.increase_over)

    def run_subset(self, some: EntitySubset, ask: ArgumentFunction) -> F64:  # noqa: ARG002
        return self._compute(self.selector.series()[:, some.indices], self.counters.subset_increase_over)

    def _compute(self, series: Index, over: IncreaseFunction) -> F64:
        self._index_rows()
        more, _ = over(self.window, series)
        if self.quantile is None:
            counted = self._sum_parts(("sum", "count"), more, series)
            mean: F64 = counted[0] / _zero_to_nan(counted[1]) * self.factor
            return mean
        if not self._bounds:
            return np.full(series.shape[1], np.nan)
        below = self._sum_parts(self._bounds, more, series)
        return histogram_quantile(np.array(self._bounds), below, self.quantile) * self.factor

    def _index_rows(self) -> None:
        """Which rows are of which part, whenever there are new ones."""
        if len(self.selector.selectors) == self._known_selectors:
            return
        self._known_selectors = len(self.selector.selectors)
        self._rows = {"sum": [], "count": []}
        for n, selector in enumerate(self.selector.selectors):
            part = selector.rpartition(",")[2].strip()
            bound = parse_upper_bound(part)
            self._rows.setdefault(part if bound is None else bound, []).append(n)
        self._bounds = sorted(part for part in self._rows if isinstance(part, float))

    def _sum_parts(self, parts: Sequence[str | float], more: F64, series: Index) -> F64:
        """[parts, entities] how much some parts counted."""
        rows = [self._rows[part] for part in parts]
        if all(len(some) == 1 for some in rows):
            alone = [row for some in rows for row in some]
            return np.where(series[alone] >= 0, more[alone], np.nan)
        return np.stack([_complete_sum(more[some], series[some] >= 0) for some in rows])


def parse_upper_bound(part: str) -> float | None:
    """The upper bound in `bucket:0.5`; None for what is no bucket."""
    name, _, bound = part.partition(":")
    try:
        found = float(bound) if name == "bucket" else np.nan
    except ValueError:
        return None
    return None if np.isnan(found) else found


def histogram_quantile(bounds: F64, below: F64, q: float) -> F64:
    """A quantile from counts up to each bound, by straight line within its bucket.

    Bounds that an entity does not have are passed over; beyond the last finite bound the answer is that bound.
    """
    below = np.maximum.accumulate(np.where(np.isnan(below), -1.0, below), axis=0)
    whole = _zero_to_nan(below[-1])
    rank = q * whole
    at = np.argmax(below >= rank, axis=0)
    entities = np.arange(below.shape[1])
    lower = np.where(at > 0, bounds[np.maximum(at - 1, 0)], np.minimum(bounds[0], 0.0))
    before = np.where(at > 0, np.maximum(below[np.maximum(at - 1, 0), entities], 0.0), 0.0)
    upper = bounds[at]
    share = np.clip((rank - before) / np.maximum(below[at, entities] - before, 1e-300), 0.0, 1.0)
    inside = np.where(np.isfinite(upper), lower + (np.where(np.isfinite(upper), upper, 0.0) - lower) * share, lower)
    return np.where(np.isnan(whole), np.nan, inside)


def _zero_to_nan(count: F64) -> F64:
    """The count; NaN where nothing was counted."""
    return np.where(count > 0, count, np.nan)
