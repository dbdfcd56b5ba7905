"""Arithmetic within sets of peers: matrices with a set in each row, NaN for unknown or absent. No state, no time.

Where sets are small, the same member of all of them stands side by side in memory. What is added up is then added in
the order of the members, so that a sum is the same whatever sets stand beside it.

Comparisons leave the judged member out: a member far off does not widen the yardstick by which it is measured.
"""

import numpy as np

from skewscope.engine.features.column_statistics import sort_rows, sum_rows
from skewscope.engine.model.arrays import F64, MAX_NARROW, Index, Mask, has_all, has_any, join_equal, take_in_rows

TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation, for a normal distribution."""
MIN_SPREAD_SHARE = 0.02
"""Smallest yardstick, as a share of the median: peers that agree to the last digit still differ by this much."""
CANCELLATION = 1e-6
"""A sum that is so small a part of what it adds up is rounding."""
FEW_VALUES = 1 << 10
"""Of so few, what counts is the number of passes."""
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
    if has_all(known):
        return known, np.full(len(x), x.shape[1])
    return known, known.sum(axis=1)


def _row_sum(x: F64) -> F64:
    """The sum of each row."""
    if x.shape[1] > MAX_NARROW:
        found: F64 = x.sum(axis=1)
        return found
    return sum_rows(x.T)


def inf_to_nan(x: F64) -> F64:
    """The value; what is infinite is unknown."""
    sound = np.isfinite(x)
    return x if has_all(sound) else np.where(sound, x, np.nan)


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
    a = take_in_rows(ordered, np.minimum(low + (low >= rank), most))
    b = take_in_rows(ordered, np.minimum(high + (high >= rank), most))
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
    first, second = (take_in_rows(ordered, np.maximum(count - n, 0)[:, None]) for n in (1, 2))
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
    unknown = np.isnan(x)
    if not np.count_nonzero(unknown):
        return _median_without_self_of_all(x)
    found = _median_without_self(sort_rows(x), x, x.shape[1] - unknown.sum(axis=1))
    found[unknown] = np.nan
    return found


def _median_without_self_of_all(x: F64) -> F64:
    """Returns [row, member] the median of each row without one of its members, all of which are known."""
    size = x.shape[1]
    if size < 2:
        return np.full_like(x, np.nan)
    # Each row is put in order as far as its middle needs it, with or without one of its members.
    ordered = sort_rows(x, range(size // 2 - 1, min(size // 2 + 1 + size % 2, size)))
    middle = _order_statistic_without_self(ordered, x, (size - 2) // 2)
    if size % 2:
        middle = _midpoint(middle, _order_statistic_without_self(ordered, x, (size - 1) // 2))
    return middle


def _median_without_self(ordered: F64, x: F64, count: np.ndarray) -> F64:
    """The median of each row without one of its members; NaN where nobody else is known.

    Who is left out moves the middle by one place if it stands below it. Among equals the place does not matter.
    """
    rest = np.maximum(count - 1, 0)
    low, high = np.maximum(rest - 1, 0) // 2, rest // 2
    middle = _order_statistic_without_self(ordered, x, join_equal(low))
    if has_any(low != high):
        middle = _midpoint(middle, _order_statistic_without_self(ordered, x, join_equal(high)))
    others = rest > 0
    return middle if has_all(others) else np.where(others[:, None], middle, np.nan)


def _order_statistic_without_self(ordered: F64, x: F64, place: Index | int) -> F64:
    """Returns [row, member] the order statistic at a place of each row without one member."""
    most = ordered.shape[1] - 1
    if isinstance(place, int):
        here, next_ = ordered[:, place, None], ordered[:, min(place + 1, most), None]
    else:
        here, next_ = (take_in_rows(ordered, np.minimum(place + n, most)[:, None]) for n in (0, 1))
    if x.size <= FEW_VALUES:
        return np.where(x <= here, next_, here)
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
    a = take_in_rows(ordered, np.maximum(count - 1, 0) // 2)
    b = take_in_rows(ordered, np.minimum(count // 2, x.shape[1] - 1))
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
    if has_all(count == x.shape[1]):
        return _row_sum(x) if x.shape[1] else np.full(len(x), np.nan)
    return np.where(count > 0, _row_sum(np.where(known, x, 0.0)), np.nan)


def average(x: F64) -> F64:
    """The mean of the known members of each row."""
    return safe_divide(total(x), _known_mask(x)[1].astype(np.float64))


def lower_median(x: F64) -> F64:
    """The lower median of the known members of each row: a value that one of them has."""
    count = _known_mask(x)[1][:, None]
    return take_in_rows(sort_rows(x), np.maximum(count - 1, 0) // 2)[:, 0]


def count_known(x: F64) -> F64:
    """Returns [sets, members] the number of known members of each set."""
    return np.repeat((~np.isnan(x)).sum(axis=1)[:, None].astype(np.float64), x.shape[1], axis=1)
