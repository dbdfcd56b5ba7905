"""What several inputs gave, as one block with one numbering of series."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skewscope.adapters.mapping.names import UnmappedMetric
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable, empty_block, merge_blocks

Subject = tuple[str, str, str]


@dataclass(frozen=True)
class InputSamples:
    """Samples of one input, and by which name each of its series came."""

    keys: tuple[SeriesKey, ...] = ()
    ranks: tuple[int, ...] = ()
    block: Block = field(default_factory=empty_block)


def merge_inputs(pieces: Sequence[InputSamples]) -> tuple[Block, SeriesTable, list[UnmappedMetric]]:
    """All samples, a table of their series in order, and what was left out because a better source has it too."""
    best: dict[Subject, int] = {}
    given: dict[Subject, set[int]] = {}
    for piece in pieces:
        for key, rank in zip(piece.keys, piece.ranks, strict=True):
            subject = _subject_of(key)
            best[subject] = min(rank, best.get(subject, rank))
            given.setdefault(subject, set()).add(rank)
    kept = {
        key
        for piece in pieces
        for key, rank in zip(piece.keys, piece.ranks, strict=True)
        if rank == best[_subject_of(key)]
    }
    table = SeriesTable()
    for key in sorted(kept):
        table.number(key)
    blocks = [_renumber(piece, best, table) for piece in pieces]
    return merge_blocks(blocks), table, _duplicates(given)


def _subject_of(key: SeriesKey) -> Subject:
    return key.signal, key.kind, key.entity


def _renumber(piece: InputSamples, best: dict[Subject, int], table: SeriesTable) -> Block:
    """The samples of a piece under the numbers of all; infinities are gaps, for nothing can be counted with them."""
    numbers = np.array(
        [
            table.number(key) if rank == best[_subject_of(key)] else -1
            for key, rank in zip(piece.keys, piece.ranks, strict=True)
        ],
        np.int32,
    )
    if not len(piece.block):
        return empty_block()
    series = numbers[piece.block.series]
    wanted = series >= 0
    value = piece.block.value[wanted]
    return Block(piece.block.time[wanted], series[wanted], np.where(np.isinf(value), np.nan, value))


def _duplicates(given: dict[Subject, set[int]]) -> list[UnmappedMetric]:
    """Signals that several names deliver: adding them up would count twice."""
    entities: dict[str, int] = {}
    for (signal, _, _), ranks in given.items():
        if len(ranks) > 1:
            entities[signal] = entities.get(signal, 0) + 1
    reason = "several names deliver it; the one that the catalogue lists first counts"
    return [UnmappedMetric(signal, reason, n) for signal, n in sorted(entities.items())]
