"""Reads a folder of entries: every file with its content and its problems."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType

from skewscope.kb.builders import BUILDERS, EntryValue, build_catalogue
from skewscope.kb.entry_kinds import KINDS, MAX_BYTES, MAX_FILES, VERSION_FILE, builtin_folder, is_version
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem
from skewscope.kb.schema_validation import validate_entry
from skewscope.kb.yamlfile import Document, parse, read, read_text


@dataclass(frozen=True, eq=False)
class CatalogueEntry:
    """One file of the catalogue; an unchanged file gives the same object, so that what follows of it can be cached."""

    kind: str
    name: str
    """The file's name without its suffix."""
    document: Document
    value: EntryValue


@dataclass(frozen=True)
class EntryStore:
    """The content of a folder. Faulty entries are in `names` and `problems`, not in `entries`."""

    folder: str
    entries: tuple[CatalogueEntry, ...]
    names: Mapping[str, frozenset[str]]
    """By kind: every id that has a file."""
    problems: tuple[Problem, ...]
    version: str = ""

    def of_kind(self, kind: str) -> Iterator[CatalogueEntry]:
        """Returns the entries of a kind, in the order of ids."""
        return (entry for entry in self.entries if entry.kind == kind)

    @cached_property
    def catalogue(self) -> Catalogue:
        """Returns all valid entries, linked."""
        return build_catalogue(((entry.kind, entry.value) for entry in self.entries), self.version)


def open_entry_store(folder: Path | None = None, shown: str = "") -> EntryStore:
    """Reads a folder (default: the installed one). `shown` is its name in problems."""
    root, shown = (builtin_folder(), "kb") if folder is None else (folder, shown or str(folder))
    problems: list[Problem] = []
    entries: list[CatalogueEntry] = []
    names: dict[str, frozenset[str]] = {}
    if not any((root / kind).is_dir() for kind in KINDS):
        problems.append(Problem(shown, 0, "", "no catalogue", f"a folder with {', '.join(KINDS)}"))
    for kind in KINDS:
        paths = _entry_paths(root / kind, f"{shown}/{kind}", problems)
        names[kind] = frozenset(path.stem for path in paths)
        entries += [e for path in paths if (e := read_entry(path, kind, f"{shown}/{kind}/{path.name}", problems))]
    version = _read_version(root / VERSION_FILE, f"{shown}/{VERSION_FILE}", problems)
    return EntryStore(shown, tuple(entries), MappingProxyType(names), tuple(problems), version)


def read_signals(root: Path) -> tuple[tuple[EntryValue, ...], tuple[Problem, ...]]:
    """Returns the signals in a folder of entries, and their problems; reads no other kind."""
    problems: list[Problem] = []
    paths = _entry_paths(root / "signals", "kb/signals", problems)
    found = [e for path in paths if (e := read_entry(path, "signals", f"kb/signals/{path.name}", problems))]
    return tuple(entry.value for entry in found), tuple(problems)


def _read_version(path: Path, shown: str, problems: list[Problem]) -> str:
    """Returns the version of the folder; '' where it has none."""
    if not path.exists():
        return ""
    try:
        fields = FieldReader(read(path, shown))
    except InputError as error:
        problems += error.problems
        return ""
    fields.check_keys((), ("version",))
    found = fields.text(("version",))
    if found and not is_version(found):
        fields.add_problem(("version",), repr(found), "three numbers with dots, like 1.2.0")
    problems += fields.problems
    return found


def _entry_paths(folder: Path, shown: str, problems: list[Problem]) -> list[Path]:
    if not folder.is_dir():
        return []
    found = sorted((path for path in folder.iterdir() if not path.name.startswith(".")), key=lambda path: path.stem)
    sound = [path for path in found if path.suffix == ".yaml" and path.is_file()]
    others = sorted(set(found) - set(sound))
    problems += [Problem(f"{shown}/{path.name}", 0, "", "no entry", "a file ending in .yaml") for path in others]
    if len(sound) > MAX_FILES:
        problems.append(Problem(shown, 0, "", f"{len(sound)} files", f"at most {MAX_FILES}"))
    return sound[:MAX_FILES]


def read_entry(path: Path, kind: str, shown: str, problems: list[Problem]) -> CatalogueEntry | None:
    """Returns the entry in a file, which problems call `shown`; None, and its problems added, where it is faulty."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError([Problem(shown, 0, "", f"{size} bytes", f"at most {MAX_BYTES} for one entry")])
        entry, wrong = parse_entry(kind, path.stem, shown, read_text(path, shown))
    except InputError as error:
        problems += error.problems
        return None
    except OSError as error:
        problems.append(Problem(shown, 0, "", f"no readable file ({error.strerror})", "a YAML file"))
        return None
    problems += wrong
    return entry


@lru_cache(maxsize=2048)
def parse_entry(kind: str, name: str, shown: str, text: str) -> tuple[CatalogueEntry | None, tuple[Problem, ...]]:
    """Returns an entry and the problems of its shape; cached, so that an unchanged text is parsed once.

    Raises:
        InputError: the text is no YAML.
    """
    document = parse(text, shown)
    wrong = validate_entry(kind.removesuffix("s"), document)
    return (None if wrong else CatalogueEntry(kind, name, document, BUILDERS[kind](document.data, shown))), wrong
