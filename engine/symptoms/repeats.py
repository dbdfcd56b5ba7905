"""Members of which single steps take far longer than those of their peers, again and again."""

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask, widen
from skewscope.engine.model.parameters import BRIEF_S, BURST_S, HALF, LEAST_PART, MAJORITY, TAIL
from skewscope.engine.model.sparse_columns import SparseColumns

SINCE, VALUE, COUNT, LOST, TIME = range(5)
"""When the first of the late steps was, in seconds; the last late step; how many there were less those of others, and
seconds lost with them; when these were last updated."""


def count_left(times: int) -> float:
    """Returns what is left, as the last one ends, of so many late steps that come BRIEF_S apart."""
    return sum(math.exp(-n * BRIEF_S / BURST_S) for n in range(times))


class PairedCells(Protocol):
    """Cells and the sets of peers that they are members of."""

    @property
    def pair_cell(self) -> Index:
        """[pair] the cell."""

    @property
    def pair_set(self) -> Index:
        """[pair] the set."""


@dataclass
class RepeatedSteps:
    """Members of which single steps take far longer than those of all others, again and again. Arrays are [pair].

    Pauses that hit the members in turn, as when each collects garbage at its own time, count for none of them.
    """

    cells: PairedCells
    found: Mask = field(default_factory=lambda: np.empty(0, bool))
    late: SparseColumns = field(default_factory=lambda: SparseColumns(5))
    """[SINCE, VALUE, COUNT, LOST and TIME, pair] of those that were compared when a step was late."""

    def __post_init__(self) -> None:
        self._judged: Mask = np.empty(0, bool)
        self._was_late: Mask = np.empty(0, bool)

    def grow(self, judged: Mask) -> None:
        """Makes room for new pairs; `judged` [pair] says which are steps of members."""
        self._judged = judged
        self.found, self._was_late = (widen(old, len(judged), False) for old in (self.found, self._was_late))
        self.late.grow(len(judged))

    def since(self, pair: int) -> float:
        """Returns when the first of the late steps of a pair was, in seconds; NaN without any."""
        return float(self.late.get(np.array([pair]))[SINCE, 0])

    def value(self, pair: int) -> float:
        """Returns the last late step of a pair; NaN without any."""
        return float(self.late.get(np.array([pair]))[VALUE, 0])

    def step(self, pairs: Index, ratio: F64, usable: F64, median: F64, t: float) -> None:
        """Takes in newly compared pairs.

        Args:
            pairs: those.
            ratio: [pair] to the median of its set.
            usable: [cell] newest values.
            median: [set]
            t: time of the tick, seconds.
        """
        pairs = pairs[self._judged[pairs]]
        is_late = ratio[pairs] > TAIL
        begins = is_late & ~self._was_late[pairs]
        self._was_late[pairs] = is_late
        if not (begins.any() or self.found[pairs].any()):
            return
        numbers = self.cells.pair_set
        late_in = np.bincount(numbers[pairs[is_late]], minlength=len(median))
        begin_in = np.bincount(numbers[pairs[begins]], minlength=len(median))
        lanes = self.late.lanes(pairs)
        late = self.late.values
        fresh = lanes[np.isnan(late[TIME, lanes])]
        late[COUNT, fresh], late[LOST, fresh] = 0.0, 0.0
        kept = np.nan_to_num(np.exp((late[TIME, lanes] - t) / BURST_S))
        alone = begins & (late_in[numbers[pairs]] == 1)
        others = begin_in[numbers[pairs]] - begins
        late[TIME, lanes] = t
        late[COUNT, lanes] = np.maximum(kept * late[COUNT, lanes] - others, 0.0) + alone
        at, own = pairs[alone], lanes[alone]
        first = own[late[COUNT, own] < 1 + 1 / np.e]
        late[SINCE, first], late[LOST, first] = t, 0.0
        late[VALUE, own] = usable[self.cells.pair_cell[at]]
        late[LOST, own] += late[VALUE, own] - median[numbers[at]]
        count = late[COUNT, lanes]
        with np.errstate(all="ignore"):
            share = late[LOST, lanes] * (1 - 1 / count) / (t - late[SINCE, lanes])
        often = (count >= count_left(MAJORITY)) & (share >= LEAST_PART)
        self.found[pairs] = often | self.found[pairs] & (count >= HALF * count_left(MAJORITY))

    def drop(self, pairs: Mask) -> None:
        """Forgets the late steps of some pairs."""
        self.found[pairs] = False
        some = np.flatnonzero(pairs)
        known = some[~np.isnan(self.late.get(some, slice(TIME, None))[0])]
        self.late.values[COUNT, self.late.lanes(known)] = 0.0
