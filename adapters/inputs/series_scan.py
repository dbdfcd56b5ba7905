"""Lists the series of inputs before they are read: metric and labels of each, for the inference of a topology."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from skewscope.adapters.discovery.hosts import HOST_BOUND, HOST_LABELS
from skewscope.adapters.discovery.observed_series import ObservedSeries, observe_series
from skewscope.adapters.formats.bounds import KNOWN_SERIES, SERIES
from skewscope.adapters.formats.compression import observe_bytes, open_stream
from skewscope.adapters.formats.log_lines import file_stem
from skewscope.adapters.formats.openmetrics_grammar import Labels
from skewscope.adapters.formats.stray_text import count_strays
from skewscope.adapters.inputs.bounded_registry import SERIES_HINT
from skewscope.adapters.inputs.byte_progress import ByteProgress
from skewscope.adapters.inputs.counter_dumps import parse_dump_name
from skewscope.adapters.inputs.file_origin import ORIGIN_LABEL
from skewscope.adapters.inputs.folder_origins import distinguish_folders, distinguish_runs
from skewscope.adapters.inputs.input_warnings import problem_text
from skewscope.adapters.inputs.process_groups import RUN_LABEL, run_labels
from skewscope.adapters.inputs.recognition import SkippedFile
from skewscope.adapters.inputs.recording import (
    Input,
    Recording,
    check_total_size,
    input_size,
    reader_of,
)
from skewscope.adapters.mapping.names import HELPER_METRICS, MetricResolver
from skewscope.engine.model.topology_file import NODE_WITHOUT
from skewscope.kb.problems import InputError, NothingKnownError

TEXT_KIND = "text"
"""The kind that reads any text."""
MAX_REREAD_BYTES = 32 << 20
"""Of an input with known series; of a larger one, names that are not known are not worth another reading."""
SELF_PLACED = frozenset(("pod", "rank", "group", "replica"))
"""Labels that place a series without a host."""


@dataclass
class ScannedInput:
    """The series of one input."""

    source: Input
    series: list[ObservedSeries]
    named_by: str = ""
    """The node that its file or folder stands for; '' where its series say where they are from."""
    is_folder: bool = False
    """Whether that is its folder."""
    warned_of: str = ""
    """The node that its reader named after the file, and says so in a warning."""
    run: str = ""
    """The run that its ranks are of, where another input has the same ranks."""
    unknown: Sequence[tuple[str, Labels]] = ()
    """Metric and labels of its series that no signal has, where the words of their names may say what they are."""

    @property
    def folder(self) -> str:
        """The folder in which it lies."""
        return str(PurePosixPath(self.source.path).parent)

    def place(self, labels: Mapping[str, str]) -> None:
        """Adds labels to the input and its series, instead of that of its folder."""
        own = {**dict(self.source.labels), **labels}
        own.pop(ORIGIN_LABEL, None)
        self.source = replace(self.source, labels=tuple(sorted(own.items())))
        self.series = [one._replace(labels={**one.labels, **labels}) for one in self.series]


@dataclass
class SeriesScan:
    """The series of several inputs."""

    found: list[ScannedInput] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    """Number of series of each metric that no signal has."""
    known: int = 0
    """Number of series of known metrics."""
    unread: list[SkippedFile] = field(default_factory=list)
    """Files in folders that look like a known kind but cannot be read."""
    read_as_text: list[str] = field(default_factory=list)
    """Why files that look like a known kind are read as any text is."""

    @property
    def inputs(self) -> list[Input]:
        """The inputs, those whose file or folder stands for a node with the labels of it."""
        return [each.source for each in self.found]

    @property
    def series(self) -> list[ObservedSeries]:
        """The series of all inputs."""
        return [one for each in self.found for one in each.series]

    @property
    def nodes_of_files(self) -> list[str]:
        """Nodes that are named after their files."""
        return [each.named_by for each in self.found if each.named_by and not each.is_folder]

    @property
    def nodes_of_folders(self) -> list[str]:
        """Nodes that are named after folders."""
        return [each.named_by for each in self.found if each.is_folder]


def scan_inputs(
    recording: Recording, names: MetricResolver, progress: Callable[[str, float], None] | None = None
) -> SeriesScan:
    """Lists the series of all inputs of a recording, whose topology need not be known.

    Raises:
        InputError: an input cannot be read.
    """
    scan = SeriesScan()
    errors: list[InputError] = []
    sizes = [input_size(recording, source) for source in recording.inputs]
    report = progress or (lambda _, __: None)
    check_total_size(recording, sizes)
    told = ByteProgress(lambda path, share: report(f"look at {path}", share), sum(sizes), recording.folder)
    for source, size in zip(recording.inputs, sizes, strict=True):
        told.begin(source.path, size)
        try:
            with observe_bytes(told.add):
                _scan_or_read_text(source, recording, names, scan)
        except InputError as error:
            if not source.is_found:
                raise
            errors.append(error)
            scan.unread.append(SkippedFile(recording.name_input(source), problem_text(error.problems[0])))
        told.finish(source.path, size)
    if errors and not scan.found:
        # What was read and says nothing is too little to judge, whatever else cannot be read.
        some_read = any(isinstance(each, NothingKnownError) for each in errors)
        raise (NothingKnownError if some_read else InputError)([one for each in errors for one in each.problems])
    _separate_folders(scan)
    _separate_runs(scan)
    return scan


def _scan_or_read_text(source: Input, recording: Recording, names: MetricResolver, scan: SeriesScan) -> None:
    """Adds an input, as any text or as numbers with names where its own reader refuses it.

    Raises:
        InputError: none can read it; the reason is that of its own reader.
    """
    try:
        _scan_input(source, recording, names, scan)
    except InputError as refusal:
        for kind, called in _list_others(source, refusal):
            with suppress(InputError):
                _scan_input(replace(source, kind=kind), recording, names, scan)
                reason = problem_text(refusal.problems[0])
                scan.read_as_text.append(f"{recording.name_input(source)} is read as {called}: {reason}")
                return
        raise


def _list_others(source: Input, refusal: InputError) -> Iterator[tuple[str, str]]:
    """Yields the kinds that may read what the reader of an input refuses, and what it is called then.

    Numbers with names are looked for in a text of which nothing is known; what is damaged, or of a kind that has an
    answer of its own, keeps that.
    """
    if source.kind != TEXT_KIND and not reader_of(source).is_folder:
        yield TEXT_KIND, "any text"
    if source.kind == TEXT_KIND and isinstance(refusal, NothingKnownError):
        yield "named-numbers", "numbers with names"


def _scan_input(source: Input, recording: Recording, names: MetricResolver, scan: SeriesScan) -> None:
    static = dict(source.labels)
    most_known = KNOWN_SERIES.limit()
    kinds: dict[str, frozenset[str]] = {}
    unknown: list[tuple[str, Labels]] = []
    found: list[ObservedSeries] = []
    for metric, pairs in _list_distinct(source, recording, names):
        observed = list(observe_series([(metric, {**dict(pairs), **static})], names, kinds))
        found += observed
        if scan.known + len(found) > most_known:
            raise InputError([KNOWN_SERIES.problem(recording.display_path(source.path), hint=SERIES_HINT)])
        if not observed and not metric.endswith("_created") and metric not in HELPER_METRICS:
            unknown.append((metric, pairs))
    scan.unknown += Counter(metric for metric, _ in unknown)
    scan.known += len(found)
    placed = _place_input(ScannedInput(source, found), static.get(ORIGIN_LABEL, ""))
    is_small = not found or input_size(recording, source) <= MAX_REREAD_BYTES
    placed.unknown = unknown if reader_of(source).has_metrics and is_small else ()
    recording.kept.follow(source, placed.source)
    scan.found.append(placed)


def _place_input(scanned: ScannedInput, origin: str) -> ScannedInput:
    """Returns an input with the labels that its folder, or else its file, stands for, where its series name no host."""
    found = scanned.series
    placed = [one for one in found if one.kinds & HOST_BOUND]
    if placed and not any(one.labels.get(label) for one in placed for label in (*HOST_LABELS, *SELF_PLACED)):
        scanned.named_by, scanned.is_folder = origin or _host_of_file(scanned.source), bool(origin)
        scanned.place({"node": scanned.named_by})
    elif origin and (own := _labels_of_origin(origin, found)):
        scanned.named_by, scanned.is_folder = origin, True
        scanned.place(own)
    elif origin and not any(one.labels.get("node") == origin for one in found):
        scanned.place({})
    elif reader_of(scanned.source).placed_by_name:
        stem = file_stem(scanned.source.path)
        scanned.warned_of = stem if {one.labels.get("node", "") for one in found} == {stem} else ""
    return scanned


def _labels_of_origin(origin: str, series: Sequence[ObservedSeries]) -> dict[str, str]:
    """Returns the labels that the reader of an input took from its folder for all series; none where it took none."""
    nodes = {one.labels.get("node", "") for one in series}
    instances = {one.labels.get("instance", "") for one in series}
    groups = {one.labels.get("group", "") for one in series}
    if nodes == {origin}:
        return {
            "node": origin,
            **({"instance": instances.pop()} if len(instances) == 1 and "" not in instances else {}),
        }
    if len(groups) == 1 and (group := groups.pop()).startswith(f"{origin}-"):
        return {"group": group}
    return {}


def _separate_folders(scan: SeriesScan) -> None:
    """Names nodes after folders where files of one name in several folders have the same series."""
    by_file: dict[str, list[ScannedInput]] = defaultdict(list)
    for each in scan.found:
        if each.named_by and not each.is_folder:
            by_file[each.named_by].append(each)
    for some in by_file.values():
        folders = sorted({each.folder for each in some})
        hosts = distinguish_folders(folders) if len(folders) > 1 and _share_series(some) else {}
        for each in some:
            if host := hosts.get(each.folder):
                each.named_by, each.is_folder = host, True
                each.place({"node": host})


def _separate_runs(scan: SeriesScan) -> None:
    """Names runs after files and folders where several have the same ranks of one group, or groups of two sizes."""
    some = [each for each in scan.found if reader_of(each.source).runs_apart]
    pairs = _pair_runs(some)
    runs = distinguish_runs(pairs, [each.source.path for each in some]) if pairs else {}
    for each in some:
        if run := runs.get(each.source.path):
            each.run = run
            own = {**dict(each.source.labels), RUN_LABEL: run}
            each.source = replace(each.source, labels=tuple(sorted(own.items())))
            labels = ({**run_labels(one.labels, run), RUN_LABEL: run} for one in each.series)
            each.series = [one._replace(labels=new) for one, new in zip(each.series, labels, strict=True)]


def _pair_runs(inputs: Sequence[ScannedInput]) -> list[tuple[str, str]]:
    """Returns paths of inputs that are of two runs, the first of each with any other."""
    owners: dict[tuple[str, str], str] = {}
    sizes: dict[str, tuple[str, str]] = {}
    pairs: set[tuple[str, str]] = set()
    for each in inputs:
        path = each.source.path
        for one in each.series:
            group, rank, size = (one.labels.get(label, "") for label in ("group", "rank", "nranks"))
            owner = owners.setdefault((group, rank), path) if rank else path
            other, known = sizes.setdefault(group, (path, size)) if size else (path, size)
            pairs |= {(owner, path), *([(other, path)] if size != known else [])}
    return sorted(pair for pair in pairs if pair[0] != pair[1])


def _share_series(inputs: Sequence[ScannedInput]) -> bool:
    """Returns whether two inputs in different folders have a series in common."""
    folder_of: dict[tuple[str, Labels], str] = {}
    return any(
        folder_of.setdefault((one.metric, tuple(sorted(one.labels.items()))), each.folder) != each.folder
        for each in inputs
        for one in each.series
    )


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
    reader = reader_of(source)
    if reader.scan:
        yield from reader.scan(source, recording)
    elif reader.read_series:
        path = recording.resolve_path(source.path)
        with count_strays() as strays, open_stream(path, keep_prompts=reader.keeps_prompts) as stream:
            series = reader.read_series(stream, recording.display_path(source.path), dict(source.labels))
        recording.kept.keep(source, path, series, strays)
        for one in series:
            yield one.metric, dict(one.labels)


def _host_of_file(source: Input) -> str:
    """Returns the node that the name of a file stands for; the time in a name is no part of it."""
    named = parse_dump_name(source.path)
    stem = named.node if named.time is not None and named.node else PurePosixPath(source.path).name.partition(".")[0]
    return "".join(c if c not in NODE_WITHOUT and c.isprintable() else "-" for c in stem)[:100] or "host"
