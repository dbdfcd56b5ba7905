"""Tables, bullet lists and labelled facts as lines. Pure."""

from collections.abc import Iterable

from skewscope.tui.render.text import Line, line, pad, width

LABEL_WIDTH = 14
"""Columns of the labels of facts, more where one is longer."""


def table_lines(rows: Iterable[tuple[str, ...]], titles: tuple[str, ...]) -> list[Line]:
    """Returns rows in columns under titles; the last column is not padded."""
    rows = list(rows)
    widths = [max(width(row[n]) for row in (titles, *rows)) for n in range(len(titles) - 1)]
    out = [line(_join_columns(titles, widths), "dim")]
    for row in rows:
        first = pad(row[0], widths[0]) if widths else row[0]
        out.append(((first, "key"), ("  " + _join_columns(row[1:], widths[1:]) if widths else "", "")))
    return out


def _join_columns(cells: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join([*(pad(cell, w) for cell, w in zip(cells, widths, strict=False)), cells[-1]])


def bullet_lines(title: str, items: Iterable[Line]) -> list[Line]:
    """Returns a title and one bullet per item, nothing without items."""
    rows = [((f"  · {first}", role), *rest) for (first, role), *rest in items]
    return [(), line(title, "title"), *rows] if rows else []


def fact_lines(*facts: tuple[str, str]) -> list[Line]:
    """Returns one line per (label, text) with a text; the labels are a column."""
    shown = [(name, text) for name, text in facts if text]
    column = max([LABEL_WIDTH, *(width(name) + 1 for name, _ in shown)])
    return [((pad(name, column), "label"), (text, "")) for name, text in shown]
