"""What the lines of a format say: numbers with their units and labels. Pure; times and places are the reader's.

A line counts for each of the format's lines that it matches. Labels of a line that `holds` stand for those that follow.
"""

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from skewscope.kb.document_lines import list_document_lines
from skewscope.kb.line_patterns import (
    MAX_COLUMNS,
    POD_ENDING,
    SHAPES,
    LinePattern,
    PartPatterns,
    PatternError,
    Shapes,
    compile_pattern,
    parse_duration,
)
from skewscope.kb.model import Event, Format, FormatField, FormatLine, Signal
from skewscope.kb.table_rows import TablePattern
from skewscope.kb.units import parse_unit

STEP_PARTS = {
    "number": "",
    "epoch": "",
    "length": "",
    "total": "",
    "duration": "s",
    "mean": "s",
    "window": "s",
    "rate": "1/s",
    "samples": "",
    "elapsed": "s",
    "remaining": "s",
    "job_mean": "s",
    "job_rate": "1/s",
    "processed": "",
    "throughput": "",
}
"""Parts of a step, and the unit of each; '' for none. `kb/schema/format.md` says what each means."""
STEP_PREFIX = "step "
REQUEST_PARTS = {
    "duration": "s",
    "ttft": "s",
    "queue": "s",
    "prefill": "s",
    "transfer": "s",
    "decode": "s",
    "tpot": "s",
    "prompt_tokens": "",
    "output_tokens": "",
    "code": "",
}
"""Parts of a request, and the unit of each; '' for none. `kb/schema/format.md` says what each means."""
REQUEST_PREFIX = "request "
QUANTITY = re.compile(r"(?P<number>[-+]?\d+(?:\.\d+)?) ?(?P<unit>[A-Za-z%/°]*)")
NO_LABELS: Mapping[str, str] = {}


class Reading(NamedTuple):
    """One number of a line."""

    signal: str
    """Id of a signal, or `step` or `request` and the part of it: `step number`."""
    value: float
    """In the signal's unit."""
    labels: Mapping[str, str] = NO_LABELS
    adds: bool = False
    highest: bool = False
    """Whether the highest of its reading counts."""
    rates: bool = False
    """Whether it is a mean for each second since the line before."""
    digit: float = 0.0
    """What its last digit stands for, in the signal's unit; of parts of a step."""


class LineReadings(NamedTuple):
    """What one line says."""

    readings: tuple[Reading, ...]
    labels: Mapping[str, str]
    """All labels that hold at the line."""
    time: tuple[str, str] | None = None
    """Kind and text of a time that the line names; None for none."""
    is_mark: bool = False
    """Whether it is a line by which the format is known though it has nothing to give."""
    begin: int = 0
    """Column at which the pattern begins."""
    evaluation: str = ""
    """during or end, of an evaluation; '' of anything else."""
    line: int = 0
    """Place of the line of the format, from 0."""

    def steps(self) -> dict[str, Reading]:
        """Returns the parts of a step that the line has, by name."""
        return self._parts(STEP_PREFIX)

    def requests(self) -> dict[str, Reading]:
        """Returns the parts of a request that the line has, by name."""
        return self._parts(REQUEST_PREFIX)

    def _parts(self, prefix: str) -> dict[str, Reading]:
        begin = len(prefix)
        return {one.signal[begin:]: one for one in self.readings if one.signal.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class NumberField:
    """A field that is measured."""

    field: str
    what: FormatField
    signal: str
    factor: float
    unit: str
    """Unit of the signal."""
    unit_field: str
    """The field that names its unit; '' for none."""
    unit_words: Mapping[str, float | str]
    """Units by the words that stand for them."""


@dataclass(frozen=True, slots=True)
class CompiledLine:
    """A line of a format."""

    place: int
    """Among those of the format, from 0."""
    line: FormatLine
    pattern: LinePattern | TablePattern
    parts: PartPatterns | None
    labels: tuple[tuple[str, FormatField], ...]
    times: tuple[tuple[str, str], ...]
    only: tuple[tuple[str, str], ...]
    above: tuple[tuple[str, str], ...]
    numbers: tuple[NumberField, ...]
    gives: bool
    """Whether it gives anything but labels."""

    @property
    def has_effect(self) -> bool:
        """Whether it gives anything, or means something for the lines that follow."""
        return self.gives or self.line.holds or bool(self.line.section)

    def find(self, text: str) -> tuple[dict[str, str], int] | None:
        """Returns the texts of the fields by name, and the column at which the pattern begins; None for no match."""
        begin = 0
        if isinstance(self.pattern, TablePattern):
            found = self.pattern.find(text)
        else:
            match = self.pattern.search(text)
            found = None if match is None else {name: part for name, part in match.groupdict().items() if part}
            begin = match.start() if match else 0
        if found is None or (self.line.unless and any(word in text for word in self.line.unless)):
            return None
        if self.parts:
            self.parts.add(text, found)
        return (found, begin) if self.counts(found) else None

    def find_all(self, text: str) -> Iterator[tuple[dict[str, str], int]]:
        """Yields what `find` returns: once, or for each place where the pattern stands in the line."""
        if not self.line.each or isinstance(self.pattern, TablePattern):
            found = self.find(text)
            yield from () if found is None else (found,)
        elif not any(word in text for word in self.line.unless):
            for match in self.pattern.expression.finditer(text, 0, MAX_COLUMNS):
                fields = {name: part for name, part in match.groupdict().items() if part}
                if self.counts(fields):
                    yield fields, match.start()

    def counts(self, found: Mapping[str, str]) -> bool:
        """Returns whether the fields have the texts and the numbers with which alone the line counts."""
        for name, only in self.only:
            wanted = found.get(only[1:-1], "") if only[0] == "<" else only
            if found.get(name, wanted) != wanted:
                return False
        pairs = ([_number_of(self.line, found, field) for field in pair] for pair in self.above)
        return all(a is not None and b is not None and a > b for a, b in pairs)


class LineReader:
    """Reads the lines of a file of one format, one after another."""

    def __init__(self, one: Format, signals: Mapping[str, Signal]) -> None:
        """Compiles the format.

        Raises:
            PatternError: a pattern, a unit or a signal's id is wrong.
        """
        self._lines = [_compile(place, line, signals) for place, line in enumerate(one.lines)]
        self._marked = self._all = [(line.pattern.mark, line.line.within, line) for line in self._lines]
        has_fallback = any(line.fallback for line in one.lines)
        self._giving = [line for line in self._lines if has_fallback or line.has_effect]
        self._held: dict[str, str] = {}
        self._section = ""
        self._has_better = False
        self._totals: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self.counted = tuple(
            sorted({what.signal for line in one.lines for what in line.fields.values() if what.counts})
        )
        """Signals that count since the file began."""

    def may_read(self, whole: str) -> bool:
        """Returns whether a text may have lines of the format; `read` looks for those of its lines that it may have."""
        self._marked = [each for each in self._all if (each[0] or _header_mark(each[2])) in whole]
        return bool(self._marked)

    def restart(self) -> None:
        """Forgets the lines that were read: the next one is the first of another file."""
        self._held, self._section, self._has_better, self._totals = {}, "", False, {}
        for one in self._lines:
            if isinstance(one.pattern, TablePattern):
                one.pattern.restart()

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels that hold for the lines that follow."""
        return self._held

    @property
    def lines(self) -> Sequence[CompiledLine]:
        """The lines of the format."""
        return self._lines

    @property
    def marks(self) -> tuple[str, ...]:
        """Texts of which each line has one that counts; () where any line may count."""
        marks = {one.pattern.mark for one in self._lines}
        return tuple(sorted(marks)) if all(marks) else ()

    def matches(self, text: str) -> bool:
        """Returns whether a line has a number, a label or a section of the format, wherever it stands."""
        return any(one.find(text) is not None for one in self._lines)

    def note_better(self) -> None:
        """Takes lines that were read otherwise: those that count only as long as no other one has come do no more."""
        self._has_better = True

    def may_give(self, shape: str) -> bool:
        """Returns whether a line of a shape (`mask_digits`) may give anything or change what follows."""
        return any(isinstance(one.pattern, TablePattern) or one.pattern.may_match(shape) for one in self._giving)

    def read(self, text: str) -> Iterator[LineReadings]:
        """Yields what a line says, once for each of the format's lines that it matches."""
        if len(text) > MAX_COLUMNS:
            # No number is cut in two.
            text = text[:MAX_COLUMNS].rpartition(" ")[0]
        for mark, within, one in self._marked:
            if mark not in text or (within and within != self._section):
                continue
            for found in one.find_all(text):
                if one.line.fallback and self._has_better:
                    break
                self._has_better = self._has_better or not one.line.fallback
                if one.line.section:
                    self._section = one.line.section
                yield self._read_line(one, *found)

    def total(self, signal: str, labels: Mapping[str, str]) -> float:
        """Returns how often something was counted since the file began, at a place."""
        return self._totals.get((signal, tuple(sorted(labels.items()))), 0.0)

    def _read_line(self, one: CompiledLine, found: Mapping[str, str], begin: int) -> LineReadings:
        labels = self._held
        if one.labels:
            own = _own_labels(one.labels, found)
            labels = {**labels, **own}
            if one.line.holds:
                self._held = labels
        time = None
        if one.times:
            time = next(((kind, found[name]) for name, kind in one.times if name in found), None)
        readings = [
            reading
            for number in one.numbers
            if number.field in found and (reading := self._read_number(number, found, labels)) is not None
        ]
        is_mark = not (one.gives or one.line.section) or (bool(one.line.table) and not found)
        return LineReadings(tuple(readings), labels, time, is_mark, begin, one.line.evaluation, one.place)

    def _read_number(self, number: NumberField, found: Mapping[str, str], labels: Mapping[str, str]) -> Reading | None:
        """Returns the number of a field in the signal's unit; None where it has none or too large a one."""
        what, text = number.what, found[number.field]
        is_word = text in what.words
        value = float(what.words[text]) if is_word else _to_number(what, text)
        factor = 1.0 if is_word or what.suffixes else number.factor
        if value is None:
            return None
        if number.unit_field and number.unit_field in found:
            factor = unit_of_word(number, found)
        elif what.of:
            wholes = [_to_number(replace(what, complement=0.0), found.get(name, "")) for name in what.of]
            whole = math.fsum(part for part in wholes if part is not None)
            factor = 1.0 / whole if whole > 0 and None not in wholes else 0.0
        if not factor:
            return None
        if what.less and not is_word:
            other = _to_number(what, found.get(what.less, ""))
            value = math.nan if other is None else value - other
        value *= factor
        if not math.isfinite(value):
            return None
        if what.counts:
            key = number.signal, tuple(sorted(labels.items()))
            value = self._totals[key] = self._totals.get(key, 0.0) + value
        digit = factor * smallest_part(text) if what.step else 0.0
        return Reading(number.signal, value, labels, what.adds, what.highest, what.rates, digit)


def list_lines(one: Format, text: str) -> list[str]:
    """Returns the lines of a whole text that a format reads: those of the text, or those that its values give."""
    return list_document_lines(text, one.records) if one.document else text.splitlines()


def _header_mark(line: CompiledLine) -> str:
    """Returns a text without which no row of a table counts; '' of other lines."""
    return max(line.line.table, key=len, default="")


def _own_labels(fields: tuple[tuple[str, FormatField], ...], found: Mapping[str, str]) -> dict[str, str]:
    """Returns the labels of a line; fields of the same label are joined."""
    own: dict[str, str] = {}
    for name, what in fields:
        if name in found:
            text = label_text(what, found[name])
            own[what.label] = f"{own[what.label]}-{text}" if what.label in own else text
    return own


def label_text(what: FormatField, text: str) -> str:
    """Returns the value of a label; of a number its digits, so that 000 and 0 are the same place."""
    if what.shape == "owner":
        text = POD_ENDING.sub("", text)
    if text in what.words:
        return str(what.words[text])
    return str(int(text)) if what.shape == "number" and text.isdecimal() else text


def unit_of_word(number: NumberField, found: Mapping[str, str]) -> float:
    """Returns the factor of the unit that a line names; 0 where it is none."""
    word = found.get(number.unit_field, "")
    try:
        return _factor(str(number.unit_words.get(word, word)), number.unit)
    except ValueError:
        return 0.0


def _number_of(line: FormatLine, found: Mapping[str, str], name: str) -> float | None:
    return _to_number(line.fields[name], found[name]) if name in found else None


def _to_number(what: FormatField, text: str) -> float | None:
    if what.suffixes:
        match = QUANTITY.fullmatch(text)
        factor = what.suffixes.get(match["unit"]) if match else None
        return None if match is None or factor is None else float(match["number"]) * factor
    try:
        if what.shape == "hex":
            return float(int(text, 16))
        number = parse_duration(text) if what.shape == "duration" else float(text.replace(",", ""))
    except ValueError:
        return None
    return what.complement - number if what.complement else number


MAX_POWER = sys.float_info.max_10_exp - 1
"""Of ten, that a float holds."""


@cache
def _part_of(digits: int) -> float:
    """Returns what the last of so many digits behind the point stands for."""
    return float(10.0**-digits)


def smallest_part(number: str) -> float:
    """Returns what the last digit of a decimal number stands for."""
    if "e" not in number and "E" not in number:
        return _part_of(len(number.rstrip("s").partition(".")[2]))
    whole, _, power = number.lower().partition("e")
    digits = whole.rstrip("s").partition(".")[2]
    if not power.lstrip("+-").isdigit():
        return _part_of(len(digits))
    return _part_of(len(digits)) * 10.0 ** max(-MAX_POWER, min(int(power), MAX_POWER))


def _compile(place: int, line: FormatLine, signals: Mapping[str, Signal]) -> CompiledLine:
    pattern, parts = compile_line(line)
    fields = line.fields.items()
    units = {what.unit_of: name for name, what in fields if what.unit_of}
    numbers = (
        NumberField(
            name,
            what,
            _reading_name(what),
            unit_factor(what, signals),
            _own_unit(what, signals),
            units.get(name, ""),
            line.fields[units[name]].words if name in units else {},
        )
        for name, what in fields
        if what.is_measured
    )
    return CompiledLine(
        place,
        line,
        pattern,
        parts,
        tuple((name, what) for name, what in fields if what.label),
        tuple((name, what.time) for name, what in fields if what.time),
        tuple((name, what.only) for name, what in fields if what.only),
        tuple((name, what.above) for name, what in fields if what.above),
        tuple(numbers),
        any(what.is_measured or what.time for what in line.fields.values()),
    )


def compile_line(line: FormatLine) -> tuple[LinePattern | TablePattern, PartPatterns | None]:
    """Returns the pattern of a line and those of its parts, with the shapes of its fields.

    Raises:
        PatternError: one is not well formed, or has fields that are not described, or lacks described ones.
    """
    shapes = line_shapes(line.fields)
    if bool(line.table) == bool(line.pattern):
        raise PatternError("a pattern and a table, or none of them")
    pattern = (
        TablePattern(line, {name: SHAPES[shape] for name, shape in shapes if name in line.columns})
        if line.table
        else compile_pattern(line.pattern, shapes, whole=line.whole)
    )
    parts = PartPatterns(line.parts, shapes) if line.parts else None
    names = {*pattern.fields, *(parts.fields if parts else ())}
    if unknown := names - line.fields.keys():
        raise PatternError(f"the field <{min(unknown)}>, which `fields` does not describe")
    if lacking := line.fields.keys() - names:
        raise PatternError(f"no field <{min(lacking)}>, which `fields` describes")
    others = {name for what in line.fields.values() for name in (*what.of, *filter(None, [what.above, what.less]))}
    if unknown := others - names:
        raise PatternError(f"`of`, `above` or `less` names <{min(unknown)}>, which the line does not have")
    return pattern, parts


def compile_event(event: Event) -> tuple[LinePattern, ...]:
    """Returns the patterns of an event; each has some of its fields.

    Raises:
        PatternError: one is not well formed, or has a field that is not described.
    """
    patterns = _compile_all(event, event.patterns)
    if absent := {*event.code} - {name for pattern in patterns for name in pattern.fields}:
        raise PatternError(f"no field <{min(absent)}>, which `code` names")
    return patterns


def compile_unless(event: Event) -> tuple[tuple[LinePattern, ...], tuple[LinePattern, ...]]:
    """Returns the patterns of messages which say that an event means nothing, and of those which void these.

    Raises:
        PatternError: as of `compile_event`.
    """
    return _compile_all(event, event.unless), _compile_all(event, event.despite)


def _compile_all(event: Event, texts: Iterable[str]) -> tuple[LinePattern, ...]:
    shapes = line_shapes(event.fields)
    patterns = tuple(compile_pattern(text, shapes) for text in texts)
    if unknown := {name for pattern in patterns for name in pattern.fields} - event.fields.keys():
        raise PatternError(f"the field <{min(unknown)}>, which `fields` does not describe")
    return patterns


def line_shapes(fields: Mapping[str, FormatField]) -> Shapes:
    """Returns the shape of each field: as it says, else a number where it is measured, a word where it is not."""
    found = {}
    for name, what in fields.items():
        is_number = what.is_measured and not what.words
        own = what.shape or ("quantity" if what.suffixes else "")
        found[name] = own or ("number" if is_number else "text" if what.time else "word")
    return tuple(sorted(found.items()))


def unit_factor(what: FormatField, signals: Mapping[str, Signal]) -> float:
    """Returns what a field's number is multiplied with to be in its signal's unit.

    Raises:
        PatternError: there is no such signal, or the units do not fit.
    """
    if what.signal and what.signal not in signals:
        raise PatternError(f"the signal {what.signal!r}, which the catalogue does not have")
    wanted = _own_unit(what, signals)
    if not what.unit or not what.is_measured:
        return 1.0
    try:
        return _factor(what.unit, wanted)
    except ValueError as error:
        raise PatternError(f"the unit {what.unit!r} where {wanted!r} is expected: {error}") from None


def _reading_name(what: FormatField) -> str:
    return what.signal or (STEP_PREFIX + what.step if what.step else REQUEST_PREFIX + what.request)


def _own_unit(what: FormatField, signals: Mapping[str, Signal]) -> str:
    """Returns the unit in which a field is given; '' for none."""
    return (
        signals[what.signal].unit if what.signal else {**STEP_PARTS, **REQUEST_PARTS}.get(what.step or what.request, "")
    )


def _factor(given: str, wanted: str) -> float:
    return parse_unit(given).factor_to(parse_unit(wanted)) if wanted else 1.0
