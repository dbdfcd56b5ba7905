"""The catalogue as a value: found by file, checked, linked."""

from functools import cache
from pathlib import Path

from skewscope.kb.lint import check
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem
from skewscope.kb.shelf import open_shelf


def load(folder: Path | None = None) -> tuple[Catalogue, tuple[Problem, ...]]:
    """The catalogue in a folder, and all that is wrong with it; without a folder, the one that comes with the package.

    Entries that are faulty in themselves are left out of the catalogue.
    """
    shelf = open_shelf(folder)
    return shelf.catalogue, tuple(sorted({*shelf.problems, *check(shelf, integrity_only=True)}))


@cache
def catalogue() -> Catalogue:
    """The catalogue that comes with the package.

    Raises:
        InputError: it is damaged.
    """
    found, problems = load()
    if problems:
        raise InputError(problems)
    return found
