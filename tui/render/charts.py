"""Charts made of characters: sparklines, braille charts, bars. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.tui.render.text import Line, Span, pad, width

Array = NDArray[np.floating]
BLOCKS = "▁▂▃▄▅▆▇█"
_BLOCK_LEVELS = np.array([" ", *BLOCKS])
HEAT_SHADES = " ░▒▓█"
_BRAILLE_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""[row, column] the bits of a braille character."""


def sparklines(values: Array) -> list[str]:
    """Returns each row of `values` [series, sample] as block characters; gaps are blank."""
    values = np.asarray(values, np.float64)
    finite = np.isfinite(values)
    low = np.where(finite, values, np.inf).min(axis=1, initial=np.inf, keepdims=True)
    high = np.where(finite, values, -np.inf).max(axis=1, initial=-np.inf, keepdims=True)
    with np.errstate(all="ignore"):
        # Variation below one percent counts as constant.
        moves = high - low > 0.01 * np.maximum(np.abs(high), np.abs(low))
        level = np.where(moves, (values - low) / (high - low) * (len(BLOCKS) - 1), 0.0)
        place = np.where(finite, np.round(level) + 1, 0).astype(np.intp)
    return ["".join(row) for row in _BLOCK_LEVELS[place].tolist()]


def sparkline(values: Array, cells: int) -> str:
    """Returns the newest values of a series as block characters, right-aligned in `cells` columns."""
    return sparklines(np.asarray(values)[None, -cells:])[0].rjust(cells)


def bar(share: float, cells: int) -> str:
    """Returns a share, 0 to 1, as a bar."""
    full = round(min(max(share, 0.0), 1.0) * cells) if np.isfinite(share) else 0
    return "█" * full + "░" * (cells - full)


def heat_glyph(level: float) -> str:
    """Returns the shade of a level, 0 to 1, or `?` for NaN."""
    if not np.isfinite(level):
        return "?"
    return HEAT_SHADES[1 + min(int(max(level, 0.0) * (len(HEAT_SHADES) - 1)), len(HEAT_SHADES) - 2)]


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve of a chart."""

    values: Array
    role: str
    name: str = ""


def _resample(values: Array, columns: int) -> Array:
    """Returns [columns] samples: the last value in each column, NaN for an empty series."""
    if not len(values):
        return np.full(columns, np.nan)
    last: Array = values[np.linspace(0, len(values) - 1, columns).round().astype(int)]
    return last


def bounds(curves: Sequence[Curve], marks: Sequence[float] = ()) -> tuple[float, float]:
    """Returns the smallest and largest finite value, never equal."""
    parts = [c.values[np.isfinite(c.values)] for c in curves]
    found = np.concatenate([*parts, np.asarray(marks, np.float64)]) if parts or marks else np.empty(0)
    if not len(found):
        return 0.0, 1.0
    low, high = float(found.min()), float(found.max())
    if low > 0 and low < 0.5 * high:
        low = 0.0
    return (low, high) if high > low else (low - (abs(low) or 1.0) * 0.5, high + (abs(high) or 1.0) * 0.5)


def braille_chart(curves: Sequence[Curve], columns: int, rows: int) -> list[Line]:
    """Returns curves in braille, two by four dots per cell; the last curve sets a cell's colour."""
    low, high = bounds(curves)
    bits = np.zeros((rows, columns), np.int32)
    owner = np.full((rows, columns), -1)
    for number, curve in enumerate(curves):
        dots = _braille_dots(_resample(np.asarray(curve.values, np.float64), columns * 2), low, high, rows * 4)
        cells = (dots.reshape(rows, 4, columns, 2) * _BRAILLE_BITS[None, :, None, :]).sum(axis=(1, 3))
        bits |= cells
        owner[cells > 0] = number
    return [_chart_line(bits[row], owner[row], curves) for row in range(rows)]


def _braille_dots(values: Array, low: float, high: float, height: int) -> NDArray[np.bool_]:
    """Returns [height, columns] bool: the dots of a curve, with steps joined vertically."""
    there = np.isfinite(values)
    level = np.clip(np.round((np.where(there, values, low) - low) / (high - low) * (height - 1)), 0, height - 1)
    before = np.append(level[:1], level[:-1])
    joined = there & np.append(False, there[:-1])
    # Join the previous dot with this one.
    start = np.where(joined, before + np.sign(level - before), level)
    up = np.arange(height - 1, -1, -1)[:, None]
    return there & (up >= np.minimum(start, level)) & (up <= np.maximum(start, level))


def _chart_line(bits: NDArray[np.int32], owner: NDArray[np.int64], curves: Sequence[Curve]) -> Line:
    spans: list[Span] = []
    for bit, curve in zip(bits.tolist(), owner.tolist(), strict=True):
        char, role = chr(0x2800 + bit) if bit else " ", curves[curve].role if curve >= 0 else ""
        # A blank looks the same in any role: append it to the previous span.
        if spans and (spans[-1][1] == role or not bit):
            spans[-1] = (spans[-1][0] + char, spans[-1][1])
        else:
            spans.append((char, role))
    return tuple(spans)


def ascii_chart(curves: Sequence[Curve], columns: int, rows: int) -> list[Line]:
    """Returns curves as ASCII marks, one per cell."""
    low, high = bounds(curves)
    grid: list[list[Span]] = [[(" ", "")] * columns for _ in range(rows)]
    for number, curve in enumerate(curves):
        mark = "*" if number == len(curves) - 1 else "."
        level = (_resample(np.asarray(curve.values, np.float64), columns) - low) / (high - low) * (rows - 1)
        for x, value in enumerate(level.tolist()):
            if np.isfinite(value):
                grid[rows - 1 - round(min(max(value, 0), rows - 1))][x] = (mark, curve.role)
    return [tuple(line) for line in grid]


def frame_chart(
    body: list[Line], labels: tuple[str, str], ends: tuple[str, str], columns: int, mark: tuple[float, str] = (-1.0, "")
) -> list[Line]:
    """Returns a chart with its bounds on the left and its times below.

    `mark` is a position between the ends, 0 to 1, and a text; it is omitted if it does not fit.
    """
    gutter = max(width(label) for label in labels)
    marks = [labels[1], *[""] * (len(body) - 2), labels[0]] if len(body) > 1 else [labels[1]]
    out: list[Line] = [
        ((pad(mark, gutter, right=True) + " │", "dim"), *row) for mark, row in zip(marks, body, strict=True)
    ]
    blank = columns - gutter - 2 - width(ends[0]) - width(ends[1])
    at = round(mark[0] * (columns - gutter - 3)) - width(ends[0])
    if blank > 0 and mark[1] and 0 < at < blank - width(mark[1]):
        rest = " " * (blank - at - width(mark[1]))
        out.append(((" " * (gutter + 2) + ends[0] + " " * at, "dim"), (mark[1], "warn"), (rest + ends[1], "dim")))
    elif blank > 0:
        out.append(((" " * (gutter + 2) + ends[0] + " " * blank + ends[1], "dim"),))
    return out
