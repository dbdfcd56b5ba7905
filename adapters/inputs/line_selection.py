"""Which lines of a text are looked at: in a long one that is known once for each shape, not for each line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from skewscope.adapters.formats.line_filter import MIN_LINES, select_lines
from skewscope.adapters.formats.line_shapes import ShapedLines
from skewscope.adapters.inputs.messages import MessageReader
from skewscope.adapters.inputs.text_times import may_have_time
from skewscope.kb.line_reading import LineReader

MAX_SHAPES = 20_000
"""Shapes that are remembered: a text that has more repeats few."""


class LineUse(NamedTuple):
    """What the lines of a shape may be needed for."""

    may_give: bool
    """Whether the format may read something of them."""
    may_tell: bool
    """Whether they may have messages."""
    may_date: bool
    """Whether they may have a time."""


class SelectedLines(NamedTuple):
    """Which lines, by their places in order, are needed for what."""

    giving: Sequence[int]
    telling: Sequence[int]
    uses: Sequence[LineUse] = ()
    """[line] () where nothing more is known."""

    def may_date(self, place: int) -> bool:
        """Returns whether a line may have a time."""
        return not self.uses or self.uses[place].may_date


@dataclass
class LineSelection:
    """Selects lines of one file."""

    messages: MessageReader
    lines: LineReader | None
    """Reads the lines of the format; None where there is none."""
    also: tuple[str, ...] = ()
    """Expressions of other lines that are needed; digits count in them as such, however many there are."""
    _uses: dict[bytes, LineUse] = field(default_factory=dict)

    def select(self, texts: Sequence[str]) -> SelectedLines:
        """Returns which lines are needed."""
        if len(texts) >= MIN_LINES:
            shapes = ShapedLines(texts).shapes
            if len(shapes) == len(texts):  # else a record has a message of several lines
                return self._select_by_shape(texts, shapes)
        return SelectedLines(self._select_marked(texts), self.messages.select(texts))

    def _select_marked(self, texts: Sequence[str]) -> Sequence[int]:
        """Returns the places of the lines that have a text without which the format reads none."""
        if self.lines is None:
            return ()
        marks = self.lines.marks
        return select_lines(("|".join([*map(re.escape, marks), *self.also]),), texts) if marks else range(len(texts))

    def _select_by_shape(self, texts: Sequence[str], shapes: Sequence[bytes]) -> SelectedLines:
        if len(self._uses) > MAX_SHAPES:
            self._uses.clear()
        self._learn([shape for shape in dict.fromkeys(shapes) if shape not in self._uses])
        uses = list(map(self._uses.__getitem__, shapes))
        telling = [place for place, use in enumerate(uses) if use.may_tell]
        telling = [telling[n] for n in self.messages.select([texts[place] for place in telling])]
        return SelectedLines([place for place, use in enumerate(uses) if use.may_give], telling, uses)

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
