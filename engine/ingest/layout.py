"""Where the series of each signal and the columns of frames are in the arrays of `SeriesState`."""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.ingest.feed import FrameColumn
from skewscope.engine.ingest.samples import SamplingPeriods
from skewscope.engine.model.arrays import Index, sort_unique

# --- series of a signal

MAX_SELECTORS = 1 << 12
"""Series of one signal that an entity may have: a label that never repeats must not fill the memory."""


@dataclass
class SeriesRows:
    """The series of one signal: `series[r, e]` is the number of entity e's series with selector r, or -1."""

    selectors: list[str] = field(default_factory=list)
    series: Index = field(default_factory=lambda: np.empty((0, 0), np.intp))
    version: int = 0
    _row: dict[str, int] = field(default_factory=dict)
    _selections: dict[Hashable, Index] = field(default_factory=dict)
    """What was selected from `series` as of `_selected_from`."""
    _selected_from: Hashable = None

    def has_room(self, selector: str) -> bool:
        """May a series with this selector be placed?"""
        return selector in self._row or len(self._row) < MAX_SELECTORS

    def row_of(self, selector: str) -> int:
        """Returns the row of a selector, which is a new one where it had none."""
        row = self._row.setdefault(selector, len(self._row))
        if row == len(self.selectors):
            self.selectors.append(selector)
        return row

    def place(self, rows: Index | int, entities: Index | Sequence[int], numbers: Index, size: int) -> None:
        """Store some series at once, since the index is copied where it grows.

        Args:
            rows: [series] or for all: as `row_of` returned them.
            entities: [series] of `size` ones.
            numbers: [series] of the series; the last one counts where several have one place.
            size: number of entities.
        """
        self.series = grow_index(self.series, (len(self.selectors), size))
        self.series[rows, entities] = numbers
        self.version += 1

    def select(self, key: Hashable, entity_version: int, choose: Callable[[Index], Index]) -> Index:
        """Returns what `choose` makes of all series: one array for all that ask with the same key.

        It holds until series come, or the entities have another version.
        """
        now = self.version, self.series.shape, entity_version
        if self._selected_from != now:
            self._selected_from, self._selections = now, {}
        if key not in self._selections:
            self._selections[key] = choose(self.series)
        return self._selections[key]


def grow_index(index: Index, shape: tuple[int, int]) -> Index:
    """An index with room for a shape, -1 where it had no place before."""
    if index.shape[0] >= shape[0] and index.shape[1] >= shape[1]:
        return index
    out = np.full((max(index.shape[0], shape[0]), max(index.shape[1], shape[1])), -1, np.intp)
    out[: index.shape[0], : index.shape[1]] = index
    return out


def selector_words(selector: str) -> frozenset[str]:
    """The words by which a rule can name a selector: `tx,p3` has tx and p3."""
    return frozenset(part.strip().replace("-", "_") for part in selector.split(",") if part.strip())


def match_selectors(selectors: Iterable[str], words: Collection[str]) -> list[int]:
    """Which selectors have all the words."""
    wanted = {word.replace("-", "_") for word in words}
    return [n for n, selector in enumerate(selectors) if wanted <= selector_words(selector)]


# --- columns of frames


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
    """Whether the newest delivery had a valid value for every series."""
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
        """Add a column; its series come after those of all columns added before."""
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
        return tuple(self._columns[n] for n in sort_unique(place))
