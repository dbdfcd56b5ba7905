"""Finds inputs among files: the kind of each by its first bytes and its name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath

from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.inputs.recording import RECORDING_FILE, Input, input_readers
from skewscope.kb.problems import InputError, Problem, join_names

HEAD_BYTES = 1 << 16
MAX_DEPTH = 6
"""Folders below the given one that are searched."""
MAX_FILES = 20_000
IGNORED_NAMES = frozenset((RECORDING_FILE, "topology.yaml", "labels.json", "mapping.yaml"))
"""Files of a recording that are no inputs."""


@dataclass
class FoundInputs:
    """Inputs that were found in files and folders."""

    inputs: list[Input] = field(default_factory=list)
    """Paths relative to `folder`."""
    skipped: list[str] = field(default_factory=list)
    """Files in folders of which no kind is known."""
    known: set[Input] = field(default_factory=set)
    """The same inputs, to look them up."""


def known_kinds() -> list[str]:
    """Returns what the kinds of inputs are called."""
    return [getattr(module, "LABEL", kind) for kind, module in input_readers().items()]


def find_kind(path: Path) -> str:
    """Returns the kind of a file, '' for none.

    Raises:
        InputError: the file cannot be read.
    """
    with open_stream(path) as stream:
        head = stream.read(HEAD_BYTES)
    fitting = (kind for kind, module in input_readers().items() if _is_recognised(module, head, path.name))
    return next(fitting, "")


def _is_recognised(module: object, head: bytes, name: str) -> bool:
    recognise = getattr(module, "recognise", None)
    return bool(recognise and recognise(head, name))


def find_inputs(paths: Sequence[Path], folder: Path) -> FoundInputs:
    """Returns the inputs in files and folders; their paths are relative to `folder`, which contains them all.

    Raises:
        InputError: a file that was named is of no known kind, or nothing was found.
    """
    found = FoundInputs()
    for path in paths:
        if path.is_dir():
            _add_folder(path, folder, found)
        else:
            kind = find_kind(path)
            if not kind:
                raise InputError([_unknown_file(path)])
            _add_input(kind, path, folder, found)
    if not found.inputs:
        shown = join_names(found.skipped, 3)
        what = f"no file of a known kind, but {shown}" if found.skipped else "an empty folder"
        raise InputError([Problem(str(paths[0]), 0, "", what, _expected_kinds())])
    return found


def _add_folder(path: Path, folder: Path, found: FoundInputs) -> None:
    for file in islice(_walk(path, MAX_DEPTH), MAX_FILES):
        if file.name in IGNORED_NAMES:
            continue
        try:
            kind = find_kind(file)
        except InputError:
            kind = ""
        if kind:
            _add_input(kind, file, folder, found)
        else:
            found.skipped.append(str(file.relative_to(path)))


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    """Yields the files of a folder, sorted, without hidden ones and links."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InputError([Problem(str(folder), 0, "", f"no readable folder ({error.strerror})", "one")]) from None
    for entry in entries:
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_dir() and depth:
            yield from _walk(entry, depth - 1)
        elif entry.is_file():
            yield entry


def _add_input(kind: str, path: Path, folder: Path, found: FoundInputs) -> None:
    whole = path.parent if getattr(input_readers()[kind], "FOLDER", False) else path
    source = Input(kind, str(PurePosixPath(whole.resolve().relative_to(folder.resolve()))))
    if source not in found.known:
        found.known.add(source)
        found.inputs.append(source)


def _unknown_file(path: Path) -> Problem:
    try:
        with open_stream(path) as stream:
            start = stream.read(40)
    except InputError as error:
        return error.problems[0]
    text = start.decode("utf-8", "replace").split("\n", maxsplit=1)[0]
    shown = "".join(c if c.isprintable() else "." for c in text)
    found = f"a file of no known kind, which begins with {shown!r}" if start else "an empty file"
    hint = "Is it a table? Then name its column of times `time`." if path.suffix in (".csv", ".tsv") else ""
    return Problem(str(path), 0, "", found, _expected_kinds(), hint)


def _expected_kinds() -> str:
    return f"one of these kinds: {'; '.join(known_kinds())}"
