"""A clock that under load never comes near what the same device reaches.

Its past under load is as low, so that it is no shift; what it reaches is known from before or between the work.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.finding import LIMIT, Finding
from skewscope.engine.model.parameters import RUN
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.roles import MIN_RUN_S
from skewscope.engine.symptoms.series_detector import Fills, SeriesDetector


class LoadedCapacity(SeriesDetector):
    """Capacities that count under load."""

    KEPT: ClassVar[Fills] = dict.fromkeys(("_lowest", "_reached", "_since", "_value"), np.nan) | {
        "_turn": 0,
        "_count": 0,
        "_was_full": False,
    }
    _lowest: F64
    _turn: Index
    """The lowest of up to RUN values, and how many these are: what is reached is held for all of them."""
    _reached: F64
    _since: F64
    _value: F64
    _count: Index
    _was_full: Mask
    """Whether it was ever near what it reaches while under load."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell is a capacity whose load is known."""
        return self.cells.judgement(cell).role == "capacity" and bool(self.cells.ties.given[cell] >= 0)

    def judge(self, tick: Tick) -> None:
        """Takes in new values."""
        at, value, time = self.select(tick.new)
        if not len(at):
            return
        cells, ties = self.at[at], self.cells.ties
        least = np.array([self.cells.judgement(cell).least for cell in cells.tolist()])
        self._lowest[at] = np.fmin(self._lowest[at], value)
        self._turn[at] += 1
        full = at[self._turn[at] >= RUN]
        self._reached[full] = np.fmax(self._reached[full], self._lowest[full])
        self._lowest[full], self._turn[full] = np.nan, 0
        with np.errstate(invalid="ignore"):
            loaded = self.cells.value[ties.given[cells]] > ties.load[cells]
            low = loaded & (value * (1 + least) < self._reached[at])
        self._was_full[at[loaded & ~low & ~np.isnan(self._reached[at])]] = True
        bad = at[low]
        self._since[bad] = np.fmin(self._since[bad], time[low])
        self._value[bad] = value[low]
        self._count[bad] += 1

    def find(self) -> Iterator[Finding]:
        """Yields the capacities that stay low under load."""
        with np.errstate(invalid="ignore"):
            lasts = self.cells.time[self.at] - self._since >= MIN_RUN_S["capacity"]
        for n in np.flatnonzero(lasts & ~self._was_full & (self._count >= RUN)).tolist():
            yield Finding(*self.subject(n), LIMIT, "down", self._since[n], self._value[n], float(self._reached[n]))
