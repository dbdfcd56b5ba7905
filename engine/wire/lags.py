"""Merges the rows that the nodes of a group report of its senders into one lag for each sender, one vote a node.

Where most nodes hear three senders or more (a mesh), a sender's lag is the median of the nodes' votes: of `n` nodes
that hear it, `(n - 1) // 2` may lie, and it stays between the smallest and the largest honest vote. In a ring each pair
of neighbours is heard by one node only, so that none may lie; the rows are fitted by least squares.
"""

from functools import lru_cache

import numpy as np

from skewscope.engine.model.arrays import F64, I64, Mask
from skewscope.engine.wire.rounds import MIN_PAUSE_SHARE

LEAST_LAG = 1e-6
"""A lag of less than a microsecond, s, is none: nobody supports it."""
POLISHES = 3
"""Times that the rows' offsets and the senders' places are fitted to one another."""


def nan_median(values: F64) -> F64:
    """Returns the median over the last axis without NaN; NaN where all are NaN."""
    known = (~np.isnan(values)).sum(axis=-1)
    ordered = np.sort(values, axis=-1)
    at = np.maximum(known - 1, 0)
    low = np.take_along_axis(ordered, (at // 2)[..., None], -1)[..., 0]
    high = np.take_along_axis(ordered, ((at + 1) // 2)[..., None], -1)[..., 0]
    return np.asarray((low + high) / 2)


def max_liars(nodes: I64) -> I64:
    """Returns how many of so many nodes may lie where an extreme value of the honest ones counts: less than a quarter.

    A median tolerates almost half, but honest values may differ by what they say: of those that wait, most wait long.
    """
    return np.maximum(nodes - 1, 0) // 4


def nan_extreme(values: F64, *, low: bool) -> F64:
    """Returns the least (or largest) of each last axis without NaN, after as many as may lie are left out."""
    known = (~np.isnan(values)).sum(axis=-1)
    ordered = np.sort(values if low else -values, axis=-1)
    place = np.minimum(max_liars(known), values.shape[-1] - 1)
    found = np.take_along_axis(ordered, place[..., None], -1)[..., 0]
    return found if low else -found


def median_vote(values: F64) -> F64:
    """Returns [...] the median over nodes of the median over the slots of each; the last axes are [node, slot]."""
    return nan_median(nan_median(values))


def merge_lags(lag: F64, last: F64, period: F64, slots: int = 1) -> tuple[F64, F64, Mask]:
    """Returns each sender's lag behind the first one, its share of last places, and which nodes' votes support the lag.

    [group, sender] s, [group, sender] share, both NaN where unknown, and [group, node, sender]: whether a node hears
    the sender late by at least half of its lag.

    Args:
        lag: [group, receiver, sender] onset of each sender after the first that the receiver heard, s; NaN if it
            received none. The receivers of a node follow one another.
        last: the same shape: share of rounds in which the receiver heard the sender begin last.
        period: [group] time between rounds, s.
        slots: receivers of each node.
    """
    weight = ~np.isnan(lag)
    weight &= weight.sum(axis=2, keepdims=True) >= 2
    place = _least_squares(np.where(weight, lag, 0.0), weight.astype(float))
    place = np.where(_comparable_senders(weight), place, np.nan)
    known = np.where(weight, lag, np.nan)
    votes = _polish(known, place, slots)
    is_mesh = _is_mesh(weight, slots)
    place = np.where(is_mesh[:, None] & ~np.isnan(place), _low_median(np.moveaxis(votes, 1, 2)), place)
    partial = ~is_mesh & (weight.sum(axis=2) == 2).any(axis=1) & ((~np.isnan(place)).sum(axis=1) > 2)
    merged = np.where(partial[:, None], _recut_circle(place, period), place)
    merged = merged - np.fmin.reduce(merged, axis=1, keepdims=True)
    behind = known - np.fmin.reduce(known, axis=2, keepdims=True)
    is_late: Mask = np.asarray(behind >= np.fmax(merged[:, None] / 2, LEAST_LAG))
    supports: Mask = np.asarray(is_late.reshape(len(lag), -1, slots, lag.shape[2]).any(axis=2))
    return merged, _last_share(known, last, place, slots), supports


def _polish(lag: F64, place: F64, slots: int) -> F64:
    """Returns [group, node, sender] s: the place of each sender by each node alone, on the offset of all.

    Rows' offsets and senders' places are fitted by medians in turn, from the places of least squares on.
    """
    groups, receivers, senders = lag.shape
    for _ in range(POLISHES):
        offset = nan_median(lag - place[:, None])
        by_node = (lag - offset[..., None]).reshape(groups, receivers // slots, slots, senders)
        votes = nan_median(np.moveaxis(by_node, 2, 3))
        place = _low_median(np.moveaxis(votes, 1, 2))
    return votes


def _low_median(values: F64) -> F64:
    """Returns the median over the last axis, of an even number the lower one: of two nodes both have to hear a lag."""
    known = (~np.isnan(values)).sum(axis=-1, keepdims=True)
    middle = np.maximum(known - 1, 0) // 2
    return np.asarray(np.take_along_axis(np.sort(values, axis=-1), middle, -1)[..., 0])


def _is_mesh(weight: Mask, slots: int) -> Mask:
    """Returns [group] whether most of the nodes that hear any senders hear three or more."""
    heard = weight.sum(axis=2).reshape(len(weight), -1, slots).max(axis=2)
    return np.asarray(2 * (heard > 2).sum(axis=1) > (heard > 0).sum(axis=1))


def _least_squares(lag: F64, weight: F64) -> F64:
    """Returns [group, sender] s that fit every receiver's row best, with a free offset for each row."""
    heard = np.maximum(weight.sum(axis=2, keepdims=True), 1.0)
    centred = weight * (lag - lag.sum(axis=2, keepdims=True) / heard)
    laplacian = -np.einsum("grs,grt->gst", weight, weight / heard)
    diagonal = np.arange(laplacian.shape[1])
    laplacian[:, diagonal, diagonal] += weight.sum(axis=1)
    inverse = _invert(laplacian.shape, laplacian.tobytes())
    return np.asarray((inverse @ centred.sum(axis=1)[..., None])[..., 0])


@lru_cache(maxsize=8)
def _invert(shape: tuple[int, ...], numbers: bytes) -> F64:
    """Returns the pseudo-inverses of symmetric matrices, given as bytes: those of a tick are mostly those before."""
    return np.asarray(np.linalg.pinv(np.frombuffer(numbers).reshape(shape), hermitian=True), np.float64)


def _comparable_senders(weight: Mask) -> Mask:
    """Returns [group, sender] whether a sender is comparable with the one that most receivers receive from."""
    near = np.einsum("grs,grt->gst", weight.astype(np.int32), weight.astype(np.int32)) > 0
    for _ in range(max(1, near.shape[1] - 1).bit_length()):
        near = np.matmul(near.astype(np.int32), near.astype(np.int32)) > 0
    centre = weight.sum(axis=1).argmax(axis=1)
    return np.asarray(near[np.arange(len(near)), centre])


def _recut_circle(place: F64, period: F64) -> F64:
    """Places on the circle of one period, cut anew where the fewest are late (see `rounds`)."""
    size = place.shape[1]
    turn = np.where(np.isnan(place), np.nan, np.mod(place, period[:, None]))
    ordered = np.sort(turn, axis=1)
    known = (~np.isnan(turn)).sum(axis=1, keepdims=True)
    column = np.arange(size)
    before = np.take_along_axis(ordered, np.mod(column - 1, np.maximum(known, 1)), 1)
    pause = np.mod(ordered - before, period[:, None])
    after = np.mod(turn[:, None, :] - ordered[:, :, None], period[:, None, None])
    after = np.where(after > period[:, None, None] * (1 - 1e-9), 0.0, after)
    spread = np.fmax.reduce(after, axis=2)
    late = (after > spread[:, :, None] / 2).sum(axis=2)
    possible = (pause >= MIN_PAUSE_SHARE * np.fmax.reduce(pause, axis=1, keepdims=True)) & (column < known)
    rank = np.where(possible, late + spread / (10 * period[:, None]), np.inf)
    best = np.argmin(rank, axis=1)
    return np.asarray(after[np.arange(len(after)), best])


def _last_share(lag: F64, last: F64, place: F64, slots: int) -> F64:
    """[group, sender] share of rounds in which a member sent last, from the values of each receiver.

    A receiver that hears all tells it outright; a sender that only so few nodes hear as may lie is not one of all. One
    that hears two tells which of them came later; a member that sent last came later than each neighbour, so that the
    least of what its receivers say bounds it.
    """
    heard = (~np.isnan(lag)).sum(axis=2)
    is_heard: Mask = ~np.isnan(lag)
    by_node: Mask = np.asarray(is_heard.reshape(len(lag), -1, slots, lag.shape[2]).any(axis=2))
    few = max_liars(by_node.any(axis=2).sum(axis=1))
    size = (~np.isnan(place) & (by_node.sum(axis=1) > few[:, None])).sum(axis=1)
    full = heard >= np.maximum(size, 2)[:, None]
    told = np.where(full[:, :, None], last, np.nan).reshape(len(lag), -1, slots, lag.shape[2])
    whole = median_vote(np.moveaxis(told, 3, 1))
    pair = (heard == 2)[:, :, None] & ~np.isnan(lag)
    own, other = np.where(pair, lag, np.nan), np.where(pair, place[:, None, :], np.nan)
    centre = np.nansum(own, axis=2, keepdims=True) / 2, np.nansum(other, axis=2, keepdims=True) / 2
    turned = (own - centre[0]) * (other - centre[1]) < 0
    seen = np.where(pair, np.where(turned, 1.0 - last, last), np.nan)
    return np.asarray(np.where(np.isnan(whole), np.fmin.reduce(seen, axis=1), whole))
