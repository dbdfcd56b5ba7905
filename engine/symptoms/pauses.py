"""Long pauses of jobs that come at like distances: evaluations and checkpoints, not faults."""

from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, Index

LONGEST_TIMES = 1.5
"""A pause may last so many times as long as an earlier one of its kind: checkpoints and evaluations take long."""
DISTANCE_SPREAD = 0.25
"""Pauses are regular if one distance differs from the one before by no more than this part of it: they come after a
number of steps, whose pace varies (judgement; those of published jobs differ by a tenth)."""


@dataclass
class RegularPauses:
    """The newest two pauses of each job that were too long for a step. Arrays are [job], s."""

    first_start: F64 = field(default_factory=lambda: np.empty(0))
    first_length: F64 = field(default_factory=lambda: np.empty(0))
    second_start: F64 = field(default_factory=lambda: np.empty(0))
    second_length: F64 = field(default_factory=lambda: np.empty(0))

    def grow(self, size: int) -> None:
        """Makes room for jobs that have had none."""
        for name in PAUSES:
            before = getattr(self, name)
            setattr(self, name, np.concatenate((before, np.full(size - len(before), np.nan))))

    def add(self, at: Index, start: F64, length: F64) -> None:
        """Takes in pauses that ended by themselves: of the jobs `at`, when each began, and how long it was."""
        self.first_start[at], self.first_length[at] = self.second_start[at], self.second_length[at]
        self.second_start[at], self.second_length[at] = start, length

    def allowance(self, start: F64) -> F64:
        """Returns [job] how long a pause that begins at `start` may last; 0 where no regular one is due."""
        longer = np.maximum(self.first_length, self.second_length)
        alike = longer <= LONGEST_TIMES * np.minimum(self.first_length, self.second_length)
        distance = self.second_start - self.first_start
        is_due = np.abs(start - self.second_start - distance) <= DISTANCE_SPREAD * distance
        return np.where(alike & is_due, LONGEST_TIMES * longer, 0.0)


PAUSES = ("first_start", "first_length", "second_start", "second_length")
"""Arrays of the pauses."""
