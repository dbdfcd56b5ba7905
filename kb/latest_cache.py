"""Caches a result per catalogue, or per part of one: catalogues never change."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Known = TypeVar("Known")
Result = TypeVar("Result")


def cache_latest(make: Callable[[Known], Result]) -> Callable[[Known], Result]:
    """Returns the function with a cache of its result for the latest catalogue, or the latest part of one."""
    kept: list[tuple[Known, Result]] = []

    @wraps(make)
    def look_up(known: Known) -> Result:
        # A catalogue holds mappings and has no hash, so it is compared by identity.
        if not kept or kept[-1][0] is not known:
            kept[:] = [(known, make(known))]
        return kept[-1][1]

    return look_up
