"""Assigns flows numbers that stay the same from block to block."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import I64, Mask, sort_unique

U64 = NDArray[np.uint64]

MAX_FLOWS = 1 << 18
"""Flows kept at once; beyond that the table is cleared and filled again."""


def hash_columns(*columns: NDArray[np.unsignedinteger]) -> U64:
    """Returns [row] 64-bit hashes of several columns (the finaliser of splitmix64 after each)."""
    out = np.full(len(columns[0]), 0x9E3779B97F4A7C15, np.uint64)
    for column in columns:
        out = (out ^ column.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
        out ^= out >> np.uint64(29)
        out *= np.uint64(0x94D049BB133111EB)
        out ^= out >> np.uint64(32)
    return out


def stable_order(numbers: I64) -> I64:
    """Returns [row] the rows ordered by number (of a flow, a stream, a tick: seldom many), equal ones as they came."""
    # Numpy sorts 16 bits by radix, which takes a tenth of the time.
    is_short = len(numbers) > 0 and int(numbers.min()) >= 0 and int(numbers.max()) < 1 << 16
    return np.asarray(np.argsort(numbers.astype(np.uint16) if is_short else numbers, kind="stable"))


def renumber(numbers: I64) -> tuple[I64, I64]:
    """Returns ([k] the numbers that occur, in order, [row] the place of each among them); none is large or negative."""
    occurs = np.bincount(numbers) > 0
    return np.flatnonzero(occurs), np.asarray((np.cumsum(occurs) - 1)[numbers])


@dataclass
class KeyTable:
    """Numbers of 64-bit keys, in the order of their first block."""

    keys: U64 = field(default_factory=lambda: np.empty(0, np.uint64))
    """Sorted."""
    key_numbers: I64 = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.keys)

    def numbers(self, keys: U64) -> I64:
        """Returns [key] numbers, and assigns one to each new key."""
        at, known = self._find(keys)
        if not known.all():
            fresh = sort_unique(keys[~known])
            merged = np.concatenate((self.keys, fresh))
            numbers = np.concatenate((self.key_numbers, len(self.keys) + np.arange(len(fresh))))
            order = np.argsort(merged)
            self.keys, self.key_numbers = merged[order], numbers[order]
            at, _ = self._find(keys)
        return np.asarray(self.key_numbers[at])

    def _find(self, keys: U64) -> tuple[I64, Mask]:
        """Returns [key] (its place among the known keys, whether it is known)."""
        if not len(self.keys):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return at, np.asarray(self.keys[at] == keys)

    @property
    def is_full(self) -> bool:
        """Whether it holds more keys than it may."""
        return len(self.keys) > MAX_FLOWS


def grow_array(array: NDArray[np.generic], length: int, fill: float) -> NDArray[np.generic]:
    """Returns the array extended to at least `length` entries; new entries hold `fill`."""
    if len(array) >= length:
        return array
    out = np.full(max(length, 2 * len(array)), fill, array.dtype)
    out[: len(array)] = array
    return out
