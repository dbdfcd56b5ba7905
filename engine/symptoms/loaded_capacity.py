"""A clock that under load never comes near what the same device reaches.

Its past under load is as low, so that it is no shift; what it reaches is known from before or between the work.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.deviation import LIMIT, Deviation
from skewscope.engine.symptoms.levels import RUN
from skewscope.engine.symptoms.relations import CellRelations
from skewscope.engine.symptoms.roles import MIN_RUN_S
from skewscope.engine.symptoms.samples import NewSamples

NUMBERS = ("_lowest", "_turn", "_reached", "_since", "_value", "_count")
ARRAYS = (*NUMBERS, "_was_full")


@dataclass
class LoadedCapacity:
    """Capacities that count under load. Arrays are [such a cell]."""

    cells: JudgedCells
    at: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """The cells."""

    def __post_init__(self) -> None:
        self._place, self._given = np.empty(0, np.intp), np.empty(0, np.intp)
        """[cell] position among these, or -1; the cell that shows the load."""
        self._load, self._least = np.empty(0), np.empty(0)
        self._lowest, self._turn = np.empty(0), np.empty(0)
        """The lowest of up to RUN values, and how many these are: what is reached is held for all of them."""
        self._reached, self._since, self._value, self._count = (np.empty(0) for _ in range(4))
        self._was_full: Mask = np.empty(0, bool)
        """Whether it was ever near what it reaches while under load."""

    def grow(self, ties: CellRelations) -> None:
        """Makes room for new cells, whose loads are those of `ties`."""
        judged = [self.cells.judgement(n) for n in range(len(self.cells))]
        at = [n for n, one in enumerate(judged) if one.role == "capacity" and one.given and ties.given[n] >= 0]
        kept = {int(cell): n for n, cell in enumerate(self.at.tolist())}
        old = np.array([kept.get(n, -1) for n in at], np.intp)
        self.at = np.array(at, np.intp)
        self._place = np.full(len(self.cells), -1, np.intp)
        self._place[self.at] = np.arange(len(at))
        self._given, self._load = ties.given[self.at], ties.load[self.at]
        self._least = np.array([judged[n].least for n in at])
        for name in NUMBERS:
            setattr(self, name, _moved(getattr(self, name), old))
        self._count, self._turn = np.nan_to_num(self._count), np.nan_to_num(self._turn)
        self._was_full = np.nan_to_num(_moved(self._was_full.astype(float), old)).astype(bool)

    def step(self, new: NewSamples) -> None:
        """Takes in new values."""
        place = self._place[new.cells]
        some = place >= 0
        at, value, time = place[some], new.value[some], new.time[some]
        if not len(at):
            return
        self._lowest[at] = np.fmin(self._lowest[at], value)
        self._turn[at] += 1
        full = at[self._turn[at] >= RUN]
        self._reached[full] = np.fmax(self._reached[full], self._lowest[full])
        self._lowest[full], self._turn[full] = np.nan, 0
        with np.errstate(invalid="ignore"):
            loaded = self.cells.value[self._given[at]] > self._load[at]
            low = loaded & (value * (1 + self._least[at]) < self._reached[at])
        self._was_full[at[loaded & ~low & ~np.isnan(self._reached[at])]] = True
        bad = at[low]
        self._since[bad] = np.fmin(self._since[bad], time[low])
        self._value[bad] = value[low]
        self._count[bad] += 1

    def deviations(self) -> Iterator[Deviation]:
        """Yields the capacities that stay low under load."""
        with np.errstate(invalid="ignore"):
            lasts = self.cells.time[self.at] - self._since >= MIN_RUN_S["capacity"]
        for n in np.flatnonzero(lasts & ~self._was_full & (self._count >= RUN)).tolist():
            cell = int(self.at[n])
            signal, place = self.cells.signals[cell], self.cells.places[cell]
            yield Deviation(signal, place, LIMIT, "down", self._since[n], self._value[n], float(self._reached[n]))


def _moved(values: F64, old: Index) -> F64:
    """Returns the values at their new places; NaN for those that had none."""
    padded = np.append(values, np.nan)
    moved: F64 = padded[old]
    return moved
