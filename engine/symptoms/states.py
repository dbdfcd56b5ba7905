"""States that leave their good value, once or again and again."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import Index, Mask
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.deviation import PAST, REPEATS, SILENT_SYMPTOM, Deviation
from skewscope.engine.symptoms.samples import NewSamples
from skewscope.engine.symptoms.silence import MIN_SILENCE_S

MIN_BAD_SAMPLES = 2
MIN_SIBLINGS = 3
"""Good ones beside the only bad one of its kind at a node, from which on it is no unused one (judgement)."""
FLAPS = 4
"""Changes of a state..."""
FLAP_S = 300.0
"""...within this time that are flapping."""


@dataclass
class StateChanges:
    """States that leave their good value, once or again and again."""

    cells: JudgedCells
    at: Index = field(default_factory=lambda: np.empty(0, np.intp))

    def __post_init__(self) -> None:
        self._place: Index = np.empty(0, np.intp)
        self._nominal, self._bits, self._begins = np.empty(0), np.empty(0, bool), np.empty(0, bool)
        self._was_good: Mask = np.empty(0, bool)
        """Whether it has ever been good: a port that was never up is unused."""
        self._bad_count: Index = np.empty(0, np.intp)
        self._since, self._value = np.empty(0), np.empty(0)
        self._changes: dict[int, list[float]] = {}
        """Times of the last changes of those that ever changed, seconds."""

    def grow(self) -> None:
        """Makes room for new cells."""
        cells = self.cells
        judged = [cells.judgement(cell) for cell in range(len(cells))]
        at = [n for n, one in enumerate(judged) if one.role == "state" and one.nominal is not None]
        more = len(at) - len(self.at)
        self.at = np.array(at, np.intp)
        self._place = np.full(len(cells), -1, np.intp)
        self._place[self.at] = np.arange(len(at))
        self._nominal = np.array([float(judged[n].nominal or 0.0) for n in at])
        self._bits = np.array([cells.signals[n].type == "bitmask" for n in at], bool)
        self._begins = np.array([judged[n].bad == "begins" for n in at], bool)
        self._was_good = np.concatenate((self._was_good, np.zeros(more, bool)))
        self._bad_count = np.concatenate((self._bad_count, np.zeros(more, np.intp)))
        self._since, self._value = (np.concatenate((old, np.full(more, np.nan))) for old in (self._since, self._value))

    def judged_cells(self) -> Index:
        """Returns the cells that have been good."""
        return self.at[self._was_good]

    def step(self, new: NewSamples) -> None:
        """Takes in the new states."""
        place = self._place[new.cells]
        mine = place >= 0
        at, value, time = place[mine], new.value[mine], new.time[mine]
        if not len(at):
            return
        bits = np.where((value >= 0) & (value < 2.0**62), value, 0.0).astype(np.int64) & ~self._nominal[at].astype(int)
        bad = np.where(self._bits[at], bits != 0, value != self._nominal[at])
        good = ~bad
        was_bad = self._bad_count[at] > 0
        self._was_good[at[good]] = True
        counts = bad & self._was_good[at]
        begins = counts & ~was_bad
        self._since[at[begins]] = time[begins]
        self._bad_count[at] = np.where(counts, self._bad_count[at] + 1, 0)
        self._value[at] = value
        for n, when in zip(at[begins].tolist(), time[begins].tolist(), strict=True):
            self._changes[n] = [*self._changes.get(n, ()), when][-FLAPS:]

    def conclude(self) -> None:
        """Ends the data: what was bad from its first sample on counts, if that is not how an unused one looks.

        A mask with a bad reason, or a fault that is there, is bad in itself; of ports and the like all siblings have to
        be good: several that were never up are unused.
        """
        never_good = ~self._was_good & ~np.isnan(self._value)
        values = np.nan_to_num(self._value, nan=0.0).astype(np.int64)
        reasons = self._bits & ((values & ~self._nominal.astype(np.int64)) != 0)
        begun = self._begins & ~self._bits & (self._value != self._nominal)
        for n in np.flatnonzero(never_good & (reasons | begun | self._has_good_siblings())).tolist():
            self._bad_count[n] = max(self._bad_count[n], MIN_BAD_SAMPLES)
            self._since[n] = self.cells.time[self.at[n]] if np.isnan(self._since[n]) else self._since[n]

    def _has_good_siblings(self) -> Mask:
        """Returns [state] whether all others of its signal at its node are good, and at least some."""
        names = [
            (self.cells.signals[cell].id, self.cells.places[cell].name.partition("/")[0]) for cell in self.at.tolist()
        ]
        good, all_ = (
            Counter(name for name, is_good in zip(names, self._was_good.tolist(), strict=True) if is_good),
            Counter(names),
        )
        return np.array([good[name] >= MIN_SIBLINGS and good[name] + 1 >= all_[name] for name in names], bool)

    def deviations(self) -> Iterator[Deviation]:
        """Yields the states that are bad now, and those that go back and forth."""
        for n in np.flatnonzero(self._bad_count >= MIN_BAD_SAMPLES).tolist():
            judged = self.cells.judgement(int(self.at[n]))
            if judged.symptom == SILENT_SYMPTOM and self.cells.time[self.at[n]] - self._since[n] < MIN_SILENCE_S:
                continue
            yield self._deviation(n, PAST, float(self._since[n]), float(self._value[n]))
        for n, changes in sorted(self._changes.items()):
            newest = self.cells.time[self.at[n]]
            recent = [when for when in changes if newest - when <= FLAP_S]
            if not recent:
                del self._changes[n]
            elif len(recent) >= FLAPS // 2 + 1:
                yield self._deviation(n, REPEATS, recent[0], float(len(recent)))

    def _deviation(self, n: int, form: str, since: float, value: float) -> Deviation:
        cell = int(self.at[n])
        signal, place = self.cells.signals[cell], self.cells.places[cell]
        judged = signal.judged
        direction = "begins" if self._bits[n] or (judged is not None and judged.bad == "begins") else "down"
        return Deviation(signal, place, form, direction, since, value, float(self._nominal[n]))
