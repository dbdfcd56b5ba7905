"""Steps of a job that grow without end: each takes longer than the one before.

They have no level that could shift, and a past that grows with them. In epochs of inputs sorted by length, steps
grow and begin anew: a step of a job that counts epochs is compared with the one at the same place of another epoch.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index
from skewscope.engine.model.finding import PAST, Finding
from skewscope.engine.model.parameters import FALSE_RATE
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.series_detector import SeriesDetector

EPOCH_SIGNAL = "step.epoch"
GROWING_STEPS = next(n for n in count(1) if math.factorial(n) * FALSE_RATE**2 >= 1)
"""Steps of which each is longer than the one before: in steps that come in any order that happens once in n! times.
That has to be rarer than the square of the rate of false findings, since steps depend on one another."""
MAX_EPOCH_STEPS = 10_000
"""computing: steps from the begin of an epoch that are compared."""


@dataclass
class EpochComparison:
    """The steps of the newest epoch of a job beside those of its fastest one."""

    number: float
    """Of the newest epoch."""
    is_whole: bool
    """Whether its first step was seen."""
    run: int = 0
    """Steps in a row that took longer than those at the same places."""
    since: float = 0.0
    """Time of the first of them, seconds since 1970."""
    _fastest: list[float] = field(default_factory=list)
    _steps: list[float] = field(default_factory=list)

    def begin(self, number: float) -> None:
        """Begins another epoch."""
        common = min(len(self._fastest), len(self._steps))
        if self.is_whole and (not common or sum(self._steps[:common]) < sum(self._fastest[:common])):
            self._fastest = self._steps
        self.number, self.is_whole, self._steps = number, True, []

    def add(self, value: float, time: float, least: float, floor: float) -> None:
        """Adds a step, in seconds; it is longer where it is by both a part of `least` and by `floor` seconds."""
        if len(self._steps) >= MAX_EPOCH_STEPS:
            return
        self._steps.append(value)
        usual = self.usual
        is_longer = value > (1 + least) * usual and value > usual + floor
        self.since = self.since if self.run else time
        self.run = self.run + 1 if is_longer else 0

    def explains_length(self) -> bool:
        """Returns whether a step is as long as it is by its place: steps grow within an epoch, and are no longer in it.

        In the first epoch nothing else is known than that they grow from its begin on, rather than all at once.
        """
        known = self._fastest or self._steps
        return self.is_whole and self.run < GROWING_STEPS and is_ramp(np.array(known))

    @property
    def usual(self) -> float:
        """Seconds of the step at the place of the newest one in the fastest epoch; infinite where it has none."""
        place = len(self._steps) - 1
        return self._fastest[place] if place < len(self._fastest) else np.inf


def is_ramp(values: F64) -> bool:
    """Returns whether values rise along a line: it is closer to them, by least squares, than any two levels are."""
    count = len(values)
    if count < GROWING_STEPS:
        return False
    place = np.arange(count) - (count - 1) / 2
    deviation = values - values.mean()
    slope = float(place @ deviation / (place @ place))
    # With two levels, of the first k values and of the rest, what is left is smaller by this than with one.
    first = np.arange(1, count)
    gain = np.cumsum(deviation)[:-1] ** 2 * count / (first * (count - first))
    return slope > 0 and slope**2 * float(place @ place) > float(gain.max())


class GrowingSteps(SeriesDetector):
    """Durations of steps that grow: of what jobs print, since means over windows rise for as long as the window is."""

    KEPT: ClassVar[Fills] = {"_last": np.nan, "_first": np.nan, "_since": np.nan, "_run": 0}
    _last: F64
    _first: F64
    _since: F64
    """The newest value, the one with which the growth began, and its time."""
    _run: Index
    """Values that grew, with the first one."""

    BY_CELL = ("_epochs",)
    _epochs: dict[int, EpochComparison]
    """Of jobs that count epochs."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell is the duration of a step that a job prints."""
        return self.cells.signals[cell].is_printed_time and self.cells.judgement(cell).role == "time-per-work"

    def judge(self, tick: Tick) -> None:
        """Takes in new steps."""
        at, value, time = self.select(tick.new)
        grows = value > self._last[at]
        begins = at[~grows]
        self._first[begins], self._since[begins], self._run[begins] = value[~grows], time[~grows], 0
        self._run[at] += 1
        self._last[at] = value
        if EPOCH_SIGNAL in self.cells.state.rows:
            self._compare_epochs(at, value, time)

    def _compare_epochs(self, at: Index, value: F64, time: F64) -> None:
        """Takes in new steps of jobs that count epochs; one before the newest epoch is of the one before."""
        for cell, seconds, when in zip(self.at[at].tolist(), value.tolist(), time.tolist(), strict=True):
            number = self._epoch_at(self.cells.places[cell].name, when)
            if not np.isnan(number):
                # Jobs count epochs from 0 or 1: of a later one that comes first, the log may lack the begin.
                known = self._epochs.setdefault(cell, EpochComparison(number, number <= 1))
                if number != known.number:
                    known.begin(number)
            if cell in self._epochs:
                judged = self.cells.judgement(cell)
                self._epochs[cell].add(seconds, when, judged.least, judged.floor)

    def _epoch_at(self, place: str, time: float) -> float:
        """Returns the newest epoch of a job that began by a time, NaN for none."""
        state = self.cells.state
        begun = (one for one in self.cells.all_series_of(EPOCH_SIGNAL, place) if state.times[one] <= time)
        return max((float(np.floor(state.latest[one])) for one in begun), default=np.nan)

    def explains_length(self, cell: int) -> bool:
        """Returns whether the newest steps of a cell are as long as they are by their place in the epoch."""
        known = self._epochs.get(cell)
        return known is not None and known.explains_length()

    def find(self) -> Iterator[Finding]:
        """Yields the durations that grow."""
        for n in np.flatnonzero(self._run >= GROWING_STEPS).tolist():
            cell, value, first = int(self.at[n]), float(self._last[n]), float(self._first[n])
            judged = self.cells.judgement(cell)
            if cell not in self._epochs and value > (1 + judged.least) * first and value > first + judged.floor:
                yield self.finding_on(n, PAST, "up", (self._since[n], value, first))
        for cell, known in self._epochs.items():
            if known.run >= GROWING_STEPS:
                n = int(self._place[cell])
                yield self.finding_on(n, PAST, "up", (known.since, self._last[n], known.usual))
