"""Series that shift against their own past, one by one or as most members of a set, and slow starts."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Self

import numpy as np

from skewscope.engine.model.arrays import Index, Mask
from skewscope.engine.model.finding import PAST, START, Finding, FindingKey
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.parameters import ALIKE, BURST_S, MAJORITY, MIN_PAST
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.levels import LevelShifts
from skewscope.engine.symptoms.roles import DISTINCT_ROLES, FOLLOWING_ROLES, MIN_RUN_S, PAST_ROLES
from skewscope.engine.symptoms.series_detector import CellPlaces, SeriesDetector
from skewscope.engine.symptoms.shift_limits import ShiftLimits

SHARED_BY = {"rank": "group", "replica": "pool"}
"""Where most of three or more members shift, what they are members of is reported, by their kind."""


class PastShifts(SeriesDetector):
    """The past of each cell, and which have shifted against it."""

    def __init__(self, cells: JudgedCells, is_explained: Callable[[int], bool]) -> None:
        """Judges cells, except what else explains: `is_explained` of a cell."""
        super().__init__(cells)
        self._is_explained = is_explained
        self.shifts = LevelShifts(ShiftLimits.empty())
        none = np.empty(0, bool)
        self._by_past, self._is_distinct = none, none
        """[cell] whether its past is kept; whether a repeated value is no measurement."""

    def grow(self) -> None:
        """Makes room for new cells."""
        cells = self.cells
        judged = [cells.judgement(cell) for cell in range(len(cells))]
        roles = [one.role for one in judged]
        self._is_distinct = np.array([role in DISTINCT_ROLES for role in roles], bool)
        kept = np.array([role == "share" for role in roles], bool)
        self._by_past = np.array([self._has_past(cell) for cell in range(len(cells))], bool) | kept
        is_work = np.array([role == "time-per-work" for role in roles], bool)
        least = np.array([one.least for one in judged])
        up = np.array([one.bad in ("up", "both") for one in judged], bool)
        down = np.array([one.bad in ("down", "both") for one in judged], bool)
        limits = ShiftLimits(
            least=np.where(is_work & cells.serves, np.maximum(least, ALIKE - 1), least),
            floor=cells.floor,
            # Traffic follows load: its past is kept, and never judged by itself.
            up=up & ~kept,
            down=down & ~kept,
            min_time=np.array([MIN_RUN_S.get(role, BURST_S) for role in roles]),
            is_work=is_work & ~cells.serves,
        )
        self.shifts.grow(replace(limits, follows_load=np.array([role in FOLLOWING_ROLES for role in roles], bool)))
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
        shifts, signals, places = self.shifts, self.cells.signals, self.cells.places
        shared: dict[FindingKey, Finding] = {}
        for cell, group in self._shifted_cells().items():
            if not self.cells.is_load_known(cell, shifts.since(cell)) or self._is_explained(cell):
                continue
            direction = "up" if shifts.shift[cell] > 0 else "down"
            since, value, before = shifts.since(cell), shifts.level(cell), shifts.before(cell)
            if value < before if direction == "up" else value > before:
                continue  # it was worse and is better than before by now
            found = Finding(signals[cell], group or places[cell], PAST, direction, since, value, before)
            if group is None:
                yield found
            elif found.key not in shared or found.size > shared[found.key].size:
                shared[found.key] = found
        yield from shared.values()
        for cell in np.flatnonzero(shifts.slow_start).tolist():
            (value, since), after = shifts.slow_start_of(cell), shifts.level(cell)
            yield Finding(signals[cell], places[cell], START, "up", since, value, after)

    def _shifted_cells(self) -> Mapping[int, Entity | None]:
        """Returns the cells shifted against their past, each with the group or pool of which most members are, if any.

        A single one that differs from its peers is judged by these: what it shares with them is the work.
        """
        shift, cells = self.shifts.shift, self.cells
        if not shift.any():
            return {}
        numbers, at = cells.pair_set, cells.pair_cell
        counted, sets = cells.compared, len(cells.set_sizes)
        size = np.bincount(numbers[counted], minlength=sets)
        hit = np.bincount(numbers[counted & (shift[at] != 0)], minlength=sets)
        told: Mask = counted & (size[numbers] >= MAJORITY)
        single = np.zeros(len(cells), bool)
        single[at[told & (2 * hit[numbers] < size[numbers])]] = True
        found: dict[int, Entity | None] = dict.fromkeys(np.flatnonzero((shift != 0) & ~single).tolist())
        for pair in np.flatnonzero(told & (shift[at] != 0) & (2 * hit[numbers] > size[numbers])).tolist():
            cell, place = int(at[pair]), cells.set_places.get(int(numbers[pair]))
            if cell in found and place is not None and SHARED_BY.get(cells.places[cell].kind) == place.kind:
                found[cell] = found[cell] or place
        return found

    def take_over(self, before: Self, places: CellPlaces) -> None:
        """Goes on with the past of the cells that another one has as well."""
        super().take_over(before, places)
        self.shifts.take_over(before.shifts, places.cells)
