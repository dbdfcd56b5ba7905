"""What is normal for each entity by its own past, learned only while it looks healthy."""

import numpy as np

from skewscope.engine.features import FLOOR, distance, over
from skewscope.engine.rhythm import longer
from skewscope.engine.sets import F64, LARGEST, Index, Mask

SAMPLES = 8
"""A baseline says nothing before so many samples ..."""
SHARE = 1 / 6
"""... and this share of its memory have gone by."""
SURPRISE = 3.0
"""A sample further off than this many deviations is learned as if it were just so far off."""


BLOCK = 1 << 13
"""So many columns learn at a time: what is worked with should stay in the cache."""
NAMES = ("mean", "variance", "_seen", "_first", "_last")
ALL = slice(None)


class Baseline:
    """Exponentially weighted mean and variance of one value of each entity of a kind."""

    def __init__(self, memory: float) -> None:
        self.memory = memory
        self.mean: F64 = np.empty(0)
        self.variance: F64 = np.empty(0)
        self._seen: F64 = np.empty(0)
        self._first: F64 = np.empty(0)
        self._last: F64 = np.empty(0)
        self._newest = -np.inf
        """Time of the newest sample of all."""

    def grow(self, size: int) -> None:
        """Makes room for `size` entities."""
        old = len(self._seen)
        for name in NAMES:
            setattr(self, name, longer(getattr(self, name), size))
        self._seen[old:] = 0.0

    def paste(self, begin: int, other: "Baseline", at: slice) -> None:
        """Goes on, from column `begin`, with what another one knew of some entities."""
        if not len(other._seen):  # noqa: SLF001 - one of its own kind
            return
        self._newest = max(self._newest, other._newest)  # noqa: SLF001
        for name in NAMES:
            getattr(self, name)[begin : begin + at.stop - at.start] = getattr(other, name)[at]

    def ready(self, at: Index | slice = ALL) -> Mask:
        """Whose past is long enough to judge by."""
        found: Mask = (self._seen[at] >= SAMPLES) & (self._last[at] - self._first[at] >= SHARE * self.memory)
        return found

    def z(self, x: F64, at: Index | slice = ALL) -> F64:
        """How far each value is from the past of its entity, of those `at`; NaN while that is too short."""
        mean = self.mean[at]
        # The yardstick: a standard deviation, and no less than a small share of the mean.
        yardstick = np.sqrt(self.variance[at]) + FLOOR * np.abs(mean)
        return np.where(self.ready(at), distance(x - mean, yardstick), np.nan)

    def drift(self, x: F64, at: Index | slice = ALL) -> F64:
        """Each value over the past of its entity, of those `at`, minus 1."""
        mean = self.mean[at]
        return np.where(self.ready(at), over(x - mean, np.abs(mean)), np.nan)

    def learn(self, x: F64, time: F64 | float, frozen: Mask | None) -> None:
        """Takes in what is new of entities that look healthy, and of all whose past is too short to judge by.

        What an entity shows from its first sample on is its past, sound or not: nothing else could be. One time may be
        that of all samples; nobody is frozen where `frozen` is None.
        """
        if isinstance(time, float) and time <= self._newest:
            time = np.full(len(x), time)
        for begin in range(0, len(x), BLOCK):
            at = slice(begin, min(begin + BLOCK, len(x)))
            new = np.abs(x[at]) <= LARGEST
            if not isinstance(time, float):
                new &= ~(time[at] <= self._last[at]) & ~np.isnan(time[at])
            if frozen is not None and frozen[at].any():
                new &= ~frozen[at] | ~self.ready(at)
            self._learn(at, x[at], time if isinstance(time, float) else time[at], new)
        newest = time if isinstance(time, float) else float(np.fmax.reduce(time, initial=-np.inf))
        self._newest = max(self._newest, newest)

    def _learn(self, at: slice, x: F64, time: F64 | float, new: Mask) -> None:
        whole = bool(new.all())
        if not (whole or new.any()):
            return
        seen, mean, variance = self._seen[at], self.mean[at], self.variance[at]
        first = seen == 0
        if first.any():
            first &= new
            self._first[at][first] = time if isinstance(time, float) else time[first]
            mean[first], variance[first] = x[first], 0.0
        weight = self._weight(at, time, seen, new)
        away = _cut(x - mean, mean, variance, seen)
        step = weight * away
        where: Mask | bool = True if whole else new
        np.add(mean, step, out=mean, where=where)
        step *= away
        step += variance
        np.multiply(1 - weight, step, out=variance, where=where)
        np.add(seen, 1.0, out=seen, where=where)
        np.copyto(self._last[at], time, where=where)

    def _weight(self, at: slice, time: F64 | float, seen: F64, new: Mask) -> F64:
        # At first a plain mean: each sample counts alike until the memory is as long as it should be.
        plain = 1 / (seen + 1)
        young = time - self._first[at] < self.memory
        if (young | ~new).all():
            return plain
        return np.where(young, plain, np.maximum(plain, self._forgotten(time - self._last[at], new)))

    def _forgotten(self, step: F64, new: Mask) -> F64:
        """The share of the past that is forgotten in so many seconds, of those `new`."""
        usual = step[np.argmax(new)]
        if ((step == usual) | ~new).all():
            step = np.array([usual])
        found: F64 = 1 - np.exp(-np.nan_to_num(step) / self.memory)
        return found


def _cut(away: F64, mean: F64, variance: F64, seen: F64) -> F64:
    """What is further away than a surprise is cut there, once enough has been seen; `away` is changed."""
    most = np.sqrt(variance)
    most += FLOOR * np.abs(mean)
    most *= SURPRISE
    few = seen < SAMPLES
    if few.any():
        most[few] = np.inf
    np.minimum(away, most, out=away)
    return np.maximum(away, np.negative(most, out=most), out=away)
