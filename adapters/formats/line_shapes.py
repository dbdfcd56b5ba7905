"""Shapes of lines: each run of digits as one 0, as `mask_digits` makes it, for many lines at once.

Programs write few kinds of lines, so what is known of a shape need not be looked for in each of a million lines.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from skewscope.engine.model.arrays import Index

ZERO, NEWLINE = 48, 10
"""Codes of characters."""


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
