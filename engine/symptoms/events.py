"""Counters that stop, errors that begin, and states that change."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.symptoms.cells import JudgedCells, NewSamples
from skewscope.engine.symptoms.deviation import PAST, PEERS, REPEATS, Deviation

MIN_CHANGES = 3
"""Changes of a counter after which its usual pace is known."""
STALL_RENEWALS = 5.0
"""A counter has stopped when it has not changed for so many of its usual intervals..."""
MIN_STALL_S = 10.0
"""...and for at least so many seconds."""
MIN_GROUP_STALL_S = 60.0
"""A group that stands as a whole may wait for another one: that one is told first."""
BURST_S = 60.0
"""Errors within this time belong together, and a burst of them ends after it."""
MIN_ERRORS = 1.5
"""Samples with new errors within a burst: one alone may be an event of no consequence."""
MIN_QUIET_S = 30.0
"""Seconds of observation before errors can begin."""
USUAL_S = 900.0
"""Memory of the usual share of samples with errors."""
USUAL_SHARE = 0.02
"""A counter that grows in more of its samples than this has errors that are usual for it."""
MIN_BAD_SAMPLES = 2
MIN_SILENCE_S = 60.0
"""An exporter that restarts is silent for less (judgement; the rule for blackouts waits for about as long)."""
FLAPS = 4
"""Changes of a state..."""
FLAP_S = 300.0
"""...within this time that are flapping."""


@dataclass
class ProgressStops:
    """Counters that grow while work goes on, and stand."""

    cells: JudgedCells
    at: Index = field(default_factory=lambda: np.empty(0, np.intp))
    _changes: Index = field(default_factory=lambda: np.empty(0, np.intp))
    _last_change: F64 = field(default_factory=lambda: np.empty(0))
    _stopped: Mask = field(default_factory=lambda: np.empty(0, bool))

    def grow(self) -> None:
        """Makes room for new cells."""
        judged = [self.cells.judgement(cell) for cell in range(len(self.cells))]
        at = [n for n, one in enumerate(judged) if one.role == "progress" and self.cells.is_counter[n]]
        more = len(at) - len(self.at)
        self.at = np.array(at, np.intp)
        self._changes = np.concatenate((self._changes, np.zeros(more, np.intp)))
        self._last_change = np.concatenate((self._last_change, np.full(more, np.nan)))
        self._stopped = np.zeros(len(at), bool)

    def step(self, t: float) -> None:  # noqa: ARG002 - times are those of the samples
        """Finds the counters that stand."""
        if not len(self.at):
            return
        cells = self.cells
        changed = cells.change_time[self.at]
        self._changes += (changed > self._last_change) | (np.isnan(self._last_change) & ~np.isnan(changed))
        self._last_change = changed
        stand = cells.time[self.at] - changed
        long = stand > np.maximum(STALL_RENEWALS * cells.renewal[self.at], MIN_STALL_S)
        self._stopped = long & (self._changes > MIN_CHANGES) & ~np.isnan(cells.value[self.at])

    def deviations(self) -> Iterator[Deviation]:
        """Yields the counters that stand and are behind their peers, or else the groups that stand as a whole."""
        if not self._stopped.any():
            return
        cells = self.cells
        stopped = {int(cell) for cell in self.at[self._stopped]}
        raw = cells.state.latest[cells.series]
        members = self._peer_groups(stopped)
        behind: dict[int, float] = {}
        for group in members.values():
            ahead = max(float(raw[cell]) for cell in group)
            late = [cell for cell in group if cell in stopped and raw[cell] < ahead]
            behind |= {cell: max(behind.get(cell, ahead), ahead) for cell in late}
        for cell, ahead in sorted(behind.items()):
            since, value = float(cells.change_time[cell]), float(raw[cell])
            yield Deviation(cells.signals[cell], cells.places[cell], PEERS, "stops", since, value, ahead)
        if not behind and len(stopped) < len(self.at):
            yield from self._groups_that_stand(members, stopped)

    def _peer_groups(self, stopped: Collection[int]) -> Mapping[int, Sequence[int]]:
        """Returns the cells of each set of which some counter stands."""
        cells = self.cells
        pairs = list(zip(cells.pair_cell.tolist(), cells.pair_set.tolist(), strict=True))
        found: dict[int, list[int]] = {number: [] for cell, number in pairs if cell in stopped}
        for cell, number in pairs:
            if number in found:
                found[number].append(cell)
        return {number: group for number, group in found.items() if len(group) > 1}

    def _groups_that_stand(self, members: Mapping[int, Sequence[int]], stopped: Collection[int]) -> Iterator[Deviation]:
        """Yields the groups that have stood as a whole for long, while others of the fleet go on."""
        cells, places = self.cells, self.cells.set_places()
        for number, group in sorted(members.items()):
            if number not in places or not all(cell in stopped for cell in group):
                continue
            since = max(float(cells.change_time[cell]) for cell in group)
            if max(float(cells.time[cell]) for cell in group) - since >= MIN_GROUP_STALL_S:
                yield Deviation(cells.signals[group[0]], places[number], PAST, "stops", since, 0.0, 0.0)


@dataclass
class ErrorBursts:
    """Counters of errors or losses that begin to grow."""

    cells: JudgedCells
    at: Index = field(default_factory=lambda: np.empty(0, np.intp))

    def __post_init__(self) -> None:
        self._place: Index = np.empty(0, np.intp)
        """[cell] position among the counters of errors, or -1."""
        self._floor, self._first, self._time, self._score, self._usual, self._since, self._rate = (
            np.empty(0) for _ in range(7)
        )
        self._is_burst: Mask = np.empty(0, bool)

    def grow(self) -> None:
        """Makes room for new cells."""
        cells = self.cells
        judged = [cells.judgement(cell) for cell in range(len(cells))]
        at = [n for n, one in enumerate(judged) if one.role in ("errors", "loss") and cells.is_counter[n]]
        more = len(at) - len(self.at)
        self.at = np.array(at, np.intp)
        self._place = np.full(len(cells), -1, np.intp)
        self._place[self.at] = np.arange(len(at))
        self._floor = np.array([judged[n].floor for n in at])
        for name in ("_first", "_time", "_since", "_rate"):
            setattr(self, name, np.concatenate((getattr(self, name), np.full(more, np.nan))))
        for name in ("_score", "_usual"):
            setattr(self, name, np.concatenate((getattr(self, name), np.zeros(more))))
        self._is_burst = np.concatenate((self._is_burst, np.zeros(more, bool)))

    def step(self, new: NewSamples) -> None:
        """Takes in the new rates."""
        place = self._place[new.cells]
        mine = place >= 0
        at, rate, time = place[mine], new.value[mine], new.time[mine]
        if not len(at):
            return
        self._first[at] = np.fmin(self._first[at], time)
        passed = np.nan_to_num(time - self._time[at])
        self._time[at] = time
        grew = rate > self._floor[at]
        self._score[at] = self._score[at] * np.exp(-passed / BURST_S) + grew
        begins = grew & np.isnan(self._since[at])
        self._since[at[begins]] = time[begins]
        self._rate[at[grew]] = rate[grew]
        observed = time - self._first[at]
        self._is_burst[at] |= (
            (self._score[at] >= MIN_ERRORS) & (self._usual[at] <= USUAL_SHARE) & (observed >= MIN_QUIET_S)
        )
        over = self._score[at] < 1 / np.e
        self._is_burst[at[over]] = False
        self._since[at[over]] = np.nan
        quiet = ~self._is_burst[at]
        weight = 1 - np.exp(-passed[quiet] / USUAL_S)
        self._usual[at[quiet]] += weight * (grew[quiet] - self._usual[at[quiet]])

    def deviations(self) -> Iterator[Deviation]:
        """Yields the counters whose errors have begun."""
        for n in np.flatnonzero(self._is_burst).tolist():
            cell = int(self.at[n])
            signal, place = self.cells.signals[cell], self.cells.places[cell]
            yield Deviation(signal, place, PAST, "begins", float(self._since[n]), float(self._rate[n]), 0.0)


@dataclass
class StateChanges:
    """States that leave their good value, once or again and again."""

    cells: JudgedCells
    at: Index = field(default_factory=lambda: np.empty(0, np.intp))

    def __post_init__(self) -> None:
        self._place: Index = np.empty(0, np.intp)
        self._nominal, self._bits = np.empty(0), np.empty(0, bool)
        self._was_good: Mask = np.empty(0, bool)
        """Whether it has ever been good: a port that was never up is unused."""
        self._bad_count: Index = np.empty(0, np.intp)
        self._since, self._value = np.empty(0), np.empty(0)
        self._changes: list[list[float]] = []
        """Times of the last changes of each, seconds."""

    def grow(self) -> None:
        """Makes room for new cells."""
        cells = self.cells
        judged = [cells.judgement(cell) for cell in range(len(cells))]
        at = [n for n, one in enumerate(judged) if one.role == "state" and one.nominal is not None]
        more = len(at) - len(self.at)
        self.at = np.array(at, np.intp)
        self._place = np.full(len(cells), -1, np.intp)
        self._place[self.at] = np.arange(len(at))
        self._nominal = np.array([float(judged[n].nominal or 0.0) for n in at])
        self._bits = np.array([cells.signals[n].type == "bitmask" for n in at], bool)
        self._was_good = np.concatenate((self._was_good, np.zeros(more, bool)))
        self._bad_count = np.concatenate((self._bad_count, np.zeros(more, np.intp)))
        self._since, self._value = (np.concatenate((old, np.full(more, np.nan))) for old in (self._since, self._value))
        self._changes += [[] for _ in range(more)]

    def step(self, new: NewSamples) -> None:
        """Takes in the new states."""
        place = self._place[new.cells]
        mine = place >= 0
        at, value, time = place[mine], new.value[mine], new.time[mine]
        if not len(at):
            return
        bad = np.where(self._bits[at], _extra_bits(value, self._nominal[at]), value != self._nominal[at])
        good = ~bad
        was_bad = self._bad_count[at] > 0
        self._was_good[at[good]] = True
        counts = bad & self._was_good[at]
        begins = counts & ~was_bad
        self._since[at[begins]] = time[begins]
        self._bad_count[at] = np.where(counts, self._bad_count[at] + 1, 0)
        self._value[at] = value
        for n, when in zip(at[begins].tolist(), time[begins].tolist(), strict=True):
            self._changes[n] = [*self._changes[n], when][-FLAPS:]

    def deviations(self) -> Iterator[Deviation]:
        """Yields the states that are bad now, and those that go back and forth."""
        for n in np.flatnonzero(self._bad_count >= MIN_BAD_SAMPLES).tolist():
            judged = self.cells.judgement(int(self.at[n]))
            if judged.symptom == "silent-telemetry" and self.cells.time[self.at[n]] - self._since[n] < MIN_SILENCE_S:
                continue
            yield self._deviation(n, PAST, float(self._since[n]), float(self._value[n]))
        for n, changes in enumerate(self._changes):
            newest = self.cells.time[self.at[n]]
            recent = [when for when in changes if newest - when <= FLAP_S]
            if len(recent) >= FLAPS // 2 + 1:
                yield self._deviation(n, REPEATS, recent[0], float(len(recent)))

    def _deviation(self, n: int, form: str, since: float, value: float) -> Deviation:
        cell = int(self.at[n])
        signal, place = self.cells.signals[cell], self.cells.places[cell]
        judged = signal.judged
        direction = "begins" if self._bits[n] or (judged is not None and judged.bad == "begins") else "down"
        return Deviation(signal, place, form, direction, since, value, float(self._nominal[n]))


def _extra_bits(value: F64, nominal: F64) -> Mask:
    """Returns whether a bitmask has bits that it has not in health."""
    sound = np.where((value >= 0) & (value < 2.0**62), value, 0.0).astype(np.int64)
    found: Mask = (sound & ~nominal.astype(np.int64)) != 0
    return found
