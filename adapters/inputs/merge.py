"""Merges the samples of several inputs, in order of time, under the numbers of one series table.

Long recordings hold more samples than fit in memory: beyond a limit, those of an input wait in temporary files, and
all inputs are merged stretch by stretch.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.mapping.engines import (
    EngineLedger,
    engine_counters,
    engine_signals,
    find_mixed_counters,
    mask_other_replicas,
    split_key,
)
from skewscope.adapters.mapping.names import UnmappedMetric
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable, empty_block, merge_blocks
from skewscope.engine.model.arrays import F64, I32, Index, Mask, sort_unique
from skewscope.kb.model import Catalogue

Subject = tuple[str, str, str]
BestRanks = Mapping[Subject, int]
"""The lowest rank that any series of a signal on an entity has: only series of that one count."""

MAX_SAMPLES_IN_MEMORY = 1 << 25
"""Samples of 20 bytes that are kept in memory; further inputs are moved to temporary files."""
STRETCH_SAMPLES = 1 << 20
"""Samples that are merged at a time, but for those of one tick."""


@dataclass(frozen=True)
class InputSamples:
    """Samples of one input, with the rank of the metric name of each series."""

    keys: tuple[SeriesKey, ...] = ()
    ranks: tuple[int, ...] = ()
    block: Block = field(default_factory=empty_block)


@dataclass(frozen=True)
class TimedSamples:
    """Samples of one input in order of time."""

    block: Block
    """By numbers of the input's own series."""
    numbers: I32
    """[series] numbers in the merged table."""

    def part(self, begin: int, end: int, wanted: Mask | None = None) -> Block:
        """Returns some samples by numbers of the merged table; infinities become gaps.

        Of series that are not `wanted`, a [series] mask, none is returned; None stands for all series.
        """
        time, value = self.block.time[begin:end], self.block.value[begin:end]
        series = self.numbers[self.block.series[begin:end]]
        if wanted is not None:
            kept = wanted[series]
            time, series, value = time[kept], series[kept], value[kept]
        return Block(time, series, np.where(np.isinf(value), np.nan, value))


@dataclass(frozen=True)
class MergedSamples:
    """The samples of all inputs."""

    pieces: tuple[TimedSamples, ...]
    scratch: TemporaryDirectory[str] | None = None
    """Where those lie that are not in memory; removed with this object."""

    def __len__(self) -> int:
        return sum(len(piece.block) for piece in self.pieces)

    def span(self) -> tuple[float, float]:
        """Returns the times of the first and the last sample, seconds since 1970; zeros without any."""
        times = [piece.block.time for piece in self.pieces if len(piece.block)]
        return (min(float(t[0]) for t in times), max(float(t[-1]) for t in times)) if times else (0.0, 0.0)

    def whole(self) -> Block:
        """Returns all samples, in order of time, then series."""
        return merge_blocks(piece.part(0, len(piece.block)) for piece in self.pieces)

    def list_ends(self, table: SeriesTable) -> dict[SeriesKey, float]:
        """Returns the time of the last sample of the input of each series, seconds since 1970; of several the last.

        What ends with its input is no silence. Empty where there is one input alone.
        """
        found: dict[SeriesKey, float] = {}
        for piece in self.pieces if len(self.pieces) > 1 else ():
            until = float(piece.block.time[-1]) if len(piece.block) else -np.inf
            for number in piece.numbers[piece.numbers >= 0].tolist():
                key = table.keys[number]
                found[key] = max(found.get(key, until), until)
        return found

    def tick_numbers(self, tick: float) -> F64:
        """Returns [tick] the numbers of the ticks, of so many seconds, in which samples come."""
        found = [sort_unique(np.ceil(piece.block.time / tick)) for piece in self.pieces]
        return sort_unique(np.concatenate([np.empty(0), *found]))

    def cut(self, ends: Sequence[float], start: float = -np.inf) -> Iterator[Block]:
        """Yields the samples of each tick, in order of time, then series.

        Args:
            ends: ends of the ticks, seconds since 1970, ascending.
            start: earlier samples are left out.
        """
        edges = self.find_edges(ends, start)
        total = edges.sum(axis=0)
        first = 0
        while first < len(ends):
            last = max(first + 1, int(np.searchsorted(total, total[first] + STRETCH_SAMPLES, side="right")) - 1)
            whole = self.merge_part(edges[:, first], edges[:, last])
            for begin, end in zip(*(total[first + n : last + n] - total[first] for n in (0, 1)), strict=True):
                yield Block(whole.time[begin:end], whole.series[begin:end], whole.value[begin:end])
            first = last

    def find_edges(self, ends: Sequence[float] | F64, start: float = -np.inf) -> Index:
        """Returns [piece, tick + 1] between which of its samples each tick lies; arguments as of `cut`."""
        edges = np.empty((len(self.pieces), len(ends) + 1), np.intp)
        for row, piece in zip(edges, self.pieces, strict=True):
            row[0] = np.searchsorted(piece.block.time, start)
            row[1:] = np.maximum(np.searchsorted(piece.block.time, ends, side="right"), row[0])
        return edges

    def merge_part(self, begin: Index, end: Index, wanted: Mask | None = None) -> Block:
        """Returns the samples between two places of each piece, in order of time, then series; see `part`."""
        return merge_blocks(
            piece.part(*place, wanted)
            for place, piece in zip(zip(begin.tolist(), end.tolist(), strict=True), self.pieces, strict=True)
        )


def merge_inputs(
    pieces: Sequence[InputSamples], scratch: TemporaryDirectory[str] | None = None
) -> tuple[MergedSamples, SeriesTable, list[UnmappedMetric]]:
    """Returns all samples, the sorted table of their series, and the duplicates that were dropped."""
    given = _ranks_given(pieces)
    table, best = _merge_series(pieces, given)
    timed = tuple(renumber_series(piece, best, table) for piece in pieces)
    return MergedSamples(timed, scratch), table, _duplicates(given)


def merge_series(pieces: Sequence[InputSamples]) -> tuple[SeriesTable, BestRanks]:
    """Returns the sorted table of the series of all inputs, and the ranks of those that count."""
    return _merge_series(pieces, _ranks_given(pieces))


def _merge_series(pieces: Iterable[InputSamples], given: Mapping[Subject, set[int]]) -> tuple[SeriesTable, BestRanks]:
    best = {subject: min(ranks) for subject, ranks in given.items()}
    kept = {
        key
        for piece in pieces
        for key, rank in zip(piece.keys, piece.ranks, strict=True)
        if rank == best[_subject_of(key)]
    }
    table = SeriesTable()
    for key in sorted(kept):
        table.number(key)
    return table, best


def _ranks_given(pieces: Iterable[InputSamples]) -> dict[Subject, set[int]]:
    found: dict[Subject, set[int]] = {}
    for piece in pieces:
        for key, rank in zip(piece.keys, piece.ranks, strict=True):
            found.setdefault(_subject_of(key), set()).add(rank)
    return found


def continue_merge(first: InputSamples, table: SeriesTable, piece: InputSamples) -> MergedSamples | None:
    """Returns the samples of a further input as `merge_inputs` of both would number them.

    None where the table of `first` alone would not be that of both.
    """
    if not set(zip(piece.keys, piece.ranks, strict=True)) <= set(zip(first.keys, first.ranks, strict=True)):
        return None
    best = {subject: min(ranks) for subject, ranks in _ranks_given([first]).items()}
    return MergedSamples((renumber_series(piece, best, table),))


def drop_rival_engines(
    pieces: Sequence[InputSamples], ledger: EngineLedger, catalogue: Catalogue
) -> tuple[list[InputSamples], list[UnmappedMetric]]:
    """Returns the inputs without series of replicas that several engines claim, and what was left out.

    Args:
        pieces: samples of each input.
        ledger: an empty one of the topology.
        catalogue: says which signals engines report of themselves.
    """
    watched = [{n: found for n, key in enumerate(piece.keys) if (found := split_key(key))} for piece in pieces]
    identities = {found for each in watched for found in each.values()}
    shared = Counter(place for place, _ in identities)
    for piece, watches in zip(pieces, watched, strict=True):
        # Nearly all places have one engine, whose times do not matter.
        for number, (place, identity) in watches.items():
            time = piece.block.time[piece.block.series == number] if shared[place] > 1 else piece.block.time[:0]
            if len(time):
                ledger.note(place, identity, float(time.min()), float(time.max()))
    signals, counters = engine_signals(catalogue), engine_counters(catalogue)
    claimed = ledger.claimed_replicas()
    for piece in pieces:
        claimed = {**find_mixed_counters(piece.keys, piece.block, counters), **claimed}
    if not claimed:
        return list(pieces), []
    kept, gone = [], []
    for piece in pieces:
        stays = np.array(mask_other_replicas(piece.keys, claimed, signals), bool)
        wanted = stays[piece.block.series]
        block = Block(piece.block.time[wanted], piece.block.series[wanted], piece.block.value[wanted])
        gone += [key for key, stay in zip(piece.keys, stays.tolist(), strict=True) if not stay]
        kept.append(_drop_keys(replace(piece, block=block), stays))
    counts = Counter((key.signal, claimed[key.entity]) for key in gone)
    return kept, [UnmappedMetric(signal, reason, n) for (signal, reason), n in sorted(counts.items())]


def _drop_keys(samples: InputSamples, stays: NDArray[np.bool_]) -> InputSamples:
    """Returns samples with only some of the series, which get new numbers."""
    numbers = (np.cumsum(stays) - 1).astype(np.int32)
    places = np.flatnonzero(stays).tolist()
    block = Block(samples.block.time, numbers[samples.block.series], samples.block.value)
    return InputSamples(tuple(samples.keys[n] for n in places), tuple(samples.ranks[n] for n in places), block)


def sort_by_time(block: Block) -> Block:
    """Returns the samples in order of time."""
    if (block.time[1:] >= block.time[:-1]).all():
        return block
    order = np.argsort(block.time, kind="stable")
    return Block(block.time[order], block.series[order], block.value[order])


def move_to_files(samples: InputSamples, folder: Path, name: str) -> InputSamples:
    """Returns the same samples, in order of time, in files of a folder."""
    block = sort_by_time(samples.block)
    files = [folder / f"{name}-{column}.npy" for column in ("time", "series", "value")]
    np.save(files[0], block.time)
    np.save(files[1], block.series)
    np.save(files[2], block.value)
    return replace(samples, block=Block(*(np.load(file, mmap_mode="r") for file in files)))


@dataclass
class SampleSpill:
    """Moves samples to temporary files once there are too many to hold in memory."""

    scratch: TemporaryDirectory[str] | None = None
    held: int = 0
    """Samples in memory."""

    def keep(self, samples: InputSamples, name: str) -> InputSamples:
        """Returns the samples of an input, in memory or in files."""
        self.held += len(samples.block)
        if self.held <= MAX_SAMPLES_IN_MEMORY:
            return samples
        self.held -= len(samples.block)
        self.scratch = self.scratch or TemporaryDirectory(prefix="skewscope-")
        return move_to_files(samples, Path(self.scratch.name), name)


def _subject_of(key: SeriesKey) -> Subject:
    return key.signal, key.kind, key.entity


def renumber_series(piece: InputSamples, best: BestRanks, table: SeriesTable) -> TimedSamples:
    """Returns the samples of an input that count, in order of time, with the numbers of its series in `table`."""
    numbers = np.array(
        [
            table.number(key) if rank == best[_subject_of(key)] else -1
            for key, rank in zip(piece.keys, piece.ranks, strict=True)
        ],
        np.int32,
    )
    return number_samples(piece.block, numbers)


def number_samples(block: Block, numbers: I32) -> TimedSamples:
    """Returns the samples of series that have a number, [series of the input], in order of time."""
    if (numbers < 0).any():
        wanted = numbers[block.series] >= 0
        block = Block(block.time[wanted], block.series[wanted], block.value[wanted])
    return TimedSamples(sort_by_time(block), numbers)


def _duplicates(given: dict[Subject, set[int]]) -> list[UnmappedMetric]:
    """Returns the signals that several names deliver; their sum would count twice."""
    entities: dict[str, int] = {}
    for (signal, _, _), ranks in given.items():
        if len(ranks) > 1:
            entities[signal] = entities.get(signal, 0) + 1
    reason = "several names deliver it; the one that the catalogue lists first counts"
    return [UnmappedMetric(signal, reason, n) for signal, n in sorted(entities.items())]
