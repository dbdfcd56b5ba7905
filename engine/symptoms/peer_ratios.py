"""Values of the members of a group against the median of their peers."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Self

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask, row_median, widen
from skewscope.engine.model.entities import EntitySets, build_sets
from skewscope.engine.model.finding import MOVING, PEERS, Finding
from skewscope.engine.model.parameters import (
    ALIKE,
    APART,
    BURST_S,
    HALF,
    MAJORITY,
    MANY,
    MIN_PAST,
    NEGLIGIBLE,
    PAUSE_S,
    RUN,
    SIGMAS,
    TAIL,
)
from skewscope.engine.model.tick import Tick
from skewscope.engine.model.transfer import copy_items
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.levels import NEWEST, LevelShifts
from skewscope.engine.symptoms.repeats import RepeatedSteps
from skewscope.engine.symptoms.roles import DISTINCT_ROLES, MIN_RUN_S
from skewscope.engine.symptoms.series_detector import CellPlaces, SeriesDetector
from skewscope.engine.symptoms.shift_limits import ShiftLimits

FIRST_KINDS = frozenset({"replica", "rank"})
"""Places that have the same work by what they are; GPUs of one node may be used by different programs."""
STANDING_ROLES = frozenset({"time-per-work", "capacity"})
LOAD_ROLES = frozenset({"utilisation", "workload", "throughput"})
"""Roles of which members differ while work begins or ends: not all do so at once, and for BURST_S no run begins."""


PACE_AT_LOAD = "the pace of its peers at its load"
"""What is computed where members have different loads, and nobody had before."""
PAIRS = ("_waiting", "_distinct_new", "_standing", "_standing_since", "_late_since", "_first_since", "ratio")
SETS = ("_worst_run", "_floors", "_level", "_level_since")


class PeerRatios(SeriesDetector):
    """Ratios of cells to the median of each set that they belong to, one for each membership (pair)."""

    def __init__(self, cells: JudgedCells, past: LevelShifts) -> None:
        super().__init__(cells)
        self.past = past
        """Of the cells."""
        self.shifts, self.moving = LevelShifts(ShiftLimits.empty()), LevelShifts(ShiftLimits.empty())
        """Of the pairs; of each set: its largest ratio."""
        self._sets: EntitySets = build_sets([], 0)
        self.compared: Mask = np.empty(0, bool)
        self._compared_pairs: Index = np.empty(0, np.intp)
        """The same as an index: of most pairs, other things are judged."""
        self._is_distinct: Mask = np.empty(0, bool)
        self._waiting: Mask = np.empty(0, bool)
        """[pair] whether a new sample of the cell has come since its set was last compared."""
        self._distinct_new: Mask = np.empty(0, bool)
        self._standing = np.empty(0, np.int32)
        self._standing_since = np.empty(0)
        self._standing_ratio = np.empty(0)
        """[pair] the ratio at which it is odd without ever having been otherwise; infinite where it never is."""
        self._may_be_late: Mask = np.empty(0, bool)
        """[pair] whether one step counts."""
        self._late_since = np.empty(0)
        """[pair] when a single step was late at the last comparison."""
        self._first_odd: Mask = np.empty(0, bool)
        """[pair] whether it is odd in the last ones of the few readings that there are."""
        self._first_factor, self._first_since = np.empty(0), np.empty(0)
        """[pair] the ratio from which on it is, infinite where few readings say nothing; since when it has been so."""
        self.repeats = RepeatedSteps(self.cells)
        self.ratio = np.empty(0)
        self._follows_load: Mask = np.empty(0, bool)
        self._is_count: Mask = np.empty(0, bool)
        """[pair] whether it is a number of requests, which varies by chance."""
        self.median, self._level, self._level_since = (np.empty(0) for _ in range(3))
        """[set] median, what it was when the load last changed, and when that was."""
        self.worst = np.empty(0, np.intp)
        """[set] the pair with the largest ratio, and how often in a row it was the same one."""
        self._worst_run = np.empty(0, np.int64)
        self._floors = np.empty(0)
        """[set] by how many least differences the worst of its members has been late of late."""

    def grow(self) -> None:
        """Makes room for new cells."""
        cells = self.cells
        pairs, sets = len(cells.pair_cell), len(cells.set_sizes)
        judged = [cells.judgement(cell) for cell in range(len(cells))]
        # The speeds of ports differ by design.
        stands = np.array(
            [one.role in STANDING_ROLES and cells.places[n].kind != "port" for n, one in enumerate(judged)], bool
        )
        is_distinct = np.array([one.role in DISTINCT_ROLES for one in judged], bool)
        min_time = np.array([MIN_RUN_S.get(one.role, BURST_S) for one in judged])
        least = np.array([max(one.least, APART) for one in judged])
        up = np.array([one.bad in ("up", "both") for one in judged], bool)
        down = np.array([one.bad in ("down", "both") for one in judged], bool)
        at = cells.pair_cell
        self.compared = cells.compared
        self._compared_pairs = np.flatnonzero(self.compared)
        of_replicas = [one.role == "latency" and cells.places[n].kind == "replica" for n, one in enumerate(judged)]
        standing = np.where(stands, ALIKE, np.where(np.array(of_replicas, bool), 2 * ALIKE, np.inf))
        self._is_distinct, self._standing_ratio = is_distinct[at], standing[at]
        self._follows_load = np.array([one.role in LOAD_ROLES for one in judged], bool)[at]
        self._is_count = np.array(
            [one.role == "workload" and cells.signals[n].type == "gauge" for n, one in enumerate(judged)], bool
        )[at]
        self._level, self._level_since = widen(self._level, sets), widen(self._level_since, sets)
        members: dict[int, list[int]] = {}
        for cell, number in zip(at[self.compared].tolist(), cells.pair_set[self.compared].tolist(), strict=True):
            members.setdefault(number, []).append(cell)
        self._sets = build_sets(members, sets)
        is_work = np.array([one.role == "time-per-work" for one in judged], bool)
        limits = ShiftLimits(least, np.zeros(len(least)), up, down, min_time, is_work)
        self.shifts.grow(limits.of(at))
        self.shifts.started[:] = True
        first = np.zeros(sets, np.intp)
        first[cells.pair_set[::-1]] = at[::-1]
        slow = up & stands
        of_sets = replace(limits, up=slow, down=np.zeros(len(least), bool)).of(first)
        trains = ~cells.serves
        # Replicas of a serving pool do not wait for each other: that the slow one changes is a rolling restart.
        waits = trains[first] | ~np.isin(np.arange(sets), self._pools())
        self.moving.grow(replace(of_sets, up=of_sets.up & (cells.set_sizes >= MAJORITY + 1) & waits))
        self.moving.started[:] = True
        ranks = np.array([one.kind == "rank" for one in cells.places], bool)
        is_step = (is_work & up & ranks & trains)[at]
        self._may_be_late = is_step & (cells.set_sizes >= MANY)[cells.pair_set]
        self.repeats.grow(is_step & self.compared)
        self._late_since = widen(self._late_since, pairs, np.nan)
        # Who waits longest is the victim of another member: of few readings a wait says nothing.
        says = [one.kind in FIRST_KINDS and judged[n].role != "wait" for n, one in enumerate(cells.places)]
        is_alike = np.array(says, bool)[at] & self.compared
        self._first_factor = np.where(is_alike, ALIKE * (1 + least[at]), np.inf)
        self._first_since = widen(self._first_since, pairs, np.nan)
        for name in ("_waiting", "_distinct_new", "_first_odd"):
            setattr(self, name, widen(getattr(self, name), pairs, False))
        self._standing = widen(self._standing, pairs, 0)
        self._standing_since, self.ratio = widen(self._standing_since, pairs), widen(self.ratio, pairs)
        self.worst, self._worst_run = widen(self.worst, sets, -1), widen(self._worst_run, sets, 0)
        self._floors = widen(self._floors, sets, 0.0)

    def _pools(self) -> list[int]:
        """Returns the sets that are the members of a pool."""
        return [number for number, place in self.cells.set_places.items() if place.kind == "pool"]

    def judge(self, tick: Tick) -> None:
        """Compares the sets of which every member has a new sample since the last time."""
        if tick.gone is not None:
            self.drop(tick.gone)
        t, usable, floor = tick.t, tick.compared, tick.floor
        at, numbers, compared = self.cells.pair_cell, self.cells.pair_set, self._compared_pairs
        if not len(compared):
            return
        self._waiting[compared] |= tick.has_sample[at[compared]]
        self._distinct_new[compared] |= tick.is_distinct[at[compared]]
        there = compared[~np.isnan(usable[at[compared]])]
        sets = len(self.cells.set_sizes)
        counts = np.bincount(numbers[there], minlength=sets)
        arrived = np.bincount(numbers[there[self._waiting[there]]], minlength=sets)
        is_fresh = self._distinct_new[there] | ~self._is_distinct[there]
        fresh = np.bincount(numbers[there[is_fresh]], minlength=sets)
        complete = (counts >= 2) & (arrived == counts) & (2 * fresh >= counts)
        if not complete.any():
            return
        pairs = there[complete[numbers[there]]]
        over = compared[complete[numbers[compared]]]
        self._waiting[over] = self._distinct_new[over] = False
        self.median = self._sets.reduce(usable, row_median)
        middle, value = self.median[numbers[pairs]], usable[at[pairs]]
        with np.errstate(all="ignore"):
            beside_zero = np.where(value == middle, 1.0, np.where(value > middle, 1 / NEGLIGIBLE, np.nan))
            ratio = np.where(
                middle > 0, np.minimum(value / middle, 1 / NEGLIGIBLE), np.where(middle == 0, beside_zero, np.nan)
            )
        # A difference that does not matter is none, whatever its ratio: lateness of a microsecond, a queue of one.
        floors = np.maximum(floor[at[pairs]], np.where(self._is_count[pairs], SIGMAS * np.sqrt(np.abs(middle)), 0.0))
        ratio = np.where(np.abs(value - middle) < floors, 1.0, ratio)
        self.ratio[pairs] = ratio
        known = ~np.isnan(ratio)
        pairs, ratio = pairs[known], ratio[known]
        if not len(pairs):
            return
        self.shifts.step(pairs, ratio, np.full(len(pairs), t))
        self._hold_back(pairs, t)
        self._count_standing(pairs, ratio, t)
        far = self._are_far(pairs, ratio, ratio)
        self._first_since[pairs] = np.where(far, np.fmin(self._first_since[pairs], t), np.nan)
        late_by = (value - middle)[known]
        self._find_late(pairs, late_by, t)
        self.repeats.step(pairs[self.shifts.count[pairs] >= MIN_PAST], self.ratio, usable, self.median, t)
        self._compare_moving(pairs, ratio, late_by / np.maximum(floor[at[pairs]], np.finfo(np.float32).tiny), t)

    def _hold_back(self, pairs: Index, t: float) -> None:
        """Ends the runs of what follows the load where that has just changed."""
        with np.errstate(all="ignore"):
            change = self.median / self._level
        changed = ~np.isnan(self.median) & ~((change < 2) & (change > 1 / 2))
        self._level[changed], self._level_since[changed] = self.median[changed], t
        young = t - self._level_since[self.cells.pair_set[pairs]] < BURST_S
        self.shifts.run[pairs[young & self._follows_load[pairs] & (self.shifts.shift[pairs] == 0)]] = 0

    def _count_standing(self, pairs: Index, ratio: F64, t: float) -> None:
        limits = self.shifts.limits
        least = self._standing_ratio[pairs]
        odd = (ratio >= least) & limits.up[pairs] | (ratio <= 1 / least) & limits.down[pairs]
        first = odd & (self._standing[pairs] == 0)
        self._standing_since[pairs[first]] = t
        self._standing[pairs] = np.where(odd, self._standing[pairs] + 1, 0)

    def _find_late(self, pairs: Index, late_by: F64, t: float) -> None:
        """Finds single steps of a few members that took far longer, while those of the others did not."""
        self._late_since[pairs] = np.nan
        late = pairs[self._may_be_late[pairs] & (self.ratio[pairs] > TAIL) & (late_by >= 2 * PAUSE_S)]
        if not len(late):
            return
        # Members that stall together end it one after the other: the last of them is not the only one.
        at, numbers = self.cells.pair_cell, self.cells.pair_set
        stalled = np.fmax.reduce(self.past.memory.get(at, NEWEST), axis=0) > TAIL * self.median[numbers]
        many = MANY * np.bincount(numbers[stalled & self.compared], minlength=len(self.median)) > self.cells.set_sizes
        self._late_since[late[~many[numbers[late]]]] = t

    def _compare_moving(self, pairs: Index, ratio: F64, floors: F64, t: float) -> None:
        """Takes in the largest ratio of each set; `floors` [pairs] is by how many least differences each is late."""
        numbers = self.cells.pair_set[pairs]
        order = np.lexsort((pairs, -ratio, numbers))
        first = np.append(True, np.diff(numbers[order]) != 0)
        at, worst, top = numbers[order][first], pairs[order][first], ratio[order][first]
        same = self.worst[at] == worst
        self._worst_run[at] = np.where(same, self._worst_run[at] + 1, 1)
        self.worst[at] = worst
        self._floors[at] += HALF * (floors[order][first] - self._floors[at])
        self.moving.step(at, top, np.full(len(at), t))

    def _are_far(self, pairs: Index, lowest: F64, highest: F64) -> Mask:
        """Returns [k] whether some pairs are so far from 1, by their lowest and highest ratio, that few readings do."""
        limits, factor = self.shifts.limits, self._first_factor[pairs]
        found: Mask = (lowest > factor) & limits.up[pairs] | (highest < 1 / factor) & limits.down[pairs]
        return found

    def end(self) -> None:
        """Ends the data: where readings are too few for a past, one member that is odd in the last ones counts."""
        pairs, numbers = np.arange(len(self.ratio)), self.cells.pair_set
        newest = self.shifts.memory.get(pairs, NEWEST)
        with np.errstate(invalid="ignore"):
            far = self._are_far(pairs, np.fmin.reduce(newest, axis=0), np.fmax.reduce(newest, axis=0))
        odd = far & ~np.isnan(self._first_since) & np.isnan(self.shifts.high)
        single = np.bincount(numbers[odd], minlength=len(self.cells.set_sizes)) == 1
        self._first_odd = odd & single[numbers] & (self.cells.set_sizes >= MAJORITY)[numbers]

    # --- results

    def drop(self, cells: Mask) -> None:
        """Ends the shifts of some cells, as what they need to count is gone; `cells` is [cell]."""
        pairs = cells[self.cells.pair_cell]
        self.shifts.drop(pairs)
        self._standing[pairs], self._late_since[pairs] = 0, np.nan
        self.repeats.drop(pairs)
        self.moving.drop(np.bincount(self.cells.pair_set[pairs], minlength=self.moving.size) > 0)

    def odd_pairs(self) -> Index:
        """Returns the pairs that are outliers now."""
        long = self._standing >= RUN
        odd = (self.shifts.shift != 0) | long | ~np.isnan(self._late_since) | self.repeats.found
        return np.flatnonzero(odd | self._first_odd)

    def since(self, pair: int) -> float:
        """Since when a pair is an outlier, seconds."""
        if self.shifts.shift[pair]:
            return self.shifts.since(pair)
        if self._standing[pair] >= RUN:
            return float(self._standing_since[pair])
        if self.repeats.found[pair]:
            return self.repeats.since(pair)
        late = float(self._late_since[pair])
        return float(self._first_since[pair]) if np.isnan(late) else late

    def level(self, pair: int) -> float:
        """Returns the ratio of a pair that is an outlier: of its shift, of its last late step, or the newest one."""
        median = float(self.median[self.cells.pair_set[pair]])
        if self.shifts.shift[pair]:
            return self.shifts.level(pair)
        if self.repeats.found[pair] and median > 0:
            return float(min(self.repeats.value(pair) / median, 1 / NEGLIGIBLE))
        return float(self.ratio[pair])

    def moving_sets(self) -> Index:
        """Returns the sets in which some member is an outlier and no member remains the one."""
        matters = self._floors >= 2
        return np.flatnonzero((self.moving.shift > 0) & (self._worst_run < RUN) & matters)

    def find(self) -> Iterator[Finding]:
        """Yields the members that are outliers among their peers, and the sets of which always another one is."""
        cells, best = self.cells, self._worst_pairs()
        odd = np.zeros(len(cells), bool)
        for cell, pair in sorted(best.items()):
            if not cells.is_load_known(cell, self.since(pair)):
                continue
            number = int(cells.pair_set[pair])
            odd[cell] = True
            middle, ratio = float(self.median[number]), self.level(pair)
            direction = "up" if ratio > 1 else "down"
            if not (self.shifts.limits.up if ratio > 1 else self.shifts.limits.down)[pair]:
                continue  # it was worse and is better than its peers by now
            computed = PACE_AT_LOAD if cells.ties.is_yield[cell] else ""
            if computed:
                middle *= float(cells.value[cells.ties.given[cell]])
            now = float(cells.value[cell])
            # What is late now and then may be early now: its usual lateness is told.
            is_typical = (now > middle) == (ratio > 1) and not self.repeats.found[pair]
            since, value = self.since(pair), now if is_typical else ratio * middle
            signal, place = cells.signals[cell], cells.places[cell]
            yield Finding(signal, place, PEERS, direction, since, value, middle, against=computed)
        yield from self._uneven_sets(odd)

    def _worst_pairs(self) -> dict[int, int]:
        """Returns of each cell that is an outlier the pair by which it is the furthest from its peers."""
        best: dict[int, int] = {}
        for pair in self.odd_pairs().tolist():
            cell = int(self.cells.pair_cell[pair])
            if cell not in best or _distance(self.ratio[pair]) > _distance(self.ratio[best[cell]]):
                best[cell] = pair
        return best

    def _uneven_sets(self, odd: Mask) -> Iterator[Finding]:
        """Yields the sets in which some member is an outlier and none remains the one; `odd` [cell] are told."""
        cells, places, moving = self.cells, self.cells.set_places, self.moving_sets().tolist()
        told = set(cells.pair_set[odd[cells.pair_cell]].tolist()) if moving else set()
        for number in moving:
            if number in told or number not in places:
                continue
            cell = int(cells.pair_cell[self.worst[number]])
            since, middle = self.moving.since(number), float(self.median[number])
            if not all(cells.is_load_known(one, since) for one in cells.pair_cell[cells.pair_set == number].tolist()):
                continue
            top = middle * self.moving.level(number)
            yield Finding(cells.signals[cell], places[number], MOVING, "uneven", since, top, middle)

    def take_over(self, before: Self, places: CellPlaces) -> None:
        """Goes on with what another one learned of the sets and memberships that both have."""
        super().take_over(before, places)
        self.shifts.take_over(before.shifts, places.pairs)
        copy_items(self, before, PAIRS, places.pairs)
        copy_items(self.repeats, before.repeats, ("found", "_was_late"), places.pairs)
        self.repeats.late.copy_from(places.pairs.now, before.repeats.late, places.pairs.before)
        self.moving.take_over(before.moving, places.sets)
        copy_items(self, before, SETS, places.sets)
        self.worst[places.sets.now] = places.pairs.locate(before.worst[places.sets.before])
        # Before the first comparison there is none, and newer sets have none either.
        some = places.sets.before < len(before.median)
        self.median = np.full(len(self.worst), np.nan)
        self.median[places.sets.now[some]] = before.median[places.sets.before[some]]


def _distance(ratio: float) -> float:
    """Returns how far a ratio is from one, on a logarithmic scale."""
    return abs(math.log(ratio)) if ratio > 0 else math.inf
