"""When samples were taken, where many were taken at once: one number instead of one for each.

Frames bring whole columns at one time. Whoever knows that need not look at the times of single samples.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from skewscope.engine.sets import F64


@dataclass(frozen=True, slots=True)
class Moment:
    """One time of the newest samples of many entities; who brought none at that time has no value now."""

    time: float
    whole: bool = True
    """Whether all that ever bring samples brought one."""


ALWAYS = Moment(-np.inf)
"""Of what is always the same."""


def even(value: float, *shape: int) -> F64:
    """The same number for each of so many, not to be written to; it takes no room."""
    return np.ndarray(shape, np.float64, np.array([value]), strides=(0,) * len(shape))


def is_even(values: F64) -> bool:
    """Whether an array is such a one."""
    return len(values) > 0 and values.strides == (0,)


def together(moments: Iterable[Moment | None]) -> Moment | None:
    """The moment of what rests on all of these; None if they are not of one time."""
    found = ALWAYS
    for moment in moments:
        if moment is None or (moment.time != found.time and ALWAYS.time not in (moment.time, found.time)):
            return None
        found = Moment(max(found.time, moment.time), found.whole and moment.whole)
    return found
