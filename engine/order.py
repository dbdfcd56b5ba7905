"""Sorting many short rows at once: a few passes over long columns instead of one small sort for each row."""

from collections.abc import Iterator
from functools import cache

import numpy as np

from skewscope.engine.sets import F64, NARROW

MANY = 1000
"""Fewer rows than that are sorted one by one: a pass has its price, however short it is."""
BLOCK = 1 << 13
"""So many rows at a time: what is passed over again and again should stay in the cache."""


def ordered(x: F64) -> F64:
    """[rows, members] each row in ascending order, NaN last."""
    rows, members = x.shape
    if members > NARROW or rows < MANY:
        return np.sort(x, axis=1)
    return ordered_down(x.T).T


def ordered_down(x: F64) -> F64:
    """[members, rows] each column in ascending order, NaN last."""
    members, rows = x.shape
    if members > NARROW or rows < MANY:
        return np.sort(x, axis=0)
    out = np.array(x, order="C")
    # A NaN would spread to what it is compared with.
    unknown = np.isnan(out)
    gaps = bool(unknown.any())
    if gaps:
        out[unknown] = np.inf
    for begin in range(0, rows, BLOCK):
        _sort(out[:, begin : begin + BLOCK])
    if gaps:
        out[np.arange(members)[:, None] >= members - unknown.sum(axis=0)] = np.nan
    return out


def _sort(x: F64) -> None:
    lower = np.empty(x.shape[1])
    for a, b in comparators(len(x)):
        np.minimum(x[a], x[b], out=lower)
        np.maximum(x[a], x[b], out=x[b])
        x[a] = lower


@cache
def comparators(size: int) -> tuple[tuple[int, int], ...]:
    """Pairs of places that sort so many members when each pair is put in order in turn: Batcher's odd-even merge."""
    return tuple(
        (a, a + step)
        for block, step in _rounds(size)
        for a in range(step % block, size - step)
        if (a - step % block) % (2 * step) < step and a // (2 * block) == (a + step) // (2 * block)
    )


def _rounds(size: int) -> Iterator[tuple[int, int]]:
    """(length of the sorted runs, distance of the places compared) of each round."""
    block = 1
    while block < size:
        step = block
        while step:
            yield block, step
            step //= 2
        block *= 2
