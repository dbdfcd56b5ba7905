"""What sources handed over, as the block of a tick in the engine's numbers.

Only series that rules read get a number. Where several names deliver one signal of an entity, the one that the
catalogue lists first counts, as in a recording; a better one that comes later takes over from then on. All of this
runs where the engine runs: nothing else may number its series.
"""

from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, ref

import numpy as np

from skewscope.adapters.sources.base import Batch, Columns, values_in
from skewscope.engine.feed import I32, Block, SeriesKey, SeriesTable
from skewscope.engine.panel import WATERMARK, Panel
from skewscope.engine.sets import Index, Mask

MOST_AHEAD = 5.0
"""Seconds that a sample from the future waits for its tick; what is further off counts as of now."""
MOST_AT_ONCE = 2_500_000
"""Values that a tick takes in; they are put in order, and a tick that is late must not be the cause of the next."""
NONE = 1 << 30
"""Stands for the rank of what nobody delivers: worse than any."""
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


@dataclass(slots=True, eq=False)
class _Entity:
    """Which names deliver the signals of one entity."""

    best: "array[int]"
    """Rank of the best name of each signal that is read; `NONE` where nobody delivers it. No dict: a fleet has many."""
    mappings: list[ref[_Mapping]] = field(default_factory=list)
    """Of all columns that have something of it, as long as they are there."""

    def join(self, mapping: _Mapping) -> None:
        """Notes that some columns have something of it."""
        self.mappings = [other for other in self.mappings if other() not in (None, mapping)]
        self.mappings.append(ref(mapping))

    def upset(self) -> None:
        """All columns that have something of it are to be looked at anew."""
        for other in self.mappings:
            if (mapping := other()) is not None:
                mapping.sound = False


@dataclass(slots=True)
class _Part:
    """What of one batch is for the engine."""

    batch: Batch
    places: Index
    """Of its values."""
    series: I32
    """Their numbers."""


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
        self._place = {signal: n for n, signal in enumerate(wanted)}
        """Of each signal that is read, among the ranks of an entity."""
        self._mappings: WeakKeyDictionary[Columns, _Mapping] = WeakKeyDictionary()
        self._entities: dict[tuple[str, str], _Entity] = {}
        self._held: list[Batch] = []

    def read(self, panel: Panel) -> None:
        """Gives numbers to what a panel keeps; to be told before the first block."""
        self._place = {signal: n for n, signal in enumerate(sorted(panel.wanted | panel.also))}

    def block(self, batches: Iterable[Batch], until: float) -> Block:
        """All that is of the tick that ends at `until`, or of an earlier one; what is of a later one waits for it."""
        waiting, self._held = [*self._held, *batches], []
        due = [now for batch in waiting if (now := self._due(batch, until))]
        if values_in(due) > MOST_AT_ONCE:
            due = self._newest(due)
        parts = [part for batch in due if len((part := self._part(batch)).series)]
        # In the order of their numbers, as far as batches go: the engine finds its places one after another then.
        parts.sort(key=lambda part: int(part.series[0]))
        block = _joined(parts)
        self.late += int(np.count_nonzero(block.time < until - 1.0 - WATERMARK))
        # Nothing can be counted with infinities.
        block.value[np.isinf(block.value)] = np.nan
        return block

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
            return _Part(batch, places[:size], numbers[:size])
        numbers = mapping.numbers[batch.numbers]
        some = np.flatnonzero(numbers >= 0)
        return _Part(batch, some, numbers[some])

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
        joined: set[_Entity] = set()
        for key, rank in zip(columns.keys[new], columns.ranks[new], strict=True):
            place = self._place.get(key.signal)
            if place is None:
                continue
            entity = self._entity(key)
            if entity not in joined:
                joined.add(entity)
                entity.join(mapping)
            best = entity.best[place]
            if rank < best:
                entity.best[place] = rank
                if best != NONE:
                    entity.upset()

    def _entity(self, key: SeriesKey) -> _Entity:
        found = self._entities.get((key.kind, key.entity))
        if found is None:
            found = self._entities[key.kind, key.entity] = _Entity(array("i", [NONE]) * len(self._place))
        return found

    def _numbers(self, columns: Columns, size: int) -> I32:
        pairs = zip(columns.keys[:size], columns.ranks[:size], strict=True)
        return np.fromiter((self._number(key, rank) for key, rank in pairs), np.int32, size)

    def _number(self, key: SeriesKey, rank: int) -> int:
        place = self._place.get(key.signal)
        if place is None or rank > self._entities[key.kind, key.entity].best[place]:
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


def _joined(parts: Sequence[_Part]) -> Block:
    """All samples of some parts; each value is copied once."""
    ends = np.cumsum([len(part.series) for part in parts], dtype=np.intp).tolist()
    size = ends[-1] if ends else 0
    block = Block(np.empty(size), np.empty(size, np.int32), np.empty(size))
    begin = 0
    for part, end in zip(parts, ends, strict=True):
        at, time = slice(begin, end), part.batch.time
        block.series[at] = part.series
        block.time[at] = time if isinstance(time, float | int) else time[part.places]
        # All places are there, so the mode changes nothing; without one numpy would fill a copy first.
        part.batch.value.take(part.places, out=block.value[at], mode="clip")
        begin = end
    return block
