"""Whether a format gives what its samples say: its tests, for the catalogue and for formats of users alike."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from skewscope.kb.entry_store import CatalogueEntry
from skewscope.kb.line_patterns import PatternError
from skewscope.kb.line_reading import LineReader, Reading, compile_line, list_lines, unit_factor
from skewscope.kb.model import Format, Signal
from skewscope.kb.problems import Problem

RELATIVE = 1e-9
"""Part of a number by which a sample may differ from what its lines give."""


def find_pattern_problems(entry: CatalogueEntry) -> Iterator[Problem]:
    """Yields the patterns of a format that are not well formed, or do not have the fields that are described."""
    assert isinstance(entry.value, Format)
    for number, line in enumerate(entry.value.lines):
        try:
            compile_line(line)
        except PatternError as error:
            at = ("lines", number, "pattern" if line.pattern else "table")
            yield entry.document.problem(at, str(error), "text with fields such as <name>")


def find_signal_problems(entry: CatalogueEntry, signals: Mapping[str, Signal]) -> Iterator[Problem]:
    """Yields the fields of a format of which there is no signal, or whose unit is none of it."""
    assert isinstance(entry.value, Format)
    for number, line in enumerate(entry.value.lines):
        for name, what in line.fields.items():
            try:
                unit_factor(what, signals)
            except PatternError as error:
                expected = "a signal of `skewscope kb list signals`, and a unit of the same kind as its own"
                yield entry.document.problem(("lines", number, "fields", name), str(error), expected)


def compare_samples(entry: CatalogueEntry, signals: Mapping[str, Signal]) -> Iterator[Problem]:
    """Yields the samples whose lines give other numbers or labels, and lines that match and should not.

    Raises:
        PatternError: a pattern, a unit or a signal's id is wrong.
    """
    assert isinstance(entry.value, Format)
    for number, sample in enumerate(entry.value.samples):
        readings = list(_readings(LineReader(entry.value, signals), list_lines(entry.value, sample.lines)))
        for text in find_differences(readings, sample.gives):
            yield entry.document.problem(("samples", number), text, "what `gives` says")
    for number, text in enumerate(entry.value.others):
        if LineReader(entry.value, signals).matches(text):
            yield entry.document.problem(("others", number), f"{text!r:.80}", "no match")


def _readings(reader: LineReader, lines: Iterable[str]) -> Iterator[Reading]:
    for line in lines:
        for found in reader.read(line):
            yield from found.readings


def find_differences(found: list[Reading], wanted: tuple[Mapping[str, Any], ...]) -> Iterator[str]:
    """Yields what lines give that a sample does not say, and the other way round."""
    left = list(wanted)
    for reading in found:
        fitting = next((one for one in left if _is_same(reading, one)), None)
        if fitting is None:
            labels = ", ".join(f"{name}: {value}" for name, value in sorted(reading.labels.items()))
            more = f", labels: {{{labels}}}" if labels else ""
            yield f"{{signal: {reading.signal}, value: {reading.value:.12g}{more}}}"
        else:
            left.remove(fitting)
    yield from (f"no {dict(one)}" for one in left)


def _is_same(reading: Reading, wanted: Mapping[str, Any]) -> bool:
    labels = {name: str(value) for name, value in wanted.get("labels", {}).items()}
    is_near = abs(reading.value - wanted["value"]) <= RELATIVE * max(abs(reading.value), 1.0)
    return reading.signal == wanted["signal"] and is_near and labels.items() <= reading.labels.items()
