"""By which other cells a cell is judged: the load that it follows, and what it is a part of."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.parameters import APART, HALF
from skewscope.engine.model.topology import Entity
from skewscope.kb.model import Judgement, Signal


@dataclass(frozen=True, slots=True)
class CellRelations:
    """The cells by which others are judged, [cell] each: the load that it follows, and what it is a part of."""

    given: Index
    """The cell that must show load, or -1."""
    load: F64
    """From which value on that one does."""
    is_yield: Mask
    """Whether it is compared per unit of the load that it follows."""
    whole: Index
    """The cell of which it is a part, or -1."""
    least_part: F64
    requests: Index
    """The series that shows whether the replica of a cell that counts under load serves requests, or -1."""

    @classmethod
    def empty(cls) -> "CellRelations":
        """Returns those of no cells."""
        none = np.empty(0, np.intp)
        return cls(none, np.empty(0), np.empty(0, bool), none, np.empty(0), none)


def relate_cells(
    signals: Sequence[Signal],
    places: Sequence[Entity],
    judged: Sequence[Judgement],
    serving: Sequence[bool],
    requests: Index,
) -> CellRelations:
    """Returns the relations of all cells; arguments are [cell]."""
    size = len(signals)
    by_place = {(signals[n].id, places[n]): n for n in range(size)}
    given = [by_place.get((one.given, places[n]), -1) if one.given else -1 for n, one in enumerate(judged)]
    units = [signals[n].unit if n >= 0 else "" for n in given]
    # A device needs its whole clock where it is in full use, but for what members of the same work differ by: with
    # little to do a governor lowers the clock, and the little work uses much of what is left, 45 to 59 % in public
    # recordings. What is low then is not judged, and nothing found is no all-clear (`doubts`).
    shares = [one.least_load or (1 - APART if one.role == "capacity" else HALF) for one in judged]
    load = np.array([use_of_share(share, unit) for share, unit in zip(shares, units, strict=True)])
    follows = [one.role == "throughput" and serves for one, serves in zip(judged, serving, strict=True)]
    whole = np.full(size, -1, np.intp)
    for n, one in enumerate(judged):
        if one.part_of:
            group = Entity("group", places[n].name.split(":", 1)[0])
            whole[n] = by_place.get((one.part_of, places[n]), by_place.get((one.part_of, group), -1))
    at = np.array(given, np.intp)
    least_part = np.array([one.least_part for one in judged])
    return CellRelations(at, load, np.array(follows, bool) & (at >= 0), whole, least_part, requests)


def use_of_share(share: float, unit: str) -> float:
    """Returns a share of full use in the unit of a signal of use; 0 for other signals, which have no full use."""
    return {"%": 100 * share, "1": share}.get(unit, 0.0)
