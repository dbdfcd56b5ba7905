"""Samples of artefacts as labelled series, and their way into a block.

A reader of an artefact (a file that some tool writes, such as a trace or a log) gives metric and labels of each number;
names and labels are mapped to signals and entities here, as for every other input.

Labels of a series that is measured on a rank: `group` is the process group or communicator as the artefact names it,
`rank` the place in that group. `nranks`, `global_rank` and `parallelism` (tensor, pipeline, data or expert) describe
the group only: they help to find a rank or to draft a topology, and tell no two series apart.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from skewscope.adapters.formats.bounds import SAMPLES
from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.formats.openmetrics import MAX_SECONDS, drop_blanks
from skewscope.adapters.inputs.merge import sort_by_time
from skewscope.adapters.inputs.reader import InputReader, SeriesReader
from skewscope.adapters.inputs.recording import Input, Recording, reader_of
from skewscope.adapters.mapping.entities import UnmappedError
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block, concat_blocks
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem

DESCRIBING_LABELS = frozenset(("nranks", "global_rank", "parallelism"))

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class LabelledSeries:
    """Samples of one series of a file, before names and labels are mapped."""

    metric: str
    """A canonical name, such as skewscope_step_duration, or an exporter's name that the catalogue knows."""
    labels: Labels
    """Sorted by name; only what the artefact says."""
    times: F64
    """[sample] seconds since 1970."""
    values: F64
    """[sample]"""
    note: str = ""
    """What is assumed of the series, such as times that begin at 0; shown as a warning."""


@dataclass
class SeriesCollector:
    """Collects samples one by one; `series` returns them by metric and labels."""

    file: str
    """Name for messages."""
    note: str = ""
    _samples: "dict[tuple[str, Labels], tuple[array[float], array[float]]]" = field(default_factory=dict)
    _by_given: "dict[tuple[Any, ...], tuple[array[float], array[float]]]" = field(default_factory=dict)
    """The samples of each series by its metric and labels as they were given."""
    _count: int = 0
    _most: int = field(default_factory=SAMPLES.limit)

    def add(self, metric: str, labels: Mapping[str, str], time: float, value: float, line: int = 0) -> None:
        """Adds a sample; empty labels are left out.

        Args:
            metric: name as in `LabelledSeries`.
            labels: labels of the series.
            time: seconds since 1970.
            value: the number, in the metric's unit.
            line: line of the sample in the file, for messages.

        Raises:
            InputError: the time is none, or there are too many samples.
        """
        if not 0 <= time < MAX_SECONDS:
            raise InputError([Problem(self.file, line, "", f"the time {time!r}", "seconds since 1970")])
        self._count += 1
        if self._count > self._most:
            raise InputError([SAMPLES.problem(self.file, hint="Split it.")])
        samples = self._by_given.get((metric, *labels.items())) or self._begin_series(metric, labels)
        samples[0].append(time)
        samples[1].append(value)

    def add_many(self, metric: str, labels: Mapping[str, str], times: F64, values: F64) -> None:
        """Adds samples of one series, [sample] seconds since 1970 and numbers.

        Raises:
            InputError: there are too many samples.
        """
        self._count += len(times)
        if self._count > self._most:
            raise InputError([SAMPLES.problem(self.file, hint="Split it.")])
        for own, new in zip(self._begin_series(metric, labels), (times, values), strict=True):
            own.frombytes(np.ascontiguousarray(new, np.float64).tobytes())

    def _begin_series(self, metric: str, labels: Mapping[str, str]) -> "tuple[array[float], array[float]]":
        """Returns times and values of a series, which is known from now on."""
        key = metric, tuple(sorted((name, value) for name, value in labels.items() if value))
        samples = self._samples.setdefault(key, (array("d"), array("d")))
        return self._by_given.setdefault((metric, *labels.items()), samples)

    def __len__(self) -> int:
        """Returns the number of samples."""
        return self._count

    def newest(self, metric: str, labels: Mapping[str, str]) -> float | None:
        """Returns the value of the newest sample of a series; None without one."""
        _, values = self._samples.get((metric, tuple(sorted(labels.items()))), ((), ()))
        return values[-1] if values else None

    def stretch(self, since: float, factor: float) -> None:
        """Moves the newest samples, those after `since` (seconds since 1970), to so many times the distance from it.

        They were added in the order of time.
        """
        for times, _ in self._samples.values():
            for n in range(len(times) - 1, -1, -1):
                if times[n] <= since:
                    break
                times[n] = since + factor * (times[n] - since)

    def series(self, *, keeps_newest: bool = False) -> list[LabelledSeries]:
        """Returns all series, in the order of metric and labels, with their samples in the order of time.

        With `keeps_newest`, of several samples of one time the last one counts.
        """
        return [
            _sort_samples(LabelledSeries(metric, labels, np.array(times), np.array(values), self.note), keeps_newest)
            for (metric, labels), (times, values) in sorted(self._samples.items())
        ]


def _sort_samples(series: LabelledSeries, keeps_newest: bool) -> LabelledSeries:
    times, values = series.times, series.values
    if (times[1:] < times[:-1]).any():
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
    if keeps_newest:
        is_last = np.append(times[1:] > times[:-1], True)
        times, values = times[is_last], values[is_last]
    return replace(series, times=times, values=values)


def artefact_reader(
    label: str,
    read_series: SeriesReader,
    recognise: Callable[[bytes, str], bool],
    max_bytes: int | None = None,
    **traits: Any,
) -> InputReader:
    """Returns the reader of inputs that are one file, plain or compressed.

    Args:
        label: what messages call the kind.
        read_series: reads the series of a file.
        recognise: whether a file is of the kind.
        max_bytes: limit on the decompressed size.
        traits: other fields of the reader.
    """
    read = partial(_read_artefact, read_series, max_bytes)
    return InputReader(label, read, recognise, read_series=read_series, **traits)


def _read_artefact(
    read_series: SeriesReader,
    max_bytes: int | None,
    source: Input,
    recording: Recording,
    registry: SeriesRegistry,
    names: MetricResolver,
) -> Block:
    path = recording.resolve_path(source.path)
    series = recording.kept.take(source, path)
    if series is None:
        with open_stream(path, max_bytes, keep_prompts=reader_of(source).keeps_prompts) as file:
            series = read_series(file, recording.display_path(source.path), dict(source.labels))
    block = samples_to_block(series, source, registry, names)
    del series  # of a long file there is no room for more copies
    return sort_by_time(block)


def samples_to_block(
    series: Iterable[LabelledSeries], source: Input, registry: SeriesRegistry, names: MetricResolver
) -> Block:
    """Maps each series to the catalogue and the topology; counts the unmapped ones by reason."""
    static = dict(source.labels)
    blocks = []
    for one in series:
        blocks += _map_series(one, static, registry, names)
        if one.note and (text := f"{source.path}: {one.note}") not in registry.warnings:
            registry.warnings.append(text)
    return concat_blocks(blocks)


def _map_series(
    series: LabelledSeries, static: Mapping[str, str], registry: SeriesRegistry, names: MetricResolver
) -> list[Block]:
    own = {name: value for name, value in series.labels if name not in DESCRIBING_LABELS}
    describing = {name: value for name, value in series.labels if name in DESCRIBING_LABELS}
    try:
        mapped = names.resolve(series.metric, own, {**describing, **static})
    except UnmappedError as reason:
        registry.ignore(series.metric, str(reason))
        return []
    return [
        Block(
            series.times,
            np.full(len(series.times), registry.register(each.key, each.rank), np.int32),
            (drop_blanks(series.values) if each.has_blanks else series.values) * each.scale,
        )
        for each in mapped
    ]
