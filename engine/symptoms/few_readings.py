"""What has grown by an order of magnitude between the first and the last of few readings, which are no past.

Two readings of a counter say what it counted between them: ten times what it had counted before in all is no chance.
Of a queue or a time, each of at least three readings has to be worse than the one before; a hundred that wait where
there were less than ten do so in two.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.finding import PAST, Finding
from skewscope.engine.model.parameters import MAJORITY, MIN_PAST, TENFOLD
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.roles import SIBLING_KINDS
from skewscope.engine.symptoms.series_detector import Fills, SeriesDetector

GROWING_ROLES = frozenset({"queue", "latency", "wait"})
"""Roles of which a value that rises from reading to reading is worse each time."""
BEGINNING_ROLE = "errors"


class FewReadings(SeriesDetector):
    """Queues, times and errors of few readings, each far more than the first."""

    KEPT: ClassVar[Fills] = {"_first": np.nan, "_begin": np.nan, "_last": np.nan, "_count": 0, "_rises": True}
    _first: F64
    """The first value; of a counter its total."""
    _begin: F64
    """When that was, seconds since 1970."""
    _last: F64
    """The newest value or total."""
    _count: Index
    """Readings."""
    _rises: Mask
    """Whether each was more than the one before."""

    def __init__(self, cells: JudgedCells) -> None:
        super().__init__(cells)
        self._is_over = False
        """Whether the data has ended."""
        self._is_number: Mask = np.empty(0, bool)
        """Whether it is a number of things that wait, and no time."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell can be worse than at first by so few readings."""
        judged, is_counter = self.cells.judgement(cell), bool(self.cells.is_counter[cell])
        if is_counter:
            # Counters of ports and GPUs are compared with those of their siblings.
            return judged.role == BEGINNING_ROLE and self.cells.places[cell].kind not in SIBLING_KINDS
        return judged.bad == "up" and judged.role in GROWING_ROLES

    def learn_cells(self) -> None:
        """Works out which are numbers of things that wait."""
        roles = [self.cells.judgement(cell).role for cell in self.at.tolist()]
        self._is_number = np.array([role == "queue" for role in roles], bool)

    def step(self, tick: Tick) -> None:
        """Takes in what a tick brings; the first reading of a counter has no rate, and is none of its new samples."""
        self._add(np.flatnonzero(np.isnan(self._begin) & ~np.isnan(self.cells.time[self.at])))
        super().step(tick)

    def judge(self, tick: Tick) -> None:
        """Takes in new readings."""
        at, _, time = self.select(tick.new)
        self._add(at[time > self._begin[at]])

    def _add(self, at: Index) -> None:
        """Adds the newest readings of some."""
        cells = self.at[at]
        is_counter = self.cells.is_counter[cells]
        value = np.where(is_counter, self.cells.state.latest[self.cells.series[cells]], self.cells.value[cells])
        is_first = np.isnan(self._begin[at])
        self._rises[at] &= is_first | (value > self._last[at]) | (is_counter & (value >= self._last[at]))
        self._first[at[is_first]] = value[is_first]
        self._begin[at[is_first]] = self.cells.time[cells[is_first]]
        self._last[at] = value
        self._count[at] += 1

    def end(self) -> None:
        """Ends the data: there will be no more readings."""
        self._is_over = True

    def find(self) -> Iterator[Finding]:
        """Yields what has grown, once the data has ended."""
        if not self._is_over:
            return
        cells = self.cells
        is_counter = cells.is_counter[self.at]
        grown = np.where(is_counter, self._last - self._first, self._last)
        floor = np.array([cells.judgement(cell).floor for cell in self.at.tolist()])
        is_sure = ~is_counter & (self._count >= MAJORITY)
        least = np.where(is_sure, TENFOLD * floor, TENFOLD**2)
        is_enough = is_sure | is_counter | self._is_number
        is_enough &= (self._count >= 2) & (self._count < MIN_PAST)
        with np.errstate(invalid="ignore"):
            grows = self._rises & is_enough & (grown >= np.fmax(least, TENFOLD * self._first))
        for n in np.flatnonzero(grows).tolist():
            seconds = float(cells.time[self.at[n]] - self._begin[n])
            value = float(grown[n]) / seconds if is_counter[n] else float(self._last[n])
            direction = "begins" if is_counter[n] else "up"
            reference = 0.0 if is_counter[n] else float(self._first[n])
            yield Finding(*self.subject(n), PAST, direction, float(self._begin[n]), value, reference)
