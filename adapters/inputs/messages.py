"""Messages in texts that events of the catalogue recognise, as counts at the places that they name.

The first message of each kind and place is kept as a label of its series: the words are the evidence.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from io import BufferedReader
from typing import cast

from skewscope.adapters.collectives.rank_state import StateFinding, judge_states
from skewscope.adapters.collectives.state_lines import StateLines, may_have_state
from skewscope.adapters.formats.line_filter import PhraseFilter
from skewscope.adapters.formats.line_shapes import MAX_SHAPES, ShapedLines
from skewscope.adapters.formats.log_envelope import find_host, unwrap_record
from skewscope.adapters.formats.log_lines import MAX_LINE, decode_line
from skewscope.adapters.inputs.file_origin import find_node, find_server
from skewscope.adapters.inputs.labelled import LabelledSeries, Labels, SeriesCollector
from skewscope.adapters.inputs.missing_ranks import list_missing
from skewscope.adapters.inputs.reader import SeriesReader
from skewscope.adapters.inputs.text_times import LineTimes
from skewscope.adapters.inputs.training_steps import find_job
from skewscope.kb.event_reading import FoundEvent
from skewscope.kb.known_events import known_events
from skewscope.kb.line_patterns import mask_digits
from skewscope.kb.line_reading import NO_LABELS
from skewscope.kb.model import Event

MAX_TEXT = 320
"""Characters of a message that are kept."""
MAX_PLACES = 1000
"""Places of one event in one file; what more of them there are is counted at none."""
MAX_MESSAGES = 100_000
"""Messages of one file that are read."""
DEVICE_LABELS = frozenset(("pci_bus_id", "gpu", "device"))
PLACE_LABELS = DEVICE_LABELS | {"node", "pod", "rank"}
"""Labels of lines before a message that say what it is about; devices are named in its text as well."""
DIGITS = re.compile(r"\d+")
BATCH_LINES = 4096
"""Lines that are looked through at a time."""


@dataclass
class MessageReader:
    """Counts the messages of one file."""

    file: str
    labels: Mapping[str, str]
    times: LineTimes
    finds_missing: bool = True
    """Whether it gives who is missing in a collective as well, by the lines of this file alone."""
    _states: StateLines = field(default_factory=StateLines)
    _messages: dict[tuple[str, Labels, str], "_Message"] = field(default_factory=dict)
    """By event, place, and the words where they count."""
    _retracted: list[FoundEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = known_events()
        self._filter = PhraseFilter(known.phrases, known.some_words)
        self._shape_filter = _filter_of_shapes()

    def select(self, lines: Sequence[str]) -> list[int]:
        """Returns the places of the lines that may have messages: those that `read_line` must get."""
        return self._filter.select(lines)

    def select_shapes(self, shapes: Sequence[str]) -> list[int]:
        """Returns the places of the shapes (`mask_digits`) of which a line may have a message."""
        may_have = known_events().may_have
        places = self._shape_filter.select(shapes)
        return [place for place in places if may_have(shapes[place]) or may_have_state(shapes[place])]

    def read_line(self, number: int, text: str, held: Mapping[str, str] = NO_LABELS) -> None:
        """Counts the messages of a line that was selected; the times have read it before.

        Args:
            number: the line's number.
            text: the line.
            held: what lines before it say of its place.
        """
        self._states.read_line(text, self.times.now)
        for found in known_events().compare(text):
            own = {name: value for name, value in held.items() if name in PLACE_LABELS and name not in found.labels}
            device = " ".join(value for name, value in own.items() if name in DEVICE_LABELS)
            placed = found._replace(labels={**own, **found.labels})
            self._count(placed, number, text, f"{device}: " if device else "")

    def _count(self, found: FoundEvent, number: int, text: str, place_name: str) -> None:
        if found.is_retraction:
            if len(self._retracted) < MAX_PLACES:
                self._retracted.append(found)
            return
        place = {**self._place_of(found.event, found.labels, find_host(text)), **found.labels}
        wording = DIGITS.sub("0", text) if found.event.least > 1 else ""
        key = found.event.id, tuple(sorted(place.items())), wording
        message = self._messages.get(key)
        if message is None and len(self._messages) < MAX_PLACES:
            message = self._messages[key] = _Message(
                found.event, place_name + " ".join(text.split())[:MAX_TEXT], number
            )
        if message is not None:
            message.times.append(self.times.now)

    def _place_of(self, event: Event, labels: Mapping[str, str], host: str) -> dict[str, str]:
        """Returns the labels of what the file, or a line of a host, is of, as far as a message does not say it."""
        if event.place == "server" or (event.entity == "engine" and event.place != "job"):
            if pod := labels.get("pod"):
                return {"instance": pod}
            return {} if {"instance", "replica"} & labels.keys() else find_server(self.labels, self.file)[0]
        if event.place == "job":
            return {} if "group" in labels else {"group": self.labels.get("group") or find_job(self.labels, self.file)}
        return {} if "node" in labels else {"node": host or find_node(self.labels, self.file)[0]}

    @property
    def remarks(self) -> list[str]:
        """What was written that says nothing by itself, each message once."""
        return sorted({one.event.name for one in self._messages.values() if not one.event.is_reported})

    @property
    def has_findings(self) -> bool:
        """Whether any message, or all together, say that something is wrong."""
        return any(message.is_reported for _, message in self._valid()) or bool(self._missing())

    def _missing(self) -> list[StateFinding]:
        return judge_states(self._states.states, self._states.size) if self.finds_missing else []

    def _valid(self) -> Iterator[tuple[dict[str, str], "_Message"]]:
        """Yields the messages with their places, without those that another one says mean nothing."""
        void = {one.event.id for one in self._retracted if one.voids}
        retracted = [one for one in self._retracted if one.event.id not in void]
        said: dict[str, list[Labels]] = {}
        for (id_, place, _), message in self._messages.items():
            before = said.setdefault(id_, [])
            # A later line that says less of its place, such as the end of a trace, is of the same.
            is_new = message.is_frequent and not any(set(place) <= set(each) for each in before)
            if is_new and not any(one.retracts(message.event, dict(place)) for one in retracted):
                before.append(place)
                yield dict(place), message

    def series(self, note: str = "") -> list[LabelledSeries]:
        """Returns a series for each event and place."""
        collector = SeriesCollector(self.file, note)
        for place, message in self._valid():
            labels = {**place, "message": message.text}
            for count, time in enumerate(message.times, 1):
                collector.add(metric_of(message.event.signal), labels, time, count, message.number)
        group = self.labels.get("group") or find_job(self.labels, self.file)
        return [*collector.series(), *list_missing(self._missing(), group, self.file)]


@dataclass
class _Message:
    """The messages of one event at one place."""

    event: Event
    text: str
    """The first one."""
    number: int
    """Its line."""
    times: list[float] = field(default_factory=list)

    @property
    def is_frequent(self) -> bool:
        """Whether there are as many moments with it as the event must have."""
        return self.event.least == 1 or len(set(map(int, self.times))) >= self.event.least

    @property
    def is_reported(self) -> bool:
        """Whether it is something by itself, and not only counted."""
        return self.event.is_reported and self.is_frequent


def _filter_of_shapes() -> PhraseFilter:
    """Returns what finds the shapes of which a line may have the words of a message."""
    known = known_events()
    masked = [tuple(map(mask_digits, phrase)) for phrase in known.phrases]
    return PhraseFilter(masked, tuple(map(mask_digits, known.some_words)))


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
        self._cut = b""
        """The begin of a line that was read in part."""
        self._waiting: list[bytes] = []
        self._kept: list[str] = []
        known = known_events()
        self._filter = PhraseFilter(known.phrases, known.some_words)
        self._shape_filter, self._may_tell = _filter_of_shapes(), dict[bytes, bool]()

    def readline(self, size: int = -1) -> bytes:
        """Returns the next line, as the stream does."""
        return self._take(self._file.readline(size))

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes, as the stream does."""
        return self._take(self._file.read(size))

    def _take(self, data: bytes) -> bytes:
        end = data.rfind(b"\n") + 1
        if end:
            self._waiting += (self._cut + data[: end - 1]).split(b"\n")
            self._cut = data[end:]
        else:
            self._cut = (self._cut + data)[:MAX_LINE]
        if len(self._waiting) >= BATCH_LINES:
            self._keep()
        return data

    def _keep(self) -> None:
        lines, self._waiting = list(map(decode_line, self._waiting)), []
        shaped = ShapedLines(lines)
        if len(shaped.shapes) == len(lines):
            lines = [lines[place] for place in self._list_telling(shaped.shapes)]
        places = self._filter.select(lines)
        self._kept += [lines[place] for place in places[: MAX_MESSAGES - len(self._kept)]]

    def _list_telling(self, shapes: Sequence[bytes]) -> list[int]:
        """Returns the places of the lines that may have a message, by their shapes."""
        if len(self._may_tell) > MAX_SHAPES:
            self._may_tell.clear()
        new = [shape for shape in dict.fromkeys(shapes) if shape not in self._may_tell]
        self._may_tell |= dict.fromkeys(new, False)
        for place in self._shape_filter.select([shape.decode() for shape in new]):
            self._may_tell[new[place]] = True
        return [place for place, shape in enumerate(shapes) if self._may_tell[shape]]

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def messages(self, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
        """Returns the series of the messages among the lines that were read."""
        self._waiting.append(self._cut)
        self._keep()
        times = LineTimes(labels, name, 0.0)
        times.learn([unwrap_record(line) for line in self._kept[:BATCH_LINES]])
        reader = MessageReader(name, labels, times)
        for number, line in enumerate(self._kept):
            text = unwrap_record(line)
            times.read(text)
            reader.read_line(number, text)
        return reader.series()


def metric_of(signal: str) -> str:
    """Returns the canonical metric name of a signal."""
    return "skewscope_" + signal.replace(".", "_")
