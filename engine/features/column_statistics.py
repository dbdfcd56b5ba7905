"""Statistics of many short rows and columns, NaN for unknown: sums in a fixed order, sorting, quantiles, slopes."""

from collections.abc import Collection, Iterator
from functools import cache

import numpy as np

from skewscope.engine.model.arrays import F64, MAX_NARROW, Index, has_any


def sum_rows(rows: F64) -> F64:
    """Returns [column] the rows added in their order, so that a column's sum does not depend on other columns."""
    if not len(rows):
        return np.zeros(rows.shape[1])
    out: F64 = rows[0].copy()
    for row in rows[1:]:
        out += row
    return out


# --- sorting many short rows: a few passes over long columns instead of one small sort for each row

MIN_NETWORK_ROWS = 1000
"""Fewer rows than that are sorted one by one: a pass has its price, however short it is."""
BLOCK_ROWS = 1 << 13
"""So many rows at a time: what is passed over again and again should stay in the cache."""

Comparator = tuple[int, int, bool, bool]
"""Two places to compare, and whether the smaller and the larger value are needed."""


def sort_rows(x: F64, places: Collection[int] | None = None) -> F64:
    """Returns [rows, members] each row in ascending order, NaN last; only the values at `places` need be right."""
    rows, members = x.shape
    if members > MAX_NARROW or rows < MIN_NETWORK_ROWS:
        return np.sort(x, axis=1)
    return sort_columns(x.T, places).T


def sort_columns(x: F64, places: Collection[int] | None = None) -> F64:
    """Returns [members, rows] each column in ascending order, NaN last; only the values at `places` need be right."""
    members, rows = x.shape
    if members > MAX_NARROW or rows < MIN_NETWORK_ROWS:
        return np.sort(x, axis=0)
    places = tuple(range(members) if places is None else sorted(places))
    out = np.empty((members, rows))
    for begin in range(0, rows, BLOCK_ROWS):
        at = slice(begin, begin + BLOCK_ROWS)
        _sort_by_network(x[:, at], out[:, at], places)
    return out


def column_quantile(x: F64, q: float) -> F64:
    """A quantile of what is known of each column of [members, rows], between neighbours by straight line."""
    unknown = np.isnan(x)
    if len(x) and not has_any(unknown):
        place = q * (len(x) - 1)
        low, high = int(place), min(int(place) + 1, len(x) - 1)
        ordered = sort_columns(x, {low, high})
        return _interpolate(ordered[low], ordered[high], place - low)
    count: Index = (~unknown).sum(axis=0)
    most = np.maximum(count - 1, 0)
    places = q * most
    lows = np.floor(places).astype(np.intp)
    ordered = sort_columns(x)
    columns = np.arange(x.shape[1])
    a, b = ordered[lows, columns], ordered[np.minimum(lows + 1, most), columns]
    return _interpolate(a, b, places - lows)


def column_slope(y: F64, reference: F64, step: float) -> F64:
    """Returns [column] the change per second, by least squares, of [slots, columns] values `step` seconds apart.

    Values are taken from the reference of their column, or far from zero they would lose their digits.
    """
    known = ~np.isnan(y)
    # Times count from the newest sample: the slope stays the same to the last bit until a sample comes or leaves.
    newest = len(y) - 1 - np.argmax(known[::-1], axis=0)
    x = (np.arange(len(y))[:, None] - newest) * step
    count = known.sum(axis=0)
    x, y = np.where(known, x, 0.0), np.where(known, y - reference, 0.0)
    top = count * sum_rows(x * y) - sum_rows(x) * sum_rows(y)
    below = count * sum_rows(x * x) - sum_rows(x) ** 2
    found = np.full(len(count), np.nan)
    np.divide(top, below, out=found, where=below > 0)
    return found


def _interpolate(a: F64, b: F64, share: F64 | float) -> F64:
    return a + (b - a) * share


def _sort_by_network(x: F64, out: F64, places: tuple[int, ...]) -> None:
    # A NaN would spread to what it is compared with.
    unknown = np.isnan(x)
    gaps = bool(unknown.any())
    rows = [*(np.where(unknown, np.inf, x) if gaps else np.array(x, order="C"))]
    spare = np.empty(x.shape[1])
    for a, b, low, high in comparators(len(x), places):
        one, other = rows[a], rows[b]
        if low:
            np.minimum(one, other, out=spare)
            rows[a], spare = spare, one
        if high:
            np.maximum(one, other, out=other)
    for place in places:
        out[place] = rows[place]
    if gaps:
        out[np.arange(len(x))[:, None] >= len(x) - unknown.sum(axis=0)] = np.nan


@cache
def comparators(size: int, places: tuple[int, ...]) -> tuple[Comparator, ...]:
    """What brings those in order who stand at some of so many places, when it is done in turn.

    Each pair is put in order as far as that matters to these places: Batcher's odd-even merge.
    """
    wanted, found = set(places), []
    for a, b in reversed([*_pairs(size)]):
        if a in wanted or b in wanted:
            found.append((a, b, a in wanted, b in wanted))
            wanted |= {a, b}
    return tuple(reversed(found))


def _pairs(size: int) -> Iterator[tuple[int, int]]:
    """The places that are compared to bring all in order."""
    for block, step in _rounds(size):
        for a in range(step % block, size - step):
            if (a - step % block) % (2 * step) < step and a // (2 * block) == (a + step) // (2 * block):
                yield a, a + step


def _rounds(size: int) -> Iterator[tuple[int, int]]:
    """(length of the sorted runs, distance of the places compared) of each round."""
    block = 1
    while block < size:
        step = block
        while step:
            yield block, step
            step //= 2
        block *= 2
