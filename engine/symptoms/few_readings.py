"""What has grown by an order of magnitude between the first and the last of few readings, which are no past.

Two readings of a counter say what it counted between them: ten times what it had counted before in all is no chance.
Of a queue or a time, each of at least three readings has to be worse than the one before; a hundred that wait where
there were less than ten do so in two.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Mask
from skewscope.engine.model.finding import PAST, Finding
from skewscope.engine.model.parameters import MAJORITY, MIN_PAST, TENFOLD
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.roles import SIBLING_KINDS
from skewscope.engine.symptoms.series_detector import SeriesDetector

GROWING_ROLES = frozenset({"queue", "latency", "wait"})
"""Roles of which a value that rises from reading to reading is worse each time."""
BEGINNING_ROLE = "errors"


class FewReadings(SeriesDetector):
    """Queues, times and errors of few readings, each far more than the first."""

    KEPT: ClassVar[Fills] = {"_first": np.nan, "_last": np.nan, "_rises": True}
    _first: F64
    _last: F64
    """The first and the newest value."""
    _rises: Mask
    """Whether each was more than the one before."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell can be worse than at first by so few readings."""
        judged, is_counter = self.cells.judgement(cell), bool(self.cells.is_counter[cell])
        if is_counter:
            # Counters of ports and GPUs are compared with those of their siblings.
            return judged.role == BEGINNING_ROLE and self.cells.places[cell].kind not in SIBLING_KINDS
        return judged.bad == "up" and judged.role in GROWING_ROLES

    def judge(self, tick: Tick) -> None:
        """Takes in new readings."""
        at, value, _ = self.select(tick.new)
        with np.errstate(invalid="ignore"):
            self._rises[at] &= ~(value <= self._last[at])
        self._first[at] = np.where(np.isnan(self._first[at]), value, self._first[at])
        self._last[at] = value

    def find(self) -> Iterator[Finding]:
        """Yields what has grown, once the data has ended."""
        if not self.is_over:
            return
        cells, series = self.cells, self.cells.series[self.at]
        is_counter, count, begun = cells.is_counter[self.at], cells.samples[self.at], cells.begun[self.at]
        grown = np.where(is_counter, cells.total[self.at], self._last)
        first = np.where(is_counter, cells.state.latest[series] - grown, self._first)
        rises = np.where(is_counter, ~(cells.state.counter_starts(series) > begun), self._rises)
        is_sure = ~is_counter & (count >= MAJORITY)
        least = np.where(is_sure, TENFOLD * cells.judged.floor[self.at], TENFOLD**2)
        is_enough = is_sure | is_counter | cells.judged.has_role(["queue"])[self.at]
        is_enough &= (count >= 2) & (count < MIN_PAST)
        with np.errstate(invalid="ignore"):
            grows = rises & is_enough & (grown >= np.fmax(least, TENFOLD * first))
        for n in np.flatnonzero(grows).tolist():
            seconds = cells.time[self.at[n]] - begun[n]
            direction, value, reference = (
                ("begins", grown[n] / seconds, 0.0) if is_counter[n] else ("up", self._last[n], first[n])
            )
            yield self.finding_on(n, PAST, direction, (begun[n], value, reference))
