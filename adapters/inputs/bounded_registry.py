"""The series of one input, of which there may be so many."""

from collections.abc import Hashable

from skewscope.adapters.formats.bounds import KNOWN_SERIES
from skewscope.adapters.mapping.names import SeriesRegistry
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.problems import InputError

SERIES_HINT = "Does a label hold an id or a time?"


class BoundedRegistry(SeriesRegistry):
    """A registry that refuses more series than a limit."""

    def __init__(self, file: str, most: int) -> None:
        super().__init__()
        self._file, self._most = file, most

    def register(self, key: SeriesKey, rank: int, seen: Hashable = None) -> int:
        """Returns the number of a series with a rank."""
        found = super().register(key, rank, seen)
        if found >= self._most:
            raise InputError([KNOWN_SERIES.problem(self._file, hint=SERIES_HINT)])
        return found
