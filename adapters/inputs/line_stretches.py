"""Lines in a row whose shapes are traced, as columns: their times, parts of steps, and numbers by signal and labels."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skewscope.adapters.formats.line_shapes import ShapedLines
from skewscope.adapters.inputs.step_lines import StepRows
from skewscope.adapters.inputs.text_times import LineTimes
from skewscope.adapters.inputs.traced_lines import ShapeTrace, TracedLines
from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.kb.line_reading import STEP_PREFIX


class SeriesPart(NamedTuple):
    """Numbers of one signal at one place."""

    signal: str
    labels: Mapping[str, str]
    times: F64
    """[sample] seconds since 1970."""
    values: F64
    """[sample] in the signal's unit."""


class StretchColumns:
    """What lines in a row give."""

    def __init__(
        self, shaped: ShapedLines, traces: Mapping[bytes, ShapeTrace], places: Sequence[int], times: LineTimes
    ) -> None:
        """Reads lines at some places of a text, of which each shape has a trace."""
        self.places = np.array(places)
        self.times: F64 = np.full(len(places), np.nan)
        """[line] seconds since 1970; NaN where a line has none."""
        self.is_valid: Mask = np.zeros(len(places), bool)
        """[line] whether its numbers and its time are right; any other must be read by itself."""
        self._lines: list[tuple[TracedLines, Index]] = []
        """The lines of each shape, and [line] their positions among all."""
        by_shape: dict[bytes, list[int]] = {}
        for position, place in enumerate(places):
            by_shape.setdefault(shaped.shapes[place], []).append(position)
        for shape, own in by_shape.items():
            positions = np.array(own)
            lines = TracedLines(traces[shape], shaped, self.places[positions])
            self.is_valid[positions] = lines.is_exact
            if lines.trace.stamp:
                self.times[positions] = times.find_many(lines.trace.stamp, lines.runs)
                self.is_valid[positions] &= np.isfinite(self.times[positions])
            self._lines.append((lines, positions))
        self.is_dated = all(lines.trace.stamp for lines, _ in self._lines)
        if not self.is_dated and any(lines.trace.stamp for lines, _ in self._lines):
            self.is_valid[:] = False

    def rows(self, begin: int) -> tuple[StepRows, Index]:
        """Returns the steps in the lines from a position on, and [step] the positions of their lines."""
        rows, positions = self._rows
        first = int(np.searchsorted(positions, begin))
        return rows.cut(first, len(positions)), positions[first:]

    @cached_property
    def _rows(self) -> tuple[StepRows, Index]:
        """All steps, and [step] the positions of their lines."""
        positions = np.sort(np.concatenate([own for lines, own in self._lines if lines.has_parts] or [self.places[:0]]))

        def column(name: str) -> F64 | None:
            values = self._part(name)[positions]
            return None if np.isnan(values).all() else values

        numbers, epochs = (None if each is None else np.trunc(each) for each in map(column, ("number", "epoch")))
        duration = self._part("duration")[positions]
        with np.errstate(divide="ignore"):
            seconds = np.where(np.isnan(duration), 1.0 / self._part("rate")[positions], duration)
        seconds = np.where(np.isfinite(seconds), seconds, 0.0)
        return StepRows(self.times[positions], numbers, seconds, column("samples"), epochs, column("length")), positions

    @property
    def signals(self) -> frozenset[str]:
        """What the lines have numbers of that are no parts of steps."""
        numbers = (number for lines, _ in self._lines for line in lines.trace.lines for number in line.numbers)
        return frozenset(number.signal for number in numbers if not number.is_part)

    def _part(self, name: str) -> F64:
        """Returns [line] a part of a step; NaN where a line has none."""
        column: F64 = np.full(len(self.places), np.nan)
        for lines, positions in self._lines:
            for line, values in zip(lines.trace.lines, lines.values, strict=True):
                for number, own in zip(line.numbers, values, strict=True):
                    if number.signal == STEP_PREFIX + name:
                        column[positions] = own
        return column

    def list_series(self, begin: int, end: int) -> Iterator[SeriesPart]:
        """Yields the numbers of lines from a position to another one, without the parts of steps."""
        series: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[Index, F64]]] = {}
        for lines, positions in self._lines:
            within = np.flatnonzero((positions >= begin) & (positions < end))
            for signal, labels, own, values in _list_numbers(lines, within):
                series.setdefault((signal, tuple(labels.items())), []).append((positions[own], values))
        for (signal, pairs), parts in series.items():
            positions = np.concatenate([part for part, _ in parts])
            values = np.concatenate([part for _, part in parts])
            order = np.argsort(positions, kind="stable")
            yield SeriesPart(signal, dict(pairs), self.times[positions[order]], values[order])

    def take_newest(self, position: int, times: LineTimes) -> None:
        """Takes the time of a line, if it has one, as the newest."""
        for lines, positions in self._lines:
            stamp = lines.trace.stamp
            if stamp and len(own := np.flatnonzero(positions == position)):
                month = int(stamp.months(lines.runs)[own[0]])
                times.accept(float(self.times[position]), stamp, month)


def _list_numbers(lines: TracedLines, within: Index) -> Iterator[tuple[str, Mapping[str, str], Index, F64]]:
    """Yields signal, labels, [sample] the lines and the values of each number that is no part of a step."""
    if not len(within):
        return
    for line, values in zip(lines.trace.lines, lines.values, strict=True):
        named = [(number, own) for number, own in zip(line.numbers, values, strict=True) if not number.is_part]
        for labels, which in lines.list_labels(line) if named else ():
            some = which if len(within) == len(lines.places) else np.intersect1d(which, within, assume_unique=True)
            for number, own in named:
                if len(some):
                    yield number.signal, labels, some, own[some]
