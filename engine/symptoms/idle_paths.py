"""Ports that lost the traffic which their siblings still carry.

Traffic follows load, so no port is judged by its own past alone: its traffic over that of its own past is compared with
the same ratio of the other ports of its node in the same network.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, Mask, row_median
from skewscope.engine.model.entities import build_sets
from skewscope.engine.model.finding import LESS, ZERO, Finding
from skewscope.engine.model.parameters import APART, HALF, MIN_PAST, RESTART_S, RUN
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.levels import LevelShifts
from skewscope.engine.symptoms.series_detector import Runs, SeriesDetector


class IdlePaths(SeriesDetector):
    """Cells of traffic counters that lost their share."""

    KEPT: ClassVar[Fills] = {"_before": np.nan, "_is_idle": False, "_is_little": False}
    TABLES: ClassVar = {"_lost": Runs, "_little": Runs}
    _before: F64
    """The traffic of before, of those that lost theirs."""
    _is_idle: Mask
    _is_little: Mask
    _lost: Runs
    _little: Runs
    """Values in a row without traffic, and with little of it."""

    def __init__(self, cells: JudgedCells, shifts: LevelShifts) -> None:
        super().__init__(cells)
        self._shifts = shifts
        """The past of all cells."""
        self._links = {name: cells.topology.links_of(name) for name in cells.topology.port}

    def judges(self, cell: int) -> bool:
        """Returns whether a cell counts traffic of which less is bad."""
        judged = self.cells.judgement(cell)
        return judged.role == "share" and judged.bad in ("down", "both")

    def learn_cells(self) -> None:
        """Works out the siblings and the parallel links of each path."""
        cells, at = self.cells, self.at.tolist()
        self._floor = cells.judged.floor[self.at]
        numbers: dict[tuple[str, str, str], int] = {}
        keys = [
            (cells.signals[n].id, cells.selectors[n], self._links.get(cells.places[n].name, cells.places[n].name))
            for n in at
        ]
        self._bundle: Index = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.intp)
        set_of = {int(c): int(s) for c, s in zip(cells.pair_cell, cells.pair_set, strict=True)}
        self._set: Index = np.array([set_of.get(n, -1) for n in at], np.intp)
        members: dict[int, list[int]] = {}
        for place, number in enumerate(self._set.tolist()):
            if number >= 0:
                members.setdefault(number, []).append(place)
        self._siblings = build_sets(members, len(cells.set_sizes))

    def judge(self, tick: Tick) -> None:
        """Takes in the new rates."""
        shifts, (mine, _, time) = self._shifts, self.select(tick.new)
        has_siblings = self._set[mine] >= 0
        mine, time = mine[has_siblings], time[has_siblings]
        if not len(mine):
            return
        past = np.where(shifts.count[self.at] >= MIN_PAST, shifts.median[self.at], np.nan)
        past = np.where(self._is_idle | self._is_little, self._before, past)
        active = past > np.maximum(self._floor, 0.0)
        ratio = np.where(active, self.cells.value[self.at] / past, np.nan)
        common = self._reduced(ratio)[mine]
        usual = self._reduced(np.where(active, past, np.nan))[mine]
        expected = active[mine] & (common >= HALF) & (past[mine] >= APART * usual)
        # Where traffic grows, a port that carries as much as before has lost nothing.
        wanted = np.minimum(common, 1.0)
        lost = expected & (ratio[mine] < APART * wanted)
        back = ratio[mine] >= HALF * wanted
        self._lost.follow(mine, lost, ratio[mine], time, self._is_idle)
        begun = mine[(self._lost.count[mine] >= RUN) & ~self._is_idle[mine]]
        self._is_idle[begun], self._before[begun] = True, past[begun]
        ended = mine[self._is_idle[mine] & back]
        self._is_idle[ended] = False
        self._lost.end(ended)
        # Flows that were placed anew move between parallel links, and none is lost.
        share = np.where(active, self.cells.value[self.at], 0.0)
        carried, before = (np.bincount(self._bundle, np.nan_to_num(one)) for one in (share, past * active))
        part = np.fmax(ratio, (carried / before)[self._bundle])[mine]
        self._little.follow(mine, expected & (part < 2 * APART * wanted), part, time, self._is_little)
        long = (self._little.count[mine] >= RUN) & (time - self._little.since[mine] >= RESTART_S)
        begun = mine[long & ~self._is_little[mine] & ~self._is_idle[mine]]
        self._is_little[begun], self._before[begun] = True, past[begun]
        self._is_little[mine[part >= HALF * wanted]] = False

    def _reduced(self, values: F64) -> F64:
        found = self._siblings.reduce(values, row_median)
        return found[np.maximum(self._set, 0)]

    def idle_cells(self) -> Index:
        """Returns the cells that lost their traffic."""
        return self.at[self._is_idle]

    def find(self) -> Iterator[Finding]:
        """Yields the ports that lost their traffic, or most of it."""
        for n in np.flatnonzero(self._is_idle | self._is_little).tolist():
            form, run = (ZERO, self._lost) if self._is_idle[n] else (LESS, self._little)
            yield self.finding_on(n, form, "down", (run.since[n], self.cells.value[self.at[n]], self._before[n]))
