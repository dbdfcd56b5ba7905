"""Finds inputs among files: the kind of each by its first bytes and its name."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from skewscope.adapters.formats.bounds import INPUTS
from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.inputs.input_warnings import problem_text
from skewscope.adapters.inputs.known_formats import KIND as TEXT
from skewscope.adapters.inputs.known_formats import known_formats
from skewscope.adapters.inputs.log_recognition import LookAhead, find_log_kind, is_any_log
from skewscope.adapters.inputs.nearest_kind import EXPECTED, METRICS_HINT, explain_refusal
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import RECORDING_FILE, Input, input_readers
from skewscope.kb.problems import InputError, Problem, join_names

HEAD_BYTES = 1 << 16
MAX_DEPTH = 6
"""Folders below the given one that are searched."""
IGNORED_NAMES = frozenset((RECORDING_FILE, "topology.yaml", "labels.json", "mapping.yaml"))
"""Files of a recording that are no inputs."""


UNKNOWN_KIND = "no known kind"
PROGRESS_FILES = 50
"""Files that are looked at between two reports."""


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file, or a folder, that was found and is not read."""

    path: str
    """As the folder that was searched names it."""
    reason: str
    is_named: bool = False
    """Whether it was asked for by its own name."""


@dataclass
class FoundInputs:
    """Inputs that were found in files and folders."""

    inputs: list[Input] = field(default_factory=list)
    """Paths relative to the folder that contains all."""
    skipped: list[SkippedFile] = field(default_factory=list)
    """Files in folders that are not read."""
    ahead: LookAhead = field(default_factory=LookAhead)
    _places: dict[tuple[str, str], int] = field(default_factory=dict)
    """Place of each input in the list, by kind and path."""

    def add(self, source: Input) -> None:
        """Adds an input; files of a folder that is an input already join it."""
        key = source.kind, source.path
        if key not in self._places:
            self._places[key] = len(self.inputs)
            self.inputs.append(source)
            return
        known = self.inputs[self._places[key]]
        files = tuple(sorted({*known.files, *source.files}))
        self.inputs[self._places[key]] = replace(known, files=files, is_found=known.is_found and source.is_found)

    def join_sets(self) -> None:
        """Makes one input of several files of a folder, where their kind has a kind for that."""
        sets: dict[tuple[str, str], list[Input]] = {}
        for source in self.inputs:
            if kind := input_readers()[source.kind].set_kind:
                sets.setdefault((kind, str(PurePosixPath(source.path).parent)), []).append(source)
        for (kind, folder), members in sets.items():
            if len(members) > 1:
                # In the order in which they were named, which may be that of the time.
                files = tuple(PurePosixPath(each.path).name for each in members)
                joined = Input(kind, folder, files=files, is_found=all(each.is_found for each in members))
                place = self.inputs.index(members[0])
                self.inputs = [each for each in self.inputs if each not in members]
                self.inputs.insert(place, joined)


def find_kind(path: Path, ahead: LookAhead | None = None) -> str:
    """Returns the kind of a file, '' for none.

    Args:
        path: the file.
        ahead: what may be read of logs that begin with something else; None for the most of one file.

    Raises:
        InputError: the file cannot be read.
    """
    readers = sorted(input_readers().items(), key=lambda one: not one[1].is_first)
    first = [one for one in readers if not one[1].is_fallback and not one[1].is_last]
    last, rest = [one for one in readers if one[1].is_fallback], [one for one in readers if one[1].is_last]
    with open_stream(path) as stream, open_stream(path, keep_prompts=True) as whole:
        heads = {False: stream.read(HEAD_BYTES), True: whole.read(HEAD_BYTES)}
        if own := known_formats().choose_own(heads[True]):
            return own.kind or TEXT

        def fitting(some: list[tuple[str, InputReader]]) -> str:
            kinds = (kind for kind, reader in some if reader.recognise(heads[reader.keeps_prompts], path.name))
            return next(kinds, "")

        if kind := fitting(first):
            return kind
        log = find_log_kind(stream, heads[False], path.name, ahead or LookAhead(), fitting(last))
        return log or fitting(rest)


def find_inputs(
    paths: Sequence[Path], folder: Path, progress: Callable[[str, float], None] | None = None
) -> FoundInputs:
    """Returns the inputs in files and folders; their paths are relative to `folder`, which contains them all.

    One file among several that cannot be read stops nothing.

    Raises:
        InputError: nothing was found.
    """
    found = FoundInputs()
    problems: list[Problem] = []
    for path in paths:
        if path.is_dir():
            _add_folder(path, folder, found, progress or (lambda _, __: None))
            continue
        try:
            _add_file(path, folder, found, is_one_of_several=len(paths) > 1)
        except InputError as error:
            problems += error.problems
            found.skipped.append(SkippedFile(str(path), problem_text(error.problems[0])))
    found.join_sets()
    if problems and not found.inputs:
        raise InputError(problems)
    if not found.inputs:
        shown = join_names([each.path for each in found.skipped], 3)
        what = f"no file of a known kind, but {shown}" if found.skipped else "an empty folder"
        raise InputError([Problem(str(paths[0]), 0, "", what, EXPECTED, METRICS_HINT)])
    return found


def _add_file(path: Path, folder: Path, found: FoundInputs, *, is_one_of_several: bool) -> None:
    kind = find_kind(path, found.ahead) or _find_text(path)
    if not kind:
        raise InputError([explain_refusal(path)])
    files = _siblings(path, kind, found.ahead) if _is_folder(kind) else ()
    found.add(_make_input(kind, path, folder, files, is_found=is_one_of_several))


def _find_text(path: Path) -> str:
    """Returns the kind of texts for a file that is the log of an unknown program, of which too little is known."""
    with open_stream(path) as stream:
        return TEXT if is_any_log(stream.read(HEAD_BYTES)) else ""


def _is_folder(kind: str) -> bool:
    return input_readers()[kind].is_folder


def _siblings(path: Path, kind: str, ahead: LookAhead) -> tuple[str, ...]:
    """Returns the names of the files of a kind that lie beside a file of it, with the file's own."""
    others = (
        each for each in sorted(path.parent.iterdir())[: INPUTS.limit()] if each.is_file() and each.name[0] != "."
    )
    return tuple(each.name for each in others if each == path or _kind_or_reason(each, ahead)[0] == kind)


def _add_folder(path: Path, folder: Path, found: FoundInputs, progress: Callable[[str, float], None]) -> None:
    by_folder: dict[tuple[str, Path], list[str]] = {}
    most = INPUTS.limit()
    for number, file in enumerate(_walk(path, path, MAX_DEPTH, found.skipped)):
        shown = str(file.relative_to(path))
        if number >= most:
            raise InputError([INPUTS.problem(str(path), hint="Give the files, or a folder with fewer.")])
        if number % PROGRESS_FILES == 0:
            progress(f"look for inputs: {number} files", 0.0)
        if file.name in IGNORED_NAMES:
            continue
        kind, reason = _kind_or_reason(file, found.ahead)
        if not kind:
            found.skipped.append(SkippedFile(shown, reason))
        elif _is_folder(kind):
            by_folder.setdefault((kind, file.parent), []).append(file.name)
        else:
            found.add(_make_input(kind, file, folder, (), is_found=True))
    for (kind, parent), names in by_folder.items():
        found.add(_make_input(kind, parent / names[0], folder, tuple(names), is_found=True))


def _kind_or_reason(file: Path, ahead: LookAhead) -> tuple[str, str]:
    """Returns the kind of a file, or '' and why it has none."""
    try:
        return find_kind(file, ahead), UNKNOWN_KIND
    except InputError as error:
        return "", problem_text(error.problems[0])


def _walk(folder: Path, top: Path, depth: int, skipped: list[SkippedFile]) -> Iterator[Path]:
    """Yields the files of a folder, sorted, without hidden ones and links; adds folders that it leaves out.

    Raises:
        InputError: the top folder cannot be read.
    """
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        if folder == top:
            raise InputError([Problem(str(folder), 0, "", str(error.strerror), "a readable folder")]) from None
        skipped.append(SkippedFile(str(folder.relative_to(top)), f"no readable folder ({error.strerror})"))
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_dir() and depth:
            yield from _walk(entry, top, depth - 1, skipped)
        elif entry.is_dir():
            reason = f"folders are searched {MAX_DEPTH} levels deep"
            skipped.append(SkippedFile(str(entry.relative_to(top)), reason))
        elif entry.is_file():
            yield entry


def _make_input(kind: str, path: Path, folder: Path, files: tuple[str, ...], *, is_found: bool = False) -> Input:
    whole = path.parent if _is_folder(kind) else path
    return Input(
        kind, str(PurePosixPath(whole.resolve().relative_to(folder.resolve()))), files=files, is_found=is_found
    )
