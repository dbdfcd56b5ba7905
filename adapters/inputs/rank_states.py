"""Inputs of kind `rank-states`: a folder with a text for each rank, or for some, that says what it does."""

from collections.abc import Iterator, Mapping

from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.inputs.collective_states import RankTexts, add_text, list_series, recognise
from skewscope.adapters.inputs.labelled import LabelledSeries, samples_to_block
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.inputs.training_steps import job_name
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block

HEAD_BYTES = 1 << 16


def _read_input(source: Input, recording: Recording) -> list[LabelledSeries]:
    folder, found = recording.display_path(source.path), RankTexts()
    labels = {"group": job_name(recording.name_input(source)), **dict(source.labels)}
    for name in recording.list_input_files(source):
        with open_stream(recording.resolve_path(f"{source.path}/{name}"), keep_prompts=True) as file:
            if recognise(file.peek(HEAD_BYTES)[:HEAD_BYTES], name):
                add_text(found, file, f"{folder}/{name}", labels)
    return list_series(found, folder, labels["group"])


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of all texts of the folder.

    Raises:
        InputError: a file is damaged, or nothing in them says that anything is wrong.
    """
    return samples_to_block(_read_input(source, recording), source, registry, names)


def scan(source: Input, recording: Recording) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yields metric and labels of each series, for the inference of a topology.

    Raises:
        InputError: a file is damaged, or nothing in them says that anything is wrong.
    """
    yield from ((one.metric, dict(one.labels)) for one in _read_input(source, recording))


READER = InputReader(
    "folder with stacks or logs of ranks", read, scan=scan, is_folder=True, leaves_others_out=True, is_yearless=True
)
