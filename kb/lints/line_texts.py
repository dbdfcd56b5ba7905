"""Lints of formats and events: their sample lines are their tests."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from skewscope.kb.entry_store import CatalogueEntry, EntryStore
from skewscope.kb.event_reading import EventMatcher
from skewscope.kb.line_patterns import MIN_MARK, PatternError
from skewscope.kb.line_reading import LineReader, Reading, compile_line, list_lines
from skewscope.kb.lint import EntryProblems, Problems, catalogue_lint, entry_lint
from skewscope.kb.model import Event, Format

RELATIVE = 1e-9
"""Part of a number by which a sample may differ from what its lines give."""


@entry_lint("formats", "Correct the pattern, or describe its fields.", integrity=True)
def patterns_of_a_format_compile(entry: CatalogueEntry) -> Problems:
    """Every pattern is well formed, and its fields are those that are described."""
    assert isinstance(entry.value, Format)
    for number, line in enumerate(entry.value.lines):
        try:
            compile_line(line)
        except PatternError as error:
            yield entry.document.problem(("lines", number, "pattern"), str(error), "text with fields such as <name>")


@entry_lint("events", "Correct the pattern, or describe its fields.", integrity=True)
def patterns_of_an_event_compile(entry: CatalogueEntry) -> Problems:
    """Every pattern is well formed, and its fields are described."""
    assert isinstance(entry.value, Event)
    try:
        matcher = EventMatcher.of(entry.value)
    except PatternError as error:
        yield entry.document.problem(("patterns",), str(error), "text with fields such as <name>")
        return
    for number, pattern in enumerate(matcher.patterns):
        if not pattern.words:
            found = f"{entry.value.patterns[number]!r}, in which no text between fields is long"
            yield entry.document.problem(("patterns", number), found, f"{MIN_MARK} characters that each such line has")


@entry_lint("events", "Keep it at the codes with which it belongs.", integrity=True)
def codes_are_listed_once(entry: CatalogueEntry) -> Problems:
    """No code of an event has two meanings, and codes come with the fields by which they are looked up."""
    assert isinstance(entry.value, Event)
    seen: set[str] = set()
    for number, part in enumerate(entry.value.codes):
        for code in part.names.keys() & seen:
            yield entry.document.problem(("codes", number, "names", code), f"the code {code!r} again", "each code once")
        seen |= part.names.keys()
    if bool(entry.value.codes) != bool(entry.value.code):
        found = "`codes` without `code`" if entry.value.codes else "`code` without `codes`"
        yield entry.document.problem((), found, "both")


@entry_lint("events", "Correct the pattern or the line.")
def event_matches_its_samples(entry: CatalogueEntry) -> Problems:
    """Every sample line matches, and none of the others does."""
    assert isinstance(entry.value, Event)
    try:
        matcher = EventMatcher.of(entry.value)
    except PatternError:
        return
    for field, lines, wanted in (("samples", entry.value.samples, True), ("others", entry.value.others, False)):
        for number, line in enumerate(lines):
            found = matcher.find(line)
            if (found is not None and not found.is_retraction) != wanted:
                expected = "a line that matches" if wanted else "a line that does not match"
                yield entry.document.problem((field, number), f"{line!r:.80}", expected)


@catalogue_lint("Correct the pattern, the unit or the sample.")
def format_gives_what_its_samples_say(store: EntryStore) -> EntryProblems:
    """The lines of each sample give its numbers and labels, and no others; lines that look similar give nothing."""
    signals = store.catalogue.signals
    for entry in store.of_kind("formats"):
        assert isinstance(entry.value, Format)
        try:
            for number, sample in enumerate(entry.value.samples):
                lines = list_lines(entry.value, sample.lines)
                found = list(_readings(LineReader(entry.value, signals), lines))
                for text in _differences(found, sample.gives):
                    yield entry.name, entry.document.problem(("samples", number), text, "what `gives` says")
            for number, text in enumerate(entry.value.others):
                if LineReader(entry.value, signals).matches(text):
                    yield entry.name, entry.document.problem(("others", number), f"{text!r:.80}", "no match")
        except PatternError as error:
            yield entry.name, entry.document.problem(("lines",), str(error), "signals and units of the catalogue")


def _readings(reader: LineReader, lines: Iterable[str]) -> Iterator[Reading]:
    for line in lines:
        for found in reader.read(line):
            yield from found.readings


def _differences(found: list[Reading], wanted: tuple[Mapping[str, Any], ...]) -> Iterator[str]:
    """Yields what the lines give that the sample does not say, and the other way round."""
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
