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

from skewscope.adapters.sources.base import SeriesColumns, SourceBatch, count_values
from skewscope.engine.ingest.feed import I32, Block, SeriesKey, SeriesTable
from skewscope.engine.ingest.series_state import WATERMARK, SeriesState
from skewscope.engine.model.sets import Index, Mask

MAX_AHEAD = 5.0
"""Seconds that a sample from the future waits for its tick; what is further off counts as of now."""
MAX_AT_ONCE = 2_500_000
"""Values that a tick takes in; they are put in order, and a tick that is late must not be the cause of the next."""
NO_RANK = 1 << 30
"""Stands for the rank of what nobody delivers: worse than any."""
MAX_SERIES = 16_000_000
"""Series that the engine is given."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class _ColumnMapping:
    """The engine's numbers of some columns; -1 where nobody reads one, or a better one is there."""

    numbers: I32
    dense: tuple[Index, I32]
    """Places that somebody reads, and their numbers, for batches of all columns."""
    is_valid: bool = True
    """Whether nothing better came since."""


@dataclass(slots=True, eq=False)
class _EntityRanks:
    """Which names deliver the signals of one entity."""

    best: "array[int]"
    """Rank of the best name of each signal that is read; `NONE` where nobody delivers it. No dict: a fleet has many."""
    mappings: list[ref[_ColumnMapping]] = field(default_factory=list)
    """Of all columns that have something of it, as long as they are there."""

    def add_mapping(self, mapping: _ColumnMapping) -> None:
        """Notes that some columns have something of it."""
        self.mappings = [other for other in self.mappings if other() not in (None, mapping)]
        self.mappings.append(ref(mapping))

    def invalidate(self) -> None:
        """All columns that have something of it are to be looked at anew."""
        for other in self.mappings:
            if (mapping := other()) is not None:
                mapping.is_valid = False


@dataclass(slots=True)
class _BatchPart:
    """What of one batch is for the engine."""

    batch: SourceBatch
    positions: Index
    """Of its values."""
    series: I32
    """Their numbers."""


class Batcher:
    """Turns batches into blocks."""

    def __init__(self, wanted: Collection[str] = ()) -> None:
        self.table = SeriesTable()
        self.late_values = 0
        """Values that came after what the engine's watermark allows, by their batch's time."""
        self.overflow_series = 0
        """Series beyond those that there is room for."""
        self.superseded_values = 0
        """Values of rows that a newer one stood for, when too much came at once."""
        self._signal_positions = {signal: n for n, signal in enumerate(wanted)}
        """Of each signal that is read, among the ranks of an entity."""
        self._mappings: WeakKeyDictionary[SeriesColumns, _ColumnMapping] = WeakKeyDictionary()
        self._entities: dict[tuple[str, str], _EntityRanks] = {}
        self._pending: list[SourceBatch] = []

    def select_signals(self, panel: SeriesState) -> None:
        """Gives numbers to what a panel keeps; to be told before the first block."""
        self._signal_positions = {
            signal: n for n, signal in enumerate(sorted(panel.rule_signals | panel.extra_signals))
        }

    def build_block(self, batches: Iterable[SourceBatch], until: float) -> Block:
        """All that is of the tick that ends at `until`, or of an earlier one; what is of a later one waits for it."""
        waiting, self._pending = [*self._pending, *batches], []
        due = [now for batch in waiting if (now := self._take_due(batch, until))]
        if count_values(due) > MAX_AT_ONCE:
            due = self._keep_newest(due)
        parts = [part for batch in due if len((part := self._build_part(batch)).series)]
        # In the order of their numbers, as far as batches go: the engine finds its places one after another then.
        parts.sort(key=lambda part: int(part.series[0]))
        block = _concat_parts(parts)
        self.late_values += int(np.count_nonzero(block.time < until - 1.0 - WATERMARK))
        # Nothing can be counted with infinities.
        block.value[np.isinf(block.value)] = np.nan
        return block

    def _keep_newest(self, due: list[SourceBatch]) -> list[SourceBatch]:
        """Only the newest row of each table, where more came than a tick can take: the next one is not late for it."""
        newest = {id(batch.columns): batch for batch in due if batch.numbers is None}
        kept = [batch for batch in due if batch.numbers is not None or newest[id(batch.columns)] is batch]
        self.superseded_values += count_values(due) - count_values(kept)
        return kept

    def _take_due(self, batch: SourceBatch, until: float) -> SourceBatch | None:
        """What of a batch is not of the future; the rest is kept."""
        if isinstance(batch.time, float | int):
            if until < batch.time <= until + MAX_AHEAD:
                self._pending.append(batch)
                return None
            return batch
        later = (batch.time > until) & (batch.time <= until + MAX_AHEAD)
        if not later.any():
            return batch
        self._pending.append(_select_values(batch, later))
        return _select_values(batch, ~later)

    def _build_part(self, batch: SourceBatch) -> _BatchPart:
        mapping = self._mapping_of(batch.columns)
        if batch.numbers is None:
            places, numbers = mapping.dense
            # Series are announced before their values, so a batch is no longer than its columns.
            size = int(np.searchsorted(places, len(batch.value)))
            return _BatchPart(batch, places[:size], numbers[:size])
        numbers = mapping.numbers[batch.numbers]
        some = np.flatnonzero(numbers >= 0)
        return _BatchPart(batch, some, numbers[some])

    # --- numbers

    def _mapping_of(self, columns: SeriesColumns) -> _ColumnMapping:
        found = self._mappings.get(columns)
        if found is None:
            found = self._mappings[columns] = _build_mapping(np.empty(0, np.int32))
        # The source may go on to add series meanwhile: those of which values came are there, ranks last.
        size = len(columns.ranks)
        if len(found.numbers) < size:
            self._update_ranks(columns, found, size)
        if not found.is_valid or len(found.numbers) < size:
            fresh = _build_mapping(self._series_numbers(columns, size))
            found.numbers, found.dense, found.is_valid = fresh.numbers, fresh.dense, True
        return found

    def _update_ranks(self, columns: SeriesColumns, mapping: _ColumnMapping, size: int) -> None:
        """Notes by which names new columns come; whoever came by a worse one is looked at anew."""
        new = slice(len(mapping.numbers), size)
        joined: set[_EntityRanks] = set()
        for key, rank in zip(columns.keys[new], columns.ranks[new], strict=True):
            place = self._signal_positions.get(key.signal)
            if place is None:
                continue
            entity = self._entity_ranks(key)
            if entity not in joined:
                joined.add(entity)
                entity.add_mapping(mapping)
            best = entity.best[place]
            if rank < best:
                entity.best[place] = rank
                if best != NO_RANK:
                    entity.invalidate()

    def _entity_ranks(self, key: SeriesKey) -> _EntityRanks:
        found = self._entities.get((key.kind, key.entity))
        if found is None:
            found = self._entities[key.kind, key.entity] = _EntityRanks(
                array("i", [NO_RANK]) * len(self._signal_positions)
            )
        return found

    def _series_numbers(self, columns: SeriesColumns, size: int) -> I32:
        pairs = zip(columns.keys[:size], columns.ranks[:size], strict=True)
        return np.fromiter((self._series_number(key, rank) for key, rank in pairs), np.int32, size)

    def _series_number(self, key: SeriesKey, rank: int) -> int:
        place = self._signal_positions.get(key.signal)
        if place is None or rank > self._entities[key.kind, key.entity].best[place]:
            return -1
        if len(self.table.keys) >= MAX_SERIES:
            self.overflow_series += 1
            return -1
        return self.table.number(key)


def _build_mapping(numbers: I32) -> _ColumnMapping:
    places = np.flatnonzero(numbers >= 0)
    return _ColumnMapping(numbers, (places, numbers[places]))


def _select_values(batch: SourceBatch, which: Mask) -> SourceBatch:
    """Some values of a batch that has a time for each."""
    assert not isinstance(batch.time, float | int)
    at = np.flatnonzero(which)
    numbers = at.astype(np.int32) if batch.numbers is None else batch.numbers[at]
    return SourceBatch(batch.columns, numbers, batch.time[at], batch.value[at])


def _concat_parts(parts: Sequence[_BatchPart]) -> Block:
    """All samples of some parts; each value is copied once."""
    ends = np.cumsum([len(part.series) for part in parts], dtype=np.intp).tolist()
    size = ends[-1] if ends else 0
    block = Block(np.empty(size), np.empty(size, np.int32), np.empty(size))
    begin = 0
    for part, end in zip(parts, ends, strict=True):
        at, time = slice(begin, end), part.batch.time
        block.series[at] = part.series
        block.time[at] = time if isinstance(time, float | int) else time[part.positions]
        # All places are there, so the mode changes nothing; without one numpy would fill a copy first.
        part.batch.value.take(part.positions, out=block.value[at], mode="clip")
        begin = end
    return block
