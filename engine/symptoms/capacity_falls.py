"""A clock, a link or the tokens of an engine that fall although what drives them does not, whatever use is made of it.

What was reached at the same use before is known: a governor that lowers the clock at little use did so then as well,
and an engine that read prompts made fewer tokens meanwhile.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Index
from skewscope.engine.model.finding import PAST, Finding
from skewscope.engine.model.parameters import APART, BURST_S, HALF, MIN_PAST, RESTART_S, RUN
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.roles import MIN_RUN_S
from skewscope.engine.symptoms.series_detector import Fills, SeriesDetector


class CapacityFalls(SeriesDetector):
    """Capacities, and throughputs of engines, with a load, which fell while that did not."""

    KEPT: ClassVar[Fills] = dict.fromkeys(("_lowest", "_begin", "_since", "_value", "_run_lowest"), np.nan) | {
        "_load_sum": 0.0,
        "_count": 0,
        "_run": 0,
    }
    _lowest: F64
    _load_sum: F64
    _count: Index
    _begin: F64
    """Of the past under any load: the lowest value, the sum of loads, the number and the time of the first one."""
    _run: Index
    _since: F64
    _value: F64
    _run_lowest: F64
    """Of the values in a row that are lower: their number, the time of the first, the newest and the lowest one."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell is a capacity, or the throughput of an engine, whose load is known."""
        ties = self.cells.ties
        is_driven = self.cells.judgement(cell).role == "capacity" or bool(ties.is_yield[cell])
        return is_driven and bool(ties.given[cell] >= 0)

    def learn_cells(self) -> None:
        """Works out loads, what a fall is at least, the usual load from which on it counts, and how long it lasts."""
        cells, ties, at = self.cells, self.cells.ties, self.at.tolist()
        judged = [cells.judgement(cell) for cell in at]
        self._given = ties.given[self.at]
        self._least = np.array([one.least for one in judged])
        # Of a few requests, each may be in its prompt.
        loads = [cells.judgement(int(ties.given[cell])) for cell in at]
        floors = [
            (one.floor, load.floor) if ties.is_yield[cell] else (0.0, 0.0)
            for cell, one, load in zip(at, judged, loads, strict=True)
        ]
        self._floor, self._least_load = np.array(floors).reshape(-1, 2).T
        self._min_run_s = np.array([MIN_RUN_S.get(one.role, BURST_S) for one in judged])

    def judge(self, tick: Tick) -> None:
        """Takes in new values."""
        at, value, time = self.select(tick.new)
        load = self.cells.value[self._given[at]]
        loaded = load > 0
        at, value, time, load = at[loaded], value[loaded], time[loaded], load[loaded]
        if not len(at):
            return
        with np.errstate(invalid="ignore", divide="ignore"):
            usual = self._load_sum[at] / self._count[at]
            least = np.where(load > usual * (1 + APART), 1 / HALF - 1, self._least[at])
            known = (
                (self._count[at] >= MIN_PAST) & (time - self._begin[at] >= RESTART_S) & (usual >= self._least_load[at])
            )
            fell = (value * (1 + least) < self._lowest[at]) & (value + self._floor[at] < self._lowest[at])
            low = known & fell & (load >= usual * (1 - APART))
            # Where the load fell with it, the fall says nothing; it must not become the past either.
            unclear = known & fell & ~low
        self._take_low(at[low], value[low], time[low])
        self._take_past(at[~(low | unclear)], value[~(low | unclear)], time[~(low | unclear)], load[~(low | unclear)])

    def _take_low(self, at: Index, value: F64, time: F64) -> None:
        self._run[at] += 1
        self._since[at] = np.fmin(self._since[at], time)
        self._value[at] = value
        self._run_lowest[at] = np.fmin(self._run_lowest[at], value)

    def _take_past(self, at: Index, value: F64, time: F64, load: F64) -> None:
        # A few low values that did not last are part of what is usual.
        short = at[(self._run[at] > 0) & (self._run[at] < RUN)]
        self._lowest[short] = np.fmin(self._lowest[short], self._run_lowest[short])
        self._run[at] = 0
        self._since[at] = self._run_lowest[at] = np.nan
        self._lowest[at] = np.fmin(self._lowest[at], value)
        self._load_sum[at] += load
        self._count[at] += 1
        self._begin[at] = np.fmin(self._begin[at], time)

    def judged_cells(self) -> Index:
        """Returns the cells with a past to compare with."""
        found: Index = self.at[self._count >= MIN_PAST]
        return found

    def find(self) -> Iterator[Finding]:
        """Yields the capacities that are lower now."""
        with np.errstate(invalid="ignore"):
            lasts = self.cells.time[self.at] - self._since >= self._min_run_s
        for n in np.flatnonzero(lasts & (self._run >= RUN)).tolist():
            cell = int(self.at[n])
            signal, place = self.cells.signals[cell], self.cells.places[cell]
            yield Finding(signal, place, PAST, "down", self._since[n], self._value[n], float(self._lowest[n]))
