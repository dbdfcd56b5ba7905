"""Inputs of kind `text`: whatever a format of the catalogue reads, and messages that its events recognise.

The format of a file is the one that has the most lines at its begin, or one that is guessed; the label `format` of the
input names another.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import BinaryIO

from skewscope.adapters.formats.log_envelope import unwrap_record
from skewscope.adapters.formats.log_lines import decode_head, read_lines
from skewscope.adapters.inputs.counter_dumps import UNNAMED_DEVICE, parse_dump_name
from skewscope.adapters.inputs.file_origin import OWN_TIME, check_size, find_node, find_server, join_notes, own_time
from skewscope.adapters.inputs.guessed_format import GUESSED_ID, Guess, guess_format
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.messages import MAX_TEXT, MessageReader, metric_of
from skewscope.adapters.inputs.text_times import LineTimes
from skewscope.adapters.inputs.training_steps import LogLine, StepReader, find_job
from skewscope.adapters.mapping.entities import DEVICE_LABELS, ENTITY_KINDS
from skewscope.kb.known_events import known_events
from skewscope.kb.line_reading import LineReader, LineReadings, Reading
from skewscope.kb.loader import catalogue
from skewscope.kb.model import EVENT_PREFIX, Format
from skewscope.kb.problems import InputError, NothingKnownError, Problem, join_names

NUMBER_WEIGHT = 1000
HEAD_LINES = 400
"""Lines by which the format of a file is chosen: the first ones, or so many after them."""
MAX_PARTS = 4
"""So often as many lines are looked at."""


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file have lines of a format, or messages that are known."""
    lines = decode_head(head)[:HEAD_LINES]
    is_known = bool(find_format(lines)) or any(known_events().find(line) for line in lines)
    return is_known or guess_format(lines) is not None


@cache
def _formats() -> tuple[Format, ...]:
    return tuple(catalogue().formats.values())


def find_format(lines: list[str]) -> str:
    """Returns the id of the format of whose lines the most are among some lines; '' for none."""
    counts: Counter[str] = Counter()
    for one in _formats():
        reader = LineReader(one, catalogue().signals)
        counts[one.id] = sum(_weigh(found) for line in lines for found in reader.read(line))
    return max(counts, key=lambda id_: (counts[id_], id_), default="") if any(counts.values()) else ""


def _weigh(found: LineReadings) -> int:
    """Returns how well a line fits a format: best where it gives numbers, a little where it has none to give."""
    return NUMBER_WEIGHT if found.readings else int(found.is_mark)


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series that the lines of a file give, and its messages.

    Raises:
        InputError: no line has anything that is known.
    """
    lines = list(_bounded_lines(file, name))
    chosen, note = choose_format([text for _, text in lines], name, labels)
    reader = TextReader(name, labels, chosen, [note])
    for number, text in lines:
        reader.read_line(number, text)
    return reader.series()


def choose_format(lines: list[str], file: str, labels: Mapping[str, str]) -> tuple[Format | None, str]:
    """Returns the format of a text, a guessed one where none is known, and what was guessed; None for no format.

    Raises:
        InputError: the label `format` names none.
    """
    known = catalogue().formats
    if (id_ := labels.get("format", "")) and id_ not in known:
        found = f"the format {id_!r:.60}"
        raise InputError([Problem(file, 0, "format", found, "a format of `skewscope kb list formats`")])
    parts = _parts(lines)
    if chosen := id_ or next(filter(None, map(find_format, parts)), ""):
        return known[chosen], ""
    guess = next(filter(None, (guess_format(part, file) for part in parts)), None)
    return (guess.format, f"{guess.what}; --save-format FILE writes that, to be edited") if guess else (None, "")


def guess_format_of(file: BinaryIO, name: str, labels: Mapping[str, str]) -> Guess | None:
    """Returns the format that is guessed for a file, None where it has a known one, or nothing of it can be guessed.

    Raises:
        InputError: a label or the file has no valid value.
    """
    lines = [text for _, text in _bounded_lines(file, name)]
    made, _ = choose_format(lines, name, labels)
    if made is None or made.id != GUESSED_ID:
        return None
    return next(filter(None, (guess_format(part, name) for part in _parts(lines))), None)


def _parts(lines: list[str]) -> list[list[str]]:
    """Returns parts of a text by which its format is chosen: what a program prints at its start may be long."""
    return [lines[begin : begin + HEAD_LINES] for begin in range(0, len(lines), HEAD_LINES)][:MAX_PARTS]


def _bounded_lines(file: BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    for count, line in enumerate(read_lines(file, name)):
        check_size(count, name, line[0])
        yield line


def _is_of_port(signal: str) -> bool:
    return ENTITY_KINDS.get(catalogue().signals[signal].entity) == "port"


@dataclass
class TextReader:
    """Reads the lines of one file."""

    file: str
    labels: Mapping[str, str]
    format: Format | None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._collector = SeriesCollector(self.file)
        self._lines = LineReader(self.format, catalogue().signals) if self.format else None
        self._times = LineTimes(self.labels, self.file, own_time(self.file))
        self._place, unnamed = self._find_place()
        self.notes.append(unnamed)
        self._steps = StepReader(self._collector, self._place.get("group", "")) if "group" in self._place else None
        self._messages = MessageReader(self.file, self.labels, self._times)
        self._sums: dict[tuple[str, tuple[tuple[str, str], ...], float], float] = {}
        self._last_line = 0

    def _find_place(self) -> tuple[dict[str, str], str]:
        """Returns the labels of what the file is of, and a note where its name says it."""
        place = self.format.place if self.format else "none"
        if place == "node":
            node, note = find_node(self.labels, self.file)
            return {"node": node}, note
        if place == "server":
            return find_server(self.labels, self.file)
        return (
            ({"group": self.labels.get("group") or find_job(self.labels, self.file)}, "")
            if place == "job"
            else ({}, "")
        )

    def read_line(self, number: int, text: str) -> None:
        """Adds what a line says."""
        self._last_line, text = number, unwrap_record(text)
        time = self._times.read(text)
        for found in self._lines.read(text) if self._lines else ():
            if found.time is not None:
                time = self._times.set(*found.time)
            self._add_readings(number, text, time, found)
        self._messages.read_line(number, text)

    def _add_readings(self, number: int, text: str, time: float, found: LineReadings) -> None:
        steps = {one.signal: one.value for one in found.readings if one.signal.startswith("step ")}
        if steps and self._steps is not None:
            time = self._add_step(number, text, steps)
        for one in found.readings:
            if not one.signal.startswith("step "):
                self._add(one, time, LogLine(number, text, time))

    def _add_step(self, number: int, text: str, parts: Mapping[str, float]) -> float:
        """Adds a step of a job; returns its time."""
        assert self._steps is not None
        line = LogLine(number, text, self._times.now if self._times.is_dated else None)
        seconds = parts.get("step duration") or (1.0 / parts["step rate"] if parts.get("step rate") else 0.0)
        step = int(parts.get("step number", (self._steps.step or 0) + 1))
        if seconds:
            self._steps.add_step(line, step, seconds, parts.get("step samples"))
        else:
            self._steps.add_progress(line, step)
        return self._steps.time

    def _add(self, one: Reading, time: float, line: LogLine) -> None:
        number, text = line.number, line.text
        labels = {**self._place, **one.labels}
        if _is_of_port(one.signal) and not labels.keys() & {*DEVICE_LABELS, "switch_port"}:
            labels["device"] = parse_dump_name(self.file).device or UNNAMED_DEVICE
        if "pod" in labels and not labels.keys() & {"node", "instance", "replica"}:
            labels["instance"] = labels["pod"]
        if one.signal.startswith(EVENT_PREFIX):
            if not one.value:
                return
            labels["message"] = text.strip()[:MAX_TEXT]
        if one.adds:
            key = one.signal, tuple(sorted(labels.items())), time
            self._sums[key] = self._sums.get(key, 0.0) + one.value
        else:
            self._collector.add(metric_of(one.signal), labels, time, one.value, number)

    def series(self) -> list[LabelledSeries]:
        """Returns all series.

        Raises:
            InputError: there are none.
        """
        for (signal, labels, time), value in self._sums.items():
            self._collector.add(metric_of(signal), dict(labels), time, value, self._last_line)
        own_time_note = "" if self._times.is_dated or self._steps is not None else OWN_TIME
        remarks = self._messages.remarks
        harmless = f"messages that are no sign of a fault by themselves: {join_names(remarks, 5)}" if remarks else ""
        self._collector.note = join_notes(*self.notes, own_time_note, harmless)
        own = self._steps.list_series() if self._steps else self._collector.series()
        if not own and not self._messages.has_findings:
            raise NothingKnownError([self._nothing_wrong(harmless)])
        return [*own, *self._messages.series(self._collector.note)]

    def _nothing_wrong(self, harmless: str) -> Problem:
        kind = self.format.name.lower() if self.format else "text"
        found = harmless or "no message or number in them that says that something is wrong"
        hint = "They are too little to judge: give metrics or logs of the same time as well."
        what = f"{self._last_line} lines of {kind}, and {found}"
        return Problem(self.file, 0, "", what, "messages of `skewscope kb list events`", hint)


READER = artefact_reader(
    "text in a format of the catalogue (`skewscope kb list formats`), or with messages that it knows",
    read_series,
    recognise,
    placed_by_name=True,
    is_fallback=True,
    keeps_prompts=True,
    is_yearless=True,
    log_marks=(b"\n",),
)
