"""Rings whose slots hold what came in a stretch of time, so that a window costs two rows.

A ring has at most `SLOTS` slots, whatever the window and the period: a slot is as long as a fraction of the window, and
becomes longer where series are sampled more rarely. A window's edge is therefore exact to one slot.
"""

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.rhythm import LONGEST, longer
from skewscope.engine.sets import F64, Mask

SLOTS = 40
LEAN = (8, 16)
"""So few slots are kept of what has more than `WIDE` columns: the edges of its longer windows are less exact."""
WIDE = 1 << 12
PER_WINDOW = 24
"""A window is cut into about this many slots, where samples are that frequent."""
FEW = 3.0
"""A window is never shorter than so many periods."""

SOON = 16
"""Slots are fitted to the periods at each of the first steps, and then once in so many."""

Steps = NDArray[np.intp]
Back = Steps | int
"""How many slots, for each column or for all."""
At = slice | Steps
"""Some columns."""
ALL = slice(None)
Merge = Callable[..., F64]

RUNNING = ("sum", "count", "square")
PLAIN = ("low", "high", "last")


def slot_of(window: float, tick: float) -> float:
    """Length of the slots in which a window is kept: the tick, doubled until the window has few enough."""
    doublings = max(0, int(np.ceil(np.log2(window / tick / PER_WINDOW)))) if window > tick else 0
    return tick * 2.0**doublings


def depth_for(columns: int, reach: float, slot: float) -> int:
    """How many slots are kept of so many columns, for windows of `reach` seconds."""
    if columns <= WIDE:
        return SLOTS
    return next((depth for depth in LEAN if reach <= slot * (depth - 2)), LEAN[-1])


def slot_for(slot: float, longest: float, depth: int = SLOTS) -> float:
    """The slots doubled until a ring of so many of them reaches `longest` seconds back."""
    while longest > slot * (depth - 2):
        slot *= 2
    return slot


class Ring:
    """The last slots of several layers, each [slots, n].

    Running layers are sums since the beginning: a window is a difference. Carried layers hold what was true at the end
    of a slot. The layers low, high and last hold a slot's own samples.
    """

    def __init__(
        self, tick: float, slot: float, layers: Iterable[str], origin: float = np.nan, depth: int = SLOTS
    ) -> None:
        self.tick = tick
        self.slot = slot
        self.depth = depth
        """How many slots there are."""
        self.now = -1
        """Number of the current slot since the first sample; -1 before it."""
        self.size = 0
        self.origin = origin
        self._new = False
        """Whether the current slot still holds what was there a round ago."""
        names = tuple(layers)
        self._running = tuple(name for name in names if name in RUNNING)
        self._carried = tuple(name for name in names if name not in (*RUNNING, *PLAIN))
        self._plain = tuple(name for name in names if name in PLAIN)
        self.layers: dict[str, F64] = {
            # Counts are small whole numbers.
            name: np.empty((depth, 0), np.float32 if name == "count" else np.float64)
            for name in names
        }

    def grow(self, size: int) -> None:
        """Makes room for `size` columns."""
        if size > self.size:
            self.settle()
            self.layers = {name: longer(layer, size) for name, layer in self.layers.items()}
            for name in self._running:
                self.layers[name][:, self.size :] = 0.0
            self.size = size

    def widen(self, size: int) -> None:
        """Gives so many columns what the only one there is holds."""
        self.settle()
        self.layers = {name: np.repeat(layer, size, axis=1) for name, layer in self.layers.items()}
        self.size = size

    def narrow(self) -> bool:
        """Leaves one column of many, if all hold the same; whether they did."""
        self.settle()
        same = all(np.array_equal(layer, _same(layer), equal_nan=True) for layer in self.layers.values())
        if same:
            self.layers = {name: layer[:, :1].copy() for name, layer in self.layers.items()}
            self.size = 1
        return same

    def advance(self, t: float) -> None:
        """Makes the slot of time `t` the current one."""
        if np.isnan(self.origin):
            self.origin = t
        then, now = self.now, max(self.now, int((t - self.origin) / self.slot + 1e-6), 0)
        for k in range(max(then + 1, now - self.depth + 1), now + 1):
            self.settle()
            self.now = k
            self._turn(k)
            self._new = True
        self.now = now

    def _turn(self, k: int) -> None:
        # What all rows share is taken off, or a sum would lose its last digits in the course of months. Every column
        # has its turn once in a round of slots: all at one tick would make that tick a long one.
        new = k % self.depth
        turn = slice(self.size * new // self.depth, self.size * (new + 1) // self.depth)
        for name in self._running:
            self.layers[name][:, turn] -= self.layers[name][(k + 1) % self.depth, turn].copy()

    def settle(self) -> None:
        """Makes a new slot what it is before the first sample."""
        if not self._new:
            return
        self._new = False
        new, old = self.now % self.depth, (self.now - 1) % self.depth
        for name in (*self._running, *self._carried):
            self.layers[name][new] = self.layers[name][old]
        for name in self._plain:
            self.layers[name][new] = np.nan

    def replace(self, name: str, row: F64 | float) -> None:
        """Writes the current slot of the only layer."""
        self._new = False
        self.layers[name][self.now % self.depth] = row

    def take(self, value: F64, away: F64, sound: Mask | None, at: slice) -> None:
        """Takes in one sample of each of some columns; `sound` tells who has one, None that all have.

        Where there is none, `value` is NaN and `away`, which runs up the sums, is zero. `taken` must follow.
        """
        new, old = self.now % self.depth, (self.now - 1) % self.depth if self._new else self.now % self.depth
        for name, layer in self.layers.items():
            row, before = layer[new, at], layer[old, at]
            if name in RUNNING:
                by = away if name == "sum" else away * away if name == "square" else 1.0 if sound is None else sound
                np.add(before, by, out=row)
            elif self._new:
                row[:] = value
            elif name == "last":
                np.copyto(row, value, where=True if sound is None else sound)
            else:
                _merge[name](row, value, out=row)

    def taken(self) -> None:
        """All columns have been told what they have."""
        self._new = False

    def behind(self, t: float, time: F64) -> Steps:
        """How many slots before that of the tick `t` the slots of earlier samples are."""
        ends = t - self.tick * np.floor((t - time) / self.tick + 1e-6)
        found: Steps = self.now - ((ends - self.origin) / self.slot + 1e-6).astype(np.intp)
        return np.maximum(found, 0)

    def row(self, name: str) -> F64:
        """The current slot of a layer, to write to."""
        self.settle()
        found: F64 = self.layers[name][self.now % self.depth]
        return found

    def back(self, name: str, steps: Back, at: At = ALL) -> F64:
        """What a layer held so many slots ago, for each of some columns."""
        self.settle()
        layer, most = self.layers[name], min(self.now + 1, self.depth - 1)
        if isinstance(steps, int):
            row: F64 = layer[(self.now - min(steps, most)) % self.depth][at]
            return row
        columns = np.arange(self.size)[at] if isinstance(at, slice) else at
        found: F64 = layer[(self.now - np.minimum(steps, most)) % self.depth, columns]
        return found

    def summed(self, name: str, steps: Back, skip: Back | None = None, at: At = ALL) -> F64:
        """Sum of a running layer over `steps` slots, the last ones or those before the last `skip`."""
        if skip is None:
            return self.row(name)[at] - self.back(name, steps, at)
        return self.back(name, skip, at) - self.back(name, steps + skip, at)

    def slots(self, name: str, steps: Back, at: At = ALL) -> F64:
        """[slots, n] a plain layer, oldest first; NaN where a slot lies before the column's window."""
        self.settle()
        longest = steps if isinstance(steps, int) else int(steps.max(initial=1))
        deepest = min(longest, self.now + 1, self.depth)
        rows = (self.now - np.arange(deepest)[::-1]) % self.depth
        found = self.layers[name][rows, at] if isinstance(at, slice) else self.layers[name][rows[:, None], at]
        if not isinstance(steps, int) and (steps < deepest).any():
            found[np.arange(deepest)[::-1, None] >= steps[None, :]] = np.nan
        return found

    def steps(self, window: float, period: F64) -> Steps:
        """How many slots a window has for each column, widened to a few of its periods."""
        slots = np.ceil(widened(window, period) / self.slot - 1e-6)
        return np.clip(slots, self._least, self.depth - 1).astype(np.intp)

    def every(self, window: float) -> int:
        """How many slots a window has that needs not be widened."""
        return min(max(math.ceil(window / self.slot - 1e-6), self._least), self.depth - 1)

    @property
    def _least(self) -> int:
        # A slot longer than a tick is mostly not yet full: one alone would see too little.
        return 2 if self.slot > self.tick else 1

    def coarsen(self, longest: float) -> None:
        """Doubles the slots until the ring reaches `longest` seconds back."""
        while longest > self.slot * (self.depth - 2):
            self._double()

    def _double(self) -> None:
        self.settle()
        then, self.now, self.slot = self.now, self.now // 2 if self.now >= 0 else -1, self.slot * 2
        if then < 0:
            return
        oldest = max(then - self.depth + 1, 0)
        old = {name: layer.copy() for name, layer in self.layers.items()}
        for k in range(max(self.now - self.depth + 1, 0), self.now + 1):
            first, last = max(2 * k, oldest), min(max(2 * k + 1, oldest), then)
            for name, layer in self.layers.items():
                merge = _merge.get(name)
                pair = old[name][first % self.depth], old[name][last % self.depth]
                layer[k % self.depth] = merge(*pair) if merge and 2 * k + 1 >= oldest else pair[1]
        # What lies before the ring's past reads as empty: no more sums than at its oldest slot, no values.
        for name, layer in self.layers.items():
            layer[self.now + 1 :] = (
                old[name][oldest % self.depth] * float(oldest > 0) if name in self._running else np.nan
            )


def widened(window: float, period: F64) -> F64:
    """The window, no shorter than a few periods."""
    return np.fmax(window, FEW * np.minimum(period, LONGEST))


def latest(a: F64, b: F64) -> F64:
    found: F64 = np.where(np.isnan(b), a, b)
    return found


def _same(layer: F64) -> F64:
    """What a layer would hold if all columns held what the first one does."""
    return np.broadcast_to(layer[:, :1], layer.shape)


_merge: Mapping[str, Merge] = {"low": np.fmin, "high": np.fmax, "last": latest}
