"""Caches a result per catalogue: catalogues never change."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from skewscope.kb.model import Catalogue

Result = TypeVar("Result")


def cache_latest(make: Callable[[Catalogue], Result]) -> Callable[[Catalogue], Result]:
    """Returns the function with a cache of its result for the latest catalogue."""
    kept: list[tuple[Catalogue, Result]] = []

    @wraps(make)
    def look_up(catalogue: Catalogue) -> Result:
        # A catalogue holds mappings and has no hash, so it is compared by identity.
        if not kept or kept[-1][0] is not catalogue:
            kept[:] = [(catalogue, make(catalogue))]
        return kept[-1][1]

    return look_up
