"""Inputs of kind `prometheus-pages`: a folder with one page per scrape, named by its time in seconds since 1970."""

import re
from collections.abc import Iterator
from pathlib import Path

from skewscope.adapters.formats.bounds import SAMPLES
from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.formats.openmetrics import (
    MAX_FAULTS,
    MAX_SECONDS,
    ExpositionReader,
    concat_blocks,
    list_series,
)
from skewscope.adapters.formats.openmetrics_grammar import looks_like_exposition
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block
from skewscope.kb.problems import InputError, Problem

MAX_PAGE_BYTES = 256 << 20
PAGE_NAME = re.compile(r"(?P<time>\d+(?:\.\d+)?)(?:\.[a-z]+)*", re.ASCII)


def recognise(head: bytes, name: str) -> bool:
    """Returns whether a file is one of the pages: exposition text without times, named by a time."""
    return parse_page_time(name) is not None and looks_like_exposition(head, timed=False)


def scan(source: Input, recording: Recording) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields metric and labels of the series of the first and the last page.

    Raises:
        InputError: a page cannot be read, or its name is not a time.
    """
    pages = list_pages(recording, source)
    for _, name in [*pages[:1], *pages[1:][-1:]]:
        shown = f"{source.path}/{name}"
        with open_stream(recording.resolve_path(shown), MAX_PAGE_BYTES) as stream:
            for metric, labels in list_series(stream, recording.display_path(shown)):
                yield metric, dict(labels)


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of all pages; a line without a timestamp has the time of its page.

    Raises:
        InputError: a page does not parse, or its name is not a time.
    """
    exposition = ExpositionReader(names.target_lookup(dict(source.labels), registry))
    blocks: list[Block] = []
    problems: list[Problem] = []
    samples, most_samples = 0, SAMPLES.limit()
    for time, name in list_pages(recording, source):
        shown = f"{source.path}/{name}"
        try:
            with open_stream(recording.resolve_path(shown), MAX_PAGE_BYTES) as stream:
                blocks.append(exposition.read(stream, recording.display_path(shown), time))
                samples += len(blocks[-1])
        except InputError as error:
            problems += error.problems
        if samples > most_samples:
            problems.append(SAMPLES.problem(recording.display_path(shown), hint="Cut the recording into shorter ones."))
        if len(problems) >= MAX_FAULTS or samples > most_samples:
            break
    if problems and not (source.is_found and blocks):
        raise InputError(problems)
    registry.warnings += [f"a page is left out: {problem}" for problem in problems]
    return concat_blocks(blocks)


def list_pages(recording: Recording, source: Input) -> list[tuple[float, str]]:
    """Returns time in seconds since 1970 and file name of each page, in the order of time.

    Raises:
        InputError: a name is not a time, or two are the same one; of pages that were found, the first counts.
    """
    found: dict[float, str] = {}
    problems: list[Problem] = []
    for name in recording.list_input_files(source):
        file = recording.display_path(f"{source.path}/{name}")
        time = parse_page_time(name)
        if time is None:
            hint = "A page's name is the time of its scrape."
            problems.append(Problem(file, 0, "", f"the name {name!r:.60}", "one such as 1795177354.075.prom", hint))
        elif time in found and not source.is_found:
            problems.append(Problem(file, 0, "", f"a second page of {time}", f"one, and {found[time]!r} is there", ""))
        else:
            found.setdefault(time, name)
    if problems:
        raise InputError(problems[:MAX_FAULTS])
    return sorted(found.items())


def parse_page_time(name: str) -> float | None:
    """Returns the time of a file name in seconds since 1970; None where it is not a time."""
    match = PAGE_NAME.fullmatch(Path(name).name)
    if match is None or len(match["time"]) > 32:
        return None
    time = float(match["time"])
    # Larger numbers are milliseconds.
    return time / 1e3 if time > MAX_SECONDS else time


READER = InputReader(
    "folder of Prometheus pages that are named by their times",
    read,
    recognise,
    scan=scan,
    is_folder=True,
    has_metrics=True,
)
