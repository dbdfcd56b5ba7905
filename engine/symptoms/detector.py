"""What is plainly abnormal: one generic detector over all judged series, driven by the catalogue's signal entries.

Each series keeps its own sampling period. A repeated value of a gauge that is held is no new sample. Of counters the
rates are judged, between two changes of the counter. What a signal is compared with is said by its `judged` block.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.topology import Topology
from skewscope.engine.symptoms.cells import JudgedCells, NewSamples, SampleSource
from skewscope.engine.symptoms.deviation import MOVING, PAST, PEERS, REPEATS, ZERO, Deviation, DeviationKey
from skewscope.engine.symptoms.events import ErrorBursts, ProgressStops, StateChanges
from skewscope.engine.symptoms.peers import PeerRatios
from skewscope.engine.symptoms.shares import IdlePaths
from skewscope.engine.symptoms.shifts import LevelShifts, ShiftLimits

DISTINCT_ROLES = frozenset({"time-per-work", "wait", "latency", "spread"})
"""Measured once per unit of work: a poll that repeats the value is no new measurement."""
PAST_ROLES = frozenset(
    {
        "time-per-work",
        "capacity",
        "throughput",
        "loss",
        "wait",
        "latency",
        "queue",
        "pressure",
        "spread",
        "utilisation",
        "health",
    }
)
MIN_RUN_S = {"time-per-work": 3.0, "capacity": 10.0, "wait": 10.0}
"""Seconds that a shift must last, by role."""
OTHER_MIN_RUN_S = 30.0
"""Of roles that follow the load: a burst of requests is shorter."""
LOADED_ROLES = frozenset({"time-per-work", "throughput", "wait", "progress"})
"""Where requests are served, these count only while some are: an idle replica turns slowly."""
LEAST_SERVING_SHIFT = 0.5
"""The steps of a replica become longer with its batches: in simulated traffic surges by an eighth, hence judgement."""
LOAD_SHARE = 0.5
"""A utilisation from which on a device is under load; other signals show load when they are above zero."""


MIN_PEERS = 3
"""Members of a set from which on it says more of a member than the member's own past."""


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
        nothing = np.empty(0)
        none = np.empty(0, bool)
        self.shifts = LevelShifts(ShiftLimits(nothing, nothing, none, none, nothing))
        self.peers = PeerRatios(self.cells)
        self.progress = ProgressStops(self.cells)
        self.errors = ErrorBursts(self.cells)
        self.states = StateChanges(self.cells)
        self.paths = IdlePaths(self.cells)
        self._given: Index = np.empty(0, np.intp)
        """[cell] the cell that must show load, or -1."""
        self._load: F64 = nothing
        self._load_series: Index = np.empty(0, np.intp)
        """[cell] the series that shows whether its replica serves requests, or -1."""
        self._is_distinct: Mask = none
        self._by_past: Mask = none
        self._last: F64 = nothing

    def step(self, t: float) -> None:
        """Updates the deviations with the samples of the tick that ends at `t` seconds."""
        if self.cells.grow():
            self._grow()
        new = self.cells.read(t)
        if not len(new.cells):
            return
        usable = self._usable_values()
        mask, distinct = self._masks(new)
        with np.errstate(all="ignore"):
            counted = distinct if self._is_distinct.all() else np.where(self._is_distinct, distinct, mask)
            past = np.flatnonzero(counted & self._by_past & ~np.isnan(usable))
            self.shifts.step(past, usable[past], self.cells.time[past])
            self.peers.step(t, usable, mask, distinct)
            self.paths.step(new, self.shifts)
            self.progress.step(t)
            self.errors.step(new)
            self.states.step(new)
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
        least, floor = (np.array([getattr(one, name) for one in judged]) for name in ("least", "floor"))
        follows = np.array(
            [serves and role == "time-per-work" for serves, role in zip(serving, roles, strict=True)], bool
        )
        past_least = np.where(follows, np.maximum(least, LEAST_SERVING_SHIFT), least)
        # Traffic follows load: its past is kept, and never judged by itself.
        self.shifts.grow(ShiftLimits(past_least, floor, up & ~kept, down & ~kept, min_time))
        self.peers.grow(self._is_distinct, min_time)
        self._last = np.concatenate((self._last, np.full(size - len(self._last), np.nan)))
        by_place = {(cells.signals[n].id, cells.places[n]): n for n in range(size)}
        self._given = np.array(
            [by_place.get((one.given, cells.places[n]), -1) if one.given else -1 for n, one in enumerate(judged)],
            np.intp,
        )
        units = [cells.signals[n].unit if n >= 0 else "" for n in self._given.tolist()]
        self._load = np.array([{"%": 100 * LOAD_SHARE, "1": LOAD_SHARE}.get(unit, 0.0) for unit in units])
        judged_by_load = np.array([role in LOADED_ROLES for role in roles], bool)
        self._load_series = np.array([cells.load_series(n) if judged_by_load[n] else -1 for n in range(size)], np.intp)
        for part in (self.progress, self.errors, self.states, self.paths):
            part.grow()

    def _usable_values(self) -> F64:
        """Returns [cell] the newest values, NaN where the signal counts only under load and there is none."""
        value = self.cells.value
        gated, loaded = self._given >= 0, self._load_series >= 0
        if not (gated.any() or loaded.any()):
            return value
        with np.errstate(invalid="ignore"):
            idle = gated & ~(value[self._given] > self._load)
            if loaded.any():
                idle |= loaded & ~(self.state.fresh_values(self._load_series) > 0)
        return np.where(idle, np.nan, value)

    def _masks(self, new: NewSamples) -> tuple[Mask, Mask]:
        """Returns ([cell] whether it has a new sample, [cell] whether that differs from the one before)."""
        mask, distinct = np.zeros(len(self.cells), bool), np.zeros(len(self.cells), bool)
        mask[new.cells] = True
        distinct[new.cells] = new.value != self._last[new.cells]
        self._last[new.cells] = new.value
        return mask, distinct

    # --- deviations

    def _active(self) -> Iterator[Deviation]:
        yield from self._past_deviations()
        yield from self._peer_deviations()
        yield from self.paths.deviations()
        yield from self.progress.deviations()
        yield from self.errors.deviations()
        yield from self.states.deviations()

    def _past_deviations(self) -> Iterator[Deviation]:
        shifts = self.shifts
        for cell in self._shifted_cells().tolist():
            direction = "up" if shifts.shift[cell] > 0 else "down"
            yield self._deviation(
                cell, PAST, direction, float(shifts.since[cell]), shifts.level(cell), float(shifts.before[cell])
            )

    def _shifted_cells(self) -> Index:
        """Returns the cells shifted against their past; one that has peers only where half of these are, too.

        A single one that differs from its peers is judged by these: what it shares with them is the work.
        """
        shift, cells = self.shifts.shift, self.cells
        if not shift.any():
            return np.empty(0, np.intp)
        numbers, at = cells.pair_set, cells.pair_cell
        counted = self.peers.compared
        sets = len(cells.set_sizes)
        size = np.bincount(numbers[counted], minlength=sets)
        hit = np.bincount(numbers[counted & (shift[at] != 0)], minlength=sets)
        alone = counted & (size[numbers] >= MIN_PEERS) & (2 * hit[numbers] < size[numbers])
        single = np.zeros(len(cells), bool)
        single[at[alone]] = True
        return np.flatnonzero((shift != 0) & ~single)

    def _peer_deviations(self) -> Iterator[Deviation]:
        peers, cells = self.peers, self.cells
        best: dict[int, int] = {}
        for pair in peers.odd_pairs().tolist():
            cell = int(cells.pair_cell[pair])
            if cell not in best or abs(np.log(peers.ratio[pair])) > abs(np.log(peers.ratio[best[cell]])):
                best[cell] = pair
        told = set()
        for cell, pair in sorted(best.items()):
            number = int(cells.pair_set[pair])
            told |= {int(n) for n in cells.pair_set[cells.pair_cell == cell]}
            middle, ratio = float(peers.median[number]), float(peers.ratio[pair])
            direction = "up" if ratio > 1 else "down"
            yield self._deviation(cell, PEERS, direction, peers.since(pair), float(cells.value[cell]), middle)
        places = cells.set_places()
        for number in peers.moving_sets().tolist():
            if number in told or number not in places:
                continue
            cell = int(cells.pair_cell[peers.worst[number]])
            since, middle = float(peers.moving.since[number]), float(peers.median[number])
            top = middle * peers.moving.level(number)
            yield Deviation(cells.signals[cell], places[number], MOVING, "uneven", since, top, middle)

    def _deviation(self, cell: int, form: str, direction: str, since: float, value: float, before: float) -> Deviation:
        return Deviation(self.cells.signals[cell], self.cells.places[cell], form, direction, since, value, before)


def worst_first(deviations: Mapping[DeviationKey, Deviation]) -> list[Deviation]:
    """Returns deviations, the largest deviations first."""
    return sorted(deviations.values(), key=lambda one: (-one.size, one.since, one.key))


__all__ = ["REPEATS", "ZERO", "Entity", "SymptomDetector", "worst_first"]
