"""Finds the rounds of a group whose members all send and then wait for all, and when each began, at one port.

A barrier leaves a mark that needs no clock, period or threshold: between two bursts of one sender there is exactly one
of every other. So the bursts of all senders, in time order, split into runs in which each sender appears once; a new
run begins where a sender reappears. Only the begin of the first run is ambiguous, and it matters: late by 12 ms before
a pause of 8, or early by 8 after a pause of 12, look alike. A long silence decides it, since the next burst begins a
round. Without one, of the readings whose pause between rounds exceeds jitter, the one with the fewest late senders is
taken: one straggler is likelier than all but one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, I64, Mask, median
from skewscope.engine.wire.bursts import Bursts, merge_bursts, no_bursts, order_by

SILENCE = 20.0
"""Typical periods of silence after which the next burst certainly begins a round."""
PERIOD_JUMP = 4.0
"""A period that differs from the known one by more than this factor replaces it at once."""
MIN_WHOLE_SHARE = 0.9
"""A certain reading is dropped when it has less than this share of another's whole rounds."""
MIN_PAUSE_SHARE = 0.1
"""A reading's pause between rounds must be at least this share of the longest reading's, or it is jitter."""
MIN_SENDER_SHARE = 0.25
"""A sender belongs to the rounds when it has at least this share of the busiest sender's bursts."""


MAX_CANDIDATES = 6
"""Readings tried: those that begin after the longest pauses."""


@dataclass(frozen=True, slots=True)
class BarrierRounds:
    """Whole rounds, in time order. Rows are rounds, columns the senders received from."""

    senders: I64
    begin: F64
    """[rounds, senders] when each sender's burst began, s."""
    end: F64
    """[rounds] when the last byte was sent, s."""
    unbroken: Mask
    """[rounds] whether no long silence lies before the round, so that its distance from the last is a period."""

    @property
    def lag(self) -> F64:
        """[rounds, senders] seconds after the round's first sender."""
        return np.asarray(self.begin - self.begin.min(axis=1, keepdims=True))

    @property
    def last(self) -> F64:
        """[rounds] when the last sender began, s."""
        return np.asarray(self.begin.max(axis=1))


@dataclass
class RoundReader:
    """Reads rounds from bursts, over chunks."""

    pending: Bursts = field(default_factory=no_bursts)
    """Bursts not yet in a round."""
    period: float = np.nan
    """Typical time between a sender's bursts, s."""
    is_certain: bool = False
    """Whether a silence has shown where rounds begin, and no round has broken since."""
    is_carried: bool = False
    """Whether `pending` begins where a reading begins a round."""

    def read(self, bursts: Bursts, until: float) -> BarrierRounds:
        """Returns the rounds that these bursts complete; `until` is the time, s, up to which all bursts are known."""
        found = merge_bursts([self.pending, bursts]).by_time()
        senders = _active_senders(found)
        if len(senders) < 2:
            self.pending = found.take(np.arange(len(found))[-8:])
            return _no_rounds(senders)
        found = found.take(np.isin(found.stream, senders))
        order = order_by(found.stream, found.begin)
        self._learn_period(found, order)
        quiet = np.flatnonzero(np.diff(found.begin) > SILENCE * self.period) + 1
        following = _next_begin(found, order)
        first = self._first(found, following, len(senders), quiet)
        begins = _round_begins(following, first, quiet)
        if until - found.begin[-1] > SILENCE * self.period:
            begins = np.append(begins, len(found))
        return self._collect(found, begins, senders, quiet)

    def _learn_period(self, found: Bursts, order: I64) -> None:
        step = np.diff(found.begin[order])[np.diff(found.stream[order]) == 0]
        if len(step):
            now = median(step)
            near = self.period / PERIOD_JUMP < now < self.period * PERIOD_JUMP
            self.period = self.period + 0.3 * (now - self.period) if near else now

    def _first(self, found: Bursts, following: I64, senders: int, quiet: I64) -> int:
        """Row of the burst at which the first round begins; `following` [burst] is the row of the next round."""
        stretch = found.take(np.arange(int(quiet[0]))) if len(quiet) else found
        if len(quiet):
            following = _next_begin(stretch, order_by(stretch.stream, stretch.begin))
        if self.is_certain and _is_mostly_whole(following, senders):
            self.is_carried = True
            return 0
        rows = following.tolist()
        readings = {row: _reading(stretch, rows, row, senders) for row in _candidates(stretch, senders)}
        most = max(r.rounds for r in readings.values())
        self.is_certain &= readings[0].rounds >= MIN_WHOLE_SHARE * most
        first = 0 if most < 2 or self.is_certain else _likeliest_row(readings, carried=self.is_carried)
        self.is_certain |= len(quiet) > 0
        self.is_carried = True
        return first

    def _collect(self, found: Bursts, begins: I64, senders: I64, quiet: I64) -> BarrierRounds:
        """Returns the rounds between one begin and the next, and keeps the open rest."""
        self.pending = found.take(np.arange(len(found)) >= begins[-1])
        place = np.searchsorted(senders, found.stream)
        run = np.searchsorted(begins, np.arange(len(found)), side="right") - 1
        inside = (run >= 0) & (run < len(begins) - 1)
        shape = (len(begins) - 1, len(senders))
        begin, end = np.full(shape, np.nan), np.full(shape, np.nan)
        begin[run[inside], place[inside]] = found.begin[inside]
        end[run[inside], place[inside]] = found.end[inside]
        whole = ~np.isnan(begin).any(axis=1)
        after_quiet = np.isin(begins[:-1], quiet)
        return BarrierRounds(senders, begin[whole], end[whole].max(axis=1, initial=-np.inf), ~after_quiet[whole])


def _no_rounds(senders: I64) -> BarrierRounds:
    return BarrierRounds(senders, np.empty((0, len(senders))), np.empty(0), np.empty(0, bool))


def _active_senders(bursts: Bursts) -> I64:
    """Returns [sender] the numbers of those that take part."""
    count = np.bincount(bursts.stream)
    return np.flatnonzero((count > 0) & (count >= MIN_SENDER_SHARE * count.max(initial=0)))


def _next_begin(found: Bursts, order: I64) -> I64:
    """Returns [burst], for each as a round's first, the row that begins the next round; len(found) if none.

    `order` is that by stream, then time.
    """
    n = len(found)
    again = np.full(n, n)
    same = found.stream[order[1:]] == found.stream[order[:-1]]
    again[order[:-1][same]] = order[1:][same]
    return np.asarray(np.minimum.accumulate(again[::-1])[::-1])


def _is_mostly_whole(following: I64, senders: int) -> bool:
    """Returns whether the rounds from the first burst on are so many that no other reading has many more."""
    begins = reachable_rows(following.tolist(), 0)
    whole = np.count_nonzero(np.diff(begins, append=len(following)) == senders)
    return bool(whole >= MIN_WHOLE_SHARE * (len(following) // senders))


def _round_begins(following: I64, first: int, quiet: I64) -> I64:
    """Returns [round] the rows at which rounds begin, from `first` on; a long silence always begins one.

    `following` [burst] is the row that begins the next round where no silence does.
    """
    n = len(following)
    if len(quiet):
        at = np.searchsorted(quiet, np.arange(n), side="right")
        following = np.minimum(following, np.append(quiet, n)[at])
    return reachable_rows(following.tolist(), first)


def reachable_rows(following: Sequence[int], first: int) -> I64:
    """Returns [row] all rows reached from `first`; each is followed by a later one."""
    rows, at, end = [], first, len(following)
    while at < end:
        rows.append(at)
        at = following[at]
    return np.array(rows, np.int64)


def _begin_matrix(found: Bursts, following: Sequence[int], first: int, senders: int) -> F64:
    """Returns [round, sender] s when bursts of whole rounds begin, from `first` on, each row in time order."""
    begins = reachable_rows(following, first)
    size = np.diff(np.append(begins, len(found)))
    whole = begins[size == senders]
    return np.asarray(found.begin[whole[:, None] + np.arange(senders)]) if len(whole) else np.empty((0, senders))


@dataclass(frozen=True, slots=True)
class _Reading:
    """Medians of a reading over its rounds."""

    rounds: int
    pause: float
    late: float
    spread: float


def _candidates(found: Bursts, senders: int) -> list[int]:
    """Returns rows at which a first round may begin: the first, and those after the longest pauses that follow it."""
    pauses = np.diff(found.begin[: senders + 1])
    longest = np.argsort(-pauses, kind="stable")[: MAX_CANDIDATES - 1] + 1
    return [0, *sorted(int(row) for row in longest)]


def _reading(found: Bursts, following: Sequence[int], first: int, senders: int) -> _Reading:
    """Returns the reading that begins at row `first`; `following` [burst] is the row of the next round."""
    rounds = _begin_matrix(found, following, first, senders)
    if len(rounds) < 2:
        return _Reading(len(rounds), 0.0, np.inf, np.inf)
    lag = rounds - rounds[:, :1]
    pause = median(rounds[1:, 0] - rounds[:-1, -1])
    late = median((lag > lag[:, -1:] / 2).sum(axis=1).astype(np.float64))
    return _Reading(len(rounds), pause, late, median(lag[:, -1]))


def _plausible_readings(readings: dict[int, _Reading]) -> dict[int, _Reading]:
    """Returns the readings whose pause exceeds jitter and whose rounds are mostly whole."""
    longest = max(r.pause for r in readings.values())
    most = max(r.rounds for r in readings.values())
    return {i: r for i, r in readings.items() if r.pause >= MIN_PAUSE_SHARE * longest and r.rounds >= most / 2}


def _likeliest_row(readings: dict[int, _Reading], *, carried: bool) -> int:
    """Returns the row of the likeliest reading: fewest late, then the one carried over, then least spread."""
    possible = _plausible_readings(readings)
    return min(possible, key=lambda i: (possible[i].late, not (carried and i == 0), possible[i].spread, i), default=0)
