"""Ports that carry nothing while their siblings carry what they did.

Traffic follows load, so no port is judged by its own past alone: its traffic over that of its own past is compared with
the same ratio of the other ports of its node in the same network.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.entities import build_sets
from skewscope.engine.symptoms.cells import JudgedCells, NewSamples, row_median
from skewscope.engine.symptoms.deviation import ZERO, Deviation
from skewscope.engine.symptoms.shifts import MIN_PAST, LevelShifts

LOST = 0.2
"""A port that carries less than this part of what its siblings' common change lets expect has lost its traffic."""
SIBLINGS_HOLD = 0.5
"""Siblings must carry at least this part of their own past: otherwise the load has fallen."""
SIGNIFICANT = 0.2
"""A port counts if its past traffic is at least this part of the median of its siblings' past."""
RUN = 3
BACK = 0.5


@dataclass
class IdlePaths:
    """Cells of traffic counters that lost their share."""

    cells: JudgedCells
    at: Index = field(default_factory=lambda: np.empty(0, np.intp))

    def __post_init__(self) -> None:
        self._place: Index = np.empty(0, np.intp)
        self._set: Index = np.empty(0, np.intp)
        """[path] number of its set of siblings, or -1."""
        self._run: Index = np.empty(0, np.intp)
        self._since, self._before = np.empty(0), np.empty(0)
        self._is_idle: Mask = np.empty(0, bool)
        self._floor = np.empty(0)

    def grow(self) -> None:
        """Makes room for new cells."""
        cells = self.cells
        judged = [cells.judgement(cell) for cell in range(len(cells))]
        at = [n for n, one in enumerate(judged) if one.role == "share" and one.bad in ("down", "both")]
        more = len(at) - len(self.at)
        self.at = np.array(at, np.intp)
        self._place = np.full(len(cells), -1, np.intp)
        self._place[self.at] = np.arange(len(at))
        self._floor = np.array([judged[n].floor for n in at])
        self._run = np.concatenate((self._run, np.zeros(more, np.intp)))
        self._since, self._before = (
            np.concatenate((old, np.full(more, np.nan))) for old in (self._since, self._before)
        )
        self._is_idle = np.concatenate((self._is_idle, np.zeros(more, bool)))
        set_of = {int(c): int(s) for c, s in zip(cells.pair_cell, cells.pair_set, strict=True)}
        self._set = np.array([set_of.get(n, -1) for n in at], np.intp)
        members: dict[int, list[int]] = {}
        for place, number in enumerate(self._set.tolist()):
            if number >= 0:
                members.setdefault(number, []).append(place)
        self._siblings = build_sets(members, len(cells.set_sizes))

    def step(self, new: NewSamples, shifts: LevelShifts) -> None:
        """Takes in the new rates; `shifts` has the past of all cells."""
        place = self._place[new.cells]
        mine = place[place >= 0]
        mine = mine[self._set[mine] >= 0]
        if not len(mine):
            return
        past = np.where(shifts.count[self.at] >= MIN_PAST, shifts.median[self.at], np.nan)
        past = np.where(self._is_idle, self._before, past)
        active = past > np.maximum(self._floor, 0.0)
        ratio = np.where(active, self.cells.value[self.at] / past, np.nan)
        common = self._reduced(ratio)[mine]
        usual = self._reduced(np.where(active, past, np.nan))[mine]
        expected = active[mine] & (common >= SIBLINGS_HOLD) & (past[mine] >= SIGNIFICANT * usual)
        lost = expected & (ratio[mine] < LOST * common)
        back = ratio[mine] >= BACK * common
        self._begin(mine, new.time[place >= 0][self._set[place[place >= 0]] >= 0], lost, past)
        ended = mine[self._is_idle[mine] & back]
        self._is_idle[ended], self._run[ended], self._since[ended] = False, 0, np.nan

    def _begin(self, at: Index, time: F64, lost: Mask, past: F64) -> None:
        first = lost & (self._run[at] == 0)
        self._since[at[first]] = time[first]
        self._run[at] = np.where(lost, self._run[at] + 1, np.where(self._is_idle[at], self._run[at], 0))
        begun = at[(self._run[at] >= RUN) & ~self._is_idle[at]]
        self._is_idle[begun], self._before[begun] = True, past[begun]

    def _reduced(self, values: F64) -> F64:
        found = self._siblings.reduce(values, row_median)
        return found[np.maximum(self._set, 0)]

    def deviations(self) -> Iterator[Deviation]:
        """Yields the ports that lost their traffic."""
        for n in np.flatnonzero(self._is_idle).tolist():
            cell = int(self.at[n])
            signal, place, value = self.cells.signals[cell], self.cells.places[cell], self.cells.value[cell]
            yield Deviation(signal, place, ZERO, "down", float(self._since[n]), float(value), float(self._before[n]))
