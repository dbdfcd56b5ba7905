"""Lists the series of inputs before they are read: metric and labels of each, for the inference of a topology."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from skewscope.adapters.discovery.hosts import HOST_BOUND, HOST_LABELS
from skewscope.adapters.discovery.observed_series import HELPER_METRICS, ObservedSeries, observe_series
from skewscope.adapters.formats.bounds import KNOWN_SERIES, SERIES
from skewscope.adapters.formats.compression import observe_bytes, open_stream
from skewscope.adapters.formats.openmetrics_grammar import Labels
from skewscope.adapters.inputs.byte_progress import ByteProgress
from skewscope.adapters.inputs.recognition import SkippedFile
from skewscope.adapters.inputs.recording import (
    SERIES_HINT,
    Input,
    Recording,
    check_total_size,
    input_readers,
    input_size,
    problem_text,
)
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.engine.model.topology_file import NODE_WITHOUT
from skewscope.kb.problems import InputError, Problem

SELF_PLACED = frozenset(("pod", "rank", "group", "replica"))
"""Labels that place a series without a host."""


@dataclass
class SeriesScan:
    """The series of several inputs."""

    inputs: list[Input] = field(default_factory=list)
    """With the label `node` of those whose file stands for a node."""
    series: list[ObservedSeries] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    """Number of series of each metric that no signal has."""
    nodes_of_files: list[str] = field(default_factory=list)
    """Nodes that are named after their files."""
    unread: list[SkippedFile] = field(default_factory=list)
    """Files in folders that look like a known kind but cannot be read."""


def scan_inputs(
    recording: Recording, names: MetricResolver, progress: Callable[[str, float], None] | None = None
) -> SeriesScan:
    """Lists the series of all inputs of a recording, whose topology need not be known.

    Raises:
        InputError: an input cannot be read.
    """
    scan = SeriesScan()
    problems: list[Problem] = []
    sizes = [input_size(recording, source) for source in recording.inputs]
    report = progress or (lambda _, __: None)
    check_total_size(recording, sizes)
    told = ByteProgress(lambda path, share: report(f"look at {path}", share), sum(sizes))
    for source, size in zip(recording.inputs, sizes, strict=True):
        told.begin(source.path, size)
        try:
            with observe_bytes(told.add):
                _scan_input(source, recording, names, scan)
        except InputError as error:
            if not source.is_found:
                raise
            problems += error.problems
            scan.unread.append(SkippedFile(source.path, problem_text(error.problems[0])))
        told.finish(source.path, size)
    if problems and not scan.inputs:
        raise InputError(problems)
    return scan


def _scan_input(source: Input, recording: Recording, names: MetricResolver, scan: SeriesScan) -> None:
    static = dict(source.labels)
    most_known = KNOWN_SERIES.limit()
    kinds: dict[str, frozenset[str]] = {}
    unknown: Counter[str] = Counter()
    found: list[ObservedSeries] = []
    for metric, pairs in _list_distinct(source, recording, names):
        observed = list(observe_series([(metric, {**dict(pairs), **static})], names, kinds))
        found += observed
        if len(scan.series) + len(found) > most_known:
            raise InputError([KNOWN_SERIES.problem(recording.display_path(source.path), hint=SERIES_HINT)])
        if not observed and not metric.endswith("_created") and metric not in HELPER_METRICS:
            unknown[metric] += 1
    scan.unknown += unknown
    named = _node_of_file(source, found)
    if named:
        source = replace(source, labels=tuple(sorted([*source.labels, ("node", named)])))
        found = [one._replace(labels={**one.labels, "node": named}) for one in found]
        scan.nodes_of_files.append(named)
    scan.inputs.append(source)
    scan.series += found


def _list_distinct(source: Input, recording: Recording, names: MetricResolver) -> Iterator[tuple[str, Labels]]:
    """Yields metric and labels of each series of an input once, as it is read."""
    most = SERIES.limit()
    seen: set[tuple[str, Labels]] = set()
    for metric, labels in _list_series(source, recording):
        one = names.metric_name(metric, labels), tuple(sorted(labels.items()))
        if one in seen:
            continue
        seen.add(one)
        if len(seen) > most:
            raise InputError([SERIES.problem(recording.display_path(source.path), hint=SERIES_HINT)])
        yield one


def _list_series(source: Input, recording: Recording) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yields metric and labels of the series of an input; some may come repeatedly."""
    module = input_readers()[source.kind]
    if scan := getattr(module, "scan", None):
        yield from scan(source, recording)
    elif read_series := getattr(module, "read_series", None):
        with open_stream(recording.resolve_path(source.path)) as stream:
            for one in read_series(stream, recording.display_path(source.path), dict(source.labels)):
                yield one.metric, dict(one.labels)


def _node_of_file(source: Input, series: list[ObservedSeries]) -> str:
    """Returns the node that the name of a file stands for, if no series says where it is from; '' otherwise."""
    placed = [one for one in series if one.kinds & HOST_BOUND]
    if not placed or any(one.labels.get(label) for one in placed for label in (*HOST_LABELS, *SELF_PLACED)):
        return ""
    stem = PurePosixPath(source.path).name.partition(".")[0]
    return "".join(c if c not in NODE_WITHOUT and c.isprintable() else "-" for c in stem)[:100] or "host"
