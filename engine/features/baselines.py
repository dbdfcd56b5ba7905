"""Baselines: what is normal for each entity by its own past, learned only while it looks healthy."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.features.peer_statistics import MIN_SPREAD_SHARE, safe_divide, scaled_distance
from skewscope.engine.ingest.samples import Sampler, split_by_width
from skewscope.engine.ingest.slots import ALL_COLUMNS, ColumnIndexer
from skewscope.engine.model.arrays import F64, MAX_VALUE, Index, Mask, nan_to_zero, pad_to_length

MIN_SAMPLES = 8
"""A baseline is unknown before so many samples ..."""
MIN_MEMORY_SHARE = 1 / 6
"""... and this share of its memory have gone by."""
MAX_SURPRISE = 3.0
"""A sample further off than this many deviations is learned as if it were just so far off."""
MANY_COLUMNS = 256
"""Of no more columns, the exponential of each takes less time than to see that all are the same."""
BLOCK_COLUMNS = 1 << 13
"""So many columns learn at a time: what is worked with should stay in the cache."""
MEMORY_DIGITS = 7
"""Pasts whose memories are alike in so many digits learn together."""
STATE_ARRAYS = ("mean", "variance", "_seen", "_first", "_last")


@dataclass(frozen=True, slots=True)
class _RipeBlock:
    """Columns that learn at a time, all of which are ready or were never seen."""

    earliest_first: float
    """The earliest of their first times, in seconds."""
    latest_first: float
    is_complete: bool
    """Whether all of them were seen."""


class Baseline:
    """Exponentially weighted mean and variance of one value of each entity of a kind."""

    def __init__(self, memory: float) -> None:
        self.memory = memory
        self.mean, self.variance = np.empty(0), np.empty(0)
        self._seen, self._first, self._last = (np.empty(0) for _ in range(3))
        self._ready = np.empty(0, bool)
        """[entity] whether its past is long enough; once it is, it stays so."""
        self._ripe_blocks: dict[int, _RipeBlock] = {}
        """By first column."""
        self._newest_time = -np.inf
        """Time of the newest sample of all."""

    def grow(self, size: int) -> None:
        """Make room for `size` entities."""
        old = len(self._seen)
        for name in STATE_ARRAYS:
            setattr(self, name, pad_to_length(getattr(self, name), size))
        self._seen[old:] = 0.0
        self._update_ready(ALL_COLUMNS)

    def copy_from(self, into: ColumnIndexer, other: "Baseline", at: ColumnIndexer) -> None:
        """Copy what other columns of another baseline learned."""
        if not len(other._seen):  # noqa: SLF001 - one of its own kind
            return
        self._newest_time = max(self._newest_time, other._newest_time)  # noqa: SLF001
        for name in STATE_ARRAYS:
            getattr(self, name)[into] = getattr(other, name)[at]
        self._update_ready(ALL_COLUMNS)

    def _update_ready(self, at: slice) -> None:
        """Recompute which of some entities are ready."""
        seen, first = self._seen[at], self._first[at]
        ready = (seen >= MIN_SAMPLES) & (self._last[at] - first >= MIN_MEMORY_SHARE * self.memory)
        if at == ALL_COLUMNS:
            self._ready = ready
            self._ripe_blocks.clear()
            return
        self._ready[at] = ready
        unseen = seen == 0
        if (ready | unseen).all():
            ends = np.fmin.reduce(first, initial=np.inf), np.fmax.reduce(first, initial=-np.inf)
            self._ripe_blocks[at.start] = _RipeBlock(float(ends[0]), float(ends[1]), not unseen.any())
        else:
            self._ripe_blocks.pop(at.start, None)

    def ready_mask(self, at: Index | slice = ALL_COLUMNS) -> Mask:
        """Returns [entity] whether its past is long enough to compare with."""
        return self._ready[at]

    def z_score(self, x: F64, at: Index | slice = ALL_COLUMNS) -> F64:
        """Returns [entity] the distance of each value from the past, in deviations; NaN while that is too short."""
        mean = self.mean[at]
        # The yardstick: a standard deviation, and no less than a small share of the mean.
        yardstick = np.sqrt(self.variance[at]) + MIN_SPREAD_SHARE * np.abs(mean)
        return np.where(self.ready_mask(at), scaled_distance(x - mean, yardstick), np.nan)

    def drift(self, x: F64, at: Index | slice = ALL_COLUMNS) -> F64:
        """Returns [entity] each value over the mean of the past, minus 1; NaN while the past is too short."""
        mean = self.mean[at]
        return np.where(self.ready_mask(at), safe_divide(x - mean, np.abs(mean)), np.nan)

    def learn(self, x: F64, time: F64 | float, frozen: Mask | None) -> None:
        """Learn new values of entities that look healthy, and of all whose past is still too short.

        The past of an entity begins with its first sample, healthy or not. `time` is in seconds, one number if it is
        the same for all; `frozen` excludes entities, None excludes none.
        """
        if isinstance(time, float) and time <= self._newest_time:
            time = np.full(len(x), time)
        for begin in range(0, len(x), BLOCK_COLUMNS):
            at = slice(begin, min(begin + BLOCK_COLUMNS, len(x)))
            new = np.abs(x[at]) <= MAX_VALUE
            if not isinstance(time, float):
                new &= ~(time[at] <= self._last[at]) & ~np.isnan(time[at])
            if frozen is not None and frozen[at].any():
                new &= ~frozen[at] | ~self.ready_mask(at)
            self._learn(at, x[at], time if isinstance(time, float) else time[at], new)
        newest = time if isinstance(time, float) else float(np.fmax.reduce(time, initial=-np.inf))
        self._newest_time = max(self._newest_time, newest)

    def _learn(self, at: slice, x: F64, time: F64 | float, new: Mask) -> None:
        whole = bool(new.all())
        if not (whole or new.any()):
            return
        seen, mean, variance = self._seen[at], self.mean[at], self.variance[at]
        block = self._ripe_blocks.get(at.start)
        # An entity without a first time was never seen.
        if block is None or not (block.is_complete or not (new & np.isnan(self._first[at])).any()):
            block = None
            self._init_first_samples(at, x, time, new)
        weight = self._weight(at, time, new, block)
        away = _clip_surprise(x - mean, mean, variance, seen if block is None else None)
        step = weight * away
        where: Mask | bool = True if whole else new
        np.add(mean, step, out=mean, where=where)
        step *= away
        step += variance
        np.multiply(1 - weight, step, out=variance, where=where)
        np.add(seen, 1.0, out=seen, where=where)
        np.copyto(self._last[at], time, where=where)
        if block is None:
            self._update_ready(at)

    def _init_first_samples(self, at: slice, x: F64, time: F64 | float, new: Mask) -> None:
        """Store first samples."""
        first = (self._seen[at] == 0) & new
        if first.any():
            self._first[at][first] = time if isinstance(time, float) else time[first]
            self.mean[at][first], self.variance[at][first] = x[first], 0.0

    def _weight(self, at: slice, time: F64 | float, new: Mask, block: "_RipeBlock | None") -> F64:
        # At first a plain mean: each sample counts alike until the memory is as long as it should be.
        plain: F64 = 1 / (self._seen[at] + 1)
        if block is not None and isinstance(time, float):
            if time - block.latest_first >= self.memory:
                return np.maximum(plain, self._decay(time - self._last[at], new))
            if time - block.earliest_first < self.memory:
                return plain
        young = time - self._first[at] < self.memory
        if (young | ~new).all():
            return plain
        return np.where(young, plain, np.maximum(plain, self._decay(time - self._last[at], new)))

    def _decay(self, step: F64, new: Mask) -> F64:
        """Returns [entity] the share of the past that is forgotten in so many seconds, of those `new`."""
        if len(step) > MANY_COLUMNS:
            usual = step[np.argmax(new)]
            if ((step == usual) | ~new).all():
                step = np.array([usual])
        found: F64 = 1 - np.exp(-nan_to_zero(step) / self.memory)
        return found


def _clip_surprise(away: F64, mean: F64, variance: F64, seen: F64 | None) -> F64:
    """Returns [entity] `away`, changed in place: limited to a surprise once enough samples were seen.

    `seen` is the number of samples so far; None stands for enough.
    """
    most = np.sqrt(variance)
    most += MIN_SPREAD_SHARE * np.abs(mean)
    most *= MAX_SURPRISE
    if seen is not None and (few := seen < MIN_SAMPLES).any():
        most[few] = np.inf
    np.minimum(away, most, out=away)
    return np.maximum(away, np.negative(most, out=most), out=away)


# --- storage


@dataclass
class BaselineSlice:
    """The healthy past of one expression: some columns of a baseline."""

    number: int
    """Of the expression."""
    kind: str
    """Of its entities."""
    memory: float
    """Seconds."""
    baseline: Baseline = field(default_factory=lambda: Baseline(1.0))
    columns: slice = field(default_factory=lambda: slice(0, 0))


class BaselineStore:
    """The healthy pasts of all expressions that are compared with one, side by side by the length of their memory."""

    def __init__(self) -> None:
        self.slices: dict[tuple[int, float], BaselineSlice] = {}
        self._groups: list[list[BaselineSlice]] = []

    def slice_of(self, number: int, kind: str, memory: float) -> BaselineSlice:
        """The past of expression `number`, with a memory of so many seconds."""
        return self.slices.setdefault((number, memory), BaselineSlice(number, kind, memory))

    def allocate(self, is_active: Callable[[int], bool], size: Callable[[str], int]) -> None:
        """Make room for the active expressions, each as wide as its kind of entity."""
        grouped: dict[float, list[BaselineSlice]] = defaultdict(list)
        for past in self.slices.values():
            if is_active(past.number):
                grouped[float(f"{past.memory:.{MEMORY_DIGITS}g}")].append(past)
        self._groups = [
            part for _, group in sorted(grouped.items()) for part in split_by_width(group, lambda past: size(past.kind))
        ]
        for group in self._groups:
            _allocate_baseline(group, [size(past.kind) for past in group])

    def learn(
        self,
        sampled: Sampler,
        frozen: Callable[[BaselineSlice], Mask | None],
        has_changed: Callable[[int], bool] = lambda _: True,
    ) -> list[BaselineSlice]:
        """Learn the tick's values of entities that are not frozen; a mask of None stands for none frozen.

        Only pasts that lie beside one whose expression has changed are looked at, and returned.
        """
        looked_at: list[BaselineSlice] = []
        for group in self._groups:
            if not any(has_changed(past.number) for past in group):
                continue
            looked_at += group
            values, times = sampled([past.number for past in group])
            masks = [frozen(past) for past in group]
            cold = None
            if any(mask is not None for mask in masks):
                sizes = [past.columns.stop - past.columns.start for past in group]
                cold = np.concatenate(
                    [np.zeros(n, bool) if mask is None else mask for mask, n in zip(masks, sizes, strict=True)]
                )
            group[0].baseline.learn(values, times, cold)
        return looked_at


def _allocate_baseline(group: Sequence[BaselineSlice], sizes: Sequence[int]) -> None:
    baseline = Baseline(group[0].memory)
    baseline.grow(sum(sizes))
    begin = 0
    for past, size in zip(group, sizes, strict=True):
        width = past.columns.stop - past.columns.start
        baseline.copy_from(slice(begin, begin + width), past.baseline, past.columns)
        past.baseline, past.columns = baseline, slice(begin, begin + size)
        begin += size
