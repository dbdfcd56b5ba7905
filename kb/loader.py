"""The catalogue as a value: found by file, checked, linked."""

import gc
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from skewscope.kb import catalogue_cache
from skewscope.kb.builders import BUILDERS, build_catalogue
from skewscope.kb.entry_kinds import KINDS, builtin_folder
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem
from skewscope.kb.same_as import resolve_entry

if TYPE_CHECKING:
    from skewscope.kb.entry_store import EntryStore  # with YAML and lints; not needed where nothing changed


def load(folder: Path | None = None) -> tuple[Catalogue, tuple[Problem, ...]]:
    """The catalogue in a folder, and all that is wrong with it; without a folder, the one that comes with the package.

    Entries that are faulty in themselves are left out of the catalogue.
    """
    from skewscope.kb.entry_store import open_entry_store  # noqa: PLC0415

    shelf = open_entry_store(folder)
    return shelf.catalogue, _integrity_problems(shelf)


def _integrity_problems(shelf: "EntryStore") -> tuple[Problem, ...]:
    from skewscope.kb.lint import run_lints  # noqa: PLC0415

    return tuple(sorted({*shelf.problems, *run_lints(shelf, integrity_only=True)}))


@cache
def catalogue() -> Catalogue:
    """The catalogue that comes with the package.

    Raises:
        InputError: it is damaged.
    """
    return load_cached(builtin_folder())


def load_signals(folder: Path | None = None) -> Catalogue:
    """Of the catalogue its signals alone: all that a collector of telemetry needs, in a tenth of the memory.

    Raises:
        InputError: one of them is damaged.
    """
    from skewscope.kb.entry_store import read_signals  # noqa: PLC0415

    found, problems = read_signals(folder or builtin_folder())
    if problems:
        raise InputError(problems)
    return build_catalogue(("signals", signal) for signal in found)


def load_cached(folder: Path) -> Catalogue:
    """The sound catalogue in a folder; parsed and checked only if it changed since that was last done.

    Raises:
        InputError: it is damaged.
    """
    found = read_raw(folder)
    items = ((kind, id_, data) for kind in KINDS for id_, data in found[kind].items())
    values = ((kind, BUILDERS[kind](data, f"kb/{kind}/{id_}.yaml")) for kind, id_, data in items)
    collecting = gc.isenabled()
    gc.disable()  # thousands of values, none of which goes away: to look for garbage among them is a tenth of the time
    try:
        return build_catalogue(values, found["version"])
    finally:
        if collecting:
            gc.enable()


def read_raw(folder: Path) -> catalogue_cache.RawCatalogue:
    """A sound catalogue as its files have it: `version`, and by kind and id the fields of each entry.

    Raises:
        InputError: it is damaged.
    """
    if (known := catalogue_cache.read(folder)) is not None:
        return known
    from skewscope.kb.entry_store import open_entry_store  # noqa: PLC0415

    state = _digest_or_empty(folder)
    shelf = open_entry_store(folder, "kb" if folder == builtin_folder() else "")
    if problems := _integrity_problems(shelf):
        raise InputError(problems)
    entries = {kind: {e.name: resolve_entry(e.document.data) for e in shelf.of_kind(kind)} for kind in KINDS}
    found = {"version": shelf.version, **entries}
    if state and state == _digest_or_empty(folder):
        catalogue_cache.write(folder, state, found)
    return found


def _digest_or_empty(folder: Path) -> str:
    try:
        return catalogue_cache.digest(folder)
    except OSError:
        return ""
