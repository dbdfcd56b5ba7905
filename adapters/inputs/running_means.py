"""Rates that are means since a job began, taken apart into those of the steps since the line before.

A mean since the begin hides that steps have become slower, and a single pause keeps it changed for many lines.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skewscope.engine.model.arrays import F64

MIN_INTERVALS = 10
TOLERANCE, MIN_SHARE = 0.02, 0.9
"""Rates are means since the begin if the time that they say of the steps between two lines is that between the lines,
to this part of it, in such a share of all. In each of twelve logs of Mask R-CNN of rounds 2.1 and 3.0 of MLPerf it is
so in all lines, in 23 others of rounds 2.1 to 5.1 in at most 18 % of them."""


class RateMark(NamedTuple):
    """A line that says a rate and how many steps there were by then."""

    time: float
    """Seconds since 1970."""
    step: float
    rate: float
    """Samples per second."""


def split_running_means(marks: Sequence[RateMark], batch: float) -> list[float] | None:
    """Returns of each mark but the first the rate of the steps since the one before, or None: rates are no such means.

    A rate is NaN where no time passed.

    Args:
        marks: in the order of the log.
        batch: samples in a step.
    """
    if len(marks) <= MIN_INTERVALS:
        return None
    time, step, rate = np.array(marks, np.float64).T
    seconds, steps = np.diff(batch * step / rate), np.diff(step)
    passed = np.diff(time)
    if not (steps > 0).all() or np.mean(np.abs(seconds - passed) <= TOLERANCE * passed) < MIN_SHARE:
        return None
    rates: F64 = np.divide(batch * steps, seconds, out=np.full(len(steps), np.nan), where=seconds > 0)
    return [float(one) for one in rates]
