"""Files in a folder of entries that nothing reads: a lint that passes them over would call them sound."""

from collections.abc import Collection, Iterator
from pathlib import Path

from skewscope.kb.problems import Problem

SUFFIXES = (".yaml", ".yml")
MAX_DEPTH = 4


def find_unread_files(folder: Path, read: Collection[str], files: Collection[str] = ()) -> Iterator[Problem]:
    """Yields a problem for each YAML file that lies where none is read, or whose name does not end in .yaml.

    Args:
        folder: a folder of rules, or a catalogue.
        read: folders below it, with slashes, whose files are read; '' is the folder itself.
        files: further files that are read.
    """
    places = ", ".join(f"{folder.name}/{place}".rstrip("/") for place in sorted(read))
    for path in _walk(folder, MAX_DEPTH):
        inside = path.relative_to(folder)
        parent = "" if len(inside.parts) == 1 else inside.parent.as_posix()
        if inside.as_posix() in files or (path.suffix == ".yaml" and parent in read):
            continue
        hint = "Move or rename it, or delete it."
        yield Problem(f"{folder.name}/{inside}", 0, "", "a file that nothing reads", f"a .yaml file in {places}", hint)


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    """Yields the YAML files of a folder and of those below it, sorted."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir() and depth:
            yield from _walk(path, depth - 1)
        elif path.suffix.lower() in SUFFIXES:
            yield path
