"""Windows over samples of one value of each of many entities, and what is asked of them.

Columns are entities, of one expression or of many side by side; a statistic is asked for some of them.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.features.column_statistics import column_quantile, column_slope
from skewscope.engine.ingest.samples import MAX_PERIOD_S, MIN_PERIODS, SamplingPeriods, widen_window
from skewscope.engine.ingest.slots import (
    ALL_COLUMNS,
    CUMULATIVE_LAYERS,
    MAX_SLOTS,
    SLOT_LAYERS,
    ColumnIndexer,
    SlotCounts,
    SlotOffset,
    SlotRing,
    fill_missing,
    slot_for_reach,
)
from skewscope.engine.model.arrays import (
    F64,
    MAX_VALUE,
    Mask,
    has_all,
    has_any,
    is_same_mask,
    join_equal,
    nan_to_zero,
    pad_to_length,
    sort_unique,
)

MAX_WATCHED_COLUMNS = 1 << 12
"""Of more columns than this, every tick is taken to change some."""
BLOCK_COLUMNS = 1 << 13
"""So many columns are taken in at a time: what is worked with should stay in the cache."""


class SampleWindow:
    """The recent samples of one value of many entities, in the layers that some statistics need."""

    def __init__(
        self,
        tick: float,
        slot: float,
        layers: Collection[str] = (*CUMULATIVE_LAYERS, *SLOT_LAYERS),
        origin: float = np.nan,
        depth: int = MAX_SLOTS,
    ) -> None:
        self.tick = tick
        self.layers = tuple(layers)
        self.ring = SlotRing(tick, slot, sorted({"count", *layers}), origin, depth)
        self.first: F64 = np.empty(0)
        self.sampling = SamplingPeriods(tick)
        self.size = 0
        self.shared: dict[Hashable, F64 | None] = {}  # [column] statistics that several ask for; None: not computed
        self._time: F64 = np.empty(0)
        self._reference: F64 = np.empty(0)
        self._unsampled = np.empty(0, bool)
        """[entity] whether it has never had a sample."""
        self._start_version = 0
        self._latest_first = -np.inf
        """By this time every series with a sample had its first one."""
        self._t = -np.inf
        self._fresh: NDArray[np.bool_] | None = None
        self._newest_time = -np.inf
        """Time of the newest sample of all."""
        self._shared_time: float | None = None
        """Time of the newest sample of every entity in `_shared_mask`; None if their times differ."""
        self._shared_mask: Mask | None = None
        """[entity] whether `_shared_time` is its time; None stands for all."""
        self._is_time_pending = False
        """Whether it is not yet written to the times of each."""
        self._shared_by_all = False
        """Whether these are all entities that ever had a sample."""
        self._full_since = 0
        """From this slot on, all had one sample at each step."""
        self._steady_period: tuple[tuple[int, int], float] = (-1, -1), np.nan
        self._slot_counts: dict[tuple[float, int, int], tuple[int, SlotOffset]] = {}
        """By seconds and columns of a window: (version of the periods by which it was widened, its slots)."""

    @property
    def time(self) -> F64:
        """Of the last sample."""
        if not len(self._time):
            # All that ever had one had the last at one time.
            self._time = np.where(self._unsampled, np.nan, np.nan if self._shared_time is None else self._shared_time)
        elif self._is_time_pending and self._shared_time is not None:
            np.copyto(self._time, self._shared_time, where=True if self._shared_mask is None else self._shared_mask)
        self._is_time_pending = False
        return self._time

    def grow(self, size: int) -> None:
        """Make room for `size` entities."""
        self._time = pad_to_length(self.time, size)
        self.ring.grow(size)
        self.first, self._reference = pad_to_length(self.first, size), pad_to_length(self._reference, size)
        self._unsampled = np.isnan(self.first)
        self.sampling.grow(size)
        self.size = size
        self._full_since = self.ring.current + 1

    def step(self, t: float, value: F64, time: F64 | float) -> None:
        """Take in values that are newer than those before; `time` may be one number for all."""
        if len(value) > self.size:
            self.grow(len(value))
        self.advance(t)
        if not isinstance(time, float):
            self._add_separate(value, time)
        elif time > self._newest_time:
            self._add_simultaneous(value, time)
        elif time != self._newest_time or self._shared_time is None:
            self._add_separate(value, np.full(len(value), time))
        self.ring.initialise_slot()

    def advance(self, t: float) -> None:
        """Move on to the tick that ends at `t` seconds."""
        self._t, self._fresh = t, None
        self.shared = dict.fromkeys(self.shared)
        self.ring.advance(t)

    # --- samples of one time

    def _add_simultaneous(self, value: F64, time: float) -> None:
        sound = None
        if not (value.min(initial=0.0) >= -MAX_VALUE and value.max(initial=0.0) <= MAX_VALUE):
            sound = np.abs(value) <= MAX_VALUE
            if not sound.any():
                return
        self.ring.mark_slots(self.ring.current)
        self.ring.expect_samples()
        self._learn_intervals(sound, time)
        if self._is_time_pending and not is_same_mask(sound, self._shared_mask):
            self._time = self.time
        self._newest_time, self._shared_time, self._shared_mask, self._is_time_pending = time, time, sound, True
        if (self._unsampled if sound is None else self._unsampled & sound).any():
            self._init_first_samples(ALL_COLUMNS if sound is None else sound, value, time)
        self._shared_by_all = sound is None or bool((sound | self._unsampled).all())
        if self._shared_by_all:
            self._time = np.empty(0)
        for begin in range(0, len(value), BLOCK_COLUMNS):
            at = slice(begin, min(begin + BLOCK_COLUMNS, len(value)))
            away = value[at] - self._reference[at]
            if sound is None:
                self.ring.add_samples(value[at], away, None, at)
            else:
                there = sound[at]
                away[~there] = 0.0
                self.ring.add_samples(np.where(there, value[at], np.nan), away, there, at)
        self.ring.finish_slot()
        if sound is not None:
            self._full_since = self.ring.current + 1

    def _learn_intervals(self, sound: Mask | None, time: float) -> None:
        """Learns the intervals, unless they are what they have long been."""
        if (
            self._shared_time is not None
            and is_same_mask(sound, self._shared_mask)
            and time - self._newest_time == self._common_period()
        ):
            return
        at = ALL_COLUMNS if sound is None else np.flatnonzero(sound)
        self.sampling.learn(at, time - self.time[at])

    def _common_period(self) -> float:
        """The period in seconds of all entities with samples, if it is known for good and equal; else NaN."""
        version = self.sampling.version, self._start_version
        if self._steady_period[0] != version:
            self._steady_period = version, self.sampling.common_period(~self._unsampled)
        return self._steady_period[1]

    def _init_first_samples(self, at: ColumnIndexer | Mask, value: F64, time: F64 | float) -> None:
        """Store first samples; `value` is of all entities, `time` of those at `at`."""
        new = np.zeros(self.size, bool)
        new[at] = self._unsampled[at]
        self.first[new] = time if isinstance(time, float) else time[new[at]]
        self._reference[new] = value[new]
        self._unsampled &= ~new
        self._start_version += 1
        self._latest_first = float(np.fmax.reduce(self.first, initial=-np.inf))

    # --- samples of different times

    def _add_separate(self, value: F64, time: F64) -> None:
        self._full_since = self.ring.current + 1
        new = (np.abs(value) <= MAX_VALUE) & ~(time <= self.time) & ~np.isnan(time)
        if has_all(new):
            self._add_samples(ALL_COLUMNS, value, time)
            return
        at = np.flatnonzero(new)
        if len(at):
            self._add_samples(at, value, time[at])

    def _add_samples(self, at: ColumnIndexer, every: F64, time: F64) -> None:
        """Take in samples of the entities `at`; `every` has the values of all entities, `time` those of `at`."""
        self.ring.mark_slots(self.ring.current)
        self.ring.expect_samples()
        self.sampling.learn(at, time - self.time[at])
        if has_any(self._unsampled[at]):
            self._init_first_samples(at, every, time)
        self._time[at], self._shared_time = time, None
        self._newest_time = max(self._newest_time, float(time.max(initial=-np.inf)))
        value = every[at]
        # Squares are of the distance to the first value seen: far from zero they would lose all their digits.
        away = value - self._reference[at]
        for name in self.ring.layers:
            row = self.ring.current_row(name)
            row[at] = _LAYER_UPDATES[name](row[at], away, value)

    def add_late(self, t: float, at: SlotCounts, time: F64, value: F64) -> None:
        """Puts samples that came after later ones of their series into the slots of their time."""
        self._full_since = self.ring.current + 1
        self.shared = dict.fromkeys(self.shared)
        good = (np.abs(value) <= MAX_VALUE) & ~np.isnan(self._reference[at])
        behind = self.ring.slots_behind(t, time)
        good &= behind < min(self.ring.depth - 1, self.ring.current + 1)
        at, behind, value = at[good], behind[good], value[good]
        self.ring.mark_slots(*(self.ring.current - behind).tolist())
        self.ring.expect_samples(int(np.bincount(at).max(initial=0)))
        away = value - self._reference[at]
        # A running sum grows in every slot from the sample's own on.
        sample = np.repeat(np.arange(len(at)), behind + 1)
        back = np.arange(len(sample)) - np.repeat(np.cumsum(behind + 1) - behind - 1, behind + 1)
        rows, columns = (self.ring.current - back) % self.ring.depth, at[sample]
        for name, amount in (("sum", away), ("count", np.ones(len(at), np.uint8)), ("square", away * away)):
            if name in self.ring.layers:
                np.add.at(self.ring.layers[name], (rows, columns), amount[sample])
        own, layers = (self.ring.current - behind) % self.ring.depth, self.ring.layers
        if "low" in layers:
            np.fmin.at(layers["low"], (own, at), value)
        if "high" in layers:
            np.fmax.at(layers["high"], (own, at), value)
        if "last" in layers:
            layers["last"][own, at] = fill_missing(value, layers["last"][own, at])

    def copy_from(self, into: ColumnIndexer, other: "SampleWindow", at: ColumnIndexer) -> None:
        """Copy the samples of some entities from other columns of another window.

        The other window's slots are no longer than these, and count from the same time.
        """
        if other.ring.current < 0:
            return
        ring = other.ring.select(at)
        while ring.slot < self.ring.slot:
            ring.coarsen(ring.slot * ring.depth)
        self.ring.current = ring.current
        self.ring.mark_slots(*ring.filled)
        self.ring.join_counts(ring)
        for name in self.ring.layers.keys() & ring.layers.keys():
            self.ring.layers[name][:, into] = (
                ring.layers[name] if ring.depth == self.ring.depth else self._resize_layer(ring, name)
            )
        self.time[into], self.first[into] = other.time[at], other.first[at]
        self._unsampled = np.isnan(self.first)
        self._start_version += 1
        self._latest_first = float(np.fmax.reduce(self.first, initial=-np.inf))
        self._newest_time = max(self._newest_time, other._newest_time)  # noqa: SLF001
        self._full_since = self.ring.current + 1
        self._reference[into] = other._reference[at]  # noqa: SLF001 - one of its own kind
        self.sampling.copy_from(into, other.sampling, at)
        self._t = other._t  # noqa: SLF001

    def _resize_layer(self, ring: SlotRing, name: str) -> F64:
        """A layer of a ring of another depth, as it would be in this one."""
        old, depth = ring.layers[name], self.ring.depth
        oldest = max(ring.current - min(ring.depth, depth) + 1, 0)
        # What lies before the past that there is reads as empty.
        empty = (
            old[oldest % ring.depth] * float(oldest > 0) if name in CUMULATIVE_LAYERS else np.full(ring.size, np.nan)
        )
        found = np.tile(empty, (depth, 1))
        for k in range(oldest, ring.current + 1):
            found[k % depth] = old[k % ring.depth]
        return found

    def fit_slot(self, at: slice, reach: float) -> float:
        """How long the slots of some entities should be, for windows of `reach` seconds and their usual period."""
        longest = max(reach, MIN_PERIODS * min(self.sampling.p90_period(at), MAX_PERIOD_S))
        return slot_for_reach(self.ring.slot, longest, self.ring.depth)

    # --- windows

    def has_history(self, past: float, at: ColumnIndexer = ALL_COLUMNS) -> NDArray[np.bool_]:
        """Returns [column] whether the first sample is so many seconds old."""
        found: NDArray[np.bool_] = self._t - self.first[at] >= past
        return found

    def slot_counts(self, window: float, at: ColumnIndexer = ALL_COLUMNS) -> SlotOffset:
        """Slots of a window for each entity, or for all where they are the same."""
        if not isinstance(at, slice):
            return self._widened_slot_counts(window, at)
        key, version = (window, at.start or 0, -1 if at.stop is None else at.stop), self.sampling.version
        known, found = self._slot_counts.get(key, (-1, 0))
        if known != version:
            is_wide = MIN_PERIODS * min(self.sampling.longest_period(at), MAX_PERIOD_S) <= window
            found = self.ring.slot_count(window) if is_wide else self._widened_slot_counts(window, at)
            self._slot_counts[key] = version, found
        return found

    def _widened_slot_counts(self, window: float, at: ColumnIndexer) -> SlotOffset:
        """The same, of windows that may be too short for their sampling periods."""
        return join_equal(self.ring.slot_counts(widen_window(window, self.sampling.period[: self.size][at])))

    def fresh_window(
        self, window: float, least: int, at: ColumnIndexer = ALL_COLUMNS
    ) -> tuple[SlotOffset, F64, NDArray[np.bool_]]:
        """Returns (slots of a window, [column] its samples, [column] whether they are recent and enough)."""
        steps = self.slot_counts(window, at)
        count = self._count(steps, None, at)
        enough = count >= least
        if not self._is_all_fresh():
            if self._fresh is None:
                self._fresh = self.sampling.are_fresh(self._t - self.time)
            enough = enough & self._fresh[at]
        if self._t - self._latest_first < window / 2:
            # One period more: the first sample already counts for the time before it.
            since = self._t - self.first[at] + nan_to_zero(self.sampling.period[: self.size][at])
            enough = enough & (since >= window / 2)
        return steps, count, enough

    def next_stale_time(self) -> float:
        """Returns the time in seconds at which a column next becomes stale; now where there are too many to look at."""
        if self.size > MAX_WATCHED_COLUMNS:
            return self._t
        if self._shared_time is not None and self._shared_mask is None and self._is_all_fresh():
            return self._shared_time + self.sampling.shortest_stale_after()
        after = self.sampling.stale_after(slice(0, self.size))
        return float(np.fmin.reduce((self.time + after)[self._t - self.time <= after], initial=np.inf))

    def next_exit_time(self, spans: Iterable[tuple[float, ...]], ripe_after: float) -> float:
        """Returns when a slot next leaves one of `spans`, or a past may be `ripe_after` long, in seconds."""
        if self.size > MAX_WATCHED_COLUMNS or self._t - self._latest_first < ripe_after:
            return self._t
        offsets: set[int] = set()
        for span in spans:
            end: SlotOffset = 0
            for window in span:
                end = end + self.slot_counts(window)
                offsets.update([end] if isinstance(end, int) else sort_unique(end).tolist())
        return self.ring.next_exit(offsets)

    def _is_all_fresh(self) -> bool:
        """Whether the last sample of every entity that ever had one is recent."""
        return (
            self._shared_time is not None
            and self._shared_by_all
            and self._t - self._shared_time <= self.sampling.shortest_stale_after()
        )

    def _count(self, steps: SlotOffset, skip: SlotOffset | None, at: ColumnIndexer) -> F64:
        """Samples of a window; one number if that of all is the same."""
        if isinstance(steps, int) and skip is None and self.ring.current - steps + 1 >= self._full_since:
            at = slice(0, 1)
        return self.ring.window_sum("count", steps, skip, at)

    def mean(
        self,
        steps: SlotOffset,
        skip: SlotOffset | None = None,
        at: ColumnIndexer = ALL_COLUMNS,
        count: F64 | None = None,
    ) -> F64:
        """Mean of a window; NaN where it is empty. Call it with numpy's warnings switched off."""
        if count is None:
            count = self._count(steps, skip, at)
        mean = self.ring.window_sum("sum", steps, skip, at)
        mean /= count
        mean += self._reference[at]
        return mean

    def variance(self, steps: SlotOffset, at: ColumnIndexer = ALL_COLUMNS) -> F64:
        """Variance of a window; NaN where it is empty."""
        count = self.ring.window_sum("count", steps, at=at)
        count = np.where(count > 0.5, count, np.nan)
        mean = self.ring.window_sum("sum", steps, at=at) / count
        return np.maximum(self.ring.window_sum("square", steps, at=at) / count - mean * mean, 0.0)

    def slope(self, steps: SlotOffset, at: ColumnIndexer = ALL_COLUMNS) -> F64:
        """Change per second, least squares over the slots of a window."""
        return column_slope(self.ring.window_slots("last", steps, at), self._reference[at], self.ring.slot)

    def quantile(self, steps: SlotOffset, q: float, at: ColumnIndexer = ALL_COLUMNS) -> F64:
        """A quantile of the last samples of a window's slots, between neighbours by straight line."""
        if not isinstance(at, slice):
            return column_quantile(self.ring.window_slots("last", steps, at), q)
        begin, end, _ = at.indices(self.size)
        found = np.empty(end - begin)
        for first in range(0, end - begin, BLOCK_COLUMNS):
            some = slice(first, min(first + BLOCK_COLUMNS, end - begin))
            own = steps if isinstance(steps, int) else steps[some]
            found[some] = column_quantile(
                self.ring.window_slots("last", own, slice(begin + some.start, begin + some.stop)), q
            )
        return found


_LAYER_UPDATES: Mapping[str, Callable[[F64, F64, F64], F64]] = {
    "sum": lambda row, away, _: row + away,
    "count": lambda row, _, __: row + 1,
    "square": lambda row, away, _: row + away * away,
    "low": lambda row, _, value: np.fmin(row, value),
    "high": lambda row, _, value: np.fmax(row, value),
    "last": lambda _, __, value: value,
}
"""What a slot becomes by a sample, from (slot, distance to the reference, value)."""
