"""A format tried on a text, line by line: what is understood of each line, and where the others stop fitting."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.formats.log_envelope import unwrap_record
from skewscope.adapters.inputs.labelled import SeriesCollector
from skewscope.adapters.inputs.text import TextReader, list_text_blocks
from skewscope.kb.line_patterns import find_fitting_begin
from skewscope.kb.line_reading import LineReader, LineReadings, line_shapes
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Format

LEAST_FIT = 0.3
"""Part of a pattern's text that a line must have from its begin, to be called near: a judgement."""


@dataclass(frozen=True, slots=True)
class PlacedSample:
    """A sample that a line gives."""

    metric: str
    value: float
    time: float
    """Seconds since 1970; from 0 where the text has no times."""
    labels: Mapping[str, str]
    """Where it is."""


@dataclass(frozen=True, slots=True)
class NearPattern:
    """The pattern that a line fits best which fits none."""

    line: int
    """Place of the line of the format, from 0."""
    wanted: str
    """The part of the pattern with which it stops fitting."""
    rest: str
    """What stands there in the line."""


@dataclass(frozen=True, slots=True)
class LineTrial:
    """One line of the text."""

    number: int
    text: str
    found: tuple[LineReadings, ...]
    """What it says, by each line of the format that it matches."""
    samples: tuple[PlacedSample, ...]
    near: NearPattern | None


@dataclass
class _SampleTracer(SeriesCollector):
    """A collector that keeps what the newest line added."""

    newest_samples: list[PlacedSample] = field(default_factory=list)

    def add(self, metric: str, labels: Mapping[str, str], time: float, value: float, line: int = 0) -> None:
        super().add(metric, labels, time, value, line)
        self.newest_samples.append(PlacedSample(metric, value, time, dict(labels)))

    def take(self) -> tuple[PlacedSample, ...]:
        """Returns what was added since the last call."""
        found, self.newest_samples = tuple(self.newest_samples), []
        return found


def try_format(chosen: Format, path: Path) -> Iterator[LineTrial]:
    """Yields each line of a text as a format reads it; blank lines are left out.

    Raises:
        InputError: the text cannot be read.
    """
    tracer = _SampleTracer(str(path))
    reader, lines = TextReader(str(path), {}, chosen, collector=tracer), LineReader(chosen, catalogue().signals)
    with open_stream(path, keep_prompts=True) as stream:
        blocks = list_text_blocks(stream, str(path), b"", chosen)
        for number, line in (each for block in blocks for each in zip(*block, strict=True)):
            text = unwrap_record(line)
            reader.read_lines([number], [line])
            if not text.strip():
                continue
            found = tuple(lines.read(text))
            yield LineTrial(number, text, found, tracer.take(), None if found else find_near_pattern(chosen, text))


def find_near_pattern(chosen: Format, text: str) -> NearPattern | None:
    """Returns the pattern of whose text the line has the most from its begin, None where it has too little of all."""
    best, most = None, LEAST_FIT
    for place, line in enumerate(chosen.lines):
        if line.table:
            continue
        share, wanted, end = find_fitting_begin(line.pattern, line_shapes(line.fields), text)
        if share >= most:
            best, most = NearPattern(place, wanted, text[end:].strip()), share
    return best
