"""Reader of recording folders: checks the description and loads all inputs as one block of samples.

The reader of inputs of kind `some-kind` is `READER` of the module `some_kind` in this folder, an `InputReader`.
"""

import datetime as dt
import hashlib
import importlib
import json
import os
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from importlib.resources import files
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from skewscope.adapters.formats.bounds import BYTES, INPUTS, KNOWN_SERIES
from skewscope.adapters.formats.compression import observe_bytes
from skewscope.adapters.formats.file_kinds import has_anything, has_file, has_folder
from skewscope.adapters.formats.openmetrics import MAX_SECONDS
from skewscope.adapters.formats.stray_text import count_strays, describe_strays
from skewscope.adapters.inputs.bounded_registry import SERIES_HINT, BoundedRegistry
from skewscope.adapters.inputs.byte_progress import ByteProgress, Progress, SharedCounter, count_bytes
from skewscope.adapters.inputs.input_warnings import group_warnings, unread_text
from skewscope.adapters.inputs.kept_series import KeptSeries
from skewscope.adapters.inputs.merge import (
    InputSamples,
    MergedSamples,
    SampleSpill,
    drop_rival_engines,
    merge_inputs,
)
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.mapping.engines import EngineLedger
from skewscope.adapters.mapping.name_mapping import NameMapping, read_mapping
from skewscope.adapters.mapping.names import MetricResolver, UnmappedMetric
from skewscope.adapters.runtime.processes import ProcessEndedError, map_parallel
from skewscope.engine.ingest.feed import TICK_S, Block, SeriesTable
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.topology_file import parse_topology
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader, is_finite_number
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem, join_names, suggest_name
from skewscope.kb.yamlfile import FieldPath, type_label

RECORDING_FILE = "recording.yaml"
AUTO_TICK = "auto"
MAX_TICK_S = 60.0
MAX_FILES = 1_000_000
MIN_PARALLEL_BYTES = 1 << 20
"""So little is never read by processes of their own."""
BYTES_PER_WORKER = 16 << 20
"""Bytes of input for each reader process: starting one costs as much as reading a third of this."""


@dataclass(frozen=True, slots=True)
class Input:
    """One source of telemetry in a recording."""

    kind: str
    path: str
    """Relative to the folder, with slashes."""
    labels: tuple[tuple[str, str], ...] = ()
    line: int = 0
    files: tuple[str, ...] = ()
    """Names of the files of a folder that count; () for all."""
    is_found: bool = False
    """Whether it was found in a folder, is one of several, or is `partial`: what cannot be read of it is a warning."""


@dataclass(frozen=True)
class Recording:
    """A recording folder with a checked description; the data is not read yet."""

    path: Path
    topology: Topology
    inputs: tuple[Input, ...]
    start: float | None = None
    """Seconds since 1970; None for that of the data."""
    end: float | None = None
    version: int = 1
    topology_hash: str = ""
    mapping: NameMapping = field(default_factory=NameMapping)
    """Names of metrics beside those of the catalogue."""
    workers: int = 1
    """Processes that may read the files of one input."""
    tick: float | None = TICK_S
    """Seconds of data that are judged at a time; None: chosen by the amount of data."""
    kept: KeptSeries = field(default_factory=KeptSeries, compare=False, repr=False)
    """Series that were read before the recording is loaded."""

    def resolve_path(self, path: str) -> Path:
        """Returns the absolute path of a path in the folder.

        Raises:
            InputError: a link leads out of the folder.
        """
        found = self.path / path
        if not _is_inside(self.path, found):
            raise InputError([Problem(str(found), 0, "", "a link that leads out of the folder", "a file inside it")])
        return found

    def display_path(self, path: str) -> str:
        """Returns a path in the folder as messages show it."""
        return str(self.path / path)

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return self.path.resolve().name or "/"

    def name_input(self, source: Input) -> str:
        """Returns what messages call an input: its path, or the name of the folder where it is all of that."""
        return self.folder if source.path == "." else source.path

    def list_files(self, path: str) -> list[str]:
        """Returns the names of the files in a folder, sorted, without hidden ones."""
        try:
            names = sorted(each.name for each in self.resolve_path(path).iterdir() if not each.name.startswith("."))
        except OSError as error:
            raise InputError(
                [Problem(self.display_path(path), 0, "", str(error.strerror), "a readable folder")]
            ) from None
        if len(names) > MAX_FILES:
            raise InputError([Problem(self.display_path(path), 0, "", f"{len(names)} files", f"at most {MAX_FILES}")])
        return names

    def list_input_files(self, source: Input) -> list[str]:
        """Returns the names of the files of an input that is a folder, sorted."""
        names = list(source.files) or self.list_files(source.path)
        if reader_of(source).leaves_others_out:
            return [name for name in names if has_file(self.resolve_path(f"{source.path}/{name}"))]
        return names


@dataclass(frozen=True)
class RecordingData:
    """All samples of a recording, independent of the order of its inputs."""

    samples: MergedSamples
    table: SeriesTable
    start: float
    end: float
    """Seconds since 1970; both 0 where unknown."""
    input_hash: str
    unmapped: tuple[UnmappedMetric, ...] = ()
    warnings: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    """What messages call the inputs that are left out since they cannot be read."""

    @cached_property
    def block(self) -> Block:
        """Returns all samples, in order of time, then series. For short recordings: it holds them in memory."""
        return self.samples.whole()


@dataclass(frozen=True)
class InputResult:
    """Result of reading one input; pickled between processes."""

    samples: InputSamples
    digest: str
    unmapped: Counter[tuple[str, str]] = field(default_factory=Counter)
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


@cache
def input_readers() -> dict[str, InputReader]:
    """Returns the readers of inputs, by kind."""
    kinds = {*_module_names(), *_format_readers()}
    found = ((kind, find_reader(kind)) for kind in sorted(kinds))
    return {kind: reader for kind, reader in found if reader is not None}


def find_reader(kind: str) -> InputReader | None:
    """Returns the reader of inputs of a kind, None for no kind; no other module is imported."""
    name = _module_names().get(kind)
    if name is None:
        return _format_readers().get(kind)
    reader = getattr(importlib.import_module(name), "READER", None)
    return reader if isinstance(reader, InputReader) else None


def _format_readers() -> Mapping[str, InputReader]:
    """Returns the readers of formats of the catalogue that have a kind of their own."""
    from skewscope.adapters.inputs.text import format_readers  # noqa: PLC0415

    return format_readers()


def reader_of(source: Input) -> InputReader:
    """Returns the reader of an input, whose kind was checked when its recording was opened."""
    reader = find_reader(source.kind)
    assert reader is not None
    return reader


@cache
def _module_names() -> dict[str, str]:
    """Returns the names of the modules in this folder, by the kind of input that each would be."""
    import skewscope.adapters.inputs as folder  # noqa: PLC0415

    names = (module.name for module in pkgutil.iter_modules(folder.__path__))
    return {name.replace("_", "-"): f"{folder.__name__}.{name}" for name in names}


def demo_path() -> Path:
    """Returns the folder of the recording that is part of the package."""
    return Path(str(files("skewscope.adapters"))) / "demo"


def open_recording(path: Path) -> Recording:
    """Opens the recording in a folder and checks its description; inputs are not read yet.

    Raises:
        InputError: all problems of `recording.yaml` and the topology.
    """
    folder = path.parent if path.name == RECORDING_FILE and has_file(path) else path
    if not has_folder(folder):
        found = "a file" if has_anything(folder) else "no such folder"
        raise InputError([Problem(str(folder), 0, "", found, f"a recording: a folder with {RECORDING_FILE}")])
    fields = FieldReader(yamlfile.read(folder / RECORDING_FILE))
    if fields.check_keys((), ("version", "topology", "inputs"), ("start", "end", "mapping", "tick", "note")):
        fields.check_version()
    start, end = (_parse_time(fields, (name,)) for name in ("start", "end"))
    if start is not None and end is not None and end < start:
        fields.add_problem(("end",), f"{end}, before the start", f"a time after {start}")
    cluster, digest = _parse_topology(fields, folder)
    # Names cannot be checked against a topology with problems.
    checked = cluster if digest else None
    listed = fields.value_at(("inputs",))
    INPUTS.check(str(folder / RECORDING_FILE), len(listed) if isinstance(listed, list) else 0)
    inputs = tuple(_parse_input(fields, path, folder, checked) for path in fields.item_paths(("inputs",)))
    mapping = _parse_mapping_file(fields, folder)
    tick = _parse_tick(fields)
    if fields.problems:
        raise InputError(set(fields.problems))
    return Recording(folder, cluster, inputs, start, end, fields.value_at(("version",)), digest, mapping, tick=tick)


def clip_recording(recording: Recording, start: float | None, end: float | None) -> Recording:
    """Returns a part of a recording; bounds in seconds since 1970, None keeps a bound.

    Raises:
        InputError: the end is before the start.
    """
    start = recording.start if start is None else start
    end = recording.end if end is None else end
    if start is not None and end is not None and end < start:
        raise InputError([Problem(str(recording.path), 0, "", f"an end {start - end:g} s before the start", "a span")])
    return replace(recording, start=start, end=end)


def _parse_time(fields: FieldReader, path: FieldPath) -> float | None:
    """Returns the seconds since 1970 of a number or of a date with a time."""
    value = fields.value_at(path)
    if isinstance(value, dt.datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).timestamp()
    if value is None:
        return None
    if not is_finite_number(value) or not 0 <= value < MAX_SECONDS:
        hint = "Milliseconds? Divide by 1000." if is_finite_number(value) and value >= MAX_SECONDS else ""
        fields.add_problem(
            path, f"{type_label(value)} ({value!s:.40})", "seconds since 1970, or a date with a time", hint
        )
        return None
    return float(value)


def _parse_tick(fields: FieldReader) -> float | None:
    """Returns the length of a tick in seconds; None for one that is chosen by the amount of data."""
    value = fields.value_at(("tick",))
    if value == AUTO_TICK:
        return None
    if value is None or (is_finite_number(value) and TICK_S <= value <= MAX_TICK_S):
        return TICK_S if value is None else float(value)
    found = f"{type_label(value)} ({value!s:.40})"
    fields.add_problem(("tick",), found, f"{TICK_S:g} to {MAX_TICK_S:g} seconds, or {AUTO_TICK}")
    return None


def _parse_topology(fields: FieldReader, folder: Path) -> tuple[Topology, str]:
    name = _parse_path(fields, ("topology",), folder, is_folder=False)
    if not name:
        return Topology(), ""
    try:
        document = yamlfile.read(folder / name)
    except InputError as error:
        fields.problems += error.problems
        return Topology(), ""
    read, problems = parse_topology(document)
    fields.problems += problems
    return (Topology(), "") if problems else (read, _topology_hash(document))


def parse_topology_file(text: str, file: str) -> tuple[Topology, str]:
    """Returns the topology in the text of a file, and the hash of its content.

    Raises:
        InputError: all problems of the topology.
    """
    document = yamlfile.parse(text, file)
    read, problems = parse_topology(document)
    if problems:
        raise InputError(problems)
    return read, _topology_hash(document)


def _topology_hash(document: yamlfile.Document) -> str:
    """Returns a hash of the content, not of its formatting."""
    content = json.dumps(document.data, sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


def _parse_mapping_file(fields: FieldReader, folder: Path) -> NameMapping:
    name = _parse_path(fields, ("mapping",), folder, is_folder=False)
    try:
        return read_mapping(folder / name, catalogue()) if name else NameMapping()
    except InputError as error:
        fields.problems += error.problems
        return NameMapping()


def _parse_path(fields: FieldReader, at: FieldPath, folder: Path, *, is_folder: bool) -> str:
    """Returns an existing path inside the folder; adds a problem and returns '' where it is invalid."""
    text = fields.text(at)
    if not text:
        return ""
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or "\\" in text or not _is_inside(folder, folder / path):
        fields.add_problem(at, f"{text!r}", "a path inside the recording's folder", "Copy the file into the folder.")
        return ""
    found = folder / path
    if not (has_folder(found) if is_folder else has_file(found)):
        wanted = "a folder" if is_folder else "a file"
        other = has_anything(found)
        hint = (
            ""
            if other
            else suggest_name(path.name, _sibling_names(found)) or "Paths are relative to the folder of this file."
        )
        fields.add_problem(at, f"{text!r}, which is not {wanted}" if other else f"no {text!r}", wanted, hint)
        return ""
    return str(path)


def _sibling_names(path: Path) -> list[str]:
    try:
        return sorted(each.name for each in path.parent.iterdir())[:1000]
    except OSError:
        return []


def _is_inside(folder: Path, path: Path) -> bool:
    """Returns whether a path stays in the folder after all links are followed."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False


def _parse_input(fields: FieldReader, at: FieldPath, folder: Path, cluster: Topology | None) -> Input:
    fields.check_keys(at, ("kind", "path"), ("labels", "partial", "note"))
    word = fields.value_at((*at, "kind"))
    reader = find_reader(word) if isinstance(word, str) else None
    kind = fields.text((*at, "kind"), choice=(word,) if reader else input_readers())
    path = _parse_path(fields, (*at, "path"), folder, is_folder=reader.is_folder) if reader else ""
    labels = _parse_labels(fields, (*at, "labels"))
    for name in reader.needs if reader else ():
        if not labels.get(name):
            fields.add_problem(
                (*at, "labels"),
                f"no label {name!r}",
                f"labels with {name!r}",
                "Add the labels of the port or node that the input comes from.",
            )
    if cluster is not None:
        _check_labels(fields, at, labels, cluster)
    is_partial = fields.value_at((*at, "partial"))
    if is_partial not in (None, True, False):
        fields.add_problem((*at, "partial"), type_label(is_partial), "true or false")
    line = fields.document.line(*at)
    return Input(kind, path, tuple(sorted(labels.items())), line, is_found=is_partial is True)


def _parse_labels(fields: FieldReader, at: FieldPath) -> dict[str, str]:
    """Returns the labels as text; integers are converted."""
    value = fields.value_at(at)
    if value is None:
        return {}
    if not isinstance(value, dict):
        fields.add_problem(at, type_label(value), "a mapping of label names to texts")
        return {}
    labels = {}
    for name, text in value.items():
        if isinstance(text, int) and not isinstance(text, bool):
            labels[str(name)] = str(text)
        else:
            labels[str(name)] = fields.required_text((*at, name))
    return labels


def _check_labels(fields: FieldReader, at: FieldPath, labels: dict[str, str], cluster: Topology) -> None:
    node, port = labels.get("node", ""), labels.get("port", "")
    if node and node not in cluster.node:
        hint = fields.suggest_name(node, cluster.node)
        fields.add_problem((*at, "labels", "node"), f"an unknown node {node!r}", "a node of the topology", hint)
    elif node and port and f"{node}/{port}" not in cluster.port:
        hint = fields.suggest_name(port, [p.name for p in cluster.node[node].ports])
        expected = f"a port of the node {node!r} ({join_names([p.name for p in cluster.node[node].ports])})"
        fields.add_problem((*at, "labels", "port"), f"an unknown port {port!r}", expected, hint)


def load(
    recording: Recording, known: Catalogue, progress: Progress | None = None, workers: int | None = None
) -> RecordingData:
    """Reads all inputs of a recording in `workers` processes (None: as many as pay for themselves).

    Raises:
        InputError: all problems of the inputs.
    """
    recording = replace(recording, workers=(os.cpu_count() or 1) if workers is None else workers)
    inputs = order_inputs(recording)
    names = MetricResolver(known, recording.topology, recording.mapping)
    spill = SampleSpill()
    results = _read_all(recording, names, inputs, progress or (lambda _, __: None), workers, spill)
    return combine_results(recording, known, results, spill.scratch)


def combine_results(
    recording: Recording, known: Catalogue, results: list[InputResult], scratch: TemporaryDirectory[str] | None = None
) -> RecordingData:
    """Returns all samples of a recording from the result of each input, in their order (`order_inputs`).

    Raises:
        InputError: all problems of the inputs.
    """
    inputs = order_inputs(recording)
    failed = _check_results(inputs, results)
    unread = [unread_text(recording.name_input(source), problems) for source, problems in failed]
    kept, claimed = drop_rival_engines([each.samples for each in results], EngineLedger(recording.topology), known)
    samples, table, doubles = merge_inputs(kept, scratch)
    counts: Counter[tuple[str, str]] = sum((each.unmapped for each in results), Counter())
    times = samples.span()
    told = [(s.path, recording.name_input(s), each.warnings) for s, each in zip(inputs, results, strict=True)]
    return RecordingData(
        samples,
        table,
        times[0] if recording.start is None else recording.start,
        max(times[1], recording.start or 0.0) if recording.end is None else recording.end,
        hash_inputs(recording, inputs, results),
        tuple(
            sorted([*doubles, *claimed, *(UnmappedMetric(metric, reason, n) for (metric, reason), n in counts.items())])
        ),
        tuple(sorted({*unread, *group_warnings(told)})),
        tuple(recording.name_input(source) for source, _ in failed),
    )


def order_inputs(recording: Recording) -> list[Input]:
    """Returns the inputs by kind, path and labels: a result does not depend on how they were listed."""
    return sorted(recording.inputs, key=lambda source: (source.kind, source.path, source.labels, source.line))


def _check_results(inputs: list[Input], results: list[InputResult]) -> list[tuple[Input, tuple[Problem, ...]]]:
    """Returns inputs that were found in a folder, or are some of several, and cannot be read, with their problems.

    Raises:
        InputError: problems of inputs that were named, or of all where none can be read.
    """
    failed = [(source, each.problems) for source, each in zip(inputs, results, strict=True) if each.problems]
    raised = failed if len(failed) == len(inputs) else [each for each in failed if not each[0].is_found]
    if raised:
        raise InputError({problem for _, problems in raised for problem in problems})
    return failed


def hash_inputs(recording: Recording, inputs: list[Input], results: list[InputResult]) -> str:
    """Returns a hash of the content, independent of names and order of the inputs."""
    content = sorted([s.kind, list(map(list, s.labels)), t.digest] for s, t in zip(inputs, results, strict=True))
    whole = [recording.version, recording.topology_hash, recording.start, recording.end, content]
    if recording.mapping.text:
        whole.append(hashlib.sha256(recording.mapping.text.encode()).hexdigest())
    if recording.tick not in {None, TICK_S}:
        whole.append({"tick": recording.tick})
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def _read_all(
    recording: Recording,
    names: MetricResolver,
    inputs: list[Input],
    progress: Progress,
    workers: int | None,
    spill: SampleSpill,
) -> list[InputResult]:
    """Returns the result of each input, in their order."""
    sizes = [input_size(recording, source) for source in inputs]
    check_total_size(recording, sizes)
    known = 0
    told = ByteProgress(progress, sum(sizes), recording.folder)
    found: dict[int, InputResult] = {}
    for index, result in _read_inputs(
        partial(read_input, recording, names), inputs, sizes, workers, told, recording.kept
    ):
        known += len(result.samples.keys)
        KNOWN_SERIES.check(str(recording.path), known, SERIES_HINT)
        found[index] = replace(result, samples=spill.keep(result.samples, str(index)))
        told.finish(inputs[index].path, sizes[index])
    return [found[index] for index in range(len(inputs))]


def _read_inputs(
    read_one: Callable[[Input], InputResult],
    inputs: list[Input],
    sizes: list[int],
    workers: int | None,
    told: ByteProgress,
    kept: KeptSeries,
) -> Iterator[tuple[int, InputResult]]:
    """Yields (index, result) of each input as they become ready."""
    alone = [n for n, source in enumerate(inputs) if reader_of(source).reads_in_parallel or source in kept]
    rest = [n for n in range(len(inputs)) if n not in set(alone)]
    size = sum(sizes[n] for n in rest)
    if workers is None:
        workers = min(os.cpu_count() or 1, size // BYTES_PER_WORKER)
    workers = min(workers, len(rest))
    if workers < 2 or size < MIN_PARALLEL_BYTES:
        alone, rest = list(range(len(inputs))), []
    for index in alone:
        told.begin(inputs[index].path, sizes[index])
        with observe_bytes(told.add):
            result = read_one(inputs[index])
        yield index, result
    if not rest:
        return
    # The largest first: short inputs fill the gaps at the end.
    order = sorted(rest, key=lambda index: -sizes[index])
    counter = SharedCounter()
    work = partial(count_bytes, counter, read_one)
    try:
        for place, result in map_parallel(
            work, [inputs[index] for index in order], workers, lambda: told.tell_counter(counter)
        ):
            yield order[place], result
    except ProcessEndedError:
        raise lost_reader_error(inputs) from None


def lost_reader_error(inputs: Sequence[Input]) -> InputError:
    """Returns the error of a reader process that ended on its own."""
    hint = "Was there enough memory? Fewer workers need less."
    return InputError([Problem(inputs[0].path, 0, "", "the reader process died", "samples", hint)])


def check_total_size(recording: Recording, sizes: Sequence[int]) -> None:
    """Raises InputError where the inputs have more bytes, as they are stored, than are read without being asked to."""
    BYTES.check(str(recording.path), sum(sizes), "Give fewer or shorter files.")


def read_input(recording: Recording, names: MetricResolver, source: Input) -> InputResult:
    """Reads one input; problems are part of the result, since exceptions lose them between processes."""
    registry = BoundedRegistry(recording.display_path(source.path), KNOWN_SERIES.limit())
    try:
        with count_strays() as strays:
            block = reader_of(source).read(source, recording, registry, names)
        if told := describe_strays(strays):
            registry.warnings.append(f"{source.path}: {told}")
        digest = hash_input(recording, source)
    except InputError as error:
        return InputResult(InputSamples(), "", problems=error.problems)
    samples = InputSamples(tuple(registry.keys), tuple(registry.ranks), block)
    return InputResult(samples, digest, registry.unmapped, tuple(registry.warnings))


def _input_files(recording: Recording, source: Input) -> list[str]:
    """Returns the paths of an input's files."""
    if reader_of(source).is_folder:
        return [f"{source.path}/{name}" for name in recording.list_input_files(source)]
    return [source.path]


def input_size(recording: Recording, source: Input) -> int:
    """Returns the bytes of an input as it is stored; 0 where it cannot be read."""
    try:
        return sum(recording.resolve_path(path).stat().st_size for path in _input_files(recording, source))
    except OSError:
        return 0


def hash_input(recording: Recording, source: Input) -> str:
    """Returns a hash of an input's bytes; those of pages include the names, which are their times.

    Raises:
        InputError: a file cannot be read.
    """
    pages = reader_of(source).is_folder
    try:
        files = [
            (Path(path).name if pages else "", recording.resolve_path(path)) for path in _input_files(recording, source)
        ]
        parts = [[name, _file_digest(path)] for name, path in files]
    except OSError as error:
        raise InputError(
            [Problem(recording.display_path(source.path), 0, "", str(error.strerror), "a readable file")]
        ) from None
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
