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

    def grow(self, size: int) -> None:
        """Makes room for `size` entities."""
        for name in ("mean", "variance", "_seen", "_first", "_last"):
            setattr(self, name, longer(getattr(self, name), size))

    def paste(self, begin: int, other: "Baseline", at: slice) -> None:
        """Goes on, from column `begin`, with what another one knew of some entities."""
        for name in ("mean", "variance", "_seen", "_first", "_last"):
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

    def learn(self, x: F64, time: F64, frozen: Mask) -> None:
        """Takes in what is new of entities that look healthy, and of all whose past is too short to judge by.

        What an entity shows from its first sample on is its past, sound or not: nothing else could be.
        """
        new = (np.abs(x) <= LARGEST) & ~(time <= self._last) & ~np.isnan(time)
        if frozen.any():
            new &= ~frozen | ~self.ready()
        if new.all():
            self._learn(ALL, x, time)
        else:
            at = np.flatnonzero(new)
            self._learn(at, x[at], time[at])

    def _learn(self, at: Index | slice, x: F64, time: F64) -> None:
        if not len(x):
            return
        seen = np.nan_to_num(self._seen[at])
        first = np.fmin(self._first[at], time)
        # At first a plain mean: each sample counts alike until the memory is as long as it should be.
        plain = 1 / (seen + 1)
        weight = np.where(time - first < self.memory, plain, np.maximum(plain, self._forgotten(time - self._last[at])))
        self._update(at, x, weight, seen)
        self._seen[at] = seen + 1
        self._first[at] = first
        self._last[at] = time

    def _forgotten(self, step: F64) -> F64:
        """The share of the past that is forgotten in so many seconds."""
        if (step == step[0]).all():
            step = step[:1]
        found: F64 = 1 - np.exp(-np.nan_to_num(step) / self.memory)
        return found

    def _update(self, at: Index | slice, x: F64, weight: F64, seen: F64) -> None:
        mean, variance = np.where(seen > 0, self.mean[at], x), np.nan_to_num(self.variance[at])
        away = x - mean
        most = np.where(seen >= SAMPLES, SURPRISE * (np.sqrt(variance) + FLOOR * np.abs(mean)), np.inf)
        away = np.clip(away, -most, most)
        self.mean[at] = mean + weight * away
        self.variance[at] = (1 - weight) * (variance + weight * away * away)
