"""Compares two versions of the catalogue and computes the required version."""

from collections.abc import Mapping
from dataclasses import dataclass

from skewscope.kb.catalogue_cache import RawCatalogue
from skewscope.kb.entry_kinds import KINDS

LEVELS = ("nothing", "patch", "minor", "major")
"""patch: a text or a value; minor: a new entry or field; major: an id is gone or means something else."""

BREAKING_FIELDS = {"signals": ("unit", "type", "entity", "fold"), "conditions": ("kind",), "findings": ("kind",)}
"""Fields whose change alters the meaning of an id."""


@dataclass(frozen=True, slots=True)
class EntryChange:
    """The change of one entry."""

    kind: str
    id: str
    what: str
    """added, changed, withdrawn or removed."""
    level: str
    """patch, minor or major."""
    fields: tuple[str, ...] = ()
    """The fields that differ."""


@dataclass(frozen=True, slots=True)
class CatalogueDiff:
    """The difference between two versions."""

    old: str
    new: str
    entries: tuple[EntryChange, ...]

    @property
    def level(self) -> str:
        """Returns the highest level of any change."""
        return max((change.level for change in self.entries), key=LEVELS.index, default="nothing")

    @property
    def required_version(self) -> str:
        """Returns the lowest valid version of the new state; '' where the old one had none."""
        return bump_version(self.old, self.level) if self.old else ""

    @property
    def is_version_sufficient(self) -> bool:
        """Returns whether the new version is at least the required one."""
        return not self.required_version or _version_numbers(self.new) >= _version_numbers(self.required_version)


def diff_catalogues(old: RawCatalogue, new: RawCatalogue) -> CatalogueDiff:
    """Compares two catalogues by kind and id."""
    found = [change for kind in KINDS for change in _diff_kind(kind, old.get(kind, {}), new.get(kind, {}))]
    return CatalogueDiff(str(old.get("version", "")), str(new.get("version", "")), tuple(found))


def _diff_kind(kind: str, old: Mapping[str, RawCatalogue], new: Mapping[str, RawCatalogue]) -> list[EntryChange]:
    found = []
    for id_ in sorted({*old, *new}):
        if id_ not in old:
            found.append(EntryChange(kind, id_, "added", "minor"))
        elif id_ not in new:
            found.append(EntryChange(kind, id_, "removed", "major"))
        elif old[id_] != new[id_]:
            found.append(_diff_entry(kind, id_, old[id_], new[id_]))
    return found


def _diff_entry(kind: str, id_: str, old: RawCatalogue, new: RawCatalogue) -> EntryChange:
    fields = tuple(name for name in sorted({*old, *new}) if old.get(name) != new.get(name))
    what = "withdrawn" if new.get("maturity") == "withdrawn" != old.get("maturity") else "changed"
    if any(name in BREAKING_FIELDS.get(kind, ()) for name in fields):
        level = "major"
    else:
        level = "minor" if what == "withdrawn" or set(old) != set(new) else "patch"
    return EntryChange(kind, id_, what, level, fields)


def bump_version(version: str, level: str) -> str:
    """Returns the version after a change of a level: `bump_version("1.2.3", "minor")` is `1.3.0`."""
    major, minor, patch = _version_numbers(version)
    return {
        "nothing": version,
        "patch": f"{major}.{minor}.{patch + 1}",
        "minor": f"{major}.{minor + 1}.0",
        "major": f"{major + 1}.0.0",
    }[level]


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if version else (0, 0, 0)
