"""Inputs of kind `kineto-ranks`: a folder with the traces of several ranks of a job, one file for each.

It gives what `kineto` gives of each trace, and how late each rank arrives at collectives. All ranks end a collective
such as an all-reduce together, so the rank whose part of it is the shortest arrived last, and the clocks of the ranks
need not agree.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath

import numpy as np

from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.formats.kineto import ProfilerTrace
from skewscope.adapters.inputs import kineto
from skewscope.adapters.inputs.collective_matches import RankCollectives, match_collectives
from skewscope.adapters.inputs.input_warnings import problem_text
from skewscope.adapters.inputs.labelled import LabelledSeries, Labels, SeriesCollector, samples_to_block
from skewscope.adapters.inputs.parallel_files import read_files
from skewscope.adapters.inputs.process_groups import RUN_LABEL, label_run, rank_labels
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block
from skewscope.kb.problems import InputError, Problem

HEAD_BYTES = 1 << 16
ARRIVAL_LAG = "skewscope_nccl_arrival_lag"


@dataclass(frozen=True)
class RankArrivals:
    """The collectives of one rank in one group."""

    labels: Mapping[str, str]
    collectives: RankCollectives
    times: Mapping[int, float]
    """Seconds since 1970 at the end of each step, by its number."""


@dataclass(frozen=True)
class RankTrace:
    """What the trace of one rank gives; pickled between processes."""

    file: str
    """Name in the folder."""
    rank: int = -1
    series: tuple[LabelledSeries, ...] = ()
    arrivals: tuple[tuple[str, RankArrivals], ...] = ()
    """By name of the group."""
    problems: tuple[Problem, ...] = ()


def read_rank(folder: str, path: Path) -> RankTrace | None:
    """Returns what the trace of a file gives, or its problems; None for a file of another kind.

    Args:
        folder: name of its folder, for messages.
        path: the file.
    """
    shown = f"{folder}/{path.name}"
    try:
        with open_stream(path, kineto.MAX_TRACE_BYTES) as file:
            if not kineto.recognise(file.peek(HEAD_BYTES)[:HEAD_BYTES], path.name):
                return None
            trace = kineto.read_steps(file, shown)
        rank = kineto.find_rank(trace, shown, {})
        series = tuple(kineto.list_series(trace, shown, {}, leads=True))
        return RankTrace(path.name, rank, series, tuple(_rank_arrivals(trace, rank)))
    except InputError as error:
        return RankTrace(path.name, problems=error.problems)


@dataclass
class TraceSet:
    """The traces of a job."""

    name: str
    series: dict[int, tuple[LabelledSeries, ...]] = field(default_factory=dict)
    """By rank."""
    arrivals: dict[str, list[RankArrivals]] = field(default_factory=dict)
    """By name of the group."""
    files: dict[int, str] = field(default_factory=dict)
    """By rank."""

    def add(self, trace: RankTrace) -> None:
        """Adds the trace of a rank.

        Raises:
            InputError: it could not be read, or is the second one of its rank.
        """
        if trace.problems:
            raise InputError(trace.problems)
        if trace.rank in self.files:
            found = f"a second trace of rank {trace.rank}, beside {self.files[trace.rank]}"
            shown, hint = f"{self.name}/{trace.file}", "Keep the traces of one run only."
            raise InputError([Problem(shown, 0, "", found, "one for each rank", hint)])
        self.series[trace.rank] = trace.series
        self.files[trace.rank] = trace.file
        for group, arrivals in trace.arrivals:
            self.arrivals.setdefault(group, []).append(arrivals)

    def list_series(self, left_out: list[Problem]) -> list[LabelledSeries]:
        """Returns the series of all ranks; their note is that of the first, and what was left out."""
        collector = SeriesCollector(self.name)
        for members in self.arrivals.values():
            for arrivals, lags in zip(members, _lags(members), strict=True):
                for step, lag in lags.items():
                    collector.add(ARRIVAL_LAG, arrivals.labels, arrivals.times[step], lag)
        notes = [f"{PurePath(each.file).name} is left out: {problem_text(each)}" for each in left_out]
        whole = [*self._own_series(), *collector.series()]
        note = "; ".join(filter(None, [*notes, whole[0].note]))
        return [replace(one, note=note) for one in whole]

    def _own_series(self) -> Iterator[LabelledSeries]:
        """Yields the series of each trace; those that are the group's, of its first rank."""
        told: set[tuple[str, Labels]] = set()
        for _, series in sorted(self.series.items()):
            for one in series:
                key = one.metric, one.labels
                if one.metric not in kineto.OF_GROUP or key not in told:
                    told.add(key)
                    yield one


def _rank_arrivals(trace: ProfilerTrace, rank: int) -> Iterator[tuple[str, RankArrivals]]:
    """Yields the collectives of a rank that all members end together, by group."""
    groups, world = kineto.find_groups(trace, rank)
    windows = kineto.step_windows(trace)
    times = kineto.step_times(trace, windows)
    numbers = np.array([step.number for step in trace.steps], np.int64)
    for name, parts in trace.mutual.items():
        group = groups.get(name) or (world if not name and len(groups) < 2 else None)
        if group is None or len(group.ranks) < 2:
            continue
        begin, end, sequence = parts[np.argsort(parts[:, 0], kind="stable")].T
        place = np.searchsorted(windows[:, 0], end) - 1
        inside = (place >= 0) & (end <= windows[np.maximum(place, 0), 1])
        steps = np.where(inside, numbers[np.maximum(place, 0)], -1)
        labels = rank_labels(group.name, group.description, group.ranks, rank)
        collectives = RankCollectives(trace.base + end / 1e6, (end - begin) / 1e6, steps, sequence)
        yield group.name, RankArrivals(labels, collectives, dict(zip(numbers.tolist(), times.tolist(), strict=True)))


def _lags(members: list[RankArrivals]) -> list[dict[int, float]]:
    """Returns, for each member, how late it arrived at a collective of each of its steps, at most, in seconds."""
    found: list[dict[int, float]] = [{} for _ in members]
    own = [each.collectives for each in members]
    for parts in match_collectives(own):
        longest = max(float(own[n].lengths[place]) for n, place in parts)
        for n, place in parts:
            step, lag = int(own[n].steps[place]), longest - float(own[n].lengths[place])
            if step >= 0:
                found[n][step] = max(lag, found[n].get(step, 0.0))
    return found


def read_series(files: Sequence[Path], name: str, *, is_strict: bool = True, workers: int = 1) -> list[LabelledSeries]:
    """Returns the series of the traces of a folder; files of other kinds are left out.

    Args:
        files: files of the folder.
        name: name of the folder, for messages.
        is_strict: whether a trace that cannot be read is an error; otherwise it is left out with a warning.
        workers: processes that read them, at most.

    Raises:
        InputError: all problems of the traces, or no trace can be read.
    """
    found = TraceSet(name)
    problems: list[Problem] = []
    for trace in filter(None, read_files(partial(read_rank, name), files, workers)):
        try:
            found.add(trace)
        except InputError as error:
            problems += error.problems
    if not found.files and not problems:
        problems.append(Problem(name, 0, "", "no trace of a profiler", "one file for each rank"))
    if problems and (is_strict or not found.files):
        raise InputError(problems)
    return found.list_series(problems)


def recognise(_head: bytes, _name: str) -> bool:
    """Returns False: a file alone is of kind `kineto`."""
    return False


def _read_input(source: Input, recording: Recording) -> list[LabelledSeries]:
    folder = recording.resolve_path(source.path)
    files = [folder / name for name in recording.list_input_files(source)]
    name = recording.display_path(source.path)
    series = read_series(files, name, is_strict=not source.is_found, workers=recording.workers)
    return label_run(series, dict(source.labels).get(RUN_LABEL, ""))


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of all traces of the folder.

    Raises:
        InputError: all problems of the traces.
    """
    return samples_to_block(_read_input(source, recording), source, registry, names)


def scan(source: Input, recording: Recording) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yields metric and labels of each series, for the inference of a topology.

    Raises:
        InputError: all problems of the traces.
    """
    yield from ((one.metric, dict(one.labels)) for one in _read_input(source, recording))


READER = InputReader(
    "folder with the profiler traces of several ranks",
    read,
    recognise,
    scan=scan,
    is_folder=True,
    leaves_others_out=True,
    reads_in_parallel=True,
    runs_apart=True,
)
