"""Files in a folder of entries that nothing reads: a lint that passes them over would call them sound."""

import os
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
    for parent, name in _walk(folder, "", MAX_DEPTH):
        inside = f"{parent}/{name}".lstrip("/")
        if inside in files or (name.endswith(".yaml") and parent in read):
            continue
        hint = "Move or rename it, or delete it."
        yield Problem(f"{folder.name}/{inside}", 0, "", "a file that nothing reads", f"a .yaml file in {places}", hint)


def _walk(folder: Path, parent: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yields the YAML files of a folder and of those below it, sorted: the folders above it with slashes, its name."""
    for entry in sorted(os.scandir(folder / parent), key=lambda entry: entry.name):
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_dir() and depth:
            yield from _walk(folder, f"{parent}/{entry.name}".lstrip("/"), depth - 1)
        elif entry.name.lower().endswith(SUFFIXES):
            yield parent, entry.name
