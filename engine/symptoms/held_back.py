"""What holds a device back for most of the time from the beginning on: without a past it is neither normal nor a fault.

A GPU at its power limit is held back in health, and so is one whose limit was lowered: which of the two it is, the
limit of its maker would say.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Mask
from skewscope.engine.model.finding import PAST, Finding
from skewscope.engine.model.parameters import HALF, MIN_PAST
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.series_detector import SeriesDetector
from skewscope.kb.quantities import TIME_SHARES


class HeldBack(SeriesDetector):
    """Counters of the time for which something was held back, that never showed less than half of it."""

    KEPT: ClassVar[Fills] = {"_was_free": False, "_value": np.nan}
    _was_free: Mask
    """Whether it was ever held back for less than half of the time."""
    _value: F64
    """The newest value, in the unit of the signal per second."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell counts a time of pressure that has no limit."""
        judged, unit = self.cells.judgement(cell), f"{self.cells.signals[cell].unit}/s"
        is_time = judged.role == "pressure" and bool(self.cells.is_counter[cell]) and unit in TIME_SHARES
        return is_time and judged.bad == "up" and judged.nominal is None

    def learn_cells(self) -> None:
        """Works out the factors from the units to shares of the time."""
        units = [f"{self.cells.signals[cell].unit}/s" for cell in self.at.tolist()]
        self._scale = np.array([TIME_SHARES[unit] for unit in units])

    def judge(self, tick: Tick) -> None:
        """Takes in new rates."""
        at, rate, _ = self.select(tick.new)
        self._was_free[at] |= rate * self._scale[at] < HALF
        self._value[at] = rate

    def doubts(self) -> Iterator[Finding]:
        """Yields what was held back for most of the time from the beginning on."""
        for n in np.flatnonzero(~self._was_free & (self.cells.samples[self.at] > MIN_PAST)).tolist():
            yield self.finding_on(n, PAST, "up", (self.cells.begun[self.at[n]], self._value[n], np.nan))
