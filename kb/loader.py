"""Loads the catalogue: reads, validates and links its entries."""

import os
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from skewscope.kb import catalogue_cache
from skewscope.kb.builders import BUILDERS, build_catalogue
from skewscope.kb.entry_kinds import KINDS, builtin_folder
from skewscope.kb.garbage import pause_collection
from skewscope.kb.latest_cache import cache_latest
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem
from skewscope.kb.same_as import resolve_entry
from skewscope.kb.site_files import KNOWLEDGE_VARIABLE, SiteFiles, read_site_files

if TYPE_CHECKING:
    from skewscope.kb.entry_store import EntryStore  # with YAML and lints; not needed where nothing changed


def load(folder: Path | None = None) -> tuple[Catalogue, tuple[Problem, ...]]:
    """Returns the catalogue in a folder (default: the installed one) and its problems.

    Faulty entries are omitted from the catalogue.
    """
    from skewscope.kb.entry_store import open_entry_store  # noqa: PLC0415

    store = open_entry_store(folder)
    return store.catalogue, _integrity_problems(store)


def _integrity_problems(store: "EntryStore") -> tuple[Problem, ...]:
    from skewscope.kb.lint import run_lints  # noqa: PLC0415

    return tuple(sorted({*store.problems, *run_lints(store, integrity_only=True)}))


Result = TypeVar("Result")
_of_sites: dict[str, Catalogue] = {}
"""The catalogue of each folder of a site's knowledge that is or was in use."""


def catalogue() -> Catalogue:
    """Returns the catalogue in use: the installed one, with the knowledge of a site where there is one.

    Raises:
        InputError: it has problems.
    """
    place = os.environ.get(KNOWLEDGE_VARIABLE, "")
    if not place:
        return installed_catalogue()
    if place not in _of_sites:
        _of_sites[place] = load_with_site(read_site_files(Path(place)))
    return _of_sites[place]


@cache
def installed_catalogue() -> Catalogue:
    """Returns the installed catalogue.

    Raises:
        InputError: it has problems.
    """
    return load_cached(builtin_folder())


def load_with_site(site: SiteFiles) -> Catalogue:
    """Returns the installed catalogue with the entries of a site.

    Raises:
        InputError: these have problems.
    """
    from skewscope.kb.site_catalogue import extend_catalogue  # noqa: PLC0415 - with YAML and lints

    return extend_catalogue(site)


def use_catalogue(known: Catalogue) -> None:
    """Makes a catalogue the one that `catalogue` returns, here and in processes that are started from here."""
    if known.site is None:
        os.environ.pop(KNOWLEDGE_VARIABLE, None)
    else:
        _of_sites[known.site.folder] = known
        os.environ[KNOWLEDGE_VARIABLE] = known.site.folder


def cache_by_catalogue(make: Callable[[], Result]) -> Callable[[], Result]:
    """Returns a function that computes its result anew only when another catalogue is in use."""
    look_up = cache_latest(lambda _: make())
    return wraps(make)(lambda: look_up(catalogue()))


def load_signals(folder: Path | None = None) -> Catalogue:
    """Returns a catalogue with signals only: all that a collector needs, in a tenth of the memory.

    Raises:
        InputError: one of them has problems.
    """
    from skewscope.kb.entry_store import read_signals  # noqa: PLC0415

    found, problems = read_signals(folder or builtin_folder())
    if problems:
        raise InputError(problems)
    return build_catalogue(("signals", signal) for signal in found)


def load_cached(folder: Path) -> Catalogue:
    """Returns the valid catalogue in a folder; parses and checks it only after a change.

    Raises:
        InputError: it is damaged.
    """
    found = read_raw(folder)
    items = ((kind, id_, data) for kind in KINDS for id_, data in found[kind].items())
    values = ((kind, BUILDERS[kind](data, f"kb/{kind}/{id_}.yaml")) for kind, id_, data in items)
    with pause_collection():
        return build_catalogue(values, found["version"])


def read_raw(folder: Path) -> catalogue_cache.RawCatalogue:
    """Returns the raw fields of a valid catalogue: `version`, and each entry by kind and id.

    Raises:
        InputError: it is damaged.
    """
    if (known := catalogue_cache.read(folder)) is not None:
        return known
    from skewscope.kb.entry_store import open_entry_store  # noqa: PLC0415

    state = _digest_or_empty(folder)
    store = open_entry_store(folder, "kb" if folder == builtin_folder() else "")
    if problems := _integrity_problems(store):
        raise InputError(problems)
    entries = {kind: {e.name: resolve_entry(e.document.data) for e in store.of_kind(kind)} for kind in KINDS}
    found = {"version": store.version, **entries}
    if state and state == _digest_or_empty(folder):
        catalogue_cache.write(folder, state, found)
    return found


def _digest_or_empty(folder: Path) -> str:
    try:
        return catalogue_cache.digest(folder)
    except OSError:
        return ""
