"""Where the columns of frames are among the series, and when each of them was last delivered."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.ingest.feed import FrameColumn
from skewscope.engine.ingest.sampling import SamplingPeriods
from skewscope.engine.ingest.timestamps import CommonTimestamp
from skewscope.engine.model.sets import Index


@dataclass(slots=True)
class ColumnLayout:
    """One column that some rule reads."""

    number: int
    """In its schema."""
    series: slice
    """The numbers of its series."""
    is_cumulative: bool
    """Whether it is a counter's."""
    lowest_end: float
    """Below this a counter is at no end of its range."""
    time: float = np.nan
    """Of its newest samples."""
    is_complete: bool = False
    """Whether the newest delivery had a sound value for every series."""
    has_started: bool = False
    """Whether every series has had a sample."""


@dataclass(slots=True)
class FrameLayout:
    """The columns of one schema."""

    schema: tuple[FrameColumn, ...]
    sampling: SamplingPeriods
    """Of all its series."""
    columns: list[ColumnLayout] = field(default_factory=list)
    time: float = np.nan
    """Of the newest frame."""


class ColumnIndex:
    """The columns of all schemas, in the order of their series."""

    def __init__(self) -> None:
        self._columns: list[ColumnLayout] = []
        self._begins: list[int] = []

    def add(self, part: ColumnLayout) -> None:
        """Notes a column; it lies behind all that were noted before."""
        self._columns.append(part)
        self._begins.append(part.series.start)

    def columns_of(self, series: Index) -> tuple[ColumnLayout, ...]:
        """The columns in which series lie, -1 passed over; none if some series lies in no column."""
        numbers = series[series >= 0]
        if not len(numbers) or not self._columns:
            return ()
        place = np.searchsorted(self._begins, numbers, side="right") - 1
        ends = np.array([part.series.stop for part in self._columns])
        if (place < 0).any() or (numbers >= ends[place]).any():
            return ()
        return tuple(self._columns[n] for n in np.unique(place))


def common_timestamp_of(parts: Sequence[ColumnLayout]) -> CommonTimestamp | None:
    """When columns were last delivered, if all at one time."""
    if not parts or any(part.time != parts[0].time for part in parts):
        return None
    return CommonTimestamp(parts[0].time, all(part.is_complete for part in parts))
