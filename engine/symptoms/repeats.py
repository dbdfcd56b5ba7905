"""Members of which single steps take far longer than those of their peers, again and again."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask, widen

TAIL = 4.0
"""Single steps of up to 3.4 times the median are normal (MLPerf runs); what is longer says nothing about the tail."""
REPEAT_S = 30.0
"""Memory of the single late steps of a member..."""
MIN_REPEATS = 2.4
"""...of which so many count as late again and again: three, seven seconds apart."""
LEAST_LOST = 0.05
"""Share of the time by which repeated steps are late that matters: a second each minute for a checkpoint does not."""
KEPT_SHARE = 0.5
"""Late steps end to be found below this part of the number from which on they are."""


class PairedCells(Protocol):
    """Cells and the sets of peers that they are members of."""

    @property
    def pair_cell(self) -> Index:
        """[pair] the cell."""

    @property
    def pair_set(self) -> Index:
        """[pair] the set."""


@dataclass
class RepeatedSteps:
    """Members of which single steps take far longer than those of all others, again and again. Arrays are [pair].

    Pauses that hit the members in turn, as when each collects garbage at its own time, count for none of them.
    """

    cells: PairedCells
    found: Mask = field(default_factory=lambda: np.empty(0, bool))
    since: F64 = field(default_factory=lambda: np.empty(0))
    """When the first of the late steps was, s."""
    value: F64 = field(default_factory=lambda: np.empty(0))
    """Of the last late step."""

    def __post_init__(self) -> None:
        self._judged: Mask = np.empty(0, bool)
        self._was_late: Mask = np.empty(0, bool)
        self._count, self._lost, self._time = (np.empty(0) for _ in range(3))
        """Late steps less those of others, seconds lost with them, and when both were last updated."""

    def grow(self, judged: Mask) -> None:
        """Makes room for new pairs; `judged` [pair] says which are steps of members."""
        self._judged = judged
        self.found, self._was_late = (widen(old, len(judged), False) for old in (self.found, self._was_late))
        self.since, self.value, self._time = (widen(old, len(judged)) for old in (self.since, self.value, self._time))
        self._count, self._lost = (widen(old, len(judged), 0.0) for old in (self._count, self._lost))

    def step(self, pairs: Index, ratio: F64, usable: F64, median: F64, t: float) -> None:
        """Takes in newly compared pairs.

        Args:
            pairs: those.
            ratio: [pair] to the median of its set.
            usable: [cell] newest values.
            median: [set]
            t: time of the tick, seconds.
        """
        pairs = pairs[self._judged[pairs]]
        late = ratio[pairs] > TAIL
        begins = late & ~self._was_late[pairs]
        self._was_late[pairs] = late
        if not (begins.any() or self.found[pairs].any()):
            return
        numbers = self.cells.pair_set
        late_in = np.bincount(numbers[pairs[late]], minlength=len(median))
        begin_in = np.bincount(numbers[pairs[begins]], minlength=len(median))
        kept = np.nan_to_num(np.exp((self._time[pairs] - t) / REPEAT_S))
        alone = begins & (late_in[numbers[pairs]] == 1)
        others = begin_in[numbers[pairs]] - begins
        self._time[pairs] = t
        self._count[pairs] = np.maximum(kept * self._count[pairs] - others, 0.0) + alone
        at = pairs[alone]
        first = self._count[at] < 1 + 1 / np.e
        self.since[at[first]], self._lost[at[first]] = t, 0.0
        self.value[at] = usable[self.cells.pair_cell[at]]
        self._lost[at] += self.value[at] - median[numbers[at]]
        with np.errstate(all="ignore"):
            share = self._lost[pairs] * (1 - 1 / self._count[pairs]) / (t - self.since[pairs])
        often = (self._count[pairs] >= MIN_REPEATS) & (share >= LEAST_LOST)
        self.found[pairs] = often | self.found[pairs] & (self._count[pairs] >= KEPT_SHARE * MIN_REPEATS)

    def drop(self, pairs: Mask) -> None:
        """Forgets the late steps of some pairs."""
        self.found[pairs], self._count[pairs] = False, 0.0
