"""Windows over counters: how much they counted, and in what time."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.ingest.ring_buffer import (
    ALL_COLUMNS,
    FIT_STEPS,
    MIN_PERIODS,
    WIDE_RING_COLUMNS,
    ColumnIndexer,
    SlotOffset,
    SlotRing,
    depth_for,
    widen_window,
)
from skewscope.engine.ingest.sampling import MAX_PERIOD_S, nan_to_zero
from skewscope.engine.ingest.timestamps import constant_array
from skewscope.engine.model.sets import F64


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """How counters stand: how much they counted since `born`, up to the sample at `time`."""

    sum: F64
    time: F64
    start_time: F64
    start_sum: F64
    period: F64
    fresh: NDArray[np.bool_]
    longest_period: float
    """The longest period."""
    latest_start: float = np.nan
    """When the last began, where all are fresh and were read at one time."""


class CounterHistory:
    """What counters counted: how much more, and in what time, since some while ago. One lane for each series."""

    def __init__(self, tick: float, slot: float) -> None:
        self.total_ring = SlotRing(tick, slot, ("counted",))
        self.time_ring = SlotRing(tick, slot, ("time",))
        """When they were read: one lane for all, as long as they are read together."""
        self._has_shared_time = False
        self.longest_window = 0.0
        self.expected_counters = 0
        """Lanes that there will be: those of a fleet come one after another."""
        self._tick_count = 0

    def request(self, window: float) -> None:
        """Keeps enough for a window."""
        self.longest_window = max(self.longest_window, window)
        self._coarsen(self.longest_window)

    def _coarsen(self, longest: float) -> None:
        self.total_ring.coarsen(longest)
        self.time_ring.coarsen(longest)

    def step(self, t: float, counted: F64, time: F64 | float, usual: Callable[[], float]) -> None:
        """Takes in how much the counters counted, up to when; `usual` gives their usual period."""
        if not self.total_ring.size and (lanes := max(len(counted), self.expected_counters)) > WIDE_RING_COLUMNS:
            depth = depth_for(lanes, self.longest_window, self.total_ring.slot)
            self.total_ring, self.time_ring = (
                SlotRing(self.total_ring.tick, self.total_ring.slot, (name,), depth=depth)
                for name in ("counted", "time")
            )
            self._coarsen(self.longest_window)
        self._fit(len(counted), isinstance(time, float))
        for ring, name, row in ((self.total_ring, "counted", counted), (self.time_ring, "time", time)):
            ring.advance(t)
            ring.replace(name, row)
        if self._tick_count < FIT_STEPS or self._tick_count % FIT_STEPS == 0:
            self._coarsen(max(self.longest_window, MIN_PERIODS * min(usual(), MAX_PERIOD_S)))
        self._tick_count += 1

    def _fit(self, size: int, together: bool) -> None:
        """Makes room for `size` lanes, and for their times one by one if they are not read together."""
        if not self.total_ring.size:
            self._has_shared_time = together
        elif self._has_shared_time and not (together and size == self.total_ring.size):
            self.time_ring.widen(self.total_ring.size)
            self._has_shared_time = False
        elif together and not self._has_shared_time and self._tick_count % FIT_STEPS == 0:
            self._has_shared_time = self.time_ring.narrow()
        self.total_ring.grow(size)
        self.time_ring.grow(1 if self._has_shared_time else size)

    def increase_over(self, window: float, tally: CounterSnapshot, at: ColumnIndexer = ALL_COLUMNS) -> tuple[F64, F64]:
        """(increase, seconds) from the last sample before the window, or since counting began; NaN where too short.

        `tally` is of the lanes `at`.
        """
        wide: F64 | float = window
        steps: SlotOffset = self.total_ring.slot_count(window)
        if MIN_PERIODS * tally.longest_period > window:
            steps, wide = self.total_ring.slot_counts(window, tally.period), widen_window(window, tally.period)
        sums, times = self.total_ring.look_back("counted", steps, at), self._times_before(steps, at)
        if isinstance(wide, float) and len(times) == 1 and times[0] >= tally.latest_start:
            took = float(tally.time[0] - times[0])
            if took >= wide / 2 and took > 0:
                return tally.sum - sums, constant_array(took, len(sums))
        since, more = tally.time - times, tally.sum - sums
        short = ~(times >= tally.start_time)
        if short.any():
            since = np.where(short, tally.time - tally.start_time, since)
            more = np.where(short, tally.sum - tally.start_sum, more)
        good = tally.fresh & (since > 0)
        half = wide / 2
        if not (since >= half).all():
            good &= since + nan_to_zero(tally.period) >= half
        return (more, since) if good.all() else (np.where(good, more, np.nan), np.where(good, since, np.nan))

    def _times_before(self, steps: SlotOffset, at: ColumnIndexer) -> F64:
        """When some lanes were last read before so many slots; one time if that is the same for all."""
        if not self._has_shared_time:
            return self.time_ring.look_back("time", steps, at)
        if isinstance(steps, int):
            return self.time_ring.look_back("time", steps)
        return self.time_ring.look_back("time", steps, np.zeros(len(steps), np.intp))
