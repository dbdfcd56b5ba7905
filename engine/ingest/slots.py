"""Rings of slots for windows.

The slots of a ring hold what came in a stretch of time, so that a window costs two rows. A ring has at most `MAX_SLOTS`
slots, whatever the window and the period: a slot is as long as a fraction of the window, and becomes longer where
series are sampled more rarely. A window's edge is therefore exact to one slot.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, Index, Mask, has_any, widen

MAX_SLOTS = 40
MAX_KEPT_PLAN_COLUMNS = 1024
"""What happens to rings of so many columns is worked out once and kept."""
WIDE_RING_DEPTHS = (8, 16)
"""Slots of rings with more than `WIDE_RING_COLUMNS` columns: the edges of their longer windows are less exact."""
WIDE_RING_COLUMNS = 1 << 11
"""From 4,096 down to this, a shard of 3,136 nodes takes 54 MB less of 0.85 GB."""
SLOTS_PER_WINDOW = 24
"""A window is cut into about this many slots, where samples are that frequent."""

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
NARROW_COUNTS, WIDE_COUNTS = np.uint8, np.float32
"""Types of the layer of counts; both give the same windows, see `SlotRing.expect_samples`."""
MAX_NARROW_COUNT = 255
MIN_NARROW_COLUMNS = 1 << 10
"""Rings of more columns have narrow counts: of fewer ones the memory does not matter, but the time to widen them."""


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
        self.layers: dict[str, NDArray[Any]] = {
            name: np.empty((depth, 0), WIDE_COUNTS if name == "count" else np.float64) for name in names
        }
        self._sampled: dict[int, int] = {}
        """The most samples of a column in each slot that the ring reaches, and in some before these."""
        self._room = MAX_NARROW_COUNT
        """How many more they may be."""

    def grow(self, size: int) -> None:
        """Make room for `size` columns."""
        if size > self.size:
            self.initialise_slot()
            if "count" in self.layers and not self.size and size > MIN_NARROW_COLUMNS:
                self.layers["count"] = np.empty((self.depth, 0), NARROW_COUNTS)
            self.layers = {
                name: widen(layer, size, 0 if name in CUMULATIVE_LAYERS else np.nan)
                for name, layer in self.layers.items()
            }
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

    def select(self, columns: ColumnIndexer) -> "SlotRing":
        """Returns a ring with copies of some columns; it has yet to be told which slots are filled."""
        self.initialise_slot()
        found = SlotRing(self.tick, self.slot, self.layers, self.origin, self.depth)
        found.layers = {name: layer[:, columns].copy() for name, layer in self.layers.items()}
        found.current, found.size = self.current, len(np.arange(self.size)[columns])
        found._sampled, found._room = {**self._sampled}, self._room
        return found

    def expect_samples(self, most: int = 1) -> None:
        """Makes sure that counts hold `most` more samples of each column.

        Counts of one byte run on modulo 256, so that windows of at most 255 samples are exact. Where a ring may have
        more of them, it gets wide counts for good.
        """
        if "count" not in self.layers or self.layers["count"].dtype != NARROW_COUNTS:
            return
        if self._room < most:
            self._sampled = {slot: n for slot, n in self._sampled.items() if slot > self.current - self.depth}
            self._room = MAX_NARROW_COUNT - sum(self._sampled.values())
            if self._room < most:
                self._widen_counts()
                return
        self._sampled[self.current] = self._sampled.get(self.current, 0) + most
        self._room -= most

    def join_counts(self, other: "SlotRing") -> None:
        """Has this ring and another one, whose slots are the same, count alike, so that columns can be copied."""
        if "count" not in self.layers or "count" not in other.layers:
            return
        if self.layers["count"].dtype == NARROW_COUNTS:
            other._narrow_counts()  # noqa: SLF001 - one of its own kind
        mine, others = self._sampled, other._sampled  # noqa: SLF001 - as above
        both = {slot: max(mine.get(slot, 0), others.get(slot, 0)) for slot in mine.keys() | others.keys()}
        room = MAX_NARROW_COUNT - sum(both.values())
        if room < 0 or self.layers["count"].dtype != other.layers["count"].dtype:
            self._widen_counts()
            other._widen_counts()  # noqa: SLF001 - as above
        self._sampled, self._room = both, room

    def _narrow_counts(self) -> None:
        """Counts from the oldest slot on in one byte, if that is enough."""
        layer = self.layers["count"]
        if layer.dtype == NARROW_COUNTS:
            return
        since = layer - layer[(self.current + 1) % self.depth]
        most = int(since.max(initial=0.0))
        # Where slots are not filled yet, they may hold less than the oldest one that is.
        if since.min(initial=0.0) >= 0 and most <= MAX_NARROW_COUNT:
            self.layers["count"] = since.astype(NARROW_COUNTS)
            self._sampled, self._room = {self.current: most}, MAX_NARROW_COUNT - most

    def _widen_counts(self) -> None:
        """Counts from the oldest slot on in wide numbers."""
        self.initialise_slot()
        layer = self.layers["count"]
        if layer.dtype == NARROW_COUNTS:
            self.layers["count"] = (layer - layer[(self.current + 1) % self.depth]).astype(WIDE_COUNTS)
        self._sampled = {}

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
        plan = _kept_plan if self.size <= MAX_KEPT_PLAN_COLUMNS else _plan_empty_slots
        places, parts, new = plan(first % self.depth, last + 1 - first, self.depth, self.size)
        for name in self._cumulative_layers:
            layer = self.layers[name]
            base, begin = layer.take(places), 0
            for part in parts:
                width = part.stop - part.start
                layer[:, part] -= base[begin : begin + width]
                begin += width
        for name in (*self._cumulative_layers, *self._carried_layers):
            for some in new:
                self.layers[name][some] = self.layers[name][(first - 1) % self.depth]
        for name in self._slot_layers:
            for some in new:
                self.layers[name][some] = np.nan
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
        return _turn_columns(k % self.depth, self.depth, self.size)

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
                by = away if name == "sum" else away * away if name == "square" else 1 if sound is None else sound
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
        if self._is_uninitialised:
            self.initialise_slot()
        found: F64 = self.layers[name][self.current % self.depth]
        return found

    def look_back(self, name: str, steps: SlotOffset, at: ColumnIndexer = ALL_COLUMNS) -> F64:
        """Returns [column] what a layer held so many slots ago."""
        if self._is_uninitialised:
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
            found = self.current_row(name)[at] - self.look_back(name, steps, at)
        else:
            found = self.look_back(name, skip, at) - self.look_back(name, steps + skip, at)
        return found.astype(WIDE_COUNTS, copy=False) if name == "count" else found

    def window_slots(self, name: str, steps: SlotOffset, at: ColumnIndexer = ALL_COLUMNS) -> F64:
        """[slots, n] a plain layer, read-only, oldest first; NaN where a slot lies before the column's window."""
        self.initialise_slot()
        longest = steps if isinstance(steps, int) else int(steps.max(initial=1))
        deepest = min(longest, self.current + 1, self.depth)
        found = self._newest_slots(self.layers[name], deepest, at)
        if not isinstance(steps, int) and has_any(steps < deepest):
            found = np.where(np.arange(deepest)[::-1, None] >= steps[None, :], np.nan, found)
        return found

    def _newest_slots(self, layer: F64, count: int, at: ColumnIndexer) -> F64:
        """Returns [slots, n] the newest rows of a layer, oldest first; a view where they lie one after another."""
        first = (self.current - count + 1) % self.depth
        if not isinstance(at, slice):
            return layer[((first + np.arange(count)) % self.depth)[:, None], at]
        if first + count <= self.depth:
            return layer[first : first + count, at]
        return np.concatenate((layer[first:, at], layer[: first + count - self.depth, at]))

    def slot_counts(self, window: F64) -> SlotCounts:
        """Returns [column] how many slots windows of so many seconds have; see `widen_window`."""
        slots = np.ceil(window / self.slot - 1e-6)
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
        self._sampled = {self.current // 2: sum(self._sampled.values())}
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


def _plan_empty_slots(first: int, count: int, depth: int, size: int) -> tuple[Index, Sequence[slice], Sequence[slice]]:
    """Returns what opening `count` empty slots from the row `first` on does to a ring of `size` columns.

    That is where in its memory is what is taken off, the ranges of these columns, and the ranges of the rows that open.
    """
    turns = [_turn_columns((first + n) % depth, depth, size) for n in range(count)]
    parts = [slice(turns[0].start, turns[-1].stop)]
    if parts[0].stop < parts[0].start or first + count > depth:
        parts = [slice(turns[0].start, size), slice(0, turns[-1].stop)]
    rows = np.repeat((first + np.arange(1, count + 1)) % depth, [turn.stop - turn.start for turn in turns])
    columns = np.concatenate([np.arange(turn.start, turn.stop) for turn in turns])
    end = first + count
    opened = [slice(first, end)] if end <= depth else [slice(first, depth), slice(0, end - depth)]
    return rows * size + columns, parts, opened


_kept_plan = lru_cache(maxsize=1024)(_plan_empty_slots)


def _turn_columns(row: int, depth: int, size: int) -> slice:
    """Returns the columns that are rebased as the slot in a row becomes current."""
    return slice(size * row // depth, size * (row + 1) // depth)


def fill_missing(a: F64, b: F64) -> F64:
    found: F64 = np.where(np.isnan(b), a, b)
    return found


def _broadcast_first_column(layer: F64) -> F64:
    """What a layer would hold if all columns held what the first one does."""
    return np.broadcast_to(layer[:, :1], layer.shape)


_MERGE_FUNCTIONS: Mapping[str, MergeFunction] = {"low": np.fmin, "high": np.fmax, "last": fill_missing}
