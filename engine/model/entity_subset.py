"""Some of the entities of a kind, for which alone something is worked out."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from skewscope.engine.model.sets import Index, SetSelection


@dataclass
class EntitySubset:
    """Some entities, what was found out about them, and what was looked at for it elsewhere."""

    indices: Index
    values: dict[int, Any] = field(default_factory=dict)
    """By the number of the expression."""
    _related: dict[Hashable, "EntitySubset"] = field(default_factory=dict)
    _selections: dict[Hashable, SetSelection] = field(default_factory=dict)

    def related_subset(self, key: Hashable, at: Callable[[], Index]) -> "EntitySubset":
        """The entities of another kind that these are judged by."""
        if key not in self._related:
            self._related[key] = EntitySubset(at())
        return self._related[key]

    def select_sets(self, key: Hashable, pick: Callable[[], SetSelection]) -> SetSelection:
        """The sets that these belong to, or own."""
        if key not in self._selections:
            self._selections[key] = pick()
        return self._selections[key]


ArgumentFunction = Callable[[int, EntitySubset], Any]
"""Gives the n-th argument's values of some entities of its kind."""
