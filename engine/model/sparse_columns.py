"""Small columns of values of many series, most of which have none."""

import numpy as np
from numpy.typing import DTypeLike, NDArray

Index = NDArray[np.intp]
"""Series, or lanes."""
GROWTH = 1.25
"""Room that is made at once, by what is needed."""


class SparseColumns:
    """[rows, n] values of n series; a series without any costs four bytes, and nothing while none has any."""

    def __init__(self, rows: int, dtype: DTypeLike = np.float64) -> None:
        """Makes columns of so many rows, for no series yet."""
        self.values: NDArray[np.floating] = np.empty((rows, 0), dtype)
        """[rows, lane]; NaN where nothing was stored."""
        self._lane: NDArray[np.int32] = np.empty(0, np.int32)
        """[series] where its values are, -1 where it has none; empty while none has any."""
        self._size = 0
        self._free: list[Index] = []
        """Lanes that no series uses."""
        self._used = 0
        """Lanes that were ever used."""

    def __len__(self) -> int:
        """The number of series."""
        return self._size

    def grow(self, size: int) -> None:
        """Makes room for `size` series."""
        if size > self._size:
            self._size = size
            if len(self._lane):
                self._fill_lanes()

    def _fill_lanes(self) -> None:
        """Notes of each series that is not known yet that it has no values."""
        self._lane = np.concatenate((self._lane, np.full(self._size - len(self._lane), -1, np.int32)))

    def lanes(self, at: Index) -> Index:
        """Returns [k] the lanes of different series, to read and to write; those that had none have one from now on.

        Read `values` afterwards: where there was no room it is another array.
        """
        if len(at) and not len(self._lane):
            self._fill_lanes()
        found = self._lane[at]
        missing = np.flatnonzero(found < 0)
        if len(missing):
            found[missing] = self._take(len(missing))
            self._lane[at[missing]] = found[missing]
        return found.astype(np.intp)

    def get(self, at: Index, rows: slice = slice(None)) -> NDArray[np.floating]:
        """Returns [rows, k] the values of some series in some rows; NaN for series without any."""
        values = self.values[rows]
        if not values.shape[1]:
            return np.full((len(values), len(at)), np.nan, values.dtype)
        lane = self._lane[at]
        found: NDArray[np.floating] = values[:, lane]
        missing = lane < 0
        if missing.any():
            found[:, missing] = np.nan
        return found

    def release(self, at: Index) -> None:
        """Forgets the values of different series."""
        if not len(self._lane):
            return
        lane = self._lane[at]
        some = lane[lane >= 0].astype(np.intp)
        if not len(some):
            return
        self._lane[at] = -1
        self._free.append(some)
        if sum(map(len, self._free)) == self._used:
            self.values, self._free, self._used = self.values[:, :0].copy(), [], 0
            self._lane = self._lane[:0].copy()
        else:
            self.values[:, some] = np.nan

    def copy_from(self, into: Index, other: "SparseColumns", at: Index) -> None:
        """Takes over the values of some series of other columns, which are at other places there."""
        values = other.get(at)
        has = ~np.isnan(values).all(axis=0)
        self.release(into[~has])
        lanes = self.lanes(into[has])
        self.values[:, lanes] = values[:, has]

    def _take(self, count: int) -> Index:
        """Returns lanes that no series uses."""
        taken: list[Index] = []
        while count and self._free:
            last = self._free.pop()
            taken.append(last[:count])
            if len(last) > count:
                self._free.append(last[count:])
            count -= len(taken[-1])
        if count:
            first, self._used = self._used, self._used + count
            if self._used > self.values.shape[1]:
                shape = len(self.values), int(self._used * GROWTH) - self.values.shape[1]
                self.values = np.concatenate((self.values, np.full(shape, np.nan, self.values.dtype)), axis=1)
            taken.append(np.arange(first, self._used))
        return np.concatenate(taken)
