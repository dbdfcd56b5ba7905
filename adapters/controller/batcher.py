"""Combines the batches of sources into the block of a tick, in the engine's numbering.

Only series that rules read get a number. Where several names deliver one signal of an entity, the name listed first in
the catalogue counts, as in a recording; a better one that appears later takes over. All of this runs in the engine's
thread: nothing else may number its series.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, ref

import numpy as np

from skewscope.adapters.mapping.engines import (
    EQUAL_LABELS,
    SEVERAL_ENGINES,
    CounterWatch,
    EngineLedger,
    EnginePlace,
    Identity,
    split_key,
)
from skewscope.adapters.sources.common.base import SeriesColumns, SourceBatch, count_values
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.arrays import F64, I32, Index, Mask
from skewscope.engine.model.topology import Topology

MAX_AHEAD = 5.0
"""Seconds that a sample from the future is held for its tick; a later one counts as of now."""
MAX_AT_ONCE = 2_500_000
"""Maximum values per tick: a late tick must not delay the next one."""
NO_RANK = 1 << 30
"""The rank where no name delivers: worse than any."""
MAX_SERIES = 16_000_000
"""Maximum number of series given to the engine."""
MAX_OWNER_SERIES = 1 << 16
"""Maximum of one owner, such as an agent under all its boots: ten times what an agent with all its series has."""
MAX_OWNER_ENTITIES = 1 << 14
"""Maximum of entities that one owner may be the first to report: each takes memory before any series has a number."""
MAX_OWNER_SELECTORS = 512
"""Maximum of selectors of one signal that one owner may be the first to use: as many as a large node has processors."""
MAX_OWNER_CELLS = 1 << 19
"""Maximum of selectors that one owner may be the first to use, times the nodes of the topology: the engine keeps eight
bytes for each entity and selector of a signal, and looks at each in every tick."""
MIN_OWNER_SELECTORS = 256
"""So many selectors any owner may be the first to use; what nodes of one make use together is of several owners."""
MAX_NEW_COLUMNS = 1 << 11
"""Maximum of new columns of one owner that a tick takes in; the others follow in the next ticks. Each takes some ten
microseconds of engine and symptoms, so that a few owners with all their series at once would delay a tick."""
FORGET_S = 600.0
"""Seconds of silence after which the series of an owner that has too many make room for others."""
KEPT_CLAIM_S = 60.0
"""Seconds for which a claim of an earlier batcher counts: it is found anew within them, or it is over."""
MAX_NAMED = 3
"""Owners that a problem names."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class _ColumnMapping:
    """The engine's numbers of some columns; -1 where the column is unread or superseded by a better name."""

    numbers: I32
    dense: tuple[Index, I32]
    """[column] positions that are read and [column] int32 numbers, for batches of all columns."""
    is_valid: bool = True
    """Whether no better name has appeared since."""
    watched: dict[int, tuple[EnginePlace, Identity]] = field(default_factory=dict)
    """[column] those that tell which engine reports for a replica."""
    counted: dict[int, int] = field(default_factory=dict)
    """[column] counters of engines, and their places in the watch for equal labels."""
    claimed: Mapping[str, int] = field(default_factory=dict)
    """Number of columns that are not used since several engines claim their replica, by reason."""


@dataclass(slots=True, eq=False)
class _EntityRanks:
    """The names that deliver the signals of one entity."""

    best: "array[int]"
    """[signal] rank of the best name; `NO_RANK` where none delivers it. An array, since a fleet has many."""
    owner: str = ""
    """Whose series were the first of the entity."""
    mappings: list[ref[_ColumnMapping]] = field(default_factory=list)
    """All mappings that contain a signal of the entity, weakly referenced."""

    def add_mapping(self, mapping: _ColumnMapping) -> None:
        """Registers a mapping that contains a signal of the entity."""
        self.mappings = [other for other in self.mappings if other() not in (None, mapping)]
        self.mappings.append(ref(mapping))

    def invalidate(self) -> None:
        """Invalidates all registered mappings."""
        for other in self.mappings:
            if (mapping := other()) is not None:
                mapping.is_valid = False


@dataclass(slots=True)
class _BatchPart:
    """The part of a batch that goes to the engine."""

    batch: SourceBatch
    positions: Index
    """[value] positions in the batch."""
    series: I32
    """[value] int32 series numbers."""


class Batcher:
    """Turns batches into blocks."""

    def __init__(
        self,
        wanted: Collection[str] = (),
        topology: Topology | None = None,
        of_engines: frozenset[str] = frozenset(),
        counters: frozenset[str] = frozenset(),
    ) -> None:
        """Constructs it.

        Args:
            wanted: the signals whose series get numbers.
            topology: says which replicas may have several engines.
            of_engines: signals that engines report of themselves.
            counters: those of them that are counters.
        """
        self.table = SeriesTable()
        self.claimed_replicas: dict[str, str] = {}
        """Replicas that several engines claim, each with a sentence; their engines' series get no numbers."""
        self.full_owners: set[str] = set()
        """Owners with series above their limit."""
        self._owned_series: Counter[str] = Counter()
        self._owned_entities: Counter[str] = Counter()
        self._owners: dict[str, int] = {}
        self._selectors: dict[tuple[str, str], str] = {}
        """The owner that was the first to use each (signal, selector)."""
        self._owned_selectors: Counter[str] = Counter()
        self._owned_selectors_of_signal: Counter[tuple[str, str]] = Counter()
        """By (owner, signal)."""
        nodes = max(len(topology.nodes) if topology else 1, 1)
        self._max_owner_selectors = max(MAX_OWNER_CELLS // nodes, MIN_OWNER_SELECTORS)
        self._new_columns: Counter[str] = Counter()
        """New columns by owner that this tick has taken in."""
        self._owner_of = array("i")
        """[series] number of its owner; -1 for none. The last ones may lack."""
        self.superseded_values = 0
        """Values of rows that a newer row superseded, when too many arrived at once."""
        self._signal_positions = {signal: n for n, signal in enumerate(wanted)}
        """Position of each read signal within the ranks of an entity."""
        self._mappings: WeakKeyDictionary[SeriesColumns, _ColumnMapping] = WeakKeyDictionary()
        self._entities: dict[tuple[str, str], _EntityRanks] = {}
        self._pending: list[SourceBatch] = []
        self._ledger = EngineLedger(topology or Topology())
        self._of_engines, self._counters = of_engines, counters
        self._watch = CounterWatch([])
        self._identities: dict[EnginePlace, set[Identity]] = {}
        self._kept_claims: dict[str, tuple[str, str]] = {}
        """(reason, sentence) of the replicas that an earlier batcher found to be claimed, and until when they count."""
        self._claims_kept_until = -np.inf
        self._claim_reasons: dict[str, str] = {}
        """Why the series of each claimed replica are not used."""

    def select_signals(self, signals: Collection[str]) -> None:
        """Sets the signals whose series get numbers. Call it before the first block is built."""
        self._signal_positions = {signal: n for n, signal in enumerate(sorted(signals))}

    def build_block(self, batches: Iterable[SourceBatch], until: float) -> Block:
        """Returns the block of samples up to `until`; later samples are held."""
        self._new_columns.clear()
        waiting, self._pending = [*self._pending, *batches], []
        due = [now for batch in waiting if (now := self._take_due(batch, until))]
        if count_values(due) > MAX_AT_ONCE:
            due = self._keep_newest(due)
        self._check_engines(due, until)
        parts = [part for batch in due if len((part := self._build_part(batch)).series)]
        # Sorted by number as far as possible: the engine then accesses memory in order.
        parts.sort(key=lambda part: int(part.series[0]))
        block = _concat_parts(parts)
        # Infinities would spoil sums.
        block.value[np.isinf(block.value)] = np.nan
        return block

    def _keep_newest(self, due: list[SourceBatch]) -> list[SourceBatch]:
        """Keeps only the newest row of each table when there are more than a tick can process."""
        newest = {id(batch.columns): batch for batch in due if batch.numbers is None}
        kept = [batch for batch in due if batch.numbers is not None or newest[id(batch.columns)] is batch]
        self.superseded_values += count_values(due) - count_values(kept)
        return kept

    def _take_due(self, batch: SourceBatch, until: float) -> SourceBatch | None:
        """Returns the part of a batch that is due; the rest is held."""
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
            # Series are announced before their values, so a batch has at most as many values as columns.
            size = int(np.searchsorted(places, len(batch.value)))
            return _BatchPart(batch, places[:size], numbers[:size])
        # Columns beyond the mapping wait for a later tick.
        numbers = np.full(len(batch.numbers), -1, np.int32)
        taken = batch.numbers < len(mapping.numbers)
        numbers[taken] = mapping.numbers[batch.numbers[taken]]
        some = np.flatnonzero(numbers >= 0)
        return _BatchPart(batch, some, numbers[some])

    # --- numbering

    def _mapping_of(self, columns: SeriesColumns) -> _ColumnMapping:
        found = self._mappings.get(columns)
        if found is None:
            found = self._mappings[columns] = _build_mapping(np.empty(0, np.int32))
        # The source may add series concurrently: those with values are complete, ranks being added last.
        size = self._mapped_size(columns, len(found.numbers), len(columns.ranks))
        if len(found.numbers) < size:
            self._update_ranks(columns, found, size)
        if not found.is_valid or len(found.numbers) < size:
            known = found.numbers if found.is_valid else found.numbers[:0]
            fresh = _build_mapping(np.append(known, self._series_numbers(columns, len(known), size)))
            found.numbers, found.dense, found.is_valid = fresh.numbers, fresh.dense, True
            some = columns.keys[:size] if self.claimed_replicas else ()
            found.claimed = Counter(self._claim_reasons[key.entity] for key in some if self._is_claimed(key))
        return found

    def _mapped_size(self, columns: SeriesColumns, begin: int, size: int) -> int:
        """Returns how many columns have a number after this tick: no more new ones than their owner may have in it."""
        owner = columns.owner
        if not owner:
            return size
        room = MAX_NEW_COLUMNS - self._new_columns[owner]
        new = 0
        for column in range(begin, size):
            # What another engine has numbered already costs nothing more.
            is_new = columns.keys[column] not in self.table
            if is_new and new >= room:
                size = column
                break
            new += is_new
        self._new_columns[owner] += new
        return size

    def _update_ranks(self, columns: SeriesColumns, mapping: _ColumnMapping, size: int) -> None:
        """Records the names of new columns; mappings with a worse name are invalidated."""
        new = slice(len(mapping.numbers), size)
        joined: set[_EntityRanks] = set()
        names = zip(columns.keys[new], columns.ranks[new], strict=True)
        for column, (key, rank) in enumerate(names, new.start):
            place = self._signal_positions.get(key.signal)
            if place is None:
                continue
            entity = self._entity_ranks(key, columns.owner)
            if entity is None:
                continue
            if watched := split_key(key):
                mapping.watched[column] = watched
                self._identities.setdefault(watched[0], set()).add(watched[1])
            if key.kind == "replica" and key.signal in self._counters:
                mapping.counted[column] = len(self._watch.entities)
                self._watch.entities.append(key.entity)
            if entity not in joined:
                joined.add(entity)
                entity.add_mapping(mapping)
            best = entity.best[place]
            if rank < best:
                entity.best[place] = rank
                if best != NO_RANK:
                    entity.invalidate()

    def _entity_ranks(self, key: SeriesKey, owner: str) -> _EntityRanks | None:
        """Returns the ranks of an entity; None for a new one of an owner that has too many."""
        found = self._entities.get((key.kind, key.entity))
        if found is None and owner:
            if not self._has_room(owner):
                return None
            self._owned_entities[owner] += 1
        if found is None:
            best = array("i", [NO_RANK]) * len(self._signal_positions)
            found = self._entities[key.kind, key.entity] = _EntityRanks(best, owner)
        return found

    def _series_numbers(self, columns: SeriesColumns, begin: int, end: int) -> I32:
        pairs = zip(columns.keys[begin:end], columns.ranks[begin:end], strict=True)
        owner, senders = columns.owner, columns.senders
        if senders:
            self.table.senders.update({key: senders[key] for key in columns.keys[begin:end] if key in senders})
        return np.fromiter((self._series_number(key, rank, owner) for key, rank in pairs), np.int32, end - begin)

    def _series_number(self, key: SeriesKey, rank: int, owner: str) -> int:
        place = self._signal_positions.get(key.signal)
        entity = self._entities.get((key.kind, key.entity))
        if place is None or entity is None or rank > entity.best[place]:
            return -1
        if self._is_claimed(key):
            return -1
        before = len(self.table.keys)
        if key not in self.table and not (
            before < MAX_SERIES and self._has_room(owner) and self._has_selector(key, owner)
        ):
            return -1
        number = self.table.number(key)
        if owner and number == before:
            self._note_owner(number, owner)
        return number

    def _note_owner(self, number: int, owner: str) -> None:
        self._owned_series[owner] += 1
        self._owner_of.extend([-1] * (number - len(self._owner_of)))
        self._owner_of.append(self._owners.setdefault(owner, len(self._owners)))

    def _has_room(self, owner: str) -> bool:
        """Returns whether an owner may have more series; one that may not is named."""
        if self._owned_series[owner] < MAX_OWNER_SERIES and self._owned_entities[owner] < MAX_OWNER_ENTITIES:
            return True
        self.full_owners.add(owner)
        return False

    def _has_selector(self, key: SeriesKey, owner: str) -> bool:
        """Returns whether an owner may use a selector of a signal; one that may not is named."""
        pair = key.signal, key.selector
        if pair not in self._selectors:
            of_signal = owner, key.signal
            if owner and (
                self._owned_selectors[owner] >= self._max_owner_selectors
                or self._owned_selectors_of_signal[of_signal] >= MAX_OWNER_SELECTORS
            ):
                self.full_owners.add(owner)
                return False
            self._note_selector(pair, owner)
        return True

    def _note_selector(self, pair: tuple[str, str], owner: str) -> None:
        self._selectors[pair] = owner
        self._owned_selectors[owner] += 1
        self._owned_selectors_of_signal[owner, pair[0]] += 1

    def describe_overflow(self) -> str:
        """Returns whose series are too many, in a sentence; '' for nobody."""
        if not self.full_owners:
            return ""
        names = sorted(self.full_owners)
        rest = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        return (
            f"new series of {', '.join(names[:MAX_NAMED])}{rest} are ignored until older ones have been silent for "
            f"{FORGET_S / 60:.0f} min: more than {MAX_OWNER_SERIES} series, {MAX_OWNER_ENTITIES} entities or "
            f"{MAX_OWNER_SELECTORS} selectors of a signal ({self._max_owner_selectors} of all) first used by one node"
        )

    def silent_mask(self, times: F64, t: float) -> Mask:
        """Returns [series] which series would make room: long silent ones of owners that have too many.

        Args:
            times: [series] seconds since 1970 of the newest samples; NaN for none.
            t: the present time.
        """
        full = [number for owner, number in self._owners.items() if owner in self.full_owners]
        owner = np.full(len(times), -1, np.intc)
        known = np.array(self._owner_of, np.intc)[: len(times)]
        owner[: len(known)] = known
        return np.asarray(~(times >= t - FORGET_S) & np.isin(owner, full))

    # --- another engine

    def take_over(self, before: "Batcher", numbers: Index, t: float) -> None:
        """Goes on with what another batcher knows of the series that both have.

        Args:
            before: the other batcher.
            numbers: [series of this table] the numbers of the same series in the other's table.
            t: end of the last tick, seconds since 1970.
        """
        own = "_pending", "superseded_values", "_owners"
        for name in own:
            setattr(self, name, getattr(before, name))
        other = before._owner_of  # noqa: SLF001 - one of its own kind
        self._owner_of = array("i", [other[n] if n < len(other) else -1 for n in numbers.tolist()])
        names = list(self._owners)
        self._owned_series = Counter(names[n] for n in self._owner_of if n >= 0)
        for pair in {(key.signal, key.selector) for key in self.table.keys}:
            self._note_selector(pair, before._selectors.get(pair, ""))  # noqa: SLF001
        self._take_over_ranks(before)
        self._ledger.spans = before._ledger.spans  # noqa: SLF001
        self.claimed_replicas, self._claim_reasons = before.claimed_replicas, before._claim_reasons  # noqa: SLF001
        self._kept_claims = {one: (self._claim_reasons[one], why) for one, why in self.claimed_replicas.items()}
        self._claims_kept_until = t + KEPT_CLAIM_S

    def _take_over_ranks(self, before: "Batcher") -> None:
        """Takes over the best names of the entities that have a series."""
        positions = before._signal_positions  # noqa: SLF001 - one of its own kind
        common = [(n, positions[signal]) for signal, n in self._signal_positions.items() if signal in positions]
        into, at = np.array(common, np.intp).reshape(-1, 2).T
        for place in {(key.kind, key.entity) for key in self.table.keys}:
            if (ranks := before._entities.get(place)) is None:  # noqa: SLF001
                continue
            best = np.full(len(self._signal_positions), NO_RANK, np.intc)
            best[into] = np.frombuffer(ranks.best, np.intc)[at]
            self._entities[place] = _EntityRanks(array("i", best.tobytes()), ranks.owner)
            if ranks.owner:
                self._owned_entities[ranks.owner] += 1

    # --- engines

    def count_claims(self, columns: SeriesColumns) -> Mapping[str, int]:
        """Returns how many series of some columns are not used since several engines claim their replica, by reason."""
        found = self._mappings.get(columns)
        return found.claimed if found is not None else {}

    def _is_claimed(self, key: SeriesKey) -> bool:
        """Returns whether a series is read, and of a replica that several engines claim."""
        claimed = key.kind == "replica" and key.entity in self.claimed_replicas
        return claimed and key.signal in self._of_engines and key.signal in self._signal_positions

    def _check_engines(self, due: Sequence[SourceBatch], until: float) -> None:
        """Finds replicas that several engines claim; the series of these get no numbers, until one is left."""
        for batch in due:
            mapping = self._mapping_of(batch.columns)
            for column, (place, identity) in mapping.watched.items():
                if len(self._identities[place]) > 1 and (times := _column_times(batch, column)):
                    self._ledger.note(place, identity, *times)
            self._note_counters(batch, mapping)
        if not (self._ledger.spans or self._watch.entities or self._kept_claims):
            return
        if until > self._claims_kept_until:
            self._kept_claims = {}
        self._ledger.forget_silent_engines(until)
        mixed, rivals = self._watch.mixed_replicas(), self._ledger.claimed_replicas()
        kept = {replica: why for replica, (_, why) in self._kept_claims.items()}
        claimed = {**kept, **mixed, **rivals}
        if claimed != self.claimed_replicas:
            for replica in {*claimed, *self.claimed_replicas}:
                if ranks := self._entities.get(("replica", replica)):
                    ranks.invalidate()
            self.claimed_replicas = claimed
            self._claim_reasons = {replica: reason for replica, (reason, _) in self._kept_claims.items()}
            self._claim_reasons |= dict.fromkeys(mixed, EQUAL_LABELS) | dict.fromkeys(rivals, SEVERAL_ENGINES)

    def _note_counters(self, batch: SourceBatch, mapping: _ColumnMapping) -> None:
        """Takes the counters of engines in a batch to the watch for two engines with equal labels."""
        if not mapping.counted:
            return
        columns = np.fromiter(mapping.counted, np.int32, len(mapping.counted))
        places = np.fromiter(mapping.counted.values(), np.intp, len(columns))
        if batch.numbers is None:
            some = columns < len(batch.value)
            self._watch.note(places[some], batch.value[columns[some]])
            return
        at = np.flatnonzero(np.isin(batch.numbers, columns))
        at = at[np.argsort(np.broadcast_to(batch.time, len(batch.numbers))[at], kind="stable")]
        by_column = places[np.searchsorted(columns, batch.numbers[at])]
        # A batch may hold several values of a counter.
        while len(at):
            _, first = np.unique(by_column, return_index=True)
            self._watch.note(by_column[first], batch.value[at[first]])
            at, by_column = np.delete(at, first), np.delete(by_column, first)


def _column_times(batch: SourceBatch, column: int) -> tuple[float, float] | None:
    """Returns the first and last time of a column's values in a batch; None without any."""
    if isinstance(batch.time, float | int):
        some = batch.numbers is None or bool((batch.numbers == column).any())
        return (float(batch.time), float(batch.time)) if some and column < len(batch.value) else None
    at = np.flatnonzero(batch.numbers == column) if batch.numbers is not None else np.array([column], np.intp)
    time = batch.time[at[at < len(batch.time)]]
    return (float(time.min()), float(time.max())) if len(time) else None


def _build_mapping(numbers: I32) -> _ColumnMapping:
    places = np.flatnonzero(numbers >= 0)
    return _ColumnMapping(numbers, (places, numbers[places]))


def _select_values(batch: SourceBatch, which: Mask) -> SourceBatch:
    """Returns the selected values of a batch with a time for each value."""
    assert not isinstance(batch.time, float | int)
    at = np.flatnonzero(which)
    numbers = at.astype(np.int32) if batch.numbers is None else batch.numbers[at]
    return SourceBatch(batch.columns, numbers, batch.time[at], batch.value[at])


def _concat_parts(parts: Sequence[_BatchPart]) -> Block:
    """Returns all samples of some parts; each value is copied once."""
    ends = np.cumsum([len(part.series) for part in parts], dtype=np.intp).tolist()
    size = ends[-1] if ends else 0
    block = Block(np.empty(size), np.empty(size, np.int32), np.empty(size))
    begin = 0
    for part, end in zip(parts, ends, strict=True):
        at, time = slice(begin, end), part.batch.time
        block.series[at] = part.series
        block.time[at] = time if isinstance(time, float | int) else time[part.positions]
        # All positions are valid; without a mode numpy would fill a copy first.
        part.batch.value.take(part.positions, out=block.value[at], mode="clip")
        begin = end
    return block
