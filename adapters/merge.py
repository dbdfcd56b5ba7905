"""What several inputs gave, as one block with one numbering of series."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skewscope.adapters.names import Unmapped
from skewscope.engine.feed import Block, SeriesKey, SeriesTable, empty, joined

Subject = tuple[str, str, str]


@dataclass(frozen=True)
class Piece:
    """Samples of one input, and by which name each of its series came."""

    keys: tuple[SeriesKey, ...] = ()
    ranks: tuple[int, ...] = ()
    block: Block = field(default_factory=empty)


def merged(pieces: Sequence[Piece]) -> tuple[Block, SeriesTable, list[Unmapped]]:
    """All samples, a table of their series in order, and what was left out because a better source has it too."""
    best: dict[Subject, int] = {}
    given: dict[Subject, set[int]] = {}
    for piece in pieces:
        for key, rank in zip(piece.keys, piece.ranks, strict=True):
            subject = _subject(key)
            best[subject] = min(rank, best.get(subject, rank))
            given.setdefault(subject, set()).add(rank)
    kept = {
        key
        for piece in pieces
        for key, rank in zip(piece.keys, piece.ranks, strict=True)
        if rank == best[_subject(key)]
    }
    table = SeriesTable()
    for key in sorted(kept):
        table.number(key)
    blocks = [_renumbered(piece, best, table) for piece in pieces]
    return joined(blocks), table, _doubles(given)


def _subject(key: SeriesKey) -> Subject:
    return key.signal, key.kind, key.entity


def _renumbered(piece: Piece, best: dict[Subject, int], table: SeriesTable) -> Block:
    """The samples of a piece under the numbers of all; infinities are gaps, for nothing can be counted with them."""
    numbers = np.array(
        [
            table.number(key) if rank == best[_subject(key)] else -1
            for key, rank in zip(piece.keys, piece.ranks, strict=True)
        ],
        np.int32,
    )
    if not len(piece.block):
        return empty()
    series = numbers[piece.block.series]
    wanted = series >= 0
    value = piece.block.value[wanted]
    return Block(piece.block.time[wanted], series[wanted], np.where(np.isinf(value), np.nan, value))


def _doubles(given: dict[Subject, set[int]]) -> list[Unmapped]:
    """Signals that several names deliver: adding them up would count twice."""
    entities: dict[str, int] = {}
    for (signal, _, _), ranks in given.items():
        if len(ranks) > 1:
            entities[signal] = entities.get(signal, 0) + 1
    reason = "several names deliver it; the one that the catalogue lists first counts"
    return [Unmapped(signal, reason, n) for signal, n in sorted(entities.items())]
