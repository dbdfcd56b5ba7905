"""What runs out: credits, free slots or connections of which nothing is left."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Fills
from skewscope.engine.model.finding import PAST, Finding
from skewscope.engine.model.parameters import BURST_S, TENFOLD
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.series_detector import Runs, SeriesDetector

REMAINING_SIGNAL = "other.remaining"
LEFT = 1 / TENFOLD**2
"""Part of the most that was left ever, below which what comes in is used at once (judgement)."""


class Exhaustion(SeriesDetector):
    """What had something left, and has nothing left for a while."""

    KEPT: ClassVar[Fills] = {"_most": -np.inf}
    TABLES: ClassVar = {"_gone": Runs}
    _most: F64
    """The most that was left."""
    _gone: Runs
    """The values in a row that are nothing."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell is of what runs out."""
        return self.cells.signals[cell].id == REMAINING_SIGNAL

    def judge(self, tick: Tick) -> None:
        """Takes in new values."""
        at, value, time = self.select(tick.new)
        self._most[at] = np.fmax(self._most[at], value)
        is_gone = (value <= LEFT * self._most[at]) & (self._most[at] > 0)
        self._gone.follow(at, is_gone, value, time)

    def find(self) -> Iterator[Finding]:
        """Yields that of which nothing is left."""
        with np.errstate(invalid="ignore"):
            held = self.cells.time[self.at] - self._gone.since >= BURST_S
        for n in np.flatnonzero(held).tolist():
            yield self.finding_on(n, PAST, "down", (self._gone.since[n], self._gone.value[n], self._most[n]))
