"""A stretch of one port's packets, cut at ticks, and the samples derived from it."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.arrays import F64, I64, Mask
from skewscope.engine.wire.packets import Packets


@dataclass(frozen=True, slots=True)
class Chunk:
    """Packets in time order, with the tick that each falls into."""

    packets: Packets
    tick: I64
    """[packet] tick, 0 for the first of the chunk."""
    ticks: int
    first: float
    """Start of the first tick."""
    step: float
    """Length of a tick, s."""
    tx: Mask
    rx: Mask
    peer: I64
    """[packet] number of the other end's address, the same in both directions."""
    edges: tuple[int, ...]
    """Row at which each tick begins, and the number of packets."""

    @property
    def until(self) -> float:
        """End of the last tick."""
        return self.first + self.ticks * self.step

    def count(self, mask: Mask) -> F64:
        """Returns [tick] numbers of the packets of a mask."""
        return np.array([np.count_nonzero(mask[a:b]) for a, b in pairwise(self.edges)], np.float64)


@dataclass
class PortSamples:
    """Samples of one port, collected signal by signal."""

    first: float
    step: float
    port: str
    keys: list[SeriesKey] = field(default_factory=list)
    times: list[F64] = field(default_factory=list)
    values: list[F64] = field(default_factory=list)
    _ends: F64 = field(default_factory=lambda: np.empty(0))
    """[tick] ends of the ticks, s."""

    def put(
        self, signal: str, by_tick: NDArray[np.floating[Any]], selector: str = "", kind: str = "port", entity: str = ""
    ) -> None:
        """Adds one value per tick, stamped with the end of the tick; NaN gives no sample."""
        values = by_tick.astype(np.float64)
        known = values == values  # noqa: PLR0124 - no number is NaN, which differs from itself; it takes a call less
        count = np.count_nonzero(known)
        if not count:
            return
        if len(self._ends) != len(values):
            self._ends = np.asarray(self.first + np.arange(1, len(values) + 1) * self.step, np.float64)
        all_known = count == len(known)
        self.keys.append(SeriesKey(signal, kind, entity or self.port, selector))
        self.times.append(self._ends if all_known else self._ends[known])
        self.values.append(values if all_known else values[known])
