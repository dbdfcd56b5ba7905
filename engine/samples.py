"""Samples of series as they are taken in."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.sets import F64, Index


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of series, ordered by series and then time; `first` and `last` mark a series' own."""

    series: Index
    time: F64
    value: F64
    first: NDArray[np.bool_]
    last: NDArray[np.bool_]
    single: bool
    """Whether no series has more than one."""

    def kept(self, mask: NDArray[np.bool_]) -> "Samples":
        """Some of them."""
        if mask.all():
            return self
        at = np.flatnonzero(mask)
        if self.single:
            return alone(self.series[at], self.time[at], self.value[at])
        return marked(self.series[at], self.time[at], self.value[at])


def marked(series: Index, time: F64, value: F64) -> Samples:
    """Samples ordered by series and time."""
    first, last = np.ones(len(series), bool), np.ones(len(series), bool)
    first[1:] = last[:-1] = series[1:] != series[:-1]
    return Samples(series, time, value, first, last, single=False)


def alone(series: Index, time: F64, value: F64) -> Samples:
    """Samples of which no two are of one series."""
    every = np.ones(len(series), bool)
    return Samples(series, time, value, every, every, single=True)
