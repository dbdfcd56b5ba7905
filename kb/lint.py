"""What a good catalogue looks like: lints as objects, run over a shelf, with exceptions that must still be needed.

The lints themselves are in `kb.lints`. A schema says what a field may hold; a lint says what makes sense.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from skewscope.kb.entry_kinds import builtin_folder
from skewscope.kb.entry_store import CatalogueEntry, EntryStore, open_entry_store
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError, Problem, suggest_name
from skewscope.kb.yamlfile import read

LintCheck = Callable[[EntryStore], Iterator[tuple[str, Problem]]]
"""Gives the id of the entry that a problem is about, and the problem."""

Problems = Iterator[Problem]
EntryProblems = Iterator[tuple[str, Problem]]

EXCEPTIONS_FILE = "exceptions.yaml"


@dataclass(frozen=True, slots=True)
class Lint:
    """One thing that every good catalogue has."""

    name: str
    scope: str
    """entry: looks at one file; set: looks at all of them together."""
    about: str
    fix: str
    check: LintCheck
    integrity: bool
    """Without it the catalogue cannot be used at all."""


LINTS: dict[str, Lint] = {}
"""All of them, by name; a lint enters itself."""


def entry_lint(kind: str, fix: str, *, integrity: bool = False) -> Callable[..., Callable[..., Iterator[Problem]]]:
    """Makes a lint of a function that looks at one entry of a kind ('' for any)."""

    def enter(look: Callable[[CatalogueEntry], Iterator[Problem]]) -> Callable[[CatalogueEntry], Iterator[Problem]]:
        def check(shelf: EntryStore) -> Iterator[tuple[str, Problem]]:
            for entry in shelf.entries:
                if kind in ("", entry.kind):
                    yield from ((entry.name, problem) for problem in look(entry))

        _register(look.__name__, "entry", look.__doc__, fix, check, integrity=integrity)
        return look

    return enter


def catalogue_lint(fix: str, *, integrity: bool = False) -> Callable[[LintCheck], LintCheck]:
    """Makes a lint of a function that looks at the whole shelf."""

    def enter(check: LintCheck) -> LintCheck:
        _register(check.__name__, "set", check.__doc__, fix, check, integrity=integrity)
        return check

    return enter


def _register(name: str, scope: str, about: str | None, fix: str, check: LintCheck, *, integrity: bool) -> None:
    name = name.replace("_", "-")
    LINTS[name] = Lint(name, scope, about or "", fix, check, integrity)


def all_lints() -> tuple[Lint, ...]:
    """All lints, by name."""
    import skewscope.kb.lints  # noqa: F401, PLC0415 - they enter themselves, and need this module to do so

    return tuple(LINTS[name] for name in sorted(LINTS))


def lint_folder(folder: Path | None = None) -> tuple[Problem, ...]:
    """All that is wrong with the catalogue in a folder; without a folder, with the one that comes with the package."""
    shelf = open_entry_store(folder)
    return tuple(
        sorted({*shelf.problems, *run_lints(shelf, exceptions=(folder or builtin_folder()) / EXCEPTIONS_FILE)})
    )


def run_lints(shelf: EntryStore, *, integrity_only: bool = False, exceptions: Path | None = None) -> Iterator[Problem]:
    """What the lints find, without what is excepted; and the exceptions that nothing needs."""
    found = [
        (one.name, entry, _with_hint(problem, one.fix))
        for one in all_lints()
        if one.integrity or not integrity_only
        for entry, problem in one.check(shelf)
    ]
    excepted, faults = _read_exceptions(exceptions, shelf) if exceptions else ({}, ())
    yield from faults
    yield from (problem for name, entry, problem in found if (name, entry) not in excepted)
    needed = {(name, entry) for name, entry, _ in found}
    if not shelf.problems:
        # Beside a faulty entry, what is needed cannot be known.
        yield from (stale for key, stale in excepted.items() if key not in needed)


def _with_hint(problem: Problem, fix: str) -> Problem:
    return problem if problem.hint else replace(problem, hint=fix)


def _read_exceptions(path: Path, shelf: EntryStore) -> tuple[dict[tuple[str, str], Problem], Iterable[Problem]]:
    """By lint and entry, the problem that the exception is if nothing needs it."""
    if not path.is_file():
        return {}, ()
    try:
        fields = FieldReader(read(path, f"{shelf.folder}/{path.name}"))
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
