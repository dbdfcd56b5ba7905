"""Counts what a pager would get of telemetry: `python -m bench.count_pages FILE...`.

Each file is diagnosed as `skewscope diagnose` does it. After every tick a notifier with the default settings is shown
the incidents, as a controller does. Printed are its messages: when each began and ended, in seconds from the begin of
the data, the place, the condition and the likeliest causes, and how often it was sent again.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.notify.base import OPENED, RESOLVED, WITHDRAWN, IncidentUpdate, NotificationScope
from skewscope.adapters.notify.notifier_state import NotifierState
from skewscope.adapters.notify.settings import DEFAULT_SEVERITY
from skewscope.adapters.runtime.replay import replay
from skewscope.adapters.runtime.runtime import Snapshot
from skewscope.engine.model.incident import Incident

MOST_CAUSES = 3


@dataclass
class Page:
    """One message that something is wrong, and what became of it."""

    begin: float
    """Seconds from the begin of the data."""
    incident: Incident
    """As it was last seen."""
    end: float | None = None
    how: str = "open"

    def as_line(self) -> str:
        """Returns one line of text."""
        one, end = self.incident, "" if self.end is None else f"{self.end:.0f}"
        named = [name for name, _ in one.posterior][:MOST_CAUSES]
        place = f"{one.condition} on {one.kind} {one.name}"
        return f"  {self.begin:6.0f} to {end:>6} {self.how:9} {one.severity:8} {place} [{', '.join(named)}]"


@dataclass
class PageCount:
    """The messages of one notifier over a recording."""

    start: float
    state: NotifierState = field(default_factory=lambda: NotifierState(NotificationScope(DEFAULT_SEVERITY)))
    pages: list[Page] = field(default_factory=list)
    open: dict[str, Page] = field(default_factory=dict)

    def add(self, snapshot: Snapshot) -> None:
        """Takes in the incidents after a tick."""
        for update in self.state.update(snapshot.time, snapshot.incidents, {}):
            self._add_update(snapshot.time - self.start, update)
        for id_, page in self.open.items():
            page.incident = self.state.reported[id_]

    def _add_update(self, t: float, update: IncidentUpdate) -> None:
        what, one = update.what, update.incident
        if what == OPENED:
            self.open[one.id] = Page(t, one)
            self.pages.append(self.open[one.id])
        elif what in (RESOLVED, WITHDRAWN):
            page = self.open.pop(one.id)
            page.end, page.how, page.incident = t, what, one

    @property
    def repeats(self) -> int:
        """How many pages are of a place and condition that had one before."""
        counts = Counter((one.incident.condition, one.incident.name) for one in self.pages)
        return sum(count - 1 for count in counts.values())


def count_pages(path: Path) -> PageCount:
    """Returns the messages about a file of telemetry."""
    outcome = replay(draft_recording([path], None, None).recording, keep_snapshots=True)
    count = PageCount(outcome.snapshots[0].start)
    for snapshot in outcome.snapshots:
        count.add(snapshot)
    return count


def format_count(path: Path, count: PageCount) -> Iterator[str]:
    """Yields lines about one file."""
    ends = Counter(page.how for page in count.pages)
    ended = ", ".join(f"{number} {how}" for how, number in sorted(ends.items()))
    yield f"{path.name}: {len(count.pages)} pages ({ended or 'none'}), {count.repeats} sent again"
    yield from (page.as_line() for page in count.pages)


def main() -> None:
    """Prints the messages about each file, and how many there are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    total = 0
    for path in parser.parse_args().files:
        count = count_pages(path)
        total += len(count.pages)
        print("\n".join(format_count(path, count)), flush=True)
    print(f"{total} pages in all")


if __name__ == "__main__":
    main()
