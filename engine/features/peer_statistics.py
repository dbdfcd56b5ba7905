"""Arithmetic within sets of peers: matrices with a set in each row, NaN for unknown or absent. No state, no time.

Where sets are small, the same member of all of them stands side by side in memory. What is added up is then added in
the order of the members, so that a sum is the same whatever sets stand beside it.

Comparisons leave the judged member out: a member far off does not widen the yardstick by which it is measured.
"""

from collections.abc import Collection, Iterator
from functools import cache

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.entities import MAX_NARROW

TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation, for a normal distribution."""
MIN_SPREAD_SHARE = 0.02
"""Smallest yardstick, as a share of the median: peers that agree to the last digit still differ by this much."""
CANCELLATION = 1e-6
"""A sum that is so small a part of what it adds up is rounding."""
MAX_DISTANCE = 1000.0
"""Where a distance ends that has no yardstick: all other peers are alike, and zero."""


def leave_one_out(x: F64) -> tuple[F64, F64]:
    """Median and median absolute deviation of the other known members of each row, for every member."""
    known, count = _known_mask(x)
    ordered = sort_rows(x)
    rank = _row_ranks(x)
    centre = _median_without(ordered, count, rank)
    spread = np.full_like(x, np.nan)
    # Whoever is left out, the median of the rest is one of three values of a row: three passes serve all members.
    for guess in _possible_medians(ordered, count):
        away = np.abs(x - guess[:, None])
        deviation = _median_without(sort_rows(away), count, _row_ranks(away))
        np.copyto(spread, deviation, where=centre == guess[:, None])
    return np.where(known, centre, np.nan), np.where(known, spread, np.nan)


def _known_mask(x: F64) -> tuple[Mask, Index]:
    """Who is known, and how many in each row."""
    known = ~np.isnan(x)
    if np.count_nonzero(known) == known.size:
        return known, np.full(len(x), x.shape[1])
    return known, known.sum(axis=1)


def _row_sum(x: F64) -> F64:
    """The sum of each row."""
    if x.shape[1] > MAX_NARROW:
        found: F64 = x.sum(axis=1)
        return found
    return sum_rows(x.T)


def sum_rows(rows: F64) -> F64:
    """Returns [column] the rows added in their order, so that a column's sum does not depend on other columns."""
    if not len(rows):
        return np.zeros(rows.shape[1])
    out: F64 = rows[0].copy()
    for row in rows[1:]:
        out += row
    return out


def inf_to_nan(x: F64) -> F64:
    """The value; what is infinite is unknown."""
    sound = np.isfinite(x)
    return x if np.count_nonzero(sound) == sound.size else np.where(sound, x, np.nan)


def _row_ranks(x: F64) -> np.ndarray:
    """Each member's place in its row's order."""
    order = np.argsort(x, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(x.shape[1]), x.shape), axis=1)
    return rank


def _median_without(ordered: F64, count: np.ndarray, rank: np.ndarray) -> F64:
    """Returns [row, member] the median of a row without the member at `rank`; NaN where no other is known."""
    rest = (count - 1)[:, None]
    low, high = np.maximum(rest - 1, 0) // 2, np.maximum(rest, 0) // 2
    most = ordered.shape[1] - 1
    a = np.take_along_axis(ordered, np.minimum(low + (low >= rank), most), axis=1)
    b = np.take_along_axis(ordered, np.minimum(high + (high >= rank), most), axis=1)
    return np.where(rest > 0, _midpoint(a, b), np.nan)


def _possible_medians(ordered: F64, count: np.ndarray) -> list[F64]:
    """The medians that a row can have when one of its members is left out."""
    rest = (count - 1)[:, None]
    return [_median_without(ordered, count, np.maximum(rest // 2 + n, 0))[:, 0] for n in (-1, 0, 1)]


def _midpoint(a: F64, b: F64) -> F64:
    return np.where(a == b, a, a + (b - a) / 2)


def peer_z(x: F64) -> F64:
    """How far each member is from the median of the others, in their robust deviations; needs two others."""
    centre, deviation = leave_one_out(x)
    enough = _known_mask(x)[1] >= 3
    yardstick = TO_SIGMA * deviation + MIN_SPREAD_SHARE * np.abs(centre)
    return np.where(enough[:, None], scaled_distance(x - centre, yardstick), np.nan)


def scaled_distance(away: F64, yardstick: F64) -> F64:
    """Returns [sets, members] `away` in units of `yardstick`, at most MAX_DISTANCE; zero is zero for any yardstick."""
    z = np.divide(away, yardstick, out=np.sign(away) * MAX_DISTANCE, where=yardstick > 0)
    return np.clip(z, -MAX_DISTANCE, MAX_DISTANCE)


def peer_excess(x: F64) -> F64:
    """Each member minus the median of the others."""
    return x - peer_median(x)


def peer_highest(x: F64) -> F64:
    """The largest of the others; needs one."""
    known, count = _known_mask(x)
    ordered = sort_rows(x)
    first, second = (np.take_along_axis(ordered, np.maximum(count - n, 0)[:, None], axis=1) for n in (1, 2))
    found = np.where(x == first, second, first)
    return np.where(known & (count >= 2)[:, None], found, np.nan)


def peer_lowest(x: F64) -> F64:
    """Returns [sets, members] the smallest of the other members; NaN for an unknown member or without another one."""
    known, count = _known_mask(x)
    ordered = sort_rows(x)
    first, second = ordered[:, :1], ordered[:, min(1, x.shape[1] - 1), None]
    found = np.where(x == first, second, first)
    return np.where(known & (count >= 2)[:, None], found, np.nan)


def peer_ratio(x: F64) -> F64:
    """Each member over the median of the others; unknown where that is zero."""
    return safe_divide(x, peer_median(x))


def peer_median(x: F64) -> F64:
    """The median of the others; NaN for a member that is unknown."""
    known, count = _known_mask(x)
    found = _median_without_self(_sort_middle(x, known), x, count)
    found[~known] = np.nan
    return found


def _sort_middle(x: F64, known: Mask) -> F64:
    """Each row in order as far as its middle needs it, with or without one of its members."""
    if np.count_nonzero(known) < known.size:
        return sort_rows(x)
    size = x.shape[1]
    return sort_rows(x, range(max(size // 2 - 1, 0), min(size // 2 + 1 + size % 2, size)))


def _median_without_self(ordered: F64, x: F64, count: np.ndarray) -> F64:
    """The median of each row without one of its members; NaN where nobody else is known.

    Who is left out moves the middle by one place if it stands below it. Among equals the place does not matter.
    """
    rest = np.maximum(count - 1, 0)
    low, high = np.maximum(rest - 1, 0) // 2, rest // 2
    middle = _order_statistic_without_self(ordered, x, low)
    if np.count_nonzero(low != high):
        middle = _midpoint(middle, _order_statistic_without_self(ordered, x, high))
    return middle if np.count_nonzero(rest) == len(rest) else np.where((rest > 0)[:, None], middle, np.nan)


def _order_statistic_without_self(ordered: F64, x: F64, place: np.ndarray) -> F64:
    """Returns [row, member] the order statistic at a place of each row without one member."""
    most = ordered.shape[1] - 1
    first = place[0] if len(place) else 0
    if np.count_nonzero(place == first) == len(place):
        here, next_ = ordered[:, first, None], ordered[:, min(first + 1, most), None]
    else:
        here, next_ = (np.take_along_axis(ordered, np.minimum(place + n, most)[:, None], axis=1) for n in (0, 1))
    # No member lies between the two: each is drawn to the nearer one and needs the other one.
    # What two numbers and either of them have not in common is the other one, bit by bit.
    nearer = np.minimum(np.maximum(x, here), next_)
    bits = nearer.view(np.int64)
    np.bitwise_xor(bits, _bits(here) ^ _bits(next_), out=bits)
    return nearer


def _bits(column: F64) -> np.ndarray:
    return np.ascontiguousarray(column[:, 0]).view(np.int64)[:, None]


def safe_divide(a: F64, b: F64) -> F64:
    """A quotient; NaN where the divisor is zero, or so near to it that the quotient is beyond all numbers."""
    with np.errstate(all="ignore"):
        return inf_to_nan(a / b)


def peer_spread(x: F64) -> F64:
    """Largest minus smallest over the median, the same for all members; needs two."""
    two = _known_mask(x)[1] >= 2
    spread = safe_divide(highest(x) - lowest(x), np.abs(_median(x)))
    return _repeat_for_members(np.where(two, spread, np.nan), x)


def _median(x: F64) -> F64:
    count = _known_mask(x)[1][:, None]
    ordered = sort_rows(x)
    a = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=1)
    b = np.take_along_axis(ordered, np.minimum(count // 2, x.shape[1] - 1), axis=1)
    return _midpoint(a, b)[:, 0]


def _repeat_for_members(row: F64, x: F64) -> F64:
    """A row's value for each of its members, known or not."""
    return np.repeat(row[:, None], x.shape[1], axis=1)


def share(x: F64) -> F64:
    """Each member over the sum of all; unknown where the sum is zero, or where members cancel each other out."""
    whole = total(x)
    counts = np.abs(whole) > CANCELLATION * total(np.abs(x))
    return safe_divide(x, np.where(counts, whole, 0.0)[:, None])


def gini(x: F64) -> F64:
    """The Gini coefficient of each row, the same for all members: 0 all alike; needs two and no negative member."""
    _, count = _known_mask(x)
    ordered = np.nan_to_num(sort_rows(x))
    weight = 2 * np.arange(1, x.shape[1] + 1)[None, :] - count[:, None] - 1
    value = safe_divide(_row_sum(weight * ordered), count * _row_sum(ordered))
    good = (count >= 2) & (np.fmin.reduce(x, axis=1) >= 0)
    return _repeat_for_members(np.where(good, value, np.nan), x)


def highest(x: F64) -> F64:
    """The largest known member of each row."""
    found: F64 = np.fmax.reduce(x, axis=1)
    return found


def lowest(x: F64) -> F64:
    """The smallest known member of each row."""
    found: F64 = np.fmin.reduce(x, axis=1)
    return found


def total(x: F64) -> F64:
    """The sum of the known members of each row; NaN where none is known."""
    known, count = _known_mask(x)
    if (count == x.shape[1]).all():
        return _row_sum(x) if x.shape[1] else np.full(len(x), np.nan)
    return np.where(count > 0, _row_sum(np.where(known, x, 0.0)), np.nan)


def average(x: F64) -> F64:
    """The mean of the known members of each row."""
    return safe_divide(total(x), _known_mask(x)[1].astype(np.float64))


def lower_median(x: F64) -> F64:
    """The lower median of the known members of each row: a value that one of them has."""
    count = _known_mask(x)[1][:, None]
    return np.take_along_axis(sort_rows(x), np.maximum(count - 1, 0) // 2, axis=1)[:, 0]


def count_known(x: F64) -> F64:
    """Returns [sets, members] the number of known members of each set."""
    return np.repeat((~np.isnan(x)).sum(axis=1)[:, None].astype(np.float64), x.shape[1], axis=1)


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
    if len(x) and not unknown.any():
        place = q * (len(x) - 1)
        low, high = int(place), min(int(place) + 1, len(x) - 1)
        ordered = sort_columns(x, {low, high})
        return _interpolate(ordered[low], ordered[high], place - low)
    count: Index = (~unknown).sum(axis=0)
    most = np.maximum(count - 1, 0)
    places = q * most
    lows = np.floor(places).astype(np.intp)
    ordered = sort_columns(x)
    a, b = (np.take_along_axis(ordered, n[None, :], axis=0)[0] for n in (lows, np.minimum(lows + 1, most)))
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
