"""States that leave their good value, once or again and again."""

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, Mask
from skewscope.engine.model.finding import PAST, REPEATS, SILENT_SYMPTOM, Finding
from skewscope.engine.model.parameters import EPISODE_S, MAJORITY, RESTART_S, RUN
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.series_detector import SeriesDetector


class StateChanges(SeriesDetector):
    """States that leave their good value, once or again and again."""

    KEPT: ClassVar[Fills] = {"_was_good": False, "_bad_count": 0, "_since": np.nan, "_value": np.nan}
    _was_good: Mask
    """Whether it has ever been good: a port that was never up is unused."""
    _bad_count: Index
    _since: F64
    _value: F64

    BY_CELL = ("_changes",)
    _changes: dict[int, list[float]]
    """Times of the last changes of those that ever changed, seconds."""
    _is_low: Mask
    """Whether only less than the good value is bad: two that are up are as good as one."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell is a state with a good value."""
        judged = self.cells.judgement(cell)
        return judged.role == "state" and judged.nominal is not None

    def learn_cells(self) -> None:
        """Works out what is good."""
        cells, judged = self.cells, [self.cells.judgement(cell) for cell in self.at.tolist()]
        self._nominal = np.array([float(one.nominal or 0.0) for one in judged])
        self._bits = np.array([cells.signals[cell].type == "bitmask" for cell in self.at.tolist()], bool)
        self._begins = np.array([one.bad == "begins" for one in judged], bool)
        self._is_low = np.array([one.bad == "down" for one in judged], bool) & ~self._bits

    def judged_cells(self) -> Index:
        """Returns the cells that have been good."""
        return self.at[self._was_good]

    def judge(self, tick: Tick) -> None:
        """Takes in the new states."""
        at, value, time = self.select(tick.new)
        if not len(at):
            return
        masks = np.where((value >= 0) & (value < np.iinfo(np.int64).max), value, 0.0).astype(np.int64)
        bits = masks & ~self._nominal[at].astype(int)
        bad = np.where(self._bits[at], bits != 0, value != self._nominal[at])
        bad &= ~self._is_low[at] | (value < self._nominal[at])
        good = ~bad
        was_bad = self._bad_count[at] > 0
        self._was_good[at[good]] = True
        counts = bad & self._was_good[at]
        begins = counts & ~was_bad
        self._since[at[begins]] = time[begins]
        self._bad_count[at] = np.where(counts, self._bad_count[at] + 1, 0)
        self._value[at] = value
        for cell, when in zip(self.at[at[begins]].tolist(), time[begins].tolist(), strict=True):
            self._changes[cell] = [*self._changes.get(cell, ()), when][-RUN:]

    def end(self) -> None:
        """Ends the data: what was bad from its first sample on counts, if that is not how an unused one looks.

        A mask with a bad reason, or a fault that is there, is bad in itself; of ports and the like all siblings have to
        be good: several that were never up are unused.
        """
        never_good = ~self._was_good & ~np.isnan(self._value)
        values = np.nan_to_num(self._value, nan=0.0).astype(np.int64)
        reasons = self._bits & ((values & ~self._nominal.astype(np.int64)) != 0)
        begun = self._begins & ~self._bits & (self._value != self._nominal)
        for n in np.flatnonzero(never_good & (reasons | begun | self._has_good_siblings())).tolist():
            self._bad_count[n] = max(self._bad_count[n], 2)
            self._since[n] = self.cells.time[self.at[n]] if np.isnan(self._since[n]) else self._since[n]

    def _has_good_siblings(self) -> Mask:
        """Returns [state] whether all others of its signal at its node are good, and at least some."""
        names = [self.cells.siblings_of(cell) for cell in self.at.tolist()]
        good, all_ = (
            Counter(name for name, is_good in zip(names, self._was_good.tolist(), strict=True) if is_good),
            Counter(names),
        )
        return np.array([good[name] >= MAJORITY and good[name] + 1 >= all_[name] for name in names], bool)

    def find(self) -> Iterator[Finding]:
        """Yields the states that are bad now, and those that go back and forth."""
        for n in np.flatnonzero(self._bad_count >= 2).tolist():
            judged = self.cells.judgement(int(self.at[n]))
            if judged.symptom == SILENT_SYMPTOM and self.cells.time[self.at[n]] - self._since[n] < RESTART_S:
                continue
            yield self._finding(n, PAST, self._since[n], self._value[n])
        for cell, changes in sorted(self._changes.items()):
            recent = [when for when in changes if self.cells.time[cell] - when <= EPISODE_S]
            if not recent:
                del self._changes[cell]
            elif len(recent) >= RUN // 2 + 1:
                yield self._finding(int(self._place[cell]), REPEATS, recent[0], len(recent))

    def _finding(self, n: int, form: str, since: float, value: float) -> Finding:
        direction = "begins" if self._bits[n] or self._begins[n] else "down"
        return self.finding_on(n, form, direction, (since, value, self._nominal[n]))
