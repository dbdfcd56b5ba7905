"""Where the columns of frames are among the series, and when each of them was last delivered."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.feed import Column
from skewscope.engine.moments import Moment
from skewscope.engine.rhythm import Rhythm
from skewscope.engine.sets import Index


@dataclass(slots=True)
class Part:
    """One column that some rule reads."""

    number: int
    """In its schema."""
    at: slice
    """The numbers of its series."""
    counts: bool
    """Whether it is a counter's."""
    end: float
    """Below this a counter is at no end of its range."""
    time: float = np.nan
    """Of its newest samples."""
    whole: bool = False
    """Whether the newest delivery had a sound value for every series."""
    born: bool = False
    """Whether every series has had a sample."""


@dataclass(slots=True)
class Laid:
    """The columns of one schema."""

    schema: tuple[Column, ...]
    rhythm: Rhythm
    """Of all its series."""
    parts: list[Part] = field(default_factory=list)
    time: float = np.nan
    """Of the newest frame."""


class Parts:
    """The columns of all schemas, in the order of their series."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._begins: list[int] = []

    def add(self, part: Part) -> None:
        """Notes a column; it lies behind all that were noted before."""
        self._parts.append(part)
        self._begins.append(part.at.start)

    def under(self, series: Index) -> tuple[Part, ...]:
        """The columns in which series lie, -1 passed over; none if some series lies in no column."""
        numbers = series[series >= 0]
        if not len(numbers) or not self._parts:
            return ()
        place = np.searchsorted(self._begins, numbers, side="right") - 1
        ends = np.array([part.at.stop for part in self._parts])
        if (place < 0).any() or (numbers >= ends[place]).any():
            return ()
        return tuple(self._parts[n] for n in np.unique(place))


def moment_of(parts: Sequence[Part]) -> Moment | None:
    """When columns were last delivered, if all at one time."""
    if not parts or any(part.time != parts[0].time for part in parts):
        return None
    return Moment(parts[0].time, all(part.whole for part in parts))
