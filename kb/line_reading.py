"""What the lines of a format say: numbers with their units and labels. Pure; times and places are the reader's.

A line counts for each of the format's lines that it matches. Labels of a line that `holds` stand for those that follow.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from skewscope.kb.line_patterns import POD_ENDING, SHAPES, LinePattern, PatternError, compile_pattern
from skewscope.kb.model import Event, Format, FormatField, FormatLine, Signal
from skewscope.kb.table_rows import TablePattern
from skewscope.kb.units import parse_unit

STEP_PARTS = {"number": "", "duration": "s", "rate": "1/s", "samples": ""}
"""Parts of a step, and the unit of each; '' for none."""


QUANTITY = re.compile(r"(?P<number>[-+]?\d+(?:\.\d+)?) ?(?P<unit>[A-Za-z%/°]*)")


@dataclass(frozen=True, slots=True)
class Reading:
    """One number of a line."""

    signal: str
    """Id of a signal, or `step` and the part of a step: `step number`."""
    value: float
    """In the signal's unit."""
    labels: Mapping[str, str] = field(default_factory=dict)
    adds: bool = False


@dataclass(frozen=True, slots=True)
class LineReadings:
    """What one line says."""

    readings: tuple[Reading, ...]
    labels: Mapping[str, str]
    """All labels that hold at the line."""
    time: tuple[str, str] | None = None
    """Kind and text of a time that the line names; None for none."""
    is_mark: bool = False
    """Whether it is a line by which the format is known though it has nothing to give."""


@dataclass(frozen=True, slots=True)
class _CompiledLine:
    line: FormatLine
    pattern: LinePattern | TablePattern


class LineReader:
    """Reads the lines of a file of one format, one after another."""

    def __init__(self, one: Format, signals: Mapping[str, Signal]) -> None:
        """Compiles the format.

        Raises:
            PatternError: a pattern, a unit or a signal's id is wrong.
        """
        self._signals = signals
        self._lines = [_CompiledLine(line, compile_line(line)) for line in one.lines]
        self._factors = {
            (id(line), name): unit_factor(what, signals) for line in one.lines for name, what in line.fields.items()
        }
        self._held: dict[str, str] = {}
        self._section = ""

    def matches(self, text: str) -> bool:
        """Returns whether a line has a number, a label or a section of the format, wherever it stands."""
        return any(one.pattern.find(text) is not None for one in self._lines)

    def read(self, text: str) -> Iterator[LineReadings]:
        """Yields what a line says, once for each of the format's lines that it matches."""
        for one in self._lines:
            if one.line.within and one.line.within != self._section:
                continue
            found = one.pattern.find(text)
            if found is None or not _is_wanted(one.line, found) or any(word in text for word in one.line.unless):
                continue
            if one.line.section:
                self._section = one.line.section
            yield self._read_line(one.line, found)

    def _read_line(self, line: FormatLine, found: Mapping[str, str]) -> LineReadings:
        own, readings, time = {}, [], None
        for name, what in line.fields.items():
            text = found.get(name)
            if text is None:
                continue
            if what.label:
                own[what.label] = _label(what, text)
            elif what.time:
                time = what.time, text
        labels = {**self._held, **own}
        if line.holds:
            self._held = labels
        for name, what in line.fields.items():
            if (what.signal or what.step) and (text := found.get(name)) is not None:
                value = self._number(line, name, text, found)
                if value is not None:
                    readings.append(Reading(what.signal or f"step {what.step}", value, labels, what.adds))
        gives = any(what.signal or what.step or what.time for what in line.fields.values())
        is_mark = not (gives or line.section) or (bool(line.table) and not found)
        return LineReadings(tuple(readings), labels, time, is_mark)

    def _number(self, line: FormatLine, name: str, text: str, found: Mapping[str, str]) -> float | None:
        """Returns the number of a field in the signal's unit; None where it has none, as `N/A`."""
        what = line.fields[name]
        if text in what.words:
            return float(what.words[text])
        if what.suffixes:
            return _read_quantity(what, text)
        try:
            number = float(int(text, 16)) if what.shape == "hex" else float(text.replace(",", ""))
        except ValueError:
            return None
        if what.complement:
            number = what.complement - number
        unit_field = next((field for field, one in line.fields.items() if one.unit_of == name), "")
        if unit_field:
            word = found.get(unit_field, "")
            unit = line.fields[unit_field].words.get(word, word)
            try:
                return number * _factor(str(unit), self._unit_of(what))
            except ValueError:
                return None
        return number * self._factors[id(line), name]

    def _unit_of(self, what: FormatField) -> str:
        return self._signals[what.signal].unit if what.signal else STEP_PARTS[what.step]


def compile_line(line: FormatLine) -> LinePattern | TablePattern:
    """Returns the pattern of a line, with the shapes of its fields.

    Raises:
        PatternError: it is not well formed, or has fields that are not described, or lacks described ones.
    """
    shapes = tuple(sorted((name, _shape(what)) for name, what in line.fields.items()))
    if bool(line.table) == bool(line.pattern):
        raise PatternError("a pattern and a table, or none of them")
    pattern = (
        TablePattern(line, {name: SHAPES[shape] for name, shape in shapes if name in line.columns})
        if line.table
        else compile_pattern(line.pattern, shapes, whole=line.whole)
    )
    if unknown := set(pattern.fields) - line.fields.keys():
        raise PatternError(f"the field <{min(unknown)}>, which `fields` does not describe")
    if lacking := line.fields.keys() - set(pattern.fields):
        raise PatternError(f"no field <{min(lacking)}>, which `fields` describes")
    return pattern


def _is_wanted(line: FormatLine, found: Mapping[str, str]) -> bool:
    """Returns whether the fields with an `only` have that text."""
    return all(found.get(name, what.only) == what.only for name, what in line.fields.items() if what.only)


def _label(what: FormatField, text: str) -> str:
    bare = POD_ENDING.sub("", text) if what.shape == "owner" else text
    return str(what.words.get(bare, bare))


def _read_quantity(what: FormatField, text: str) -> float | None:
    """Returns a number with its unit behind it, such as 2100m; None where the unit is none of those that are known."""
    match = QUANTITY.fullmatch(text)
    factor = what.suffixes.get(match["unit"]) if match else None
    return None if match is None or factor is None else float(match["number"]) * factor


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
    shapes = tuple(sorted((name, _shape(what)) for name, what in event.fields.items()))
    patterns = tuple(compile_pattern(text, shapes) for text in texts)
    if unknown := {name for pattern in patterns for name in pattern.fields} - event.fields.keys():
        raise PatternError(f"the field <{min(unknown)}>, which `fields` does not describe")
    return patterns


def _shape(what: FormatField) -> str:
    if what.shape or what.suffixes:
        return what.shape or "quantity"
    is_number = (what.signal or what.step) and not what.words
    return "number" if is_number else "text" if what.time else "word"


def unit_factor(what: FormatField, signals: Mapping[str, Signal]) -> float:
    """Returns what a field's number is multiplied with to be in its signal's unit.

    Raises:
        PatternError: there is no such signal, or the units do not fit.
    """
    if what.signal and what.signal not in signals:
        raise PatternError(f"the signal {what.signal!r}, which the catalogue does not have")
    wanted = signals[what.signal].unit if what.signal else STEP_PARTS.get(what.step, "")
    if not what.unit or not (what.signal or what.step):
        return 1.0
    try:
        return _factor(what.unit, wanted)
    except ValueError as error:
        raise PatternError(f"the unit {what.unit!r} where {wanted!r} is expected: {error}") from None


def _factor(given: str, wanted: str) -> float:
    return parse_unit(given).factor_to(parse_unit(wanted)) if wanted else 1.0
