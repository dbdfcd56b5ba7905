"""Inputs of kind `openmetrics`: one text file with a timestamp on every line."""

from collections.abc import Iterator

from skewscope.adapters.formats import openmetrics
from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.formats.openmetrics_grammar import looks_like_exposition
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether a file is exposition text with times."""
    return looks_like_exposition(head, timed=True)


def scan(source: Input, recording: Recording) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields metric and labels of each series.

    Raises:
        InputError: the file cannot be read.
    """
    with open_stream(recording.resolve_path(source.path)) as stream:
        for metric, labels in openmetrics.list_series(stream, recording.display_path(source.path)):
            yield metric, dict(labels)


def list_types(source: Input, recording: Recording) -> dict[str, str]:
    """Returns the types that a file declares, by metric."""
    with open_stream(recording.resolve_path(source.path)) as stream:
        return openmetrics.list_types(stream)


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of the file.

    Raises:
        InputError: the file does not parse.
    """
    with open_stream(recording.resolve_path(source.path)) as stream:
        return openmetrics.read(
            stream, recording.display_path(source.path), names.target_lookup(dict(source.labels), registry)
        )


READER = InputReader(
    "OpenMetrics text with times, as `promtool tsdb dump-openmetrics` or `promtool tsdb dump` writes it",
    read,
    recognise,
    scan=scan,
    has_metrics=True,
    list_types=list_types,
)
