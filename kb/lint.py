"""Runs the lints over a catalogue, with exceptions that must still be needed.

The lints are in `kb.lints`. A schema limits the values of a field; a lint checks what a schema cannot.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from skewscope.kb.entry_kinds import KINDS, builtin_folder
from skewscope.kb.entry_store import CatalogueEntry, EntryStore, open_entry_store
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError, Problem, suggest_name
from skewscope.kb.unread_files import find_unread_files
from skewscope.kb.yamlfile import read

LintCheck = Callable[[EntryStore], Iterator[tuple[str, Problem]]]
"""Yields the id of an entry and a problem of it."""

Problems = Iterator[Problem]
Item = TypeVar("Item")
EntryProblems = Iterator[tuple[str, Problem]]

EXCEPTIONS_FILE = "exceptions.yaml"
CACHED_ENTRIES = 2048
"""Entries whose results of a lint are kept."""
SINGLE_FILES = ("catalogue.yaml", EXCEPTIONS_FILE, "exporter_settings.yaml", "diagnostic_commands.yaml")
"""Files of a catalogue beside the folders of entries."""


@dataclass(frozen=True, slots=True)
class Lint:
    """One check of the catalogue."""

    name: str
    scope: str
    """entry: checks one file; set: checks all of them together."""
    about: str
    fix: str
    check: LintCheck
    integrity: bool
    """Whether a catalogue with this problem cannot be loaded."""


LINTS: dict[str, Lint] = {}
"""All lints by name; each registers itself."""


def entry_lint(kind: str, fix: str, *, integrity: bool = False) -> Callable[..., Callable[..., Iterator[Problem]]]:
    """Registers a function that checks one entry of a kind ('' for any) as a lint."""

    def enter(look: Callable[[CatalogueEntry], Iterator[Problem]]) -> Callable[[CatalogueEntry], Iterator[Problem]]:
        find = cache_by_entry(look)

        def check(store: EntryStore) -> Iterator[tuple[str, Problem]]:
            for entry in store.entries:
                if kind in ("", entry.kind):
                    yield from ((entry.name, problem) for problem in find(entry))

        _register(look.__name__, "entry", look.__doc__, fix, check, integrity=integrity)
        return look

    return enter


def cache_by_entry(
    function: Callable[[CatalogueEntry], Iterable[Item]],
) -> Callable[[CatalogueEntry], tuple[Item, ...]]:
    """Returns a function that gives the items of an entry as a tuple, and computes them once for an unchanged file."""
    return lru_cache(maxsize=CACHED_ENTRIES)(lambda entry: tuple(function(entry)))


def catalogue_lint(fix: str, *, integrity: bool = False) -> Callable[[LintCheck], LintCheck]:
    """Registers a function that checks the whole catalogue as a lint."""

    def enter(check: LintCheck) -> LintCheck:
        _register(check.__name__, "set", check.__doc__, fix, check, integrity=integrity)
        return check

    return enter


def _register(name: str, scope: str, about: str | None, fix: str, check: LintCheck, *, integrity: bool) -> None:
    name = name.replace("_", "-")
    LINTS[name] = Lint(name, scope, about or "", fix, check, integrity)


def all_lints() -> tuple[Lint, ...]:
    """Returns all lints, in the order of names."""
    import skewscope.kb.lints  # noqa: F401, PLC0415 - they register themselves, and need this module to do so

    return tuple(LINTS[name] for name in sorted(LINTS))


def lint_folder(folder: Path | None = None) -> tuple[Problem, ...]:
    """Returns all problems of the catalogue in a folder (default: the installed one)."""
    store, place = open_entry_store(folder), folder or builtin_folder()
    strays = find_unread_files(place, KINDS, SINGLE_FILES)
    # The store tells of those beside entries.
    unread = {one for one in strays if Path(one.file).parent.name not in KINDS}
    return tuple(sorted({*store.problems, *unread, *run_lints(store, exceptions=place / EXCEPTIONS_FILE)}))


def run_lints(
    store: EntryStore,
    *,
    integrity_only: bool = False,
    exceptions: Path | None = None,
    single: EntryStore | None = None,
) -> Iterator[Problem]:
    """Yields the problems that the lints find, except those exempted, and unneeded exceptions.

    `single` has the entries that are checked one by one, if these are not all.
    """
    found = [
        (one.name, entry, _with_hint(problem, one.fix))
        for one in all_lints()
        if one.integrity or not integrity_only
        for entry, problem in one.check(single if single and one.scope == "entry" else store)
    ]
    excepted, faults = _read_exceptions(exceptions, store) if exceptions else ({}, ())
    yield from faults
    yield from (problem for name, entry, problem in found if (name, entry) not in excepted)
    needed = {(name, entry) for name, entry, _ in found}
    if not store.problems:
        # With a faulty entry it is unknown which exceptions are needed.
        yield from (stale for key, stale in excepted.items() if key not in needed)


def _with_hint(problem: Problem, fix: str) -> Problem:
    return problem if problem.hint else replace(problem, hint=fix)


def _read_exceptions(path: Path, store: EntryStore) -> tuple[dict[tuple[str, str], Problem], Iterable[Problem]]:
    """Returns by lint and entry the problem to report if the exception is not needed."""
    if not path.is_file():
        return {}, ()
    try:
        fields = FieldReader(read(path, f"{store.folder}/{path.name}"))
    except InputError as error:
        return {}, error.problems
    found = {}
    fields.check_keys((), ("exceptions",))
    for item in fields.item_paths(("exceptions",), 1000):
        fields.check_keys(item, ("lint", "entry", "reason"))
        name, entry = fields.text((*item, "lint")), fields.text((*item, "entry"))
        if name and name not in LINTS:
            fields.add_problem((*item, "lint"), f"{name!r}", "the name of a lint", suggest_name(name, LINTS))
        elif name and entry and fields.text((*item, "reason")):
            text = f"an exception from {name} for {entry!r} that nothing needs"
            found[name, entry] = fields.document.problem(item, text, "needed exceptions only", "Remove it.")
    return found, tuple(fields.problems)
