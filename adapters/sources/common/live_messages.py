"""Messages of logs that grow: events of the catalogue as counts at their places, each with the words of the first one.

A sample is given when a message comes, and none between: whether an event is still present is the engine's to say.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from skewscope.adapters.formats.line_filter import select_lines
from skewscope.adapters.formats.log_envelope import find_host, unwrap_record
from skewscope.adapters.sources.common.targets import Labels
from skewscope.kb.event_reading import FoundEvent
from skewscope.kb.known_events import known_events
from skewscope.kb.model import Event

MAX_PLACES = 10_000
"""Places of events that one source counts."""
MAX_TEXT = 320
"""Characters of a message that are kept."""
PLACE_LABELS = frozenset(
    {"node", "gpu", "port", "device", "pci_bus_id", "pci", "group", "rank", "instance", "replica", "engine", "pod"}
)
"""Labels of a message that say what it is about; others, as the number of a process, would be series of their own."""


@dataclass(slots=True)
class _Count:
    """The messages of one event at one place."""

    event: Event
    labels: Mapping[str, str]
    """All labels of the newest one."""
    text: str
    """The first one."""
    number: int = 0
    retracted: int = 0
    """How many there were when another message said that they mean nothing."""


@dataclass
class LiveMessages:
    """Counts the messages of one source."""

    labels: Mapping[str, str]
    """Labels of all its lines."""
    _counts: dict[tuple[str, Labels], _Count] = field(default_factory=dict)
    _void: set[str] = field(default_factory=set)
    """Ids of events of which retractions do not count."""

    def read(self, lines: Iterable[str]) -> Iterator[tuple[str, Labels, float]]:
        """Yields canonical name, labels and count for each message that is something by itself."""
        known, texts = known_events(), [unwrap_record(line) for line in lines]
        for place in select_lines(known.some_words, texts):
            for found in known.compare(texts[place]):
                if found.is_retraction:
                    yield from self._retract(found, texts[place])
                elif found.event.is_reported:
                    yield from self._count(found, texts[place])

    def _count(self, found: FoundEvent, text: str) -> Iterator[tuple[str, Labels, float]]:
        place = self._place_of(found, text)
        key = found.event.signal, place
        if key not in self._counts and len(self._counts) >= MAX_PLACES:
            return
        count = self._counts.setdefault(key, _Count(found.event, {}, text.strip()[:MAX_TEXT]))
        count.labels = {**dict(place), **found.labels}
        count.number += 1
        yield _sample(place, count)

    def _place_of(self, found: FoundEvent, text: str) -> Labels:
        own = {name: value for name, value in found.labels.items() if name in PLACE_LABELS}
        if "pod" in own:
            own["instance"] = own.pop("pod")
        host = find_host(text)
        named = {"node": host} if host and found.event.place == "node" else {}
        return tuple(sorted({**named, **self.labels, **own}.items()))

    def _retract(self, found: FoundEvent, text: str) -> Iterator[tuple[str, Labels, float]]:
        """Yields no messages at the places where a line says that those before it mean nothing, or the messages again.

        Those after it count: a server that answers again may fall silent again.
        """
        host = find_host(text)
        said = found._replace(labels={**({"node": host} if host else {}), **found.labels})
        if found.voids:
            self._void.add(found.event.id)
        elif found.event.id in self._void:
            return
        for (_, place), count in self._counts.items():
            if not said.retracts(count.event, count.labels):
                continue
            before, count.retracted = count.retracted, 0 if found.voids else count.number
            if count.retracted != before:
                yield _sample(place, count)


def _sample(place: Labels, count: _Count) -> tuple[str, Labels, float]:
    metric = "skewscope_" + count.event.signal.replace(".", "_")
    return metric, (*place, ("message", count.text)), float(count.number - count.retracted)
