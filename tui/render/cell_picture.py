"""Pictures of members over time: rows of cells, each of a class, as text and as SVG. Pure.

A picture holds one class number per member and column. Classes are ordered, so that a cell that stands for several
columns shows the highest of them: a short peak stays visible on a narrow screen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from skewscope.tui.render.text import Line, Span, cut_middle, fit, justify, line, merge_spans, pad, sanitise, width

Classes = NDArray[np.uint8]
"""[row, column] numbers of classes."""

SVG_WIDTH, SVG_ROW, SVG_LABEL, SVG_NOTE = 640, 16, 110, 80
"""Sizes of a drawn picture: its width, the height of a row, the widths of labels and of notes."""
MAX_SVG_CELLS = 240
"""Cells of a row that are drawn at most."""


@dataclass(frozen=True, slots=True)
class CellClass:
    """How cells of one class look."""

    glyph: str
    role: str
    fill: str
    """Colour and opacity as attributes of SVG, '' for a cell that is not drawn."""


NO_DATA = CellClass("?", "dim", "")
SHADES = (
    NO_DATA,
    CellClass("·", "dim", "fill='var(--dim)' fill-opacity='.25'"),
    CellClass("░", "warn", "fill='var(--crit)' fill-opacity='.3'"),
    CellClass("▒", "warn", "fill='var(--crit)' fill-opacity='.5'"),
    CellClass("▓", "crit", "fill='var(--crit)' fill-opacity='.75'"),
    CellClass("█", "crit", "fill='var(--crit)'"),
)
"""Classes of a measured value: unknown, normal, and four beyond the normal range, the worst last."""


@dataclass(frozen=True, slots=True)
class RowLabel:
    """What stands beside a row of cells."""

    name: str
    note: str = ""
    """The value of the row, in words."""
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class ColumnMark:
    """A moment below the cells."""

    share: float
    """Where it is, from 0 at the first column to 1 at the last one."""
    sign: str
    words: str


@dataclass(frozen=True, eq=False)
class CellPicture:
    """Members by time."""

    title: str
    legend: str
    labels: tuple[RowLabel, ...]
    cells: Classes
    ends: tuple[str, str]
    """Times of the first and the last column."""
    marks: tuple[ColumnMark, ...] = ()
    classes: Sequence[CellClass] = field(default=SHADES)
    is_fixed: bool = False
    """Whether each cell is one column; otherwise they are stretched, or shown together, to the width of a screen."""

    @property
    def moments(self) -> str:
        """The signs below the cells with their words."""
        return "  ".join(f"{mark.sign} {mark.words}" for mark in self.marks)

    @property
    def description(self) -> str:
        """The title, with the value of each marked row: what a reader without the picture needs."""
        marked = ", ".join(f"{label.name} {label.note}".strip() for label in self.labels if label.is_marked)
        return f"{self.title}: {marked}; {self.ends[0]} to {self.ends[1]}" if marked else self.title


def resample(cells: Classes, columns: int) -> Classes:
    """Returns [row, column] classes in `columns` columns, each the highest of those that it stands for."""
    count = cells.shape[1]
    if not count or not columns:
        return np.zeros((len(cells), columns), np.uint8)
    begin = np.arange(columns) * count // columns
    end = np.maximum(-(-np.arange(1, columns + 1) * count // columns), begin + 1)
    return np.stack([cells[:, a:b].max(axis=1) for a, b in zip(begin, end, strict=True)], axis=1)


# --- text


def picture_lines(picture: CellPicture, columns: int) -> list[Line]:
    """Returns a picture as text in `columns`: title and legend, a line for each member, times and moments."""
    if not picture.labels:
        return []
    name = min(max(width(label.name) for label in picture.labels), max(columns // 3, 4))
    note = max(width(label.note) for label in picture.labels)
    wide = columns - name - note - 5
    if wide < 8:
        note, wide = 0, max(columns - name - 4, 1)
    cells = picture.cells[:, :wide] if picture.is_fixed else resample(picture.cells, wide)
    rows = [
        _row_line(label, _cell_spans(row, picture), name, note)
        for label, row in zip(picture.labels, cells.tolist(), strict=True)
    ]
    axis = [_indent(each, name + 4) for each in _axis_lines(picture, cells.shape[1])]
    return [*_head_lines(picture, columns), *(fit(each, columns) for each in (*rows, *axis))]


def _head_lines(picture: CellPicture, columns: int) -> list[Line]:
    """Returns title and legend, on one line if both fit."""
    title, legend = line(f" {picture.title}", "title"), line(picture.legend, "dim")
    whole = justify(title, legend, columns)
    if len(whole) > 1 or not picture.legend:
        return [whole]
    return [fit(title, columns), fit(_indent(legend, 1), columns)]


def _indent(spans: Line, columns: int) -> Line:
    return ((" " * columns, ""), *spans)


def _row_line(label: RowLabel, cells: list[Span], name: int, note: int) -> Line:
    role = "key" if label.is_marked else ""
    sign = "▶" if label.is_marked else " "
    value: tuple[Span, ...] = ((f" {pad(label.note, note, right=True)}", role),) if note else ()
    return ((sign, "crit"), (f" {pad(cut_middle(label.name, name), name)}  ", role), *cells, *value)


def _cell_spans(row: list[int], picture: CellPicture) -> list[Span]:
    """Returns the cells of a row, one span for each run of a role."""
    shown = (picture.classes[min(number, len(picture.classes) - 1)] for number in row)
    return merge_spans((each.glyph, each.role) for each in shown)


def _axis_lines(picture: CellPicture, columns: int) -> list[Line]:
    """Returns the line of times and signs, with the words of the moments in it or on a second line."""
    signs = {min(max(round(mark.share * (columns - 1)), 0), columns - 1): mark.sign for mark in reversed(picture.marks)}
    axis = "".join(signs.get(column, " ") for column in range(columns))
    first, last = picture.ends
    if not picture.marks and not first:
        return []
    if not axis[: len(first) + 1].strip():
        axis = first + axis[len(first) :]
    if not axis[-len(last) - 1 :].strip():
        axis = axis[: columns - len(last)] + last
    words = picture.moments
    gap = f" {words} "
    place = axis.rfind(" " * len(gap)) if words else -1
    if place >= 0 and not any(mark.sign in axis[place:] for mark in picture.marks):
        axis = axis[:place] + gap + axis[place + len(gap) :]
        words = ""
    return [line(axis, "dim"), *([line(words, "dim")] if words else [])]


# --- SVG


def picture_svg(picture: CellPicture) -> str:
    """Returns a picture as SVG, '' without rows; colours are variables of the page that holds it."""
    if not picture.labels:
        return ""
    height = SVG_ROW * len(picture.labels) + 2 * SVG_ROW
    head = f"<svg viewBox='0 0 {SVG_WIDTH} {height}' role='img' aria-label='{_escape(picture.description)}'>"
    cells = resample(picture.cells, min(picture.cells.shape[1], MAX_SVG_CELLS))
    rows = (_row_svg(number, label, cells[number], picture) for number, label in enumerate(picture.labels))
    return f"{head}{''.join(rows)}{_axis_svg(picture, height)}</svg>"


def _escape(value: str) -> str:
    return escape(sanitise(value))


def _row_svg(number: int, label: RowLabel, cells: NDArray[np.uint8], picture: CellPicture) -> str:
    top = number * SVG_ROW
    weight = " font-weight='bold'" if label.is_marked else ""
    texts = (
        f"<text x='{SVG_LABEL - 6}' y='{top + 12}' text-anchor='end'{weight}>{_escape(label.name)}</text>"
        f"<text x='{SVG_WIDTH}' y='{top + 12}' text-anchor='end'{weight}>{_escape(label.note)}</text>"
    )
    return texts + "".join(_runs_svg(cells.tolist(), top, picture))


def _runs_svg(cells: list[int], top: int, picture: CellPicture) -> list[str]:
    """Returns a rectangle for each run of equal cells."""
    size = (SVG_WIDTH - SVG_LABEL - SVG_NOTE) / max(len(cells), 1)
    rects, column = [], 0
    for number, run in groupby(cells):
        count = len(list(run))
        if fill := picture.classes[min(number, len(picture.classes) - 1)].fill:
            x, wide = SVG_LABEL + column * size, count * size
            rects.append(f"<rect x='{x:.1f}' y='{top + 2}' width='{wide:.1f}' height='{SVG_ROW - 3}' {fill} />")
        column += count
    return rects


def _axis_svg(picture: CellPicture, height: int) -> str:
    span = SVG_WIDTH - SVG_LABEL - SVG_NOTE
    base = height - SVG_ROW
    ends = (
        f"<text x='{SVG_LABEL}' y='{height - 4}'>{_escape(picture.ends[0])}</text>"
        f"<text x='{SVG_LABEL + span}' y='{height - 4}' text-anchor='end'>{_escape(picture.ends[1])}</text>"
    )
    signs = (
        f"<text x='{SVG_LABEL + min(max(mark.share, 0.0), 1.0) * span:.1f}' y='{base - 3}' text-anchor='middle'>"
        f"{_escape(mark.sign)}</text>"
        for mark in picture.marks
    )
    return ends + "".join(signs)
