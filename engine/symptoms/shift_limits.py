"""What counts as a shift of each series that is judged."""

from dataclasses import dataclass, replace

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask


@dataclass(frozen=True, slots=True)
class ShiftLimits:
    """What counts as a shift, [series] each but for those that are [owner]."""

    least: F64
    """[owner] least relative change."""
    floor: F64
    """[owner] least absolute change."""
    up: Mask
    """Whether higher is bad."""
    down: Mask
    min_time: F64
    """[owner] least seconds that a run must last."""
    is_work: Mask
    """Whether it is the time of work: one healthy value takes one from a run and does not end it."""
    owner: Index | None = None
    """Whose limits count; None where each series has its own."""
    follows_load: Mask | None = None
    """[owner] whether it follows the load, so that a level that was usual may return; None where none does."""
    alike: F64 | None = None
    """[owner] of ratios: by what factor they may differ from 1 before they have a past, infinite for any; None where
    nothing is known of what has no past."""

    @classmethod
    def empty(cls) -> "ShiftLimits":
        """Returns those of no series."""
        none = np.empty(0, bool)
        return cls(np.empty(0), np.empty(0), none, none, np.empty(0), none)

    def of(self, series: Index) -> "ShiftLimits":
        """Returns the limits of some of those that have their own, in their order."""
        up, down, is_work = (one[series] for one in (self.up, self.down, self.is_work))
        return replace(self, up=up, down=down, is_work=is_work, owner=series)

    def owners(self, series: Index) -> Index:
        """Returns whose limits count for some series."""
        return series if self.owner is None else self.owner[series]
