"""What an engine takes over from the one before it: arrays, by where each item was and where it is now."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from skewscope.engine.model.arrays import Index
from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.locality import Entity

Item = TypeVar("Item")


@dataclass(frozen=True)
class Places:
    """Where the same items were and are: [k] each."""

    before: Index
    now: Index
    before_size: int
    """Number of items that there were."""

    @cached_property
    def _lookup(self) -> Index:
        found = np.full(self.before_size + 1, -1, np.intp)
        found[self.before] = self.now
        return found

    def locate(self, before: Index) -> Index:
        """Returns [k] where items are that were at some places; -1 for those that are gone, and for -1."""
        found: Index = self._lookup[before]
        return found

    def carry(self, before: Mapping[int, Item]) -> dict[int, Item]:
        """Returns what is known of items that there still are, by their places."""
        return {
            new: before[old] for old, new in zip(self.before.tolist(), self.now.tolist(), strict=True) if old in before
        }


def match_places(before: Sequence[Hashable], now: Sequence[Hashable]) -> Places:
    """Returns the places of the items that are in both lists; each has an item once."""
    numbers = {item: n for n, item in enumerate(now)}
    found = np.fromiter((numbers.get(item, -1) for item in before), np.intp, len(before))
    kept = np.flatnonzero(found >= 0)
    return Places(kept, found[kept], len(before))


def copy_items(now: object, before: object, names: Iterable[str], places: Places) -> None:
    """Copies items of arrays whose last axis runs over them; both objects have the arrays, by name."""
    for name in names:
        getattr(now, name)[..., places.now] = getattr(before, name)[..., places.before]


def copy_fields(now: object, before: object, names: Iterable[str]) -> None:
    """Copies attributes as they are."""
    for name in names:
        setattr(now, name, getattr(before, name))


class EntityPlaces:
    """The places of entities that two topologies have in common, kind by kind."""

    def __init__(self, before: EntityIndex, now: EntityIndex) -> None:
        self._before, self._now = before, now
        self._found: dict[str, Places] = {}

    def of_kind(self, kind: str) -> Places:
        """Returns the places of a kind of entity; '' stands for a constant, which is the same in both."""
        if kind not in self._found:
            names = [self._before.names[kind], self._now.names[kind]] if kind else [[""], [""]]
            self._found[kind] = match_places(*names)
        return self._found[kind]

    def has(self, entity: Entity) -> bool:
        """Whether the present topology has an entity."""
        return entity.name in self._now.numbers.get(entity.kind, ())
