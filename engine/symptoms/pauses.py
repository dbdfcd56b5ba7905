"""Long pauses of jobs that come again and again at like distances: evaluations and checkpoints, not faults."""

from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, Mask, widen_items
from skewscope.engine.model.parameters import ALIKE, APART, RUN


class RegularPauses:
    """The newest two pauses of each job that were too long for a step. Arrays are [job], s."""

    KEPT: ClassVar[Fills] = dict.fromkeys(
        ("first_start", "first_length", "second_start", "second_length", "count"), np.nan
    )
    first_start: F64
    first_length: F64
    second_start: F64
    second_length: F64
    count: F64
    """Pauses in a row of which each one came at a like distance from the one before; NaN before the first one."""

    def __init__(self) -> None:
        widen_items(self, self.KEPT, 0)

    def add(self, at: Index, start: F64, length: F64) -> None:
        """Takes in pauses that ended by themselves: of the jobs `at`, when each began, and how long it was."""
        regular = self._is_due(at, start) & self._are_alike(length, self.second_length[at])
        # Any two have a distance, which the next one may keep.
        self.count[at] = np.where(regular, self.count[at] + 1, np.where(np.isnan(self.second_start[at]), 1, 2))
        self.first_start[at], self.first_length[at] = self.second_start[at], self.second_length[at]
        self.second_start[at], self.second_length[at] = start, length

    def allowance(self, start: F64) -> F64:
        """Returns [job] how long a pause that begins at `start` may last; 0 where no regular one is due."""
        is_usual = self._are_alike(self.first_length, self.second_length) & (self.count >= RUN)
        is_due = self._is_due(slice(None), start)
        return np.where(is_usual & is_due, ALIKE * np.maximum(self.first_length, self.second_length), 0.0)

    def _is_due(self, at: Index | slice, start: F64) -> Mask:
        """Returns [k] whether `start` lies as far from the newest pause as that one from the one before it."""
        distance = self.second_start[at] - self.first_start[at]
        due: Mask = np.abs(start - self.second_start[at] - distance) <= APART * distance
        return due

    def _are_alike(self, one: F64, other: F64) -> Mask:
        alike: Mask = np.maximum(one, other) <= ALIKE * np.minimum(one, other)
        return alike
