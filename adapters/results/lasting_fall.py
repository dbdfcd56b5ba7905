"""Repeats in the order of time: whether they fall at one moment, lastingly and beyond what they vary."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skewscope.adapters.results.result_finding import LEAST

MIN_REPEATS = 5
"""Repeats before and after a fall: so few are all lower by chance once in 252 times."""
SHARE = 0.1
"""Part of the repeats of a side that may lie beyond those of the other one."""


class LastingFall(NamedTuple):
    """A fall of a quantity that was measured again and again."""

    place: int
    """Number of repeats before it."""
    before: float
    after: float


def find_fall(values: Sequence[float]) -> LastingFall | None:
    """Returns the moment that divides repeats best, where all after it are lower; None where none does."""
    numbers = np.array(values, np.float64)
    count = len(numbers)
    if count < 2 * MIN_REPEATS:
        return None
    sums, squares = np.cumsum(numbers), np.cumsum(numbers**2)
    places = np.arange(MIN_REPEATS, count - MIN_REPEATS + 1)
    first, second = places, count - places
    own = squares[places - 1] - sums[places - 1] ** 2 / first
    rest = squares[-1] - squares[places - 1] - (sums[-1] - sums[places - 1]) ** 2 / second
    place = int(places[np.argmin(own + rest)])
    before, after = numbers[:place], numbers[place:]
    is_apart = np.quantile(after, 1 - SHARE) < np.quantile(before, SHARE)
    old, new = float(np.median(before)), float(np.median(after))
    return LastingFall(place, old, new) if is_apart and new < old * (1 - LEAST) else None
