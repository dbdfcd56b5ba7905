"""Which series the entities of a kind have of one signal, by selector."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.sets import Index

MAX_SELECTORS = 1000
"""Series of one signal that an entity may have: a label that never repeats must not fill the memory."""


@dataclass
class SeriesRows:
    """The series of one signal: `series[r, e]` is the number of entity e's series with selector r, or -1."""

    selectors: list[str] = field(default_factory=list)
    series: Index = field(default_factory=lambda: np.empty((0, 0), np.intp))
    version: int = 0
    _row: dict[str, int] = field(default_factory=dict)

    def has_room(self, selector: str) -> bool:
        """May a series with this selector be placed?"""
        return selector in self._row or len(self._row) < MAX_SELECTORS

    def place_all(self, selector: str, entities: Index, at: slice, size: int) -> None:
        """Notes one series of each of some entities, with numbers one after another."""
        row = self._row.setdefault(selector, len(self._row))
        if row == len(self.selectors):
            self.selectors.append(selector)
        self.series = grow_index(self.series, (len(self.selectors), size))
        self.series[row, entities] = np.arange(at.start, at.stop)
        self.version += 1

    def place(self, entity: int, selector: str, number: int, size: int) -> None:
        """Notes one series."""
        row = self._row.setdefault(selector, len(self._row))
        if row == len(self.selectors):
            self.selectors.append(selector)
        self.series = grow_index(self.series, (len(self.selectors), size))
        self.series[row, entity] = number
        self.version += 1


def grow_index(index: Index, shape: tuple[int, int]) -> Index:
    """An index with room for a shape, -1 where it had no place before."""
    if index.shape[0] >= shape[0] and index.shape[1] >= shape[1]:
        return index
    out = np.full((max(index.shape[0], shape[0]), max(index.shape[1], shape[1])), -1, np.intp)
    out[: index.shape[0], : index.shape[1]] = index
    return out


def selector_words(selector: str) -> frozenset[str]:
    """The words by which a rule can name a selector: `tx,p3` has tx and p3."""
    return frozenset(part.strip().replace("-", "_") for part in selector.split(",") if part.strip())


def match_selectors(selectors: Iterable[str], words: Collection[str]) -> list[int]:
    """Which selectors have all the words."""
    wanted = {word.replace("-", "_") for word in words}
    return [n for n, selector in enumerate(selectors) if wanted <= selector_words(selector)]
