"""Series that shift against their own past, one by one or as most members of a set, and slow starts."""

from collections.abc import Callable, Iterator
from typing import Self

import numpy as np

from skewscope.engine.model.arrays import Index
from skewscope.engine.model.finding import PAST, START, Finding
from skewscope.engine.model.parameters import ALIKE, MIN_PAST
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.levels import LevelShifts
from skewscope.engine.symptoms.roles import DISTINCT_ROLES, FOLLOWING_ROLES, PAST_ROLES
from skewscope.engine.symptoms.series_detector import CellPlaces, SeriesDetector
from skewscope.engine.symptoms.shared_shifts import MemberSets, keep_largest
from skewscope.engine.symptoms.shift_limits import ShiftLimits


class PastShifts(SeriesDetector):
    """The past of each cell, and which have shifted against it."""

    def __init__(self, cells: JudgedCells, is_explained: Callable[[int], bool]) -> None:
        """Judges cells, except what else explains: `is_explained` of a cell."""
        super().__init__(cells)
        self._is_explained = is_explained
        self.shifts = LevelShifts()
        none = np.empty(0, bool)
        self._by_past, self._is_distinct = none, none
        """[cell] whether its past is kept; whether a repeated value is no measurement."""

    def grow(self) -> None:
        """Makes room for new cells."""
        cells, judged = self.cells, self.cells.judged
        self._is_distinct, kept = judged.has_role(DISTINCT_ROLES), judged.has_role(["share"])
        self._by_past = np.array([self._has_past(cell) for cell in range(len(cells))], bool) | kept
        is_work = judged.has_role(["time-per-work"])
        limits = ShiftLimits(
            least=np.where(is_work & cells.serves, np.maximum(judged.least, ALIKE - 1), judged.least),
            floor=cells.floor,
            # Traffic follows load: its past is kept, and never judged by itself.
            up=judged.up & ~kept,
            down=judged.down & ~kept,
            min_time=judged.min_run_s,
            is_work=is_work & ~cells.serves,
            follows_load=judged.has_role(FOLLOWING_ROLES),
        )
        self.shifts.grow(limits)
        self.shifts.started |= ~limits.is_work

    def _has_past(self, cell: int) -> bool:
        judged = self.cells.judgement(cell)
        is_loss_rate = judged.role == "loss" and bool(self.cells.is_counter[cell])
        # What a replica does falls with its requests.
        is_serving = judged.role == "throughput" and bool(self.cells.serves[cell])
        return judged.role in PAST_ROLES and "past" in judged.against and not is_loss_rate and not is_serving

    def judged_cells(self) -> Index:
        """Returns the cells that have a past."""
        return np.flatnonzero(self.shifts.count >= MIN_PAST)

    def counts_each(self) -> Index:
        """Returns the cells of jobs that have taken few steps, of which each one of a tick counts.

        Later, the newest one of a tick stands for all of it.
        """
        limits = self.shifts.limits
        return np.flatnonzero(limits.is_work & self.cells.is_printed & self._by_past & (self.shifts.count < MIN_PAST))

    def judge(self, tick: Tick) -> None:
        """Takes in the samples of a tick."""
        if tick.gone is not None:
            self.shifts.drop(tick.gone)
        for new in tick.earlier:
            self.shifts.step(new.cells, new.value, new.time)
        at = tick.new.cells
        counts = self._by_past & (tick.is_distinct | ~self._is_distinct) & ~np.isnan(tick.usable)
        past = at[counts[at]]
        self.shifts.step(past, tick.usable[past], self.cells.time[past])

    def find(self) -> Iterator[Finding]:
        """Yields the shifts, each of a cell or of the group or pool of which most members shift, and slow starts."""
        yield from keep_largest(self._list_shifts())
        shifts, signals, places = self.shifts, self.cells.signals, self.cells.places
        for cell in np.flatnonzero(shifts.slow_start).tolist():
            (value, since), after = shifts.slow_start_of(cell), shifts.level(cell)
            yield Finding(signals[cell], places[cell], START, "up", since, value, after)

    def _list_shifts(self) -> Iterator[Finding]:
        """Yields the shifts.

        A single member that differs from its peers is judged by these: what it shares with them is the work.
        """
        shifts, cells = self.shifts, self.cells
        if not shifts.shift.any():
            return
        sets = MemberSets(cells, shifts.shift != 0)
        shared = sets.shared_places()
        for cell in np.flatnonzero((shifts.shift != 0) & ~sets.odd_ones()).tolist():
            if not cells.is_load_known(cell, shifts.since(cell)) or self._is_explained(cell):
                continue
            direction = "up" if shifts.shift[cell] > 0 else "down"
            since, value, before = shifts.since(cell), shifts.level(cell), shifts.before(cell)
            if value < before if direction == "up" else value > before:
                continue  # it was worse and is better than before by now
            yield Finding(
                cells.signals[cell], shared.get(cell, cells.places[cell]), PAST, direction, since, value, before
            )

    def take_over(self, before: Self, places: CellPlaces) -> None:
        """Goes on with the past of the cells that another one has as well."""
        super().take_over(before, places)
        self.shifts.take_over(before.shifts, places.cells)
