"""When files were written, for artefacts that do not say it: by a label of the input, else by the files themselves.

Copies that keep no times say when they were made; whoever uses such a time checks whether it can be.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from skewscope.adapters.formats.openmetrics import MAX_SECONDS
from skewscope.adapters.inputs.recording import Input, Recording, reader_of
from skewscope.kb.problems import InputError, Problem

WRITTEN_LABEL = "written"


def keep_written_times(recording: Recording) -> Recording:
    """Returns the recording with a label `written` on each input of which that counts, so that copies give the same."""
    return replace(recording, inputs=tuple(_keep_written_time(source, recording) for source in recording.inputs))


def _keep_written_time(source: Input, recording: Recording) -> Input:
    if not reader_of(source).written_counts or dict(source.labels).get(WRITTEN_LABEL):
        return source
    folder = recording.resolve_path(source.path)
    time = first_write_time(folder / name for name in recording.list_input_files(source))
    labels = source.labels if time is None else (*source.labels, (WRITTEN_LABEL, f"{time:.3f}"))
    return replace(source, labels=tuple(sorted(labels)))


def first_write_time(files: Iterable[Path]) -> float | None:
    """Returns when the first of some files was written, in seconds since 1970; None where there is none."""
    found = []
    for file in files:
        with suppress(OSError):
            found.append(file.stat().st_mtime)
    return min(found, default=None)


def written_label(labels: Mapping[str, str], file: str) -> float | None:
    """Returns the time of the label `written`; None where there is none.

    Raises:
        InputError: it is no time.
    """
    text = labels.get(WRITTEN_LABEL, "")
    if not text:
        return None
    with suppress(ValueError):
        if 0 <= float(text) < MAX_SECONDS:
            return float(text)
    raise InputError([Problem(file, 0, f"labels.{WRITTEN_LABEL}", f"{text!r:.40}", "seconds since 1970")])
