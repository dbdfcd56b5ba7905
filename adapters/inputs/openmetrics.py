"""Inputs of kind `openmetrics`: one file of text with a time on every line."""

from skewscope.adapters.formats import openmetrics
from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block


def read(source: Input, recording: Recording, intake: SeriesRegistry, names: MetricResolver) -> Block:
    """The samples of the file.

    Raises:
        InputError: it is no exposition, or damaged.
    """
    with open_stream(recording.resolve_path(source.path)) as stream:
        return openmetrics.read(
            stream, recording.display_path(source.path), names.target_lookup(dict(source.labels), intake)
        )
