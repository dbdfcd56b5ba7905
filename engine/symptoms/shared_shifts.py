"""What most members of a group or pool have in common is reported of what they are members of."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from skewscope.engine.model.arrays import Index, Mask
from skewscope.engine.model.finding import Finding, FindingKey
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.parameters import MAJORITY
from skewscope.engine.symptoms.cells import JudgedCells

SHARED_BY = {"rank": "group", "replica": "pool"}
"""Where most of three or more members shift, what they are members of is reported, by their kind."""


class MemberSets:
    """The sets of peers of three or more, and how many of each have shifted."""

    def __init__(self, cells: JudgedCells, shifted: Mask) -> None:
        """Takes which cells have shifted, [cell]."""
        self._cells, self._shifted = cells, shifted
        numbers, at, counted = cells.pair_set, cells.pair_cell, cells.compared
        size = np.bincount(numbers[counted], minlength=len(cells.set_sizes))
        hit = np.bincount(numbers[counted & shifted[at]], minlength=len(cells.set_sizes))
        self._is_large: Mask = counted & (size[numbers] >= MAJORITY)
        self._excess: Index = (2 * hit - size)[numbers]

    def odd_ones(self) -> Mask:
        """Returns [cell] whether most of its peers have not shifted."""
        found = np.zeros(len(self._cells), bool)
        found[self._cells.pair_cell[self._is_large & (self._excess < 0)]] = True
        return found

    def shared_places(self) -> Mapping[int, Entity]:
        """Returns what shifted cells are members of, where most of these have shifted."""
        cells, found = self._cells, dict[int, Entity]()
        pairs = self._is_large & self._shifted[cells.pair_cell] & (self._excess > 0)
        for pair in np.flatnonzero(pairs).tolist():
            cell, place = int(cells.pair_cell[pair]), cells.set_places.get(int(cells.pair_set[pair]))
            if place is not None and SHARED_BY.get(cells.places[cell].kind) == place.kind:
                found.setdefault(cell, place)
        return found


def find_places(cells: JudgedCells, shifted: Collection[int]) -> Mapping[int, Entity]:
    """Returns the place of each shifted cell: its own, or what most shifted members are members of."""
    if not shifted:
        return {}
    is_shifted = np.zeros(len(cells), bool)
    is_shifted[list(shifted)] = True
    shared = MemberSets(cells, is_shifted).shared_places()
    return {cell: shared.get(cell, cells.places[cell]) for cell in shifted}


def keep_largest(findings: Iterable[Finding]) -> Iterable[Finding]:
    """Returns one finding of each key, the largest."""
    largest: dict[FindingKey, Finding] = {}
    for one in findings:
        if one.key not in largest or one.size > largest[one.key].size:
            largest[one.key] = one
    return largest.values()
