"""Types of the arrays that the engine works with, the largest number that counts as a measurement, and a median."""

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Index = NDArray[np.intp]
"""Positions in another array."""
Mask = NDArray[np.bool_]

MAX_VALUE = 1e100
"""What is larger is no measurement: its square would be beyond all numbers, and what adds it up never recover."""


def row_median(values: F64) -> F64:
    """Returns [sets] the median of [sets, members]; of two members their smaller value is the healthy one."""
    count = (~np.isnan(values)).sum(axis=1)
    with np.errstate(all="ignore"):
        ordered = np.sort(values, axis=1)
        rows = np.arange(len(values))
        low = ordered[rows, np.maximum((count - 1) // 2, 0)]
        high = ordered[rows, np.maximum(count // 2, 0) % values.shape[1]]
        middle = np.where(count % 2 == 1, low, (low + high) / 2)
    return np.where(count >= 2, np.where(count == 2, low, middle), np.nan)
