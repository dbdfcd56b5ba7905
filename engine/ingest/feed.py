"""What sources hand to the engine: numbers, each with a time and a series."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, I32, Index

TICK_S = 1.0
"""Seconds of data between two evaluations of the rules."""


@dataclass(frozen=True, slots=True, order=True)
class SeriesKey:
    """One series: a signal of the catalogue on one entity of the topology."""

    signal: str
    kind: str
    """node, port, gpu, rank, group, replica, pool, link, peer or fleet."""
    entity: str
    """Its name in the topology; a port is `node/port`, a rank `group:member`, a peer `node/port>node/port` with the
    observer first, or `node/port>node` where any of the peer's ports counts."""
    selector: str = ""
    """What else tells series of one entity apart: tx, rx, p3, a group's name, an engine's index, another label as
    `label=value`. Several are joined by commas; a histogram's part (`bucket:0.5`, `sum`, `count`) is the last."""


@dataclass
class SeriesTable:
    """Series by number. It only grows; a number never changes its meaning."""

    keys: list[SeriesKey] = field(default_factory=list)
    _number: dict[SeriesKey, int] = field(default_factory=dict)
    senders: dict[SeriesKey, str] = field(default_factory=dict)
    """Senders of the series that another than the entity's own node delivers (see `model.senders`)."""

    def number(self, key: SeriesKey) -> int:
        """The number of a series, a new one when it was not known."""
        found = self._number.get(key)
        if found is None:
            found = self._number[key] = len(self.keys)
            self.keys.append(key)
        return found

    def __contains__(self, key: SeriesKey) -> bool:
        return key in self._number

    def copy(self) -> "SeriesTable":
        """The same series under the same numbers, to which others may be added from now on."""
        return SeriesTable(list(self.keys), dict(self._number), dict(self.senders))


@dataclass(frozen=True, slots=True)
class Block:
    """Samples as columns of equal length, in no order that matters.

    Times are seconds since 1970, UTC; NaN values are gaps.
    """

    time: F64
    series: I32
    value: F64

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """One signal with one selector on many entities of its kind."""

    signal: str
    selector: str = ""
    entities: NDArray[np.intp] | None = field(default=None, compare=False)
    """Which, by their place in the topology; None: all, in its order."""


@dataclass(frozen=True, slots=True)
class SampleFrame:
    """One sample of every series of a schema: what a large fleet sends, where a key for each series would be too dear.

    A schema is the same object in every tick. Values are [entities] of any float type, one array for each column; NaN
    is a gap. Only columns that some rule reads are looked at.
    """

    schema: tuple[FrameColumn, ...]
    time: float
    """Of all samples, seconds since 1970, UTC."""
    values: Sequence[NDArray[np.floating[Any]]]


def empty_block() -> Block:
    """A block without samples."""
    return Block(np.empty(0), np.empty(0, np.int32), np.empty(0))


def concat_blocks(blocks: Iterable[Block]) -> Block:
    """The samples of several blocks as one block, in their order."""
    parts = [empty_block(), *blocks]
    time, series, value = ([getattr(b, name) for b in parts] for name in ("time", "series", "value"))
    return Block(np.concatenate(time), np.concatenate(series), np.concatenate(value))


def merge_blocks(blocks: Iterable[Block]) -> Block:
    """All samples of several blocks in one, ordered by time, then series: the same whatever the order of `blocks`."""
    all_ = concat_blocks(blocks)
    order = _order_by_time_and_series(all_.time, all_.series)
    time, series = all_.time[order], all_.series[order]
    if ((time[1:] == time[:-1]) & (series[1:] == series[:-1])).any():
        order = np.lexsort((all_.value, all_.series, all_.time))
    return Block(time, series, all_.value[order])


def _order_by_time_and_series(time: F64, series: I32) -> Index:
    """Returns [sample] what sorts samples by time, then series."""
    if len(time) and (time[1:] >= time[:-1]).all() and series.min() >= 0:
        # One whole number for both is sorted in a quarter of the time.
        moment = np.append(0, np.cumsum(time[1:] != time[:-1]))
        return np.argsort(moment * (int(series.max()) + 1) + series)
    return np.lexsort((series, time))
