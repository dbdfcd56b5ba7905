"""Where windows keep their samples: expressions that are sampled alike lie side by side in one track.

A tick takes the samples of all of them in a few operations over long rows, however many expressions there are.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from skewscope.engine.baseline import Baseline
from skewscope.engine.readings import Latecomers
from skewscope.engine.ring import SOON, depth_for, slot_for, slot_of
from skewscope.engine.sets import F64, Mask
from skewscope.engine.windows import Track
from skewscope.rules.expr import Expr

WIDEST = 1 << 16
"""Columns of a track, unless one expression has more: what one operation works on should stay in the cache."""
LAYERS: Mapping[str, tuple[str, ...]] = {
    "mean": ("sum",),
    "change": ("sum",),
    "minimum": ("low",),
    "maximum": ("high",),
    "burst": ("sum", "high"),
    "slope": ("last",),
    "quantile": ("last",),
    "jitter": ("sum", "square"),
}
"""What a statistic reads of a track."""

Sampled = Callable[[Sequence[Expr]], tuple[F64, F64 | float]]
"""Gives this tick's values of expressions side by side, and their times: one number if it is the same for all."""


Part = TypeVar("Part")


def parted(whole: Iterable[Part], size: Callable[[Part], int]) -> Iterable[list[Part]]:
    """The same in order, in lists that are not wider than `WIDEST` unless one alone is."""
    part: list[Part] = []
    width = 0
    for one in whole:
        if part and width + size(one) > WIDEST:
            yield part
            part, width = [], 0
        part.append(one)
        width += size(one)
    if part:
        yield part


@dataclass
class Reel:
    """One expression's samples: some columns of a track."""

    expr: Expr
    slot: float
    latecomers: Latecomers | None
    level: int
    """How many windows lie below it: their tracks must have the tick's samples before its own."""
    reach: float = 0.0
    """Seconds of its longest window."""
    layers: frozenset[str] = frozenset()
    track: Track = field(default_factory=lambda: Track(1.0, 1.0))
    at: slice = field(default_factory=lambda: slice(0, 0))
    """Its columns."""

    def want(self, window: float, function: str) -> None:
        """Keeps what a statistic over a window needs."""
        self.reach = max(self.reach, window)
        self.layers |= {*LAYERS[function]}
        self.slot = slot_for(self.slot, self.reach)


@dataclass
class _Bank:
    """Expressions that share a track."""

    track: Track
    reels: Sequence[Reel]
    checked: int = -1
    """The version of the rhythm to which the slots were last fitted."""

    def step(self, t: float, sampled: Sampled) -> None:
        self.track.step(t, *sampled([reel.expr for reel in self.reels]))
        for reel in self.reels:
            if reel.latecomers is not None:
                for entities, when, what in reel.latecomers.found():
                    self.track.late(t, entities + reel.at.start, when, what)

    def fitted(self) -> bool:
        """Fits the slots of its expressions to their periods; whether any has changed."""
        if self.checked == self.track.rhythm.version:
            return False
        self.checked = self.track.rhythm.version
        slots = [self.track.fitting(reel.at, reel.reach) for reel in self.reels]
        changed = any(slot != reel.slot for slot, reel in zip(slots, self.reels, strict=True))
        for slot, reel in zip(slots, self.reels, strict=True):
            reel.slot = slot
        return changed


class Banks:
    """The samples of all windowed expressions."""

    def __init__(self, tick: float) -> None:
        self.tick = tick
        self.reels: dict[tuple[Expr, float], Reel] = {}
        self._banks: list[_Bank] = []
        self._running: list[Reel] = []
        self._size: Callable[[str], int] = lambda _: 0
        self._origin = np.nan
        self._steps = 0

    def reel(self, expr: Expr, window: float, function: str, latecomers: Latecomers | None) -> Reel:
        """The samples of an expression, from which a statistic over a window is read."""
        slot = slot_of(window, self.tick)
        level = sum(node.op == "call" and node.name in LAYERS for node in expr.walk())
        found = self.reels.setdefault((expr, slot), Reel(expr, slot, latecomers, level))
        found.want(window, function)
        return found

    def lay(self, runs: Callable[[Expr], bool], size: Callable[[str], int]) -> None:
        """Makes room for the expressions that run, each as wide as its kind of entity."""
        self._running = [reel for reel in self.reels.values() if runs(reel.expr)]
        self._size = size
        self._steps = 0
        self._lay()

    def _lay(self) -> None:
        grouped: dict[tuple[int, int, float, tuple[str, ...]], list[Reel]] = defaultdict(list)
        for reel in self._running:
            depth = depth_for(self._size(reel.expr.kind), reel.reach, reel.slot)
            reel.slot = slot_for(reel.slot, reel.reach, depth)
            grouped[reel.level, depth, reel.slot, tuple(sorted(reel.layers))].append(reel)
        self._banks = [
            self._bank(key, some)
            for key, reels in sorted(grouped.items())
            for some in parted(reels, lambda reel: self._size(reel.expr.kind))
        ]

    def _bank(self, key: tuple[int, int, float, tuple[str, ...]], reels: list[Reel]) -> _Bank:
        _, depth, slot, layers = key
        sizes = [self._size(reel.expr.kind) for reel in reels]
        ends = np.cumsum(sizes).tolist()
        places = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        there = reels[0].track
        same = all(reel.track is there and reel.at == at for reel, at in zip(reels, places, strict=True))
        if same and (there.size, there.ring.depth, there.ring.slot, there.layers) == (ends[-1], depth, slot, layers):
            return _Bank(there, reels)
        track = Track(self.tick, slot, layers, self._origin, depth)
        track.grow(ends[-1])
        for reel, at in zip(reels, places, strict=True):
            track.paste(at.start, reel.track, reel.at)
            reel.track, reel.at = track, at
        return _Bank(track, reels)

    def step(self, t: float, sampled: Sampled) -> None:
        """Takes in the values of the tick that ends at `t`."""
        if np.isnan(self._origin):
            self._origin = t
            for bank in self._banks:
                bank.track.ring.origin = t
        for bank in self._banks:
            bank.step(t, sampled)
        if self._steps < SOON or self._steps % SOON == 0:
            changed = [bank.fitted() for bank in self._banks]
            if any(changed):
                self._lay()
        self._steps += 1


@dataclass
class Past:
    """One expression's healthy past: some columns of a baseline."""

    expr: Expr
    memory: float
    baseline: Baseline = field(default_factory=lambda: Baseline(1.0))
    at: slice = field(default_factory=lambda: slice(0, 0))


class Pasts:
    """The healthy pasts of all expressions that are compared with one, side by side by the length of their memory."""

    def __init__(self) -> None:
        self.pasts: dict[tuple[Expr, float], Past] = {}
        self._groups: list[list[Past]] = []

    def past(self, expr: Expr, memory: float) -> Past:
        """The past of an expression."""
        return self.pasts.setdefault((expr, memory), Past(expr, memory))

    def lay(self, runs: Callable[[Expr], bool], size: Callable[[str], int]) -> None:
        """Makes room for the expressions that run, each as wide as its kind of entity."""
        grouped: dict[float, list[Past]] = defaultdict(list)
        for past in self.pasts.values():
            if runs(past.expr):
                grouped[past.memory].append(past)
        self._groups = [
            part for _, group in sorted(grouped.items()) for part in parted(group, lambda past: size(past.expr.kind))
        ]
        for group in self._groups:
            _lay_out(group, [size(past.expr.kind) for past in group])

    def learn(self, sampled: Sampled, frozen: Callable[[Past], Mask | None]) -> None:
        """Takes in the tick's values of who is not frozen; None stands for nobody."""
        for group in self._groups:
            values, times = sampled([past.expr for past in group])
            masks = [frozen(past) for past in group]
            cold = None
            if any(mask is not None for mask in masks):
                sizes = [past.at.stop - past.at.start for past in group]
                cold = np.concatenate(
                    [np.zeros(n, bool) if mask is None else mask for mask, n in zip(masks, sizes, strict=True)]
                )
            group[0].baseline.learn(values, times, cold)


def _lay_out(group: Sequence[Past], sizes: Sequence[int]) -> None:
    baseline = Baseline(group[0].memory)
    baseline.grow(sum(sizes))
    begin = 0
    for past, size in zip(group, sizes, strict=True):
        baseline.paste(begin, past.baseline, past.at)
        past.baseline, past.at = baseline, slice(begin, begin + size)
        begin += size
