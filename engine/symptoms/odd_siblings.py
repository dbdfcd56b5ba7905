"""What one port or GPU of a node has and its siblings do not, where readings are too few for a past.

Errors and losses since the counters began, or between the first and the last reading, of which most others have none; a
lower speed than that of all.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skewscope.engine.model.arrays import F64
from skewscope.engine.model.finding import LIMIT, TOTAL, Finding
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.parameters import MAJORITY, MIN_PAST, TENFOLD
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.roles import SIBLING_KINDS
from skewscope.engine.symptoms.series_detector import Fills, SeriesDetector

SUMMED_ROLES = frozenset({"errors", "loss", "pressure"})
"""Roles of counters that stay at zero in health, or nearly so."""
NUMBERS = re.compile(r"\d+")


class OddSiblings(SeriesDetector):
    """Ports and GPUs of a node that are unlike all others of it."""

    KEPT: ClassVar[Fills] = {"_count": 0, "_growth": 0.0, "_first": np.nan, "_last": np.nan}
    _count: F64
    """[cell that it judges] readings, of a counter those behind the first."""
    _growth: F64
    """What a counter counted since its first reading."""
    _first: F64
    """When that was, seconds since 1970."""
    _last: F64
    """When the newest one was."""

    def __init__(self, cells: JudgedCells) -> None:
        super().__init__(cells)
        self._is_over = False
        """Whether the data has ended."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell is compared with siblings by so few readings."""
        judged, cells = self.cells.judgement(cell), self.cells
        is_sum = judged.role in SUMMED_ROLES and bool(cells.is_counter[cell])
        is_compared = is_sum or (judged.role == "capacity" and "siblings" in judged.against)
        return cells.places[cell].kind in SIBLING_KINDS and is_compared

    def step(self, tick: Tick) -> None:
        """Takes in what a tick brings; the first reading of a counter has no rate, and is none of its new samples."""
        self._first = np.fmin(self._first, self.cells.time[self.at])
        super().step(tick)

    def judge(self, tick: Tick) -> None:
        """Takes in new readings."""
        at, rate, time = self.select(tick.new)
        before = np.where(np.isnan(self._last[at]), self._first[at], self._last[at])
        with np.errstate(invalid="ignore"):
            grown = rate * (time - before)
        self._growth[at] += np.where(np.isnan(grown), 0.0, grown)
        self._count[at] += 1
        self._last[at] = time

    def end(self) -> None:
        """Ends the data: there will be no more readings."""
        self._is_over = True

    def find(self) -> Iterator[Finding]:
        """Yields what is odd, once the data has ended."""
        for places in self._list_siblings().values() if self._is_over else ():
            if not self.cells.is_counter[self.at[places[0]]] or self._count[places].max() < MIN_PAST:
                yield from self._find_odd(places)
        yield from self._find_any() if self._is_over else ()

    def _list_siblings(self) -> dict[tuple[str, str], list[int]]:
        """Returns the cells that are compared with one another, by signal and node.

        Ports of one kind have names that differ in numbers only; a port of another kind is not as fast.
        """
        links: dict[tuple[str, str], list[int]] = defaultdict(list)
        for n, cell in enumerate(self.at.tolist()):
            if not np.isnan(self.cells.time[cell]):
                node, _, name = self.cells.places[cell].name.partition("/")
                links[self.cells.signals[cell].id, f"{node}/{NUMBERS.sub('', name)}"].append(n)
        return links

    def _find_odd(self, at: list[int]) -> Iterator[Finding]:
        cell, amounts = int(self.at[at[0]]), self._add_up(at)
        if len(amounts) <= MAJORITY:
            return
        signal, judged, is_sum = self.cells.signals[cell], self.cells.judgement(cell), bool(self.cells.is_counter[cell])
        place, *rest = sorted(amounts, key=lambda member: amounts[member], reverse=is_sum)
        others, now = [amounts[member] for member in rest], amounts[place]
        usual, first = float(np.median(others)), float(np.nanmin(self._first[at]))
        text = f"{usual:g} is the median of its {len(rest)} siblings"
        if is_sum and usual == 0 and now >= max(TENFOLD**2, TENFOLD * others[0]):
            direction = "begins" if judged.bad == "begins" else "up"
            seconds = float(np.nanmax(self._last[at])) - first if self._count[at].any() else 0.0
            form, value = (LIMIT, now / seconds) if seconds else (TOTAL, now)
            yield Finding(signal, place, form, direction, first, value, usual, text)
        elif not is_sum and now * (1 + judged.least) < min(others):
            yield Finding(signal, place, LIMIT, "down", first, now, usual, text)

    def _find_any(self) -> Iterator[Finding]:
        """Yields errors of one reading of which any is too many, whatever the siblings have."""
        for n, cell in enumerate(self.at.tolist()):
            signal, total = self.cells.signals[cell], float(self.cells.state.latest[self.cells.series[cell]])
            is_one_reading = self.cells.time[cell] == self._first[n]
            if self.cells.judgement(cell).nominal == 0 and is_one_reading and total > 0:
                yield Finding(signal, self.cells.places[cell], TOTAL, "begins", float(self._first[n]), total, 0.0)

    def _add_up(self, at: list[int]) -> dict[Entity, float]:
        """Returns what counters of each place counted between their readings, of one reading since they began.

        Of other signals it is the newest value.
        """
        cells = self.at[at]
        newest = self.cells.state.latest[self.cells.series[cells]]
        is_growth = self.cells.is_counter[cells] & (self.cells.time[cells] > self._first[at]).any()
        amounts: dict[Entity, float] = defaultdict(float)
        for cell, amount in zip(cells, np.where(is_growth, self._growth[at], newest), strict=True):
            amounts[self.cells.places[cell]] += float(amount)
        return amounts
