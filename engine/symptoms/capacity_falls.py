"""A clock, a link or the tokens of an engine that fall although what drives them does not, whatever use is made of it.

What was reached at the same use before is known: a governor that lowers the clock at little use did so then as well,
and an engine that read prompts made fewer tokens meanwhile.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, Index
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.deviation import PAST, Deviation
from skewscope.engine.symptoms.levels import MIN_PAST, RUN
from skewscope.engine.symptoms.relations import CellRelations
from skewscope.engine.symptoms.roles import MIN_RUN_S, OTHER_MIN_RUN_S
from skewscope.engine.symptoms.samples import NewSamples

PAST_S = 60.0
"""Seconds that a past must span: within them a governor lowers the clock of a device with little to do (judgement)."""
SAME_LOAD = 0.2
"""Part by which a load may differ from that of the past and be the same (judgement)."""
LEAST_UNDER_MORE_LOAD = 1.0
"""Under more load than before, a clock counts below half of what it was: within that, more work may take it down. Base
clocks of GPUs, which makers promise at full power, are at least half of the highest (source: their data sheets)."""
ARRAYS = ("_lowest", "_load_sum", "_count", "_begin", "_run", "_since", "_value", "_run_lowest")


@dataclass
class CapacityFalls:
    """Capacities, and throughputs of engines, with a load, which fell while that did not. Arrays are [such a cell]."""

    cells: JudgedCells
    at: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """The cells."""

    def __post_init__(self) -> None:
        self._place, self._given = np.empty(0, np.intp), np.empty(0, np.intp)
        """[cell] position among these, or -1; the cell that shows the load."""
        self._least, self._floor, self._least_load, self._min_run_s = (np.empty(0) for _ in range(4))
        """What a fall is at least, relative and absolute; the usual load from which on it counts; seconds it lasts."""
        self._lowest, self._load_sum, self._count, self._begin = (np.empty(0) for _ in range(4))
        """Of the past under any load: the lowest value, the sum of loads, the number and the time of the first one."""
        self._run, self._since, self._value, self._run_lowest = (np.empty(0) for _ in range(4))
        """Of the values in a row that are lower: their number, the time of the first, the newest and the lowest one."""

    def grow(self, ties: CellRelations) -> None:
        """Makes room for new cells, whose loads are those of `ties`."""
        judged = [self.cells.judgement(n) for n in range(len(self.cells))]
        at = [n for n, one in enumerate(judged) if (one.role == "capacity" or ties.is_yield[n]) and ties.given[n] >= 0]
        places = {cell: n for n, cell in enumerate(self.at.tolist())}
        old = np.array([places.get(n, -1) for n in at], np.intp)
        for name in ARRAYS:
            start = 0.0 if name in ("_load_sum", "_count", "_run") else np.nan
            setattr(self, name, np.append(getattr(self, name), start)[old])
        self.at = np.array(at, np.intp)
        self._place = np.full(len(self.cells), -1, np.intp)
        self._place[self.at] = np.arange(len(at))
        self._given = ties.given[self.at]
        self._least = np.array([judged[n].least for n in at])
        # Of a few requests, each may be in its prompt.
        floors = [(judged[n].floor, judged[ties.given[n]].floor) if ties.is_yield[n] else (0.0, 0.0) for n in at]
        self._floor, self._least_load = np.array(floors).reshape(-1, 2).T
        self._min_run_s = np.array([MIN_RUN_S.get(judged[n].role, OTHER_MIN_RUN_S) for n in at])

    def step(self, new: NewSamples) -> None:
        """Takes in new values."""
        place = self._place[new.cells]
        some = place >= 0
        at, value, time = place[some], new.value[some], new.time[some]
        load = self.cells.value[self._given[at]]
        loaded = load > 0
        at, value, time, load = at[loaded], value[loaded], time[loaded], load[loaded]
        if not len(at):
            return
        with np.errstate(invalid="ignore", divide="ignore"):
            usual = self._load_sum[at] / self._count[at]
            least = np.where(load > usual * (1 + SAME_LOAD), LEAST_UNDER_MORE_LOAD, self._least[at])
            known = (self._count[at] >= MIN_PAST) & (time - self._begin[at] >= PAST_S) & (usual >= self._least_load[at])
            fell = (value * (1 + least) < self._lowest[at]) & (value + self._floor[at] < self._lowest[at])
            low = known & fell & (load >= usual * (1 - SAME_LOAD))
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

    def deviations(self) -> Iterator[Deviation]:
        """Yields the capacities that are lower now."""
        with np.errstate(invalid="ignore"):
            lasts = self.cells.time[self.at] - self._since >= self._min_run_s
        for n in np.flatnonzero(lasts & (self._run >= RUN)).tolist():
            cell = int(self.at[n])
            signal, place = self.cells.signals[cell], self.cells.places[cell]
            yield Deviation(signal, place, PAST, "down", self._since[n], self._value[n], float(self._lowest[n]))
