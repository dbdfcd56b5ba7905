"""Operators that compare each entity with its own past: statistics of windows, and long memories."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from skewscope.engine.features.baselines import Baseline, BaselineSlice
from skewscope.engine.features.operators.protocol import (
    Operator,
    OperatorContext,
    Reads,
    Values,
    operator_class,
    register,
)
from skewscope.engine.features.operators.series import is_window_ripening, late_sample_reader
from skewscope.engine.features.peer_statistics import inf_to_nan
from skewscope.engine.features.windows import SampleWindow
from skewscope.engine.ingest.samples import CommonTimestamp, merge_complete_timestamps
from skewscope.engine.ingest.slots import ColumnIndexer, SlotOffset
from skewscope.engine.model.arrays import F64, Mask, has_all, pad_to_length
from skewscope.engine.model.entities import ArgumentFunction, EntitySubset
from skewscope.rules.expression import Expr
from skewscope.rules.functions import FUNCTIONS

# --- windows


class WindowStatistic(Operator):
    """A statistic of the samples of the last seconds; unknown where too few came, or none lately."""

    forms = frozenset({"window"})
    cost = 4
    reads = Reads.NOTHING
    layers: ClassVar[tuple[str, ...]]
    """What the window must keep of its samples."""
    min_samples: ClassVar[int] = 2

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        (arg,) = expr.args
        self.params = expr.params
        self.span = span = FUNCTIONS[expr.name].window_spans(expr.params)
        self.buffer = context.windows.buffer(
            context.numbers[arg],
            arg.kind,
            sum(span),
            level=sum(issubclass(operator_class(node), WindowStatistic) for node in arg.walk()),
            late_samples=late_sample_reader(arg, context),
        )
        self.key = type(self), expr.params
        self.buffer.request(self.key, span, self.layers)
        self.store = self.buffer

    def evaluate(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002 - the same for all operators
        return self.buffer.statistic(self.key, self.compute)

    def evaluate_subset(self, subset: EntitySubset, argument: ArgumentFunction) -> F64:  # noqa: ARG002
        return self.compute(self.buffer.window, self.buffer.columns.start + subset.indices)

    def ripening(self, t: float, unknown: Mask, args: Sequence[tuple[Values, Mask]]) -> Mask:
        first, *past = self.span
        spans = first if past else first / 2, *(w / 2 for w in past)
        own = is_window_ripening(self.buffer.window, t, spans, self.buffer.columns)
        return unknown & (own | args[0][1])

    def compute(self, window: SampleWindow, columns: ColumnIndexer) -> F64:
        """Returns [column] the statistic; NaN where the window holds too few samples."""
        slots, count, is_filled = window.fresh_window(self.params[-1], self.min_samples, columns)
        return _where(is_filled, self.statistic(window, slots, count, columns))

    def statistic(self, window: SampleWindow, slots: SlotOffset, count: F64, columns: ColumnIndexer) -> F64:
        """Returns [column] the statistic of the last slots, in which `count` samples are."""
        raise NotImplementedError(type(self).__name__)

    def common_timestamp(self, parts: Sequence[CommonTimestamp | None]) -> CommonTimestamp | None:
        return merge_complete_timestamps(parts)


def _where(mask: Mask, values: F64) -> F64:
    """Returns [column] the values; NaN outside the mask."""
    return values if has_all(mask) else np.where(mask, values, np.nan)


@register("mean")
class WindowMean(WindowStatistic):
    """The mean of the samples."""

    layers = ("sum",)

    def statistic(self, window: SampleWindow, slots: SlotOffset, count: F64, columns: ColumnIndexer) -> F64:
        return window.mean(slots, at=columns, count=count)


@register("minimum")
class WindowMinimum(WindowStatistic):
    """The smallest sample."""

    layers = ("low",)

    def statistic(self, window: SampleWindow, slots: SlotOffset, count: F64, columns: ColumnIndexer) -> F64:  # noqa: ARG002
        lowest: F64 = np.fmin.reduce(window.ring.window_slots("low", slots, columns), axis=0)
        return lowest


@register("maximum")
class WindowMaximum(WindowStatistic):
    """The largest sample."""

    layers = ("high",)

    def statistic(self, window: SampleWindow, slots: SlotOffset, count: F64, columns: ColumnIndexer) -> F64:  # noqa: ARG002
        highest: F64 = np.fmax.reduce(window.ring.window_slots("high", slots, columns), axis=0)
        return highest


@register("samples")
class WindowCount(WindowStatistic):
    """The number of samples."""

    layers = ()
    min_samples = 1

    def statistic(self, window: SampleWindow, slots: SlotOffset, count: F64, columns: ColumnIndexer) -> F64:  # noqa: ARG002
        size = len(window.time[columns])
        return np.broadcast_to(count, size).astype(np.float64)


@register("slope")
class WindowSlope(WindowStatistic):
    """The change per second, by least squares."""

    cost = 12
    layers = ("last",)
    min_samples = 3

    def statistic(self, window: SampleWindow, slots: SlotOffset, count: F64, columns: ColumnIndexer) -> F64:  # noqa: ARG002
        return window.slope(slots, columns)


@register("jitter")
class WindowDeviation(WindowStatistic):
    """The standard deviation of the samples."""

    layers = ("sum", "square")
    min_samples = 3

    def statistic(self, window: SampleWindow, slots: SlotOffset, count: F64, columns: ColumnIndexer) -> F64:  # noqa: ARG002
        deviation: F64 = np.sqrt(window.variance(slots, columns))
        return deviation


@register("burst")
class WindowBurst(WindowStatistic):
    """The largest sample over the mean."""

    layers = ("sum", "high")
    min_samples = 3

    def statistic(self, window: SampleWindow, slots: SlotOffset, count: F64, columns: ColumnIndexer) -> F64:  # noqa: ARG002
        mean = window.mean(slots, at=columns)
        highest: F64 = np.fmax.reduce(window.ring.window_slots("high", slots, columns), axis=0)
        return inf_to_nan(highest / mean)


@register("quantile")
class WindowQuantile(WindowStatistic):
    """A quantile of the samples, one of each slot."""

    cost = 12
    layers = ("last",)
    min_samples = 3

    def statistic(self, window: SampleWindow, slots: SlotOffset, count: F64, columns: ColumnIndexer) -> F64:  # noqa: ARG002
        return window.quantile(slots, self.params[0], columns)


@register("change")
class WindowChange(WindowStatistic):
    """The mean of the recent samples over the mean of those before, minus 1."""

    layers = ("sum",)

    def compute(self, window: SampleWindow, columns: ColumnIndexer) -> F64:
        recent, past = self.params
        slots, _, is_filled = window.fresh_window(recent, self.min_samples, columns)
        before = window.slot_counts(past, columns)
        count = window.ring.window_sum("count", before, slots, columns)
        mean = window.mean(before, slots, columns)
        good = is_filled & window.has_history(recent + past / 2, columns) & (count >= 2) & (mean != 0)
        return np.where(good, inf_to_nan((window.mean(slots, at=columns) - mean) / np.abs(mean)), np.nan)


# --- long memories


@register("ewma")
class ExponentialMean(Operator):
    """An exponentially weighted mean; unknown where the value is unknown now."""

    reads = Reads.NOTHING
    is_stateful = True
    memory = ("mean", "time", "_current")

    def __init__(self, expr: Expr, context: OperatorContext) -> None:  # noqa: ARG002
        self.time_constant = expr.params[0]
        self.mean: F64 = np.empty(0)
        self.time: F64 = np.empty(0)
        self._current: F64 = np.empty(0)

    def update(self, value: Values, times: Callable[[], F64]) -> None:
        time = times()
        self.mean, self.time = pad_to_length(self.mean, len(value)), pad_to_length(self.time, len(value))
        new = ~np.isnan(value) & ~(time <= self.time)
        weight = 1 - np.exp(-np.maximum(time - self.time, 0.0) / self.time_constant)
        moved = self.mean + weight * (value - self.mean)
        self.mean = np.where(new, np.where(np.isnan(self.mean), value, moved), self.mean)
        self.time = np.where(new, time, self.time)
        self._current = np.where(np.isnan(value), np.nan, self.mean)

    def evaluate(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self._current

    def common_timestamp(self, parts: Sequence[CommonTimestamp | None]) -> CommonTimestamp | None:
        return merge_complete_timestamps(parts)


class BaselineComparison(Operator):
    """A value against its entity's own healthy past, which the evaluator learns at the end of the tick."""

    forms = frozenset({"baseline"})
    baseline: BaselineSlice
    compare: ClassVar[Callable[..., F64]]

    def __init__(self, expr: Expr, context: OperatorContext) -> None:
        (arg,) = expr.args
        self.store = self.baseline = context.baselines.slice_of(context.numbers[arg], arg.kind, expr.params[0])

    def evaluate(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return type(self).compare(self.baseline.baseline, args[0], self.baseline.columns)

    def evaluate_subset(self, subset: EntitySubset, argument: ArgumentFunction) -> F64:
        columns = self.baseline.columns.start + subset.indices
        return type(self).compare(self.baseline.baseline, argument(0, subset), columns)

    def ripening(self, t: float, unknown: Mask, args: Sequence[tuple[Values, Mask]]) -> Mask:  # noqa: ARG002
        value, ripens = args[0]
        short = ~np.isnan(value) & ~self.baseline.baseline.ready_mask(self.baseline.columns)
        return unknown & (short | ripens)

    def common_timestamp(self, parts: Sequence[CommonTimestamp | None]) -> CommonTimestamp | None:
        return merge_complete_timestamps(parts)


@register("baseline_z")
class BaselineZ(BaselineComparison):
    """The distance from the past, in its standard deviations."""

    compare = Baseline.z_score


@register("drift")
class BaselineDrift(BaselineComparison):
    """The value over the mean of the past, minus 1."""

    compare = Baseline.drift
