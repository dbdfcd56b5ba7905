"""What sub-expressions read: signals, rates of counters, quantiles of histograms, folded to one value an entity."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewscope.engine.counting import Counted, Tally
from skewscope.engine.entities import Entities
from skewscope.engine.features import added
from skewscope.engine.laid import Part, moment_of
from skewscope.engine.moments import Moment, even, is_even
from skewscope.engine.panel import Panel
from skewscope.engine.ring import slot_of
from skewscope.engine.rows import Rows, matching
from skewscope.engine.sets import F64, Index, Mask
from skewscope.engine.some import Ask, Some
from skewscope.rules.expr import Expr
from skewscope.rules.kinds import NETWORKS, kind_of

Over = Callable[[float, Index], tuple[F64, F64]]


@dataclass
class Shared:
    """What steps have in common: the panel and the topology."""

    panel: Panel
    entities: Entities
    lanes: dict[tuple[str, float], "Lanes"] = field(default_factory=dict)

    def counted(self, signal: str, window: float) -> "Lanes":
        """The ring of a signal's counters, from which a window of this length is read."""
        slot = slot_of(window, self.panel.tick)
        found = self.lanes.setdefault((signal, slot), Lanes(signal, self.panel, Counted(self.panel.tick, slot)))
        found.ring.want(window)
        return found


# --- signals


@dataclass
class Chosen:
    """The series of a signal that an expression means, as an index over the entities of the signal's kind."""

    expr: Expr
    shared: Shared
    part: str = ""
    _version: tuple[int, int] = (-1, -1)
    _series: Index = field(default_factory=lambda: np.empty((0, 0), np.intp))
    _parted: Index | None = None
    _parts: tuple[Part, ...] = ()
    _placed: Index | None = None
    _place: Index | slice | None = None
    selectors: list[str] = field(default_factory=list)

    def series(self) -> Index:
        """[selectors, entities] numbers of series, -1 where an entity has none."""
        rows = self.shared.panel.rows[self.expr.name]
        version = rows.version, self.shared.entities.version
        if version != self._version:
            self._version = version
            self._series = self._found(self.shared.panel.lay(self.expr.name))
        return self._series

    def place(self) -> Index | slice | None:
        """Where the one series of each entity is, as a slice if they lie side by side; None where there are several."""
        series = self.series()
        if self._placed is not series:
            self._placed, self._place = series, None
            if len(series) == 1:
                first, size = (int(series[0, 0]) if series.size else 0), series.shape[1]
                straight = first >= 0 and bool((series[0] == np.arange(first, first + size)).all())
                self._place = slice(first, first + size) if straight else series[0]
        return self._place

    def moment(self) -> Moment | None:
        """When the newest samples were taken, if all at one time."""
        series = self.series()
        if self._parted is not series:
            self._parted, self._parts = series, self.shared.panel.parts.under(series)
        return moment_of(self._parts)

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
        place = self.chosen.place()
        return self._of(self.chosen.series()) if place is None else _times(self.panel.now(place), self.factor)

    def part(self, some: Some, ask: Ask) -> F64:  # noqa: ARG002
        return self._of(self.chosen.series()[:, some.at])

    def _of(self, series: Index) -> F64:
        if not len(series):
            return np.full(series.shape[1], np.nan)
        if len(series) == 1:
            return _times(self.panel.now(series[0]), self.factor)
        return _times(self.fold(self.panel.now(series), series >= 0), self.factor)

    def moment(self) -> Moment | None:
        """When the newest samples were taken, if all at one time."""
        return self.chosen.moment()

    def time(self) -> F64:
        """When the newest sample of each entity was taken, stale or not."""
        place = self.chosen.place()
        if place is not None:
            return self.panel.newest(place)
        found: F64 = np.fmax.reduce(self.panel.newest(self.chosen.series()), axis=0, initial=np.nan)
        return found


def _times(values: F64, factor: float) -> F64:
    """The values in the unit of the rules, not to be written to."""
    return values if factor == 1.0 else values * factor


class Latecomers:
    """Samples of a signal that came after later ones; none where an entity's value is folded from several series."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.chosen = Chosen(expr, shared)
        self.panel = shared.panel
        self.factor = expr.value

    def found(self) -> Iterator[tuple[Index, F64, F64]]:
        """(entities, times, values) of those of this tick."""
        series = self.chosen.series() if self.panel.late else np.empty((0, 0), np.intp)
        if len(series) != 1:
            return
        there = np.flatnonzero(series[0] >= 0)
        of = np.full(int(series.max(initial=-1)) + 2, -1, np.intp)
        of[series[0][there]] = there
        for late in self.panel.late:
            entity = of[np.minimum(late.series, len(of) - 1)]
            yield entity[entity >= 0], late.time[entity >= 0], late.value[entity >= 0] * self.factor


class Seen:
    """1 for entities that ever reported a signal, unknown for others."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        self.chosen = Chosen(expr, shared)
        self.panel = shared.panel
        self._births = -1
        self._series: Index | None = None
        self._seen: F64 = np.empty(0)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        series = self.chosen.series()
        if self._births != self.panel.births or self._series is not series:
            times = np.fmax.reduce(self.panel.newest(series), axis=0, initial=np.nan)
            self._seen = np.where(np.isnan(times), np.nan, 1.0)
            self._births, self._series = self.panel.births, series
        return self._seen


def _summed(values: F64, expected: Mask) -> F64:
    """The sum; unknown where any series that there is says nothing."""
    if len(values) == 1:
        return np.where(expected[0], values[0], np.nan)
    silent = (np.isnan(values) & expected).any(axis=0) | ~expected.any(axis=0)
    return np.where(silent, np.nan, added(np.where(expected, values, 0.0)))


def _mean(values: F64, expected: Mask) -> F64:  # noqa: ARG001 - the same for all folds
    known = ~np.isnan(values)
    found: F64 = added(np.where(known, values, 0.0)) / known.sum(axis=0)
    return found


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
    _version: int = -1
    _sorted: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """The same in order: a table over all numbers would be as long as those of all signals together."""
    _order: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """The lane of each of these."""
    _at: Index | slice = field(default_factory=lambda: np.empty(0, np.intp))
    """The same as `series`, as a slice where they lie side by side."""
    _whole: Index | None = None
    """The series that were last seen to be all lanes in their order."""
    _found: dict[int, tuple[Index, Index]] = field(default_factory=dict)
    """The lanes of series, by the identity of these."""
    _parts: tuple[Part, ...] = ()
    _tally: Tally | None = None
    _moment: Moment | None = None
    _over: dict[float, tuple[F64, F64]] = field(default_factory=dict)

    def _lanes_of(self, series: Index) -> Index:
        """The lane of each series; -1 where there is none."""
        if not len(self._sorted):
            return np.full(series.shape, -1)
        place = np.minimum(np.searchsorted(self._sorted, series), len(self._sorted) - 1)
        return np.where(self._sorted[place] == series, self._order[place], -1)

    def _all_lanes_of(self, series: Index) -> Index:
        """The same, of series that will be asked for again."""
        known = self._found.get(id(series))
        if known is None or known[0] is not series:
            known = self._found[id(series)] = series, self._lanes_of(series)
        return known[1]

    def _is_whole(self, series: Index) -> bool:
        if self._whole is not series and series.size == len(self.series) and (series.ravel() == self.series).all():
            self._whole = series
        return self._whole is series

    def step(self, t: float) -> None:
        """Takes in the tick."""
        self._learn()
        self._over.clear()
        self._tally = None
        self._moment = moment_of(self._parts)
        counted, times = self.panel.counted(self._at)
        time = self._moment.time if self._moment is not None and self._moment.whole else times
        self.ring.step(t, counted, time, lambda: self.panel.rhythm.usual(self._at))

    def _learn(self) -> None:
        rows = self.panel.rows[self.signal]
        if rows.version == self._version:
            return
        self._version = rows.version
        # Each series stands there once. Lanes keep their order: a new series gets a new lane at the end.
        found = np.sort(rows.series[rows.series >= 0])
        self.series = np.concatenate((self.series, np.setdiff1d(found, self.series, assume_unique=True)))
        first, size = int(self.series.min()), len(self.series)
        self._order = np.argsort(self.series, kind="stable")
        self._sorted = self.series[self._order]
        self._whole = None
        straight = bool((self.series == np.arange(first, first + size)).all())
        self._at = slice(first, first + size) if straight else self.series
        self._parts = self.panel.parts.under(self.series)
        self._found.clear()
        self.ring.expected = self.panel.entities.count(kind_of(self.panel.signals[self.signal].entity))

    def over(self, window: float, series: Index) -> tuple[F64, F64]:
        """(increase, seconds) of each series over a window; NaN where too little is known."""
        if window not in self._over:
            if self._tally is None:
                self._tally = self.panel.tally(self._at, self._moment)
            self._over[window] = self.ring.over(window, self._tally)
        more, since = self._over[window]
        if self._is_whole(series):
            return more.reshape(series.shape), since.reshape(series.shape)
        lane = self._all_lanes_of(series)
        more = np.append(more, np.nan)[lane]
        # Where all were read in the same time, who has no lane still has no increase.
        return more, even(since[0], *lane.shape) if is_even(since) else np.append(since, np.nan)[lane]

    def some(self, window: float, series: Index) -> tuple[F64, F64]:
        """The same as `over`, where only these series will be asked for."""
        if window in self._over:
            return self.over(window, series)
        lane = self._lanes_of(series)
        there = lane >= 0
        more, since = np.full((2, *series.shape), np.nan)
        if there.any():
            more[there], since[there] = self.ring.over(window, self.panel.tally(series[there]), lane[there])
        return more, since


class Rate:
    """Increase of a counter per second; an entity's several counters folded into one."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        (self.window,), signal = expr.params, expr.args[0]
        self.chosen = Chosen(signal, shared)
        self.lanes = shared.counted(signal.name, self.window)
        self.fold = FOLDS[shared.panel.signals[signal.name].fold]
        self.factor = signal.value

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        series = self.chosen.series()
        return self._of(series, self.lanes.over)

    def part(self, some: Some, ask: Ask) -> F64:  # noqa: ARG002
        return self._of(self.chosen.series()[:, some.at], self.lanes.some)

    def _of(self, series: Index, over: Over) -> F64:
        if not len(series):
            return np.full(series.shape[1], np.nan)
        more, since = over(self.window, series)
        if len(series) == 1:
            return _times(more[0] / since[0], self.factor)
        return self.fold(more / since, series >= 0) * self.factor


class Buckets:
    """What a histogram's counters say about the observations of a window."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        signal = expr.args[0]
        self.quantile = expr.params[0] if expr.name == "bucket_quantile" else None
        self.window = expr.params[-1]
        self.chosen = Chosen(signal, shared)
        self.lanes = shared.counted(signal.name, self.window)
        self.factor = signal.value
        self._known = -1
        self._rows: dict[str | float, list[int]] = {}
        self._bounds: list[float] = []

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        return self._of(self.chosen.series(), self.lanes.over)

    def part(self, some: Some, ask: Ask) -> F64:  # noqa: ARG002
        return self._of(self.chosen.series()[:, some.at], self.lanes.some)

    def _of(self, series: Index, over: Over) -> F64:
        self._learn()
        more, _ = over(self.window, series)
        if self.quantile is None:
            counted = self._counted(("sum", "count"), more, series)
            mean: F64 = counted[0] / _some(counted[1]) * self.factor
            return mean
        if not self._bounds:
            return np.full(series.shape[1], np.nan)
        below = self._counted(self._bounds, more, series)
        return quantile_of(np.array(self._bounds), below, self.quantile) * self.factor

    def _learn(self) -> None:
        """Which rows are of which part, whenever there are new ones."""
        if len(self.chosen.selectors) == self._known:
            return
        self._known = len(self.chosen.selectors)
        self._rows = {"sum": [], "count": []}
        for n, selector in enumerate(self.chosen.selectors):
            part = selector.rpartition(",")[2].strip()
            bound = upper_bound(part)
            self._rows.setdefault(part if bound is None else bound, []).append(n)
        self._bounds = sorted(part for part in self._rows if isinstance(part, float))

    def _counted(self, parts: Sequence[str | float], more: F64, series: Index) -> F64:
        """[parts, entities] how much some parts counted."""
        rows = [self._rows[part] for part in parts]
        if all(len(some) == 1 for some in rows):
            alone = [row for some in rows for row in some]
            return np.where(series[alone] >= 0, more[alone], np.nan)
        return np.stack([_summed(more[some], series[some] >= 0) for some in rows])


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
