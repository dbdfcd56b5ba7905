"""Numbers and times of many lines of one shape, by the trace of the shape; equal to what is read line by line."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from skewscope.adapters.formats.line_shapes import ShapedLines
from skewscope.adapters.inputs.stamp_traces import StampTrace, trace_stamp
from skewscope.adapters.inputs.text_times import may_have_time
from skewscope.engine.model.arrays import F64, Index
from skewscope.kb.line_reading import LineReader
from skewscope.kb.line_tracing import LONGEST_POWER, LONGEST_RUN, LineTrace, NumberTrace, trace_line

EXACT_DIGITS = 15
"""Digits of whole numbers that a float holds..."""
EXACT_POWER = 22
"""...and the highest power of ten: a quotient or product of two such is rounded as the number itself is."""
POWERS = np.array([float(10**n) for n in range(EXACT_POWER + 1)])


@dataclass(frozen=True)
class ShapeTrace:
    """What all lines of a shape give."""

    lines: tuple[LineTrace, ...]
    stamp: StampTrace | None
    """None where the lines have no time."""
    runs: int
    """Runs of digits of each line."""

    @classmethod
    def of(cls, reader: LineReader, shape: str) -> "ShapeTrace | None":
        """Returns the trace of a shape; None where its lines must be read one by one."""
        lines = trace_line(reader, shape)
        dates = {line.date for line in lines or ()}
        if not lines or len(dates) > 1:
            return None
        (date,) = dates
        stamp = trace_stamp(shape, *date) if date else trace_stamp(shape)
        is_certain = stamp is not None or (date is None and not may_have_time(shape))
        return cls(lines, stamp, shape.count("0")) if is_certain else None

    def longest(self) -> Index:
        """Returns [run] the digits up to which the trace holds."""
        digits = np.full(self.runs, LONGEST_RUN)
        for line in self.lines:
            for number in line.numbers:
                if number.power is not None:
                    digits[number.power] = LONGEST_POWER
        return digits


class TracedLines:
    """Some lines of one shape."""

    def __init__(self, trace: ShapeTrace, shaped: ShapedLines, places: Index) -> None:
        """Takes the places of the lines among others."""
        self.trace, self.places = trace, places
        self.runs = shaped.runs_of(places, trace.runs)
        self.is_exact = self.runs.within(trace.longest())
        """[line] whether the trace holds and all its numbers are exact."""
        self.values = [[self._values(number) for number in line.numbers] for line in trace.lines]
        """Of each line of the format and each of its numbers [line] the value, in the signal's unit."""

    @property
    def has_parts(self) -> bool:
        """Whether the lines say parts of a step."""
        return any(number.is_part for line in self.trace.lines for number in line.numbers)

    def list_labels(self, line: LineTrace) -> list[tuple[Mapping[str, str], Index]]:
        """Returns the labels that lines have, each with the lines that have them."""
        if not line.numbered:
            return [(line.labels, np.arange(len(self.places)))]
        columns = np.stack([self.runs.whole(run) for _, run in line.numbered])
        rows, which = np.unique(columns, axis=1, return_inverse=True)
        names = [name for name, _ in line.numbered]
        return [
            ({**line.labels, **dict(zip(names, map(str, row), strict=True))}, np.flatnonzero(which.ravel() == n))
            for n, row in enumerate(rows.T.tolist())
        ]

    def _values(self, number: NumberTrace) -> F64:
        runs = self.runs
        whole, digits, power = runs.whole(number.run), runs.lengths[:, number.run], np.zeros(len(self.places), np.int64)
        if number.fraction is not None:
            behind = runs.lengths[:, number.fraction]
            whole = whole * 10 ** np.minimum(behind, EXACT_DIGITS) + runs.whole(number.fraction)
            digits, power = digits + behind, -behind
        if number.power is not None:
            power = power + runs.whole(number.power) * (-1 if number.is_small else 1)
        self.is_exact &= (digits <= EXACT_DIGITS) & (np.abs(power) <= EXACT_POWER)
        scale = POWERS[np.minimum(np.abs(power), EXACT_POWER)]
        values = np.where(power < 0, whole / scale, whole * scale)
        values = -values if number.is_negative else values
        values = number.complement - values if number.complement else values
        return np.asarray(values * number.factor)
