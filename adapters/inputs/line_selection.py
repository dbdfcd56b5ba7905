"""Which lines of a text are looked at: in a long one that is known once for each shape, not for each line."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from skewscope.adapters.formats.line_filter import MIN_LINES, select_lines
from skewscope.adapters.formats.line_shapes import MAX_SHAPES, ShapedLines
from skewscope.adapters.inputs.messages import MessageReader
from skewscope.adapters.inputs.text_times import may_have_time
from skewscope.adapters.inputs.traced_lines import ShapeTrace
from skewscope.kb.line_reading import LineReader

MIN_TRACED = 16
"""Lines of a shape, or in a row, from which on they are read together."""


class LineUse(NamedTuple):
    """What the lines of a shape may be needed for."""

    may_give: bool
    """Whether the format may read something of them."""
    may_tell: bool
    """Whether they may have messages."""
    may_date: bool
    """Whether they may have a time."""


class Stretch(NamedTuple):
    """Lines that follow one another, but for those that say nothing."""

    places: Sequence[int]
    is_traced: bool
    """Whether it is known of the shape of each what its lines give."""


class SelectedLines(NamedTuple):
    """Which lines, by their places in order, are needed for what."""

    giving: Sequence[int]
    telling: Sequence[int]
    uses: Sequence[LineUse] = ()
    """[line] () where nothing more is known."""
    shaped: ShapedLines | None = None
    traces: Mapping[bytes, ShapeTrace] = {}
    """By shape, of those that many lines have."""

    def may_date(self, place: int) -> bool:
        """Returns whether a line may have a time."""
        return not self.uses or self.uses[place].may_date

    def list_stretches(self) -> list[Stretch]:
        """Returns the lines that are needed, in order."""
        places = sorted({*self.giving, *self.telling})
        if self.shaped is None or not self.traces:
            return [Stretch(places, is_traced=False)]
        shapes, telling = self.shaped.shapes, set(self.telling)
        groups = groupby(places, lambda place: shapes[place] in self.traces and place not in telling)
        return [Stretch(list(group), is_traced) for is_traced, group in groups]


@dataclass
class LineSelection:
    """Selects lines of one file."""

    messages: MessageReader
    lines: LineReader | None
    """Reads the lines of the format; None where there is none."""
    is_together: Callable[[str, ShapeTrace], bool]
    """Whether lines of a shape may be read together by a trace."""
    also: tuple[str, ...] = ()
    """Expressions of other lines that are needed; digits count in them as such, however many there are."""
    _uses: dict[bytes, LineUse] = field(default_factory=dict)
    _traces: dict[bytes, ShapeTrace | None] = field(default_factory=dict)

    def select(self, texts: Sequence[str]) -> SelectedLines:
        """Returns which lines are needed."""
        if len(texts) >= MIN_LINES:
            shaped = ShapedLines(texts)
            if len(shaped.shapes) == len(texts):  # else a record has a message of several lines
                return self._select_by_shape(texts, shaped)
        return SelectedLines(self._select_marked(texts), self.messages.select(texts))

    def _select_marked(self, texts: Sequence[str]) -> Sequence[int]:
        """Returns the places of the lines that have a text without which the format reads none."""
        if self.lines is None:
            return ()
        marks = self.lines.marks
        return select_lines(("|".join([*map(re.escape, marks), *self.also]),), texts) if marks else range(len(texts))

    def _select_by_shape(self, texts: Sequence[str], shaped: ShapedLines) -> SelectedLines:
        if len(self._uses) > MAX_SHAPES:
            self._uses.clear()
            self._traces.clear()
        shapes = shaped.shapes
        self._learn([shape for shape in dict.fromkeys(shapes) if shape not in self._uses])
        uses = list(map(self._uses.__getitem__, shapes))
        telling = [place for place, use in enumerate(uses) if use.may_tell]
        telling = [telling[n] for n in self.messages.select([texts[place] for place in telling])]
        giving = [place for place, use in enumerate(uses) if use.may_give]
        return SelectedLines(giving, telling, uses, shaped, self._trace([shapes[place] for place in giving]))

    def _trace(self, shapes: Sequence[bytes]) -> Mapping[bytes, ShapeTrace]:
        """Returns the traces of the shapes that many of the lines have, as far as they have one."""
        frequent = [shape for shape, count in Counter(shapes).items() if count >= MIN_TRACED]
        for shape in frequent:
            if shape not in self._traces and self.lines is not None:
                text = shape.decode()
                trace = ShapeTrace.of(self.lines, text)
                self._traces[shape] = trace if trace and self.is_together(text, trace) else None
        known = ((shape, self._traces.get(shape)) for shape in frequent)
        return {shape: trace for shape, trace in known if trace is not None}

    def _learn(self, shapes: Sequence[bytes]) -> None:
        texts = [shape.decode() for shape in shapes]
        telling, giving = set(self.messages.select_shapes(texts)), set(self._select_giving(texts))
        self._uses |= {
            shape: LineUse(place in giving, place in telling, may_have_time(texts[place]))
            for place, shape in enumerate(shapes)
        }

    def _select_giving(self, shapes: Sequence[str]) -> list[int]:
        if self.lines is None:
            return []
        giving = [place for place, shape in enumerate(shapes) if self.lines.may_give(shape)]
        return giving + (select_lines(self.also, shapes) if self.also else [])
