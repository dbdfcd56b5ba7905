"""What changed between two versions of the catalogue, and by how much its version has to rise."""

from collections.abc import Mapping
from dataclasses import dataclass

from skewscope.kb.compiled import Written
from skewscope.kb.kinds import KINDS

LEVELS = ("nothing", "patch", "minor", "major")
"""patch: a text or a value; minor: a new entry or field; major: an id is gone or means something else."""

MEANING = {"signals": ("unit", "type", "entity", "fold"), "conditions": ("kind",), "findings": ("kind",)}
"""Fields without which an id no longer means what it meant."""


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one entry."""

    kind: str
    id: str
    what: str
    """added, changed, withdrawn or removed."""
    level: str
    """patch, minor or major."""
    fields: tuple[str, ...] = ()
    """Those that differ."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What lies between two versions."""

    old: str
    new: str
    entries: tuple[Change, ...]

    @property
    def level(self) -> str:
        """The most that any entry changed."""
        return max((change.level for change in self.entries), key=LEVELS.index, default="nothing")

    @property
    def due(self) -> str:
        """The least version that the new state may call itself; '' where the old one had none."""
        return raised(self.old, self.level) if self.old else ""

    @property
    def rose_enough(self) -> bool:
        """Whether the new version says that something changed, and how much."""
        return not self.due or _numbers(self.new) >= _numbers(self.due)


def changes(old: Written, new: Written) -> Changes:
    """What changed, by kind and id."""
    found = [change for kind in KINDS for change in _of_kind(kind, old.get(kind, {}), new.get(kind, {}))]
    return Changes(str(old.get("version", "")), str(new.get("version", "")), tuple(found))


def _of_kind(kind: str, old: Mapping[str, Written], new: Mapping[str, Written]) -> list[Change]:
    found = []
    for id_ in sorted({*old, *new}):
        if id_ not in old:
            found.append(Change(kind, id_, "added", "minor"))
        elif id_ not in new:
            found.append(Change(kind, id_, "removed", "major"))
        elif old[id_] != new[id_]:
            found.append(_changed(kind, id_, old[id_], new[id_]))
    return found


def _changed(kind: str, id_: str, old: Written, new: Written) -> Change:
    fields = tuple(name for name in sorted({*old, *new}) if old.get(name) != new.get(name))
    what = "withdrawn" if new.get("maturity") == "withdrawn" != old.get("maturity") else "changed"
    if any(name in MEANING.get(kind, ()) for name in fields):
        level = "major"
    else:
        level = "minor" if what == "withdrawn" or set(old) != set(new) else "patch"
    return Change(kind, id_, what, level, fields)


def raised(version: str, level: str) -> str:
    """A version after a change of a level: `raised("1.2.3", "minor")` is `1.3.0`."""
    major, minor, patch = _numbers(version)
    return {
        "nothing": version,
        "patch": f"{major}.{minor}.{patch + 1}",
        "minor": f"{major}.{minor + 1}.0",
        "major": f"{major + 1}.0.0",
    }[level]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if version else (0, 0, 0)
