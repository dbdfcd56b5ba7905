"""A folder of entries as it was read: every file, what it holds, what is wrong with it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from skewscope.kb.build import BUILDERS, Value, linked
from skewscope.kb.model import Catalogue, Condition, Mitigation, Signal, Source
from skewscope.kb.problems import InputError, Problem
from skewscope.kb.shape import faults
from skewscope.kb.yamlfile import Document, read

KINDS = ("conditions", "signals", "mitigations", "sources")
"""Names of the folders; a kind's schema is called by the singular."""

MOST_BYTES = 256 << 10
MOST_FILES = 20_000


@dataclass(frozen=True)
class Entry:
    """One file of the catalogue."""

    kind: str
    name: str
    """The file's name without its ending."""
    document: Document
    value: Value


@dataclass(frozen=True)
class Shelf:
    """What a folder holds. Entries with faults are in `names` and `problems`, not among `entries`."""

    folder: str
    entries: tuple[Entry, ...]
    names: Mapping[str, frozenset[str]]
    """By kind: every id for which there is a file."""
    problems: tuple[Problem, ...]

    def of(self, kind: str) -> Iterator[Entry]:
        """The entries of a kind, in the order of ids."""
        return (entry for entry in self.entries if entry.kind == kind)

    @cached_property
    def catalogue(self) -> Catalogue:
        """All sound entries, linked."""
        found: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        for entry in self.entries:
            found[entry.kind][entry.value.id] = entry.value
        return Catalogue(
            MappingProxyType(linked(cast("dict[str, Condition]", found["conditions"]))),
            MappingProxyType(cast("dict[str, Signal]", found["signals"])),
            MappingProxyType(cast("dict[str, Mitigation]", found["mitigations"])),
            MappingProxyType(cast("dict[str, Source]", found["sources"])),
        )


def shipped() -> Path:
    """The folder that comes with the package."""
    return Path(str(files("skewscope.kb")))


def open_shelf(folder: Path | None = None) -> Shelf:
    """What a folder holds; without one, what comes with the package."""
    root, shown = (shipped(), "kb") if folder is None else (folder, str(folder))
    problems: list[Problem] = []
    entries: list[Entry] = []
    names: dict[str, frozenset[str]] = {}
    if not any((root / kind).is_dir() for kind in KINDS):
        problems.append(Problem(shown, 0, "", "no catalogue", f"a folder with {', '.join(KINDS)}"))
    for kind in KINDS:
        paths = _paths(root / kind, f"{shown}/{kind}", problems)
        names[kind] = frozenset(path.stem for path in paths)
        entries += [e for path in paths if (e := _entry(path, kind, f"{shown}/{kind}/{path.name}", problems))]
    return Shelf(shown, tuple(entries), MappingProxyType(names), tuple(problems))


def _paths(folder: Path, shown: str, problems: list[Problem]) -> list[Path]:
    if not folder.is_dir():
        return []
    found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    sound = [path for path in found if path.suffix == ".yaml" and path.is_file()]
    others = sorted(set(found) - set(sound))
    problems += [Problem(f"{shown}/{path.name}", 0, "", "no entry", "a file ending in .yaml") for path in others]
    if len(sound) > MOST_FILES:
        problems.append(Problem(shown, 0, "", f"{len(sound)} files", f"at most {MOST_FILES}"))
    return sound[:MOST_FILES]


def _entry(path: Path, kind: str, shown: str, problems: list[Problem]) -> Entry | None:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise InputError([Problem(shown, 0, "", f"{size} bytes", f"at most {MOST_BYTES} for one entry")])
        document = read(path, shown)
    except InputError as error:
        problems += error.problems
        return None
    except OSError as error:
        problems.append(Problem(shown, 0, "", f"no readable file ({error.strerror})", "a YAML file"))
        return None
    wrong = faults(kind.removesuffix("s"), document)
    problems += wrong
    return None if wrong else Entry(kind, path.stem, document, BUILDERS[kind](document.data, shown))
