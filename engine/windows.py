"""Windows over samples of one value of each of many entities, and what is asked of them.

Columns are entities, of one expression or of many side by side; a statistic is asked for some of them.
"""

from collections.abc import Callable, Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.features import added
from skewscope.engine.order import quantile_down
from skewscope.engine.rhythm import LONGEST, Rhythm, longer, or_zero
from skewscope.engine.ring import ALL, FEW, PLAIN, RUNNING, SLOTS, At, Back, Ring, Steps, latest, slot_for
from skewscope.engine.sets import F64, LARGEST, Mask

BLOCK = 1 << 13
"""So many columns are taken in at a time: what is worked with should stay in the cache."""


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
        self.first: F64 = np.empty(0)
        self.rhythm = Rhythm(tick)
        self.size = 0
        self._time: F64 = np.empty(0)
        self._reference: F64 = np.empty(0)
        self._unborn = np.empty(0, bool)
        """Who has never had a sample."""
        self._births = 0
        self._began = -np.inf
        """By when all have had a sample who have had any."""
        self._t = -np.inf
        self._young: NDArray[np.bool_] | None = None
        self._newest = -np.inf
        """Time of the newest sample of all."""
        self._shared: float | None = None
        """The same, if it is that of all of `_who`."""
        self._who: Mask | None = None
        """None stands for all."""
        self._owed = False
        """Whether it is not yet written to the times of each."""
        self._everyone = False
        """Whether all who ever had a sample are among these."""
        self._full = 0
        """From this slot on, all had one sample at each step."""
        self._steady: tuple[tuple[int, int], float] = (-1, -1), np.nan

    @property
    def time(self) -> F64:
        """Of the last sample."""
        if self._owed and self._shared is not None:
            np.copyto(self._time, self._shared, where=True if self._who is None else self._who)
        self._owed = False
        return self._time

    def grow(self, size: int) -> None:
        """Makes room for `size` entities."""
        self._time = longer(self.time, size)
        self.ring.grow(size)
        self.first, self._reference = longer(self.first, size), longer(self._reference, size)
        self._unborn = np.isnan(self.first)
        self.rhythm.grow(size)
        self.size = size
        self._full = self.ring.now + 1

    def step(self, t: float, value: F64, time: F64 | float) -> None:
        """Takes in the values whose time is later than what was taken in before; one time may be that of all."""
        self._t, self._young = t, None
        if len(value) > self.size:
            self.grow(len(value))
        self.ring.advance(t)
        if not isinstance(time, float):
            self._apart(value, time)
        elif time > self._newest:
            self._together(value, time)
        elif time != self._newest or self._shared is None:
            self._apart(value, np.full(len(value), time))
        self.ring.settle()

    # --- samples of one time

    def _together(self, value: F64, time: float) -> None:
        sound = None
        if not (value.min(initial=0.0) >= -LARGEST and value.max(initial=0.0) <= LARGEST):
            sound = np.abs(value) <= LARGEST
            if not sound.any():
                return
        self._pace(sound, time)
        if self._owed and not _alike(sound, self._who):
            self._time = self.time
        self._newest, self._shared, self._who, self._owed = time, time, sound, True
        if (self._unborn if sound is None else self._unborn & sound).any():
            self._bear(ALL if sound is None else sound, value, time)
        self._everyone = sound is None or bool((sound | self._unborn).all())
        for begin in range(0, len(value), BLOCK):
            at = slice(begin, min(begin + BLOCK, len(value)))
            away = value[at] - self._reference[at]
            if sound is None:
                self.ring.take(value[at], away, None, at)
            else:
                there = sound[at]
                away[~there] = 0.0
                self.ring.take(np.where(there, value[at], np.nan), away, there, at)
        self.ring.taken()
        if sound is not None:
            self._full = self.ring.now + 1

    def _pace(self, sound: Mask | None, time: float) -> None:
        """Learns the intervals, unless they are what they have long been."""
        if self._shared is not None and _alike(sound, self._who) and time - self._newest == self._usual():
            return
        at = ALL if sound is None else np.flatnonzero(sound)
        self.rhythm.learn(at, time - self.time[at])

    def _usual(self) -> float:
        """The period of all who have had samples, if it is well known and the same; else NaN."""
        version = self.rhythm.version, self._births
        if self._steady[0] != version:
            self._steady = version, self.rhythm.common(~self._unborn)
        return self._steady[1]

    def _bear(self, at: At | Mask, value: F64, time: F64 | float) -> None:
        """Notes first samples; `value` is of all, `time` of those `at`."""
        new = np.zeros(self.size, bool)
        new[at] = self._unborn[at]
        self.first[new] = time if isinstance(time, float) else time[new[at]]
        self._reference[new] = value[new]
        self._unborn &= ~new
        self._births += 1
        self._began = float(np.fmax.reduce(self.first, initial=-np.inf))

    # --- samples of different times

    def _apart(self, value: F64, time: F64) -> None:
        self._full = self.ring.now + 1
        new = (np.abs(value) <= LARGEST) & ~(time <= self.time) & ~np.isnan(time)
        if new.all():
            self._take(ALL, value, time)
            return
        at = np.flatnonzero(new)
        if len(at):
            self._take(at, value, time[at])

    def _take(self, at: At, every: F64, time: F64) -> None:
        """Takes in samples of those `at`; `every` is the value of all, `time` of those."""
        self.rhythm.learn(at, time - self.time[at])
        if self._unborn[at].any():
            self._bear(at, every, time)
        self._time[at], self._shared = time, None
        self._newest = max(self._newest, float(time.max(initial=-np.inf)))
        value = every[at]
        # Squares are of the distance to the first value seen: far from zero they would lose all their digits.
        away = value - self._reference[at]
        for name in self.ring.layers:
            row = self.ring.row(name)
            row[at] = _written[name](row[at], away, value)

    def late(self, t: float, at: Steps, time: F64, value: F64) -> None:
        """Puts samples that came after later ones of their series into the slots of their time."""
        self._full = self.ring.now + 1
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
        self._unborn = np.isnan(self.first)
        self._births += 1
        self._began = float(np.fmax.reduce(self.first, initial=-np.inf))
        self._newest = max(self._newest, other._newest)  # noqa: SLF001
        self._full = self.ring.now + 1
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
        longest = max(reach, FEW * min(self.rhythm.usual(at), LONGEST))
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
        count = self._count(steps, None, at)
        enough = count >= least
        if not self._all_young():
            if self._young is None:
                self._young = self._t - self.time <= self.rhythm.horizon[: self.size]
            enough = enough & self._young[at]
        if self._t - self._began < window / 2:
            # One period more: the first sample already stands for the time before it.
            since = self._t - self.first[at] + or_zero(self.rhythm.period[: self.size][at])
            enough = enough & (since >= window / 2)
        return steps, count, enough

    def _all_young(self) -> bool:
        """Whether nobody's last sample is old, of those who have one."""
        return self._shared is not None and self._everyone and self._t - self._shared <= self.rhythm.shortest()

    def _count(self, steps: Back, skip: Back | None, at: At) -> F64:
        """Samples of a window; one number if that of all is the same."""
        if isinstance(steps, int) and skip is None and self.ring.now - steps + 1 >= self._full:
            at = slice(0, 1)
        return self.ring.summed("count", steps, skip, at)

    def mean(self, steps: Back, skip: Back | None = None, at: At = ALL, count: F64 | None = None) -> F64:
        """Mean of a window; NaN where it is empty."""
        if count is None:
            count = self._count(steps, skip, at)
        mean = self.ring.summed("sum", steps, skip, at)
        with np.errstate(all="ignore"):
            mean /= count
        mean += self._reference[at]
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
        if not isinstance(at, slice):
            return quantile_down(self.ring.slots("last", steps, at), q)
        begin, end, _ = at.indices(self.size)
        found = np.empty(end - begin)
        for first in range(0, end - begin, BLOCK):
            some = slice(first, min(first + BLOCK, end - begin))
            own = steps if isinstance(steps, int) else steps[some]
            found[some] = quantile_down(self.ring.slots("last", own, slice(begin + some.start, begin + some.stop)), q)
        return found


def _alike(one: Mask | None, other: Mask | None) -> bool:
    """Whether two masks are the same; None stands for all."""
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


_written: Mapping[str, Callable[[F64, F64, F64], F64]] = {
    "sum": lambda row, away, _: row + away,
    "count": lambda row, _, __: row + 1.0,
    "square": lambda row, away, _: row + away * away,
    "low": lambda row, _, value: np.fmin(row, value),
    "high": lambda row, _, value: np.fmax(row, value),
    "last": lambda _, __, value: value,
}
"""What a slot becomes by a sample, from (slot, distance to the reference, value)."""
