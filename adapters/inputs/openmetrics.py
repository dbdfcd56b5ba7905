"""Inputs of kind `openmetrics`: one text file with a timestamp on every line."""

from skewscope.adapters.formats import openmetrics
from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of the file.

    Raises:
        InputError: the file does not parse.
    """
    with open_stream(recording.resolve_path(source.path)) as stream:
        return openmetrics.read(
            stream, recording.display_path(source.path), names.target_lookup(dict(source.labels), registry)
        )
