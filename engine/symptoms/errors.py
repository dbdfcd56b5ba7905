"""Counters of errors and losses that begin to grow."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask, nan_to_zero
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.deviation import PAST, Deviation
from skewscope.engine.symptoms.samples import NewSamples

BURST_S = 60.0
"""Errors within this time belong together, and a burst of them ends after it."""
MIN_ERRORS = 1.5
"""Samples with new errors within a burst: one alone may be an event of no consequence."""
MIN_QUIET_S = 30.0
"""Seconds of observation before errors can begin."""
USUAL_S = 900.0
"""Memory of the usual share of samples with errors."""
USUAL_SHARE = 0.02
"""A counter that grows in more of its samples than this has errors that are usual for it."""


@dataclass
class ErrorBursts:
    """Counters of errors or losses that begin to grow."""

    cells: JudgedCells
    at: Index = field(default_factory=lambda: np.empty(0, np.intp))

    def __post_init__(self) -> None:
        self._place: Index = np.empty(0, np.intp)
        """[cell] position among the counters of errors, or -1."""
        self._first, self._time, self._score, self._usual, self._since, self._rate = (np.empty(0) for _ in range(6))
        self._is_burst: Mask = np.empty(0, bool)

    def grow(self) -> None:
        """Makes room for new cells."""
        cells = self.cells
        judged = [cells.judgement(cell) for cell in range(len(cells))]
        at = [n for n, one in enumerate(judged) if one.role in ("errors", "loss") and cells.is_counter[n]]
        more = len(at) - len(self.at)
        self.at = np.array(at, np.intp)
        self._place = np.full(len(cells), -1, np.intp)
        self._place[self.at] = np.arange(len(at))
        for name in ("_first", "_time", "_since", "_rate"):
            setattr(self, name, np.concatenate((getattr(self, name), np.full(more, np.nan))))
        for name in ("_score", "_usual"):
            setattr(self, name, np.concatenate((getattr(self, name), np.zeros(more))))
        self._is_burst = np.concatenate((self._is_burst, np.zeros(more, bool)))

    def judged_cells(self) -> Index:
        """Returns the cells that have been observed long enough for errors to begin."""
        return self.at[self._time - self._first >= MIN_QUIET_S]

    def step(self, new: NewSamples, floor: F64, whole_times: Callable[[Index], F64]) -> None:
        """Takes in the new rates.

        Args:
            new: the new samples.
            floor: [cell] least rate that matters.
            whole_times: returns of some cells the newest sample in seconds of what the errors are a part of; infinite
                where it is nothing.
        """
        place = self._place[new.cells]
        mine = place >= 0
        at, rate, time = place[mine], new.value[mine], new.time[mine]
        if not len(at):
            return
        self._first[at] = np.fmin(self._first[at], time)
        # What was sent meanwhile must be known as well.
        cells = self.at[at]
        grew = (rate > floor[cells]) & ~(whole_times(cells) <= self._time[at])
        passed = nan_to_zero(time - self._time[at])
        self._time[at] = time
        self._score[at] = self._score[at] * np.exp(-passed / BURST_S) + grew
        begins = grew & np.isnan(self._since[at])
        self._since[at[begins]] = time[begins]
        self._rate[at[grew]] = rate[grew]
        observed = time - self._first[at]
        self._is_burst[at] |= (
            (self._score[at] >= MIN_ERRORS) & (self._usual[at] <= USUAL_SHARE) & (observed >= MIN_QUIET_S)
        )
        over = self._score[at] < 1 / np.e
        self._is_burst[at[over]] = False
        self._since[at[over]] = np.nan
        quiet = ~self._is_burst[at]
        weight = 1 - np.exp(-passed[quiet] / USUAL_S)
        self._usual[at[quiet]] += weight * (grew[quiet] - self._usual[at[quiet]])

    def deviations(self) -> Iterator[Deviation]:
        """Yields the counters whose errors have begun."""
        for n in np.flatnonzero(self._is_burst).tolist():
            cell = int(self.at[n])
            signal, place = self.cells.signals[cell], self.cells.places[cell]
            yield Deviation(signal, place, PAST, "begins", float(self._since[n]), float(self._rate[n]), 0.0)
