"""The installed catalogue with the entries of a site."""

from types import MappingProxyType

from skewscope.kb.builders import BUILDERS, EntryValue, build_catalogue
from skewscope.kb.entry_kinds import KINDS, builtin_folder
from skewscope.kb.entry_store import CatalogueEntry, EntryStore, parse_entry
from skewscope.kb.lint import run_lints
from skewscope.kb.loader import read_raw
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem
from skewscope.kb.site_files import SiteFiles
from skewscope.kb.yamlfile import Document


def extend_catalogue(site: SiteFiles) -> Catalogue:
    """Returns the installed catalogue with the entries of a site.

    Raises:
        InputError: all problems of these entries.
    """
    found, problems = read_site_entries(site)
    if not problems:
        problems = tuple(run_lints(join_entries(found), integrity_only=True, single=found))
    if problems:
        raise InputError(set(problems))
    raw = read_raw(builtin_folder())
    values = {(kind, id_): _build(kind, id_, data) for kind in KINDS for id_, data in raw[kind].items()}
    values |= {(entry.kind, entry.name): entry.value for entry in found.entries}
    ordered = ((kind, values[kind, id_]) for kind, id_ in sorted(values))
    return build_catalogue(ordered, f"{raw['version']}+site.{site.fingerprint}", site)


def read_site_entries(site: SiteFiles) -> tuple[EntryStore, tuple[Problem, ...]]:
    """Returns the entries of a site, and the problems of their files."""
    problems: list[Problem] = []
    entries: list[CatalogueEntry] = []
    for kind in KINDS:
        for id_ in site.ids.get(kind, ()):
            name = f"{kind}/{id_}.yaml"
            try:
                entry, wrong = parse_entry(kind, id_, site.display_path(name), site.texts[name])
            except InputError as error:
                entry, wrong = None, error.problems
            problems += wrong
            entries += [entry] if entry else []
    names = {kind: frozenset(site.ids.get(kind, ())) for kind in KINDS}
    return EntryStore(site.folder, tuple(entries), MappingProxyType(names), tuple(problems)), tuple(problems)


def join_entries(own: EntryStore) -> EntryStore:
    """Returns the installed entries with those of a site; the places in files of installed ones are not known."""
    raw = read_raw(builtin_folder())
    replaced = {(entry.kind, entry.name) for entry in own.entries}
    installed = tuple(
        CatalogueEntry(kind, id_, Document(_shown(kind, id_), data), _build(kind, id_, data))
        for kind in KINDS
        for id_, data in raw[kind].items()
        if (kind, id_) not in replaced
    )
    names = {kind: own.names[kind] | raw[kind].keys() for kind in KINDS}
    return EntryStore(own.folder, (*installed, *own.entries), MappingProxyType(names), ())


def _build(kind: str, id_: str, data: dict[str, object]) -> EntryValue:
    return BUILDERS[kind](data, _shown(kind, id_))


def _shown(kind: str, id_: str) -> str:
    return f"kb/{kind}/{id_}.yaml"
