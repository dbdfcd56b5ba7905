"""Steps that take far longer than usual, again and again: each counts for less the longer ago it was."""

import math
from collections.abc import Sequence

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, Mask, nan_to_zero, widen_items
from skewscope.engine.model.parameters import BRIEF_S, BURST_S, HALF, LEAST_PART, MAJORITY
from skewscope.engine.model.sparse_columns import SparseColumns
from skewscope.engine.model.transfer import Places, copy_items

SINCE, VALUE, COUNT, LOST, TIME = range(5)
"""When the first long step of the row was, in seconds; the last one; how many there were of late; seconds lost with
them; when these were last updated."""
LONG_STEPS: Fills = {"found": False, "_was_long": False}


def count_left(times: int) -> float:
    """Returns what is left, as the last one ends, of so many long steps that come BRIEF_S apart."""
    return sum(math.exp(-n * BRIEF_S / BURST_S) for n in range(times))


class LongSteps:
    """The long steps of n series, and of which there are too many."""

    found: Mask
    """Whether they come so often that it matters, until they are half as many."""
    _was_long: Mask

    def __init__(self) -> None:
        self._late = SparseColumns(5)
        """[SINCE, VALUE, COUNT, LOST and TIME, series] of those that were judged when a step was long."""
        widen_items(self, LONG_STEPS, 0)

    def grow(self, size: int) -> None:
        """Makes room for more series."""
        widen_items(self, LONG_STEPS, size)
        self._late.grow(size)

    def starts(self, at: Sequence[int] | Index) -> F64:
        """Returns [k] when the rows of long steps of some series began, in seconds; NaN without any."""
        found: F64 = self._late.get(np.array(at, np.intp))[SINCE]
        return found

    def values(self, at: Sequence[int] | Index) -> F64:
        """Returns [k] the last long steps of some series; NaN without any."""
        found: F64 = self._late.get(np.array(at, np.intp))[VALUE]
        return found

    def begin(self, at: Index, is_long: Mask) -> Mask:
        """Takes in which of some series, [k] each, have a long step now; returns [k] which begin one."""
        begins = is_long & ~self._was_long[at]
        self._was_long[at] = is_long
        return begins

    def count(self, at: Index, begins: Mask, t: F64 | float, others: Index | float = 0.0) -> None:
        """Counts the long steps that begin at some series.

        Args:
            at: the series.
            begins: [k] whether one begins.
            t: [k] or of all, seconds.
            others: [k] how many begin at others, which speak against it.
        """
        lanes = self._late.lanes(at)
        late = self._late.values
        kept = nan_to_zero(np.exp((late[TIME, lanes] - t) / BURST_S) * late[COUNT, lanes])
        count: F64 = np.maximum(kept - others, 0.0) + begins
        late[COUNT, lanes], late[TIME, lanes] = count, t
        self.found[at] &= count >= HALF * count_left(MAJORITY)

    def is_first(self, at: Index) -> Mask:
        """Returns [k] where what is left of earlier ones is too little for a row."""
        found: Mask = self._late.get(at)[COUNT] < 1 + 1 / np.e
        return found

    def note(self, at: Index, value: F64, usual: F64, t: F64 | float) -> tuple[F64, F64]:
        """Notes long steps that have been counted: their durations, and the usual ones, [k] each.

        Returns ([k] part of the time that is lost since the first one, [k] how many there were of late).
        """
        lanes = self._late.lanes(at)
        late, first = self._late.values, lanes[self.is_first(at)]
        late[SINCE, first], late[LOST, first] = late[TIME, first], 0.0
        late[VALUE, lanes] = value
        late[LOST, lanes] += value - usual
        count = late[COUNT, lanes]
        with np.errstate(all="ignore"):
            share = late[LOST, lanes] * (1 - 1 / count) / (t - late[SINCE, lanes])
        self.found[at] |= (count >= count_left(MAJORITY)) & (share >= LEAST_PART)
        return share, count

    def drop(self, series: Mask) -> None:
        """Forgets the long steps of some series."""
        self.found[series] = False
        some = np.flatnonzero(series)
        known = some[~np.isnan(self._late.get(some, slice(TIME, None))[0])]
        self._late.values[COUNT, self._late.lanes(known)] = 0.0

    def take_over(self, before: "LongSteps", places: Places) -> None:
        """Goes on with the steps of the series that another one has as well."""
        copy_items(self, before, LONG_STEPS, places)
        self._late.copy_from(places.now, before._late, places.before)  # noqa: SLF001 - one of its own kind
