"""Sets of entities as index matrices, so that something can be computed within each set for all sets at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Index = NDArray[np.intp]

LARGEST = 1e100
"""What is larger is no measurement: its square would be beyond all numbers, and what adds it up never recover."""


@dataclass(frozen=True)
class Bucket:
    """Sets of similar size: row i of `members` are the indices in set `owners[i]`, -1 where there are no more."""

    owners: Index
    members: Index

    @cached_property
    def _full(self) -> bool:
        return bool((self.members >= 0).all())

    def gathered(self, values: F64) -> F64:
        """[sets, widest] values of the members; NaN where there is none."""
        found: F64 = (values if self._full else np.append(values, np.nan))[self.members]
        return found


@dataclass(frozen=True)
class Sets:
    """Sets of entities, bucketed by size: a set of ten thousand does not make the small ones wide."""

    owners: int
    """How many sets there may be."""
    buckets: tuple[Bucket, ...]

    def reduced(self, values: F64, reduce: Callable[[F64], F64]) -> F64:
        """One value for each set; NaN for an empty one."""
        out = np.full(self.owners, np.nan)
        for bucket in self.buckets:
            out[bucket.owners] = reduce(bucket.gathered(values))
        return out

    def mapped(self, values: F64, within: Callable[[F64], F64]) -> F64:
        """One value for each member, computed within its set; NaN for who is in none."""
        out = np.full(len(values) + 1, np.nan)
        for bucket in self.buckets:
            out[bucket.members] = within(bucket.gathered(values))
        return out[:-1]


def sets(members: Mapping[int, Sequence[int]] | Sequence[Sequence[int]], owners: int) -> Sets:
    """Sets by the indices of their members, given by owner."""
    items = members.items() if isinstance(members, Mapping) else enumerate(members)
    by_width: dict[int, list[tuple[int, Sequence[int]]]] = {}
    for owner, found in items:
        if found:
            by_width.setdefault((len(found) - 1).bit_length(), []).append((owner, found))
    return Sets(owners, tuple(_bucket(rows) for _, rows in sorted(by_width.items())))


def _bucket(rows: list[tuple[int, Sequence[int]]]) -> Bucket:
    width = max(len(found) for _, found in rows)
    matrix = np.full((len(rows), width), -1, np.intp)
    for n, (_, found) in enumerate(rows):
        matrix[n, : len(found)] = found
    return Bucket(np.array([owner for owner, _ in rows], np.intp), matrix)
