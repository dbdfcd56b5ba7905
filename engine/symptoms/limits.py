"""Values beyond a limit that holds whatever the past and the peers: of one reading as of many.

A value of health or use has a nominal value. Losses and errors are a share of what was carried: of two readings by
their rates, of one by the sums since the counters began, which says less.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, Mask
from skewscope.engine.model.finding import LIMIT, TOTAL, Finding
from skewscope.engine.model.parameters import BURST_S, NEGLIGIBLE, TENFOLD
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.series_detector import Runs, SeriesDetector
from skewscope.kb.quantities import MAX_PERCENT

LIMITED_ROLES = frozenset({"health", "utilisation", "pressure", "capacity"})
"""Roles of which the nominal value is a limit, and not the only good value."""


class Limits(SeriesDetector):
    """Values beyond a limit."""

    KEPT: ClassVar[Fills] = {"_allowed": np.nan, "_was_good": False}
    TABLES: ClassVar = {"_beyond": Runs}
    _beyond: Runs
    _allowed: F64
    _was_good: Mask

    _whole: Index
    """The cell of which each is a share, or -1."""
    _given: Index
    """The cell that must show load, more than `_load`, or -1."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell has a limit."""
        judged = self.cells.judgement(cell)
        return bool(judged.share_of) or (judged.role in LIMITED_ROLES and judged.nominal is not None)

    def learn_cells(self) -> None:
        """Works out limits and loads."""
        cells, at = self.cells, self.at.tolist()
        judged = [cells.judgement(n) for n in at]
        self._whole = self._find_wholes(at, [one.share_of for one in judged])
        self._given, self._load = cells.ties.given[self.at], cells.ties.load[self.at]
        # What is no share, as a clock, is low at rest: it counts only where the load is known.
        self._needs_load = np.array([bool(one.given) and not one.share_of for one in judged], bool)
        self._is_share = np.array([bool(one.share_of) for one in judged], bool)
        self._limit = np.array([one.most_share or one.nominal or 0.0 for one in judged])
        # A share of what nobody counts has a limit by itself, where the catalogue knows one.
        alone = self._is_share & (self._whole < 0) & np.array([one.nominal is not None for one in judged], bool)
        self._limit[alone] = [float(judged[n].nominal or 0.0) for n in np.flatnonzero(alone).tolist()]
        self._is_share &= ~alone
        self._sign = np.array([-1.0 if one.bad == "down" else 1.0 for one in judged])
        self._floor = np.where([bool(one.share_of) for one in judged], cells.judged.floor[self.at], 0.0)

    def _find_wholes(self, at: list[int], ids: list[str]) -> Index:
        """Returns the cells that cells `at` are shares of: with the same labels, else the first of the same place."""
        cells = self.cells
        keys = [(cells.signals[n].id, cells.places[n]) for n in range(len(cells))]
        by_labels = {(*key, cells.selectors[n]): n for n, key in enumerate(keys)}
        by_place = {key: n for n, key in reversed(list(enumerate(keys)))}
        wanted = [(id_, cells.places[n]) for n, id_ in zip(at, ids, strict=True)]
        wholes = [
            by_labels.get((*key, cells.selectors[n]), by_place.get(key, -1)) for n, key in zip(at, wanted, strict=True)
        ]
        return np.array(wholes, np.intp)

    def judge(self, tick: Tick) -> None:
        """Takes in new values, of counters their rates."""
        at, value, time = self.select(tick.new)
        if not len(at):
            return
        wholes = self._wholes(at, self.cells.value)
        allowed = self._limit[at] * wholes
        with np.errstate(invalid="ignore"):
            is_idle = (self._given[at] >= 0) & ~(self.cells.value[self._given[at]] > self._load[at])
        is_idle |= self._needs_load[at] & (self._given[at] < 0)
        known = ~np.isnan(value) & ~np.isnan(allowed) & ~is_idle
        beyond = known & (self._sign[at] * (value - allowed) > 0) & self._matters(at, value, wholes)
        self._was_good[at[known & ~beyond]] = True
        self._beyond.follow(at[known], beyond[known], value[known], time[known])
        self._allowed[at[beyond]] = allowed[beyond]

    def _matters(self, at: Index, value: F64, wholes: F64) -> Mask:
        """Returns [k] whether values reach their floors; what is ten times the rest of its whole matters sooner."""
        floor = self._floor[at]
        with np.errstate(invalid="ignore"):
            is_nearly_all = self._is_share[at] & (value >= TENFOLD * (wholes - value)) & (value >= floor / TENFOLD)
        return (value >= floor) | is_nearly_all

    def _wholes(self, at: Index, values: F64) -> F64:
        """Returns [k] that of which each is a share, by [cell] values; 1 where it is a share of nothing."""
        whole = self._whole[at]
        return np.where(self._is_share[at], np.where(whole >= 0, values[whole], np.nan), 1.0)

    def find(self) -> Iterator[Finding]:
        """Yields what is beyond its limit; at the end of the data what always was, however short that was."""
        since = self._beyond.since
        with np.errstate(invalid="ignore"):
            held = self.cells.time[self.at] - since >= BURST_S
        always = self.is_over & ~self._was_good & ~np.isnan(since)
        for n in np.flatnonzero(held | always).tolist():
            yield self._finding(n, LIMIT, float(self._beyond.value[n]), float(self._allowed[n]))
        if self.is_over:
            yield from self._totals()

    def _totals(self) -> Iterator[Finding]:
        """Yields shares of what counters of one reading counted since they began."""
        cells = self.cells
        latest = np.full(len(cells), np.nan)
        single = np.flatnonzero(cells.is_counter & np.isnan(cells.value) & ~np.isnan(cells.time))
        latest[single] = cells.state.latest[cells.series[single]]
        # Of a histogram it is the mean of enough observations that is a share.
        means, is_mean = cells.means.at, np.zeros(len(cells), bool)
        latest[means] = np.where(np.isnan(cells.value[means]), cells.means.overall(1 / NEGLIGIBLE), np.nan)
        is_mean[means] = True
        with np.errstate(invalid="ignore"):
            wholes = self._wholes(np.arange(len(self.at)), latest)
            allowed = self._limit * wholes
            is_enough = (wholes >= 1 / NEGLIGIBLE) | is_mean[self.at]
            beyond = (self._whole >= 0) & (latest[self.at] > allowed) & is_enough
            beyond &= ~is_mean[self.at] | self._matters(np.arange(len(self.at)), latest[self.at], wholes)
        for n in np.flatnonzero(beyond).tolist():
            yield self._finding(n, TOTAL, float(latest[self.at[n]]), float(allowed[n]))

    def _finding(self, n: int, form: str, value: float, allowed: float) -> Finding:
        cell, whole = int(self.at[n]), int(self._whole[n])
        direction = "begins" if self.cells.judgement(cell).bad == "begins" else "down" if self._sign[n] < 0 else "up"
        since = self.cells.time[cell] if form == TOTAL else self._beyond.since[n]
        name = self.cells.signals[whole].name.lower() if whole >= 0 else ""
        bound = "at least" if self._sign[n] < 0 else "at most"
        share = f"{_share(self._limit[n] * value / allowed)} {name}, {bound} {100 * self._limit[n]:.3g} % is allowed"
        return self.finding_on(n, form, direction, (since, value, allowed), share if whole >= 0 else "")


def _share(share: float) -> str:
    """Returns `42 % of`, `31 times the` of what is too much for percents."""
    return f"{100 * share:.3g} % of" if share <= MAX_PERCENT else f"{share:.3g} times the"
