"""Shapes of lines: each run of digits as one 0, as `mask_digits` makes it, for many lines at once.

Programs write few kinds of lines, so what is known of a shape need not be looked for in each of a million lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import Index, Mask

ZERO, NEWLINE = 48, 10
"""Codes of characters."""
MAX_SHAPES = 20_000
"""Shapes of which something is remembered: a text that has more repeats few."""
MOST_DIGITS = 18
"""Of a number of 64 bits."""


class ShapedLines:
    """Lines that follow one another, with their shapes and the places of their numbers."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Takes lines, of which none has a line break."""
        self.data = np.frombuffer("\n".join(texts).encode("utf-8", "replace"), np.uint8)
        self._is_digit = self.data - ZERO < 10
        masked = np.where(self._is_digit, np.uint8(ZERO), self.data)
        starts = self._is_digit.copy()
        starts[1:] &= ~self._is_digit[:-1]
        self._starts = starts
        self.shapes = masked[starts | ~self._is_digit].tobytes().split(b"\n")
        """[line], encoded as UTF-8."""

    def runs_of(self, places: Index, count: int) -> "DigitRuns":
        """Returns the runs of digits of some lines, each of which has so many."""
        runs = self.first_runs[places][:, None] + np.arange(count)
        starts, ends = self.run_starts[runs], self.run_ends[runs]
        return DigitRuns(self.data, self.begins[places], starts, ends - starts)

    @cached_property
    def begins(self) -> Index:
        """[line] where it begins in the data."""
        breaks = np.flatnonzero(self.data == NEWLINE)
        return np.concatenate(([0], breaks + 1))

    @cached_property
    def run_starts(self) -> Index:
        """[run] where a run of digits begins in the data."""
        return np.flatnonzero(self._starts)

    @cached_property
    def run_ends(self) -> Index:
        """[run] where it ends."""
        ends = self._is_digit.copy()
        ends[:-1] &= ~self._is_digit[1:]
        return np.flatnonzero(ends) + 1

    @cached_property
    def first_runs(self) -> Index:
        """[line] the first run in it, or behind it."""
        return np.searchsorted(self.run_starts, self.begins)


@dataclass(frozen=True)
class DigitRuns:
    """The runs of digits of some lines of one shape."""

    data: NDArray[np.uint8]
    """The lines, one after another."""
    begins: Index
    """[line] where the line begins in the data."""
    starts: Index
    """[line, run] where the run begins there."""
    lengths: Index
    """[line, run] its digits."""

    def within(self, longest: Index) -> Mask:
        """Returns [line] whether each run has at most so many digits, [run]."""
        return np.asarray((self.lengths <= longest).all(axis=1))

    def columns(self, run: int) -> Index:
        """Returns [line] the column behind a run, in bytes."""
        return self.starts[:, run] + self.lengths[:, run] - self.begins

    def whole(self, run: int) -> NDArray[np.int64]:
        """Returns [line] the number that a run is, where that has at most 18 digits."""
        starts, lengths = self.starts[:, run], self.lengths[:, run]
        numbers = np.zeros(len(starts), np.int64)
        for n in range(min(int(lengths.max(initial=0)), MOST_DIGITS)):
            has_digit = n < lengths
            digits = self.data[np.where(has_digit, starts + n, 0)].astype(np.int64) - ZERO
            numbers = np.where(has_digit, numbers * 10 + digits, numbers)
        return numbers
