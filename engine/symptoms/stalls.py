"""Work that stands again and again: single steps that take far longer than ever before, of all that work together."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask, nan_to_zero
from skewscope.engine.model.finding import REPEATS, Finding
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.parameters import ALIKE, BURST_S, HALF, LEAST_PART, MAJORITY, NEGLIGIBLE, PAUSE_S, TAIL
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.levels import LevelShifts
from skewscope.engine.symptoms.repeats import count_left
from skewscope.engine.symptoms.series_detector import Fills, SeriesDetector


class RepeatedStalls(SeriesDetector):
    """Steps of training that take far longer than in their past, again and again."""

    KEPT: ClassVar[Fills] = dict.fromkeys(
        ("_first", "_since", "_time", "_newest", "_quiet", "_count", "_lost", "_value"), np.nan
    ) | {
        "_was_long": False,
        "_is_found": False,
    }
    _first: F64
    _since: F64
    _time: F64
    _newest: F64
    """Times of the first sample, of the first long step of the row, of the newest sample and long step, s."""
    _quiet: F64
    _count: F64
    _lost: F64
    _value: F64
    """Seconds without long steps before, how many there were of late, seconds lost, and how long the newest was."""
    _was_long: Mask
    _is_found: Mask

    def __init__(self, cells: JudgedCells, shifts: LevelShifts) -> None:
        super().__init__(cells)
        self._shifts = shifts
        """The past of all cells."""
        self._replicas = frozenset(name for pool in cells.topology.pools for name in pool.replicas)

    def judges(self, cell: int) -> bool:
        """Returns whether a cell is the time of work of a job; what serves pauses when nothing is asked of it."""
        judged, place = self.cells.judgement(cell), self.cells.places[cell]
        if judged.role != "time-per-work" or judged.bad == "down" or "past" not in judged.against:
            return False
        group = place.name.split(":", 1)[0]
        return place.kind in {"rank", "group"} and group not in self._replicas and not self.cells.serves[cell]

    def judge(self, tick: Tick) -> None:
        """Takes in new samples."""
        shifts, (at, value, time) = self._shifts, self.select(tick.new)
        if not len(at):
            return
        cells = self.at[at]
        self._first[at] = np.fmin(self._first[at], time)
        usual = shifts.median[cells]
        is_long = (value > TAIL * usual) & (value - usual >= PAUSE_S) & (shifts.shift[cells] == 0)
        begins = is_long & ~self._was_long[at]
        self._was_long[at] = is_long
        kept = nan_to_zero(np.exp((self._time[at] - time) / BURST_S))
        self._count[at] = kept * nan_to_zero(self._count[at]) + begins
        self._time[at] = time
        self._is_found[at] &= self._count[at] >= HALF * count_left(MAJORITY)
        if begins.any():
            self._note(at[begins], value[begins], time[begins], usual[begins])

    def _note(self, at: Index, value: F64, time: F64, usual: F64) -> None:
        """Notes steps that are long."""
        # What is left of earlier ones is too little for a row.
        is_first = self._count[at] < 1 + 1 / np.e
        first = at[is_first]
        self._quiet[first] = time[is_first] - np.fmax(self._newest[first], self._first[first])
        self._since[first], self._lost[first] = time[is_first], 0.0
        earlier = self._value[at]
        self._newest[at], self._value[at] = time, value
        self._lost[at] += value - usual
        passed, count = time - self._since[at], self._count[at]
        with np.errstate(all="ignore"):
            share = self._lost[at] * (1 - 1 / count) / passed
            is_new = self._quiet[at] >= MAJORITY * passed / (count - 1)
        is_like_last = np.maximum(value, earlier) <= ALIKE * np.minimum(value, earlier)
        is_only = self._since[at] - self._quiet[at] <= self._first[at] + NEGLIGIBLE
        is_costly_pair = is_only & (count >= count_left(2)) & (share >= MAJORITY * LEAST_PART) & is_like_last
        is_often = (count >= count_left(MAJORITY)) & (share >= LEAST_PART)
        self._is_found[at] |= (is_often | is_costly_pair) & is_new

    def find(self) -> Iterator[Finding]:
        """Yields the work that stands again and again.

        Of the members of a group most must stand, which are one finding: a single one is told from its peers.
        """
        cells = self.cells
        at = self.at[self._is_found]
        if not len(at):
            return
        found = np.zeros(len(cells), bool)
        found[at] = True
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
            n = self._place[cell]
            since, value = float(self._since[n]), float(self._value[n])
            yield Finding(signal, place, REPEATS, "up", since, value, float(self._shifts.median[cell]))
