"""Values of the members of a group against the median of their peers."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Self

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, Mask, row_median, widen_items
from skewscope.engine.model.entities import EntitySets, build_sets
from skewscope.engine.model.finding import MOVING, PEERS, WORK_ROLES, Finding
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
from skewscope.engine.symptoms.repeats import LongSteps
from skewscope.engine.symptoms.roles import DISTINCT_ROLES
from skewscope.engine.symptoms.series_detector import CellPlaces, Runs, SeriesDetector
from skewscope.engine.symptoms.shift_limits import ShiftLimits

FIRST_KINDS = ("replica", "rank")
"""Places that have the same work by what they are; GPUs of one node may be used by different programs."""
STANDING_ROLES = frozenset({"time-per-work", "capacity"})
PACE_AT_LOAD = "the pace of its peers at its load"
"""What is computed where members have different loads, and nobody had before."""
PAIRS: Fills = {
    "_waiting": False,
    "_distinct_new": False,
    "_first_odd": False,
    "_late_since": np.nan,
    "ratio": np.nan,
}
SETS: Fills = {
    "worst": -1,
    "_worst_run": 0,
    "_floors": 0.0,
    "_level": np.nan,
    "_level_since": np.nan,
    "median": np.nan,
}


class PeerRatios(SeriesDetector):
    """Ratios of cells to the median of each set that they belong to, one for each membership (pair)."""

    _waiting: Mask
    """[pair] whether a new sample of the cell has come since its set was last compared."""
    _distinct_new: Mask
    ratio: F64
    _late_since: F64
    """[pair] when a single step was late at the last comparison."""
    _first_odd: Mask
    """[pair] whether it is odd in the last ones of the few readings that there are."""
    median: F64
    _level: F64
    _level_since: F64
    """[set] median, what it was when the load last changed, and when that was."""
    worst: Index
    _worst_run: Index
    """[set] the pair with the largest ratio, and how often in a row it was the same one."""
    _floors: F64
    """[set] by how many least differences the worst of its members has been late of late."""
    _is_distinct: Mask
    _follows_load: Mask
    _is_count: Mask
    """[pair] whether it is a number of requests, which varies by chance."""
    _may_be_late: Mask
    """[pair] whether one step counts."""
    _may_repeat: Mask
    """[pair] whether it is a step of which several late ones count."""
    _first_factor: F64
    """[pair] the ratio from which on few readings say that it is odd, infinite where they say nothing."""

    def __init__(self, cells: JudgedCells, past: LevelShifts) -> None:
        super().__init__(cells)
        self.past = past
        """Of the cells."""
        self.shifts, self.moving = LevelShifts(), LevelShifts()
        """Of the pairs; of each set: its largest ratio."""
        self._sets: EntitySets = build_sets([], 0)
        self.compared: Mask = np.empty(0, bool)
        self._compared_pairs: Index = np.empty(0, np.intp)
        """The same as an index: of most pairs, other things are judged."""
        self._first = Runs()
        """[pair] readings in a row that are odd if they are all that there are."""
        self.repeats = LongSteps()

    def grow(self) -> None:
        """Makes room for new cells."""
        cells, judged, at = self.cells, self.cells.judged, self.cells.pair_cell
        pairs, sets = len(at), len(cells.set_sizes)
        for owner, fills, size in ((self, PAIRS, pairs), (self, SETS, sets), (self._first, Runs.KEPT, pairs)):
            widen_items(owner, fills, size)
        self.compared, self._compared_pairs = cells.compared, np.flatnonzero(cells.compared)
        members: dict[int, list[int]] = {}
        for cell, number in zip(at[self.compared].tolist(), cells.pair_set[self.compared].tolist(), strict=True):
            members.setdefault(number, []).append(cell)
        self._sets = build_sets(members, sets)
        self._is_distinct = judged.has_role(DISTINCT_ROLES)[at]
        self._follows_load = judged.has_role(WORK_ROLES)[at]
        is_gauge = np.array([signal.type == "gauge" for signal in cells.signals], bool)
        self._is_count = (judged.has_role(["workload"]) & is_gauge)[at]
        kinds = np.array([place.kind for place in cells.places], str)
        is_work, is_step = judged.has_role(["time-per-work"]), judged.has_role(["time-per-work"]) & ~cells.serves
        # The speeds of ports differ by design.
        stands = judged.has_role(STANDING_ROLES) & (kinds != "port")
        waits = judged.has_role(["latency"]) & (kinds == "replica")
        limits = ShiftLimits(
            least=np.maximum(judged.least, APART),
            floor=np.zeros(len(cells)),
            up=judged.up,
            down=judged.down,
            min_time=judged.min_run_s,
            is_work=is_work,
            alike=np.where(stands, ALIKE, np.where(waits, 2 * ALIKE, np.inf)),
        )
        self.shifts.grow(limits.of(at))
        self.shifts.started[:] = True
        self._grow_moving(limits, judged.up & stands)
        may_repeat = (is_step & judged.up & (kinds == "rank"))[at]
        self._may_be_late = may_repeat & (cells.set_sizes >= MANY)[cells.pair_set]
        self._may_repeat = may_repeat & self.compared
        self.repeats.grow(pairs)
        # Who waits longest is the victim of another member: of few readings a wait says nothing.
        is_alike = (np.isin(kinds, FIRST_KINDS) & ~judged.has_role(["wait"]))[at] & self.compared
        self._first_factor = np.where(is_alike, ALIKE * (1 + limits.least[at]), np.inf)

    def _grow_moving(self, limits: ShiftLimits, slow: Mask) -> None:
        """Makes room for new sets; `slow` [cell] says of which the worst one counts."""
        cells, sets = self.cells, len(self.cells.set_sizes)
        first = np.zeros(sets, np.intp)
        first[cells.pair_set[::-1]] = cells.pair_cell[::-1]
        of_sets = replace(limits, up=slow, down=np.zeros(len(cells), bool), alike=None).of(first)
        # Replicas of a serving pool do not wait for each other: that the slow one changes is a rolling restart.
        waits = ~cells.serves[first] | ~np.isin(np.arange(sets), self._pools())
        self.moving.grow(replace(of_sets, up=of_sets.up & (cells.set_sizes >= MAJORITY + 1) & waits))
        self.moving.started[:] = True

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
        self._first.follow(pairs, self._are_far(pairs, ratio), ratio, np.full(len(pairs), t))
        late_by = (value - middle)[known]
        self._find_late(pairs, late_by, t)
        self._find_repeated(pairs[(self.shifts.count[pairs] >= MIN_PAST) & self._may_repeat[pairs]], usable, t)
        self._compare_moving(pairs, ratio, late_by / np.maximum(floor[at[pairs]], np.finfo(np.float32).tiny), t)

    def _hold_back(self, pairs: Index, t: float) -> None:
        """Ends the runs of what follows the load where that has just changed."""
        with np.errstate(all="ignore"):
            change = self.median / self._level
        changed = ~np.isnan(self.median) & ~((change < 2) & (change > 1 / 2))
        self._level[changed], self._level_since[changed] = self.median[changed], t
        young = t - self._level_since[self.cells.pair_set[pairs]] < BURST_S
        self.shifts.run[pairs[young & self._follows_load[pairs] & (self.shifts.shift[pairs] == 0)]] = 0

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

    def _find_repeated(self, pairs: Index, usable: F64, t: float) -> None:
        """Finds members of which single steps take far longer than those of all others, again and again.

        Pauses that hit the members in turn, as when each collects garbage at its own time, count for none of them.
        """
        is_late, numbers = self.ratio[pairs] > TAIL, self.cells.pair_set[pairs]
        begins = self.repeats.begin(pairs, is_late)
        if not (begins.any() or self.repeats.found[pairs].any()):
            return
        late_in, begin_in = (np.bincount(numbers[some], minlength=len(self.median)) for some in (is_late, begins))
        alone = begins & (late_in[numbers] == 1)
        self.repeats.count(pairs, alone, t, begin_in[numbers] - begins)
        at = pairs[alone]
        self.repeats.note(at, usable[self.cells.pair_cell[at]], self.median[numbers[alone]], t)

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

    def _are_far(self, pairs: Index, ratio: F64) -> Mask:
        """Returns [k] whether some pairs are so far from 1 that few readings do."""
        limits, factor = self.shifts.limits, self._first_factor[pairs]
        found: Mask = (ratio > factor) & limits.up[pairs] | (ratio < 1 / factor) & limits.down[pairs]
        return found

    def end(self) -> None:
        """Ends the data: where readings are too few for a past, one member that is odd in the last ones counts."""
        newest, numbers = self.shifts.memory.get(np.arange(len(self.ratio)), NEWEST), self.cells.pair_set
        has_past = self.shifts.count >= np.where(self.shifts.limits.is_work, RUN + 1, MIN_PAST)
        odd = (self._first.count > 0) & (self._first.count >= (~np.isnan(newest)).sum(axis=0)) & ~has_past
        single = np.bincount(numbers[odd], minlength=len(self.cells.set_sizes)) == 1
        self._first_odd = odd & single[numbers] & (self.cells.set_sizes >= MAJORITY)[numbers]

    # --- results

    def drop(self, cells: Mask) -> None:
        """Ends the shifts of some cells, as what they need to count is gone; `cells` is [cell]."""
        pairs = cells[self.cells.pair_cell]
        self.shifts.drop(pairs)
        self._late_since[pairs] = np.nan
        self.repeats.drop(pairs)
        self.moving.drop(np.bincount(self.cells.pair_set[pairs], minlength=self.moving.size) > 0)

    def odd_pairs(self) -> Index:
        """Returns the pairs that are outliers now."""
        odd = (self.shifts.shift != 0) | ~np.isnan(self._late_since) | self.repeats.found
        return np.flatnonzero(odd | self._first_odd)

    def since(self, pair: int) -> float:
        """Since when a pair is an outlier, seconds."""
        if self.shifts.shift[pair]:
            return self.shifts.since(pair)
        if self.repeats.found[pair]:
            return float(self.repeats.starts([pair])[0])
        late = float(self._late_since[pair])
        return float(self._first.since[pair]) if np.isnan(late) else late

    def level(self, pair: int) -> float:
        """Returns the ratio of a pair that is an outlier: of its shift, of its last late step, or the newest one."""
        median = float(self.median[self.cells.pair_set[pair]])
        if self.shifts.shift[pair]:
            return self.shifts.level(pair)
        if self.repeats.found[pair] and median > 0:
            return float(min(self.repeats.values([pair])[0] / median, 1 / NEGLIGIBLE))
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
        copy_items(self._first, before._first, Runs.KEPT, places.pairs)
        self.repeats.take_over(before.repeats, places.pairs)
        self.moving.take_over(before.moving, places.sets)
        copy_items(self, before, SETS, places.sets)
        self.worst[places.sets.now] = places.pairs.locate(before.worst[places.sets.before])


def _distance(ratio: float) -> float:
    """Returns how far a ratio is from one, on a logarithmic scale."""
    return abs(math.log(ratio)) if ratio > 0 else math.inf
