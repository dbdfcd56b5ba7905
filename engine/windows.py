"""Windows over samples: rings whose slots hold what came in a stretch of time, so that a window costs two rows.

A ring has at most `SLOTS` slots, whatever the window and the period: a slot is as long as a fraction of the window, and
becomes longer where series are sampled more rarely. A window's edge is therefore exact to one slot.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.rhythm import LONGEST, Rhythm, longer
from skewscope.engine.sets import F64, LARGEST

SLOTS = 40
PER_WINDOW = 24
"""A window is cut into about this many slots, where samples are that frequent."""
FEW = 3.0
"""A window is never shorter than so many periods."""

SOON = 16
"""The slots are fitted to the periods at each of the first steps, and then once in so many."""

Steps = NDArray[np.intp]
Merge = Callable[[F64, F64], F64]


def slot_of(window: float, tick: float) -> float:
    """Length of the slots in which a window is kept: the tick, doubled until the window has few enough."""
    doublings = max(0, int(np.ceil(np.log2(window / tick / PER_WINDOW)))) if window > tick else 0
    return tick * 2.0**doublings


class Ring:
    """The last slots of several layers, each [slots, n].

    Running layers are sums since the beginning: a window is a difference. Carried layers hold what was true at the end
    of a slot. Without any of those, the layers low, high and last hold a slot's own samples.
    """

    def __init__(self, tick: float, slot: float, running: Iterable[str], carried: Iterable[str] = ()) -> None:
        self.tick = tick
        self.slot = slot
        self.now = -1
        """Number of the current slot since the first sample; -1 before it."""
        self.size = 0
        self._origin = np.nan
        self._running = tuple(running)
        self._merge: Mapping[str, Merge] = {} if carried else _merge
        names = (*self._running, *carried, *self._merge)
        self.layers: dict[str, F64] = {name: np.empty((SLOTS, 0)) for name in names}

    def grow(self, size: int) -> None:
        """Makes room for `size` entities."""
        if size > self.size:
            self.layers = {name: longer(layer, size) for name, layer in self.layers.items()}
            for name in self._running:
                self.layers[name][:, self.size :] = 0.0
            self.size = size

    def advance(self, t: float) -> None:
        """Makes the slot of time `t` the current one."""
        if np.isnan(self._origin):
            self._origin = t
        then, self.now = self.now, max(self.now, int((t - self._origin) / self.slot + 1e-6), 0)
        for k in range(max(then + 1, self.now - SLOTS + 1), self.now + 1):
            self._open(k)

    def _open(self, k: int) -> None:
        for name, layer in self.layers.items():
            if name in self._running or name not in self._merge:
                layer[k % SLOTS] = layer[(k - 1) % SLOTS]
            else:
                layer[k % SLOTS] = np.nan
        if k % SLOTS == 0:
            # What all rows share is taken off, or a sum would lose its last digits in the course of months.
            for name in self._running:
                self.layers[name] -= self.layers[name][(k + 1) % SLOTS].copy()

    def behind(self, t: float, time: F64) -> Steps:
        """How many slots before that of the tick `t` the slots of earlier samples are."""
        ends = t - self.tick * np.floor((t - time) / self.tick + 1e-6)
        found: Steps = self.now - ((ends - self._origin) / self.slot + 1e-6).astype(np.intp)
        return np.maximum(found, 0)

    def row(self, name: str) -> F64:
        """The current slot of a layer, to write to."""
        found: F64 = self.layers[name][self.now % SLOTS]
        return found

    def back(self, name: str, steps: Steps) -> F64:
        """What a layer held so many slots ago, for each entity."""
        layer, steps = self.layers[name], np.minimum(steps, min(self.now + 1, SLOTS - 1))
        if len(steps) and steps[0] == steps[-1] and (steps == steps[0]).all():
            row: F64 = layer[(self.now - int(steps[0])) % SLOTS]
            return row
        found: F64 = layer[(self.now - steps) % SLOTS, np.arange(len(steps))]
        return found

    def summed(self, name: str, steps: Steps, skip: Steps | None = None) -> F64:
        """Sum of a running layer over `steps` slots, the last ones or those before the last `skip`."""
        if skip is None:
            return self.row(name) - self.back(name, steps)
        return self.back(name, skip) - self.back(name, steps + skip)

    def slots(self, name: str, steps: Steps) -> F64:
        """[slots, n] a plain layer, oldest first; NaN where a slot lies before the entity's window."""
        deepest = int(min(steps.max(initial=1), self.now + 1, SLOTS))
        rows = (self.now - np.arange(deepest)[::-1]) % SLOTS
        found = self.layers[name][rows]
        if (steps < deepest).any():
            found[np.arange(deepest)[::-1, None] >= steps[None, :]] = np.nan
        return found

    def steps(self, window: float, period: F64) -> Steps:
        """How many slots a window has for each entity, widened to a few of its periods."""
        wide = np.fmax(window, FEW * np.minimum(period, LONGEST))
        # A slot longer than a tick is mostly not yet full: one alone would see too little.
        least = 2 if self.slot > self.tick else 1
        found: Steps = np.clip(np.ceil(wide / self.slot - 1e-6), least, SLOTS - 1).astype(np.intp)
        return found

    def coarsen(self, longest: float) -> None:
        """Doubles the slots until the ring reaches `longest` seconds back."""
        while longest > self.slot * (SLOTS - 2):
            self._double()

    def _double(self) -> None:
        then, self.now, self.slot = self.now, self.now // 2 if self.now >= 0 else -1, self.slot * 2
        if then < 0:
            return
        oldest = max(then - SLOTS + 1, 0)
        old = {name: layer.copy() for name, layer in self.layers.items()}
        for k in range(max(self.now - SLOTS + 1, 0), self.now + 1):
            first, last = max(2 * k, oldest), min(max(2 * k + 1, oldest), then)
            for name, layer in self.layers.items():
                merge = self._merge.get(name)
                pair = old[name][first % SLOTS], old[name][last % SLOTS]
                layer[k % SLOTS] = merge(*pair) if merge and 2 * k + 1 >= oldest else pair[1]
        # What lies before the ring's past reads as empty: no more sums than at its oldest slot, no values.
        for name, layer in self.layers.items():
            layer[self.now + 1 :] = old[name][oldest % SLOTS] * float(oldest > 0) if name in self._running else np.nan


class Track:
    """The recent samples of one value of each entity of a kind."""

    def __init__(self, tick: float, slot: float) -> None:
        self.tick = tick
        self.ring = Ring(tick, slot, ("sum", "count", "square"))
        self.time: F64 = np.empty(0)
        """Of the last sample."""
        self.first: F64 = np.empty(0)
        self.corrected = -np.inf
        """Up to when late samples have been put into their slots."""
        self.rhythm = Rhythm(tick)
        self.reach = 0.0
        self._reference: F64 = np.empty(0)
        self._size = 0
        self._taken = 0
        self._value: F64 = np.empty(0)
        self._t = -np.inf

    def want(self, window: float) -> None:
        """Keeps enough for a window."""
        self.reach = max(self.reach, window)
        self.ring.coarsen(self.reach)

    def grow(self, size: int) -> None:
        """Makes room for `size` entities."""
        self.ring.grow(size)
        self.time, self.first = longer(self.time, size), longer(self.first, size)
        self._reference = longer(self._reference, size)
        self.rhythm.grow(size)
        self._size = size

    def step(self, t: float, value: F64, time: F64) -> None:
        """Takes in the values whose time is later than what was taken in before; the same ones at one tick once."""
        if value is self._value and t == self._t:
            return
        self._value, self._t = value, t
        if len(value) > self._size:
            self.grow(len(value))
        self.ring.advance(t)
        new = (np.abs(value) <= LARGEST) & ~(time <= self.time) & ~np.isnan(time)
        at = np.flatnonzero(new)
        if not len(at):
            return
        self.rhythm.learn(at, time[at] - self.time[at])
        self.time[at] = time[at]
        self.first[at] = np.fmin(self.first[at], time[at])
        self._reference[at] = np.where(np.isnan(self._reference[at]), value[at], self._reference[at])
        self._write(at, value[at])
        if _now_and_then(self._taken):
            self.ring.coarsen(max(self.reach, FEW * min(_usual(self.rhythm.settled()), LONGEST)))
        self._taken += 1

    def _write(self, at: Steps, value: F64) -> None:
        # Squares are of the distance to the first value seen: far from zero they would lose all their digits.
        away = value - self._reference[at]
        row = self.ring.row
        row("sum")[at] += away
        row("count")[at] += 1.0
        row("square")[at] += away * away
        row("low")[at] = np.fmin(row("low")[at], value)
        row("high")[at] = np.fmax(row("high")[at], value)
        row("last")[at] = value

    def late(self, t: float, at: Steps, time: F64, value: F64) -> None:
        """Puts samples that came after later ones of their series into the slots of their time."""
        good = (np.abs(value) <= LARGEST) & ~np.isnan(self._reference[at])
        behind = self.ring.behind(t, time)
        good &= behind < min(SLOTS - 1, self.ring.now + 1)
        at, behind, value = at[good], behind[good], value[good]
        away = value - self._reference[at]
        # A running sum grows in every slot from the sample's own on.
        sample = np.repeat(np.arange(len(at)), behind + 1)
        back = np.arange(len(sample)) - np.repeat(np.cumsum(behind + 1) - behind - 1, behind + 1)
        rows, columns = (self.ring.now - back) % SLOTS, at[sample]
        for name, amount in (("sum", away), ("count", np.ones_like(away)), ("square", away * away)):
            np.add.at(self.ring.layers[name], (rows, columns), amount[sample])
        own, last = (self.ring.now - behind) % SLOTS, self.ring.layers["last"]
        np.fmin.at(self.ring.layers["low"], (own, at), value)
        np.fmax.at(self.ring.layers["high"], (own, at), value)
        last[own, at] = _latest(value, last[own, at])

    # --- windows

    def steps(self, window: float) -> Steps:
        """Slots of a window for each entity."""
        return self.ring.steps(window, self.rhythm.period[: self._size])

    def fresh(self, t: float, window: float, least: int) -> tuple[Steps, NDArray[np.bool_]]:
        """A window's slots, and for whom it holds enough: young enough, filled by half, with `least` samples."""
        steps = self.steps(window)
        enough = self.ring.summed("count", steps) >= least
        young = t - self.time <= self.rhythm.horizon[: self._size]
        # One period more: the first sample already stands for the time before it.
        filled = t - self.first + _or_zero(self.rhythm.period[: self._size]) >= window / 2
        return steps, enough & young & filled

    def mean(self, steps: Steps, skip: Steps | None = None) -> F64:
        """Mean of a window; NaN where it is empty."""
        count = self.ring.summed("count", steps, skip)
        away: F64 = np.full(self._size, np.nan)
        np.divide(self.ring.summed("sum", steps, skip), count, out=away, where=count > 0.5)
        mean: F64 = self._reference + away
        return mean

    def variance(self, steps: Steps) -> F64:
        """Variance of a window; NaN where it is empty."""
        count = np.where(self.ring.summed("count", steps) > 0.5, self.ring.summed("count", steps), np.nan)
        mean = self.ring.summed("sum", steps) / count
        return np.maximum(self.ring.summed("square", steps) / count - mean * mean, 0.0)

    def slope(self, steps: Steps) -> F64:
        """Change per second, least squares over the slots of a window."""
        y = self.ring.slots("last", steps)
        x = (np.arange(len(y), dtype=np.float64) * self.ring.slot)[:, None] + np.zeros_like(y)
        known = ~np.isnan(y)
        count = known.sum(axis=0)
        x, y = np.where(known, x, 0.0), np.where(known, y - self._reference, 0.0)
        top = count * (x * y).sum(axis=0) - x.sum(axis=0) * y.sum(axis=0)
        below = count * (x * x).sum(axis=0) - x.sum(axis=0) ** 2
        found = np.full(self._size, np.nan)
        np.divide(top, below, out=found, where=below > 0)
        return found

    def quantile(self, steps: Steps, q: float) -> F64:
        """A quantile of the last samples of a window's slots, between neighbours by straight line."""
        ordered = np.sort(self.ring.slots("last", steps), axis=0)
        count = (~np.isnan(ordered)).sum(axis=0)
        place = q * np.maximum(count - 1, 0)
        low = np.floor(place).astype(np.intp)
        high = np.minimum(low + 1, np.maximum(count - 1, 0))
        a, b = (np.take_along_axis(ordered, n[None, :], axis=0)[0] for n in (low, high))
        found: F64 = a + (b - a) * (place - low)
        return found


def _or_zero(x: F64) -> F64:
    return np.where(np.isnan(x), 0.0, x)


def _now_and_then(taken: int) -> bool:
    return taken < SOON or taken % SOON == 0


def _usual(period: F64) -> float:
    """The period that nine of ten series do not exceed; 0 where none is known."""
    known = period[~np.isnan(period)]
    place = len(known) * 9 // 10
    return float(np.partition(known, place)[place]) if len(known) else 0.0


def _latest(a: F64, b: F64) -> F64:
    found: F64 = np.where(np.isnan(b), a, b)
    return found


_merge: Mapping[str, Merge] = {"low": np.fmin, "high": np.fmax, "last": _latest}


class Counted:
    """What counters counted: how much more, and in what time, since some while ago. One lane for each series."""

    def __init__(self, tick: float, slot: float) -> None:
        self.ring = Ring(tick, slot, (), ("sum", "time"))
        self.reach = 0.0
        self._taken = 0

    def want(self, window: float) -> None:
        """Keeps enough for a window."""
        self.reach = max(self.reach, window)
        self.ring.coarsen(self.reach)

    def step(self, t: float, tally: "Tally") -> None:
        """Takes in how the counters stand."""
        self.ring.grow(len(tally.sum))
        self.ring.advance(t)
        self.ring.row("sum")[:] = tally.sum
        self.ring.row("time")[:] = tally.time
        if _now_and_then(self._taken):
            self.ring.coarsen(max(self.reach, FEW * min(_usual(tally.settled), LONGEST)))
        self._taken += 1

    def over(self, window: float, tally: "Tally") -> tuple[F64, F64]:
        """(increase, seconds) from the last sample before the window, or since counting began; NaN where too short."""
        steps = self.ring.steps(window, tally.period)
        sums, times = self.ring.back("sum", steps), self.ring.back("time", steps)
        short = ~(times >= tally.born)
        since = tally.time - np.where(short, tally.born, times)
        more = tally.sum - np.where(short, tally.born_sum, sums)
        wide = np.fmax(window, FEW * np.minimum(tally.period, LONGEST))
        good = tally.fresh & (since > 0) & (since + _or_zero(tally.period) >= wide / 2)
        return np.where(good, more, np.nan), np.where(good, since, np.nan)


@dataclass(frozen=True, slots=True)
class Tally:
    """How counters stand: how much they counted since `born`, up to the sample at `time`."""

    sum: F64
    time: F64
    born: F64
    born_sum: F64
    period: F64
    settled: F64
    """The periods that rest on several intervals."""
    fresh: NDArray[np.bool_]
