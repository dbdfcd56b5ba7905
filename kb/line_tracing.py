"""Where the numbers stand that a format reads of the lines of one shape, so that many lines are read at once.

A line is traced by its shape (`mask_digits`): which of its runs of digits are which number. There is a trace only if it
holds for each line of the shape: patterns have no digits and count none, and the shortest and the longest line of that
shape match in the same way.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from skewscope.kb.line_patterns import DIGITS, LinePattern, mask_digits
from skewscope.kb.line_reading import (
    STEP_PREFIX,
    CompiledLine,
    LineReader,
    NumberField,
    label_text,
    line_shapes,
    unit_of_word,
)
from skewscope.kb.model import EVENT_PREFIX, FormatField, FormatLine

LONGEST_RUN = 12
"""Digits of a run up to which a trace holds."""
LONGEST_POWER = 3
"""The same of the power of ten of a number."""
MAX_TRACED = 1000
"""Characters of a line that is traced."""
EVEN_SHAPES = frozenset(("number", "word", "text", "owner"))
"""Shapes of fields that take any number of digits."""
FIELD = re.compile(r"<[a-z][a-z0-9_]*>")
POWER = re.compile(r"[0-9][eE][-+]?$")
NUMBER = re.compile(r"(?P<sign>[-+]?)0(?P<fraction>\.0)?(?P<power>[eE](?P<small>-?)\+?0)?")
"""The shape of a number."""
PROBES = (1, 3, LONGEST_RUN)
"""Digits of the runs in lines that must match alike: few, as many as between the commas of one number, and many."""

Span = tuple[int, int]


class NumberTrace(NamedTuple):
    """A number of the lines of a shape. Runs of digits are counted in a line, from 0."""

    signal: str
    """As of `Reading`."""
    factor: float
    complement: float
    """As of `FormatField`."""
    is_negative: bool
    run: int
    fraction: int | None
    """Run of the digits behind the point."""
    power: int | None
    """Run of the power of ten."""
    is_small: bool
    """Whether that power is negative."""

    @property
    def is_part(self) -> bool:
        """Whether it is a part of a step."""
        return self.signal.startswith(STEP_PREFIX)


class LineTrace(NamedTuple):
    """What a line of a format gives of each line of a shape."""

    numbers: tuple[NumberTrace, ...]
    labels: Mapping[str, str]
    """Labels that all these lines have."""
    numbered: tuple[tuple[str, int], ...]
    """Labels that are numbers, with the run of each."""
    begin: int
    """Where the pattern begins in the line that was traced."""
    date: Span | None
    """Where the date stands that a format names in that line; None for none."""


class _Match(NamedTuple):
    fields: Mapping[str, Span]
    begin: int


def trace_line(reader: LineReader, text: str) -> tuple[LineTrace, ...] | None:
    """Returns what the lines of the shape of a text give; None where they must be read one by one."""
    if len(text) > MAX_TRACED:
        return None
    shape, traces = mask_digits(text), []
    for line in reader.lines:
        if isinstance(line.pattern, LinePattern) and not line.pattern.may_match(shape):
            continue
        if not isinstance(line.pattern, LinePattern) or not _is_even(line.line):
            return None
        match = _match(line, line.pattern, text)
        others = [_vary_runs(text, digits) for digits in PROBES]
        if any(_form(each, _match(line, line.pattern, each)) != _form(text, match) for each in others):
            return None
        if match is None:
            continue
        if (trace := _trace(line, text, match)) is None:
            return None
        traces.append(trace)
    return tuple(traces)


def _vary_runs(text: str, digits: int) -> str:
    """Returns a line with so many digits in each of its runs; powers of ten have few."""

    def vary(run: re.Match[str]) -> str:
        is_power = POWER.search(text, max(run.start() - 3, 0), run.start())
        return "1" * (min(digits, LONGEST_POWER) if is_power else digits)

    return DIGITS.sub(vary, text)


def _is_even(line: FormatLine) -> bool:
    """Returns whether a line counts alike whatever its digits are, and means nothing for the lines that follow."""
    texts = (line.pattern, *line.parts, *line.unless)
    return (
        not (line.each or line.within or line.section or line.holds or line.fallback or line.evaluation or line.arrival)
        and not any(sign.isdigit() for text in texts for sign in FIELD.sub("", text))
        and {shape for _, shape in line_shapes(line.fields)} <= EVEN_SHAPES
        and all(map(_is_plain, line.fields.values()))
    )


def _is_plain(what: FormatField) -> bool:
    """Returns whether a field is a label, a date, or a number that depends on no other line and no other number."""
    is_sum = what.highest or what.adds or what.counts or what.rates
    is_bound = is_sum or what.above or what.of or what.less or what.suffixes or what.request
    return not is_bound and what.time in ("", "date") and not what.signal.startswith(EVENT_PREFIX)


def _match(line: CompiledLine, pattern: LinePattern, text: str) -> _Match | None:
    """Returns where the fields of a line stand."""
    match = pattern.search(text)
    if match is None or any(word in text for word in line.line.unless):
        return None
    matches = [match, *(line.parts.list_matches(text) if line.parts else ())]
    spans = {name: each.span(name) for each in matches for name, part in each.groupdict().items() if part}
    return _Match(spans, match.start())


def _form(text: str, match: _Match | None) -> object:
    """Returns what two lines of a shape have in common whose fields stand at the same places."""
    if match is None:
        return None
    places = {name: [_place(text, column) for column in span] for name, span in match.fields.items()}
    return _place(text, match.begin), places


def _place(text: str, column: int) -> str:
    """Returns the shape of what stands in front of a column, which must not divide a run of digits."""
    divides = DIGITS.fullmatch(text[column - 1 : column + 1]) and 0 < column < len(text) and text[column].isdigit()
    return f"{text[:column]} {column}" if divides else mask_digits(text[:column])


def _trace(line: CompiledLine, text: str, match: _Match) -> LineTrace | None:
    """Returns what a line gives where it matches; None where that depends on its digits in another way."""
    parts = {name: text[begin:end] for name, (begin, end) in match.fields.items()}
    varying = {name for name, part in parts.items() if DIGITS.search(part)}
    if any(
        (name in varying and (what.words or what.only)) or what.only[1:-1] in varying
        for name, what in line.line.fields.items()
    ):
        return None
    if not line.counts(parts):
        return LineTrace((), {}, (), match.begin, None)
    labels: dict[str, str] = {}
    numbered: list[tuple[str, int]] = []
    for name, what in line.labels:
        if what.label in labels or any(label == what.label for label, _ in numbered):
            return None  # fields of one label are joined
        if name in varying and (what.shape != "number" or not DIGITS.fullmatch(parts[name])):
            return None
        if name in varying:
            numbered.append((what.label, _count_runs(text, match.fields[name][0])))
        elif name in parts:
            labels[what.label] = label_text(what, parts[name])
    numbers = [_trace_number(each, text, match, parts) for each in line.numbers if each.field in parts]
    dates = [match.fields[name] for name, _ in line.times if name in parts]
    if None in numbers or varying & {name for name, what in line.line.fields.items() if what.unit_of}:
        return None
    known = tuple(number for number in numbers if number is not None and number.factor)
    return LineTrace(known, labels, tuple(numbered), match.begin, dates[0] if dates else None)


def _trace_number(number: NumberField, text: str, match: _Match, parts: Mapping[str, str]) -> NumberTrace | None:
    form = NUMBER.fullmatch(mask_digits(parts[number.field]))
    if form is None:
        return None
    run = _count_runs(text, match.fields[number.field][0])
    factor = unit_of_word(number, parts) if number.unit_field in parts else number.factor
    fraction = run + 1 if form["fraction"] else None
    power = run + 1 + bool(form["fraction"]) if form["power"] else None
    return NumberTrace(
        number.signal, factor, number.what.complement, form["sign"] == "-", run, fraction, power, form["small"] == "-"
    )


def _count_runs(text: str, end: int) -> int:
    """Returns how many runs of digits stand in front of a column."""
    return len(DIGITS.findall(text, 0, end))
