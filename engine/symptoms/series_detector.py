"""What detectors of series have in common: the cells that each judges, their state, and how it is taken over."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, Mask, rearrange_items, widen_items
from skewscope.engine.model.finding import Finding, FindingBatch
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.tick import NewSamples, Tick
from skewscope.engine.model.transfer import Places, copy_items, match_places
from skewscope.engine.symptoms.cells import JudgedCells


class Runs:
    """What counts in a row at each of n cells: how often it did, since when, and the newest value."""

    KEPT: ClassVar[Fills] = {"count": 0, "since": np.nan, "value": np.nan}
    count: Index
    since: F64
    """Seconds since 1970; NaN where nothing counts."""
    value: F64

    def __init__(self) -> None:
        widen_items(self, self.KEPT, 0)

    def add(self, at: Index, value: F64, time: F64) -> None:
        """Adds values of some, [k] each."""
        self.count[at] += 1
        self.since[at] = np.fmin(self.since[at], time)
        self.value[at] = value

    def end(self, at: Index) -> None:
        """Ends those of some."""
        self.count[at], self.since[at] = 0, np.nan

    def follow(self, at: Index, counts: Mask, value: F64, time: F64, goes_on: Mask | None = None) -> None:
        """Adds the values that count, [k] each, and ends the runs of the others, unless it `goes_on` [n]."""
        self.end(at[~counts] if goes_on is None else at[~counts & ~goes_on[at]])
        self.add(at[counts], value[counts], time[counts])


@dataclass(frozen=True, slots=True)
class CellPlaces:
    """Where cells, sets of peers and memberships in these were and are."""

    cells: Places
    sets: Places
    pairs: Places

    def of_some(self, now: Index, before: Index) -> Places:
        """Returns the places within lists of some of the cells."""
        return match_places(self.cells.locate(before).tolist(), now.tolist())


def match_cells(now: JudgedCells, before: JudgedCells) -> CellPlaces:
    """Returns where the cells that both have were and are."""
    cells = match_places(list(_cell_keys(before)), list(_cell_keys(now)))
    sets = match_places(list(before.set_numbers), list(now.set_numbers))
    pairs = zip(cells.locate(before.pair_cell).tolist(), sets.locate(before.pair_set).tolist(), strict=True)
    old = [(cell, number) if cell >= 0 and number >= 0 else None for cell, number in pairs]
    new = list(zip(now.pair_cell.tolist(), now.pair_set.tolist(), strict=True))
    return CellPlaces(cells, sets, match_places(old, new))


def _cell_keys(cells: JudgedCells) -> Iterable[tuple[object, ...]]:
    for signal, place, selector in zip(cells.signals, cells.places, cells.selectors, strict=True):
        yield signal.id, place, selector


class CellTable(Protocol):
    """An object with arrays of the cells that a detector judges."""

    KEPT: ClassVar[Fills]


class SeriesDetector(ABC):
    """A detector of some of the judged series. Its arrays are [cell that it judges]."""

    KEPT: ClassVar[Fills] = {}
    """Its arrays, each with the value of a cell that is new; an engine for another topology takes them over..."""
    TABLES: ClassVar[Mapping[str, type[CellTable]]] = {}
    """...as it does its other objects with such arrays..."""
    BY_CELL: ClassVar[tuple[str, ...]] = ()
    """...and what it knows by the numbers of cells."""

    def __init__(self, cells: JudgedCells) -> None:
        self.cells = cells
        self.at: Index = np.empty(0, np.intp)
        """The cells."""
        self._place: Index = np.empty(0, np.intp)
        """[cell of all] position among these, or -1."""
        self._found: tuple[Finding, ...] = ()
        self.is_over = False
        """Whether the data has ended."""
        widen_items(self, self.KEPT, 0)
        for name, table in self.TABLES.items():
            setattr(self, name, table())
        for name in self.BY_CELL:
            setattr(self, name, {})

    def _tables(self) -> Iterator[CellTable]:
        yield self
        yield from (getattr(self, name) for name in self.TABLES)

    def judges(self, _cell: int) -> bool:
        """Returns whether it judges a cell."""
        return False

    def grow(self) -> None:
        """Makes room for new cells."""
        places = {cell: n for n, cell in enumerate(self.at.tolist())}
        at = [cell for cell in range(len(self.cells)) if self.judges(cell)]
        old = np.array([places.get(cell, -1) for cell in at], np.intp)
        for table in self._tables():
            rearrange_items(table, table.KEPT, old)
        self.at = np.array(at, np.intp)
        self._place = np.full(len(self.cells), -1, np.intp)
        self._place[self.at] = np.arange(len(at))
        self.learn_cells()

    def learn_cells(self) -> None:  # noqa: B027 - not all have to
        """Works out what follows from the cells alone."""

    def finding_on(self, n: int, pattern: str, direction: str, numbers: Iterable[float], message: str = "") -> Finding:
        """Returns a finding on the n-th of its own cells; numbers are since when, its value and the reference."""
        since, value, reference = map(float, numbers)
        return Finding(*self.cells.subject(int(self.at[n])), pattern, direction, since, value, reference, message)

    def select(self, new: NewSamples) -> tuple[Index, F64, F64]:
        """Returns the new samples of its own cells: [k] places among these, values, and times in seconds."""
        place = self._place[new.cells]
        some = place >= 0
        return place[some], new.value[some], new.time[some]

    def step(self, tick: Tick) -> None:
        """Takes in what a tick brings; without a sample nothing changes."""
        if len(tick.new.cells):
            self.judge(tick)
            self._found = tuple(self.find())

    @abstractmethod
    def judge(self, tick: Tick) -> None:
        """Takes in the samples of a tick."""

    def find(self) -> Iterable[Finding]:
        """Returns what it finds as of now; nothing where it is not known what is normal."""
        return ()

    def findings(self) -> Sequence[FindingBatch]:
        """Returns what it finds as of the last tick."""
        return (self._found,)

    def end(self) -> None:  # noqa: B027
        """Ends the data."""

    def conclude(self) -> None:
        """Ends the data: what was bad from the first to the last sample is found."""
        self.is_over = True
        self.end()
        self._found = tuple(self.find())

    def next_change(self) -> float:
        """Returns the time in seconds before which a tick without samples would change nothing."""
        return np.inf

    def judged_cells(self) -> Index:
        """Returns the cells that could be compared with their past, or with their good value."""
        return np.empty(0, np.intp)

    def doubts(self) -> Iterable[Finding]:
        """Returns what may be bad and cannot be judged, as nothing like it was seen before."""
        return ()

    def keep_known(self, is_known: Callable[[Entity], bool]) -> None:
        """Drops what was found at places that there are no more."""
        self._found = tuple(one for one in self._found if is_known(one.place))

    def take_over(self, before: Self, places: CellPlaces) -> None:
        """Goes on with all that another detector of its kind learned of the cells that both have."""
        own = places.of_some(self.at, before.at)
        for table, old in zip(self._tables(), before._tables(), strict=True):
            copy_items(table, old, table.KEPT, own)
        for name in self.BY_CELL:
            setattr(self, name, places.cells.carry(getattr(before, name)))
        self._found = before._found
