"""The ticks of a recording whose inputs are still read: each as soon as all of its samples have come."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from skewscope.adapters.inputs.concurrent import ConcurrentInputs, ReceivedInput
from skewscope.adapters.inputs.merge import (
    InputSamples,
    MergedSamples,
    TimedSamples,
    merge_series,
    number_samples,
    renumber_series,
)
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable, concat_blocks, empty_block
from skewscope.engine.model.arrays import I32

FIRST_DEPTH = 2
"""Parts of each input that have come when the first tick is judged: most series are known by then."""


class SeriesAddedError(Exception):
    """Series came that were not known when the first tick was judged: all begins again."""


@dataclass
class _Feed:
    """The samples of one input, taken stretch by stretch."""

    source: ReceivedInput
    numbers: I32
    """[series of the input] numbers in the table; -1 for those that do not count."""
    _begun: int = 0
    """Blocks of which samples were taken."""
    _left: Block = field(default_factory=empty_block)
    """Samples of these that were not taken yet."""

    def take_samples(self, until: float) -> TimedSamples:
        """Returns the samples up to a time that were not taken before, in order of time."""
        blocks = self.source.blocks[self._begun :]
        self._begun += len(blocks)
        whole = concat_blocks([self._left, *blocks])
        end = int(np.searchsorted(whole.time, until, side="right"))
        self._left = Block(whole.time[end:], whole.series[end:], whole.value[end:])
        return number_samples(Block(whole.time[:end], whole.series[:end], whole.value[:end]), self.numbers)


class ReadAheadSamples:
    """The samples of inputs that are still read, by numbers of a table of the series so far."""

    def __init__(self, inputs: ConcurrentInputs, whole: Sequence[InputSamples], table: SeriesTable) -> None:
        """Fills the table, which is empty. `whole` are the samples of the inputs of which all have come."""
        self._inputs, self.table = inputs, table
        self.series_count, self._taken = inputs.series_count, 0
        received = inputs.list_successive()
        merged, best = merge_series([*whole, *(one.bare_samples() for one in received)])
        for key in merged.keys:
            table.number(key)
        self._whole = tuple(renumber_series(piece, best, table) for piece in whole)
        bare = (renumber_series(one.bare_samples(), best, table) for one in received)
        self._feeds = [_Feed(one, each.numbers) for one, each in zip(received, bare, strict=True)]

    def list_ends(self) -> dict[SeriesKey, float]:
        """Returns the ends of the inputs of which all have come, as `MergedSamples.list_ends` does."""
        empty = TimedSamples(empty_block(), np.empty(0, np.int32))
        return MergedSamples((*self._whole, *(empty for _ in self._feeds))).list_ends(self.table)

    def take_samples(self, after: float, until: float) -> MergedSamples:
        """Returns the samples after one time and up to another; call it in order of time.

        Raises:
            SeriesAddedError: some are of series that the table has not.
        """
        self.check_series()
        whole = tuple(_cut_samples(piece, after, until) for piece in self._whole)
        found = MergedSamples((*whole, *(feed.take_samples(until) for feed in self._feeds)))
        self._taken += len(found)
        return found

    @property
    def progress(self) -> float:
        """The share of all bytes, about, of which the samples were taken."""
        return self._inputs.share_read * min(self._taken / max(self._inputs.samples, 1), 1.0)

    def check_series(self) -> None:
        """Raises SeriesAddedError where series came that the table has not."""
        if self._inputs.series_count != self.series_count:
            raise SeriesAddedError


def _cut_samples(piece: TimedSamples, after: float, until: float) -> TimedSamples:
    begin, end = np.searchsorted(piece.block.time, [after, until], side="right").tolist()
    block = piece.block
    return TimedSamples(Block(block.time[begin:end], block.series[begin:end], block.value[begin:end]), piece.numbers)


def wait_for_depth(inputs: ConcurrentInputs, depth: float, report: Callable[[float], None]) -> None:
    """Waits until so many parts of each input have come, or all that it has; `report` receives the share that is read.

    Raises:
        NotConcurrentError: an input has problems.
        InputError: a process ended.
    """
    while inputs.depth < depth:
        inputs.receive(None)
        report(inputs.share_read)


def wait_for_stretch(inputs: ConcurrentInputs, after: float) -> float:
    """Waits until all samples of further seconds have come; returns up to which time, infinite at the end.

    Raises:
        NotConcurrentError: an input has problems.
        InputError: a process ended.
    """
    while (until := inputs.end) < after + 1.0:
        inputs.receive(None)
    return until if math.isinf(until) else math.floor(until)
