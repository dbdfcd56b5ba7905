"""A clock, a link or the tokens of an engine that are low although what drives them is not, whatever use is made of it.

What was reached at the same use before is known: a governor that lowers the clock at little use did so then as well,
and an engine that read prompts made fewer tokens meanwhile. Where the load fell too, and never was so low before, a
larger fall than that of the load may be either: it is doubtful.

What was low under load from the beginning on has not fallen. What the device reaches is known from before or between
the work.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, Mask, nan_to_zero
from skewscope.engine.model.finding import LIMIT, PAST, PEERS, Finding
from skewscope.engine.model.parameters import (
    ALIKE,
    APART,
    EPISODE_S,
    HALF,
    LEAST_PART,
    MAJORITY,
    MIN_PAST,
    RESTART_S,
    RUN,
)
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.relations import use_of_share
from skewscope.engine.symptoms.series_detector import Runs, SeriesDetector
from skewscope.engine.symptoms.shared_shifts import find_places, keep_largest


class DrivenCapacity(SeriesDetector):
    """Capacities with a load, of which some are low for a while."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell is a capacity whose load is known."""
        return self.cells.judgement(cell).role == "capacity" and bool(self.cells.ties.given[cell] >= 0)

    def learn_cells(self) -> None:
        """Works out loads, and what a fall is at least."""
        self._given = self.cells.ties.given[self.at]
        self._least = self.cells.judged.least[self.at]
        units = [self.cells.signals[n].unit for n in self._given.tolist()]
        self._rests = np.array([use_of_share(LEAST_PART, unit) for unit in units])

    def list_lows(self, form: str, lows: Runs, reference: F64) -> Iterator[Finding]:
        """Returns those that have been low often and long enough, each of a cell or of the pool of most replicas.

        Args:
            form: of the findings.
            lows: the low values of each.
            reference: what each should have.
        """
        with np.errstate(invalid="ignore"):
            lasts = self.cells.time[self.at] - lows.since >= self.cells.judged.min_run_s[self.at]
        some = np.flatnonzero(lasts & (lows.count >= RUN)).tolist()
        found = {int(self.at[n]): (float(lows.since[n]), float(lows.value[n]), float(reference[n])) for n in some}
        places = find_places(self.cells, found)
        return iter(keep_largest(Finding(self.cells.signals[n], places[n], form, "down", *found[n]) for n in found))


class CapacityFalls(DrivenCapacity):
    """Capacities, and throughputs of engines, with a load, which fell while that did not."""

    KEPT: ClassVar[Fills] = dict.fromkeys(("_lowest", "_lower", "_lower_since", "_begin", "_run_lowest"), np.nan) | {
        "_load_sum": 0.0,
        "_count": 0,
    }
    TABLES: ClassVar = {"_lows": Runs, "_doubtful": Runs}
    _lowest: F64
    _load_sum: F64
    _count: Index
    _begin: F64
    """Of the past under any load: the lowest value, the sum of loads, the number and the time of the first one."""
    _lower: F64
    _lower_since: F64
    """Of the newest values in a row below the lowest of the past: the lowest, and the time of the first one."""
    _lows: Runs
    _run_lowest: F64
    """The values in a row that are lower, and the lowest of them."""
    _doubtful: Runs
    """Those that are lower and doubtful."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell is a capacity, or the throughput of an engine, whose load is known."""
        return super().judges(cell) or bool(self.cells.ties.is_yield[cell])

    def learn_cells(self) -> None:
        """Works out loads, what a fall is at least, and the usual load from which on it counts."""
        super().learn_cells()
        ties, floor = self.cells.ties, self.cells.judged.floor
        # Of a few requests, each may be in its prompt.
        is_yield = ties.is_yield[self.at]
        self._floor = np.where(is_yield, floor[self.at], 0.0)
        self._least_load = np.where(is_yield, floor[self._given], 0.0)
        needs = [self.cells.judgement(cell).least_load > 0 for cell in self.at.tolist()]
        self._needs_all = np.where(needs, ties.load[self.at], np.inf)

    def judge(self, tick: Tick) -> None:
        """Takes in new values."""
        at, value, time = self.select(tick.new)
        load = self.cells.value[self._given[at]]
        loaded = load > 0
        at, value, time, load = at[loaded], value[loaded], time[loaded], load[loaded]
        if not len(at):
            return
        with np.errstate(invalid="ignore", divide="ignore"):
            usual, lowest = self._load_sum[at] / self._count[at], self._lowest[at]
            least = np.where(load > usual * (1 + APART), 1 / HALF - 1, self._least[at])
            known = (
                (self._count[at] >= MIN_PAST) & (time - self._begin[at] >= RESTART_S) & (usual >= self._least_load[at])
            )
            fell = known & (value * (1 + least) < lowest) & (value + self._floor[at] < lowest)
            low = fell & ((load >= usual * (1 - APART)) | (load > self._needs_all[at]))
            # Where the load fell with it, the fall says nothing, or little; it must not become the past either.
            doubtful = fell & ~low & (value * (1 + least) * usual < lowest * load) & (load > self._rests[at])
        past = ~fell
        self._lows.add(at[low], value[low], time[low])
        self._run_lowest[at[low]] = np.fmin(self._run_lowest[at[low]], value[low])
        self._take_past(at[past], value[past], time[past], load[past])
        self._doubtful.add(at[doubtful], value[doubtful], time[doubtful])

    def _take_past(self, at: Index, value: F64, time: F64, load: F64) -> None:
        # A few low values that did not last are part of what is usual.
        short = at[(self._lows.count[at] > 0) & (self._lows.count[at] < RUN)]
        self._lowest[short] = np.fmin(self._lowest[short], self._run_lowest[short])
        self._take_lower(at, value, time)
        self._run_lowest[at] = np.nan
        self._lows.end(at)
        self._doubtful.end(at)
        self._load_sum[at] += load
        self._count[at] += 1
        self._begin[at] = np.fmin(self._begin[at], time)

    def _take_lower(self, at: Index, value: F64, time: F64) -> None:
        """Lowers the lowest value of the past to what rose again, or has lasted: a slow fall is no past of its end."""
        self._lower[at] = np.fmin(self._lower[at], value)
        self._lower_since[at] = np.fmin(self._lower_since[at], time)
        usual = (self._count[at] < MIN_PAST) | (value >= self._lowest[at])
        usual |= time - self._lower_since[at] >= EPISODE_S
        known = at[usual]
        self._lowest[known] = np.fmin(self._lowest[known], self._lower[known])
        self._lower[known] = self._lower_since[known] = np.nan

    def judged_cells(self) -> Index:
        """Returns the cells with a past to compare with."""
        found: Index = self.at[self._count >= MIN_PAST]
        return found

    def find(self) -> Iterator[Finding]:
        """Yields the capacities that are lower now."""
        return self.list_lows(PAST, self._lows, self._lowest)

    def doubts(self) -> Iterator[Finding]:
        """Yields the capacities that fell by more than their load, which never was so low before."""
        return self.list_lows(PAST, self._doubtful, self._lowest)


class LoadedCapacity(DrivenCapacity):
    """Capacities that under load never come near what they reach: their past under load is as low, which is no fall."""

    KEPT: ClassVar[Fills] = {
        "_lowest": np.nan,
        "_turn": 0,
        "_reached": np.nan,
        "_was_full": False,
        "_load_sum": 0.0,
    }
    TABLES: ClassVar = {"_lows": Runs}
    _lowest: F64
    _turn: Index
    """The lowest of up to RUN values, and how many these are: what is reached is held for all of them."""
    _reached: F64
    _lows: Runs
    """All low values under load."""
    _was_full: Mask
    """Whether it was ever near what it reaches while under load; it is no longer low then."""
    _load_sum: F64
    """Of the loads at all values."""

    def judge(self, tick: Tick) -> None:
        """Takes in new values."""
        at, value, time = self.select(tick.new)
        if not len(at):
            return
        load = nan_to_zero(self.cells.value[self._given[at]])
        self._load_sum[at] += load
        self._lowest[at] = np.fmin(self._lowest[at], value)
        self._turn[at] += 1
        full = at[self._turn[at] >= RUN]
        self._reached[full] = np.fmax(self._reached[full], self._lowest[full])
        self._lowest[full], self._turn[full] = np.nan, 0
        with np.errstate(invalid="ignore"):
            loaded = load > self.cells.ties.load[self.at[at]]
            low = loaded & (value * (1 + self._least[at]) < self._reached[at])
        self._was_full[at[loaded & ~low & ~np.isnan(self._reached[at])]] = True
        self._lows.add(at[low], value[low], time[low])
        self._lows.end(at[self._was_full[at]])

    def find(self) -> Iterator[Finding]:
        """Yields the capacities that stay low under load."""
        return self.list_lows(LIMIT, self._lows, self._reached)

    def doubts(self) -> Iterator[Finding]:
        """Yields those that never reached what most of their peers did, at no less use, where none had much to do.

        What uses as much may still do less: a governor that lowers the clock makes use of the rest.
        """
        members: dict[int, list[int]] = {}
        for cell, number in zip(self.cells.pair_cell.tolist(), self.cells.pair_set.tolist(), strict=True):
            if self._place[cell] >= 0:
                members.setdefault(number, []).append(int(self._place[cell]))
        found: dict[int, float] = {}
        with np.errstate(invalid="ignore"):
            usual = self._load_sum / self.cells.samples[self.at]
            for at in (np.array(some) for some in members.values() if len(some) >= MAJORITY):
                reached, use = self._reached[at], usual[at]
                most = float(np.nanmedian(reached)) if not np.isnan(reached).all() else np.nan
                works = (use >= np.nanmedian(use) * (1 - APART)) & (use > self._rests[at])
                rarely = use <= self.cells.ties.load[self.at[at]]
                low = works & rarely & (reached * np.maximum(1 + self._least[at], ALIKE) < most)
                found |= dict.fromkeys(at[low].tolist(), most)
        for n, most in found.items():
            yield self.finding_on(n, PEERS, "down", (self.cells.time[self.at[n]], self._reached[n], most))
