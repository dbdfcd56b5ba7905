"""What sources handed over, as the block of a tick in the engine's numbers.

Only series that rules read get a number. Where several names deliver one signal of an entity, the one that the
catalogue lists first counts, as in a recording; a better one that comes later takes over from then on. All of this
runs where the engine runs: nothing else may number its series.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, ref

import numpy as np

from skewscope.adapters.sources.base import Batch, Columns, values_in
from skewscope.engine.feed import F64, I32, Block, SeriesKey, SeriesTable, empty
from skewscope.engine.panel import WATERMARK, Panel
from skewscope.engine.sets import Index, Mask

MOST_AHEAD = 5.0
"""Seconds that a sample from the future waits for its tick; what is further off counts as of now."""
MOST_AT_ONCE = 2_500_000
"""Values that a tick takes in; they are put in order, and a tick that is late must not be the cause of the next."""
MOST_SERIES = 16_000_000
"""Series that the engine is given."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Mapping:
    """The engine's numbers of some columns; -1 where nobody reads one, or a better one is there."""

    numbers: I32
    dense: tuple[Index, I32]
    """Places that somebody reads, and their numbers, for batches of all columns."""
    sound: bool = True
    """Whether nothing better came since."""


@dataclass(slots=True)
class _Entity:
    """Which names deliver the signals of one entity."""

    best: dict[str, int] = field(default_factory=dict)
    """Rank of the best name, by signal."""
    mappings: list[ref[_Mapping]] = field(default_factory=list)
    """Of all columns that have something of it, as long as they are there."""

    def join(self, mapping: _Mapping) -> None:
        """Notes that some columns have something of it."""
        if not any(other() is mapping for other in self.mappings[-1:]):
            self.mappings = [other for other in self.mappings if other() is not None]
            self.mappings.append(ref(mapping))

    def upset(self) -> None:
        """All columns that have something of it are to be looked at anew."""
        for other in self.mappings:
            if (mapping := other()) is not None:
                mapping.sound = False


@dataclass(slots=True)
class _Part:
    """Samples of one batch, for the engine."""

    time: F64 | float
    series: I32
    value: F64


class Gathering:
    """Turns batches into blocks."""

    def __init__(self, wanted: Collection[str] = ()) -> None:
        self.table = SeriesTable()
        self.late = 0
        """Values that came after what the engine's watermark allows, by their batch's time."""
        self.unplaced = 0
        """Series beyond those that there is room for."""
        self.passed_over = 0
        """Values of rows that a newer one stood for, when too much came at once."""
        self._wanted = frozenset(wanted)
        self._mappings: WeakKeyDictionary[Columns, _Mapping] = WeakKeyDictionary()
        self._entities: dict[tuple[str, str], _Entity] = {}
        self._held: list[Batch] = []

    def read(self, panel: Panel) -> None:
        """Give numbers to what a panel keeps."""
        self._wanted = panel.wanted | panel.also

    def block(self, batches: Iterable[Batch], until: float) -> Block:
        """All that is of the tick that ends at `until`, or of an earlier one; what is of a later one waits for it."""
        waiting, self._held = [*self._held, *batches], []
        due = [now for batch in waiting if (now := self._due(batch, until))]
        if values_in(due) > MOST_AT_ONCE:
            due = self._newest(due)
        parts = [self._part(batch) for batch in due]
        parts = [part for part in parts if len(part.series)]
        if not parts:
            return empty()
        times = [_full(part) for part in parts]
        self.late += sum(int(np.count_nonzero(time < until - 1.0 - WATERMARK)) for time in times)
        value = np.concatenate([part.value for part in parts])
        # Nothing can be counted with infinities.
        if np.isinf(value).any():
            value = np.where(np.isinf(value), np.nan, value)
        return Block(np.concatenate(times), np.concatenate([part.series for part in parts]), value)

    def _newest(self, due: list[Batch]) -> list[Batch]:
        """Only the newest row of each table, where more came than a tick can take: the next one is not late for it."""
        newest = {id(batch.columns): batch for batch in due if batch.numbers is None}
        kept = [batch for batch in due if batch.numbers is not None or newest[id(batch.columns)] is batch]
        self.passed_over += values_in(due) - values_in(kept)
        return kept

    def _due(self, batch: Batch, until: float) -> Batch | None:
        """What of a batch is not of the future; the rest is kept."""
        if isinstance(batch.time, float | int):
            if until < batch.time <= until + MOST_AHEAD:
                self._held.append(batch)
                return None
            return batch
        later = (batch.time > until) & (batch.time <= until + MOST_AHEAD)
        if not later.any():
            return batch
        self._held.append(_some(batch, later))
        return _some(batch, ~later)

    def _part(self, batch: Batch) -> _Part:
        mapping = self._mapping(batch.columns)
        if batch.numbers is None:
            places, numbers = mapping.dense
            # Series are announced before their values, so a batch is no longer than its columns.
            size = int(np.searchsorted(places, len(batch.value)))
            time = batch.time if isinstance(batch.time, float | int) else batch.time[places[:size]]
            return _Part(time, numbers[:size], batch.value[places[:size]])
        numbers = mapping.numbers[batch.numbers]
        some = np.flatnonzero(numbers >= 0)
        time = batch.time if isinstance(batch.time, float | int) else batch.time[some]
        return _Part(time, numbers[some], batch.value[some])

    # --- numbers

    def _mapping(self, columns: Columns) -> _Mapping:
        found = self._mappings.get(columns)
        if found is None:
            found = self._mappings[columns] = _mapped(np.empty(0, np.int32))
        # The source may go on to add series meanwhile: those of which values came are there, ranks last.
        size = len(columns.ranks)
        if len(found.numbers) < size:
            self._rank(columns, found, size)
        if not found.sound or len(found.numbers) < size:
            fresh = _mapped(self._numbers(columns, size))
            found.numbers, found.dense, found.sound = fresh.numbers, fresh.dense, True
        return found

    def _rank(self, columns: Columns, mapping: _Mapping, size: int) -> None:
        """Notes by which names new columns come; whoever came by a worse one is looked at anew."""
        new = slice(len(mapping.numbers), size)
        for key, rank in zip(columns.keys[new], columns.ranks[new], strict=True):
            if key.signal not in self._wanted:
                continue
            entity = self._entities.setdefault((key.kind, key.entity), _Entity())
            entity.join(mapping)
            best = entity.best.setdefault(key.signal, rank)
            if rank < best:
                entity.best[key.signal] = rank
                entity.upset()

    def _numbers(self, columns: Columns, size: int) -> I32:
        pairs = zip(columns.keys[:size], columns.ranks[:size], strict=True)
        return np.fromiter((self._number(key, rank) for key, rank in pairs), np.int32, size)

    def _number(self, key: SeriesKey, rank: int) -> int:
        if key.signal not in self._wanted or rank > self._entities[key.kind, key.entity].best[key.signal]:
            return -1
        if len(self.table.keys) >= MOST_SERIES:
            self.unplaced += 1
            return -1
        return self.table.number(key)


def _mapped(numbers: I32) -> _Mapping:
    places = np.flatnonzero(numbers >= 0)
    return _Mapping(numbers, (places, numbers[places]))


def _some(batch: Batch, which: Mask) -> Batch:
    """Some values of a batch that has a time for each."""
    assert not isinstance(batch.time, float | int)
    at = np.flatnonzero(which)
    numbers = at.astype(np.int32) if batch.numbers is None else batch.numbers[at]
    return Batch(batch.columns, numbers, batch.time[at], batch.value[at])


def _full(part: _Part) -> F64:
    if isinstance(part.time, float | int):
        return np.full(len(part.series), float(part.time))
    return part.time
