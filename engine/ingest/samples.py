"""Samples and their times: batches in order, learned sampling periods, and rings of slots for windows.

Frames bring whole columns at one time. Where that time is known, the times of single samples are not read.

The slots of a ring hold what came in a stretch of time, so that a window costs two rows. A ring has at most `MAX_SLOTS`
slots, whatever the window and the period: a slot is as long as a fraction of the window, and becomes longer where
series are sampled more rarely. A window's edge is therefore exact to one slot.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, Index, Mask

# --- batches of samples


@dataclass(frozen=True, slots=True)
class SortedSamples:
    """Samples of series, ordered by series and then time; `first` and `last` mark a series' own."""

    series: Index
    time: F64
    value: F64
    first: NDArray[np.bool_]
    last: NDArray[np.bool_]
    is_unique: bool
    """Whether no series has more than one."""

    def select(self, mask: NDArray[np.bool_]) -> "SortedSamples":
        """Some of them."""
        if mask.all():
            return self
        at = np.flatnonzero(mask)
        if self.is_unique:
            return build_unique_batch(self.series[at], self.time[at], self.value[at])
        return build_sorted_batch(self.series[at], self.time[at], self.value[at])


def build_sorted_batch(series: Index, time: F64, value: F64) -> SortedSamples:
    """Samples ordered by series and time."""
    first, last = np.ones(len(series), bool), np.ones(len(series), bool)
    first[1:] = last[:-1] = series[1:] != series[:-1]
    return SortedSamples(series, time, value, first, last, is_unique=False)


def build_unique_batch(series: Index, time: F64, value: F64) -> SortedSamples:
    """Samples of which no two are of one series."""
    every = np.ones(len(series), bool)
    return SortedSamples(series, time, value, every, every, is_unique=True)


# --- common timestamps


@dataclass(frozen=True, slots=True)
class CommonTimestamp:
    """The one time of the newest samples of many entities; an entity without one at that time has no value now."""

    time: float
    is_complete: bool = True
    """Whether all that ever bring samples brought one."""


CONSTANT_TIMESTAMP = CommonTimestamp(-np.inf)
"""Of what is always the same."""


def constant_array(value: float, *shape: int) -> F64:
    """Returns [shape] the same number everywhere, read-only, in the memory of one number."""
    return np.ndarray(shape, np.float64, np.array([value]), strides=(0,) * len(shape))


def is_constant_array(values: F64) -> bool:
    """Whether an array is one made by `constant_array`."""
    return len(values) > 0 and values.strides == (0,)


def merge_timestamps(moments: Iterable[CommonTimestamp | None]) -> CommonTimestamp | None:
    """The common timestamp of values that depend on all of these; None if their times differ."""
    found = CONSTANT_TIMESTAMP
    for moment in moments:
        if moment is None or (moment.time != found.time and CONSTANT_TIMESTAMP.time not in (moment.time, found.time)):
            return None
        found = CommonTimestamp(max(found.time, moment.time), found.is_complete and moment.is_complete)
    return found


def merge_complete_timestamps(parts: Iterable[CommonTimestamp | None]) -> CommonTimestamp | None:
    """The same, for values that outlast a missing sample: None unless every entity has a new one."""
    found = merge_timestamps(parts)
    return found if found is not None and found.is_complete else None


class TimedColumn(Protocol):
    """A column of a frame: series that are delivered together."""

    @property
    def time(self) -> float:
        """Seconds: of its newest samples; NaN before the first."""

    @property
    def is_complete(self) -> bool:
        """Whether the newest delivery had a valid value for every series."""


def common_timestamp_of(columns: Sequence[TimedColumn]) -> CommonTimestamp | None:
    """The one time at which all columns were last delivered; None if there are several, or no columns."""
    if not columns or any(column.time != columns[0].time for column in columns):
        return None
    return CommonTimestamp(columns[0].time, all(column.is_complete for column in columns))


# --- sampling periods

WARM_UP_INTERVALS = 5
"""So many intervals are collected before their median is trusted to change only slowly."""
MIN_INTERVALS = 3
"""Slots are fitted to a period of at least so many intervals: a single long interval is an outage."""
LEARNING_RATE = 0.1
"""How much of a new interval, on a logarithmic scale, is believed after that."""
STALE_PERIODS = 3.0
"""A value is stale after so many periods, and no sooner than after so many ticks."""
MAX_PERIOD_S = 60.0
"""Longest period that widens a window, and longest time that a series seen only once stays fresh, half of it."""


def pad_to_length(array: F64, size: int) -> F64:
    """The array with its last axis made `size` long, filled with NaN."""
    if array.shape[-1] >= size:
        return array
    out = np.full((*array.shape[:-1], size), np.nan, array.dtype)
    out[..., : array.shape[-1]] = array
    return out


MAX_SERIES_SCANNED = 4096
"""The usual period is taken from a regular selection of at most about this many series."""


@dataclass
class SamplingPeriods:
    """Sampling periods of many series, in seconds; NaN where fewer than two samples came."""

    tick: float
    period: F64 = field(default_factory=lambda: np.empty(0))
    stale_after: F64 = field(default_factory=lambda: np.empty(0))
    """Age at which a value is stale."""
    version: int = 0
    """Grows when a period changes."""
    _first_intervals: F64 = field(default_factory=lambda: np.empty((WARM_UP_INTERVALS, 0)))
    _extremes: dict[tuple[int, int], tuple[int, float]] = field(default_factory=dict)

    def grow(self, size: int) -> None:
        """Make room for `size` series."""
        old = len(self.stale_after)
        for name in ("period", "_first_intervals", "stale_after"):
            setattr(self, name, pad_to_length(getattr(self, name), size))
        self.stale_after[old:] = max(MAX_PERIOD_S / 2, STALE_PERIODS * self.tick)
        self.version += 1

    def copy_from(self, into: Index | slice, other: "SamplingPeriods", at: Index | slice) -> None:
        """Copy the periods of some series from another table."""
        self.period[into], self.stale_after[into] = other.period[at], other.stale_after[at]
        self._first_intervals[:, into] = other._first_intervals[:, at]  # noqa: SLF001 - one of its own kind
        self.version += 1

    def broadcast_from(self, into: slice, other: "SamplingPeriods") -> None:
        """Give many series the period of the only series of another table."""
        self.period[into], self.stale_after[into] = other.period[0], other.stale_after[0]
        self._first_intervals[:, into] = other._first_intervals[:, :1]  # noqa: SLF001 - one of its own kind
        self.version += 1

    def p90_period(self, at: Index | slice = slice(None)) -> float:
        """The period that nine of ten series do not exceed, of those that rest on more than chance; 0 without any."""
        if isinstance(at, slice):
            begin, end, _ = at.indices(len(self.period))
            some = np.arange(begin, end, max(1, (end - begin) // MAX_SERIES_SCANNED))
        else:
            some = at[:: max(1, len(at) // MAX_SERIES_SCANNED)]
        known = self.period[some[~np.isnan(self._first_intervals[MIN_INTERVALS - 1, some])]]
        place = len(known) * 9 // 10
        return float(np.partition(known, place)[place]) if len(known) else 0.0

    def common_period(self, who: Mask) -> float:
        """The period of some series, if it is the same and known for good; else NaN."""
        period, last = self.period[who], self._first_intervals[WARM_UP_INTERVALS - 1, who]
        same = len(period) and (period == period[0]).all() and not np.isnan(last).any()
        return float(period[0]) if same else np.nan

    def longest_period(self, at: slice) -> float:
        """The longest of some periods; 0 where none is known."""
        key = at.start or 0, -1 if at.stop is None else at.stop
        return self._extreme(key, lambda: float(np.fmax.reduce(self.period[at], initial=0.0)))

    def shortest_stale_after(self) -> float:
        """The shortest horizon."""
        return self._extreme((-2, -2), lambda: float(self.stale_after.min(initial=np.inf)))

    def _extreme(self, key: tuple[int, int], compute: Callable[[], float]) -> float:
        version, found = self._extremes.get(key, (-1, 0.0))
        if version != self.version:
            self._extremes[key] = self.version, (found := compute())
        return found

    def learn(self, at: Index | slice, interval: F64) -> None:
        """Learn one interval in seconds of each of the series `at`; NaN, zero and negative ones are ignored."""
        known = self.period[at]
        # A steady period has nothing to teach, once it has been seen for long enough.
        new = (interval > 0) & ((interval != known) | np.isnan(self._first_intervals[WARM_UP_INTERVALS - 1, at]))
        if not np.count_nonzero(new):
            return
        self.version += 1
        some: Index = np.flatnonzero(new) if isinstance(at, slice) else at[new]
        interval = interval[new]
        young = np.isnan(self._first_intervals[WARM_UP_INTERVALS - 1, some])
        if np.count_nonzero(young):
            self._collect(some[young], interval[young])
        old = ~young
        if np.count_nonzero(old):
            some, interval = some[old], interval[old]
            known = self.period[some]
            known *= np.clip(interval / known, 0.5, 2.0) ** LEARNING_RATE
            self._set(some, known)

    def _collect(self, at: Index, interval: F64) -> None:
        count = (~np.isnan(self._first_intervals[:, at])).sum(axis=0)
        self._first_intervals[count, at] = interval
        ordered = np.sort(self._first_intervals[:, at], axis=0)
        self._set(at, np.take_along_axis(ordered, (count // 2)[None, :], axis=0)[0])

    def _set(self, at: Index, period: F64) -> None:
        self.period[at] = period
        self.stale_after[at] = STALE_PERIODS * np.maximum(period, self.tick)


# --- values of several expressions side by side

MAX_COLUMNS = 1 << 16
"""Columns that are processed together, unless one expression has more: they should fit into the cache."""

Sampler = Callable[[Sequence[int]], tuple[F64, F64 | float]]
"""Returns this tick's values of some expressions side by side, and their times: one number if all are equal."""

Item = TypeVar("Item")


def split_by_width(items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yields the items in order, in lists of at most `MAX_COLUMNS` columns, unless one item alone has more."""
    part: list[Item] = []
    width = 0
    for item in items:
        if part and width + size(item) > MAX_COLUMNS:
            yield part
            part, width = [], 0
        part.append(item)
        width += size(item)
    if part:
        yield part


MAX_SLOTS = 40
WIDE_RING_DEPTHS = (8, 16)
"""Slots of rings with more than `WIDE_RING_COLUMNS` columns: the edges of their longer windows are less exact."""
WIDE_RING_COLUMNS = 1 << 12
SLOTS_PER_WINDOW = 24
"""A window is cut into about this many slots, where samples are that frequent."""
MIN_PERIODS = 3.0
"""A window is never shorter than so many sampling periods."""

FIT_STEPS = 16
"""Slots are fitted to the periods at each of the first so many steps with samples, then once in so many of them."""
EDGE_S = 1e-3
"""Seconds before the time at which something changes by itself from which on a tick counts as reaching it."""

SlotCounts = NDArray[np.intp]
SlotOffset = SlotCounts | int
"""How many slots, for each column or for all."""
ColumnIndexer = slice | SlotCounts
"""Some columns."""
ALL_COLUMNS = slice(None)
MergeFunction = Callable[..., F64]

CUMULATIVE_LAYERS = ("sum", "count", "square")
SLOT_LAYERS = ("low", "high", "last")


def slot_for_window(window: float, tick: float) -> float:
    """Length of the slots in which a window is kept: the tick, doubled until the window has few enough."""
    doublings = max(0, int(np.ceil(np.log2(window / tick / SLOTS_PER_WINDOW)))) if window > tick else 0
    return tick * 2.0**doublings


def depth_for(columns: int, reach: float, slot: float) -> int:
    """The number of slots kept for so many columns, for windows of `reach` seconds."""
    if columns <= WIDE_RING_COLUMNS:
        return MAX_SLOTS
    return next((depth for depth in WIDE_RING_DEPTHS if reach <= slot * (depth - 2)), WIDE_RING_DEPTHS[-1])


def slot_for_reach(slot: float, longest: float, depth: int = MAX_SLOTS) -> float:
    """Returns the slot in seconds, doubled until so many slots reach `longest` seconds back."""
    while longest > slot * (depth - 2):
        slot *= 2
    return slot


class SlotRing:
    """The last slots of several layers, each [slots, n].

    Running layers are sums since the beginning: a window is a difference. Carried layers hold what was true at the end
    of a slot. The layers low, high and last hold a slot's own samples.
    """

    def __init__(
        self, tick: float, slot: float, layers: Iterable[str], origin: float = np.nan, depth: int = MAX_SLOTS
    ) -> None:
        self.tick = tick
        self.slot = slot
        self.depth = depth
        """How many slots there are."""
        self.current = -1
        """Number of the current slot since the first sample; -1 before it."""
        self.size = 0
        self.origin = origin
        self.filled: list[int] = []
        """The slots in which a sample came, ascending, as far back as the ring reaches and further."""
        self._is_uninitialised = False
        """Whether the current slot still holds what was there a round ago."""
        names = tuple(layers)
        self._cumulative_layers = tuple(name for name in names if name in CUMULATIVE_LAYERS)
        self._carried_layers = tuple(name for name in names if name not in (*CUMULATIVE_LAYERS, *SLOT_LAYERS))
        self._slot_layers = tuple(name for name in names if name in SLOT_LAYERS)
        self.layers: dict[str, F64] = {
            # Counts are small whole numbers.
            name: np.empty((depth, 0), np.float32 if name == "count" else np.float64)
            for name in names
        }

    def grow(self, size: int) -> None:
        """Make room for `size` columns."""
        if size > self.size:
            self.initialise_slot()
            self.layers = {name: pad_to_length(layer, size) for name, layer in self.layers.items()}
            for name in self._cumulative_layers:
                self.layers[name][:, self.size :] = 0.0
            self.size = size

    def widen(self, size: int) -> None:
        """Repeat the only column `size` times."""
        self.initialise_slot()
        self.layers = {name: np.repeat(layer, size, axis=1) for name, layer in self.layers.items()}
        self.size = size

    def narrow(self) -> bool:
        """Leaves one column of many, if all hold the same; whether they did."""
        self.initialise_slot()
        same = all(
            np.array_equal(layer, _broadcast_first_column(layer), equal_nan=True) for layer in self.layers.values()
        )
        if same:
            self.layers = {name: layer[:, :1].copy() for name, layer in self.layers.items()}
            self.size = 1
        return same

    def advance(self, t: float) -> None:
        """Make the slot of time `t` (seconds) the current one."""
        if np.isnan(self.origin):
            self.origin = t
        then, now = self.current, max(self.current, int((t - self.origin) / self.slot + 1e-6), 0)
        first = then + 1 if then >= 0 else max(0, now - self.depth + 1)
        if then >= 0 and now - then > 2 * self.depth:
            first = self._shorten_gap(now - 2 * self.depth)
        while then >= 0 and first < now:
            last = min(now - 1, first + self.depth - 3)
            self._open_empty(first, last)
            first = last + 1
        for k in range(first, now + 1):
            self.initialise_slot()
            self.current = k
            self._rebase(k)
            self._is_uninitialised = True
        self.current = now

    def _open_empty(self, first: int, last: int) -> None:
        """Makes slots current one after another, fewer than there are, all of which stay empty."""
        self.initialise_slot()
        slots, new = range(first, last + 1), [k % self.depth for k in range(first, last + 1)]
        turns = [self._turn(k) for k in slots]
        parts = [slice(turns[0].start, turns[-1].stop)]
        if parts[0].stop < parts[0].start or new[0] > new[-1]:
            parts = [slice(turns[0].start, self.size), slice(0, turns[-1].stop)]
        for name in self._cumulative_layers:
            layer = self.layers[name]
            base = np.concatenate([layer[(k + 1) % self.depth, turn] for k, turn in zip(slots, turns, strict=True)])
            begin = 0
            for part in parts:
                width = part.stop - part.start
                layer[:, part] -= base[begin : begin + width]
                begin += width
        for name in (*self._cumulative_layers, *self._carried_layers):
            self.layers[name][new] = self.layers[name][(first - 1) % self.depth]
        for name in self._slot_layers:
            self.layers[name][new] = np.nan
        self.current = last

    def _shorten_gap(self, k: int) -> int:
        """Makes `k` the current slot, with what the current one holds; returns the slot after it.

        After two rounds of empty slots nothing depends on how many more there were.
        """
        self.initialise_slot()
        for layer in self.layers.values():
            layer[k % self.depth] = layer[self.current % self.depth]
        self.current = k
        return k + 1

    def _rebase(self, k: int) -> None:
        # What all rows share is taken off, or a sum would lose its last digits in the course of months. Every column
        # has its turn once in a round of slots: all at one tick would make that tick a long one.
        turn = self._turn(k)
        for name in self._cumulative_layers:
            self.layers[name][:, turn] -= self.layers[name][(k + 1) % self.depth, turn].copy()

    def _turn(self, k: int) -> slice:
        """Returns the columns that are rebased as slot `k` becomes current."""
        new = k % self.depth
        return slice(self.size * new // self.depth, self.size * (new + 1) // self.depth)

    def initialise_slot(self) -> None:
        """Fill a new slot with what it holds before its first sample."""
        if not self._is_uninitialised:
            return
        self._is_uninitialised = False
        new, old = self.current % self.depth, (self.current - 1) % self.depth
        for name in (*self._cumulative_layers, *self._carried_layers):
            self.layers[name][new] = self.layers[name][old]
        for name in self._slot_layers:
            self.layers[name][new] = np.nan

    def replace(self, name: str, row: F64 | float) -> None:
        """Writes the current slot of the only layer."""
        self._is_uninitialised = False
        self.layers[name][self.current % self.depth] = row

    def add_samples(self, value: F64, away: F64, sound: Mask | None, at: slice) -> None:
        """Takes in one sample of each of some columns; `sound` tells who has one, None that all have.

        Where there is none, `value` is NaN and `away`, which runs up the sums, is zero. `taken` must follow.
        """
        new, old = (
            self.current % self.depth,
            (self.current - 1) % self.depth if self._is_uninitialised else self.current % self.depth,
        )
        for name, layer in self.layers.items():
            row, before = layer[new, at], layer[old, at]
            if name in CUMULATIVE_LAYERS:
                by = away if name == "sum" else away * away if name == "square" else 1.0 if sound is None else sound
                np.add(before, by, out=row)
            elif self._is_uninitialised:
                row[:] = value
            elif name == "last":
                np.copyto(row, value, where=True if sound is None else sound)
            else:
                _MERGE_FUNCTIONS[name](row, value, out=row)

    def finish_slot(self) -> None:
        """End the samples of one time."""
        self._is_uninitialised = False

    def slots_behind(self, t: float, time: F64) -> SlotCounts:
        """How many slots before that of the tick `t` the slots of earlier samples are."""
        ends = t - self.tick * np.floor((t - time) / self.tick + 1e-6)
        found: SlotCounts = self.current - ((ends - self.origin) / self.slot + 1e-6).astype(np.intp)
        return np.maximum(found, 0)

    def current_row(self, name: str) -> F64:
        """The current slot of a layer, to write to."""
        self.initialise_slot()
        found: F64 = self.layers[name][self.current % self.depth]
        return found

    def look_back(self, name: str, steps: SlotOffset, at: ColumnIndexer = ALL_COLUMNS) -> F64:
        """Returns [column] what a layer held so many slots ago."""
        self.initialise_slot()
        layer, most = self.layers[name], min(self.current + 1, self.depth - 1)
        if isinstance(steps, int):
            row: F64 = layer[(self.current - min(steps, most)) % self.depth][at]
            return row
        columns = np.arange(self.size)[at] if isinstance(at, slice) else at
        found: F64 = layer[(self.current - np.minimum(steps, most)) % self.depth, columns]
        return found

    def window_sum(
        self, name: str, steps: SlotOffset, skip: SlotOffset | None = None, at: ColumnIndexer = ALL_COLUMNS
    ) -> F64:
        """Sum of a running layer over `steps` slots, the last ones or those before the last `skip`."""
        if skip is None:
            return self.current_row(name)[at] - self.look_back(name, steps, at)
        return self.look_back(name, skip, at) - self.look_back(name, steps + skip, at)

    def window_slots(self, name: str, steps: SlotOffset, at: ColumnIndexer = ALL_COLUMNS) -> F64:
        """[slots, n] a plain layer, oldest first; NaN where a slot lies before the column's window."""
        self.initialise_slot()
        longest = steps if isinstance(steps, int) else int(steps.max(initial=1))
        deepest = min(longest, self.current + 1, self.depth)
        rows = (self.current - np.arange(deepest)[::-1]) % self.depth
        found = self.layers[name][rows, at] if isinstance(at, slice) else self.layers[name][rows[:, None], at]
        if not isinstance(steps, int) and np.count_nonzero(steps < deepest):
            found[np.arange(deepest)[::-1, None] >= steps[None, :]] = np.nan
        return found

    def slot_counts(self, window: float, period: F64) -> SlotCounts:
        """How many slots a window has for each column, widened to a few of its periods."""
        slots = np.ceil(widen_window(window, period) / self.slot - 1e-6)
        return np.clip(slots, self._min_slots, self.depth - 1).astype(np.intp)

    def slot_count(self, window: float) -> int:
        """How many slots a window has that needs not be widened."""
        return min(max(math.ceil(window / self.slot - 1e-6), self._min_slots), self.depth - 1)

    @property
    def _min_slots(self) -> int:
        # A slot longer than a tick is mostly not yet full: one alone would see too little.
        return 2 if self.slot > self.tick else 1

    def mark_slots(self, *slots: int) -> None:
        """Notes that samples came in some slots."""
        if len(slots) == 1 and (not self.filled or self.filled[-1] < slots[0]):
            self.filled.append(slots[0])
        elif not set(slots).issubset(self.filled[-len(slots) :]):
            self.filled = sorted({*self.filled, *slots})
        if len(self.filled) > 2 * self.depth:
            del self.filled[: -self.depth]

    def next_exit(self, offsets: Iterable[int]) -> float:
        """Returns when, in seconds, a filled slot next leaves a window of so many slots; inf if none will."""
        found = np.inf
        for offset in offsets:
            steps = min(offset, self.depth - 1)
            at = bisect_right(self.filled, self.current - steps)
            if at < len(self.filled):
                found = min(found, self.filled[at] + steps)
        return self.origin + found * self.slot

    def coarsen(self, longest: float) -> None:
        """Doubles the slots until the ring reaches `longest` seconds back."""
        while longest > self.slot * (self.depth - 2):
            self._double_slots()
            self.filled = [*range(max(0, self.current - self.depth), self.current + 1)]

    def _double_slots(self) -> None:
        self.initialise_slot()
        then, self.current, self.slot = self.current, self.current // 2 if self.current >= 0 else -1, self.slot * 2
        if then < 0:
            return
        oldest = max(then - self.depth + 1, 0)
        old = {name: layer.copy() for name, layer in self.layers.items()}
        for k in range(max(self.current - self.depth + 1, 0), self.current + 1):
            first, last = max(2 * k, oldest), min(max(2 * k + 1, oldest), then)
            for name, layer in self.layers.items():
                merge = _MERGE_FUNCTIONS.get(name)
                pair = old[name][first % self.depth], old[name][last % self.depth]
                layer[k % self.depth] = merge(*pair) if merge and 2 * k + 1 >= oldest else pair[1]
        # What lies before the ring's past reads as empty: no more sums than at its oldest slot, no values.
        for name, layer in self.layers.items():
            layer[self.current + 1 :] = (
                old[name][oldest % self.depth] * float(oldest > 0) if name in self._cumulative_layers else np.nan
            )


def widen_window(window: float, period: F64) -> F64:
    """The window, no shorter than a few periods."""
    return np.fmax(window, MIN_PERIODS * np.minimum(period, MAX_PERIOD_S))


def fill_missing(a: F64, b: F64) -> F64:
    found: F64 = np.where(np.isnan(b), a, b)
    return found


def _broadcast_first_column(layer: F64) -> F64:
    """What a layer would hold if all columns held what the first one does."""
    return np.broadcast_to(layer[:, :1], layer.shape)


_MERGE_FUNCTIONS: Mapping[str, MergeFunction] = {"low": np.fmin, "high": np.fmax, "last": fill_missing}
