"""Steps that look back: statistics of recent samples, and a value beside its entity's own healthy past."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from skewscope.engine.banks import Banks, Pasts
from skewscope.engine.baseline import Baseline
from skewscope.engine.features import finite
from skewscope.engine.readings import Latecomers, Shared
from skewscope.engine.rhythm import longer
from skewscope.engine.ring import At, Back
from skewscope.engine.sets import F64, Mask
from skewscope.engine.some import Ask, Some
from skewscope.engine.windows import Track
from skewscope.rules.expr import Expr
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.units import SECOND

Params = tuple[float, ...]


class Windowed:
    """A statistic of the recent samples of a value."""

    def __init__(self, expr: Expr, shared: Shared, banks: Banks) -> None:
        lengths = [p for p, name in zip(expr.params, _lengths(expr.name), strict=True) if name]
        bare = expr.args[0].op == "signal"
        late = Latecomers(expr.args[0], shared) if bare else None
        self.reel = banks.reel(expr.args[0], sum(lengths), expr.name, late)
        self.function = WINDOWS[expr.name]
        self.params = expr.params

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self.function(self.reel.track, self.params, self.reel.at)

    def part(self, some: Some, ask: Ask) -> F64:  # noqa: ARG002
        return self.function(self.reel.track, self.params, self.reel.at.start + some.at)


def _lengths(function: str) -> list[bool]:
    """Which of a function's constant arguments are lengths of time."""
    return [unit == SECOND for unit in FUNCTIONS[function].param_units]


def _sure(enough: Mask, found: F64) -> F64:
    """What was found of those of whom enough is known."""
    return found if enough.all() else np.where(enough, found, np.nan)


def _simple(least: int, function: Callable[[Track, Back, At], F64]) -> Callable[[Track, Params, At], F64]:
    def windowed(track: Track, params: Params, at: At) -> F64:
        steps, _, enough = track.fresh(params[-1], least, at)
        return _sure(enough, function(track, steps, at))

    return windowed


def _mean(track: Track, params: Params, at: At) -> F64:
    steps, count, enough = track.fresh(params[-1], 2, at)
    return _sure(enough, track.mean(steps, at=at, count=count))


def _quantile(track: Track, params: Params, at: At) -> F64:
    steps, _, enough = track.fresh(params[-1], 3, at)
    return _sure(enough, track.quantile(steps, params[0], at))


def _burst(track: Track, steps: Back, at: At) -> F64:
    mean = track.mean(steps, at=at)
    highest: F64 = np.fmax.reduce(track.ring.slots("high", steps, at), axis=0)
    return finite(highest / mean)


def _change(track: Track, params: Params, at: At) -> F64:
    recent, past = params
    steps, _, enough = track.fresh(recent, 2, at)
    before = track.steps(past, at)
    count = track.ring.summed("count", before, steps, at)
    mean = track.mean(before, steps, at)
    good = enough & track.reaches(recent + past / 2, at) & (count >= 2) & (mean != 0)
    return np.where(good, finite((track.mean(steps, at=at) - mean) / np.abs(mean)), np.nan)


WINDOWS: Mapping[str, Callable[[Track, Params, At], F64]] = {
    "mean": _mean,
    "minimum": _simple(2, lambda track, steps, at: np.fmin.reduce(track.ring.slots("low", steps, at), axis=0)),
    "maximum": _simple(2, lambda track, steps, at: np.fmax.reduce(track.ring.slots("high", steps, at), axis=0)),
    "slope": _simple(3, lambda track, steps, at: track.slope(steps, at)),
    "jitter": _simple(3, lambda track, steps, at: np.sqrt(track.variance(steps, at))),
    "burst": _simple(3, _burst),
    "quantile": _quantile,
    "change": _change,
}


class Smoothed:
    """An exponentially weighted mean."""

    def __init__(self, expr: Expr) -> None:
        self.memory = expr.params[0]
        self.mean: F64 = np.empty(0)
        self.time: F64 = np.empty(0)
        self._now: F64 = np.empty(0)

    def take(self, value: F64, time: F64) -> None:
        """Takes in the tick's values."""
        self.mean, self.time = longer(self.mean, len(value)), longer(self.time, len(value))
        new = ~np.isnan(value) & ~(time <= self.time)
        weight = 1 - np.exp(-np.maximum(time - self.time, 0.0) / self.memory)
        moved = self.mean + weight * (value - self.mean)
        self.mean = np.where(new, np.where(np.isnan(self.mean), value, moved), self.mean)
        self.time = np.where(new, time, self.time)
        self._now = np.where(np.isnan(value), np.nan, self.mean)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self._now


class FromBaseline:
    """A value against its entity's own healthy past, which is learned at the end of the tick."""

    def __init__(self, expr: Expr, pasts: Pasts) -> None:
        self.past = pasts.past(expr.args[0], expr.params[0])
        self.judge = Baseline.z if expr.name == "baseline_z" else Baseline.drift

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self.judge(self.past.baseline, args[0], self.past.at)

    def part(self, some: Some, ask: Ask) -> F64:
        return self.judge(self.past.baseline, ask(0, some), self.past.at.start + some.at)
