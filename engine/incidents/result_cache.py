"""Results that stay the same objects while nothing of them changes: who compares identities then has no work.

They are left out of the state of an engine, and made anew from what that holds.
"""

from collections.abc import Callable, Collection, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
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


class KeyedCache(Generic[K, T]):
    """The last result for each of many keys, and what it was made of."""

    def __init__(self, most: int = 0) -> None:
        """Keeps up to so many results; 0 for all."""
        self._most = most
        self._cache: dict[K, tuple[object, T]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Leaves the results out."""
        return KeyedCache, (self._most,)

    def get(self, key: K, content: object, build: Callable[[], T]) -> T:
        """Returns the result that was built of equal content, or builds it."""
        kept = self._cache.get(key)
        if kept is not None and kept[0] == content:
            return kept[1]
        made = build()
        if self._most and len(self._cache) >= self._most:
            self._cache.clear()
        self._cache[key] = content, made
        return made

    def forget_all_but(self, keys: Collection[K]) -> None:
        """Drops the results of keys that are not among some."""
        if len(self._cache) > len(keys):
            self._cache = {key: kept for key, kept in self._cache.items() if key in keys}
