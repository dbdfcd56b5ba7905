"""Messages that an event of the catalogue recognises: each is a deviation by itself, whatever came before."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import Index
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.deviation import EVENT, Deviation
from skewscope.engine.symptoms.samples import NewSamples

EVENT_S = 300.0
"""Seconds for which a message counts as present (judgement: a fault that goes on writes it again within minutes)."""
MESSAGE_LABEL = "message="


@dataclass
class EventReports:
    """Events that were reported lately."""

    cells: JudgedCells
    at: Index = field(default_factory=lambda: np.empty(0, np.intp))

    since: dict[int, float] = field(default_factory=dict)
    """When the first message of those that belong together came, by cell, seconds since 1970."""

    def grow(self) -> None:
        """Makes room for new cells."""
        roles = (self.cells.judgement(cell).role for cell in range(len(self.cells)))
        self.at = np.array([cell for cell, role in enumerate(roles) if role == "event"], np.intp)

    def step(self, t: float, new: NewSamples) -> None:
        """Takes in the new messages, and forgets old ones at `t` seconds."""
        if not len(self.at):
            return
        for cell, time, value in zip(new.cells.tolist(), new.time.tolist(), new.value.tolist(), strict=True):
            if self.cells.judgement(cell).role != "event":
                continue
            if value > 0:
                self.since.setdefault(cell, time)
            else:
                # What was said before means nothing.
                self.since.pop(cell, None)
        self.since = {cell: since for cell, since in self.since.items() if t - self.cells.time[cell] <= EVENT_S}

    def deviations(self) -> Iterator[Deviation]:
        """Yields the events that are present."""
        for cell, since in sorted(self.since.items()):
            signal, place = self.cells.signals[cell], self.cells.places[cell]
            count = float(self.cells.value[cell])
            yield Deviation(signal, place, EVENT, "begins", since, count, 0.0, _message(self.cells.selectors[cell]))


def _message(selector: str) -> str:
    """Returns the words of the first message, from the selector of its series."""
    parts = (part for part in selector.split(",") if part.startswith(MESSAGE_LABEL))
    return next(parts, "").removeprefix(MESSAGE_LABEL).replace("%2C", ",").replace("%25", "%")
