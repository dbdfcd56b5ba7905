"""Types of the arrays that the engine works with, and the largest number that counts as a measurement."""

from typing import Any

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
MAX_NARROW = 16
"""Sets of at most so many members are stored member by member, so that one pass covers many sets."""


def is_same_mask(one: Mask | None, other: Mask | None) -> bool:
    """Whether two masks are equal; None stands for all."""
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def nan_to_zero(x: F64) -> F64:
    """Returns the values; 0 where there is none."""
    return np.where(np.isnan(x), 0.0, x)


def pad_to_length(array: F64, size: int) -> F64:
    """The array with its last axis made `size` long, filled with NaN."""
    if array.shape[-1] >= size:
        return array
    out = np.full((*array.shape[:-1], size), np.nan, array.dtype)
    out[..., : array.shape[-1]] = array
    return out


def widen(values: NDArray[Any], size: int, fill: float | bool = np.nan) -> NDArray[Any]:
    """Returns a copy of an array with a longer last axis, filled up."""
    out = np.full((*values.shape[:-1], size), fill, values.dtype)
    out[..., : values.shape[-1]] = values
    return out
