"""Inputs of kind `prometheus-page`: one scrape of an exporter, without times and with a name that is no time.

Its samples have the time that the end of its name says (`node-a-20261122T100000.prom`), else that when the file was
written, or that of the input's label `start` (seconds since 1970).
"""

import math
from collections.abc import Iterator

from skewscope.adapters.formats import openmetrics
from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.formats.openmetrics import MAX_SECONDS, ExpositionReader, list_series
from skewscope.adapters.formats.openmetrics_grammar import looks_like_exposition
from skewscope.adapters.inputs.counter_dumps import parse_dump_name
from skewscope.adapters.inputs.page_sections import split_page
from skewscope.adapters.inputs.prometheus_pages import MAX_PAGE_BYTES, parse_page_time
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block, concat_blocks
from skewscope.kb.problems import InputError, Problem

ONE_MOMENT = "one page shows one moment; put more into one folder, each named by its time (1795177354.prom)"


def recognise(head: bytes, name: str) -> bool:
    """Returns whether a file is exposition text without times whose name is not a time."""
    return parse_page_time(name) is None and looks_like_exposition(head, timed=False)


def scan(source: Input, recording: Recording) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields metric and labels of the series of the page.

    Raises:
        InputError: the page cannot be read.
    """
    with open_stream(recording.resolve_path(source.path), MAX_PAGE_BYTES, keep_prompts=True) as stream:
        for server, page in split_page(stream):
            own = {"instance": server} if server else {}
            for metric, labels in list_series(page, recording.display_path(source.path)):
                yield metric, {**own, **dict(labels)}


def list_types(source: Input, recording: Recording) -> dict[str, str]:
    """Returns the types that a file declares, by metric."""
    with open_stream(recording.resolve_path(source.path)) as stream:
        return openmetrics.list_types(stream)


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of the page.

    Raises:
        InputError: the page does not parse.
    """
    static = dict(source.labels)
    path, shown = recording.resolve_path(source.path), recording.display_path(source.path)
    given = static.pop("start", "")
    named = parse_dump_name(source.path).time
    time = _parse_start(given, shown) if given else path.stat().st_mtime if named is None else named
    whose = "" if given or named is not None else "; its time is that of the file"
    registry.warnings.append(f"{source.path}: {ONE_MOMENT}{whose}")
    blocks, prompts = [], 0
    with open_stream(path, MAX_PAGE_BYTES, keep_prompts=True) as stream:
        for server, page in split_page(stream):
            own = {"instance": server} if server else {}
            exposition = ExpositionReader(names.target_lookup({**own, **static}, registry))
            blocks.append(exposition.read(page, shown, time))
            prompts += exposition.prompts
    if prompts:
        noun = "line" if prompts == 1 else "lines"
        registry.warnings.append(f"{source.path}: left out {prompts} {noun} that a shell wrote")
    return concat_blocks(blocks)


def _parse_start(text: str, file: str) -> float:
    try:
        time = float(text)
    except ValueError:
        time = math.nan
    if not 0 <= time < MAX_SECONDS:
        raise InputError([Problem(file, 0, "start", f"{text!r:.40}", "seconds since 1970")])
    return time


READER = InputReader(
    "one page of a Prometheus exporter",
    read,
    recognise,
    scan=scan,
    has_metrics=True,
    list_types=list_types,
)
