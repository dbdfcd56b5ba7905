"""Results that stay the same objects while nothing of them changes: who compares identities then has no work.

They are left out of the state of an engine, and made anew from what that holds.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from skewscope.engine.model.incident import Incident

Content = tuple[Any, ...]
"""All that an incident is made of, as immutable values."""
T = TypeVar("T")


class ResultCache(Generic[T]):
    """The last result of something, and what it was made for."""

    def __init__(self) -> None:
        self._cache: tuple[object, T] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Leaves the result out."""
        return ResultCache, ()

    def get(self, wanted: object, build: Callable[[], T]) -> T:
        """Returns the result that was built for something equal, or builds it."""
        if self._cache is None or self._cache[0] != wanted:
            self._cache = wanted, build()
        return self._cache[1]


@dataclass
class IncidentCache:
    """The incidents of the last list, by id."""

    _cache: dict[str, tuple[Content, Incident]] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leaves the incidents out."""
        return IncidentCache, ()

    def get(self, id_: str, content: Content, build: Callable[[], Incident]) -> Incident:
        """Returns the incident that was built of equal content, or builds it."""
        kept = self._cache.get(id_)
        if kept is not None and kept[0] == content:
            return kept[1]
        made = build()
        self._cache[id_] = content, made
        return made

    def forget_all_but(self, ids: Collection[str]) -> None:
        """Drops the incidents that are not among some ids."""
        if len(self._cache) > len(ids):
            self._cache = {id_: kept for id_, kept in self._cache.items() if id_ in ids}
