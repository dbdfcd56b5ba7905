"""The totals of counters over time, from which their increases over windows are read."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.ingest.counter_snapshot import CounterSnapshot
from skewscope.engine.ingest.samples import MAX_PERIOD_S, MIN_PERIODS, constant_array, widen_window
from skewscope.engine.ingest.slots import (
    ALL_COLUMNS,
    FIT_STEPS,
    WIDE_RING_COLUMNS,
    ColumnIndexer,
    SlotOffset,
    SlotRing,
    depth_for,
)
from skewscope.engine.model.arrays import F64, Index, has_all, join_equal, nan_to_zero, sort_unique

STILL_SHARE = 0.5
"""Counters that have not counted get no columns where they are at least this part of all..."""
SETTLE_STEPS = 64
"""...which is seen once in so many steps..."""
MIN_STILL_LANES = 1 << 10
"""...and where there are more than so many: of fewer ones the memory does not matter, but the time to find them."""


class CounterHistory:
    """The totals of counters over time; each counter has a lane, and those that count a column of a ring.

    Most counters of errors never count: their total is zero in all slots, and they need no column.
    """

    def __init__(self, tick: float, slot: float, min_periods: float = MIN_PERIODS) -> None:
        """Constructs it for ticks and slots of so many seconds, and windows of at least so many periods."""
        self.min_periods = min_periods
        self.total_ring = SlotRing(tick, slot, ("counted",))
        """A column for each lane, or for each of `_moving`."""
        self.time_ring = SlotRing(tick, slot, ("time",))
        """When the counters were read: one column for all, as long as they are read together."""
        self._has_shared_time = False
        self._lane_count = 0
        self._moving: Index | None = None
        """The lanes that have columns, in the order of these; None for all, in their order."""
        self._columns: NDArray[np.int32] = np.empty(0, np.int32)
        """[lane] its column, -1 for none; empty where all have one."""
        self.windows: set[float] = set()
        """Lengths of the windows, in seconds."""
        self.longest_window = 0.0
        self.expected_counters = 0
        """Lanes that there will be: those of a fleet come one after another."""
        self._tick_count = 0
        """Ticks with samples."""

    def request(self, window: float) -> None:
        """Keep enough for a window of so many seconds."""
        self.windows.add(window)
        self.longest_window = max(self.longest_window, window)
        self._coarsen(self.longest_window)

    def _coarsen(self, longest: float) -> None:
        self.total_ring.coarsen(longest)
        self.time_ring.coarsen(longest)

    def advance(self, t: float) -> None:
        """Move on to the tick that ends at `t` seconds, in which no counter was read."""
        self.total_ring.advance(t)
        self.time_ring.advance(t)

    def next_change(self, period: F64) -> float:
        """Returns the time in seconds at which an increase may next change although the counters were not read.

        `period` is of each lane, in seconds.
        """
        ring = self.total_ring
        if self._lane_count > WIDE_RING_COLUMNS:
            return -np.inf
        offsets = (
            sort_unique(ring.slot_counts(widen_window(window, period, self.min_periods))) for window in self.windows
        )
        return ring.next_exit({slots for some in offsets for slots in some.tolist()})

    def step(self, t: float, counted: F64, time: F64 | float, usual: Callable[[], float]) -> None:
        """Take in the totals and the times they were read; `usual` returns the usual period in seconds."""
        if not self._lane_count and (lanes := max(len(counted), self.expected_counters)) > WIDE_RING_COLUMNS:
            depth = depth_for(lanes, self.longest_window, self.total_ring.slot)
            self.total_ring, self.time_ring = (
                SlotRing(self.total_ring.tick, self.total_ring.slot, (name,), depth=depth)
                for name in ("counted", "time")
            )
            self._coarsen(self.longest_window)
        self._fit(len(counted), isinstance(time, float))
        self._fit_columns(counted)
        row = counted if self._moving is None else counted[self._moving]
        self.total_ring.advance(t)
        self.total_ring.replace("counted", row)
        self.time_ring.advance(t)
        self.time_ring.replace("time", time)
        self.total_ring.mark_slots(self.total_ring.current)
        if self._tick_count < FIT_STEPS or self._tick_count % FIT_STEPS == 0:
            self._coarsen(max(self.longest_window, self.min_periods * min(usual(), MAX_PERIOD_S)))
        self._tick_count += 1

    def _fit(self, size: int, together: bool) -> None:
        """Make room for `size` counters, and for separate times if they are not read together."""
        if not self._lane_count:
            self._has_shared_time = together
        elif self._has_shared_time and not (together and size == self._lane_count):
            self.time_ring.widen(self._lane_count)
            self._has_shared_time = False
        elif together and not self._has_shared_time and self._tick_count % FIT_STEPS == 0:
            self._has_shared_time = self.time_ring.narrow()
        self.grow(size)

    def grow(self, size: int) -> None:
        """Makes room for `size` counters; of the new ones nothing is known."""
        known, self._lane_count = self._lane_count, max(size, self._lane_count)
        if not known and size > MIN_STILL_LANES:
            # Of the first ones there is no past that is missing.
            self._place_columns(np.empty(0, np.intp))
        elif self._moving is None:
            self.total_ring.grow(size)
        elif size > known:
            self._add_columns(self._moving, np.arange(known, size))
        self.time_ring.grow(1 if self._has_shared_time else size)

    # --- columns

    def _fit_columns(self, counted: F64) -> None:
        """Gives columns to lanes that begin to count, and takes those that are not needed now and then."""
        if self._moving is not None:
            self._add_counting(self._moving, counted)
        if self._tick_count % SETTLE_STEPS == 0 and len(counted) > MIN_STILL_LANES:
            self._drop_still(counted)

    def _add_counting(self, moving: Index, counted: F64) -> None:
        """Gives columns to lanes that begin to count, and to all where many do."""
        begins = np.flatnonzero((counted != 0) & (self._columns < 0))
        if not len(begins):
            return
        is_usual = len(moving) + len(begins) > (1 - STILL_SHARE) * len(counted)
        added = np.flatnonzero(self._columns < 0) if is_usual else begins
        self._add_columns(moving, added)
        self.total_ring.layers["counted"][:, len(moving) :] = 0.0
        if is_usual:
            self.total_ring = _select_columns(self.total_ring, self._columns.astype(np.intp))
            self._moving, self._columns = None, self._columns[:0]

    def _add_columns(self, moving: Index, lanes: Index) -> None:
        """Gives columns without a past to lanes that have none."""
        self._moving = np.concatenate((moving, lanes))
        self._columns = np.append(self._columns, np.full(max(self._lane_count - len(self._columns), 0), -1, np.int32))
        self._columns[lanes] = np.arange(len(moving), len(self._moving))
        self.total_ring.grow(len(self._moving))

    def _drop_still(self, counted: F64) -> None:
        """Takes the columns of lanes whose total is zero in all slots, where these are many."""
        if np.count_nonzero(counted) > (1 - STILL_SHARE) * len(counted):
            return
        moving = np.arange(len(counted)) if self._moving is None else self._moving
        self.total_ring.initialise_slot()
        is_zero = counted[moving] == 0
        still = np.flatnonzero(is_zero)
        is_zero[still] = (self.total_ring.layers["counted"][:, still] == 0).all(axis=0)
        kept = np.flatnonzero(~is_zero)
        if len(kept) < len(moving) and len(kept) <= (1 - STILL_SHARE) * len(counted):
            self.total_ring = _select_columns(self.total_ring, kept)
            self._place_columns(moving[kept])

    def _place_columns(self, moving: Index) -> None:
        """Notes which lanes have columns."""
        self._moving, self._columns = moving, np.full(self._lane_count, -1, np.int32)
        self._columns[moving] = np.arange(len(moving))

    def select(self, lanes: Index) -> "CounterHistory":
        """Returns a copy with some of the lanes."""
        found = CounterHistory(self.total_ring.tick, self.total_ring.slot, self.min_periods)
        found._has_shared_time, found._lane_count = self._has_shared_time, len(lanes)
        found.longest_window, found.windows = self.longest_window, set(self.windows)
        found.expected_counters, found._tick_count = self.expected_counters, self._tick_count
        columns = lanes if self._moving is None else self._columns[lanes].astype(np.intp)
        has = np.flatnonzero(columns >= 0)
        found.total_ring = _select_columns(self.total_ring, columns[has])
        if self._moving is not None:
            found._place_columns(has)
        times = np.zeros(1, np.intp) if self._has_shared_time else lanes
        found.time_ring = _select_columns(self.time_ring, times)
        return found

    # --- increases

    def increase_over(self, window: float, tally: CounterSnapshot, at: ColumnIndexer = ALL_COLUMNS) -> tuple[F64, F64]:
        """Returns ([lane] increase, [lane] seconds) since the last sample before the window; NaN where too short.

        `tally` is of the lanes `at`.
        """
        wide: F64 | float = window
        steps: SlotOffset = self.total_ring.slot_count(window)
        if self.min_periods * tally.longest_period > window:
            wide = widen_window(window, tally.period, self.min_periods)
            # Mostly, all counters are read equally often.
            if len(wide) and has_all(wide == wide[0]):
                wide = float(wide[0])
            steps = (
                self.total_ring.slot_count(wide)
                if isinstance(wide, float)
                else join_equal(self.total_ring.slot_counts(wide))
            )
        sums, times = self._totals_before(steps, at), self._times_before(steps, at)
        if isinstance(wide, float) and len(times) == 1 and times[0] >= tally.latest_start:
            took = float(tally.time[0] - times[0])
            if took >= wide / 2 and took > 0:
                return tally.sum - sums, constant_array(took, len(sums))
        since, more = tally.time - times, tally.sum - sums
        is_long = times >= tally.start_time
        if not has_all(is_long):
            since = np.where(is_long, since, tally.time - tally.start_time)
            more = np.where(is_long, more, tally.sum - tally.start_sum())
        good = tally.fresh & (since > 0)
        half = wide / 2
        if not has_all(since >= half):
            good &= since + nan_to_zero(tally.period) >= half
        if has_all(good):
            return more, since
        return np.where(good, more, np.nan), np.where(good, since, np.nan)

    def _totals_before(self, steps: SlotOffset, at: ColumnIndexer) -> F64:
        """Returns [lane] what counters had counted so many slots ago."""
        if self._moving is None:
            return self.total_ring.look_back("counted", steps, at)
        column = self._columns[at].astype(np.intp)
        found, has = np.zeros(len(column)), np.flatnonzero(column >= 0)
        if len(has):
            some = steps if isinstance(steps, int) else steps[has]
            found[has] = self.total_ring.look_back("counted", some, column[has])
        return found

    def _times_before(self, steps: SlotOffset, at: ColumnIndexer) -> F64:
        """Returns [lane] when counters were last read before so many slots; one time if it is the same for all."""
        if not self._has_shared_time:
            return self.time_ring.look_back("time", steps, at)
        if isinstance(steps, int):
            return self.time_ring.look_back("time", steps)
        return self.time_ring.look_back("time", steps, np.zeros(len(steps), np.intp))


def _select_columns(ring: SlotRing, columns: Index) -> SlotRing:
    found = ring.select(columns)
    found.filled = [*ring.filled]
    return found
