"""What each kind of sub-expression does with the values of its arguments. Built once, run every tick."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.baseline import Baseline
from skewscope.engine.features import REDUCE, WHOLE, WITHIN
from skewscope.engine.readings import Buckets, Latecomers, Rate, Seen, Shared, Signal
from skewscope.engine.rhythm import longer
from skewscope.engine.sets import F64
from skewscope.engine.windows import Track
from skewscope.rules.expr import Expr
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.units import SECOND

Truth = NDArray[np.int8]
Mask = NDArray[np.bool_]


class Plain:
    """A function of the arguments' values alone."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def run(self, t: float, args: Sequence[Any]) -> Any:  # noqa: ARG002 - the same for all steps
        return self.function(*args)


class Timed:
    """A step that remembers: it must know when its argument was sampled."""

    times: Sequence[F64]


# --- windows


class Windowed(Timed):
    """A statistic of the recent samples of a value."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.name = expr.name
        self.params = expr.params
        lengths = [p for p, name in zip(expr.params, _lengths(expr.name), strict=True) if name]
        self.track = shared.track(expr.args[0], sum(lengths))
        self.latecomers = Latecomers(expr.args[0], shared) if expr.args[0].op == "signal" else None
        self.times: Sequence[F64] = ()

    def run(self, t: float, args: Sequence[Any]) -> F64:
        self.track.step(t, args[0], self.times[0])
        if self.latecomers and t > self.track.corrected:
            self.track.corrected = t
            for found in self.latecomers.found():
                self.track.late(t, *found)
        return WINDOWS[self.name](self.track, t, self.params)


def _lengths(function: str) -> list[bool]:
    """Which of a function's constant arguments are lengths of time."""
    return [unit == SECOND for unit in FUNCTIONS[function].param_units]


def _simple(least: int, function: Callable[[Track, Any], F64]) -> Callable[[Track, float, tuple[float, ...]], F64]:
    def windowed(track: Track, t: float, params: tuple[float, ...]) -> F64:
        steps, enough = track.fresh(t, params[-1], least)
        return np.where(enough, function(track, steps), np.nan)

    return windowed


def _quantile(track: Track, t: float, params: tuple[float, ...]) -> F64:
    steps, enough = track.fresh(t, params[-1], 3)
    return np.where(enough, track.quantile(steps, params[0]), np.nan)


def _burst(track: Track, steps: Any) -> F64:
    mean = track.mean(steps)
    highest: F64 = np.fmax.reduce(track.ring.slots("high", steps), axis=0)
    found: F64 = _finite(highest / mean)
    return found


def _change(track: Track, t: float, params: tuple[float, ...]) -> F64:
    recent, past = params
    steps, enough = track.fresh(t, recent, 2)
    before = track.steps(past)
    count = track.ring.summed("count", before, steps)
    mean = track.mean(before, steps)
    # Half of the past must lie in the past: two samples before a change are no past to compare with.
    filled = t - track.first >= recent + past / 2
    good = enough & filled & (count >= 2) & (mean != 0)
    return np.where(good, _finite((track.mean(steps) - mean) / np.abs(mean)), np.nan)


WINDOWS: Mapping[str, Callable[[Track, float, tuple[float, ...]], F64]] = {
    "mean": _simple(2, lambda track, steps: track.mean(steps)),
    "minimum": _simple(2, lambda track, steps: np.fmin.reduce(track.ring.slots("low", steps), axis=0)),
    "maximum": _simple(2, lambda track, steps: np.fmax.reduce(track.ring.slots("high", steps), axis=0)),
    "slope": _simple(3, lambda track, steps: track.slope(steps)),
    "jitter": _simple(3, lambda track, steps: np.sqrt(track.variance(steps))),
    "burst": _simple(3, _burst),
    "quantile": _quantile,
    "change": _change,
}


class Smoothed(Timed):
    """An exponentially weighted mean."""

    def __init__(self, expr: Expr, shared: Shared) -> None:  # noqa: ARG002 - all steps are built alike
        self.memory = expr.params[0]
        self.times: Sequence[F64] = ()
        self.mean: F64 = np.empty(0)
        self.time: F64 = np.empty(0)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        value, time = args[0], self.times[0]
        self.mean, self.time = longer(self.mean, len(value)), longer(self.time, len(value))
        new = ~np.isnan(value) & ~(time <= self.time)
        weight = 1 - np.exp(-np.maximum(time - self.time, 0.0) / self.memory)
        moved = self.mean + weight * (value - self.mean)
        self.mean = np.where(new, np.where(np.isnan(self.mean), value, moved), self.mean)
        self.time = np.where(new, time, self.time)
        return np.where(np.isnan(value), np.nan, self.mean)


class FromBaseline(Timed):
    """A value against its entity's own healthy past, which is learned at the end of the tick."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.baseline = shared.baseline(expr.args[0], expr.params[0])
        self.judge = Baseline.z if expr.name == "baseline_z" else Baseline.drift
        self.times: Sequence[F64] = ()
        self._value: F64 = np.empty(0)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        self._value = args[0]
        self.baseline.grow(len(self._value))
        return self.judge(self.baseline, self._value)

    def learn(self, frozen: Mask | None) -> None:
        """Takes in the tick's values of who is not frozen."""
        none = np.zeros(len(self._value), bool)
        self.baseline.learn(self._value, self.times[0], none if frozen is None else frozen)


# --- sets


class Within:
    """A value compared with those of the peers."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        assert expr.peers is not None
        self.peers, self.entities = expr.peers, shared.entities
        self.function = WITHIN[expr.name]
        self.whole = expr.name in WHOLE
        self.ever = np.empty(0, bool)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        value = args[0]
        found = self.entities.peers(self.peers)
        if not self.whole:
            return np.where(np.isnan(value), np.nan, found.mapped(value, self.function))
        self.ever = _ever(self.ever, value)
        silent = found.mapped((self.ever & np.isnan(value)).astype(np.float64), _spread_maximum)
        return np.where(np.isnan(value) | (silent > 0), np.nan, found.mapped(value, self.function))


def _spread_maximum(x: F64) -> F64:
    return np.repeat(np.fmax.reduce(x, axis=1)[:, None], x.shape[1], axis=1)


def _ever(ever: Mask, value: F64) -> Mask:
    """Who ever had a value."""
    known = ~np.isnan(value)
    known[: len(ever)] |= ever
    return known


class Members:
    """How many peers ever reported anything; unknown while none did."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        assert expr.peers is not None
        self.peers, self.entities = expr.peers, shared.entities

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        seen = np.full(self.entities.count(self.peers.kind), np.nan)
        for arg in args:
            seen = np.fmax(seen, arg)
        count = self.entities.peers(self.peers).mapped(seen, _counted)
        return np.where(count > 0, count, np.nan)


def _counted(x: F64) -> F64:
    return np.repeat((~np.isnan(x)).sum(axis=1)[:, None].astype(np.float64), x.shape[1], axis=1)


class Reduce:
    """One value from those of an entity's parts."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.part, self.kind, self.entities = expr.args[0].kind, expr.kind, shared.entities
        self.function = REDUCE[expr.name]
        self.whole = expr.name in WHOLE
        self.ever = np.empty(0, bool)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        value, found = args[0], self.entities.down(self.part, self.kind)
        reduced = found.reduced(value, self.function)
        if not self.whole:
            return reduced
        self.ever = _ever(self.ever, value)
        silent = found.reduced((self.ever & np.isnan(value)).astype(np.float64), REDUCE["highest"])
        return np.where(silent > 0, np.nan, reduced)


class Lift:
    """What is true of the whole, told of each of its parts."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.lower, self.upper, self.entities = expr.kind, expr.args[0].kind, shared.entities
        self.nothing = _of_nobody(expr.args[0]) if expr.truth else np.nan

    def run(self, t: float, args: Sequence[Any]) -> Any:  # noqa: ARG002
        return self.of(args[0])

    def of(self, value: Any) -> Any:
        """A value of the upper kind on the lower one."""
        padded = np.append(value, value.dtype.type(self.nothing))
        return padded[self.entities.up(self.lower, self.upper)]


def _of_nobody(expr: Expr) -> int:
    """The truth of an expression about an entity that there is not: nothing is known of it, and that much is known."""
    parts = [_of_nobody(arg) for arg in expr.args if arg.truth]
    if expr.op == "call" and expr.name == "known":
        return -1
    if expr.op == "not":
        return -parts[0]
    joined = {"and": min, "or": max, "lift": max}.get(expr.op)
    return joined(parts) if joined and len(parts) == len(expr.args) else 0


class Front:
    """The value at the front-end node of a group or replica."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.at = shared.entities.front(expr.kind)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self.of(args[0])

    def of(self, value: F64) -> F64:
        """A node's value on the group it is the front end of."""
        return np.append(value, np.nan)[self.at]


# --- the rest


class Age(Timed):
    """Seconds since the last sample; unknown where none came."""

    def __init__(self, expr: Expr, shared: Shared) -> None:  # noqa: ARG002
        self.times: Sequence[F64] = ()

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return np.maximum(t - self.times[0], 0.0)


def _above(a: Any, b: Any) -> Truth:
    return _signs(a > b, a <= b)


def _signs(yes: Any, no: Any) -> Truth:
    """YES, NO, and where neither holds UNKNOWN: a NaN is neither above nor below."""
    found: Truth = np.asarray(yes).view(np.int8) - np.asarray(no).view(np.int8)
    return found


COMPARE: Mapping[str, Callable[[Any, Any], Truth]] = {
    ">": _above,
    ">=": lambda a, b: _signs(a >= b, a < b),
    "<": lambda a, b: _signs(a < b, a >= b),
    "<=": lambda a, b: _signs(a <= b, a > b),
    "==": lambda a, b: _signs(a == b, (a < b) | (a > b)),
    "!=": lambda a, b: _signs((a < b) | (a > b), a == b),
}

ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: _finite(a * b),
    "/": lambda a, b: _finite(a / b),
}


def _finite(x: Any) -> Any:
    """The value; what is infinite is unknown."""
    return np.where(np.isfinite(x), x, np.nan)


def _known(x: F64) -> Truth:
    return _signs(~np.isnan(x), np.isnan(x))


PLAIN: Mapping[str, Callable[..., Any]] = {
    "known": _known,
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "log10": lambda x: _finite(np.log10(x)),
}


def _smallest(*parts: Truth) -> Truth:
    found: Truth = np.minimum.reduce(parts)
    return found


def _largest(*parts: Truth) -> Truth:
    found: Truth = np.maximum.reduce(parts)
    return found


def _call(expr: Expr, shared: Shared) -> Any:
    own = {
        "rate": Rate,
        "ewma": Smoothed,
        "bucket_quantile": Buckets,
        "bucket_mean": Buckets,
        "age": Age,
        "peers": Members,
    }.get(expr.name)
    form = FUNCTIONS[expr.name].form
    by_form = {"window": Windowed, "baseline": FromBaseline, "peers": Within, "reduce": Reduce, "front": Front}
    builder = own or by_form.get(form)
    if builder:
        return builder(expr, shared)
    if form == "topology":
        fixed = shared.entities.speed if expr.name == "speed" else shared.entities.size(expr.kind)
        return Plain(lambda: fixed)
    if expr.name == "known" and expr.args[0].op == "signal":
        return Plain(_known) if _gauge(expr.args[0], shared) else Known(expr.args[0], shared)
    return Plain(PLAIN[expr.name])


def _gauge(expr: Expr, shared: Shared) -> bool:
    return shared.panel.signals[expr.name].type not in {"counter", "histogram"}


class Known:
    """Whether a counter has been read lately."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.signal = Signal(expr, shared)

    def run(self, t: float, args: Sequence[Any]) -> Truth:  # noqa: ARG002
        return _known(self.signal.run(t, ()))


def step(expr: Expr, shared: Shared) -> Any:
    """The step that computes one sub-expression."""
    return _steps[expr.op](expr, shared)


_steps: Mapping[str, Callable[[Expr, Shared], Any]] = {
    "number": lambda e, _: Plain(lambda: np.float64(e.value)),
    "signal": Signal,
    "seen": Seen,
    "call": _call,
    "lift": Lift,
    "neg": lambda _e, _s: Plain(np.negative),
    "arith": lambda e, _: Plain(ARITHMETIC[e.name]),
    "compare": lambda e, _: Plain(COMPARE[e.name]),
    "and": lambda _e, _s: Plain(_smallest),
    "or": lambda _e, _s: Plain(_largest),
    "not": lambda _e, _s: Plain(np.negative),
}


def times(step: Any, args: Sequence[Any]) -> Any:
    """When what an expression is made of was last sampled: the latest of its arguments."""
    if isinstance(step, Signal):
        return step.time()
    if isinstance(step, Lift | Front):
        return step.of(args[0])
    if isinstance(step, Reduce):
        return step.entities.down(step.part, step.kind).reduced(args[0], REDUCE["highest"])
    newest: Any = np.float64(-np.inf)
    for arg in args:
        if arg is not None and arg is not newest:
            newest = arg if newest.ndim == 0 else np.fmax(newest, arg)
    return newest
