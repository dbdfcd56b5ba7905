"""What one tick brings to the detectors."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask


@dataclass(frozen=True, slots=True)
class NewSamples:
    """The cells that have a new sample in this tick, [k] each."""

    cells: Index
    value: F64
    """In the signal's unit; of a counter its rate per second since the sample before."""
    time: F64
    """Seconds since 1970."""

    @classmethod
    def empty(cls) -> "NewSamples":
        """Returns those of a tick that brings none."""
        return cls(np.empty(0, np.intp), np.empty(0), np.empty(0))


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick brings to the detectors, once its samples are taken in. Arrays are [cell], a series each."""

    t: float
    """End of the tick, seconds since 1970."""
    new: NewSamples
    earlier: Sequence[NewSamples] = ()
    """Samples of this tick that newer ones replaced, where each counts; at most one of each cell at a time."""
    usable: F64 = field(default_factory=lambda: np.empty(0))
    """Newest values; NaN where the signal counts only under load and there is none."""
    compared: F64 = field(default_factory=lambda: np.empty(0))
    """The same as peers are compared by."""
    floor: F64 = field(default_factory=lambda: np.empty(0))
    """Least difference that matters."""
    has_sample: Mask = field(default_factory=lambda: np.empty(0, bool))
    is_distinct: Mask = field(default_factory=lambda: np.empty(0, bool))
    """Whether it has a new sample; whether that differs from the one before, or counts as if it did."""
    gone: Mask | None = None
    """What has lost the load or the pool without which it does not count; None for nothing."""
