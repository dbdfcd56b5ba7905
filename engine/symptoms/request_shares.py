"""Shares of the requests of a pool that its replicas get."""

from collections.abc import Iterator
from typing import Self

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, Mask, sort_unique, widen_items
from skewscope.engine.model.finding import PEERS, Finding
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.parameters import ALIKE, BRIEF_S, HALF, LEAST_NATS, LEAST_PART, RESTART_S, SIGMAS
from skewscope.engine.model.tick import Tick
from skewscope.engine.model.transfer import copy_items, match_places
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.series_detector import CellPlaces, SeriesDetector
from skewscope.engine.symptoms.unsettled_pools import UnsettledPools

MORE = 6.0
"""Odds of many times the requests of another replica, which are tested against the usual ones. One with 2.4 times its
usual odds is found in the end, one with twice as many is not (simulated)."""
ONE_SAMPLE = LEAST_NATS / 2
"""Evidence that one sample yields at most, for a client may send a burst; what is kept beyond the highest threshold of
a board, so that a symptom ends soon; and that of one without requests over one with many."""
READY_LAG_S = 2.0
"""judgement: age in seconds at which a state of the pool still belongs to evidence."""
MEMBERS: Fills = dict.fromkeys(("_total", "_time", "_rate", "_since", "_crossed"), np.nan) | {
    "_weight": 1.0,
    "_evidence": 0.0,
    "_told": False,
}
BOARDS: Fills = {"_pool_rate": np.nan, "_dispersion": 1.0}


class RequestShares(SeriesDetector):
    """Replicas that get far more requests than the others of their pool, or none.

    Requests are counted, so chance is known. Each sample adds the log-likelihood ratio of unequal against equal shares
    to a sum that never falls below zero (E. Page, "Continuous inspection schemes", 1954). Nothing counts while a
    replica is out of service: the others are meant to take its requests.
    """

    _total: F64
    _time: F64
    _rate: F64
    _weight: F64
    """[member]"""
    _pool_rate: F64
    _dispersion: F64
    """[board]"""

    def __init__(self, cells: JudgedCells, pools: UnsettledPools) -> None:
        super().__init__(cells)
        self.pools = pools
        self._members: dict[tuple[int, int, str], int] = {}
        """Number of a member by board, pool and replica; a board is the counts of one signal at one pool."""
        self._boards: dict[tuple[str, int], int] = {}
        self._cell, self._cell_member, self._board, self._pool = (np.empty(0, np.intp) for _ in range(4))
        self._evidence, self._since, self._crossed = (np.empty((2, 0)) for _ in range(3))
        """[more or none, member]"""
        self._told: Mask = np.empty((2, 0), bool)
        self._board_size = np.empty(0)
        self._shown: dict[int, tuple[int, int]] = {}
        """(more or none, member) that is reported, by board."""

    def grow(self) -> None:
        """Makes room for new cells."""
        cells = self.cells
        pairs = []
        for n in range(len(cells)):
            name = cells.replica_of(n) if cells.is_request_count(n) else ""
            if (pool := self.pools.numbers.get(name, -1)) >= 0:
                board = self._boards.setdefault((cells.signals[n].id, pool), len(self._boards))
                pairs.append((n, self._members.setdefault((board, pool, name), len(self._members))))
        self._cell, self._cell_member = np.array(pairs, np.intp).reshape(-1, 2).T
        size = len(self._members)
        self._board, self._pool = (np.array([key[n] for key in self._members], np.intp) for n in (0, 1))
        widen_items(self, MEMBERS, size)
        widen_items(self, BOARDS, len(self._boards))
        self._board_size = self.pools.size[np.array([pool for _, pool in self._boards], np.intp)]

    def judge(self, _tick: Tick) -> None:
        """Takes in the counts of a tick."""
        if not len(self._cell):
            return
        state, size, boards, sizes = self.cells.state, len(self._board), len(self._boards), self._board_size
        series = self.cells.series[self._cell]
        totals, times = state.counter_totals(series)
        fresh = ~np.isnan(state.fresh_values(series))
        known = np.bincount(self._cell_member, weights=fresh, minlength=size) > 0
        total = np.bincount(self._cell_member, weights=totals, minlength=size)
        time = np.full(size, -np.inf)
        with np.errstate(invalid="ignore"):
            np.maximum.at(time, self._cell_member, times)
        whole = np.bincount(self._board[known], minlength=boards) == sizes
        ready = known & whole[self._board] & ~self.pools.unsettled[self._pool]
        self._time[~ready] = self._since[:, ~ready] = self._crossed[:, ~ready] = np.nan
        self._evidence[:, ~ready], self._told[:, ~ready] = 0.0, False
        begins = ready & np.isnan(self._time)
        self._total[begins], self._time[begins] = total[begins], time[begins]
        newer = np.bincount(self._board[ready & (time > self._time)], minlength=boards) == sizes
        some = np.flatnonzero(newer[self._board])
        if len(some):
            self._count(some, total[some] - self._total[some], time[some] - self._time[some], time[some])
            self._total[some], self._time[some] = total[some], time[some]
        self._choose()

    def _count(self, at: Index, count: F64, passed: F64, time: F64) -> None:
        """Takes in the requests of some members, [k] each, and the seconds in which they came."""
        board, boards = self._board[at], len(self._boards)
        all_ = np.bincount(board, weights=count, minlength=boards)
        due = passed * np.clip(self._weight[at], 1 / ALIKE, ALIKE)
        usual = due / np.bincount(board, weights=due, minlength=boards)[board]
        here, total = sort_unique(board), all_[board]
        seconds = (np.bincount(board, weights=passed, minlength=boards) / self._board_size)[here]
        self._pool_rate[here] = _moved(self._pool_rate[here], all_[here] / seconds, seconds / RESTART_S)
        self._rate[at] = _moved(self._rate[at], count / passed, passed / BRIEF_S)
        limit, odds = _limits(usual, self._pool_rate[board]), np.array([[MORE], [LEAST_PART]])
        share = _share(odds, usual)
        gain = count * np.log(share / usual) + (total - count) * np.log((1 - share) / (1 - usual))
        top = np.full(boards, ONE_SAMPLE)
        np.maximum.at(top, board, gain.max(axis=0))
        gain *= (ONE_SAMPLE / top / np.maximum(self._dispersion, 1.0))[board]
        # One bound for all of a board: what is compared must not depend on the usual share of each.
        most = np.zeros(boards)
        np.maximum.at(most, board, limit)
        old, kept = self._evidence[:, at], most[board] + ONE_SAMPLE + np.array([[0.0], [ONE_SAMPLE + HALF]])
        new = np.clip(old + gain, 0.0, kept)
        self._since[:, at] = np.where(new == 0, np.nan, np.where(old == 0, time - passed, self._since[:, at]))
        self._evidence[:, at] = new
        self._crossed[:, at] = np.where(new < limit, np.nan, np.fmin(self._crossed[:, at], time))
        self._told[:, at] = (new >= limit) | (self._told[:, at] & (new > 0))
        self._learn_usual(at, count, total * usual, passed)

    def _learn_usual(self, at: Index, count: F64, expected: F64, passed: F64) -> None:
        """Learns the shares of healthy pools, and how much more than by chance their counts vary."""
        board, boards = self._board[at], len(self._boards)
        top = np.zeros(boards)
        np.maximum.at(top, self._board, self._evidence.max(axis=0))
        total = np.bincount(board, weights=count, minlength=boards)
        calm = ((top < ONE_SAMPLE) & (total > 0))[board]
        at, board, count, expected, passed = at[calm], board[calm], count[calm], expected[calm], passed[calm]
        weight = count / total[board] * self._board_size[board]
        self._weight[at] = _moved(self._weight[at], weight, passed / (2 * RESTART_S))
        squares = np.bincount(board, weights=(count - expected) ** 2 / expected, minlength=boards)
        apart = np.minimum(squares / (self._board_size - 1), (SIGMAS**2))[board]
        self._dispersion[board] = _moved(self._dispersion[board], apart, passed / (2 * RESTART_S))

    def _choose(self) -> None:
        """Chooses the member of each board for which most speaks, once the state of its pool is known as of then."""
        shown, self._shown = self._shown, {}
        if not self._told.any():
            return
        state, read = self.cells.state, np.full(len(self.pools.size), np.inf)
        ready = self.pools.ready
        at = np.flatnonzero((ready >= 0) & ~np.isnan(state.fresh_values(ready)))
        read[at] = state.times[ready[at]]
        # Of two replicas one gets none or the other too many: a few requests by chance must not decide.
        penalty = np.array([[0.0], [ONE_SAMPLE]])
        weight, top = self._evidence - penalty, np.full((2, len(self._boards)), -np.inf)
        for row, n in shown.values():
            weight[row, n] += ONE_SAMPLE  # one that is reported stays so while another is hardly more likely
        np.maximum.at(top[0], self._board, weight.max(axis=0))
        np.maximum.at(top[1], self._board, weight[1] + ONE_SAMPLE)
        sure = (weight + penalty >= top[1, self._board]) & (read[self._pool] >= self._crossed - READY_LAG_S)
        again: set[int] = set()
        for row, n in np.argwhere(self._told & (weight == top[0, self._board])).tolist():
            board = int(self._board[n])
            if shown.get(board, (0, n))[0] > row:
                again.add(board)
            elif shown.get(board) == (row, n) or sure[row, n]:
                self._shown.setdefault(board, (row, n))
        # One that had none gets requests again: what the other one got meanwhile says nothing of now.
        members = np.isin(self._board, sorted(again))
        self._evidence[:, members] *= HALF
        self._told[:, members] = False

    def find(self) -> Iterator[Finding]:
        """Yields the replicas that get too many requests, or none."""
        names = [name for _, _, name in self._members]
        signals = [name for name, _ in self._boards]
        for board, (row, n) in self._shown.items():
            others = float(np.median(self._rate[(self._board == board) & (np.arange(len(names)) != n)]))
            signal, since = self.cells.state.signals[signals[board]], float(self._since[row, n])
            direction = ("up", "down")[row]
            yield Finding(signal, Entity("replica", names[n]), PEERS, direction, since, float(self._rate[n]), others)

    def take_over(self, before: Self, places: CellPlaces) -> None:
        """Goes on with the evidence of another one's boards and members."""
        super().take_over(before, places)
        boards = match_places(before._board_keys(), self._board_keys())
        members = match_places(before._member_keys(), self._member_keys())
        copy_items(self, before, MEMBERS, members)
        copy_items(self, before, BOARDS, boards)
        for board, (row, member) in before._shown.items():
            at, which = (int(some.locate(np.array(n))) for some, n in ((boards, board), (members, member)))
            if at >= 0 and which >= 0:
                self._shown[at] = row, which

    def _board_keys(self) -> list[tuple[str, str]]:
        """Returns (signal, pool) of each board."""
        pools = self.cells.topology.pools
        return [(signal, pools[pool].name) for signal, pool in self._boards]

    def _member_keys(self) -> list[tuple[tuple[str, str], str]]:
        """Returns (board, replica) of each member."""
        boards = self._board_keys()
        return [(boards[board], name) for board, _, name in self._members]


def _share(odds: F64 | float, equal: F64) -> F64:
    """Returns the share of a member that gets `odds` times as much as one with an equal share."""
    return odds * equal / (odds * equal + 1 - equal)


def _limits(equal: F64, rate: F64) -> F64:
    """Returns the evidence that is needed at a rate of requests per second."""
    share = _share(MORE, equal)
    each = share * np.log(share / equal) + (1 - share) * np.log((1 - share) / (1 - equal))
    return np.clip(BRIEF_S * each * rate, LEAST_NATS, ALIKE * LEAST_NATS)


def _moved(old: F64, new: F64, weight: F64) -> F64:
    """Returns averages moved towards new values; those without an old value take the new one."""
    found: F64 = np.where(np.isnan(old), new, old + (1 - np.exp(-weight)) * (new - old))
    return found
