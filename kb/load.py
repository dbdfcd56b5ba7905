"""The catalogue as a value: found by file, checked, linked."""

import gc
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from skewscope.kb import compiled
from skewscope.kb.build import BUILDERS, assembled
from skewscope.kb.kinds import KINDS, shipped
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem

if TYPE_CHECKING:
    from skewscope.kb.shelf import Shelf  # with YAML and lints; not needed where nothing changed


def load(folder: Path | None = None) -> tuple[Catalogue, tuple[Problem, ...]]:
    """The catalogue in a folder, and all that is wrong with it; without a folder, the one that comes with the package.

    Entries that are faulty in themselves are left out of the catalogue.
    """
    from skewscope.kb.shelf import open_shelf  # noqa: PLC0415

    shelf = open_shelf(folder)
    return shelf.catalogue, _faults(shelf)


def _faults(shelf: "Shelf") -> tuple[Problem, ...]:
    from skewscope.kb.lint import check  # noqa: PLC0415

    return tuple(sorted({*shelf.problems, *check(shelf, integrity_only=True)}))


@cache
def catalogue() -> Catalogue:
    """The catalogue that comes with the package.

    Raises:
        InputError: it is damaged.
    """
    return kept(shipped())


def signals(folder: Path | None = None) -> Catalogue:
    """Of the catalogue its signals alone: all that a collector of telemetry needs, in a tenth of the memory.

    Raises:
        InputError: one of them is damaged.
    """
    from skewscope.kb.shelf import signals_of  # noqa: PLC0415

    found, problems = signals_of(folder or shipped())
    if problems:
        raise InputError(problems)
    return assembled(("signals", signal) for signal in found)


def kept(folder: Path) -> Catalogue:
    """The sound catalogue in a folder; parsed and checked only if it changed since that was last done.

    Raises:
        InputError: it is damaged.
    """
    found = written(folder)
    items = ((kind, id_, data) for kind in KINDS for id_, data in found[kind].items())
    values = ((kind, BUILDERS[kind](data, f"kb/{kind}/{id_}.yaml")) for kind, id_, data in items)
    collecting = gc.isenabled()
    gc.disable()  # thousands of values, none of which goes away: to look for garbage among them is a tenth of the time
    try:
        return assembled(values, found["version"])
    finally:
        if collecting:
            gc.enable()


def written(folder: Path) -> compiled.Written:
    """A sound catalogue as its files have it: `version`, and by kind and id the fields of each entry.

    Raises:
        InputError: it is damaged.
    """
    if (known := compiled.read(folder)) is not None:
        return known
    from skewscope.kb.shelf import open_shelf  # noqa: PLC0415

    state = _state(folder)
    shelf = open_shelf(folder, "kb" if folder == shipped() else "")
    if problems := _faults(shelf):
        raise InputError(problems)
    entries = {kind: {e.name: e.document.data for e in shelf.of(kind)} for kind in KINDS}
    found = {"version": shelf.version, **entries}
    if state and state == _state(folder):
        compiled.write(folder, state, found)
    return found


def _state(folder: Path) -> str:
    try:
        return compiled.digest(folder)
    except OSError:
        return ""
