"""Finds those of many lines that match an expression, fast: most lines of a log have nothing to read."""

import re
from collections.abc import Sequence
from functools import cache, reduce

MIN_LINES = 500
"""Lines from which on the fast library is worth its import."""


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


@cache
def _compile(expressions: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(expressions))
