"""Inputs of kind `benchmark-results`: a folder with several results of benchmarks, judged against each other."""

from collections.abc import Iterator, Mapping

from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.inputs.benchmark_result import list_findings, list_messages, read_bytes, too_little
from skewscope.adapters.inputs.labelled import LabelledSeries, samples_to_block
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.adapters.results.result import BenchmarkResult
from skewscope.adapters.results.result_format import find_result_format, read_results
from skewscope.adapters.results.result_judgement import judge_results
from skewscope.adapters.results.result_order import order_results
from skewscope.engine.ingest.feed import Block

HEAD_BYTES = 1 << 16


def _read_input(source: Input, recording: Recording) -> list[LabelledSeries]:
    """Returns what all results of the folder show together, and the messages in their files.

    Raises:
        InputError: a file is damaged; NothingKnownError: nothing in them is wrong.
    """
    folder, labels = recording.display_path(source.path), dict(source.labels)
    results: list[BenchmarkResult] = []
    messages: list[LabelledSeries] = []
    for name in recording.list_input_files(source):
        shown = f"{folder}/{name}"
        with open_stream(recording.resolve_path(f"{source.path}/{name}")) as file:
            if find_result_format(file.peek(HEAD_BYTES)):
                data = read_bytes(file, shown)
                results += read_results(data, shown)
                messages += list_messages(data, shown, labels)
    ordered = order_results(results)
    series = [*list_findings(judge_results(ordered).findings, ordered, folder, labels), *messages]
    if not series:
        raise too_little(ordered, folder)
    return series


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of all results of the folder.

    Raises:
        InputError: a file is damaged, or nothing in them is wrong.
    """
    return samples_to_block(_read_input(source, recording), source, registry, names)


def scan(source: Input, recording: Recording) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yields metric and labels of each series, for the inference of a topology.

    Raises:
        InputError: a file is damaged, or nothing in them is wrong.
    """
    yield from ((one.metric, dict(one.labels)) for one in _read_input(source, recording))


READER = InputReader("folder with results of benchmarks", read, scan=scan, is_folder=True, leaves_others_out=True)
