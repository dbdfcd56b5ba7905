"""What each tick brings to the detectors of series: new samples, which of them count, and the least differences.

Each series keeps its own sampling period. A repeated value of a held gauge is no new sample. Of counters the rates
between two changes are judged.
"""

import math
from collections.abc import Sequence

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, Mask, widen_items
from skewscope.engine.model.finding import WORK_ROLES
from skewscope.engine.model.parameters import ALIKE, NEGLIGIBLE, TAIL, TENFOLD
from skewscope.engine.model.tick import NewSamples, Tick
from skewscope.engine.model.topology import GonePlaces
from skewscope.engine.model.transfer import copy_fields, copy_items
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.samples import split_rounds
from skewscope.engine.symptoms.series_detector import CellPlaces
from skewscope.engine.symptoms.unsettled_pools import UnsettledPools

NEWEST: Fills = {"_last": np.nan, "_last_time": np.nan, "_is_rounded": True}


class SeriesReader:
    """Reads the ticks. Arrays are [cell]."""

    _last: F64
    _last_time: F64
    """Value and time of the newest sample that differed from the one before, or counted as if it did."""
    _is_rounded: Mask
    """Whether all its values had few digits."""

    def __init__(self, cells: JudgedCells, pools: UnsettledPools) -> None:
        self.cells, self.pools = cells, pools
        none = np.empty(0, np.intp)
        self._least_floor = self._least_compared = np.empty(0)
        """No value below this is compared with peers."""
        self._pool: Index = none
        """The pool whose replicas take the load of one another, or -1."""
        self._load_pool: Index = none
        """A number of its signal and of the pool of that replica, where the time of work is judged, or -1."""
        self._gated, self._loaded, self._pooled, self._timed = (none for _ in range(4))
        """The cells with a load that they follow, with such a series, in such a pool, and with such a number."""
        widen_items(self, NEWEST, 0)
        self._t = self._unread_until = -math.inf
        """End of the last tick; time until which samples wait for the turn of their cells."""
        self._gone_places = GonePlaces()
        self._ended: Mask = np.empty(0, bool)
        """Whether its place has ended."""

    def grow(self) -> None:
        """Makes room for new cells."""
        cells, size = self.cells, len(self.cells)
        self._least_floor = cells.judged.floor
        self.cells.floor = self._least_floor.copy()
        self._least_compared = np.array([cells.comparison_minimum(cell) for cell in range(size)])
        widen_items(self, NEWEST, size)
        self.retire(self._gone_places)
        self.pools.grow()
        pooled = cells.judged.has_role(WORK_ROLES).tolist()
        self._pool = np.array([self.pools.pool_of(n) if counts else -1 for n, counts in enumerate(pooled)], np.intp)
        timed = (cells.ties.requests >= 0) & cells.judged.has_role(["time-per-work"])
        sets = [(cells.signals[n].id, self.pools.pool_of(n)) if timed[n] else ("", -1) for n in range(size)]
        numbers = {one: n for n, one in enumerate(dict.fromkeys(one for one in sets if one[1] >= 0))}
        self._load_pool = np.array([numbers.get(one, -1) for one in sets], np.intp)
        self._gated, self._loaded, self._pooled, self._timed = (
            np.flatnonzero(one >= 0) for one in (cells.ties.given, cells.ties.requests, self._pool, self._load_pool)
        )

    def retire(self, gone: GonePlaces) -> None:
        """Takes in which places have ended: what comes there next is no outlier yet."""
        self._gone_places = gone
        places = self.cells.places if gone else ()
        self._ended = np.array([gone.has(place) for place in places] or np.zeros(len(self.cells)), bool)

    def begin(self, t: float, *, sampled: bool) -> NewSamples:
        """Takes in the samples of the tick that ends at `t` seconds, if it has some; returns those that are new."""
        self._t = t
        # Where cells take turns, the samples of a tick are read until each had its turn.
        if sampled and self.cells.turns > 1:
            self._unread_until = t + self.cells.turns
        return self.cells.read(t)

    def read(self, new: NewSamples, each: Index) -> Tick:
        """Returns what the tick brings.

        Args:
            new: its new samples.
            each: the cells of which samples that newer ones replaced count as well.
        """
        if not len(new.cells):
            return Tick(self._t, new)
        self.pools.step(self._t)
        usable, gone = self._usable_values()
        self._update_floors()
        with np.errstate(all="ignore"):
            earlier = self._earlier_steps(each)
            has_sample, is_distinct = np.zeros((2, len(self.cells)), bool)
            has_sample[new.cells] = True
            is_distinct[new.cells] = self._differ(new)
            compared = np.where(usable >= self._least_compared, self._allow_for_load(usable), np.nan)
        return Tick(self._t, new, earlier, usable, compared, self.cells.floor, has_sample, is_distinct, gone)

    def next_change(self) -> float:
        """Returns the time in seconds before which a tick without samples would bring nothing."""
        return self._t if self._t < self._unread_until else math.inf

    def _usable_values(self) -> tuple[F64, Mask | None]:
        """Returns [cell] the newest values, NaN where the load without which they do not count is missing.

        And what has lost its telemetry of load, its settled pool, or its place; None where nothing has.
        """
        cells, ties, value = self.cells, self.cells.ties, self.cells.value
        gated, loaded, pooled = self._gated, self._loaded, self._pooled
        if not (len(gated) or len(loaded) or len(pooled) or self._gone_places):
            return value, None
        load = cells.state.fresh_values(ties.requests[loaded])
        gone = self._ended.copy()
        gone[loaded] |= np.isnan(load)
        if len(pooled):
            gone[pooled] |= self.pools.unsettled[self._pool[pooled]]
        found = value.copy()
        with np.errstate(all="ignore"):
            found[gated[~(value[ties.given[gated]] > ties.load[gated])]] = np.nan
            found[loaded[~(load > 0)]] = np.nan
            found[gone] = np.nan
            found[ties.is_yield] /= value[ties.given[ties.is_yield]]
        return found, gone if gone.any() else None

    def _allow_for_load(self, usable: F64) -> F64:
        """Returns [cell] values to compare with peers: less of a replica that has far more load than another one."""
        load = self.cells.state.fresh_values(self.cells.ties.requests[self._timed])
        serving = load > 0
        at, load = self._timed[serving], load[serving]
        pool = self._load_pool[at]
        least, quickest = np.full((2, int(pool.max(initial=-1)) + 1), np.inf)
        np.fmin.at(least, pool, load)
        busy = load > TAIL * least[pool]
        if not busy.any():
            return usable
        np.fmin.at(quickest, pool[~busy], usable[at[~busy]])
        # It becomes as quick as the others at most: they are no slower for its load.
        slow, found = at[busy], usable.copy()
        found[slow] = np.fmax(usable[slow] / ALIKE, np.fmin(usable[slow], quickest[pool[busy]]))
        return found

    def _update_floors(self) -> None:
        """Updates the least differences that depend on the newest values of other cells."""
        value, ties = self.cells.value, self.cells.ties
        part, per_load = np.flatnonzero(ties.whole >= 0), np.flatnonzero(ties.is_yield)
        self.cells.floor[part] = np.fmax(self._least_floor[part], ties.least_part[part] * value[ties.whole[part]])
        with np.errstate(all="ignore"):
            self.cells.floor[per_load] = self._least_floor[per_load] / value[ties.given[per_load]]

    def _differ(self, new: NewSamples) -> Mask:
        """Returns [k] whether each of some new samples differs from the one before, or counts as if it did."""
        # A mean is read when it has new observations: the same value is another measurement.
        differs: Mask = (new.value != self._last[new.cells]) | (self.cells.means.place[new.cells] >= 0)
        # Of times that are printed with few digits, the next one is often the same.
        at = np.flatnonzero(self.cells.is_printed[new.cells])
        if len(at):
            cells, value = new.cells[at], new.value[at]
            self._is_rounded[cells] &= has_few_digits(value)
            differs[at] |= self._is_rounded[cells] & (new.time[at] - self._last_time[cells] >= value)
        some = new.cells[differs]
        self._last[some], self._last_time[some] = new.value[differs], new.time[differs]
        return differs

    def _earlier_steps(self, cells: Index) -> Sequence[NewSamples]:
        """Returns the steps of this tick that ended before the newest one, of some cells."""
        earlier = self.cells.state.earlier_steps
        if not earlier or not len(cells):
            return ()
        rounds = []
        for new in split_rounds(earlier, cells, self.cells.series[cells]):
            differs = self._differ(new)
            rounds.append(NewSamples(new.cells[differs], new.value[differs], new.time[differs]))
        return rounds

    def take_over(self, before: "SeriesReader", places: CellPlaces) -> None:
        """Goes on with the newest values of another one."""
        copy_fields(self, before, ("_t", "_unread_until"))
        copy_items(self.cells, before.cells, ("floor",), places.cells)
        copy_items(self, before, NEWEST, places.cells)
        self.pools.take_over(before.pools)


def has_few_digits(values: F64) -> Mask:
    """Returns [value] whether it is a decimal number of at most `2` digits, such as 1.2 or 0.14."""
    with np.errstate(all="ignore"):
        unit = TENFOLD ** (np.floor(np.log10(np.abs(values))) - (2 - 1))
        found: Mask = np.abs(values / unit - np.rint(values / unit)) < NEGLIGIBLE
    return found
