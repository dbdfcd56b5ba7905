"""Sets of entities as index matrices, and subsets of the entities of a kind.

A function is computed within each set for all sets at once.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

MAX_NARROW = 16
"""Sets of at most so many members are stored member by member, so that one pass covers many sets."""
MAX_VALUE = 1e100
"""What is larger is no measurement: its square would be beyond all numbers, and what adds it up never recover."""


@dataclass(frozen=True)
class SetBucket:
    """Sets of similar size: row i of `members` are the indices in set `owners[i]`, -1 where there are no more."""

    owners: Index
    members: Index

    @cached_property
    def _is_full(self) -> bool:
        return bool((self.members >= 0).all())

    @cached_property
    def _begin(self) -> int:
        """Index of the first member if the members are consecutive and complete, else -1."""
        flat = self.members.ravel()
        straight = len(flat) > 0 and bool((flat == np.arange(flat[0], flat[0] + len(flat))).all())
        return int(flat[0]) if straight and self._is_full else -1

    @cached_property
    def is_narrow(self) -> bool:
        """Whether no set has more than `NARROW` members."""
        return bool(self.members.shape[1] <= MAX_NARROW)

    @cached_property
    def _transposed(self) -> Index:
        """The members, [widest, sets]."""
        return np.ascontiguousarray(self.members.T)

    @cached_property
    def _distinct_rows(self) -> tuple["SetBucket", Index] | None:
        """Of sets in a row that are the same the first one, and which of these each is; None where few are."""
        new = np.append(True, (self.members[1:] != self.members[:-1]).any(axis=1))
        first = np.flatnonzero(new)
        few = 2 * len(first) <= len(self.members)
        return (SetBucket(first, self.members[first]), np.cumsum(new) - 1) if few else None

    def gather(self, values: F64) -> F64:
        """[sets, widest] values of the members, not to be written to; NaN where there is none."""
        if self._begin >= 0:
            found = values[self._begin : self._begin + self.members.size].reshape(self.members.shape)
            return np.asfortranarray(found) if self.is_narrow else found
        values = values if self._is_full else np.append(values, np.nan)
        return values[self._transposed].T if self.is_narrow else values[self.members]

    def reduce(self, values: F64, reduce: Callable[[F64], F64]) -> F64:
        """One value for each set, in the order of `owners`."""
        if self._distinct_rows is None:
            return reduce(self.gather(values))
        distinct, which = self._distinct_rows
        return distinct.reduce(values, reduce)[which]

    def scatter(self, found: F64, out: F64) -> None:
        """Writes [sets, widest] values to where the members are."""
        if self._begin >= 0:
            out[self._begin : self._begin + self.members.size].reshape(self.members.shape)[:] = found
        elif self.is_narrow:
            out[self._transposed] = found.T
        else:
            out[self.members] = found


def _flatten(matrix: Index) -> Index:
    """Returns the matrix as one row, in the order of its memory."""
    return matrix.ravel(order="F" if matrix.shape[1] <= MAX_NARROW else "C")


def _unflatten(flat: F64, shape: tuple[int, int]) -> F64:
    """The matrix that `_flat` made one row of."""
    return flat.reshape(shape, order="F" if shape[1] <= MAX_NARROW else "C")


@dataclass(frozen=True)
class SetSelection:
    """Some sets: what is computed for these needs the values of `members` alone."""

    members: Index
    """Of all buckets one after another, as `_flatten` orders them; any member where a row has no more."""
    rows: tuple[tuple[Index, Index, Index, NDArray[np.bool_]], ...]
    """For each bucket: its results, their rows and columns, and a [rows, widest] mask of absent members."""
    size: int
    """How many results there are."""

    def _matrices(self, values: F64) -> Iterator[F64]:
        begin = 0
        for _, _, _, absent in self.rows:
            matrix = _unflatten(values[begin : begin + absent.size], absent.shape)
            begin += absent.size
            yield np.where(absent, np.nan, matrix) if absent.any() else matrix

    def reduce(self, values: F64, reduce: Callable[[F64], F64]) -> F64:
        """One value for each set, from those of `members`; NaN for an empty one."""
        out = np.full(self.size, np.nan)
        for (at, row, _, _), matrix in zip(self.rows, self._matrices(values), strict=True):
            out[at] = reduce(matrix)[row]
        return out

    def map_members(self, values: F64, within: Callable[[F64], F64]) -> F64:
        """Returns [result] one value for each requested member; NaN for an entity in no set."""
        out = np.full(self.size, np.nan)
        for (at, row, column, _), matrix in zip(self.rows, self._matrices(values), strict=True):
            out[at] = within(matrix)[row, column]
        return out


@dataclass(frozen=True)
class EntitySets:
    """Sets of entities, bucketed by size: a set of ten thousand does not make the small ones wide."""

    owners: int
    """How many sets there may be."""
    buckets: tuple[SetBucket, ...]

    def reduce(self, values: F64, reduce: Callable[[F64], F64]) -> F64:
        """One value for each set; NaN for an empty one."""
        out = np.full(self.owners, np.nan)
        for bucket in self.buckets:
            out[bucket.owners] = bucket.reduce(values, reduce)
        return out

    def map_members(self, values: F64, within: Callable[[F64], F64]) -> F64:
        """Returns [entity] one value for each member, computed within its set; NaN for an entity in no set."""
        out = np.full(len(values) + 1, np.nan)
        for bucket in self.buckets:
            bucket.scatter(within(bucket.gather(values)), out)
        return out[:-1]

    def prepare(self, members: int = 0) -> None:
        """Compute in advance what selections need, by owner or, if given, by so many members."""
        if members:
            self._by_member(members)
        elif self.owners:
            self.select_owners(np.zeros(1, np.intp))

    def select_owners(self, owners: Index) -> SetSelection:
        """The sets of some owners."""
        bucket, row = self._by_owner
        return self._select(bucket[owners], row[owners], np.zeros(len(owners), np.intp))

    def select_containing(self, members: Index, count: int) -> SetSelection:
        """The sets that some of `count` entities are members of."""
        bucket, row, column = self._by_member(count)
        return self._select(bucket[members], row[members], column[members])

    def _select(self, bucket: Index, row: Index, column: Index) -> SetSelection:
        found, members = [], [np.empty(0, np.intp)]
        for number, one in enumerate(self.buckets):
            at = np.flatnonzero(bucket == number)
            if len(at):
                rows, place = np.unique(row[at], return_inverse=True)
                matrix = one.members[rows]
                found.append((at, place, column[at], matrix < 0))
                members.append(_flatten(np.maximum(matrix, 0)))
        return SetSelection(np.concatenate(members), tuple(found), len(bucket))

    @cached_property
    def _by_owner(self) -> tuple[Index, Index]:
        """The bucket and row of each owner's set; -1 where it has none."""
        bucket, row = np.full((2, self.owners), -1, np.intp)
        for number, one in enumerate(self.buckets):
            bucket[one.owners], row[one.owners] = number, np.arange(len(one.owners))
        return bucket, row

    @cached_property
    def _members(self) -> dict[int, tuple[Index, Index, Index]]:
        return {}

    def _by_member(self, count: int) -> tuple[Index, Index, Index]:
        """Returns [entity] bucket, row and column of each entity; -1 for an entity in no set."""
        if count not in self._members:
            bucket, row, column = np.full((3, count + 1), -1, np.intp)
            for number, one in enumerate(self.buckets):
                rows, columns = np.indices(one.members.shape)
                bucket[one.members], row[one.members], column[one.members] = number, rows, columns
            self._members[count] = bucket[:-1], row[:-1], column[:-1]
        return self._members[count]


def build_sets(members: Mapping[int, Sequence[int]] | Sequence[Sequence[int]], owners: int) -> EntitySets:
    """Sets by the indices of their members, given by owner."""
    items = members.items() if isinstance(members, Mapping) else enumerate(members)
    by_width: dict[int, list[tuple[int, Sequence[int]]]] = {}
    for owner, found in items:
        if found:
            by_width.setdefault((len(found) - 1).bit_length(), []).append((owner, found))
    return EntitySets(owners, tuple(_build_bucket(rows) for _, rows in sorted(by_width.items())))


def _build_bucket(rows: list[tuple[int, Sequence[int]]]) -> SetBucket:
    width = max(len(found) for _, found in rows)
    matrix = np.full((len(rows), width), -1, np.intp)
    for n, (_, found) in enumerate(rows):
        matrix[n, : len(found)] = found
    return SetBucket(np.array([owner for owner, _ in rows], np.intp), matrix)


# --- subsets of entities


@dataclass
class EntitySubset:
    """Some entities of a kind, with the values found for them and the related entities these depend on."""

    indices: Index
    values: dict[int, Any] = field(default_factory=dict)
    """By the number of the expression."""
    _related: dict[Hashable, "EntitySubset"] = field(default_factory=dict)
    _selections: dict[Hashable, SetSelection] = field(default_factory=dict)

    def related_subset(self, key: Hashable, at: Callable[[], Index]) -> "EntitySubset":
        """The entities of another kind that these are judged by."""
        if key not in self._related:
            self._related[key] = EntitySubset(at())
        return self._related[key]

    def select_sets(self, key: Hashable, pick: Callable[[], SetSelection]) -> SetSelection:
        """The sets that these belong to, or own."""
        if key not in self._selections:
            self._selections[key] = pick()
        return self._selections[key]


ArgumentFunction = Callable[[int, EntitySubset], Any]
"""Returns the n-th argument's values of some entities of its kind."""
