"""The windows of all expressions of rules: which share one, and which ticks may change a statistic."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.features.windows import SampleWindow
from skewscope.engine.ingest.samples import Sampler, split_by_width
from skewscope.engine.ingest.slots import EDGE_S, FIT_STEPS, ColumnIndexer, depth_for, slot_for_reach, slot_for_window
from skewscope.engine.model.arrays import F64, Index

SHARED_COLUMNS = 512
"""So few columns for each expression that asks for a statistic, and it is computed for all of them at once."""

MERGED_COLUMNS = 1 << 10
"""So few columns are kept in one window, with layers that some do not need: what counts is the number of windows."""

LateSampleReader = Callable[[], Iterator[tuple[Index, F64, F64]]]
"""Yields (entities, times, values) of the samples of this tick that came after later ones."""


@dataclass
class WindowBuffer:
    """The samples of one expression: some columns of a window."""

    number: int
    """Of the expression."""
    kind: str
    """Of its entities."""
    slot: float
    late_samples: LateSampleReader | None
    level: int
    """How many windows the expression contains: they must take the tick's samples before this one."""
    longest_window: float = 0.0
    """Seconds of its longest window."""
    layers: frozenset[str] = frozenset()
    window: SampleWindow = field(default_factory=lambda: SampleWindow(1.0, 1.0))
    columns: slice = field(default_factory=lambda: slice(0, 0))
    """Its columns."""
    spans: set[tuple[float, ...]] = field(default_factory=set)
    """Lengths in seconds of its windows, each followed by those that lie before it."""

    statistics: set[Hashable] = field(default_factory=set)
    """What is asked of its windows."""

    def statistic(self, key: Hashable, compute: Callable[[SampleWindow, ColumnIndexer], F64]) -> F64:
        """Returns [entity] a statistic; others that ask the same window for it share the computation."""
        if key not in self.window.shared:
            return compute(self.window, self.columns)
        found = self.window.shared[key]
        if found is None:
            found = self.window.shared[key] = compute(self.window, slice(0, self.window.size))
        return found[self.columns]

    def request(self, key: Hashable, span: tuple[float, ...], layers: Collection[str]) -> None:
        """Keep these layers for windows that follow one another back in time, of so many seconds each."""
        self.statistics.add(key)
        self.spans.add(span)
        self.longest_window = max(self.longest_window, sum(span))
        self.layers |= {*layers}
        self.slot = slot_for_reach(self.slot, self.longest_window)


@dataclass
class _WindowGroup:
    """Expressions that share a window."""

    window: SampleWindow
    buffers: Sequence[WindowBuffer]
    fitted_version: int = -1
    """The version of the sampling periods to which the slots were last fitted."""
    _next_stale_time: float = np.nan
    """NaN while it is to be looked up, as the next one."""
    _next_exit_time: float = np.nan
    _spans: frozenset[tuple[float, ...]] = frozenset()

    def __post_init__(self) -> None:
        asked = Counter(key for buffer in self.buffers for key in buffer.statistics)
        shared = (key for key, n in asked.items() if n > 1 and self.window.size <= n * SHARED_COLUMNS)
        self.window.shared = dict.fromkeys(shared)
        self._spans = frozenset(span for buffer in self.buffers for span in buffer.spans)

    def step(self, t: float, sampled: Sampler) -> None:
        """Take in the values of the tick that ends at `t` seconds."""
        self.window.step(t, *sampled([buffer.number for buffer in self.buffers]))
        for buffer in self.buffers:
            if buffer.late_samples is not None:
                for entities, when, what in buffer.late_samples():
                    self.window.add_late(t, entities + buffer.columns.start, when, what)

    def forget_next_change(self) -> None:
        """Has the times of the next changes looked up again: the window moved on."""
        self._next_stale_time = self._next_exit_time = np.nan

    def next_stale_time(self) -> float:
        """Returns the time in seconds at which a statistic may next become unknown."""
        if math.isnan(self._next_stale_time):
            self._next_stale_time = self.window.next_stale_time()
        return self._next_stale_time

    def next_exit_time(self) -> float:
        """Returns the time in seconds at which a sample may next leave a window."""
        if math.isnan(self._next_exit_time):
            self._next_exit_time = self.window.next_exit_time(self._spans, max(map(sum, self._spans)))
        return self._next_exit_time

    def is_due(self, t: float, *, has_samples: bool) -> bool:
        """Returns whether a statistic may change in the tick that ends at `t` although none of its own samples came."""
        return t >= self.next_stale_time() - EDGE_S or (has_samples and t >= self.next_exit_time() - EDGE_S)

    def fit_slots(self) -> bool:
        """Fits the slots of its expressions to their periods; whether any has changed."""
        if self.fitted_version == self.window.sampling.version:
            return False
        self.fitted_version = self.window.sampling.version
        slots = [self.window.fit_slot(buffer.columns, buffer.longest_window) for buffer in self.buffers]
        changed = any(slot != buffer.slot for slot, buffer in zip(slots, self.buffers, strict=True))
        for slot, buffer in zip(slots, self.buffers, strict=True):
            buffer.slot = slot
        return changed


class WindowStore:
    """The samples of all windowed expressions."""

    def __init__(self, tick: float) -> None:
        self.tick = tick
        self.buffers: dict[tuple[int, float], WindowBuffer] = {}
        self._groups: list[_WindowGroup] = []
        self._active: list[WindowBuffer] = []
        self._size: Callable[[str], int] = lambda _: 0
        self._origin = self._t = np.nan
        self._steps = 0

    def buffer(
        self, number: int, kind: str, window: float, *, level: int = 0, late_samples: LateSampleReader | None = None
    ) -> WindowBuffer:
        """The samples of expression `number`, from which statistics over a window of so many seconds are read.

        Statistics whose windows have slots of one length share them.
        """
        slot = slot_for_window(window, self.tick)
        return self.buffers.setdefault((number, slot), WindowBuffer(number, kind, slot, late_samples, level))

    def allocate(self, is_active: Callable[[int], bool], size: Callable[[str], int]) -> None:
        """Make room for the active expressions, each as wide as its kind of entity."""
        self._active = [buffer for buffer in self.buffers.values() if is_active(buffer.number)]
        self._size = size
        self._steps = 0
        self._regroup()

    def advance(self) -> None:
        """Moves on the windows that were left behind, so that the slots of all are those of the newest tick."""
        for group in self._groups if np.isfinite(self._t) else ():
            group.window.advance(self._t)

    def _regroup(self) -> None:
        self.advance()
        grouped: dict[tuple[int, int, float], list[WindowBuffer]] = defaultdict(list)
        for buffer in self._active:
            depth = depth_for(self._size(buffer.kind), buffer.longest_window, buffer.slot)
            buffer.slot = slot_for_reach(buffer.slot, buffer.longest_window, depth)
            grouped[buffer.level, depth, buffer.slot].append(buffer)
        self._groups = [
            self._build_group(depth, slot, layers, some)
            for (_, depth, slot), buffers in sorted(grouped.items())
            for layers, alike in self._split_by_layers(buffers)
            for some in split_by_width(alike, lambda buffer: self._size(buffer.kind))
        ]

    def _split_by_layers(self, buffers: list[WindowBuffer]) -> list[tuple[tuple[str, ...], list[WindowBuffer]]]:
        """Returns the buffers by the layers that they keep, in order; all together where they have few columns."""
        if sum(self._size(buffer.kind) for buffer in buffers) <= MERGED_COLUMNS:
            return [(tuple(sorted(frozenset().union(*(buffer.layers for buffer in buffers)))), buffers)]
        found: dict[tuple[str, ...], list[WindowBuffer]] = defaultdict(list)
        for buffer in buffers:
            found[tuple(sorted(buffer.layers))].append(buffer)
        return sorted(found.items())

    def _build_group(
        self, depth: int, slot: float, layers: tuple[str, ...], buffers: list[WindowBuffer]
    ) -> _WindowGroup:
        sizes = [self._size(buffer.kind) for buffer in buffers]
        ends = np.cumsum(sizes).tolist()
        places = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        there = buffers[0].window
        same = all(buffer.window is there and buffer.columns == at for buffer, at in zip(buffers, places, strict=True))
        if same and (there.size, there.ring.depth, there.ring.slot, there.layers) == (ends[-1], depth, slot, layers):
            return _WindowGroup(there, buffers)
        window = SampleWindow(self.tick, slot, layers, self._origin, depth)
        window.grow(ends[-1])
        for buffer, at in zip(buffers, places, strict=True):
            known = buffer.columns.stop - buffer.columns.start
            window.copy_from(slice(at.start, at.start + known), buffer.window, buffer.columns)
            buffer.window, buffer.columns = window, at
        return _WindowGroup(window, buffers)

    def changing(self, t: float, has_changed: Callable[[int], bool], *, has_samples: bool) -> Iterator[WindowBuffer]:
        """Yields the buffers of which statistics may change in the tick that ends at `t` although not sampled in it."""
        for group in self._groups:
            unfed = [buffer for buffer in group.buffers if not has_changed(buffer.number)]
            if unfed and group.is_due(t, has_samples=has_samples):
                yield from unfed

    def step(self, t: float, sampled: Sampler, has_changed: Callable[[int], bool], *, has_samples: bool) -> bool:
        """Take in the values of the tick that ends at `t` seconds; returns whether slots became longer.

        `has_changed`: whether an expression may have changed; `has_samples`: whether a sample of any series came.
        """
        if np.isnan(self._origin):
            self._origin = t
            for group in self._groups:
                group.window.ring.origin = t
        self._t, fed = t, False
        for group in self._groups:
            if any(has_changed(buffer.number) for buffer in group.buffers):
                group.step(t, sampled)
                fed = True
            elif group.is_due(t, has_samples=has_samples):
                group.window.advance(t)
            else:
                continue
            group.forget_next_change()
        fitted = fed and (self._steps < FIT_STEPS or self._steps % FIT_STEPS == 0) and self._fit_slots()
        self._steps += fed
        return fitted

    def _fit_slots(self) -> bool:
        """Fits the slots to the sampling periods; returns whether any has changed."""
        changed = [group.fit_slots() for group in self._groups]
        if any(changed):
            self._regroup()
        return any(changed)

    def next_stale_time(self) -> float:
        """Returns when a statistic may next become unknown, in seconds."""
        return min([group.next_stale_time() for group in self._groups], default=np.inf)
