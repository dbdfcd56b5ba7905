"""Samples of series as they are taken in."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.sets import F64, Index


@dataclass(frozen=True, slots=True)
class SortedSamples:
    """Samples of series, ordered by series and then time; `first` and `last` mark a series' own."""

    series: Index
    time: F64
    value: F64
    first: NDArray[np.bool_]
    last: NDArray[np.bool_]
    is_unique: bool
    """Whether no series has more than one."""

    def select(self, mask: NDArray[np.bool_]) -> "SortedSamples":
        """Some of them."""
        if mask.all():
            return self
        at = np.flatnonzero(mask)
        if self.is_unique:
            return build_unique_batch(self.series[at], self.time[at], self.value[at])
        return build_sorted_batch(self.series[at], self.time[at], self.value[at])


def build_sorted_batch(series: Index, time: F64, value: F64) -> SortedSamples:
    """Samples ordered by series and time."""
    first, last = np.ones(len(series), bool), np.ones(len(series), bool)
    first[1:] = last[:-1] = series[1:] != series[:-1]
    return SortedSamples(series, time, value, first, last, is_unique=False)


def build_unique_batch(series: Index, time: F64, value: F64) -> SortedSamples:
    """Samples of which no two are of one series."""
    every = np.ones(len(series), bool)
    return SortedSamples(series, time, value, every, every, is_unique=True)
