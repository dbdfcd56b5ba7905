"""Steps of a job that grow without end: each takes longer than the one before.

They have no level that could shift, and a past that grows with them. In epochs of inputs sorted by length, steps
grow and begin anew: jobs that count epochs are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, Index
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.deviation import PAST, Deviation
from skewscope.engine.symptoms.samples import NewSamples

EPOCH_SIGNAL = "step.epoch"
GROWING_STEPS = 12
"""Steps of which each is longer than the one before: in steps that come in any order it happens once in 12!, which is
once in 479 million."""
NUMBERS = ("_last", "_first", "_since")
ARRAYS = (*NUMBERS, "_run")


@dataclass
class GrowingSteps:
    """Durations of steps that grow. Arrays are [cell that is one]."""

    cells: JudgedCells
    at: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """The cells: what jobs print, since means over windows rise for as long as the window is."""

    def __post_init__(self) -> None:
        self._place: Index = np.empty(0, np.intp)
        """[cell] position among these, or -1."""
        self._last, self._first, self._since = (np.empty(0) for _ in range(3))
        """The newest value, the one with which the growth began, and its time."""
        self._run: F64 = np.empty(0)
        """Values that grew, with the first one."""

    def grow(self) -> None:
        """Makes room for new cells."""
        cells = self.cells
        size, before = len(cells), len(self.at)
        is_step = [cells.signals[n].is_printed_time and cells.judgement(n).role == "time-per-work" for n in range(size)]
        self.at = np.flatnonzero(is_step)
        self._place = np.full(size, -1, np.intp)
        self._place[self.at] = np.arange(len(self.at))
        more = len(self.at) - before
        for name in NUMBERS:
            setattr(self, name, np.append(getattr(self, name), np.full(more, np.nan)))
        self._run = np.append(self._run, np.zeros(more))

    def step(self, new: NewSamples) -> None:
        """Takes in new steps."""
        place = self._place[new.cells]
        some = place >= 0
        at, value, time = place[some], new.value[some], new.time[some]
        grows = value > self._last[at]
        begins = at[~grows]
        self._first[begins], self._since[begins], self._run[begins] = value[~grows], time[~grows], 0
        self._run[at] += 1
        self._last[at] = value

    def deviations(self) -> Iterator[Deviation]:
        """Yields the durations that grow."""
        for n in np.flatnonzero(self._run >= GROWING_STEPS).tolist():
            cell = int(self.at[n])
            judged, value, first = self.cells.judgement(cell), float(self._last[n]), float(self._first[n])
            if self.cells.all_series_of(EPOCH_SIGNAL, self.cells.places[cell].name):
                continue
            if value > (1 + judged.least) * first and value > first + judged.floor:
                place = self.cells.places[cell]
                yield Deviation(self.cells.signals[cell], place, PAST, "up", float(self._since[n]), value, first)
