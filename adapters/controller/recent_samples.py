"""The batches of the last minutes, packed: from them a new engine fills its windows after a reload."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import zstandard

from skewscope.adapters.sources.common.base import SeriesColumns, SourceBatch
from skewscope.engine.model.arrays import F64, I32

SPAN = 120.0
"""Seconds that are kept: windows and holds are full after 90."""
MAX_BYTES = 128 << 20
"""Packed bytes that are kept at most; of a large fleet these are fewer seconds."""


@dataclass(frozen=True, slots=True)
class _PackedBatch:
    """What tells how the arrays of a batch are packed."""

    columns: SeriesColumns
    has_numbers: bool
    time: float | None
    """One time for all values; None where each has its own."""
    size: int


@dataclass(frozen=True, slots=True)
class _PackedTick:
    t: float
    batches: tuple[_PackedBatch, ...]
    packed: bytes


@dataclass
class RecentSamples:
    """Batches by tick. One thread adds, others may read."""

    _ticks: deque[_PackedTick] = field(default_factory=deque)
    _bytes: int = 0

    def add(self, t: float, handed: Mapping[str, Sequence[SourceBatch]]) -> None:
        """Keeps the batches of the tick that ends at `t`, and forgets the oldest ones."""
        tick = _pack(t, chain.from_iterable(handed.values()))
        self._ticks.append(tick)
        self._bytes += len(tick.packed)
        while self._ticks and (self._ticks[0].t < t - SPAN or self._bytes > MAX_BYTES):
            self._bytes -= len(self._ticks.popleft().packed)

    def since(self, t: float) -> Iterator[tuple[float, list[SourceBatch]]]:
        """Yields end and batches of the ticks after a time, oldest first."""
        for tick in tuple(self._ticks):
            if tick.t > t:
                yield tick.t, _unpack(tick)


def _pack(t: float, batches: Iterable[SourceBatch]) -> _PackedTick:
    heads: list[_PackedBatch] = []
    arrays: list[bytes] = []
    for batch in batches:
        one_time = float(batch.time) if isinstance(batch.time, float | int) else None
        heads.append(_PackedBatch(batch.columns, batch.numbers is not None, one_time, len(batch.value)))
        arrays.append(np.ascontiguousarray(batch.value, np.float64).tobytes())
        if batch.numbers is not None:
            arrays.append(np.ascontiguousarray(batch.numbers, np.int32).tobytes())
        if not isinstance(batch.time, float | int):
            arrays.append(np.ascontiguousarray(batch.time, np.float64).tobytes())
    return _PackedTick(t, tuple(heads), zstandard.ZstdCompressor(level=1).compress(b"".join(arrays)))


def _unpack(tick: _PackedTick) -> list[SourceBatch]:
    buffer, at, found = zstandard.ZstdDecompressor().decompress(tick.packed), 0, []
    for head in tick.batches:
        value: F64 = np.frombuffer(buffer, np.float64, head.size, at)
        at += value.nbytes
        numbers: I32 | None = None
        if head.has_numbers:
            numbers = np.frombuffer(buffer, np.int32, head.size, at)
            at += numbers.nbytes
        time: F64 | float | None = head.time
        if time is None:
            time = np.frombuffer(buffer, np.float64, head.size, at)
            at += time.nbytes
        found.append(SourceBatch(head.columns, numbers, time, value))
    return found
