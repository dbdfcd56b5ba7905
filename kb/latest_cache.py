"""Keeping what was made of a catalogue: it is asked for again and again, and never changes."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from skewscope.kb.model import Catalogue

Result = TypeVar("Result")


def cache_latest(make: Callable[[Catalogue], Result]) -> Callable[[Catalogue], Result]:
    """The same function, which keeps what it gave for the catalogue that it was last asked about."""
    kept: list[tuple[Catalogue, Result]] = []

    @wraps(make)
    def look_up(catalogue: Catalogue) -> Result:
        # A catalogue holds mappings and has no hash: it is known by being the same one.
        if not kept or kept[-1][0] is not catalogue:
            kept[:] = [(catalogue, make(catalogue))]
        return kept[-1][1]

    return look_up
