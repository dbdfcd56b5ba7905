"""Windows over samples: rings whose slots hold what came in a stretch of time, so that a window costs two rows.

A ring has at most `SLOTS` slots, whatever the window and the period: a slot is as long as a fraction of the window, and
becomes longer where series are sampled more rarely. A window's edge is therefore exact to one slot. Columns are
entities, of one expression or of many side by side; a statistic is asked for some of them.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.features import added
from skewscope.engine.rhythm import LONGEST, Rhythm, longer, usual
from skewscope.engine.sets import F64, LARGEST

SLOTS = 40
LEAN = (8, 16)
"""So few slots are kept of what has more than `WIDE` columns: the edges of its longer windows are less exact."""
WIDE = 1 << 13
PER_WINDOW = 24
"""A window is cut into about this many slots, where samples are that frequent."""
FEW = 3.0
"""A window is never shorter than so many periods."""

SOON = 16
"""The slots are fitted to the periods at each of the first steps, and then once in so many."""

Steps = NDArray[np.intp]
Back = Steps | int
"""How many slots, for each column or for all."""
At = slice | Steps
"""Some columns."""
ALL = slice(None)
Merge = Callable[[F64, F64], F64]

RUNNING = ("sum", "count", "square")
PLAIN = ("low", "high", "last")


def slot_of(window: float, tick: float) -> float:
    """Length of the slots in which a window is kept: the tick, doubled until the window has few enough."""
    doublings = max(0, int(np.ceil(np.log2(window / tick / PER_WINDOW)))) if window > tick else 0
    return tick * 2.0**doublings


def depth_for(columns: int, reach: float, slot: float) -> int:
    """How many slots are kept of so many columns, for windows of `reach` seconds."""
    if columns <= WIDE:
        return SLOTS
    return next((depth for depth in LEAN if reach <= slot * (depth - 2)), LEAN[-1])


def slot_for(slot: float, longest: float, depth: int = SLOTS) -> float:
    """The slots doubled until a ring of so many of them reaches `longest` seconds back."""
    while longest > slot * (depth - 2):
        slot *= 2
    return slot


class Ring:
    """The last slots of several layers, each [slots, n].

    Running layers are sums since the beginning: a window is a difference. Carried layers hold what was true at the end
    of a slot. The layers low, high and last hold a slot's own samples.
    """

    def __init__(
        self, tick: float, slot: float, layers: Iterable[str], origin: float = np.nan, depth: int = SLOTS
    ) -> None:
        self.tick = tick
        self.slot = slot
        self.depth = depth
        """How many slots there are."""
        self.now = -1
        """Number of the current slot since the first sample; -1 before it."""
        self.size = 0
        self.origin = origin
        names = tuple(layers)
        self._running = tuple(name for name in names if name in RUNNING)
        self._carried = tuple(name for name in names if name not in (*RUNNING, *PLAIN))
        self._plain = tuple(name for name in names if name in PLAIN)
        self.layers: dict[str, F64] = {
            # Counts are small whole numbers.
            name: np.empty((depth, 0), np.float32 if name == "count" else np.float64)
            for name in names
        }

    def grow(self, size: int) -> None:
        """Makes room for `size` columns."""
        if size > self.size:
            self.layers = {name: longer(layer, size) for name, layer in self.layers.items()}
            for name in self._running:
                self.layers[name][:, self.size :] = 0.0
            self.size = size

    def advance(self, t: float) -> None:
        """Makes the slot of time `t` the current one."""
        if np.isnan(self.origin):
            self.origin = t
        then, self.now = self.now, max(self.now, int((t - self.origin) / self.slot + 1e-6), 0)
        for k in range(max(then + 1, self.now - self.depth + 1), self.now + 1):
            self._open(k)

    def _open(self, k: int) -> None:
        new, old = k % self.depth, (k - 1) % self.depth
        for name in (*self._running, *self._carried):
            self.layers[name][new] = self.layers[name][old]
        for name in self._plain:
            self.layers[name][new] = np.nan
        # What all rows share is taken off, or a sum would lose its last digits in the course of months. Every column
        # has its turn once in a round of slots: all at one tick would make that tick a long one.
        turn = slice(self.size * new // self.depth, self.size * (new + 1) // self.depth)
        for name in self._running:
            self.layers[name][:, turn] -= self.layers[name][(k + 1) % self.depth, turn].copy()

    def behind(self, t: float, time: F64) -> Steps:
        """How many slots before that of the tick `t` the slots of earlier samples are."""
        ends = t - self.tick * np.floor((t - time) / self.tick + 1e-6)
        found: Steps = self.now - ((ends - self.origin) / self.slot + 1e-6).astype(np.intp)
        return np.maximum(found, 0)

    def row(self, name: str) -> F64:
        """The current slot of a layer, to write to."""
        found: F64 = self.layers[name][self.now % self.depth]
        return found

    def back(self, name: str, steps: Back, at: At = ALL) -> F64:
        """What a layer held so many slots ago, for each of some columns."""
        layer, most = self.layers[name], min(self.now + 1, self.depth - 1)
        if isinstance(steps, int):
            row: F64 = layer[(self.now - min(steps, most)) % self.depth][at]
            return row
        columns = np.arange(self.size)[at] if isinstance(at, slice) else at
        found: F64 = layer[(self.now - np.minimum(steps, most)) % self.depth, columns]
        return found

    def summed(self, name: str, steps: Back, skip: Back | None = None, at: At = ALL) -> F64:
        """Sum of a running layer over `steps` slots, the last ones or those before the last `skip`."""
        if skip is None:
            return self.row(name)[at] - self.back(name, steps, at)
        return self.back(name, skip, at) - self.back(name, steps + skip, at)

    def slots(self, name: str, steps: Back, at: At = ALL) -> F64:
        """[slots, n] a plain layer, oldest first; NaN where a slot lies before the column's window."""
        longest = steps if isinstance(steps, int) else int(steps.max(initial=1))
        deepest = min(longest, self.now + 1, self.depth)
        rows = (self.now - np.arange(deepest)[::-1]) % self.depth
        found = self.layers[name][rows, at] if isinstance(at, slice) else self.layers[name][rows[:, None], at]
        if not isinstance(steps, int) and (steps < deepest).any():
            found[np.arange(deepest)[::-1, None] >= steps[None, :]] = np.nan
        return found

    def steps(self, window: float, period: F64) -> Steps:
        """How many slots a window has for each column, widened to a few of its periods."""
        slots = np.ceil(widened(window, period) / self.slot - 1e-6)
        return np.clip(slots, self._least, self.depth - 1).astype(np.intp)

    def every(self, window: float) -> int:
        """How many slots a window has that needs not be widened."""
        return min(max(math.ceil(window / self.slot - 1e-6), self._least), self.depth - 1)

    @property
    def _least(self) -> int:
        # A slot longer than a tick is mostly not yet full: one alone would see too little.
        return 2 if self.slot > self.tick else 1

    def coarsen(self, longest: float) -> None:
        """Doubles the slots until the ring reaches `longest` seconds back."""
        while longest > self.slot * (self.depth - 2):
            self._double()

    def _double(self) -> None:
        then, self.now, self.slot = self.now, self.now // 2 if self.now >= 0 else -1, self.slot * 2
        if then < 0:
            return
        oldest = max(then - self.depth + 1, 0)
        old = {name: layer.copy() for name, layer in self.layers.items()}
        for k in range(max(self.now - self.depth + 1, 0), self.now + 1):
            first, last = max(2 * k, oldest), min(max(2 * k + 1, oldest), then)
            for name, layer in self.layers.items():
                merge = _merge.get(name)
                pair = old[name][first % self.depth], old[name][last % self.depth]
                layer[k % self.depth] = merge(*pair) if merge and 2 * k + 1 >= oldest else pair[1]
        # What lies before the ring's past reads as empty: no more sums than at its oldest slot, no values.
        for name, layer in self.layers.items():
            layer[self.now + 1 :] = (
                old[name][oldest % self.depth] * float(oldest > 0) if name in self._running else np.nan
            )


class Track:
    """The recent samples of one value of each of many entities, as far as some statistics need them."""

    def __init__(
        self,
        tick: float,
        slot: float,
        layers: Collection[str] = (*RUNNING, *PLAIN),
        origin: float = np.nan,
        depth: int = SLOTS,
    ) -> None:
        self.tick = tick
        self.layers = tuple(layers)
        self.ring = Ring(tick, slot, sorted({"count", *layers}), origin, depth)
        self.time: F64 = np.empty(0)
        """Of the last sample."""
        self.first: F64 = np.empty(0)
        self.rhythm = Rhythm(tick)
        self.size = 0
        self._reference: F64 = np.empty(0)
        self._began = -np.inf
        """By when all have had a sample."""
        self._t = -np.inf
        self._young: NDArray[np.bool_] | None = None

    def grow(self, size: int) -> None:
        """Makes room for `size` entities."""
        self.ring.grow(size)
        self.time, self.first = longer(self.time, size), longer(self.first, size)
        self._reference = longer(self._reference, size)
        self.rhythm.grow(size)
        self.size = size
        self._began = np.inf

    def step(self, t: float, value: F64, time: F64) -> None:
        """Takes in the values whose time is later than what was taken in before."""
        self._t, self._young = t, None
        if len(value) > self.size:
            self.grow(len(value))
        self.ring.advance(t)
        new = (np.abs(value) <= LARGEST) & ~(time <= self.time) & ~np.isnan(time)
        if new.all():
            self._take(ALL, value, time)
            return
        at = np.flatnonzero(new)
        if len(at):
            self._take(at, value[at], time[at])

    def _take(self, at: At, value: F64, time: F64) -> None:
        self.rhythm.learn(at, time - self.time[at])
        self.time[at] = time
        if self._began == np.inf:
            self.first[at] = np.fmin(self.first[at], time)
            self._reference[at] = np.where(np.isnan(self._reference[at]), value, self._reference[at])
            self._began = np.inf if np.isnan(self.first).any() else float(self.first.max(initial=-np.inf))
        # Squares are of the distance to the first value seen: far from zero they would lose all their digits.
        away = value - self._reference[at]
        for name in self.ring.layers:
            row = self.ring.row(name)
            row[at] = _written[name](row[at], away, value)

    def late(self, t: float, at: Steps, time: F64, value: F64) -> None:
        """Puts samples that came after later ones of their series into the slots of their time."""
        good = (np.abs(value) <= LARGEST) & ~np.isnan(self._reference[at])
        behind = self.ring.behind(t, time)
        good &= behind < min(self.ring.depth - 1, self.ring.now + 1)
        at, behind, value = at[good], behind[good], value[good]
        away = value - self._reference[at]
        # A running sum grows in every slot from the sample's own on.
        sample = np.repeat(np.arange(len(at)), behind + 1)
        back = np.arange(len(sample)) - np.repeat(np.cumsum(behind + 1) - behind - 1, behind + 1)
        rows, columns = (self.ring.now - back) % self.ring.depth, at[sample]
        for name, amount in (("sum", away), ("count", np.ones_like(away)), ("square", away * away)):
            if name in self.ring.layers:
                np.add.at(self.ring.layers[name], (rows, columns), amount[sample])
        self._late_values((self.ring.now - behind) % self.ring.depth, at, value)

    def _late_values(self, own: Steps, at: Steps, value: F64) -> None:
        layers = self.ring.layers
        if "low" in layers:
            np.fmin.at(layers["low"], (own, at), value)
        if "high" in layers:
            np.fmax.at(layers["high"], (own, at), value)
        if "last" in layers:
            layers["last"][own, at] = _latest(value, layers["last"][own, at])

    def paste(self, begin: int, other: "Track", at: slice) -> None:
        """Goes on, from column `begin`, with what another track remembered of some entities.

        Its slots are no longer than these, and count from the same time.
        """
        if other.ring.now < 0:
            return
        into = slice(begin, begin + at.stop - at.start)
        ring = Ring(self.tick, other.ring.slot, other.ring.layers, other.ring.origin, other.ring.depth)
        ring.now, ring.size = other.ring.now, at.stop - at.start
        ring.layers = {name: layer[:, at].copy() for name, layer in other.ring.layers.items()}
        while ring.slot < self.ring.slot:
            ring.coarsen(ring.slot * ring.depth)
        self.ring.now = ring.now
        for name in self.ring.layers.keys() & ring.layers.keys():
            self.ring.layers[name][:, into] = (
                ring.layers[name] if ring.depth == self.ring.depth else self._fitted(ring, name)
            )
        self.time[into], self.first[into] = other.time[at], other.first[at]
        self._reference[into] = other._reference[at]  # noqa: SLF001 - one of its own kind
        self.rhythm.paste(into, other.rhythm, at)
        self._t = other._t  # noqa: SLF001

    def _fitted(self, ring: Ring, name: str) -> F64:
        """A layer of a ring of another depth, as it would be in this one."""
        old, depth = ring.layers[name], self.ring.depth
        oldest = max(ring.now - min(ring.depth, depth) + 1, 0)
        # What lies before the past that there is reads as empty.
        empty = old[oldest % ring.depth] * float(oldest > 0) if name in RUNNING else np.full(ring.size, np.nan)
        found = np.tile(empty, (depth, 1))
        for k in range(oldest, ring.now + 1):
            found[k % depth] = old[k % ring.depth]
        return found

    def fitting(self, at: slice, reach: float) -> float:
        """How long the slots of some entities should be, for windows of `reach` seconds and their usual period."""
        longest = max(reach, FEW * min(usual(self.rhythm.settled(at)), LONGEST))
        return slot_for(self.ring.slot, longest, self.ring.depth)

    # --- windows

    def reaches(self, past: float, at: At = ALL) -> NDArray[np.bool_]:
        """Who had its first sample so long ago."""
        found: NDArray[np.bool_] = self._t - self.first[at] >= past
        return found

    def steps(self, window: float, at: At = ALL) -> Back:
        """Slots of a window for each entity, or for all where they are the same."""
        if isinstance(at, slice) and FEW * min(self.rhythm.longest(at), LONGEST) <= window:
            return self.ring.every(window)
        return self.ring.steps(window, self.rhythm.period[: self.size][at])

    def fresh(self, window: float, least: int, at: At = ALL) -> tuple[Back, F64, NDArray[np.bool_]]:
        """(a window's slots, its samples, for whom it holds enough): young, filled by half, with `least` samples."""
        steps = self.steps(window, at)
        count = self.ring.summed("count", steps, at=at)
        if self._young is None:
            self._young = self._t - self.time <= self.rhythm.horizon[: self.size]
        enough = (count >= least) & self._young[at]
        if self._t - self._began < window / 2:
            # One period more: the first sample already stands for the time before it.
            since = self._t - self.first[at] + _or_zero(self.rhythm.period[: self.size][at])
            enough &= since >= window / 2
        return steps, count, enough

    def mean(self, steps: Back, skip: Back | None = None, at: At = ALL, count: F64 | None = None) -> F64:
        """Mean of a window; NaN where it is empty."""
        if count is None:
            count = self.ring.summed("count", steps, skip, at)
        away: F64 = np.full(len(count), np.nan)
        np.divide(self.ring.summed("sum", steps, skip, at), count, out=away, where=count > 0.5)
        mean: F64 = self._reference[at] + away
        return mean

    def variance(self, steps: Back, at: At = ALL) -> F64:
        """Variance of a window; NaN where it is empty."""
        count = self.ring.summed("count", steps, at=at)
        count = np.where(count > 0.5, count, np.nan)
        mean = self.ring.summed("sum", steps, at=at) / count
        return np.maximum(self.ring.summed("square", steps, at=at) / count - mean * mean, 0.0)

    def slope(self, steps: Back, at: At = ALL) -> F64:
        """Change per second, least squares over the slots of a window."""
        y = self.ring.slots("last", steps, at)
        x = (np.arange(len(y), dtype=np.float64) * self.ring.slot)[:, None] + np.zeros_like(y)
        known = ~np.isnan(y)
        count = known.sum(axis=0)
        x, y = np.where(known, x, 0.0), np.where(known, y - self._reference[at], 0.0)
        top = count * added(x * y) - added(x) * added(y)
        below = count * added(x * x) - added(x) ** 2
        found = np.full(len(count), np.nan)
        np.divide(top, below, out=found, where=below > 0)
        return found

    def quantile(self, steps: Back, q: float, at: At = ALL) -> F64:
        """A quantile of the last samples of a window's slots, between neighbours by straight line."""
        ordered = np.sort(self.ring.slots("last", steps, at), axis=0)
        count = (~np.isnan(ordered)).sum(axis=0)
        place = q * np.maximum(count - 1, 0)
        low = np.floor(place).astype(np.intp)
        high = np.minimum(low + 1, np.maximum(count - 1, 0))
        a, b = (np.take_along_axis(ordered, n[None, :], axis=0)[0] for n in (low, high))
        found: F64 = a + (b - a) * (place - low)
        return found


def widened(window: float, period: F64) -> F64:
    """The window, no shorter than a few periods."""
    return np.fmax(window, FEW * np.minimum(period, LONGEST))


def _or_zero(x: F64) -> F64:
    return np.where(np.isnan(x), 0.0, x)


def _latest(a: F64, b: F64) -> F64:
    found: F64 = np.where(np.isnan(b), a, b)
    return found


_merge: Mapping[str, Merge] = {"low": np.fmin, "high": np.fmax, "last": _latest}

_written: Mapping[str, Callable[[F64, F64, F64], F64]] = {
    "sum": lambda row, away, _: row + away,
    "count": lambda row, _, __: row + 1.0,
    "square": lambda row, away, _: row + away * away,
    "low": lambda row, _, value: np.fmin(row, value),
    "high": lambda row, _, value: np.fmax(row, value),
    "last": lambda _, __, value: value,
}
"""What a slot becomes by a sample, from (slot, distance to the reference, value)."""


class Counted:
    """What counters counted: how much more, and in what time, since some while ago. One lane for each series."""

    def __init__(self, tick: float, slot: float) -> None:
        self.ring = Ring(tick, slot, ("counted", "time"))
        self.reach = 0.0
        self._taken = 0

    def want(self, window: float) -> None:
        """Keeps enough for a window."""
        self.reach = max(self.reach, window)
        self.ring.coarsen(self.reach)

    def step(self, t: float, counted: F64, time: F64, settled: Callable[[], F64]) -> None:
        """Takes in how much the counters counted, up to when; `settled` gives the periods that are known well."""
        if not self.ring.size and len(counted) > WIDE:
            self.ring = Ring(
                self.ring.tick,
                self.ring.slot,
                ("counted", "time"),
                depth=depth_for(len(counted), self.reach, self.ring.slot),
            )
            self.ring.coarsen(self.reach)
        self.ring.grow(len(counted))
        self.ring.advance(t)
        self.ring.row("counted")[:] = counted
        self.ring.row("time")[:] = time
        if self._taken < SOON or self._taken % SOON == 0:
            self.ring.coarsen(max(self.reach, FEW * min(usual(settled()), LONGEST)))
        self._taken += 1

    def over(self, window: float, tally: "Tally", at: At = ALL) -> tuple[F64, F64]:
        """(increase, seconds) from the last sample before the window, or since counting began; NaN where too short.

        `tally` is of the lanes `at`.
        """
        wide: F64 | float = window
        steps: Back = self.ring.every(window)
        if FEW * np.fmax.reduce(tally.period, initial=0.0) > window:
            steps, wide = self.ring.steps(window, tally.period), widened(window, tally.period)
        sums, times = self.ring.back("counted", steps, at), self.ring.back("time", steps, at)
        since, more = tally.time - times, tally.sum - sums
        short = ~(times >= tally.born)
        if short.any():
            since = np.where(short, tally.time - tally.born, since)
            more = np.where(short, tally.sum - tally.born_sum, more)
        good = tally.fresh & (since > 0)
        half = wide / 2
        if not (since >= half).all():
            good &= since + _or_zero(tally.period) >= half
        return (more, since) if good.all() else (np.where(good, more, np.nan), np.where(good, since, np.nan))


@dataclass(frozen=True, slots=True)
class Tally:
    """How counters stand: how much they counted since `born`, up to the sample at `time`."""

    sum: F64
    time: F64
    born: F64
    born_sum: F64
    period: F64
    fresh: NDArray[np.bool_]
