"""Runs of lines of one series in exposition text, as dumps of a store have: their key is looked up once."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIN_RUN = 16
"""Lines of one series that are worth more than a look at each."""
EXEMPLAR_MARK = b" # {"
LINE_FEED = ord("\n")


def skip_runs(block: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yields keys (metric and labels, as written) of runs, each with the lines before its run; b'' at the end.

    Args:
        block: complete lines, without the last line feed.
    """
    feeds: NDArray[Any] = np.flatnonzero(np.frombuffer(block, np.uint8) == LINE_FEED)
    begins = [0, *(feeds + 1).tolist(), len(block) + 1]
    rest = at = 0
    while at + MIN_RUN < len(begins):
        key = _key_of(block, begins[at], begins[at + 1] - 1)
        end = _run_end(block, begins, at, key + b" ") if key else at
        if end > at:
            yield key, _lines_between(block, begins, rest, at)
            rest = at = end
        else:
            at += MIN_RUN
    yield b"", _lines_between(block, begins, rest, len(begins) - 1)


def _lines_between(block: bytes, begins: list[int], first: int, end: int) -> list[bytes]:
    return block[begins[first] : begins[end] - 1].split(b"\n") if first < end else []


def _key_of(block: bytes, begin: int, end: int) -> bytes:
    """Returns the metric and labels of a line; b'' for a comment, and where an exemplar follows."""
    if block.startswith(b"#", begin) or block.find(EXEMPLAR_MARK, begin, end) >= 0:
        return b""
    close = block.rfind(b"}", begin, end)
    return block[begin : close + 1] if close >= 0 else block[begin:end].partition(b" ")[0]


def _run_end(block: bytes, begins: list[int], first: int, head: bytes) -> int:
    """Returns the line behind the run that begins at a line; `first` where there is none."""
    count, inside, step = len(begins) - 1, first + MIN_RUN - 1, MIN_RUN
    if not block.startswith(head, begins[inside]):
        return first
    while inside + step < count and block.startswith(head, begins[inside + step]):
        inside += step
        step *= 2
    outside = min(inside + step, count)
    while outside - inside > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if block.startswith(head, begins[middle]) else (inside, middle)
    # The search looked at some lines only: another series may lie between them.
    is_whole = all(block.startswith(head, begin) for begin in begins[first:outside])
    has_exemplar = block.find(EXEMPLAR_MARK, begins[first], begins[outside] - 1) >= 0
    return outside if is_whole and not has_exemplar else first
