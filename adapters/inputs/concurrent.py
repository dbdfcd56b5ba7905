"""Reads inputs in other processes while what they have told so far is judged.

An input can be judged so if its reader yields samples in order of time (`read_parts`), as that of captures does. All
others are read before, since their samples may come in any order. Which series there are is known for certain only in
the end: whoever judges begins again when new ones come.
"""

import heapq
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Self

from skewscope.adapters.formats.bounds import KNOWN_SERIES
from skewscope.adapters.formats.compression import observe_bytes
from skewscope.adapters.inputs.bounded_registry import BoundedRegistry
from skewscope.adapters.inputs.merge import MAX_SAMPLES_IN_MEMORY, InputSamples, sort_by_time
from skewscope.adapters.inputs.recording import (
    Input,
    InputResult,
    Recording,
    check_total_size,
    hash_input,
    input_size,
    lost_reader_error,
    order_inputs,
    read_input,
    reader_of,
)
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.runtime.processes import (
    ItemStream,
    ProcessEndedError,
    can_copy_process,
    count_cores,
    wait_for_items,
)
from skewscope.engine.ingest.feed import Block, SeriesKey, concat_blocks, empty_block
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError

MIN_CONCURRENT_BYTES = 1 << 18
"""So little is read by the time that another process would have begun."""
BYTES_PER_READER = 2 << 20
"""Bytes of input for each reader process."""
MAX_WHOLE_BYTES = 1 << 20
"""An input of at most so many bytes is read by another process even if its samples may come in any order; how much of
one is read is not told meanwhile."""


class NotConcurrentError(Exception):
    """The inputs must be read before they are judged: they have problems, or are too many."""


@dataclass(frozen=True, slots=True)
class InputPart:
    """What follows of an input; pickled between processes."""

    place: int
    """Of the input, in the order of inputs."""
    keys: tuple[SeriesKey, ...] = ()
    """Series that no part before had."""
    ranks: tuple[int, ...] = ()
    block: Block = field(default_factory=empty_block)
    """Samples in order of time, by numbers of the input's own series."""
    end: float = math.inf
    """Time up to which all samples have come, in seconds since 1970; infinite where all have."""
    stored: int = 0
    """Bytes of the input, as it is stored, that were read since the part before."""
    result: InputResult | None = None
    """With the last part: the result without the samples."""


class _PartReader:
    """Reads one input part by part."""

    def __init__(self, recording: Recording, names: Callable[[], MetricResolver], place: int, source: Input) -> None:
        self._recording, self._names, self._place, self._source = recording, names, place, source
        self._registry = BoundedRegistry(recording.display_path(source.path), KNOWN_SERIES.limit())
        self._parts = self._iter_parts()
        self._stored = 0

    def _iter_parts(self) -> Iterator[tuple[float, Block]]:
        """Yields (time up to which all samples have come, samples)."""
        reader = reader_of(self._source)
        if reader.read_parts:
            yield from reader.read_parts(self._source, self._recording, self._registry)
        else:
            yield math.inf, reader.read(self._source, self._recording, self._registry, self._names())

    def read_part(self) -> InputPart:
        """Returns the next part; the last one has the result."""
        known, self._stored = len(self._registry.keys), 0
        try:
            with observe_bytes(self._count):
                end, block = next(self._parts, (math.inf, empty_block()))
            result = self._build_result() if math.isinf(end) else None
        except InputError as error:
            return InputPart(self._place, result=InputResult(InputSamples(), "", problems=error.problems))
        keys, ranks = tuple(self._registry.keys[known:]), tuple(self._registry.ranks[known:])
        return InputPart(self._place, keys, ranks, sort_by_time(block), end, self._stored, result)

    def _build_result(self) -> InputResult:
        """Returns the result without the samples, at the end."""
        digest, warnings = hash_input(self._recording, self._source), tuple(self._registry.warnings)
        return InputResult(InputSamples(), digest, self._registry.unmapped, warnings)

    def _count(self, count: int) -> None:
        self._stored += count


def read_in_step(recording: Recording, known: Catalogue, sources: Mapping[int, Input]) -> Iterator[InputPart]:
    """Yields the parts of several inputs, by their places: always one of an input that is furthest behind."""
    names = partial(MetricResolver, known, recording.topology, recording.mapping)
    readers = {place: _PartReader(recording, names, place, source) for place, source in sources.items()}
    ends = [(-math.inf, place) for place in sorted(readers)]
    while ends:
        _, place = heapq.heappop(ends)
        part = readers[place].read_part()
        yield part
        if part.result is None:
            heapq.heappush(ends, (part.end, place))
        else:
            del readers[place]


@dataclass
class ReceivedInput:
    """What has come of one input."""

    keys: list[SeriesKey] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    """In order of time, one after another."""
    end: float = -math.inf
    """As of `InputPart`."""
    parts: int = 0
    """Parts that came."""
    result: InputResult | None = None
    is_whole: bool = False
    """Whether its samples may come in any order, so that nothing can be judged before all have come."""

    @property
    def depth(self) -> float:
        """Parts that have come; infinite where all have."""
        return math.inf if self.result else 0 if self.is_whole else self.parts

    def bare_samples(self) -> InputSamples:
        """Returns the series without samples."""
        return InputSamples(tuple(self.keys), tuple(self.ranks))

    def all_samples(self) -> InputSamples:
        """Returns what has come."""
        return InputSamples(tuple(self.keys), tuple(self.ranks), concat_blocks(self.blocks))


def choose_readers(recording: Recording, workers: int | None) -> int:
    """Returns how many processes should read inputs of a recording while this one judges; 0 where none pays.

    `workers` is the number of processes that may work in all; None: one for each core.
    """
    spare = (count_cores() if workers is None else workers) - 1
    if spare < 1 or not can_copy_process():
        return 0
    sizes = [input_size(recording, source) for source in recording.inputs if _has_parts(source)]
    if sum(sizes) < MIN_CONCURRENT_BYTES:
        return 0
    return max(1, min(spare, len(sizes), sum(sizes) // BYTES_PER_READER))


def _has_parts(source: Input) -> bool:
    return reader_of(source).read_parts is not None


def _is_small(source: Input, size: int) -> bool:
    """Returns whether another process may read an input whole; some kinds start processes of their own."""
    return size <= MAX_WHOLE_BYTES and not reader_of(source).reads_in_parallel


class ConcurrentInputs:
    """The inputs of a recording, of which other processes read some; leaving the context ends these."""

    def __init__(self, recording: Recording, known: Catalogue, readers: int) -> None:
        """Starts so many processes, and one for small inputs of which all must have come before the first tick.

        Raises:
            InputError: the inputs have too many bytes.
        """
        self.recording, self._known = recording, known
        self.sources = order_inputs(recording)
        self._sizes = [input_size(recording, source) for source in self.sources]
        check_total_size(recording, self._sizes)
        self.received = {
            place: ReceivedInput(is_whole=not _has_parts(source))
            for place, source in enumerate(self.sources)
            if _has_parts(source) or _is_small(source, self._sizes[place])
        }
        """By place in the order of inputs."""
        self._rest: dict[int, InputResult] = {}
        """The results of the other inputs, after `read_rest`."""
        self.series_count = 0
        """Series so far, each input by itself."""
        self.samples = self._stored = 0
        # What must have come before the first tick is read by a process of its own: it is not to wait for the others.
        first = [place for place, one in self.received.items() if one.is_whole]
        others = {place: self._sizes[place] for place, one in self.received.items() if not one.is_whole}
        shares = [first, *_share_out(others, readers)] if first else _share_out(others, readers)
        self._streams: list[ItemStream] = []
        try:
            for places in shares:
                share = {place: self.sources[place] for place in places}
                self._streams.append(ItemStream(partial(read_in_step, recording, known, share)))
        except BaseException:
            self.close()
            raise
        self._live = list(self._streams)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes."""
        for stream in self._streams:
            stream.close()

    def read_rest(self, report: Callable[[str, float], None]) -> None:
        """Reads the inputs that no other process reads; `report` receives what is read, and the share that is.

        Raises:
            NotConcurrentError: an input has problems.
        """
        rest = [place for place in range(len(self.sources)) if place not in self.received]
        if not rest:
            return
        names = MetricResolver(self._known, self.recording.topology, self.recording.mapping)
        for place in rest:
            source = self.sources[place]
            with observe_bytes(partial(self._note_bytes, source.path, report)):
                result = read_input(self.recording, names, source)
            if result.problems:
                raise NotConcurrentError  # which are all of them, `load` tells
            self._rest[place] = result
            self.samples += len(result.samples.block)
            self.series_count += len(result.samples.keys)

    def list_whole(self) -> list[InputSamples]:
        """Returns the samples of the inputs of which all must have come before the first tick, once they have."""
        rest = {place: result.samples for place, result in self._rest.items()}
        whole = {place: one.all_samples() for place, one in self.received.items() if one.is_whole}
        return [samples for _, samples in sorted({**rest, **whole}.items())]

    def list_successive(self) -> list[ReceivedInput]:
        """Returns the other inputs, whose samples come in order of time."""
        return [one for one in self.received.values() if not one.is_whole]

    def _note_bytes(self, path: str, report: Callable[[str, float], None], count: int) -> None:
        self._stored += count
        report(path, self.share_read)
        self.receive(0.0)

    @property
    def share_read(self) -> float:
        """The share of all bytes that were read."""
        return min(self._stored / max(sum(self._sizes), 1), 1.0)

    @property
    def end(self) -> float:
        """Time up to which all samples have come, in seconds since 1970; infinite when all inputs are read."""
        return min(one.end for one in self.received.values())

    @property
    def depth(self) -> float:
        """Parts that have come of each input; infinite where all have."""
        return min(one.depth for one in self.received.values())

    def receive(self, seconds: float | None) -> None:
        """Takes in what has come; waits so many seconds for something, None: for as long as it takes.

        Raises:
            NotConcurrentError: an input has problems, or there are too many samples.
            InputError: a process ended.
        """
        if seconds != 0.0:
            wait_for_items(self._live, seconds)
        try:
            for stream in list(self._live):
                while stream.is_ready():
                    part = stream.receive()
                    if part is None:
                        self._live.remove(stream)
                        break
                    self._take(part)
        except ProcessEndedError:
            raise lost_reader_error(self.sources) from None

    def _take(self, part: InputPart) -> None:
        one = self.received[part.place]
        one.keys += part.keys
        one.ranks += part.ranks
        if len(part.block):
            one.blocks.append(part.block)
        one.end, one.result = part.end, part.result
        one.parts += 1
        self.series_count += len(part.keys)
        self.samples += len(part.block)
        self._stored += part.stored
        is_too_much = self.samples > MAX_SAMPLES_IN_MEMORY or self.series_count > KNOWN_SERIES.limit()
        if is_too_much or (part.result is not None and part.result.problems):
            raise NotConcurrentError

    def list_results(self) -> list[InputResult]:
        """Returns the result of each input with its samples, in the order of inputs, once all are read."""
        found = dict(self._rest)
        for place, one in self.received.items():
            assert one.result is not None
            found[place] = replace(one.result, samples=one.all_samples())
        return [found[place] for place in range(len(self.sources))]


def _share_out(sizes: Mapping[int, int], count: int) -> list[list[int]]:
    """Returns the places of inputs, by their sizes in bytes, in so many shares of about the same size."""
    shares: list[list[int]] = [[] for _ in range(count)]
    totals = [0] * count
    for place in sorted(sizes, key=lambda place: -sizes[place]):
        least = totals.index(min(totals))
        shares[least].append(place)
        totals[least] += sizes[place]
    return [share for share in shares if share]
