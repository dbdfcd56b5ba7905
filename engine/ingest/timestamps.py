"""When samples were taken, where many were taken at once: one number instead of one for each.

Frames bring whole columns at one time. Whoever knows that need not look at the times of single samples.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from skewscope.engine.model.sets import F64


@dataclass(frozen=True, slots=True)
class CommonTimestamp:
    """One time of the newest samples of many entities; who brought none at that time has no value now."""

    time: float
    is_complete: bool = True
    """Whether all that ever bring samples brought one."""


CONSTANT_TIMESTAMP = CommonTimestamp(-np.inf)
"""Of what is always the same."""


def constant_array(value: float, *shape: int) -> F64:
    """The same number for each of so many, not to be written to; it takes no room."""
    return np.ndarray(shape, np.float64, np.array([value]), strides=(0,) * len(shape))


def is_constant_array(values: F64) -> bool:
    """Whether an array is such a one."""
    return len(values) > 0 and values.strides == (0,)


def merge_timestamps(moments: Iterable[CommonTimestamp | None]) -> CommonTimestamp | None:
    """The moment of what rests on all of these; None if they are not of one time."""
    found = CONSTANT_TIMESTAMP
    for moment in moments:
        if moment is None or (moment.time != found.time and CONSTANT_TIMESTAMP.time not in (moment.time, found.time)):
            return None
        found = CommonTimestamp(max(found.time, moment.time), found.is_complete and moment.is_complete)
    return found
