"""Messages in texts that events of the catalogue recognise, as counts at the places that they name.

The first message of each kind and place is kept as a label of its series: the words are the evidence.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, wraps
from io import BufferedReader
from typing import NamedTuple, cast

from skewscope.adapters.formats.log_lines import decode_line
from skewscope.adapters.inputs.file_origin import find_node, find_server
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector
from skewscope.adapters.inputs.reader import SeriesReader
from skewscope.adapters.inputs.text_times import LineTimes
from skewscope.adapters.inputs.training_steps import find_job
from skewscope.kb.line_patterns import LinePattern
from skewscope.kb.line_reading import compile_event
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Event

MAX_TEXT = 160
"""Characters of a message that are kept."""
MAX_PLACES = 1000
"""Places of one event in one file; what more of them there are is counted at none."""
MAX_MESSAGES = 100_000
"""Messages of one file that are read."""


class FoundEvent(NamedTuple):
    """An event in a line, with the labels that the line gives."""

    event: Event
    labels: Mapping[str, str]


@dataclass(frozen=True)
class KnownEvents:
    """All events, behind one expression that passes over most lines."""

    events: tuple[tuple[Event, tuple[LinePattern, ...]], ...]
    marks: re.Pattern[str]

    def find(self, text: str) -> list[FoundEvent]:
        """Returns the events that a line is, mostly none."""
        return [*self._iter(text)] if self.marks.search(text, 0, 4000) else []

    def _iter(self, text: str) -> Iterator[FoundEvent]:
        for event, patterns in self.events:
            for pattern in patterns:
                found = pattern.find(text)
                if found is not None:
                    yield FoundEvent(event, _labels(event, found))
                    break


def _labels(event: Event, found: Mapping[str, str]) -> dict[str, str]:
    named = ((event.fields[name], text) for name, text in found.items())
    return {what.label: str(what.words.get(text, text)) for what, text in named if what.label}


@cache
def known_events() -> KnownEvents:
    """Returns the events of the catalogue."""
    events = tuple((event, compile_event(event)) for event in catalogue().events.values())
    marks = sorted({pattern.mark for _, patterns in events for pattern in patterns}, key=len, reverse=True)
    return KnownEvents(events, re.compile("|".join(map(re.escape, marks))) if all(marks) and marks else re.compile(""))


@dataclass
class MessageReader:
    """Counts the messages of one file."""

    file: str
    labels: Mapping[str, str]
    times: LineTimes
    _texts: dict[tuple[str, tuple[tuple[str, str], ...]], str] = field(default_factory=dict)
    _counts: dict[tuple[str, tuple[tuple[str, str], ...]], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._collector = SeriesCollector(self.file)

    def read_line(self, number: int, text: str) -> None:
        """Counts the messages of a line; the times have read it before."""
        for event, labels in known_events().find(text):
            place = tuple(sorted({**self._place_of(event, labels), **labels}.items()))
            key = event.id, place
            if key not in self._texts and len(self._texts) >= MAX_PLACES:
                continue
            message = self._texts.setdefault(key, text.strip()[:MAX_TEXT])
            count = self._counts[key] = self._counts.get(key, 0) + 1
            self._collector.add(
                metric_of(event.signal), {**dict(place), "message": message}, self.times.now, count, number
            )

    def _place_of(self, event: Event, labels: Mapping[str, str]) -> dict[str, str]:
        """Returns the labels of what the file is of, as far as a message does not say it."""
        if event.place == "server" or (event.entity == "engine" and event.place != "job"):
            if pod := labels.get("pod"):
                return {"instance": pod}
            return {} if {"instance", "replica"} & labels.keys() else find_server(self.labels, self.file)[0]
        if event.place == "job":
            return {} if "group" in labels else {"group": self.labels.get("group") or find_job(self.labels, self.file)}
        return {} if "node" in labels else {"node": find_node(self.labels, self.file)[0]}

    def series(self) -> list[LabelledSeries]:
        """Returns a series for each event and place."""
        return self._collector.series()


def with_messages(reader: SeriesReader) -> SeriesReader:
    """Returns a reader of a log that also gives the messages in it; the log is read once."""

    @wraps(reader)
    def read(file: BufferedReader, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
        marked = _MarkedLines(file)
        series = reader(cast("BufferedReader", marked), name, labels)
        return [*series, *marked.messages(name, labels)]

    return read


class _MarkedLines:
    """A stream that keeps the lines with the words of which each message has one."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._marks = _mark_bytes()
        self._kept: list[bytes] = []

    def readline(self, size: int = -1) -> bytes:
        """Returns the next line, as the stream does."""
        line = self._file.readline(size)
        if self._marks.search(line) and len(self._kept) < MAX_MESSAGES:
            self._kept.append(line)
        return line

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def messages(self, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
        """Returns the series of the messages among the lines that were read."""
        times = LineTimes(labels, name, 0.0)
        reader = MessageReader(name, labels, times)
        for number, line in enumerate(self._kept):
            text = decode_line(line)
            times.read(text)
            reader.read_line(number, text)
        return reader.series()


@cache
def _mark_bytes() -> re.Pattern[bytes]:
    known = known_events()
    return re.compile(known.marks.pattern.encode()) if known.events else re.compile(rb"(?!)")


def metric_of(signal: str) -> str:
    """Returns the canonical metric name of a signal."""
    return "skewscope_" + signal.replace(".", "_")
