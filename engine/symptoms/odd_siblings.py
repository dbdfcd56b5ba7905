"""What one port or GPU of a node has and its siblings do not, where readings are too few for a past.

Errors and losses since the counters began, or between the first and the last reading, of which most others have none; a
lower speed than that of all.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from skewscope.engine.model.finding import LIMIT, TOTAL, Finding
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.parameters import MAJORITY, MIN_PAST, TENFOLD
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.roles import SIBLING_KINDS
from skewscope.engine.symptoms.series_detector import SeriesDetector

SUMMED_ROLES = frozenset({"errors", "loss", "pressure"})
"""Roles of counters that stay at zero in health, or nearly so."""
NUMBERS = re.compile(r"\d+")


class OddSiblings(SeriesDetector):
    """Ports and GPUs of a node that are unlike all others of it."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell is compared with siblings by so few readings."""
        judged, cells = self.cells.judgement(cell), self.cells
        is_sum = judged.role in SUMMED_ROLES and bool(cells.is_counter[cell])
        is_compared = is_sum or (judged.role == "capacity" and "siblings" in judged.against)
        return cells.places[cell].kind in SIBLING_KINDS and is_compared

    def judge(self, _tick: Tick) -> None:
        """What counters counted since the first reading is known of each cell."""

    def find(self) -> Iterator[Finding]:
        """Yields what is odd, once the data has ended."""
        for cells in self._list_siblings().values() if self.is_over else ():
            if not self.cells.is_counter[cells[0]] or self.cells.samples[cells].max() <= MIN_PAST:
                yield from self._find_odd(cells)
        yield from self._find_any() if self.is_over else ()

    def _list_siblings(self) -> dict[tuple[str, str], list[int]]:
        """Returns the cells that are compared with one another, by signal and node.

        Ports of one kind have names that differ in numbers only; a port of another kind is not as fast.
        """
        links: dict[tuple[str, str], list[int]] = defaultdict(list)
        for cell in self.at.tolist():
            if not np.isnan(self.cells.time[cell]):
                node, _, name = self.cells.places[cell].name.partition("/")
                links[self.cells.signals[cell].id, f"{node}/{NUMBERS.sub('', name)}"].append(cell)
        return links

    def _find_odd(self, at: list[int]) -> Iterator[Finding]:
        cell, amounts = at[0], self._add_up(at)
        if len(amounts) <= MAJORITY:
            return
        signal, judged, is_sum = self.cells.signals[cell], self.cells.judgement(cell), bool(self.cells.is_counter[cell])
        place, *rest = sorted(amounts, key=lambda member: amounts[member], reverse=is_sum)
        others, now = [amounts[member] for member in rest], amounts[place]
        usual, first = float(np.median(others)), float(self.cells.begun[at].min())
        text = f"{usual:g} is the median of its {len(rest)} siblings"
        if is_sum and usual == 0 and now >= max(TENFOLD**2, TENFOLD * others[0]):
            direction = "begins" if judged.bad == "begins" else "up"
            seconds = float(self.cells.time[at].max()) - first if (self.cells.samples[at] > 1).any() else 0.0
            form, value = (LIMIT, now / seconds) if seconds else (TOTAL, now)
            yield Finding(signal, place, form, direction, first, value, usual, text)
        elif not is_sum and now * (1 + judged.least) < min(others):
            yield Finding(signal, place, LIMIT, "down", first, now, usual, text)

    def _find_any(self) -> Iterator[Finding]:
        """Yields errors of one reading of which any is too many, whatever the siblings have."""
        for cell in self.at.tolist():
            (signal, place), begun = self.cells.subject(cell), float(self.cells.begun[cell])
            total = float(self.cells.state.latest[self.cells.series[cell]])
            if self.cells.judgement(cell).nominal == 0 and self.cells.samples[cell] == 1 and total > 0:
                yield Finding(signal, place, TOTAL, "begins", begun, total, 0.0)

    def _add_up(self, at: list[int]) -> dict[Entity, float]:
        """Returns what counters of each place counted between their readings, of one reading since they began.

        Of other signals it is the newest value.
        """
        newest = self.cells.state.latest[self.cells.series[at]]
        is_growth = self.cells.is_counter[at] & (self.cells.samples[at] > 1).any()
        amounts: dict[Entity, float] = defaultdict(float)
        for cell, amount in zip(at, np.where(is_growth, self.cells.total[at], newest), strict=True):
            amounts[self.cells.places[cell]] += float(amount)
        return amounts
