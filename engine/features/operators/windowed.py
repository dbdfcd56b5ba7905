"""Steps that look back: statistics of recent samples, and a value beside its entity's own healthy past."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from skewscope.engine.features.baseline import Baseline
from skewscope.engine.features.operators.series import LateSamples, OperatorContext
from skewscope.engine.features.peer_statistics import inf_to_nan
from skewscope.engine.features.window_store import BaselineStore, WindowStore
from skewscope.engine.features.windows import SampleWindow
from skewscope.engine.ingest.ring_buffer import ColumnIndexer, SlotOffset
from skewscope.engine.ingest.sampling import pad_to_length
from skewscope.engine.model.entity_subset import ArgumentFunction, EntitySubset
from skewscope.engine.model.sets import F64, Mask
from skewscope.rules.expression import Expr
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.units import SECOND

Params = tuple[float, ...]


class WindowStatistic:
    """A statistic of the recent samples of a value."""

    def __init__(self, expr: Expr, shared: OperatorContext, banks: WindowStore) -> None:
        lengths = [p for p, name in zip(expr.params, _duration_params(expr.name), strict=True) if name]
        bare = expr.args[0].op == "signal"
        late = LateSamples(expr.args[0], shared) if bare else None
        self.buffer = banks.buffer(expr.args[0], sum(lengths), expr.name, late)
        self.function = WINDOW_FUNCTIONS[expr.name]
        self.params = expr.params

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self.function(self.buffer.window, self.params, self.buffer.columns)

    def run_subset(self, some: EntitySubset, ask: ArgumentFunction) -> F64:  # noqa: ARG002
        return self.function(self.buffer.window, self.params, self.buffer.columns.start + some.indices)


def _duration_params(function: str) -> list[bool]:
    """Which of a function's constant arguments are lengths of time."""
    return [unit == SECOND for unit in FUNCTIONS[function].param_units]


def _mask_unless(enough: Mask, found: F64) -> F64:
    """What was found of those of whom enough is known."""
    return found if enough.all() else np.where(enough, found, np.nan)


def _window_statistic(
    least: int, function: Callable[[SampleWindow, SlotOffset, ColumnIndexer], F64]
) -> Callable[[SampleWindow, Params, ColumnIndexer], F64]:
    def windowed(track: SampleWindow, params: Params, at: ColumnIndexer) -> F64:
        steps, _, enough = track.fresh_window(params[-1], least, at)
        return _mask_unless(enough, function(track, steps, at))

    return windowed


def _mean(track: SampleWindow, params: Params, at: ColumnIndexer) -> F64:
    steps, count, enough = track.fresh_window(params[-1], 2, at)
    return _mask_unless(enough, track.mean(steps, at=at, count=count))


def _quantile(track: SampleWindow, params: Params, at: ColumnIndexer) -> F64:
    steps, _, enough = track.fresh_window(params[-1], 3, at)
    return _mask_unless(enough, track.quantile(steps, params[0], at))


def _burst(track: SampleWindow, steps: SlotOffset, at: ColumnIndexer) -> F64:
    mean = track.mean(steps, at=at)
    highest: F64 = np.fmax.reduce(track.ring.window_slots("high", steps, at), axis=0)
    return inf_to_nan(highest / mean)


def _change(track: SampleWindow, params: Params, at: ColumnIndexer) -> F64:
    recent, past = params
    steps, _, enough = track.fresh_window(recent, 2, at)
    before = track.slot_counts(past, at)
    count = track.ring.window_sum("count", before, steps, at)
    mean = track.mean(before, steps, at)
    good = enough & track.has_history(recent + past / 2, at) & (count >= 2) & (mean != 0)
    return np.where(good, inf_to_nan((track.mean(steps, at=at) - mean) / np.abs(mean)), np.nan)


WINDOW_FUNCTIONS: Mapping[str, Callable[[SampleWindow, Params, ColumnIndexer], F64]] = {
    "mean": _mean,
    "minimum": _window_statistic(
        2, lambda track, steps, at: np.fmin.reduce(track.ring.window_slots("low", steps, at), axis=0)
    ),
    "maximum": _window_statistic(
        2, lambda track, steps, at: np.fmax.reduce(track.ring.window_slots("high", steps, at), axis=0)
    ),
    "slope": _window_statistic(3, lambda track, steps, at: track.slope(steps, at)),
    "jitter": _window_statistic(3, lambda track, steps, at: np.sqrt(track.variance(steps, at))),
    "burst": _window_statistic(3, _burst),
    "quantile": _quantile,
    "change": _change,
}


class ExponentialMean:
    """An exponentially weighted mean."""

    def __init__(self, expr: Expr) -> None:
        self.memory = expr.params[0]
        self.mean: F64 = np.empty(0)
        self.time: F64 = np.empty(0)
        self._current: F64 = np.empty(0)

    def update(self, value: F64, time: F64) -> None:
        """Takes in the tick's values."""
        self.mean, self.time = pad_to_length(self.mean, len(value)), pad_to_length(self.time, len(value))
        new = ~np.isnan(value) & ~(time <= self.time)
        weight = 1 - np.exp(-np.maximum(time - self.time, 0.0) / self.memory)
        moved = self.mean + weight * (value - self.mean)
        self.mean = np.where(new, np.where(np.isnan(self.mean), value, moved), self.mean)
        self.time = np.where(new, time, self.time)
        self._current = np.where(np.isnan(value), np.nan, self.mean)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self._current


class BaselineComparison:
    """A value against its entity's own healthy past, which is learned at the end of the tick."""

    def __init__(self, expr: Expr, pasts: BaselineStore) -> None:
        self.baseline_slice = pasts.slice_of(expr.args[0], expr.params[0])
        self.compare = Baseline.z_score if expr.name == "baseline_z" else Baseline.drift

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self.compare(self.baseline_slice.baseline, args[0], self.baseline_slice.columns)

    def run_subset(self, some: EntitySubset, ask: ArgumentFunction) -> F64:
        return self.compare(
            self.baseline_slice.baseline, ask(0, some), self.baseline_slice.columns.start + some.indices
        )
