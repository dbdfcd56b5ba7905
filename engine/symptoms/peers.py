"""Cells that differ from their peers: for good, since some time, or in turn."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.entities import EntitySets, build_sets
from skewscope.engine.symptoms.cells import MAX_SET_SIZE, JudgedCells, row_median
from skewscope.engine.symptoms.shifts import LevelShifts, ShiftLimits

LEAST_PEER_SHIFT = 0.2
"""Peers that differ by a fifth in distinct samples do differ; a tenth is common among GPUs of one server."""
STANDING_RATIO = 1.5
"""Workers that share GPUs differ by up to 30 % for a whole job without a fault (alibaba/clusterdata)."""
MAX_RATIO = 1000.0
"""The ratio of a value to peers that have none."""
STANDING_RUN = 5
"""Samples in a row at that ratio."""
MIN_MOVING_SIZE = 4
"""Members from which on one can tell that the slow one changes."""
STANDING_ROLES = frozenset({"time-per-work", "capacity"})


@dataclass
class PeerRatios:
    """Ratios of cells to the median of each set that they belong to, one for each membership (pair)."""

    cells: JudgedCells
    shifts: LevelShifts = field(init=False)
    moving: LevelShifts = field(init=False)
    """Of each set: its largest ratio."""

    def __post_init__(self) -> None:
        nothing = _limits(np.empty(0), np.empty(0, bool), np.empty(0, bool), np.empty(0))
        self.shifts, self.moving = LevelShifts(nothing), LevelShifts(nothing)
        self._sets: EntitySets = build_sets([], 0)
        self.compared: Mask = np.empty(0, bool)
        self._is_distinct: Mask = np.empty(0, bool)
        self._waiting: Mask = np.empty(0, bool)
        """[pair] whether a new sample of the cell has come since its set was last compared."""
        self._distinct_new: Mask = np.empty(0, bool)
        self._floor = np.empty(0)
        self._standing = np.empty(0, np.int64)
        self._standing_since = np.empty(0)
        self._may_stand: Mask = np.empty(0, bool)
        self.ratio = np.empty(0)
        self.median = np.empty(0)
        """[set]"""
        self.worst = np.empty(0, np.intp)
        """[set] the pair with the largest ratio, and how often in a row it was the same one."""
        self._worst_run = np.empty(0, np.int64)

    def grow(self, is_distinct: Mask, min_time: F64) -> None:
        """Makes room for new cells; arguments are [cell]."""
        cells = self.cells
        pairs, sets = len(cells.pair_cell), len(cells.set_sizes)
        judged = [cells.judgement(cell) for cell in range(len(cells))]
        compared = np.array(
            ["peers" in one.against and one.role not in ("share", "progress", "errors", "state") for one in judged],
            bool,
        )
        # The speeds of ports differ by design.
        stands = np.array(
            [one.role in STANDING_ROLES and cells.places[n].kind != "port" for n, one in enumerate(judged)], bool
        )
        least = np.array([max(one.least, LEAST_PEER_SHIFT) for one in judged])
        up = np.array([one.bad in ("up", "both") for one in judged], bool)
        down = np.array([one.bad in ("down", "both") for one in judged], bool)
        at = cells.pair_cell
        usable = (cells.set_sizes <= MAX_SET_SIZE)[cells.pair_set] if pairs else np.empty(0, bool)
        self.compared = compared[at] & usable
        self._is_distinct, self._may_stand = is_distinct[at], stands[at]
        self._floor = np.array([one.floor for one in judged])[at]
        members: dict[int, list[int]] = {}
        for cell, number in zip(at[self.compared].tolist(), cells.pair_set[self.compared].tolist(), strict=True):
            members.setdefault(number, []).append(cell)
        self._sets = build_sets(members, sets)
        self.shifts.grow(_limits(least[at], up[at], down[at], min_time[at]))
        first = np.zeros(sets, np.intp)
        first[cells.pair_set[::-1]] = at[::-1]
        slow = up[first] & stands[first] & (cells.set_sizes >= MIN_MOVING_SIZE) if sets else np.empty(0, bool)
        self.moving.grow(
            _limits(
                least[first] if sets else np.empty(0),
                slow,
                np.zeros(sets, bool),
                min_time[first] if sets else np.empty(0),
            )
        )
        self._waiting, self._distinct_new = (
            _padded(self._waiting, pairs, False),
            _padded(self._distinct_new, pairs, False),
        )
        self._standing = _padded(self._standing, pairs, 0)
        self._standing_since, self.ratio = (
            _padded(self._standing_since, pairs, np.nan),
            _padded(self.ratio, pairs, np.nan),
        )
        self.worst, self._worst_run = _padded(self.worst, sets, -1), _padded(self._worst_run, sets, 0)

    def step(self, t: float, usable: F64, new: Mask, distinct: Mask) -> None:
        """Compares the sets of which every member has a new sample since the last time.

        Args:
            t: time of the tick, seconds.
            usable: [cell] newest values, NaN where there is none or where it does not count.
            new: [cell] whether it has a new sample.
            distinct: [cell] whether that differs from the one before.
        """
        at, numbers = self.cells.pair_cell, self.cells.pair_set
        if not len(at):
            return
        self._waiting |= new[at]
        self._distinct_new |= distinct[at]
        there = self.compared & ~np.isnan(usable[at])
        sets = len(self.cells.set_sizes)
        counts = np.bincount(numbers[there], minlength=sets)
        arrived = np.bincount(numbers[there & self._waiting], minlength=sets)
        fresh = np.bincount(numbers[there & (self._distinct_new | ~self._is_distinct)], minlength=sets)
        complete = (counts >= 2) & (arrived == counts) & (2 * fresh >= counts)
        if not complete.any():
            return
        pairs = np.flatnonzero(there & complete[numbers])
        self._waiting[complete[numbers]] = self._distinct_new[complete[numbers]] = False
        self.median = self._sets.reduce(usable, row_median)
        middle, value = self.median[numbers[pairs]], usable[at[pairs]]
        with np.errstate(all="ignore"):
            beside_zero = np.where(value == middle, 1.0, np.where(value > middle, MAX_RATIO, np.nan))
            ratio = np.where(
                middle > 0, np.minimum(value / middle, MAX_RATIO), np.where(middle == 0, beside_zero, np.nan)
            )
        # A difference that does not matter is none, whatever its ratio: lateness of a microsecond, a queue of one.
        ratio = np.where(np.abs(value - middle) < self._floor[pairs], 1.0, ratio)
        self.ratio[pairs] = ratio
        known = ~np.isnan(ratio)
        pairs, ratio = pairs[known], ratio[known]
        if not len(pairs):
            return
        time = np.full(len(pairs), t)
        self.shifts.step(pairs, ratio, time)
        self._count_standing(pairs, ratio, t)
        self._compare_moving(pairs, ratio, t)

    def _count_standing(self, pairs: Index, ratio: F64, t: float) -> None:
        limits = self.shifts.limits
        odd = (ratio >= STANDING_RATIO) & limits.up[pairs] | (ratio <= 1 / STANDING_RATIO) & limits.down[pairs]
        odd &= self._may_stand[pairs]
        first = odd & (self._standing[pairs] == 0)
        self._standing_since[pairs[first]] = t
        self._standing[pairs] = np.where(odd, self._standing[pairs] + 1, 0)

    def _compare_moving(self, pairs: Index, ratio: F64, t: float) -> None:
        numbers = self.cells.pair_set[pairs]
        order = np.lexsort((pairs, -ratio, numbers))
        first = np.append(True, np.diff(numbers[order]) != 0)
        at, worst, top = numbers[order][first], pairs[order][first], ratio[order][first]
        same = self.worst[at] == worst
        self._worst_run[at] = np.where(same, self._worst_run[at] + 1, 1)
        self.worst[at] = worst
        self.moving.step(at, top, np.full(len(at), t))

    # --- results

    def odd_pairs(self) -> Index:
        """Returns the pairs that are outliers now."""
        long = self._standing_time_over()
        return np.flatnonzero((self.shifts.shift != 0) | long)

    def _standing_time_over(self) -> Mask:
        return self._standing >= STANDING_RUN

    def since(self, pair: int) -> float:
        """Since when a pair is an outlier, seconds."""
        found = self.shifts.since[pair] if self.shifts.shift[pair] else self._standing_since[pair]
        return float(found)

    def moving_sets(self) -> Index:
        """Returns the sets in which some member is an outlier and no member remains the one."""
        return np.flatnonzero((self.moving.shift > 0) & (self._worst_run < STANDING_RUN))


def _limits(least: F64, up: Mask, down: Mask, min_time: F64) -> ShiftLimits:
    return ShiftLimits(least, np.zeros(len(least)), up, down, min_time)


def _padded(values: NDArray[Any], size: int, fill: float | bool) -> NDArray[Any]:
    out = np.full(size, fill, values.dtype)
    out[: len(values)] = values
    return out
