"""Inputs of kind `text`: whatever a format of the catalogue reads, and messages that its events recognise.

The format of a file is the one that has the most lines at its begin; the label `format` of the input names another.
Formats with a `kind` of their own are read as inputs of that kind, such as `step-log`, in the same way.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import BinaryIO

import numpy as np

from skewscope.adapters.formats.bounded_json import count_parts
from skewscope.adapters.formats.bounds import PARTS
from skewscope.adapters.formats.log_envelope import unwrap_record
from skewscope.adapters.formats.log_lines import decode_head, read_blocks
from skewscope.adapters.inputs import tqdm_log
from skewscope.adapters.inputs.counter_dumps import UNNAMED_DEVICE, parse_dump_name
from skewscope.adapters.inputs.file_origin import OWN_TIME, find_node, find_server, join_notes, own_time
from skewscope.adapters.inputs.guessed_format import Guess, guess_format
from skewscope.adapters.inputs.known_formats import CLOCK_PARTS, KIND, known_formats
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.line_selection import MIN_TRACED, LineSelection, SelectedLines
from skewscope.adapters.inputs.line_stretches import StretchColumns
from skewscope.adapters.inputs.messages import MAX_TEXT, MessageReader, metric_of
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.request_lines import RequestLines
from skewscope.adapters.inputs.request_rows import RequestCollector
from skewscope.adapters.inputs.series_names import split_mean
from skewscope.adapters.inputs.step_lines import EVALUATION_MARK, StepLines
from skewscope.adapters.inputs.text_times import LineTimes
from skewscope.adapters.inputs.traced_lines import ShapeTrace
from skewscope.adapters.inputs.training_steps import LogLine, StepReader, find_job
from skewscope.adapters.mapping.entities import DEVICE_LABELS, ENTITY_KINDS
from skewscope.kb.known_events import known_events
from skewscope.kb.line_reading import NO_LABELS, STEP_PREFIX, LineReader, LineReadings, Reading, list_lines
from skewscope.kb.loader import cache_by_catalogue, catalogue
from skewscope.kb.model import EVENT_PREFIX, Format
from skewscope.kb.problems import InputError, NothingKnownError, Problem, join_names

HEAD_BYTES = 1 << 16
"""Bytes at the begin of a file by which its format is chosen."""
HEAD_LINES = 400
"""Lines of them in which messages are looked for, and of which a format is guessed."""
MAX_HEAD_BYTES = 8 << 20
"""The same, of a kind that is known."""
MAX_GUESSED_BYTES = 1 << 18
"""The same, where nothing is known of it: bytes by which one is found or guessed."""
MAX_DOCUMENT_BYTES = 32 << 20
"""Bytes of a document that is read as a whole."""
MAX_OVERLAP = 1 << 14
"""Bytes of a line that the end of a block cuts."""
MAX_EXAMPLE = 160
"""Characters of a line of a format that a message shows."""


def is_of_kind(kind: str, head: bytes, _name: str = "") -> bool:
    """Returns whether the first bytes of a file have lines of a format of a kind."""
    chosen = known_formats().choose(head)
    return chosen is not None and (chosen.kind or KIND) == kind


def recognise(head: bytes, name: str) -> bool:
    """Returns whether the first bytes of a file have lines of a format, or messages that are known."""
    lines = [unwrap_record(line) for line in decode_head(head)[:HEAD_LINES]]
    is_known = is_of_kind(KIND, head, name) or any(known_events().find(line) for line in lines)
    if is_known or known_formats().choose(head):
        return is_known
    # Progress bars look like lines that repeat, and have a reader of their own.
    return guess_format(lines) is not None and not tqdm_log.recognise(head, name)


def read_kind(kind: str, file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series that the lines of a file give, and its messages.

    Args:
        kind: the kind of its format.
        file: the text.
        name: its name, for messages, and for the name of its host, server or job.
        labels: those of the input; `format` names its format.

    Raises:
        InputError: no line has anything that is known.
    """
    head, chosen, note = _find_format(file, kind, name, labels.get("format", ""))
    reader = TextReader(name, labels, chosen, [note])
    reader.times.learn([unwrap_record(line) for line in decode_head(head)])
    for numbers, lines in list_text_blocks(file, name, head, chosen):
        reader.read_lines(numbers, lines)
    return reader.series()


def list_text_blocks(
    file: BinaryIO, name: str, head: bytes, one: Format | None
) -> Iterator[tuple[Sequence[int], Sequence[str]]]:
    """Yields (numbers, texts) of the lines of a text, many at a time, or of those that the values of a document give.

    Args:
        file: the text.
        name: its name, for messages.
        head: bytes that were read of it before.
        one: its format, which says whether it is a document.

    Raises:
        InputError: it is too large.
    """
    if one is None or not one.document:
        yield from read_blocks(file, name, head)
        return
    data = head + file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise InputError([Problem(name, 0, "", f"more than {MAX_DOCUMENT_BYTES} bytes", "a smaller document")])
    PARTS.check(name, count_parts(data))
    lines = list_lines(one, data.decode("utf-8", "replace"))
    yield range(1, len(lines) + 1), lines


@cache
def _is_of_port(signal: str) -> bool:
    return ENTITY_KINDS.get(catalogue().signals[signal].entity) == "port"


@dataclass
class _Block:
    """Lines that follow one another."""

    numbers: Sequence[int]
    """[line] in the file."""
    texts: Sequence[str]
    selected: SelectedLines
    last: int = -1
    """Place of the last line that was read."""
    telling: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.telling = frozenset(self.selected.telling)


@dataclass
class TextReader:
    """Reads the lines of one file."""

    file: str
    labels: Mapping[str, str]
    format: Format | None
    notes: list[str] = field(default_factory=list)
    collector: SeriesCollector | None = None
    """Takes the samples; None for one of its own."""

    def __post_init__(self) -> None:
        self._collector = SeriesCollector(self.file) if self.collector is None else self.collector
        self._lines = LineReader(self.format, catalogue().signals) if self.format else None
        self.times = LineTimes(self.labels, self.file, own_time(self.file))
        self._place, unnamed = self._find_place()
        self.notes.append(unnamed)
        self._steps: StepLines | None = None
        if "group" in self._place:
            steps = StepReader(self._collector, self._place["group"])
            self._steps = StepLines(self.file, self.labels, steps, self._add)
        self._requests = RequestLines(RequestCollector(self.file, self.labels, undated_end=own_time(self.file) or 1.0))
        lines = self.format.lines if self.format else ()
        self._has_clock = any(what.step in CLOCK_PARTS for line in lines for what in line.fields.values())
        """Whether lines say the time since the job began."""
        self._messages = MessageReader(self.file, self.labels, self.times)
        also = (EVALUATION_MARK,) if self._steps else ()
        self._selection = LineSelection(self._messages, self._lines, self._is_together, also)
        self._sums: dict[tuple[str, tuple[tuple[str, str], ...], float], float] = {}
        self._counted: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, float]] = {}
        self._metrics: dict[str, str] = {}
        self.times.interval = self.format.interval if self.format else 0.0
        self._read_now: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
        """What was read at the time of the newest reading."""
        self._reading_time = -1.0
        self._passed = False
        """Whether readings had no time but the interval between them."""
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

    def read_lines(self, numbers: Sequence[int], lines: Sequence[str]) -> None:
        """Adds what lines that follow one another say; `numbers` are theirs in the file."""
        texts = [unwrap_record(line) for line in lines]
        block = _Block(numbers, texts, self._selection.select(texts))
        for stretch in block.selected.list_stretches():
            if stretch.is_traced and len(stretch.places) >= MIN_TRACED:
                # The first one says what of the format holds before the others.
                self._read_each(block, stretch.places[:1])
                self._read_together(block, stretch.places[1:])
            else:
                self._read_each(block, stretch.places)
        self._find_earlier(block, len(texts))
        self._last_line = numbers[-1] if numbers else self._last_line

    def _is_together(self, shape: str, trace: ShapeTrace) -> bool:
        """Returns whether lines of a shape, each of which says its time, may be read together."""
        parts = [number.signal[len(STEP_PREFIX) :] for line in trace.lines for number in line.numbers if number.is_part]
        is_simple = self.collector is None and not (self._lines and self._lines.counted) and not self._has_clock
        is_read = is_simple and not self.times.interval and not (self.format and self.format.document)
        if not self._steps or not parts:
            return is_read and not parts and trace.stamp is not None and re.search(EVALUATION_MARK, shape) is None
        return is_read and len(trace.lines) == 1 and StepLines.may_be_steady(shape, parts, trace.lines[0].begin)

    def _read_each(self, block: "_Block", places: Sequence[int]) -> None:
        """Reads lines one by one."""
        for place in places:
            text, number = block.texts[place], block.numbers[place]
            time = self._find_time(text)
            if time is None:
                self._find_earlier(block, place)
            elif self._steps:
                self._steps.steps.stamp = time
            self._read_line(LogLine(number, text, time))
            if place in block.telling:
                self._messages.read_line(number, text, self._lines.labels if self._lines else NO_LABELS)
            block.last = place

    def _read_together(self, block: "_Block", places: Sequence[int]) -> None:
        """Reads lines of which it is known what each gives, but one by one where that does not hold."""
        shaped, selected = block.selected.shaped, block.selected
        assert shaped is not None
        columns = StretchColumns(shaped, selected.traces, places, self.times)
        if not columns.is_dated and any(map(selected.may_date, range(block.last + 1, places[-1] + 1))):
            self._read_each(block, places)
            return
        begin = 0
        while begin < len(places):
            end = self._find_even_end(columns, begin)
            if end - begin < MIN_TRACED:
                end = min(begin + MIN_TRACED, len(places))
                self._read_each(block, places[begin:end])
            else:
                self._add_columns(columns, begin, end)
                block.last = places[end - 1]
            begin = end

    def _find_even_end(self, columns: StretchColumns, begin: int) -> int:
        """Returns the end of the lines from a position on that may be added together."""
        damaged = np.flatnonzero(~columns.is_valid[begin:])
        end = begin + int(damaged[0]) if len(damaged) else len(columns.places)
        if self._steps:
            rows, positions = columns.rows(begin)
            count = self._steps.count_steady(rows)
            end = min(end, int(positions[count])) if count < len(positions) else end
        return end

    def _add_columns(self, columns: StretchColumns, begin: int, end: int) -> None:
        held = self._lines.labels if self._lines else NO_LABELS
        if self._steps:
            rows, positions = columns.rows(begin)
            if count := int(np.searchsorted(positions, end)):
                columns.times[positions[:count]] = self._steps.read_steady(rows.cut(0, count), columns.signals)
            if not count or positions[count - 1] < end - 1:
                self._steps.steps.stamp = float(columns.times[end - 1])
        for one in columns.list_series(begin, end):
            labels = self._place_labels(one.signal, {**held, **one.labels})
            self._collector.add_many(self._metric(one.signal), labels, one.times, one.values)
        columns.take_newest(end - 1, self.times)
        if self._lines:
            self._lines.note_better()

    def _find_time(self, text: str) -> float | None:
        """Returns the time that a line begins with; the times of a document are values like any other."""
        return None if self.format and self.format.document else self.times.find(text)

    def _find_earlier(self, block: "_Block", end: int) -> None:
        """Takes the newest time of lines that say nothing else, since the last one that was read."""
        for place in range(end - 1, block.last, -1):
            if block.selected.may_date(place) and (time := self._find_time(block.texts[place])) is not None:
                if self._steps:
                    self._steps.steps.stamp = time
                return

    def _read_line(self, line: LogLine) -> None:
        found = tuple(self._lines.read(line.text)) if self._lines else ()
        if self._steps:
            self._read_steps(line, found)
        elif found:
            self._read_numbers(line, found)

    def _read_numbers(self, line: LogLine, found: Sequence[LineReadings]) -> None:
        for each in found:
            time = self.times.now if each.time is None else self.times.set(*each.time)
            if each.requests():
                is_dated = each.time is not None or self.times.is_dated
                is_arrival = self.format is not None and self.format.lines[each.line].arrival
                self._requests.read(each, time if is_dated else None, line.number, is_arrival=is_arrival)
                continue
            if self.times.interval and each.readings:
                time = self._pass_interval(each, time)
            for one in each.readings:
                self._add(one, time, line)
            if self._lines and each.readings:
                for signal in self._lines.counted:
                    total = self._lines.total(signal, each.labels)
                    self._add(Reading(signal, total, each.labels), time, line)

    def _pass_interval(self, each: LineReadings, time: float) -> float:
        """Returns the time of a line: an interval later where the newest reading has the same series already."""
        keys = {(one.signal, tuple(sorted(one.labels.items()))) for one in each.readings}
        if time != self._reading_time:
            self._read_now, self._reading_time = set(), time
        elif keys & self._read_now:
            time, self._passed = self.times.pass_interval(), True
            self._read_now, self._reading_time = set(), time
        self._read_now |= keys
        return time

    def _read_steps(self, line: LogLine, found: Sequence[LineReadings]) -> None:
        """Adds what a line of a job says; one of an evaluation says nothing else."""
        assert self._steps is not None
        if not found:
            self._steps.read_other(line)
        for each in found if len(found) == 1 else [one for one in found if one.evaluation] or found:
            if each.time is not None:
                line = line._replace(time=self.times.set(*each.time))
            parts = each.steps()
            if self._is_damaged(line.text, parts):
                self._steps.count_damage(line)
                continue
            if each.evaluation or parts:
                self._steps.read(line, each, parts)
                continue
            has_steps = self._steps.steps.step is not None
            time = line.time if line.time is not None else self._steps.steps.time if has_steps else self.times.now
            for one in each.readings:
                self._add(one, time, line)

    def _is_damaged(self, text: str, parts: Mapping[str, Reading]) -> bool:
        """Returns whether a line of a step lacks its time or its end, where each one has the time since a job began."""
        if not self._has_clock or "number" not in parts:
            return False
        return not CLOCK_PARTS & parts.keys() or (text.startswith("{") and not text.endswith("}"))

    def _place_labels(self, signal: str, own: Mapping[str, str]) -> Mapping[str, str]:
        """Returns the labels of a number: its own, and what the file is of."""
        labels: Mapping[str, str] = {**self._place, **own} if own else self._place
        if "pod" in labels and not labels.keys() & {"node", "instance", "replica"}:
            labels = {**labels, "instance": labels["pod"]}
        if _is_of_port(signal) and not labels.keys() & {*DEVICE_LABELS, "switch_port"}:
            labels = {**labels, "device": parse_dump_name(self.file).device or UNNAMED_DEVICE}
        return labels

    def _add(self, one: Reading, time: float, line: LogLine) -> None:
        labels = self._place_labels(one.signal, one.labels)
        if one.signal.startswith(EVENT_PREFIX):
            if not one.value:
                return
            # A line is one message, whatever number in it says so.
            labels, one = {**labels, "message": " ".join(line.text.split())[:MAX_TEXT]}, one._replace(value=1.0)
        if one.adds or one.highest:
            key = one.signal, tuple(sorted(labels.items())), time
            before = self._sums.get(key, 0.0)
            self._sums[key] = before + one.value if one.adds else max(before, one.value)
        else:
            value = self._count(one, labels, time) if one.rates else one.value
            self._collector.add(self._metric(one.signal), labels, time, value, line.number)

    def _count(self, one: Reading, labels: Mapping[str, str], time: float) -> float:
        """Returns what was counted until a line that says how much it is in each second since the line before."""
        key = one.signal, tuple(sorted(labels.items()))
        before, total = self._counted.get(key, (time, 0.0))
        total += one.value * max(time - before, 0.0)
        self._counted[key] = time, total
        return total

    def _metric(self, signal: str) -> str:
        """Returns the name of a signal: that of the exporter which delivers the same, which says what is measured."""
        if signal not in self._metrics:
            exporter, known = self.format.exporter if self.format else "", catalogue().signals[signal]
            # A line has the mean of what an exporter counts in a histogram.
            names = known.sources.get(exporter, ()) if known.type != "histogram" else ()
            self._metrics[signal] = next((name for name in names if "{" not in name), metric_of(signal))
        return self._metrics[signal]

    def series(self) -> list[LabelledSeries]:
        """Returns all series.

        Raises:
            InputError: there are none.
        """
        for (signal, labels, time), value in self._sums.items():
            self._collector.add(metric_of(signal), dict(labels), time, value, self._last_line)
        own_time_note = "" if self.times.is_dated or self._steps is not None else OWN_TIME
        if self._passed:
            own_time_note = join_notes(own_time_note, f"its readings are taken to be {self.times.interval:g} s apart")
        clock_note = self._steps.describe(self._last_line, self._expected()) if self._steps else ""
        remarks = self._messages.remarks
        harmless = f"messages that are no sign of a fault by themselves: {join_names(remarks, 5)}" if remarks else ""
        self._collector.note = join_notes(*self.notes, own_time_note, self.times.note, clock_note, harmless)
        keeps_newest = self.format is not None and self.format.place == "server"
        own = self._steps.steps.list_series() if self._steps else self._collector.series(keeps_newest=keeps_newest)
        own = [part for one in own for part in split_mean(one)]
        if len(self._requests.collector):
            own = [*own, *self._requests.collector.series()]
        if not own and not self._messages.has_findings:
            raise NothingKnownError([self._nothing_found(harmless)])
        return [*own, *self._messages.series(self._collector.note)]

    def _expected(self) -> str:
        """Returns what the lines should have been."""
        if self.format is None:
            return "messages of `skewscope kb list events`"
        sample = max(self.format.samples, key=lambda one: bool(one.gives))
        if not sample.gives:
            return f"one of the {len(catalogue().events)} messages that are known (`skewscope kb list events`)"
        line = sample.lines.splitlines()[0]
        return f"lines such as `{line[:MAX_EXAMPLE].strip()}`"

    def _nothing_found(self, harmless: str) -> Problem:
        kind = self.format.name[0].lower() + self.format.name[1:] if self.format else "text"
        what, hint = "no message or number in them that says that something is wrong", "Give metrics of the same time."
        if self._steps:
            has_one = self._steps.steps.step is not None
            what = "no time between two steps" if has_one else "no step"
            hint = f"Is the log cut {'after' if has_one else 'before'} its first step?"
        found = f"{self._last_line} lines of {kind}, and {harmless or what}: too little to judge"
        return Problem(self.file, self._last_line, "", found, self._expected(), hint)


def _find_format(file: BinaryIO, kind: str, name: str, given: str) -> tuple[bytes, Format | None, str]:
    """Returns the bytes at the begin of a file up to where its format shows, its format, and what was guessed.

    Where none shows, it is the first one of the kind, or a guessed one.

    Raises:
        InputError: the label `format` names none.
    """
    known = known_formats()
    if given and given not in known.by_id:
        found = f"the format {given!r:.60}"
        raise InputError([Problem(name, 0, "format", found, "a format of `skewscope formats list`")])
    head = block = file.read(HEAD_BYTES)
    of_kind = known.by_kind[kind]
    wanted = [known.by_id[given]] if given else of_kind
    most = MAX_GUESSED_BYTES if kind == KIND else MAX_HEAD_BYTES
    chosen = None
    while block and (chosen := wanted[0] if given else known.choose(block)) not in wanted and len(head) < most:
        more = file.read(HEAD_BYTES)
        head += more
        block = block[block.rfind(b"\n") + 1 :][-MAX_OVERLAP:] + more if more else b""
    if block and chosen in wanted:
        return head, chosen, ""
    if kind != KIND:
        return head, of_kind[0], ""
    guess = _guess(head, name)
    if guess is None:
        return head, None, ""
    return head, guess.format, f"{guess.what}; --save-format FILE writes that, to be edited"


def _guess(head: bytes, name: str) -> Guess | None:
    blocks = (head[begin : begin + HEAD_BYTES] for begin in range(0, min(len(head), MAX_GUESSED_BYTES), HEAD_BYTES))
    return next(filter(None, (guess_format(decode_head(block)[:HEAD_LINES], name) for block in blocks)), None)


def guess_format_of(file: BinaryIO, name: str, labels: Mapping[str, str]) -> Guess | None:
    """Returns the format that is guessed for a file, None where it has a known one, or nothing of it can be guessed.

    Raises:
        InputError: a label or the file has no valid value.
    """
    head, _, what = _find_format(file, KIND, name, labels.get("format", ""))
    return _guess(head, name) if what else None


def _reader(kind: str) -> InputReader:
    """Returns the reader of inputs of the formats of a kind."""
    formats = [one for one in catalogue().formats.values() if one.kind == kind]
    marks = {mark.encode() for one in formats for mark in LineReader(one, catalogue().signals).marks or ("\n",)}
    return artefact_reader(
        join_names(sorted({one.name[0].lower() + one.name[1:] for one in formats}), len(formats)),
        partial(read_kind, kind),
        partial(is_of_kind, kind),
        exporter=next((one.exporter for one in formats), ""),
        placed_by_name=True,
        is_yearless=True,
        log_marks=tuple(sorted(marks)),
    )


@cache_by_catalogue
def format_readers() -> Mapping[str, InputReader]:
    """Returns the readers of the formats that have a kind of their own, by kind."""
    return {kind: _reader(kind) for kind in sorted({one.kind for one in catalogue().formats.values()} - {""})}


READER = artefact_reader(
    "text in a format of the catalogue (`skewscope formats list`), or with messages that it knows",
    partial(read_kind, KIND),
    recognise,
    placed_by_name=True,
    is_fallback=True,
    keeps_prompts=True,
    is_yearless=True,
    log_marks=(b"\n",),
)
