"""What is plainly abnormal: one generic detector over all judged series, driven by the catalogue's signal entries.

Each series keeps its own sampling period. A repeated value of a held gauge is no new sample. Of counters the rates
between two changes are judged. What a signal is compared with is said by its `judged` block.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask, widen
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.topology import Topology
from skewscope.engine.symptoms.capacity_falls import CapacityFalls
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.deviation import MOVING, PAST, PEERS, START, Deviation, DeviationKey
from skewscope.engine.symptoms.errors import ErrorBursts
from skewscope.engine.symptoms.events import EventReports
from skewscope.engine.symptoms.growing_steps import GrowingSteps
from skewscope.engine.symptoms.idle_paths import IdlePaths
from skewscope.engine.symptoms.levels import MIN_PAST, LevelShifts
from skewscope.engine.symptoms.limits import Limits
from skewscope.engine.symptoms.loaded_capacity import LoadedCapacity
from skewscope.engine.symptoms.peer_ratios import PeerRatios
from skewscope.engine.symptoms.progress import ProgressStops, StepStops
from skewscope.engine.symptoms.relations import CellRelations, relate_cells
from skewscope.engine.symptoms.request_shares import RequestShares
from skewscope.engine.symptoms.roles import (
    DISTINCT_ROLES,
    FOLLOWING_ROLES,
    LOADED_ROLES,
    MIN_RUN_S,
    OTHER_MIN_RUN_S,
    PAST_ROLES,
    POOLED_ROLES,
)
from skewscope.engine.symptoms.samples import NewSamples, SampleSource, split_rounds
from skewscope.engine.symptoms.shift_limits import ShiftLimits
from skewscope.engine.symptoms.silence import Silences
from skewscope.engine.symptoms.stalls import RepeatedStalls
from skewscope.engine.symptoms.states import StateChanges
from skewscope.engine.symptoms.uneven_links import UnevenLinks, find_parallel_links

COMPARABLE_LOADS = 4.0
"""A replica with more than so many times the load of another one of its pool is slower for that alone, as while that
one is drained (judgement, set on simulated fleets)..."""
LEAST_SERVING_SHIFT = 0.5
"""...by up to this share: the steps of a replica become longer with its batches, in simulated traffic surges by an
eighth, hence judgement."""
MIN_PEERS = 3
"""Members of a set from which on it says more of a member than the member's own past."""
FEW_DIGITS, SAME_DIGITS = 2, 1e-3
"""Durations of so few decimal digits, up to a thousandth of the last one, are rounded: equal ones in a row are as many
steps. Others that are equal are one that is repeated."""
SHARED_BY = {"rank": "group", "replica": "pool"}
"""Where most of three or more members shift, what they are members of is reported, by their kind."""


@dataclass
class SymptomDetector:
    """Deviations of all judged series, updated with each tick."""

    state: SampleSource
    topology: Topology
    cells: JudgedCells = field(init=False)
    deviations: dict[DeviationKey, Deviation] = field(default_factory=dict)
    """Those that hold now."""

    def __post_init__(self) -> None:
        self.cells = JudgedCells(self.state, self.topology)
        nothing, none = np.empty(0), np.empty(0, bool)
        self.shifts = LevelShifts(ShiftLimits(nothing, nothing, none, none, nothing, none))
        self.peers = PeerRatios(self.cells, self.shifts)
        self.progress = ProgressStops(self.cells)
        self.steps = StepStops(self.cells)
        self.errors = ErrorBursts(self.cells)
        self.states = StateChanges(self.cells)
        self.events = EventReports(self.cells)
        self.limits = Limits(self.cells)
        self.capacities = LoadedCapacity(self.cells)
        self.falls = CapacityFalls(self.cells)
        self.growth = GrowingSteps(self.cells)
        self.paths = IdlePaths(self.cells)
        links = find_parallel_links(self.topology)
        self.links = UnevenLinks(self.cells, links) if links else None
        self.requests = RequestShares(self.cells)
        self.silences = Silences(self.cells)
        self.stalls = RepeatedStalls(self.cells)
        self._floor, self._least_floor = nothing, nothing
        """[cell] least difference that matters, as of now."""
        self._least_compared: F64 = nothing
        """[cell] no value below this is compared with peers."""
        self._ties = CellRelations(np.empty(0, np.intp), nothing, none, np.empty(0, np.intp), nothing)
        self._pool: Index = np.empty(0, np.intp)
        """[cell] the pool whose replicas take the load of one another, or -1."""
        self._load_series: Index = np.empty(0, np.intp)
        """[cell] the series that shows whether its replica serves requests, or -1."""
        self._load_pool: Index = np.empty(0, np.intp)
        """[cell] a number of its signal and of the pool of that replica, where the time of work is judged, or -1."""
        self._gated, self._loaded, self._pooled, self._timed = (self._pool for _ in range(4))
        """The cells with a load that they follow, with such a series, in such a pool, and with such a number."""
        self._is_distinct: Mask = none
        self._by_past: Mask = none
        self._last, self._last_time = nothing, nothing
        """[cell] value and time of the newest sample that differed from the one before, or counted as if it did."""
        self._may_repeat: Mask = none
        """[cell] whether it is the duration of a step that a job prints, of which the next one may be as long."""
        self._is_rounded: Mask = none
        """[cell] whether all its values had few digits."""
        self._t = self._unread_until = -math.inf
        """End of the last tick; time until which samples wait for the turn of their cells."""

    def step(self, t: float, *, sampled: bool = True) -> None:
        """Updates the deviations with the samples of the tick that ends at `t` seconds, if it has some."""
        self._t = t
        # Where cells take turns, the samples of a tick are read until each had its turn.
        if sampled and self.cells.turns > 1:
            self._unread_until = t + self.cells.turns
        if self.cells.grow(t):
            self._grow()
        new = self.cells.read(t)
        has_changed = self.steps.step(t, new)
        if not len(new.cells):
            if has_changed:
                self.deviations = {deviation.key: deviation for deviation in self._active()}
            return
        self.requests.step(t)
        self.silences.step(t, new)
        usable = self._usable_values()
        self._update_floors()
        self._judge_earlier_steps()
        mask, distinct = self._masks(new)
        with np.errstate(all="ignore"):
            at = new.cells
            past = at[self._by_past[at] & (distinct | ~self._is_distinct)[at] & ~np.isnan(usable[at])]
            self.shifts.step(past, usable[past], self.cells.time[past])
            compared = np.where(usable >= self._least_compared, self._allow_for_load(usable), np.nan)
            self.peers.step(t, compared, self._floor, mask, distinct)
            self.paths.step(new, self.shifts)
            if self.links is not None:
                self.links.step(new, self.shifts.median, self.paths.idle_cells())
            self.progress.step()
            self.errors.step(new, self._floor, self._whole_times)
            self.states.step(new)
            self.events.step(t, new)
            self.limits.step(new)
            self.capacities.step(new)
            self.falls.step(new)
            self.growth.step(new)
            self.stalls.step(new, self.shifts)
        self.deviations = {deviation.key: deviation for deviation in self._active()}

    def _grow(self) -> None:
        cells, size = self.cells, len(self.cells)
        judged = [cells.judgement(cell) for cell in range(size)]
        roles = [one.role for one in judged]
        self._is_distinct = np.array([role in DISTINCT_ROLES for role in roles], bool)
        serving = [cells.serving_group(n) is not None for n in range(size)]
        told = [
            role in PAST_ROLES
            and "past" in one.against
            and not (role == "loss" and is_counter)
            # What a replica does falls with its requests.
            and not (role == "throughput" and follows)
            for role, one, is_counter, follows in zip(roles, judged, cells.is_counter.tolist(), serving, strict=True)
        ]
        kept = np.array([role == "share" for role in roles], bool)
        self._by_past = np.array(told, bool) | kept
        min_time = np.array([MIN_RUN_S.get(role, OTHER_MIN_RUN_S) for role in roles])
        up = np.array([one.bad in ("up", "both") for one in judged], bool)
        down = np.array([one.bad in ("down", "both") for one in judged], bool)
        least = np.array([one.least for one in judged])
        self._least_floor = np.array([one.floor for one in judged])
        self._floor = self._least_floor.copy()
        self._least_compared = np.array([cells.comparison_minimum(cell) for cell in range(size)])
        follows = np.array(
            [serves and role == "time-per-work" for serves, role in zip(serving, roles, strict=True)], bool
        )
        past_least = np.where(follows, np.maximum(least, LEAST_SERVING_SHIFT), least)
        # Traffic follows load: its past is kept, and never judged by itself.
        is_work = np.array([role == "time-per-work" for role in roles], bool) & ~np.array(serving, bool)
        limits = ShiftLimits(past_least, self._floor, up & ~kept, down & ~kept, min_time, is_work)
        self.shifts.grow(replace(limits, follows_load=np.array([role in FOLLOWING_ROLES for role in roles], bool)))
        self.shifts.started |= ~is_work
        self.peers.grow(self._is_distinct, min_time)
        self._last, self._last_time = widen(self._last, size), widen(self._last_time, size)
        self._is_rounded = widen(self._is_rounded, size, fill=True)
        # What is measured on the wire has all its digits.
        self._may_repeat = np.array([one.is_printed_time for one in cells.signals], bool)
        self._ties = relate_cells(cells, judged, serving)
        self._pool = np.array(
            [self.requests.pool_of(n) if one.role in POOLED_ROLES else -1 for n, one in enumerate(judged)], np.intp
        )
        judged_by_load = np.array([role in LOADED_ROLES for role in roles], bool)
        self._load_series = np.array([cells.load_series(n) if judged_by_load[n] else -1 for n in range(size)], np.intp)
        timed = (self._load_series >= 0) & np.array([role == "time-per-work" for role in roles], bool)
        sets = [(cells.signals[n].id, self.requests.pool_of(n)) if timed[n] else ("", -1) for n in range(size)]
        numbers = {one: n for n, one in enumerate(dict.fromkeys(one for one in sets if one[1] >= 0))}
        self._load_pool = np.array([numbers.get(one, -1) for one in sets], np.intp)
        self._gated, self._loaded, self._pooled, self._timed = (
            np.flatnonzero(one >= 0) for one in (self._ties.given, self._load_series, self._pool, self._load_pool)
        )
        parts = (self.progress, self.steps, self.errors, self.states, self.paths, self.requests, self.silences)
        for part in (*parts, self.events, self.growth):
            part.grow()
        self.limits.grow(self._ties)
        self.capacities.grow(self._ties)
        self.falls.grow(self._ties)
        self.stalls.grow()
        if self.links is not None:
            self.links.grow()

    def _usable_values(self) -> F64:
        """Returns [cell] the newest values, NaN where the signal counts only under load and there is none."""
        value = self.cells.value
        gated, loaded, pooled = self._gated, self._loaded, self._pooled
        if not (len(gated) or len(loaded) or len(pooled)):
            return value
        load = self.state.fresh_values(self._load_series[loaded])
        gone = np.zeros(len(value), bool)
        gone[loaded] = np.isnan(load)
        if len(pooled):
            gone[pooled] |= self.requests.unsettled[self._pool[pooled]]
        found = value.copy()
        with np.errstate(invalid="ignore"):
            found[gated[~(value[self._ties.given[gated]] > self._ties.load[gated])]] = np.nan
            found[loaded[~(load > 0)]] = np.nan
        if gone.any():
            found[gone] = np.nan
            self.shifts.drop(gone)
            self.peers.drop(gone)
        found[self._ties.is_yield] /= value[self._ties.given[self._ties.is_yield]]
        return found

    def _allow_for_load(self, usable: F64) -> F64:
        """Returns [cell] values to compare with peers: less of a replica that has far more load than another one."""
        load = self.state.fresh_values(self._load_series[self._timed])
        serving = load > 0
        at, load = self._timed[serving], load[serving]
        pool = self._load_pool[at]
        least, quickest = np.full((2, int(pool.max(initial=-1)) + 1), np.inf)
        np.fmin.at(least, pool, load)
        busy = load > COMPARABLE_LOADS * least[pool]
        if not busy.any():
            return usable
        np.fmin.at(quickest, pool[~busy], usable[at[~busy]])
        # It becomes as quick as the others at most: they are no slower for its load.
        slow, found = at[busy], usable.copy()
        found[slow] = np.fmax(usable[slow] / (1 + LEAST_SERVING_SHIFT), np.fmin(usable[slow], quickest[pool[busy]]))
        return found

    def _whole_times(self, cells: Index) -> F64:
        """Returns [k] the newest sample in seconds of what some cells are a part of; infinite where it is not known."""
        whole = self._ties.whole[cells]
        return np.where((whole < 0) | np.isnan(self.cells.value[whole]), np.inf, self.cells.time[whole])

    def _update_floors(self) -> None:
        """Updates the least differences that depend on the newest values of other cells."""
        value, ties = self.cells.value, self._ties
        part, per_load = np.flatnonzero(ties.whole >= 0), np.flatnonzero(ties.is_yield)
        self._floor[part] = np.fmax(self._least_floor[part], ties.least_part[part] * value[ties.whole[part]])
        with np.errstate(all="ignore"):
            self._floor[per_load] = self._least_floor[per_load] / value[ties.given[per_load]]

    def _masks(self, new: NewSamples) -> tuple[Mask, Mask]:
        """Returns ([cell] whether it has a new sample, [cell] whether that differs from the one before)."""
        mask, distinct = np.zeros(len(self.cells), bool), np.zeros(len(self.cells), bool)
        mask[new.cells] = True
        distinct[new.cells] = self._differ(new)
        return mask, distinct

    def _differ(self, new: NewSamples) -> Mask:
        """Returns [k] whether each of some new samples differs from the one before, or counts as if it did."""
        differs: Mask = new.value != self._last[new.cells]
        # Of times that are printed with few digits, the next one is often the same.
        at = np.flatnonzero(self._may_repeat[new.cells])
        if len(at):
            cells, value = new.cells[at], new.value[at]
            self._is_rounded[cells] &= has_few_digits(value)
            differs[at] |= self._is_rounded[cells] & (new.time[at] - self._last_time[cells] >= value)
        some = new.cells[differs]
        self._last[some], self._last_time[some] = new.value[differs], new.time[differs]
        return differs

    def _judge_earlier_steps(self) -> None:
        """Judges the steps of this tick that ended before the newest one, of jobs that have taken few.

        Each of their steps counts; later, the newest one of a tick stands for all of it.
        """
        earlier = self.state.earlier_steps
        if not earlier:
            return
        # The steps of what serves follow its requests.
        is_new = self.shifts.count < MIN_PAST
        cells = np.flatnonzero(self.shifts.limits.is_work & self._may_repeat & self._by_past & is_new)
        with np.errstate(all="ignore"):
            for new in split_rounds(earlier, cells, self.cells.series[cells]) if len(cells) else ():
                differs = self._differ(new)
                self.shifts.step(new.cells[differs], new.value[differs], new.time[differs])

    def next_change(self) -> float:
        """Returns the time in seconds before which a step without samples would change nothing."""
        return min(self.steps.next_stop, self._t if self._t < self._unread_until else math.inf)

    def conclude(self) -> None:
        """Ends the data: what was bad from its first sample to its last is a deviation."""
        self.states.conclude()
        self.limits.conclude()
        self.peers.conclude()
        self.deviations = {deviation.key: deviation for deviation in self._active()}

    def judged_signals(self) -> frozenset[str]:
        """Returns the signals of which some series could be compared with its past, or with its good value."""
        by_past = np.flatnonzero(self.shifts.count >= MIN_PAST)
        others = (self.errors.judged_cells(), self.states.judged_cells(), self.falls.judged_cells())
        judged = np.concatenate((by_past, *others))
        return frozenset(self.cells.signals[cell].id for cell in judged.tolist())

    # --- deviations

    def _active(self) -> Iterator[Deviation]:
        yield from self.growth.deviations()
        yield from self.falls.deviations()
        yield from self._past_deviations()
        yield from self._peer_deviations()
        yield from self.paths.deviations()
        if self.links is not None:
            yield from self.links.deviations()
        yield from self.progress.deviations()
        yield from self.steps.deviations()
        yield from self.errors.deviations()
        yield from self.states.deviations()
        yield from self.events.deviations()
        yield from self.limits.deviations()
        yield from self.capacities.deviations()
        yield from self.requests.deviations()
        yield from self.silences.deviations()
        yield from self.stalls.deviations(self.shifts.median)

    def _past_deviations(self) -> Iterator[Deviation]:
        shifts, signals, places = self.shifts, self.cells.signals, self.cells.places
        shared: dict[DeviationKey, Deviation] = {}
        for cell, group in self._shifted_cells().items():
            if not self._is_load_known(cell, shifts.since(cell)):
                continue
            direction = "up" if shifts.shift[cell] > 0 else "down"
            since, value, before = shifts.since(cell), shifts.level(cell), shifts.before(cell)
            found = Deviation(signals[cell], group or places[cell], PAST, direction, since, value, before)
            if group is None:
                yield found
            elif found.key not in shared or found.size > shared[found.key].size:
                shared[found.key] = found
        yield from shared.values()
        for cell in np.flatnonzero(shifts.slow_start).tolist():
            (value, since), after = shifts.slow_start_of(cell), shifts.level(cell)
            yield Deviation(signals[cell], places[cell], START, "up", since, value, after)

    def _shifted_cells(self) -> Mapping[int, Entity | None]:
        """Returns the cells shifted against their past, each with the group or pool of which most members are, if any.

        A single one that differs from its peers is judged by these: what it shares with them is the work.
        """
        shift, cells = self.shifts.shift, self.cells
        if not shift.any():
            return {}
        numbers, at = cells.pair_set, cells.pair_cell
        counted = self.peers.compared
        sets = len(cells.set_sizes)
        size = np.bincount(numbers[counted], minlength=sets)
        hit = np.bincount(numbers[counted & (shift[at] != 0)], minlength=sets)
        told = counted & (size[numbers] >= MIN_PEERS)
        single = np.zeros(len(cells), bool)
        single[at[told & (2 * hit[numbers] < size[numbers])]] = True
        found: dict[int, Entity | None] = dict.fromkeys(np.flatnonzero((shift != 0) & ~single).tolist())
        for pair in np.flatnonzero(told & (shift[at] != 0) & (2 * hit[numbers] > size[numbers])).tolist():
            cell, place = int(at[pair]), cells.set_places.get(int(numbers[pair]))
            if cell in found and place is not None and SHARED_BY.get(cells.places[cell].kind) == place.kind:
                found[cell] = found[cell] or place
        return found

    def _is_load_known(self, cell: int, since: float) -> bool:
        """Returns whether the load that a cell needs has been sampled since a time: it may have ended with the work."""
        series = int(self._load_series[cell])
        return series < 0 or bool(self.state.times[series] >= since)

    def _peer_deviations(self) -> Iterator[Deviation]:
        peers, cells = self.peers, self.cells
        best: dict[int, int] = {}
        for pair in peers.odd_pairs().tolist():
            cell = int(cells.pair_cell[pair])
            if cell not in best or _distance(peers.ratio[pair]) > _distance(peers.ratio[best[cell]]):
                best[cell] = pair
        odd = np.zeros(len(cells), bool)
        for cell, pair in sorted(best.items()):
            if not self._is_load_known(cell, peers.since(pair)):
                continue
            number = int(cells.pair_set[pair])
            odd[cell] = True
            middle, ratio = float(peers.median[number]), peers.level(pair)
            direction = "up" if ratio > 1 else "down"
            if self._ties.is_yield[cell]:
                middle *= float(cells.value[self._ties.given[cell]])
            now = float(cells.value[cell])
            # What is late now and then may be early now: its usual lateness is told.
            is_typical = (now > middle) == (ratio > 1) and not peers.repeats.found[pair]
            since, value = peers.since(pair), now if is_typical else ratio * middle
            yield Deviation(cells.signals[cell], cells.places[cell], PEERS, direction, since, value, middle)
        moving, places = peers.moving_sets().tolist(), cells.set_places
        told = set(cells.pair_set[odd[cells.pair_cell]].tolist()) if moving else set()
        for number in moving:
            if number in told or number not in places:
                continue
            cell = int(cells.pair_cell[peers.worst[number]])
            since, middle = peers.moving.since(number), float(peers.median[number])
            if not all(self._is_load_known(one, since) for one in cells.pair_cell[cells.pair_set == number].tolist()):
                continue
            top = middle * peers.moving.level(number)
            yield Deviation(cells.signals[cell], places[number], MOVING, "uneven", since, top, middle)


def _distance(ratio: float) -> float:
    """Returns how far a ratio is from one, on a logarithmic scale."""
    return abs(math.log(ratio)) if ratio > 0 else math.inf


def has_few_digits(values: F64) -> Mask:
    """Returns [value] whether it is a decimal number of at most `FEW_DIGITS` digits, such as 1.2 or 0.14."""
    with np.errstate(all="ignore"):
        unit = 10.0 ** (np.floor(np.log10(np.abs(values))) - (FEW_DIGITS - 1))
        found: Mask = np.abs(values / unit - np.rint(values / unit)) < SAME_DIGITS
    return found
