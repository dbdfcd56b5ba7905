"""Finds those of many lines that match an expression, fast: most lines of a log have nothing to read."""

import re
from collections.abc import Sequence

MIN_LINES = 500
"""Lines from which on the fast library is worth its import."""


def select_lines(expression: re.Pattern[str], lines: Sequence[str]) -> list[int]:
    """Returns the places of the lines that contain a match.

    Args:
        expression: without groups, look-arounds and back references.
        lines: the lines.
    """
    if len(lines) < MIN_LINES:
        return [place for place, line in enumerate(lines) if expression.search(line)]
    import pyarrow as pa  # noqa: PLC0415 - its import takes a tenth of a second
    import pyarrow.compute as pc  # noqa: PLC0415

    # An automaton without backtracking compares a line with all alternatives at once.
    mask = pc.match_substring_regex(pa.array(lines, pa.string()), pattern=expression.pattern)
    places: list[int] = pc.indices_nonzero(mask).to_pylist()
    return places
