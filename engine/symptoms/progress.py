"""Work that stops: counters of progress that stand, and jobs whose next step does not come."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, Mask, nan_to_zero
from skewscope.engine.model.finding import PAST, PEERS, Finding
from skewscope.engine.model.locality import NODE_BOUND, Entity
from skewscope.engine.model.parameters import (
    ALIKE,
    BRIEF_S,
    HALF,
    LONG_S,
    MEMORY_S,
    MIN_PAST,
    MISSED,
    RESTART_S,
    RUN,
    TAIL,
)
from skewscope.engine.model.senders import natural_sender
from skewscope.engine.model.tick import Tick
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.transfer import copy_fields
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.pauses import RegularPauses
from skewscope.engine.symptoms.roles import PART_SIGNAL, STEP_SIGNAL
from skewscope.engine.symptoms.series_detector import CellPlaces, SeriesDetector

RANK_SIGNALS = frozenset({"nccl.coll_seq", "nccl.coll_done"})
"""Counters that end with the process of a rank: where one stands and is still read, the job has not ended."""
EVALUATION_SIGNAL = "step.evaluation"
"""Says that a group takes no steps because it evaluates, which counts for LONG_S after its newest sample."""
STEP_SYMPTOM = "stopped-progress"


class ProgressStops(SeriesDetector):
    """Counters that grow while work goes on, and stand."""

    KEPT: ClassVar[Fills] = {"_changes": 0, "_last_change": np.nan, "_stopped": False}
    _changes: Index
    _last_change: F64
    _stopped: Mask

    def __init__(self, cells: JudgedCells) -> None:
        super().__init__(cells)
        self._first_pending = np.inf
        """When the first counter stopped of those that do not yet stand for long enough to be told."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell counts progress."""
        return self.cells.judgement(cell).role == "progress" and bool(self.cells.is_counter[cell])

    def judge(self, _tick: Tick) -> None:
        """Finds the counters that stand."""
        if not len(self.at):
            return
        cells = self.cells
        changed = cells.change_time[self.at]
        self._changes += (changed > self._last_change) | (np.isnan(self._last_change) & ~np.isnan(changed))
        self._last_change = changed
        stand = cells.time[self.at] - changed
        known = (self._changes >= RUN) & ~np.isnan(cells.value[self.at])
        limit = np.maximum(MISSED * cells.renewal[self.at], BRIEF_S)
        self._stopped = known & (stand > limit)
        pending = changed[known & ~self._stopped & (stand > HALF * limit)]
        self._first_pending = float(pending.min(initial=np.inf))

    def take_over(self, before: Self, places: CellPlaces) -> None:
        """Goes on with another one's counters."""
        super().take_over(before, places)
        copy_fields(self, before, ("_first_pending",))

    def find(self) -> Iterator[Finding]:
        """Yields the counters that stand and are behind their peers, or else the groups that stand as a whole."""
        if not self._stopped.any():
            return
        cells = self.cells
        stopped = {int(cell) for cell in self.at[self._stopped]}
        raw = cells.state.latest[cells.series]
        members = self._peer_groups()
        behind: dict[int, float] = {}
        for group in members.values():
            ahead = max(float(raw[cell]) for cell in group)
            late = [cell for cell in group if cell in stopped and raw[cell] < ahead]
            behind |= {cell: max(behind.get(cell, ahead), ahead) for cell in late}
        for cell, ahead in sorted(behind.items()):
            since, value = float(cells.change_time[cell]), float(raw[cell])
            yield Finding(*cells.subject(cell), PEERS, "stops", since, value, ahead)
        if not behind:
            yield from self._groups_that_stand(members, stopped)

    def _peer_groups(self) -> Mapping[int, Sequence[int]]:
        """Returns the cells of each set of which some counter stands."""
        cells, numbers = self.cells, self.cells.pair_set
        stands, is_wanted = np.zeros(len(cells), bool), np.zeros(len(cells.set_sizes), bool)
        stands[self.at[self._stopped]] = True
        is_wanted[numbers[stands[cells.pair_cell]]] = True
        some = is_wanted[numbers]
        found: dict[int, list[int]] = {}
        for cell, number in zip(cells.pair_cell[some].tolist(), numbers[some].tolist(), strict=True):
            found.setdefault(number, []).append(cell)
        return {number: group for number, group in found.items() if len(group) > 1}

    def _groups_that_stand(self, members: Mapping[int, Sequence[int]], stopped: Collection[int]) -> Iterator[Finding]:
        """Yields the groups that have stood as a whole for long, while others of the fleet go on.

        Where all stand, but ranks still report, the largest group stands for all.
        """
        cells, places = self.cells, self.cells.set_places
        standing = [one for one in sorted(members) if one in places and all(cell in stopped for cell in members[one])]
        if len(stopped) == len(self.at):
            ranks = [one for one in standing if cells.signals[members[one][0]].id in RANK_SIGNALS]
            standing = sorted(ranks, key=lambda one: -len(members[one]))[:1]
        for number in standing:
            group = members[number]
            since = max(float(cells.change_time[cell]) for cell in group)
            stands = max(float(cells.time[cell]) for cell in group) - since >= RESTART_S
            if stands and self._first_pending > since + RESTART_S:
                yield Finding(cells.signals[group[0]], places[number], PAST, "stops", since, 0.0, 0.0)


class StepStops(SeriesDetector):
    """Jobs whose next step does not come. Arrays are [job]; times are those of the ticks that brought the samples."""

    KEPT: ClassVar[Fills] = dict.fromkeys(("_last", "_usual", "_value", "_step_time"), np.nan) | {
        "_count": 0,
        "_longest": 0.0,
        "stopped": False,
    }
    TABLES: ClassVar = {"pauses": RegularPauses}
    pauses: RegularPauses
    _count: Index
    """Samples."""
    _last: F64
    _usual: F64
    _longest: F64
    _value: F64
    _step_time: F64
    """Seconds; `_step_time` is that of the newest sample itself."""
    stopped: Mask

    def __init__(self, cells: JudgedCells) -> None:
        super().__init__(cells)
        self.next_stop = np.inf
        """When the first of the steps that are due will count as missing, s."""
        self._job: Index = np.empty(0, np.intp)
        """[cell] its job, -1 for none."""
        self._parts: dict[int, Index] = {}
        """Cells of members, by job."""
        self._beside: dict[int, Index] = {}
        """Other cells on the nodes of a job, by job, of those that were asked for."""
        self._evaluation: Index = np.empty((0, 2), np.intp)
        """(job, series) of each series that says whether a job evaluates."""
        self._evaluations = -1
        """Version of the series of which those are."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell has a sample each step; replicas that serve take no step without requests."""
        return self.cells.signals[cell].id == STEP_SIGNAL and not self.cells.serves[cell]

    def learn_cells(self) -> None:
        """Works out the jobs."""
        cells = self.cells
        jobs = {cells.places[n].name: number for number, n in enumerate(self.at.tolist())}
        self._job = np.array([jobs.get(one.name.split(":", 1)[0], -1) for one in cells.places], np.intp)
        self._beside.clear()
        self._evaluations = -1
        is_part = np.array([one.id == PART_SIGNAL for one in cells.signals], bool)
        self._parts = {n: np.flatnonzero(is_part & (self._job == n)) for n in range(len(self.at))}

    def step(self, tick: Tick) -> None:
        """Takes in what a tick brings; a step may be missing after one that brings nothing as well."""
        if not len(self.at):
            return
        before = self.stopped
        self.judge(tick)
        if len(tick.new.cells) or (self.stopped != before).any():
            self._found = tuple(self.find())

    def judge(self, tick: Tick) -> None:
        """Takes in the samples of a tick, and finds the jobs whose step is missing at its end."""
        t, (at, value, time) = tick.t, self.select(tick.new)
        evaluated, evaluates = self._find_evaluations()
        # What passed around an evaluation is no interval between steps.
        self._learn_pace(at, t, is_apart=evaluated[at] > self._step_time[at])
        self._value[at], self._step_time[at] = value, time
        due = self._find_due(evaluated, evaluates & (evaluated > self._step_time))
        self.stopped = due <= t
        for n in np.flatnonzero(self.stopped).tolist():
            self.stopped[n] = not self._goes_on_or_is_unseen(n)
        self.next_stop = float(due[due > t].min(initial=np.inf))

    def next_change(self) -> float:
        """Returns when the first of the steps that are due will be missing, in seconds."""
        return self.next_stop

    def take_over(self, before: Self, places: CellPlaces) -> None:
        """Goes on with another one's jobs and their pauses."""
        super().take_over(before, places)
        copy_fields(self, before, ("next_stop",))

    def _learn_pace(self, at: Index, t: float, *, is_apart: Mask) -> None:
        """Learns how far apart the steps of some jobs are that took one at `t` seconds.

        `is_apart` [k] says where something else lies between that one and the one before.
        """
        interval, usual = t - self._last[at], self._usual[at]
        goes = ~self.stopped[at] & ~is_apart
        paused = (self._count[at] > MIN_PAST) & (interval >= self._patience()[at]) & ~is_apart
        self.pauses.add(at[paused], self._last[at[paused]], interval[paused])
        learned = usual + (np.minimum(interval, TAIL * usual) - usual) / MIN_PAST
        self._usual[at] = np.where(goes, np.where(np.isnan(usual), interval, learned), usual)
        faded = self._longest[at] * np.exp(-nan_to_zero(interval) / MEMORY_S)
        self._longest[at] = np.where(goes, np.fmax(faded, interval), faded)
        self._count[at], self._last[at] = self._count[at] + ~is_apart, t

    def _find_due(self, evaluated: F64, evaluates: Mask) -> F64:
        """Returns [job] when a next step that has not come will be missing, in seconds; infinite where none is due.

        Args:
            evaluated: [job] when each last said whether it evaluates.
            evaluates: [job] whether it does since its newest step.
        """
        patience = np.fmax(self._patience(), self.pauses.allowance(self._last))
        patience = np.where(evaluates, np.fmax(patience, LONG_S), patience)
        is_known = (self._count > MIN_PAST) & ~np.isnan(self._usual)
        due = np.full(len(self.at), np.inf)
        due[is_known] = np.fmax(self._last, evaluated)[is_known] + patience[is_known]
        return due

    def _goes_on_or_is_unseen(self, n: int) -> bool:
        """Returns whether a job whose step does not come has not stopped for all that.

        Where nothing comes any more from its nodes, it has ended or its telemetry is lost, unless it is this job alone
        that is seen; and members that go on do not wait for one another.
        """
        time, last = self.cells.time, self._last[n]
        with np.errstate(invalid="ignore"):
            goes_on = (time[self._parts[n]] > last + 2 * self._usual[n]).any()
            is_alone = (self._job[time >= last - LONG_S] == n).all()
            return bool(goes_on or not (is_alone or (time[self._cells_beside(n)] > last).any()))

    def _find_evaluations(self) -> tuple[F64, Mask]:
        """Returns ([job] when each last said whether it evaluates, -inf for never, s; [job] whether it does)."""
        state, size = self.cells.state, len(self.at)
        time, evaluates = np.full(size, -np.inf), np.zeros(size, bool)
        rows = state.rows.get(EVALUATION_SIGNAL)
        if rows is None:
            return time, evaluates
        if rows.version != self._evaluations:
            self._evaluations = rows.version
            pairs = [
                (n, series)
                for n, cell in enumerate(self.at.tolist())
                for series in self.cells.all_series_of(EVALUATION_SIGNAL, self.cells.places[cell].name)
            ]
            self._evaluation = np.array(pairs, np.intp).reshape(-1, 2)
        jobs, series = self._evaluation.T
        np.fmax.at(time, jobs, state.times[series])
        np.logical_or.at(evaluates, jobs, (state.latest[series] > 0) & (state.times[series] >= time[jobs]))
        return time, evaluates

    def _patience(self) -> F64:
        """Returns [job] the seconds after which a step has not come, unless a regular pause is due."""
        limit = np.maximum(MISSED * self._usual, BRIEF_S)
        found = np.fmax(limit, ALIKE * self._longest)
        return np.where(np.isnan(self._usual), np.inf, found)

    def _cells_beside(self, n: int) -> Index:
        """Returns the cells of others on the nodes of a job."""
        if n not in self._beside:
            topology, cells = self.cells.topology, self.cells
            group = topology.group.get(cells.places[int(self.at[n])].name)
            own = {topology.node_of[member] for member in group.members} if group else set()
            found = [k for k, one in enumerate(cells.places) if self._job[k] != n and _lies_on(one, topology, own)]
            self._beside[n] = np.array(found, np.intp)
        return self._beside[n]

    def find(self) -> Iterator[Finding]:
        """Yields the jobs whose step has not come."""
        cells = self.cells
        for n in np.flatnonzero(self.stopped).tolist():
            cell, since, value = int(self.at[n]), float(self._last[n]), float(self._value[n])
            # It is no longer the time of a step that is abnormal.
            judged = replace(cells.judgement(cell), role="progress", symptom=STEP_SYMPTOM)
            told = [replace(cells.signals[cell], judged=judged), *(cells.signals[part] for part in self._parts[n][:1])]
            yield from (Finding(signal, cells.places[cell], PAST, "stops", since, value, value) for signal in told)


def _lies_on(place: Entity, topology: Topology, nodes: Collection[str]) -> bool:
    return place.kind in NODE_BOUND and natural_sender(place.kind, place.name, topology) in nodes
