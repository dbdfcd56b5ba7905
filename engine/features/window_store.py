"""Where windows keep their samples: expressions that are sampled alike lie side by side in one track.

A tick takes the samples of all of them in a few operations over long rows, however many expressions there are.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from skewscope.engine.features.baseline import Baseline
from skewscope.engine.features.operators.series import LateSamples
from skewscope.engine.features.windows import SampleWindow
from skewscope.engine.ingest.ring_buffer import FIT_STEPS, depth_for, slot_for_reach, slot_for_window
from skewscope.engine.model.sets import F64, Mask
from skewscope.rules.expression import Expr

MAX_COLUMNS = 1 << 16
"""Columns of a track, unless one expression has more: what one operation works on should stay in the cache."""
STATISTIC_LAYERS: Mapping[str, tuple[str, ...]] = {
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

Sampler = Callable[[Sequence[Expr]], tuple[F64, F64 | float]]
"""Gives this tick's values of expressions side by side, and their times: one number if it is the same for all."""


Item = TypeVar("Item")


def split_by_width(whole: Iterable[Item], size: Callable[[Item], int]) -> Iterable[list[Item]]:
    """The same in order, in lists that are not wider than `WIDEST` unless one alone is."""
    part: list[Item] = []
    width = 0
    for one in whole:
        if part and width + size(one) > MAX_COLUMNS:
            yield part
            part, width = [], 0
        part.append(one)
        width += size(one)
    if part:
        yield part


@dataclass
class WindowBuffer:
    """One expression's samples: some columns of a track."""

    expr: Expr
    slot: float
    late_samples: LateSamples | None
    level: int
    """How many windows lie below it: their tracks must have the tick's samples before its own."""
    longest_window: float = 0.0
    """Seconds of its longest window."""
    layers: frozenset[str] = frozenset()
    window: SampleWindow = field(default_factory=lambda: SampleWindow(1.0, 1.0))
    columns: slice = field(default_factory=lambda: slice(0, 0))
    """Its columns."""

    def request(self, window: float, function: str) -> None:
        """Keeps what a statistic over a window needs."""
        self.longest_window = max(self.longest_window, window)
        self.layers |= {*STATISTIC_LAYERS[function]}
        self.slot = slot_for_reach(self.slot, self.longest_window)


@dataclass
class _WindowGroup:
    """Expressions that share a track."""

    window: SampleWindow
    buffers: Sequence[WindowBuffer]
    fitted_version: int = -1
    """The version of the rhythm to which the slots were last fitted."""

    def step(self, t: float, sampled: Sampler) -> None:
        self.window.step(t, *sampled([reel.expr for reel in self.buffers]))
        for reel in self.buffers:
            if reel.late_samples is not None:
                for entities, when, what in reel.late_samples.iter_samples():
                    self.window.add_late(t, entities + reel.columns.start, when, what)

    def fit_slots(self) -> bool:
        """Fits the slots of its expressions to their periods; whether any has changed."""
        if self.fitted_version == self.window.sampling.version:
            return False
        self.fitted_version = self.window.sampling.version
        slots = [self.window.fit_slot(reel.columns, reel.longest_window) for reel in self.buffers]
        changed = any(slot != reel.slot for slot, reel in zip(slots, self.buffers, strict=True))
        for slot, reel in zip(slots, self.buffers, strict=True):
            reel.slot = slot
        return changed


class WindowStore:
    """The samples of all windowed expressions."""

    def __init__(self, tick: float) -> None:
        self.tick = tick
        self.buffers: dict[tuple[Expr, float], WindowBuffer] = {}
        self._groups: list[_WindowGroup] = []
        self._active: list[WindowBuffer] = []
        self._size: Callable[[str], int] = lambda _: 0
        self._origin = np.nan
        self._steps = 0

    def buffer(self, expr: Expr, window: float, function: str, latecomers: LateSamples | None) -> WindowBuffer:
        """The samples of an expression, from which a statistic over a window is read."""
        slot = slot_for_window(window, self.tick)
        level = sum(node.op == "call" and node.name in STATISTIC_LAYERS for node in expr.walk())
        found = self.buffers.setdefault((expr, slot), WindowBuffer(expr, slot, latecomers, level))
        found.request(window, function)
        return found

    def allocate(self, runs: Callable[[Expr], bool], size: Callable[[str], int]) -> None:
        """Makes room for the expressions that run, each as wide as its kind of entity."""
        self._active = [reel for reel in self.buffers.values() if runs(reel.expr)]
        self._size = size
        self._steps = 0
        self._regroup()

    def _regroup(self) -> None:
        grouped: dict[tuple[int, int, float, tuple[str, ...]], list[WindowBuffer]] = defaultdict(list)
        for reel in self._active:
            depth = depth_for(self._size(reel.expr.kind), reel.longest_window, reel.slot)
            reel.slot = slot_for_reach(reel.slot, reel.longest_window, depth)
            grouped[reel.level, depth, reel.slot, tuple(sorted(reel.layers))].append(reel)
        self._groups = [
            self._build_group(key, some)
            for key, reels in sorted(grouped.items())
            for some in split_by_width(reels, lambda reel: self._size(reel.expr.kind))
        ]

    def _build_group(self, key: tuple[int, int, float, tuple[str, ...]], reels: list[WindowBuffer]) -> _WindowGroup:
        _, depth, slot, layers = key
        sizes = [self._size(reel.expr.kind) for reel in reels]
        ends = np.cumsum(sizes).tolist()
        places = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        there = reels[0].window
        same = all(reel.window is there and reel.columns == at for reel, at in zip(reels, places, strict=True))
        if same and (there.size, there.ring.depth, there.ring.slot, there.layers) == (ends[-1], depth, slot, layers):
            return _WindowGroup(there, reels)
        track = SampleWindow(self.tick, slot, layers, self._origin, depth)
        track.grow(ends[-1])
        for reel, at in zip(reels, places, strict=True):
            track.copy_from(at.start, reel.window, reel.columns)
            reel.window, reel.columns = track, at
        return _WindowGroup(track, reels)

    def step(self, t: float, sampled: Sampler) -> None:
        """Takes in the values of the tick that ends at `t`."""
        if np.isnan(self._origin):
            self._origin = t
            for bank in self._groups:
                bank.window.ring.origin = t
        for bank in self._groups:
            bank.step(t, sampled)
        if self._steps < FIT_STEPS or self._steps % FIT_STEPS == 0:
            changed = [bank.fit_slots() for bank in self._groups]
            if any(changed):
                self._regroup()
        self._steps += 1


@dataclass
class BaselineSlice:
    """One expression's healthy past: some columns of a baseline."""

    expr: Expr
    memory: float
    baseline: Baseline = field(default_factory=lambda: Baseline(1.0))
    columns: slice = field(default_factory=lambda: slice(0, 0))


class BaselineStore:
    """The healthy pasts of all expressions that are compared with one, side by side by the length of their memory."""

    def __init__(self) -> None:
        self.slices: dict[tuple[Expr, float], BaselineSlice] = {}
        self._groups: list[list[BaselineSlice]] = []

    def slice_of(self, expr: Expr, memory: float) -> BaselineSlice:
        """The past of an expression."""
        return self.slices.setdefault((expr, memory), BaselineSlice(expr, memory))

    def allocate(self, runs: Callable[[Expr], bool], size: Callable[[str], int]) -> None:
        """Makes room for the expressions that run, each as wide as its kind of entity."""
        grouped: dict[float, list[BaselineSlice]] = defaultdict(list)
        for past in self.slices.values():
            if runs(past.expr):
                grouped[past.memory].append(past)
        self._groups = [
            part
            for _, group in sorted(grouped.items())
            for part in split_by_width(group, lambda past: size(past.expr.kind))
        ]
        for group in self._groups:
            _allocate_baseline(group, [size(past.expr.kind) for past in group])

    def learn(self, sampled: Sampler, frozen: Callable[[BaselineSlice], Mask | None]) -> None:
        """Takes in the tick's values of who is not frozen; None stands for nobody."""
        for group in self._groups:
            values, times = sampled([past.expr for past in group])
            masks = [frozen(past) for past in group]
            cold = None
            if any(mask is not None for mask in masks):
                sizes = [past.columns.stop - past.columns.start for past in group]
                cold = np.concatenate(
                    [np.zeros(n, bool) if mask is None else mask for mask, n in zip(masks, sizes, strict=True)]
                )
            group[0].baseline.learn(values, times, cold)


def _allocate_baseline(group: Sequence[BaselineSlice], sizes: Sequence[int]) -> None:
    baseline = Baseline(group[0].memory)
    baseline.grow(sum(sizes))
    begin = 0
    for past, size in zip(group, sizes, strict=True):
        baseline.copy_from(begin, past.baseline, past.columns)
        past.baseline, past.columns = baseline, slice(begin, begin + size)
        begin += size
