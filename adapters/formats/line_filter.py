"""Finds those of many lines that match an expression, fast: most lines of a log have nothing to read."""

import re
from collections.abc import Iterable, Sequence
from functools import cache, reduce

MIN_LINES = 500
"""Lines from which on the fast library is worth its import."""
PIECE = 6
"""Characters of a phrase by which lines are looked through: the automaton of many such pieces stays small."""
SAMPLE_LINES = 1000
"""Lines of a text by which it is known what is rare in it."""


def select_lines(expressions: Sequence[str], lines: Sequence[str]) -> list[int]:
    """Returns the places of the lines in which one of the expressions is found.

    Args:
        expressions: without groups, look-arounds and back references.
        lines: the lines.
    """
    if len(lines) < MIN_LINES:
        search = _compile(tuple(expressions)).search
        return [place for place, line in enumerate(lines) if search(line)]
    import pyarrow as pa  # noqa: PLC0415 - its import takes a tenth of a second
    import pyarrow.compute as pc  # noqa: PLC0415

    # An automaton without backtracking compares a line with all alternatives at once.
    column = pa.array(lines, pa.string())
    masks = (pc.match_substring_regex(column, pattern=expression) for expression in expressions)
    places: list[int] = pc.indices_nonzero(reduce(pc.or_, masks)).to_pylist()
    return places


class PhraseFilter:
    """Finds the lines of one text that have one of many phrases: first by pieces of them that are rare in the text."""

    def __init__(self, phrases: Iterable[Sequence[str]], expressions: Sequence[str]) -> None:
        """Takes phrases, each of which is texts with blanks between them, and expressions that match the same."""
        self._phrases, self._expressions = tuple(phrases), expressions
        self._pieces = ""

    def select(self, lines: Sequence[str]) -> list[int]:
        """Returns the places of the lines that have a phrase."""
        if len(lines) < MIN_LINES:
            return select_lines(self._expressions, lines)
        if not self._pieces:
            sample = "\n".join(lines[:SAMPLE_LINES])
            self._pieces = "|".join(sorted({re.escape(_rare_piece(phrase, sample)) for phrase in self._phrases}))
        places = select_lines((self._pieces,), lines)
        return [places[n] for n in select_lines(self._expressions, [lines[place] for place in places])]


def _rare_piece(phrase: Sequence[str], sample: str) -> str:
    """Returns a piece of a phrase that a text does not have, else its longest text."""
    texts = sorted(phrase, key=len, reverse=True)
    pieces = (text[begin : begin + PIECE] for text in texts for begin in range(max(len(text) - PIECE, 0) + 1))
    return next((piece for piece in pieces if piece not in sample), texts[0])


@cache
def _compile(expressions: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(expressions))
