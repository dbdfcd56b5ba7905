"""Some of the entities of a kind, for which alone something is worked out."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from skewscope.engine.sets import Index, Picked


@dataclass
class Some:
    """Some entities, what was found out about them, and what was looked at for it elsewhere."""

    at: Index
    values: dict[int, Any] = field(default_factory=dict)
    """By the number of the expression."""
    _elsewhere: dict[Hashable, "Some"] = field(default_factory=dict)
    _picked: dict[Hashable, Picked] = field(default_factory=dict)

    def elsewhere(self, key: Hashable, at: Callable[[], Index]) -> "Some":
        """The entities of another kind that these are judged by."""
        if key not in self._elsewhere:
            self._elsewhere[key] = Some(at())
        return self._elsewhere[key]

    def picked(self, key: Hashable, pick: Callable[[], Picked]) -> Picked:
        """The sets that these belong to, or own."""
        if key not in self._picked:
            self._picked[key] = pick()
        return self._picked[key]


Ask = Callable[[int, Some], Any]
"""Gives the n-th argument's values of some entities of its kind."""
