"""Counters of errors and losses that begin to grow."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, Mask, nan_to_zero
from skewscope.engine.model.finding import PAST, Finding
from skewscope.engine.model.parameters import BURST_S, EPISODE_S, HALF, MAJORITY, MIN_PAST, QUANTILE, RESTART_S, RUN
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.series_detector import SeriesDetector


class ErrorBursts(SeriesDetector):
    """Counters of errors or losses that begin to grow."""

    KEPT: ClassVar[Fills] = dict.fromkeys(("_first", "_time", "_since", "_rate"), np.nan) | {
        "_score": 0.0,
        "_usual": 0.0,
        "_is_burst": False,
        "_quiet": 0,
        "_run": 0,
    }
    _first: F64
    _time: F64
    _since: F64
    _rate: F64
    _score: F64
    _usual: F64
    _is_burst: Mask
    _quiet: Index
    """Of readings that are far apart, in which what lasts some seconds is one: those in a row without an error..."""
    _run: Index
    """...and those after them, each with some."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell counts errors or losses."""
        return self.cells.judgement(cell).role in ("errors", "loss") and bool(self.cells.is_counter[cell])

    def judged_cells(self) -> Index:
        """Returns the cells that have been observed long enough for errors to begin."""
        return self.at[self._time - self._first >= BURST_S]

    def judge(self, tick: Tick) -> None:
        """Takes in the new rates."""
        at, rate, time = self.select(tick.new)
        if not len(at):
            return
        self._first[at] = np.fmin(self._first[at], time)
        # What was sent meanwhile must be known as well.
        cells = self.at[at]
        grew = (rate > tick.floor[cells]) & ~(self._whole_times(cells) <= self._time[at])
        passed = nan_to_zero(time - self._time[at])
        self._time[at] = time
        self._score[at] = self._score[at] * np.exp(-passed / RESTART_S) + grew
        begins = grew & np.isnan(self._since[at])
        self._since[at[begins]] = time[begins]
        self._rate[at[grew]] = rate[grew]
        observed = time - self._first[at]
        begun = (self._score[at] >= 1 + HALF) & (self._usual[at] <= 1 - QUANTILE) & (observed >= BURST_S)
        self._is_burst[at] |= begun | self._begins_slowly(at, grew, passed >= BURST_S)
        over = self._score[at] < 1 / np.e
        self._is_burst[at[over]] = False
        self._since[at[over]] = np.nan
        quiet = ~self._is_burst[at]
        # In a shorter memory one sample of 30 s with an error would make errors usual.
        weight = 1 - np.exp(-passed[quiet] / (MAJORITY * EPISODE_S))
        self._usual[at[quiet]] += weight * (grew[quiet] - self._usual[at[quiet]])

    def _begins_slowly(self, at: Index, grew: Mask, is_apart: Mask) -> Mask:
        """Takes in readings that are far apart; returns [k] which series have errors in each after none in many."""
        some, grew = at[is_apart], grew[is_apart]
        is_over = ~grew & (self._run[some] > 0)
        self._quiet[some] = np.where(grew, self._quiet[some], np.where(is_over, 1, self._quiet[some] + 1))
        self._run[some] = np.where(grew, self._run[some] + 1, 0)
        begins: Mask = is_apart & (self._run[at] >= RUN) & (self._quiet[at] >= MIN_PAST)
        return begins

    def _whole_times(self, cells: Index) -> F64:
        """Returns [k] the newest sample in seconds of what some cells are a part of; infinite where it is not known."""
        whole = self.cells.ties.whole[cells]
        return np.where((whole < 0) | np.isnan(self.cells.value[whole]), np.inf, self.cells.time[whole])

    def find(self) -> Iterator[Finding]:
        """Yields the counters whose errors have begun."""
        for n in np.flatnonzero(self._is_burst).tolist():
            yield self.finding_on(n, PAST, "begins", (self._since[n], self._rate[n], 0.0))
