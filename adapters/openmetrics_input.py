"""Inputs of kind `openmetrics`: one file of text with a time on every line."""

from skewscope.adapters import openmetrics
from skewscope.adapters.compressed import open_stream
from skewscope.adapters.names import Intake, Names
from skewscope.adapters.recording import Input, Recording
from skewscope.engine.feed import Block


def read(source: Input, recording: Recording, intake: Intake, names: Names) -> Block:
    """The samples of the file.

    Raises:
        InputError: it is no exposition, or damaged.
    """
    with open_stream(recording.file(source.path)) as stream:
        return openmetrics.read(stream, recording.shown(source.path), names.known(dict(source.labels), intake))
