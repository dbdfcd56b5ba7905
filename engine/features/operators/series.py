"""Operators that read series: signals, rates of counters, statistics of histograms, one value for each entity."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewscope.engine.features.column_statistics import sum_rows
from skewscope.engine.features.counter_store import IncreaseFunction
from skewscope.engine.features.operators.protocol import Operator, OperatorContext, Reads, Values, register
from skewscope.engine.features.window_store import LateSampleReader
from skewscope.engine.features.windows import SampleWindow
from skewscope.engine.ingest.layout import ColumnLayout, SeriesRows, match_selectors
from skewscope.engine.ingest.samples import (
    CommonTimestamp,
    common_timestamp_of,
    merge_complete_timestamps,
    widen_window,
)
from skewscope.engine.ingest.slots import ColumnIndexer
from skewscope.engine.model.arrays import F64, Index, Mask, nan_to_zero
from skewscope.engine.model.entities import ArgumentFunction, EntitySubset
from skewscope.rules.entity_kinds import NETWORKS
from skewscope.rules.expression import Expr

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
        if self._columns or not series.size:
            return common_timestamp_of(self._columns)
        state = self.context.series_state
        return state.deliveries.timestamp(state.signal_numbers[self.expr.name])

    def _select(self, rows: SeriesRows) -> Index:
        words = [word for word in self.expr.subscripts if word.replace("_", "-") not in NETWORKS]
        found = match_selectors(rows.selectors, words)
        self.selectors = [rows.selectors[n] for n in found]
        networks = [word.replace("_", "-") for word in self.expr.subscripts if word not in words]
        ports = self.ports() if networks else None

        def choose(series: Index) -> Index:
            """Returns the rows of some selectors, and in these the series of ports in some networks."""
            if ports is None:
                return series[found]
            inside = self.context.entities.in_networks(networks)
            return np.where((ports >= 0) & inside[ports], series[found], -1)

        return rows.select((tuple(found), tuple(networks)), self.context.entities.version, choose)

    def ports(self) -> Index | None:
        """The port of each entity of the signal's kind; None where it lies in none."""
        entities, kind = self.context.entities, self.expr.kind
        if kind == "port":
            return np.arange(entities.count("port"))
        return entities.container_index(kind, "port") if kind == "peer" else None


def selector_of(expr: Expr, context: OperatorContext) -> SeriesSelector:
    """Returns the selector of a signal: operators that read the same series share it."""
    found: SeriesSelector = context.selectors.setdefault(expr, SeriesSelector(expr, context))
    return found


@register("signal")
class SignalReader(Operator):
    """The newest fresh value of a signal; an entity's several series folded into one."""

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        self.selector = selector_of(expr, context)
        self.series_state = context.series_state
        self.factor = expr.value
        self.fold = FOLDS[self.series_state.signals[expr.name].fold]

    def is_available(self, args: Sequence[bool]) -> bool:  # noqa: ARG002 - the same for all operators
        return bool(self.series_state.rows[self.selector.expr.name].selectors)

    def evaluate(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        index = self.selector.index()
        if index is None:
            return self._read(self.selector.series())
        return _scale(self.series_state.fresh_values(index), self.factor)

    def evaluate_subset(self, subset: EntitySubset, argument: ArgumentFunction) -> F64:  # noqa: ARG002
        return self._read(self.selector.series()[:, subset.indices])

    def _read(self, series: Index) -> F64:
        """Returns [entity] the folded values of [selector, entity] series."""
        if not len(series):
            return np.full(series.shape[1], np.nan)
        if len(series) == 1:
            return _scale(self.series_state.fresh_values(series[0]), self.factor)
        return _scale(self.fold(self.series_state.fresh_values(series), series >= 0), self.factor)

    def sample_times(self, times: Sequence[Any], argument: Callable[[int], Values]) -> F64:  # noqa: ARG002
        index = self.selector.index()
        if index is not None:
            return self.series_state.newest_times(index)
        found: F64 = np.fmax.reduce(self.series_state.newest_times(self.selector.series()), axis=0, initial=np.nan)
        return found

    def common_timestamp(self, parts: Sequence[CommonTimestamp | None]) -> CommonTimestamp | None:  # noqa: ARG002
        return self.selector.timestamp()


def _scale(values: F64, factor: float) -> F64:
    """Returns the values in the unit of the rules, read-only."""
    return values if factor == 1.0 else values * factor


def late_sample_reader(expr: Expr, context: OperatorContext) -> LateSampleReader | None:
    """Returns a reader of a signal's late samples; None for an expression that is not a bare signal."""
    if expr.op != "signal":
        return None
    selector, series_state = selector_of(expr, context), context.series_state

    def iter_samples() -> Iterator[tuple[Index, F64, F64]]:
        """Yields (entities, times, values) of this tick; none where several series are folded into one value."""
        series = selector.series() if series_state.late_samples else np.empty((0, 0), np.intp)
        if len(series) != 1:
            return
        delivered = np.flatnonzero(series[0] >= 0)
        entity_of = np.full(int(series.max(initial=-1)) + 2, -1, np.intp)
        entity_of[series[0][delivered]] = delivered
        for late in series_state.late_samples:
            entity = entity_of[np.minimum(late.series, len(entity_of) - 1)]
            mask = entity >= 0
            yield entity[mask], late.time[mask], late.value[mask] * expr.value

    return iter_samples


def is_window_ripening(window: SampleWindow, t: float, spans: Iterable[float], at: ColumnIndexer) -> Mask:
    """Returns [column] whether samples arrive and began less than `spans`, in seconds, before the tick at `t`.

    Each span is widened to a few sampling periods. A period is not known before the second sample.
    """
    period, first = window.sampling.period[: window.size][at], window.first[at]
    arrives = window.sampling.are_fresh(t - window.time[at], at)
    needed = np.zeros(len(period))
    for span in spans:
        needed += widen_window(span, nan_to_zero(period))
    found: Mask = arrives & (np.isnan(period) | (t - first + period < needed))
    return found


@register("seen")
class SignalPresence(Operator):
    """1 for entities that ever reported a signal, unknown for others."""

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        self.selector = selector_of(expr, context)
        self.series_state = context.series_state
        self._first_samples = -1
        self._series: Index | None = None
        self._presence: F64 = np.empty(0)

    def evaluate(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        series = self.selector.series()
        if self._first_samples != self.series_state.first_samples or self._series is not series:
            times = np.fmax.reduce(self.series_state.newest_times(series), axis=0, initial=np.nan)
            self._presence = np.where(np.isnan(times), np.nan, 1.0)
            self._first_samples, self._series = self.series_state.first_samples, series
        return self._presence


@register("reading")
class CounterReading(SignalReader):
    """The newest fresh reading of a counter; an entity's several counters folded into one."""

    reads = Reads.NOTHING

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        super().__init__(expr.args[0], context)


@register("standing")
class StandingTime(SignalReader):
    """Seconds between the last change of a counter and its newest fresh reading; of several the shortest."""

    reads = Reads.NOTHING

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        super().__init__(expr.args[0], context)

    def evaluate(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self._read(self.selector.series())

    def _read(self, series: Index) -> F64:
        """Returns [entity] the seconds of [selector, entity] counters."""
        found: F64 = np.fmin.reduce(self.series_state.standing_times(series), axis=0, initial=np.nan)
        return found


# --- folds


def _complete_sum(values: F64, expected: Mask) -> F64:
    """Returns [entity] the sum; NaN where any delivered series has no value."""
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


class CounterStatistic(Operator):
    """A statistic of the increases of counters over a window; unknown where too few samples came."""

    forms = frozenset({"window"})
    cost = 4
    reads = Reads.NOTHING

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        (signal,), self.window = expr.args, expr.params[-1]
        self.selector = selector_of(signal, context)
        self.store = self.counters = context.counters.windows_of(signal.name, self.window)
        self.factor, self.series_state = signal.value, context.series_state
        self.key = type(self), expr.params[:-1], signal

    def evaluate(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self.counters.statistic(self.key, self.window, self.selector.series(), self.compute)

    def evaluate_subset(self, subset: EntitySubset, argument: ArgumentFunction) -> F64:  # noqa: ARG002
        return self.compute(self.selector.series()[:, subset.indices], self.counters.subset_increase_over)

    def ripening(self, t: float, unknown: Mask, args: Sequence[tuple[Values, Mask]]) -> Mask:  # noqa: ARG002
        series = self.selector.series()
        short = self.series_state.is_ripening(series, t, self.window)
        return unknown & (short & (series >= 0)).any(axis=0)

    def compute(self, series: Index, increase_over: IncreaseFunction) -> F64:
        """Returns [entity] the statistic of [selector, entity] series."""
        raise NotImplementedError(type(self).__name__)

    def common_timestamp(self, parts: Sequence[CommonTimestamp | None]) -> CommonTimestamp | None:
        return merge_complete_timestamps(parts)


@register("rate")
class Rate(CounterStatistic):
    """The increase of a counter per second; an entity's several counters folded into one."""

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        super().__init__(expr, context)
        self.fold = FOLDS[context.series_state.signals[expr.args[0].name].fold]

    def compute(self, series: Index, increase_over: IncreaseFunction) -> F64:
        if not len(series):
            return np.full(series.shape[1], np.nan)
        increase, seconds = increase_over(self.window, series)
        if len(series) == 1:
            return _scale(increase[0] / seconds[0], self.factor)
        return self.fold(increase / seconds, series >= 0) * self.factor


class HistogramStatistic(CounterStatistic):
    """A statistic of the observations that a histogram counted over a window."""

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        super().__init__(expr, context)
        self._known_selectors = -1
        self._rows: dict[str | float, list[int]] = {}
        self._bounds: list[float] = []

    def index_rows(self) -> None:
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

    def sum_parts(self, parts: Sequence[str | float], more: F64, series: Index) -> F64:
        """[parts, entities] how much some parts counted."""
        rows = [self._rows[part] for part in parts]
        if all(len(some) == 1 for some in rows):
            alone = [row for some in rows for row in some]
            return np.where(series[alone] >= 0, more[alone], np.nan)
        return np.stack([_complete_sum(more[some], series[some] >= 0) for some in rows])


@register("bucket_mean")
class HistogramMean(HistogramStatistic):
    """The mean of the observations."""

    def compute(self, series: Index, increase_over: IncreaseFunction) -> F64:
        self.index_rows()
        increase, _ = increase_over(self.window, series)
        total, count = self.sum_parts(("sum", "count"), increase, series)
        mean: F64 = total / _zero_to_nan(count) * self.factor
        return mean


@register("bucket_quantile")
class HistogramQuantile(HistogramStatistic):
    """A quantile of the observations."""

    cost = 12

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        super().__init__(expr, context)
        self.quantile = expr.params[0]

    def compute(self, series: Index, increase_over: IncreaseFunction) -> F64:
        self.index_rows()
        increase, _ = increase_over(self.window, series)
        if not self._bounds:
            return np.full(series.shape[1], np.nan)
        below = self.sum_parts(self._bounds, increase, series)
        return histogram_quantile(np.array(self._bounds), below, self.quantile) * self.factor


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
