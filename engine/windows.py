"""Windows over samples of one value of each of many entities, and what is asked of them.

Columns are entities, of one expression or of many side by side; a statistic is asked for some of them.
"""

from collections.abc import Callable, Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.features import added
from skewscope.engine.rhythm import LONGEST, Rhythm, longer, or_zero, usual
from skewscope.engine.ring import ALL, FEW, PLAIN, RUNNING, SLOTS, At, Back, Ring, Steps, latest, slot_for
from skewscope.engine.sets import F64, LARGEST


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
            layers["last"][own, at] = latest(value, layers["last"][own, at])

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
            since = self._t - self.first[at] + or_zero(self.rhythm.period[: self.size][at])
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


_written: Mapping[str, Callable[[F64, F64, F64], F64]] = {
    "sum": lambda row, away, _: row + away,
    "count": lambda row, _, __: row + 1.0,
    "square": lambda row, away, _: row + away * away,
    "low": lambda row, _, value: np.fmin(row, value),
    "high": lambda row, _, value: np.fmax(row, value),
    "last": lambda _, __, value: value,
}
"""What a slot becomes by a sample, from (slot, distance to the reference, value)."""
