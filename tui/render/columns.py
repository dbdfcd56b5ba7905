"""Table columns: which fit and how wide they are, and rows of cells as lines. Pure.

Columns that do not fit are dropped whole, by priority; in wide mode all are kept and the table scrolls sideways.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from skewscope.tui.render.text import Line, Span, cut_middle, pad, width

ESSENTIAL = 3
"""Priority up to which a column is kept although others are cut for it."""
Cell = Span
"""Text and role."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: minimum and maximum width, and priority (0 is kept longest)."""

    id: str
    title: str
    min_width: int
    max_width: int
    priority: int
    align_right: bool = False
    shrinkable: bool = False
    """Whether a part of its text is useful; other columns are dropped instead of cut."""
    is_place: bool = False
    """Whether its texts are places such as `node/gpu`, of which begin and end are kept."""
    gives_way: bool = False
    """Whether it is left out where the words of the first column would be cut: the pane has it too."""


ColumnWidths = tuple[tuple[TableColumn, int], ...]


def fit_columns(
    columns: Sequence[TableColumn],
    wanted: Mapping[str, int],
    total: int,
    hidden: Collection[str] = (),
    *,
    wide: bool = False,
) -> ColumnWidths:
    """Returns the columns that fit in `total`: the first ones with whole words, before there are more columns."""
    there = [c for c in columns if c.id not in hidden or c.priority == 0]
    if wide:
        return tuple(
            (c, min(max(wanted.get(c.id, 0), c.min_width, width(c.title)), max(c.max_width, 40))) for c in there
        )
    size = {c.id: _wanted_width(c, wanted.get(c.id, 0), total) for c in there}
    floor = {c.id: min(size[c.id], c.min_width) if c.shrinkable else size[c.id] for c in there}
    for column in sorted((c for c in there if c.gives_way), key=lambda c: -c.priority):
        if not _is_whole(there, size, floor, total):
            there.remove(column)
    kept: list[TableColumn] = []
    for column in sorted(there, key=lambda c: c.priority):
        needed = floor if column.priority <= ESSENTIAL else size
        if sum(needed[c.id] + 1 for c in (*kept, column)) > total:
            break
        kept.append(column)
    kept.sort(key=list(there).index)
    left = total - sum(floor[c.id] + 1 for c in kept)
    # A place that is cut may be another place, while the words beside it are in the pane as well.
    for column in sorted(kept, key=lambda c: (not c.is_place, c.priority)):
        extra = max(0, min(left, size[column.id] - floor[column.id]))
        left -= extra
        floor[column.id] += extra
    return tuple((column, floor[column.id]) for column in kept)


MAX_PLACE_SHARE = 0.25
"""Share of a line that a place has at most: of what is cut, begin and end are kept."""


def _wanted_width(column: TableColumn, wanted: int, total: int) -> int:
    """Returns how wide a column is if nothing is missing."""
    most = min(column.max_width, int(total * MAX_PLACE_SHARE)) if column.is_place else column.max_width
    return max(min(max(wanted, width(column.title)), most), column.min_width)


def _is_whole(there: Sequence[TableColumn], size: Mapping[str, int], floor: Mapping[str, int], total: int) -> bool:
    """Returns whether the columns that are kept longest leave room for all words of the first of them and the place."""
    kept = [c for c in there if c.priority <= ESSENTIAL]
    return sum((size if c.priority == 0 or c.is_place else floor)[c.id] + 1 for c in kept) <= total


def title_line(widths: ColumnWidths, sort: str = "", *, descending: bool = False) -> Line:
    """Returns the titles, with an arrow at the sorted column."""
    spans: list[Span] = [(" ", "dim")]
    for column, cells in widths:
        if column.id == sort:
            arrow = "↓" if descending else "↑"
            spans.append((pad(arrow + column.title, cells, right=column.align_right) + " ", "key"))
        else:
            spans.append((pad(column.title, cells, right=column.align_right) + " ", "dim"))
    return tuple(spans)


def row_line(widths: ColumnWidths, cell: Callable[[str], Cell], mark: Span = (" ", "")) -> Line:
    """Returns a row; adjacent cells of one role are merged, to save bytes on a terminal connection."""
    spans: list[Span] = [mark]
    for column, cells in widths:
        text, role = cell(column.id)
        whole = cut_middle(text, cells) if column.is_place else text
        shown = pad(whole, cells, right=column.align_right) + " "
        if spans[-1][1] == role:
            spans[-1] = (spans[-1][0] + shown, role)
        else:
            spans.append((shown, role))
    return tuple(spans)
