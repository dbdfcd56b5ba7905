"""What each kind of sub-expression does with the values of its arguments. Built once, run every tick."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.baseline import Baseline
from skewscope.engine.entities import Entities
from skewscope.engine.features import REDUCE, WHOLE, WITHIN
from skewscope.engine.panel import Panel, Rows, matching
from skewscope.engine.rhythm import longer
from skewscope.engine.sets import F64, Index
from skewscope.engine.windows import Counted, Track, slot_of
from skewscope.rules.expr import Expr
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.kinds import NETWORKS, kind_of

Truth = NDArray[np.int8]
Mask = NDArray[np.bool_]


@dataclass
class Shared:
    """What steps have in common: the panel, the topology, and the rings that several windows read."""

    panel: Panel
    entities: Entities
    tracks: dict[tuple[Expr, float], Track] = field(default_factory=dict)
    counted: dict[tuple[str, float], "Lanes"] = field(default_factory=dict)
    baselines: dict[tuple[Expr, float], Baseline] = field(default_factory=dict)

    def track(self, expr: Expr, window: float) -> Track:
        """The ring of an expression's values from which a window of this length is read."""
        slot = slot_of(window, self.panel.tick)
        found = self.tracks.setdefault((expr, slot), Track(self.panel.tick, slot))
        found.want(window)
        return found

    def lanes(self, signal: str, window: float) -> "Lanes":
        """The ring of a signal's counters."""
        slot = slot_of(window, self.panel.tick)
        found = self.counted.setdefault((signal, slot), Lanes(signal, self.panel, Counted(self.panel.tick, slot)))
        found.ring.want(window)
        return found

    def baseline(self, expr: Expr, memory: float) -> Baseline:
        """The healthy past of an expression."""
        return self.baselines.setdefault((expr, memory), Baseline(memory))


class Plain:
    """A function of the arguments' values alone."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def run(self, t: float, args: Sequence[Any]) -> Any:  # noqa: ARG002 - the same for all steps
        return self.function(*args)


class Timed:
    """A step that remembers: it must know when its argument was sampled."""

    times: Sequence[F64]


# --- signals


@dataclass
class Chosen:
    """The series of a signal that an expression means, as an index over the entities of the signal's kind."""

    expr: Expr
    shared: Shared
    part: str = ""
    _version: tuple[int, int] = (-1, -1)
    _series: Index = field(default_factory=lambda: np.empty((0, 0), np.intp))
    selectors: list[str] = field(default_factory=list)

    def series(self) -> Index:
        """[selectors, entities] numbers of series, -1 where an entity has none."""
        rows = self.shared.panel.lay(self.expr.name)
        version = rows.version, rows.series.shape[1]
        if version != self._version:
            self._version = version
            self._series = self._found(rows)
        return self._series

    def _found(self, rows: Rows) -> Index:
        words = [word for word in self.expr.words if word.replace("_", "-") not in NETWORKS]
        found = matching(rows.selectors, words)
        self.selectors = [rows.selectors[n] for n in found]
        series = rows.series[found]
        networks = [word.replace("_", "-") for word in self.expr.words if word not in words]
        ports = self.ports()
        if networks and ports is not None:
            inside = self.shared.entities.in_networks(networks)
            series = np.where((ports >= 0) & inside[ports], series, -1)
        return series

    def ports(self) -> Index | None:
        """The port of each entity of the signal's kind; None where it lies in none."""
        entities, kind = self.shared.entities, self.expr.kind
        if kind == "port":
            return np.arange(entities.count("port"))
        return entities.up(kind, "port") if kind == "peer" else None


class Signal:
    """The newest fresh value of a signal; an entity's several series folded into one."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.chosen = Chosen(expr, shared)
        self.panel = shared.panel
        self.factor = expr.value
        self.fold = FOLDS[self.panel.signals[expr.name].fold]

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        series = self.chosen.series()
        if not len(series):
            return np.full(series.shape[1], np.nan)
        if len(series) == 1:
            return self.panel.now(series[0]) * self.factor
        return self.fold(self.panel.now(series), series >= 0) * self.factor

    def time(self) -> F64:
        """When the newest sample of each entity was taken, stale or not."""
        series = self.chosen.series()
        return np.fmax.reduce(self.panel.newest(series), axis=0, initial=np.nan)


class Seen:
    """1 for entities that ever reported a signal, unknown for others."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.chosen = Chosen(expr, shared)
        self.panel = shared.panel

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        times = np.fmax.reduce(self.panel.newest(self.chosen.series()), axis=0, initial=np.nan)
        return np.where(np.isnan(times), np.nan, 1.0)


def _summed(values: F64, expected: Mask) -> F64:
    """The sum; unknown where any series that there is says nothing."""
    silent = (np.isnan(values) & expected).any(axis=0) | ~expected.any(axis=0)
    return np.where(silent, np.nan, np.where(expected, values, 0.0).sum(axis=0))


def _mean(values: F64, expected: Mask) -> F64:  # noqa: ARG001 - the same for all folds
    known = ~np.isnan(values)
    return np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0)


FOLDS: Mapping[str, Callable[[F64, Mask], F64]] = {
    "sum": _summed,
    "mean": _mean,
    "max": lambda values, _: np.fmax.reduce(values, axis=0),
    "min": lambda values, _: np.fmin.reduce(values, axis=0),
}


# --- counters


@dataclass
class Lanes:
    """A signal's counters side by side, in a ring of what they counted."""

    signal: str
    panel: Panel
    ring: Counted
    series: Index = field(default_factory=lambda: np.empty(0, np.intp))
    t: float = -np.inf
    _version: int = -1
    _lane: Index = field(default_factory=lambda: np.empty(0, np.intp))
    _over: dict[float, tuple[F64, F64]] = field(default_factory=dict)

    def step(self, t: float) -> None:
        """Takes in the tick, once."""
        if t <= self.t and self.t > -np.inf:
            return
        self.t = t
        self._learn()
        self._over.clear()
        self.ring.step(t, self.panel.tally(self.series))

    def _learn(self) -> None:
        rows = self.panel.lay(self.signal)
        if rows.version == self._version:
            return
        self._version = rows.version
        found = np.unique(rows.series[rows.series >= 0])
        # Lanes keep their order: a new series gets a new lane at the end.
        self.series = np.concatenate((self.series, np.setdiff1d(found, self.series)))
        self._lane = np.full(int(self.series.max(initial=-1)) + 2, -1, np.intp)
        self._lane[self.series] = np.arange(len(self.series))

    def over(self, window: float, series: Index) -> tuple[F64, F64]:
        """(increase, seconds) of each series over a window; NaN where too little is known."""
        if window not in self._over:
            more, since = self.ring.over(window, self.panel.tally(self.series))
            self._over[window] = np.append(more, np.nan), np.append(since, np.nan)
        more, since = self._over[window]
        lane = self._lane[series] if len(self._lane) else np.full(series.shape, -1, np.intp)
        return more[lane], since[lane]


class Rate:
    """Increase of a counter per second; an entity's several counters folded into one."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        (self.window,), signal = expr.params, expr.args[0]
        self.chosen = Chosen(signal, shared)
        self.lanes = shared.lanes(signal.name, self.window)
        self.fold = FOLDS[shared.panel.signals[signal.name].fold]
        self.factor = signal.value

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        self.lanes.step(t)
        series = self.chosen.series()
        if not len(series):
            return np.full(series.shape[1], np.nan)
        more, since = self.lanes.over(self.window, series)
        return self.fold(more / since, series >= 0) * self.factor


class Buckets:
    """What a histogram's counters say about the observations of a window."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        signal = expr.args[0]
        self.quantile = expr.params[0] if expr.name == "bucket_quantile" else None
        self.window = expr.params[-1]
        self.chosen = Chosen(signal, shared)
        self.lanes = shared.lanes(signal.name, self.window)
        self.factor = signal.value

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        self.lanes.step(t)
        series = self.chosen.series()
        parts = [selector.rpartition(",")[2].strip() for selector in self.chosen.selectors]
        more, _ = self.lanes.over(self.window, series)
        if self.quantile is None:
            return (
                self._part("sum", parts, more, series) / _some(self._part("count", parts, more, series)) * self.factor
            )
        return self._quantile(parts, more, series) * self.factor

    def _part(self, name: str, parts: list[str], more: F64, series: Index) -> F64:
        rows = [n for n, part in enumerate(parts) if part == name]
        return _summed(more[rows], series[rows] >= 0)

    def _quantile(self, parts: list[str], more: F64, series: Index) -> F64:
        bounds = sorted({bound for part in parts if (bound := upper_bound(part)) is not None})
        if not bounds:
            return np.full(series.shape[1], np.nan)
        rows = [[n for n, part in enumerate(parts) if upper_bound(part) == bound] for bound in bounds]
        below = np.stack([_summed(more[found], series[found] >= 0) for found in rows])
        return quantile_of(np.array(bounds), below, float(self.quantile or 0.0))


def upper_bound(part: str) -> float | None:
    """The upper bound in `bucket:0.5`; None for what is no bucket."""
    name, _, bound = part.partition(":")
    try:
        found = float(bound) if name == "bucket" else np.nan
    except ValueError:
        return None
    return None if np.isnan(found) else found


def quantile_of(bounds: F64, below: F64, q: float) -> F64:
    """A quantile from counts up to each bound, by straight line within its bucket.

    Bounds that an entity does not have are passed over; beyond the last finite bound the answer is that bound.
    """
    below = np.maximum.accumulate(np.where(np.isnan(below), -1.0, below), axis=0)
    whole = _some(below[-1])
    rank = q * whole
    at = np.argmax(below >= rank, axis=0)
    entities = np.arange(below.shape[1])
    lower = np.where(at > 0, bounds[np.maximum(at - 1, 0)], np.minimum(bounds[0], 0.0))
    before = np.where(at > 0, np.maximum(below[np.maximum(at - 1, 0), entities], 0.0), 0.0)
    upper = bounds[at]
    share = np.clip((rank - before) / np.maximum(below[at, entities] - before, 1e-300), 0.0, 1.0)
    inside = np.where(np.isfinite(upper), lower + (np.where(np.isfinite(upper), upper, 0.0) - lower) * share, lower)
    return np.where(np.isnan(whole), np.nan, inside)


def _some(count: F64) -> F64:
    """The count; NaN where nothing was counted."""
    return np.where(count > 0, count, np.nan)


# --- windows


class Windowed(Timed):
    """A statistic of the recent samples of a value."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.name = expr.name
        self.params = expr.params
        self.track = shared.track(expr.args[0], sum(p for p in expr.params if p > 1) or max(expr.params))
        self.window = max(expr.params)
        self.times: Sequence[F64] = ()

    def run(self, t: float, args: Sequence[Any]) -> F64:
        self.track.step(t, args[0], self.times[0])
        return WINDOWS[self.name](self.track, t, self.params)


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
    return np.fmax.reduce(track.ring.slots("high", steps), axis=0) / np.where(mean != 0, mean, np.nan)


def _change(track: Track, t: float, params: tuple[float, ...]) -> F64:
    recent, past = params
    steps, enough = track.fresh(t, recent, 2)
    before = track.steps(past)
    count = track.ring.summed("count", before, steps)
    mean = track.mean(before, steps)
    # Half of the past must lie in the past: two samples before a change are no past to compare with.
    filled = t - track.first >= recent + past / 2
    good = enough & filled & (count >= 2) & (mean != 0)
    return np.where(good, (track.mean(steps) - mean) / np.abs(mean), np.nan)


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
        self.nothing = 0 if expr.truth else np.nan

    def run(self, t: float, args: Sequence[Any]) -> Any:  # noqa: ARG002
        return self.of(args[0])

    def of(self, value: Any) -> Any:
        """A value of the upper kind on the lower one."""
        padded = np.append(value, value.dtype.type(self.nothing))
        return padded[self.entities.up(self.lower, self.upper)]


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


def times(expr: Expr, step: Any, args: Sequence[Any]) -> Any:
    """When what an expression is made of was last sampled: the latest of its arguments."""
    if isinstance(step, Signal):
        return step.time()
    if isinstance(step, Lift | Front):
        return step.of(args[0])
    if isinstance(step, Reduce):
        return step.entities.down(step.part, step.kind).reduced(args[0], REDUCE["highest"])
    known = [arg for arg in args if arg is not None]
    return np.fmax.reduce(np.broadcast_arrays(*known)) if known else np.float64(-np.inf)


assert kind_of("port") == "port"
