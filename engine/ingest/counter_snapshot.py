"""The totals of counters as of one tick."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skewscope.engine.model.arrays import F64, Mask


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """[counter] totals since `start_time`, up to the sample at `time`, in seconds."""

    sum: F64
    time: F64
    start_time: F64
    start_sum: Callable[[], F64]
    """Returns the totals at that time."""
    period: F64
    fresh: Mask
    longest_period: float
    """The longest period."""
    latest_start: float = np.nan
    """When the last began, where all are fresh and were read at one time."""
