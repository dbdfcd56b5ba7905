"""Work that stands again and again: single steps that take far longer than ever before, of all that work together."""

from collections.abc import Iterator
from typing import ClassVar, Self

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index
from skewscope.engine.model.finding import REPEATS, Finding
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.parameters import ALIKE, LEAST_PART, MAJORITY, NEGLIGIBLE, PAUSE_S, TAIL
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.levels import LevelShifts
from skewscope.engine.symptoms.repeats import LongSteps, count_left
from skewscope.engine.symptoms.series_detector import CellPlaces, SeriesDetector


class RepeatedStalls(SeriesDetector):
    """Steps of training that take far longer than in their past, again and again."""

    KEPT: ClassVar[Fills] = dict.fromkeys(("_newest", "_quiet"), np.nan)
    _newest: F64
    """Time of the newest long step, s."""
    _quiet: F64
    """Seconds without long steps before the row."""

    def __init__(self, cells: JudgedCells, shifts: LevelShifts) -> None:
        super().__init__(cells)
        self._shifts = shifts
        """The past of all cells."""
        self._long = LongSteps()
        """Those of all cells."""
        self._replicas = frozenset(name for pool in cells.topology.pools for name in pool.replicas)

    def judges(self, cell: int) -> bool:
        """Returns whether a cell is the time of work of a job; what serves pauses when nothing is asked of it."""
        judged, place = self.cells.judgement(cell), self.cells.places[cell]
        if judged.role != "time-per-work" or judged.bad == "down" or "past" not in judged.against:
            return False
        group = place.name.split(":", 1)[0]
        return place.kind in {"rank", "group"} and group not in self._replicas and not self.cells.serves[cell]

    def learn_cells(self) -> None:
        """Makes room for the long steps."""
        self._long.grow(len(self.cells))

    def judge(self, tick: Tick) -> None:
        """Takes in new samples."""
        shifts, (at, value, time) = self._shifts, self.select(tick.new)
        if not len(at):
            return
        cells = self.at[at]
        usual = shifts.median[cells]
        is_long = (value > TAIL * usual) & (value - usual >= PAUSE_S) & (shifts.shift[cells] == 0)
        begins = self._long.begin(cells, is_long)
        self._long.count(cells, begins, time)
        if begins.any():
            self._note(at[begins], value[begins], time[begins], usual[begins])

    def _note(self, at: Index, value: F64, time: F64, usual: F64) -> None:
        """Notes steps that are long."""
        cells = self.at[at]
        first, begun = self._long.is_first(cells), self.cells.begun[cells]
        self._quiet[at[first]] = (time - np.fmax(self._newest[at], begun))[first]
        self._newest[at] = time
        earlier, was_found = self._long.values(cells), self._long.found[cells]
        share, count = self._long.note(cells, value, usual, time)
        since = self._long.starts(cells)
        with np.errstate(all="ignore"):
            is_new = self._quiet[at] >= MAJORITY * (time - since) / (count - 1)
        is_like_last = np.maximum(value, earlier) <= ALIKE * np.minimum(value, earlier)
        is_only = since - self._quiet[at] <= begun + NEGLIGIBLE
        is_costly_pair = is_only & (count >= count_left(2)) & (share >= MAJORITY * LEAST_PART) & is_like_last
        self._long.found[cells] = was_found | (self._long.found[cells] | is_costly_pair) & is_new

    def find(self) -> Iterator[Finding]:
        """Yields the work that stands again and again.

        Of the members of a group most must stand, which are one finding: a single one is told from its peers.
        """
        cells = self.cells
        found = self._long.found
        at = np.flatnonzero(found)
        if not len(at):
            return
        hit = np.bincount(cells.pair_set[found[cells.pair_cell]], minlength=len(cells.set_sizes))
        most = 2 * hit > cells.set_sizes
        told: set[tuple[str, Entity]] = set()
        for cell in at.tolist():
            signal, place = cells.signals[cell], cells.places[cell]
            if place.kind == "rank":
                sets = cells.pair_set[cells.pair_cell == cell].tolist()
                wholes = (cells.set_places.get(number) for number in sets if most[number])
                place = next((one for one in wholes if one is not None and one.kind == "group"), place)
            if place.kind == "rank" or (signal.id, place) in told:
                continue
            told.add((signal.id, place))
            since, value = (float(some[0]) for some in (self._long.starts([cell]), self._long.values([cell])))
            yield Finding(signal, place, REPEATS, "up", since, value, float(self._shifts.median[cell]))

    def take_over(self, before: Self, places: CellPlaces) -> None:
        """Goes on with the long steps of another one."""
        super().take_over(before, places)
        self._long.take_over(before._long, places.cells)
