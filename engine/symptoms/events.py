"""Messages that an event of the catalogue recognises: each is a finding by itself, whatever came before."""

from collections.abc import Iterator

from skewscope.engine.model.finding import EVENT, Finding
from skewscope.engine.model.parameters import EPISODE_S
from skewscope.engine.model.tick import Tick
from skewscope.engine.symptoms.series_detector import SeriesDetector

MESSAGE_LABEL = "message="


class EventReports(SeriesDetector):
    """Events that were reported lately."""

    BY_CELL = ("since",)
    since: dict[int, float]
    """When the first message of those that belong together came, by cell, seconds since 1970."""

    def judges(self, cell: int) -> bool:
        """Returns whether a cell counts messages."""
        return self.cells.judgement(cell).role == "event"

    def judge(self, tick: Tick) -> None:
        """Takes in the new messages, and forgets old ones."""
        at, values, times = self.select(tick.new)
        for cell, time, value in zip(self.at[at].tolist(), times.tolist(), values.tolist(), strict=True):
            if value > 0:
                self.since.setdefault(cell, time)
            else:
                # What was said before means nothing.
                self.since.pop(cell, None)
        self.since = {cell: since for cell, since in self.since.items() if tick.t - self.cells.time[cell] <= EPISODE_S}

    def find(self) -> Iterator[Finding]:
        """Yields the events that are present."""
        for cell, since in sorted(self.since.items()):
            message, count = _message(self.cells.selectors[cell]), float(self.cells.value[cell])
            yield Finding(*self.cells.subject(cell), EVENT, "begins", since, count, 0.0, message)


def _message(selector: str) -> str:
    """Returns the words of the first message, from the selector of its series."""
    parts = (part for part in selector.split(",") if part.startswith(MESSAGE_LABEL))
    return next(parts, "").removeprefix(MESSAGE_LABEL).replace("%2C", ",").replace("%25", "%")
