"""Reads a recording input after input, for work that may begin before all are read.

Long recordings are often a row of files, each with the same series over a stretch of time. What `load` gives of such a
recording is known after the first of them: the table of series, the length of ticks. Whether the others follow shows
when they are read; where they do not, `NotSuccessiveError` says that the recording must be loaded as a whole.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from skewscope.adapters.formats.bounds import KNOWN_SERIES
from skewscope.adapters.inputs.bounded_registry import SERIES_HINT
from skewscope.adapters.inputs.merge import InputSamples, MergedSamples, continue_merge, merge_inputs
from skewscope.adapters.inputs.recording import (
    Input,
    InputResult,
    Recording,
    RecordingData,
    check_total_size,
    hash_inputs,
    input_size,
    lost_reader_error,
    order_inputs,
    read_input,
    reader_of,
)
from skewscope.adapters.mapping.engines import engine_signals, split_key
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.runtime.processes import ProcessEndedError, map_parallel
from skewscope.engine.engine import TICK_S
from skewscope.engine.ingest.feed import SeriesTable
from skewscope.kb.model import Catalogue


class NotSuccessiveError(Exception):
    """The inputs are no stretches of time with the same series, one after another."""


def may_be_successive(recording: Recording) -> bool:
    """Returns whether the inputs of a recording may be stretches of time: one kind, of one origin, all to be read."""
    alike = {(source.kind, source.labels) for source in recording.inputs}
    if len(recording.inputs) < 2 or len(alike) > 1 or recording.tick is None:
        return False
    in_parallel = reader_of(recording.inputs[0]).reads_in_parallel
    return not in_parallel and not any(source.is_found for source in recording.inputs)


@dataclass
class SuccessiveInputs:
    """The inputs of a recording whose tick is known, read one after another; each is returned once and not kept."""

    recording: Recording
    known: Catalogue
    table: SeriesTable = field(default_factory=SeriesTable)
    """All series, after the first input."""
    start: float = 0.0
    end: float = 0.0
    """Seconds since 1970, of what was read so far."""
    samples: int = 0
    """Samples so far."""
    _digests: list[InputResult] = field(default_factory=list)
    """What was read, without its samples."""
    _last_tick: float = -math.inf
    """Its last tick, in seconds since 1970."""

    @property
    def input_hash(self) -> str:
        """The hash of the content of all inputs, after the last."""
        return hash_inputs(self.recording, order_inputs(self.recording), self._digests)

    def read(self, workers: int | None, report: Callable[[float], None]) -> Iterator[RecordingData]:
        """Yields the samples of each input, by numbers of one table; `report` receives the share that is read.

        Raises:
            NotSuccessiveError: an input does not continue the ones before it.
        """
        sources = order_inputs(self.recording)
        sizes = [input_size(self.recording, source) for source in sources]
        check_total_size(self.recording, sizes)
        first: InputResult | None = None
        for number, result in enumerate(_read_in_order(self.recording, self.known, sources, workers)):
            if result.problems:
                raise NotSuccessiveError  # which are all of them, `load` tells
            first = first or self._begin(result)
            found = continue_merge(first.samples, self.table, result.samples)
            if found is None or not len(found):
                raise NotSuccessiveError
            yield self._continue(found)
            self._digests.append(InputResult(InputSamples(), result.digest))
            report(sum(sizes[: number + 1]) / max(sum(sizes), 1))

    def _begin(self, result: InputResult) -> InputResult:
        """Builds the table of all series from the first input, and returns it without its samples."""
        KNOWN_SERIES.check(str(self.recording.path), len(result.samples.keys), SERIES_HINT)
        engines = engine_signals(self.known)
        if any(key.signal in engines or split_key(key) for key in result.samples.keys):
            raise NotSuccessiveError  # which of rival engines counts depends on all samples
        bare = InputSamples(result.samples.keys, result.samples.ranks)
        self.table = merge_inputs([bare])[1]
        return InputResult(bare, result.digest)

    def _continue(self, found: MergedSamples) -> RecordingData:
        begin, end = found.span()
        recording, tick = self.recording, self.recording.tick or TICK_S
        ticks = found.tick_numbers(tick)
        if ticks[0] * tick <= self._last_tick or ticks[-1] * tick < end:
            raise NotSuccessiveError
        if not self.samples:
            self.start = begin if recording.start is None else recording.start
        self.end = max(end, recording.start or 0.0) if recording.end is None else recording.end
        self.samples += len(found)
        self._last_tick = float(ticks[-1] * tick)
        return RecordingData(found, self.table, self.start, self.end, "")


def _read_in_order(
    recording: Recording, known: Catalogue, sources: Sequence[Input], workers: int | None
) -> Iterator[InputResult]:
    """Yields the result of each input in their order; other processes read ahead by one input each."""
    read = partial(read_input, recording, MetricResolver(known, recording.topology, recording.mapping))
    readers = (os.cpu_count() or 1) - 1 if workers is None else workers - 1
    if not readers:
        yield from map(read, sources)
        return
    waiting: dict[int, InputResult] = {}
    following = 0
    try:
        for index, result in map_parallel(read, sources, readers):
            waiting[index] = result
            while following in waiting:
                yield waiting.pop(following)
                following += 1
    except ProcessEndedError:
        raise lost_reader_error(sources) from None
