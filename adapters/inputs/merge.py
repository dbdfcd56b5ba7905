"""Merges the samples of several inputs into one block with one series table."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skewscope.adapters.mapping.names import UnmappedMetric
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable, empty_block, merge_blocks

Subject = tuple[str, str, str]


@dataclass(frozen=True)
class InputSamples:
    """Samples of one input, with the rank of the metric name of each series."""

    keys: tuple[SeriesKey, ...] = ()
    ranks: tuple[int, ...] = ()
    block: Block = field(default_factory=empty_block)


def merge_inputs(pieces: Sequence[InputSamples]) -> tuple[Block, SeriesTable, list[UnmappedMetric]]:
    """Returns all samples, the sorted table of their series, and the duplicates that were dropped."""
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
    """Returns the samples of an input by numbers of the merged table; infinities become gaps."""
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
    """Returns the signals that several names deliver; their sum would count twice."""
    entities: dict[str, int] = {}
    for (signal, _, _), ranks in given.items():
        if len(ranks) > 1:
            entities[signal] = entities.get(signal, 0) + 1
    reason = "several names deliver it; the one that the catalogue lists first counts"
    return [UnmappedMetric(signal, reason, n) for signal, n in sorted(entities.items())]
