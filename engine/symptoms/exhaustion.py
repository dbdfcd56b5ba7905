"""What runs out: credits, free slots or connections of which nothing is left."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64
from skewscope.engine.model.finding import PAST, Finding
from skewscope.engine.model.parameters import BURST_S, TENFOLD
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.series_detector import Fills, SeriesDetector

REMAINING_SIGNAL = "other.remaining"
LEFT = 1 / TENFOLD**2
"""Part of the most that was left ever, below which what comes in is used at once (judgement)."""


class Exhaustion(SeriesDetector):
    """What had something left, and has nothing left for a while."""

    KEPT: ClassVar[Fills] = {"_most": -np.inf, "_since": np.nan, "_value": np.nan}
    _most: F64
    """The most that was left."""
    _since: F64
    """Seconds since 1970 since when nothing is left."""
    _value: F64

    def judges(self, cell: int) -> bool:
        """Returns whether a cell is of what runs out."""
        return self.cells.signals[cell].id == REMAINING_SIGNAL

    def judge(self, tick: Tick) -> None:
        """Takes in new values."""
        at, value, time = self.select(tick.new)
        self._most[at] = np.fmax(self._most[at], value)
        is_gone = (value <= LEFT * self._most[at]) & (self._most[at] > 0)
        self._since[at] = np.where(is_gone, np.fmin(self._since[at], time), np.nan)
        self._value[at] = value

    def find(self) -> Iterator[Finding]:
        """Yields that of which nothing is left."""
        with np.errstate(invalid="ignore"):
            held = self.cells.time[self.at] - self._since >= BURST_S
        for n in np.flatnonzero(held).tolist():
            yield Finding(
                *self.subject(n), PAST, "down", float(self._since[n]), float(self._value[n]), float(self._most[n])
            )
