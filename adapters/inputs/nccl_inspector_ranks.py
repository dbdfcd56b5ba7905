"""Inputs of kind `nccl-inspector-ranks`: a folder with the records of NCCL's inspector of several ranks.

It gives what `nccl-inspector` gives of each rank, how late each rank comes to collectives, and whether the collectives
of a communicator have become slower for all ranks. All end a collective together, so the rank whose part is the
shortest came last, and its part is the time of the transfer.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, samples_to_block
from skewscope.adapters.inputs.messages import metric_of
from skewscope.adapters.inputs.nccl_inspector import CollectiveRecord, add_records, read_records, recognise
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.adapters.results.lasting_fall import find_fall
from skewscope.adapters.results.result_finding import format_number
from skewscope.engine.ingest.feed import Block
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import join_names

HEAD_BYTES = 1 << 16
ARRIVAL_LAG = "skewscope_nccl_arrival_lag"
SLOWER, SLOWER_IN_NODE = "bench-collectives-slower", "bench-collectives-slower-in-node"
MAX_NAMED = 4
BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))

Collective = list[CollectiveRecord]
"""The records of one collective, of one rank each."""


def _collectives(records: Sequence[CollectiveRecord]) -> Iterator[Collective]:
    """Yields the collectives of which two or more ranks have a record that the GPU timed, in their order."""
    found: dict[tuple[str, str, int], dict[int, CollectiveRecord]] = defaultdict(dict)
    for each in records:
        if each.is_timed and each.duration_us > 0:
            found[each.communicator, each.operation, each.number][each.rank] = each
    for _, ranks in sorted(found.items()):
        if len(ranks) > 1:
            yield list(ranks.values())


def _add_lags(collector: SeriesCollector, collectives: Sequence[Collective]) -> None:
    for ranks in collectives:
        longest = max(each.duration_us for each in ranks)
        for each in ranks:
            collector.add(ARRIVAL_LAG, each.labels, each.time, (longest - each.duration_us) / 1e6)


def _add_falls(collector: SeriesCollector, collectives: Sequence[Collective]) -> None:
    """Adds the event that collectives of one communicator, operation and size have become slower for all ranks."""
    alike: dict[tuple[str, str, int], list[Collective]] = defaultdict(list)
    for ranks in collectives:
        alike[ranks[0].communicator, ranks[0].operation, ranks[0].size].append(ranks)
    for (_, operation, size), same in sorted(alike.items()):
        fall = find_fall([max(each.bandwidth for each in ranks) for ranks in same])
        if fall is None:
            continue
        first = same[fall.place]
        hosts = sorted({each.host for each in first})
        event, whose = (SLOWER, "of all ranks") if len(hosts) > 1 else (SLOWER_IN_NODE, "within a node")
        bandwidth = f"{format_number(fall.after)} instead of {format_number(fall.before)} GB/s of bus bandwidth"
        which = f"since number {first[0].number} of {operation} of {_format_size(size)}"
        text = f"Collectives {whose} are slower together {which}: {bandwidth} on {join_names(hosts, MAX_NAMED)}"
        group = {"group": first[0].labels["group"], "message": text}
        collector.add(metric_of(catalogue().events[event].signal), group, max(each.time for each in first), 1.0)


def _format_size(size: int) -> str:
    scale, unit = next((pair for pair in BYTES if size >= pair[0]), BYTES[-1])
    return f"{format_number(size / scale)} {unit}"


def _read_input(source: Input, recording: Recording) -> list[LabelledSeries]:
    """Returns the series of all ranks, and the events of their collectives.

    Raises:
        InputError: a file is damaged.
    """
    folder = recording.display_path(source.path)
    records: list[CollectiveRecord] = []
    for name in recording.list_input_files(source):
        with open_stream(recording.resolve_path(f"{source.path}/{name}")) as file:
            if recognise(file.peek(HEAD_BYTES)[:HEAD_BYTES], name):
                records += read_records(file, f"{folder}/{name}")
    collector = SeriesCollector(folder)
    add_records(collector, records)
    collectives = list(_collectives(records))
    _add_lags(collector, collectives)
    _add_falls(collector, collectives)
    return collector.series()


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of all ranks of the folder.

    Raises:
        InputError: a file is damaged.
    """
    return samples_to_block(_read_input(source, recording), source, registry, names)


def scan(source: Input, recording: Recording) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yields metric and labels of each series, for the inference of a topology.

    Raises:
        InputError: a file is damaged.
    """
    yield from ((one.metric, dict(one.labels)) for one in _read_input(source, recording))


READER = InputReader(
    "folder with records of NCCL's inspector of several ranks",
    read,
    scan=scan,
    is_folder=True,
    leaves_others_out=True,
)
