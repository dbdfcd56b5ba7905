"""Makes a recording of files that nobody described: finds their kinds and infers the topology that they come from."""

import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from skewscope.adapters.discovery.draft import GUESS, Assumption, TopologyDraft
from skewscope.adapters.discovery.inference import infer_topology
from skewscope.adapters.discovery.render import render_draft
from skewscope.adapters.formats.topology_text import format_topology
from skewscope.adapters.inputs.file_origin import join_notes
from skewscope.adapters.inputs.folder_origins import label_folders
from skewscope.adapters.inputs.guessed_names import guess_mapping
from skewscope.adapters.inputs.input_warnings import problem_text
from skewscope.adapters.inputs.log_years import find_years
from skewscope.adapters.inputs.page_order import order_pages
from skewscope.adapters.inputs.recognition import SkippedFile, find_inputs
from skewscope.adapters.inputs.recording import (
    AUTO_TICK,
    RECORDING_FILE,
    Input,
    Recording,
    open_recording,
    parse_topology_file,
    reader_of,
)
from skewscope.adapters.inputs.series_scan import SeriesScan, scan_inputs
from skewscope.adapters.inputs.written_times import keep_written_times
from skewscope.adapters.mapping.column_names import is_needless
from skewscope.adapters.mapping.name_mapping import NameMapping
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.engine.engine import TICK_S
from skewscope.engine.model.topology import Topology
from skewscope.kb import yamlfile
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, NothingKnownError, Problem, join_names

TOPOLOGY_FILE, MAPPING_FILE = "topology.yaml", "mapping.yaml"
INPUT_FOLDER = "inputs"
MAX_EXPLAINED = 3
HOST_AND_PORT = re.compile(r"[\w.-]+:\d{1,5}")
PLACING_LABELS = ("node", "host", "instance", "replica", "group", "rank")
NOTE = "written by skewscope diagnose"


@dataclass(frozen=True)
class DraftRecording:
    """A recording of files, with what was assumed to read them."""

    recording: Recording
    topology_text: str
    assumptions: tuple[Assumption, ...] = ()
    unknown: Counter[str] = field(default_factory=Counter)
    """Number of series of each metric that no signal has."""
    skipped: tuple[SkippedFile, ...] = ()
    """Files of folders that are not read, with the reason."""
    note: str = ""
    """What else should be known of it."""
    is_inferred: bool = True
    """Whether the topology follows from labels."""


def draft_recording(
    paths: Sequence[Path],
    topology: Path | None = None,
    mapping: NameMapping | None = None,
    progress: Callable[[str, float], None] | None = None,
    workers: int = 1,
) -> DraftRecording:
    """Returns a recording of files and folders; without a topology, one is inferred from their labels.

    Args:
        paths: files and folders.
        topology: file of the topology; None infers one.
        mapping: names of metrics beside those of the catalogue.
        progress: receives the current step and the share of all work that is done.
        workers: processes that may read the files of one input; see `replay`.

    Raises:
        InputError: a file cannot be read or is of no known kind, or nothing in them is known.
    """
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise InputError(_missing_path(path) for path in missing)
    folder = _common_folder(paths)
    found = find_inputs(paths, folder, progress)
    text = yamlfile.read_text(topology, str(topology)) if topology else ""
    known, digest = parse_topology_file(text, str(topology)) if topology else (Topology(), "")
    inputs, unplaced = _place_captures(found.inputs, known)
    names_of_user = mapping or NameMapping()
    raw = Recording(folder, known, inputs, topology_hash=digest, mapping=names_of_user, workers=workers, tick=None)
    raw, told = label_folders(keep_written_times(raw))
    raw, years = find_years(raw)
    raw, ordered = order_pages(raw)
    scan, raw, guessed = _scan_with_guesses(raw, progress)
    skipped = tuple(_mark_named((*found.skipped, *unplaced, *scan.unread), paths, folder))
    note = join_notes(*scan.read_as_text, ordered, guessed)
    told = [*_named_nodes(scan), *_named_runs(scan), *told]
    if topology:
        readable = replace(raw, inputs=_keep_readable(raw, scan))
        return DraftRecording(readable, text, (*told, *years), scan.unknown, skipped, note, False)
    draft = infer_topology(scan.series)
    draft.assumptions = [*told, *_without_own_labels(draft, scan), *years]
    _check_found(draft, paths, scan, raw)
    text = render_draft(draft)
    read, digest = parse_topology_file(text, TOPOLOGY_FILE)
    whole = replace(raw, topology=read, topology_hash=digest, inputs=tuple(scan.inputs))
    return DraftRecording(whole, text, tuple(draft.assumptions), scan.unknown, skipped, note)


def _scan_with_guesses(
    raw: Recording, progress: Callable[[str, float], None] | None
) -> tuple[SeriesScan, Recording, str]:
    """Returns the series of a recording, it with a mapping for inputs of which nothing is known, and a note of that."""
    scan = scan_inputs(raw, MetricResolver(catalogue(), Topology(), raw.mapping), progress)
    if raw.mapping.rules or not any(each.unknown for each in scan.found):
        return scan, raw, ""
    groups: dict[tuple[bool, bool], list[tuple[str, Mapping[str, str]]]] = defaultdict(list)
    for each in scan.found:
        groups[bool(each.series), bool(each.named_by)] += [(metric, dict(pairs)) for metric, pairs in each.unknown]
    types: dict[str, str] = {}
    for each in scan.found:
        types |= reader_of(each.source).list_types(each.source, raw) if each.unknown else {}
    unknown = [*groups[False, False], *groups[False, True]]
    mapping, note = guess_mapping(unknown, groups[True, False], groups[True, True], types)
    if not mapping.rules:
        return scan, raw, ""
    guessed = replace(raw, mapping=mapping)
    return scan_inputs(guessed, MetricResolver(catalogue(), Topology(), mapping), progress), guessed, note


def _mark_named(skipped: Sequence[SkippedFile], paths: Sequence[Path], folder: Path) -> Iterator[SkippedFile]:
    """Yields files that are not read, with whether they were asked for by their own names."""
    named = {path.resolve() for path in paths if not path.is_dir()}
    for each in skipped:
        yield replace(each, is_named=not named.isdisjoint((Path(each.path).resolve(), (folder / each.path).resolve())))


def describe_recording(folder: Path) -> DraftRecording:
    """Returns a recording that is described already.

    Raises:
        InputError: all problems of its description.
    """
    recording = open_recording(folder)
    return DraftRecording(recording, format_topology(recording.topology))


def _named_runs(scan: SeriesScan) -> Iterator[Assumption]:
    """Yields which runs are told apart by the names of their files and folders."""
    if runs := sorted({each.run for each in scan.found if each.run}):
        what = f"run{'' if len(runs) == 1 else 's'} {join_names(runs, 3)}"
        yield Assumption(what, "the names of folders and files with the same ranks", GUESS)


def _missing_path(path: Path) -> Problem:
    hint = f"A server is given as http://{path}." if HOST_AND_PORT.fullmatch(str(path)) else ""
    return Problem(str(path), 0, "", "no such file or folder", "the path of one, or the URL of a server", hint)


def _named_nodes(scan: SeriesScan) -> Iterator[Assumption]:
    """Yields which nodes are named after folders and files."""
    for nodes, basis in ((scan.nodes_of_folders, "the names of folders"), (scan.nodes_of_files, "the names of files")):
        names = sorted(set(nodes))
        if names:
            yield Assumption(f"node{'' if len(names) == 1 else 's'} {join_names(names, 3)}", basis, GUESS)


def _common_folder(paths: Sequence[Path]) -> Path:
    """Returns the folder that contains all paths, relative where it is below the current one."""
    whole = [path.resolve() for path in paths]
    found = Path(os.path.commonpath([path if path.is_dir() else path.parent for path in whole]))
    here = Path.cwd().resolve()
    return found.relative_to(here) if found.is_relative_to(here) else found


def _without_own_labels(draft: TopologyDraft, scan: SeriesScan) -> Iterator[Assumption]:
    """Yields what was inferred, without the label `node` as a basis where it is the name of a file or folder."""
    named = {name for each in scan.found for name in (each.named_by, each.warned_of)}
    is_own = draft.nodes.keys() <= named
    yield from (each for each in draft.assumptions if not (is_own and each.basis == "the label `node`"))


def _keep_readable(recording: Recording, scan: SeriesScan) -> tuple[Input, ...]:
    """Returns the inputs that could be scanned; of those named after files and folders, the topology knows the node."""
    given = {(each.kind, each.path): each for each in recording.inputs}
    known = {alias for node in recording.topology.nodes for alias in (node.name, *node.aliases)}
    return tuple(
        each.source if not each.named_by or each.named_by in known else given[each.source.kind, each.source.path]
        for each in scan.found
    )


def _place_captures(inputs: Sequence[Input], topology: Topology) -> tuple[tuple[Input, ...], list[SkippedFile]]:
    """Returns the inputs, captures with their ports, and the captures in folders whose port is unknown.

    Raises:
        InputError: the port of a capture that was named is unknown, or that of all inputs.
    """
    placed: list[Input] = []
    skipped: list[SkippedFile] = []
    problems: list[Problem] = []
    for source in inputs:
        try:
            placed.append(_place_capture(source, topology))
        except InputError as error:
            if not source.is_found:
                raise
            problems += error.problems
            skipped.append(SkippedFile(source.path, problem_text(error.problems[0])))
    if problems and not placed:
        raise InputError(problems)
    return tuple(placed), skipped


def _place_capture(source: Input, topology: Topology) -> Input:
    """Returns the input of a capture with the port that its name says: node, `-` or `_`, port."""
    if "port" not in reader_of(source).needs:
        return source
    stem = Path(source.path).name.partition(".pcap")[0]
    for port in topology.port.values():
        if stem in (f"{port.node}-{port.name}", f"{port.node}_{port.name}"):
            return replace(source, labels=(("node", port.node), ("port", port.name)))
    expected = "--topology FILE, and a name such as n0-eth0.pcap for port eth0 of node n0"
    hint = "A capture does not say where it was taken; or describe it in a recording.yaml."
    raise InputError([Problem(source.path, 0, "", "a capture of an unknown port", expected, hint)])


def _check_found(draft: TopologyDraft, paths: Sequence[Path], scan: SeriesScan, recording: Recording) -> None:
    """Raises InputError where no series says of what it is."""
    if draft.nodes:
        return
    unknown = scan.unknown
    where = str(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    if scan.known:
        metrics = join_names(sorted({one.metric for one in scan.series}), 3)
        found = f"{scan.known} series of known metrics ({metrics}), none of which says where it was measured"
        hint = "In a mapping file, `entity: {node: NAME}` adds one: docs/mapping.md shows how."
        raise InputError([Problem(where, 0, "", found, f"one of the labels {', '.join(PLACING_LABELS)}", hint)])
    names = [name for name, _ in unknown.most_common() if not is_needless(name)] or sorted(unknown)
    found = f"no metric that is known, but {len(names)} others ({join_names(names, 3)})" if unknown else "no series"
    hint = f"{join_notes(*_explanations(recording)) or '--mapping FILE maps your names'}: docs/mapping.md shows how."
    # Numbers that were read, and of which nothing is known, are too little to judge; a mapping of the user's is wrong.
    kind = NothingKnownError if unknown and not recording.mapping.rules else InputError
    raise kind([Problem(where, 0, "", found, "metrics of exporters that the catalogue lists", hint)])


def _explanations(recording: Recording) -> list[str]:
    """Returns why readers of the first inputs took no column, where they say so."""
    notes = (reader_of(source).explain(source, recording) for source in recording.inputs[:MAX_EXPLAINED])
    return sorted(set(filter(None, notes)))


def save_recording(draft: DraftRecording, folder: Path) -> None:
    """Writes a recording to a new folder: its description, the topology and copies of the inputs.

    Raises:
        InputError: the folder exists and is not empty.
    """
    check_new_folder(folder)
    (folder / INPUT_FOLDER).mkdir(parents=True)
    inputs: list[dict[str, object]] = []
    for number, source in enumerate(draft.recording.inputs):
        origin = draft.recording.resolve_path(source.path)
        # The file keeps its own name: it may be what says host, device or time.
        name = f"{INPUT_FOLDER}/{number:03d}/{origin.name}"
        (folder / name).parent.mkdir()
        if origin.is_dir():
            (folder / name).mkdir()
            for file in draft.recording.list_input_files(source):
                shutil.copy2(draft.recording.resolve_path(f"{source.path}/{file}"), folder / name / file)
        else:
            shutil.copy2(origin, folder / name)
        labels = {"labels": dict(source.labels)} if source.labels else {}
        partial = {"partial": True} if origin.is_dir() and source.is_found else {}
        inputs.append({"kind": source.kind, "path": name, **labels, **partial})
    write_description(folder, draft.topology_text, inputs, draft.recording)


def check_new_folder(folder: Path) -> None:
    """Raises InputError where a folder exists and is not empty."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError([Problem(str(folder), 0, "", "an existing path", "a new or empty folder")])


def write_description(folder: Path, topology_text: str, inputs: list[dict[str, object]], recording: Recording) -> None:
    """Writes `recording.yaml`, the topology and the mapping file of a recording."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TOPOLOGY_FILE).write_text(topology_text, encoding="utf-8")
    whole: dict[str, object] = {"version": 1, "topology": TOPOLOGY_FILE, "note": NOTE}
    whole |= {"start": recording.start} if recording.start is not None else {}
    whole |= {"end": recording.end} if recording.end is not None else {}
    whole |= {"tick": recording.tick or AUTO_TICK} if recording.tick != TICK_S else {}
    if recording.mapping.text:
        (folder / MAPPING_FILE).write_text(recording.mapping.text, encoding="utf-8")
        whole["mapping"] = MAPPING_FILE
    text = yaml.safe_dump({**whole, "inputs": inputs}, sort_keys=False, allow_unicode=True)
    (folder / RECORDING_FILE).write_text(text, encoding="utf-8")
