"""What every screen is: rows under a header with a cursor, a pane beside or below them, a filter, and verbs."""

from collections.abc import Hashable, Sequence
from typing import ClassVar

from skewscope.tui.console.state import ConsoleState, NavigationTarget
from skewscope.tui.render import filter_query
from skewscope.tui.render.columns import ColumnWidths
from skewscope.tui.render.node_lookup import NodeScope
from skewscope.tui.render.status import ScreenLayout, small_layout
from skewscope.tui.render.text import Line, line, to_plain_text

COPY_WIDTH, MAX_COPY_ROWS = 100, 1000
"""Columns and rows of what is copied as text."""


class ScreenModel:
    """One screen. A console asks it what to show; it never draws."""

    name: ClassVar[str] = ""
    number: ClassVar[int] = 0
    filter_example: ClassVar[str] = ""
    """An example of a filter, shown while one is typed."""

    def __init__(self, desk: ConsoleState) -> None:
        self.state = desk
        self.cursor = 0
        self.cursor_moved = False
        """Whether somebody has chosen a row: until then the cursor stays at the top, whatever comes there."""
        self.count = 0
        self.total = 0
        """Rows before the filter."""
        self.filter = ""
        self.query: filter_query.Query = filter_query.AllOf()
        self.filter_error = ""
        self.origin = 0
        """The screen from which somebody jumped here; `leave` goes back to it."""
        self.zoomed = False
        """The pane has the screen for itself."""
        self.wide = False
        self.x_offset = 0
        """Columns of a wide table that are scrolled away."""
        self.widths: ColumnWidths = ()
        self.shown_version = -1
        """The version of the desk that is shown."""

    # --- what it shows

    def renew(self) -> None:
        """Show the desk's scene; the cursor stays on what it is on while that is there."""
        before = self.identity(self.cursor) if self.count and self.cursor_moved else None
        self.collect_rows()
        self.shown_version = self.state.version
        if before is not None and (self.cursor >= self.count or self.identity(self.cursor) != before):
            at = self.find(before)
            self.cursor = at if at >= 0 else self.cursor
        elif before is None:
            self.cursor = self.cursor if self.cursor_moved else 0
        self.cursor = min(max(self.cursor, 0), max(self.count - 1, 0))

    def collect_rows(self) -> None:
        """Work out the rows."""

    def identity(self, at: int) -> Hashable:
        """What a row is about."""
        return at

    def find(self, identity: Hashable) -> int:
        """The row that is about something, -1 for none."""
        return next((at for at in range(self.count) if self.identity(at) == identity), -1)

    def header(self, columns: int, rows: int) -> list[Line]:  # noqa: ARG002
        """What stands over the rows and stays there."""
        return []

    def row(self, at: int) -> Line:  # noqa: ARG002
        """One row."""
        return ()

    def compact_row(self, at: int) -> Line:
        """One row where there is no room for columns."""
        return self.row(at)

    def pane(self, columns: int, rows: int) -> list[Line]:  # noqa: ARG002
        """What is told of the row under the cursor."""
        return []

    def full_pane(self, columns: int, rows: int) -> list[Line]:
        """The same with the screen for itself."""
        return self.pane(columns, rows)

    def layout(self, columns: int, lines: int) -> ScreenLayout:
        """How the screen is divided."""
        if tight := small_layout(columns, lines):
            return tight
        if columns >= 160:
            return ScreenLayout("full", side_by_side=True, list_size=columns // 2)
        return ScreenLayout("full", list_size=min(max(self.count + 2, 4), (lines - 4) * 2 // 5))

    # --- filter

    def filter_table(self) -> filter_query.FilterTable:
        """What a filter can ask."""
        return filter_query.FilterTable([])

    def set_filter(self, text: str) -> None:
        """Filter by a text."""
        self.filter = text.strip()
        self.query = filter_query.parse(text)
        self.cursor, self.cursor_moved = 0, False
        self.renew()

    def filtered_rows(self) -> Sequence[int]:
        """The rows that the filter keeps."""
        table = self.filter_table()
        self.total = len(table.texts)
        self.filter_error = ""
        if self.query == filter_query.AllOf():
            return range(self.total)
        found = filter_query.evaluate(self.query, table)
        self.filter_error = found.error
        return [int(n) for n in found.mask.nonzero()[0]]

    @property
    def subject(self) -> str:
        """The catalogue's entry of what is under the cursor, '' for none."""
        return ""

    # --- verbs that most screens share

    def do_open(self, _arg: int) -> None:
        """The pane with the screen for itself, and back."""
        self.cursor_moved = True
        if self.count:
            self.zoomed = not self.zoomed

    def do_zoom(self, _arg: int) -> None:
        """The same, whatever `open` does."""
        if self.count:
            self.zoomed = not self.zoomed

    def do_back(self, _arg: int) -> None:
        """Out of what is open; never out of the console."""
        if self.zoomed:
            self.zoomed = False
        elif self.filter:
            self.set_filter("")
        elif self.state.scope.name:
            self.state.set_scope(NodeScope())
        elif self.origin:
            origin, self.origin = self.origin, 0
            self.state.navigate(NavigationTarget(origin))

    def do_wide(self, _arg: int) -> None:
        """All columns, scrolled sideways; and back."""
        self.wide = not self.wide
        self.x_offset = 0

    def do_pan(self, arg: int) -> None:
        """Sideways in a wide table."""
        whole = sum(cells + 1 for _, cells in self.widths)
        self.x_offset = min(max(self.x_offset + 10 * arg, 0), max(whole - 20, 0)) if self.wide else 0

    def as_text(self) -> str:
        """What is told of the row under the cursor, as text; '' for nothing."""
        return to_plain_text(self.pane(COPY_WIDTH, MAX_COPY_ROWS)) if self.count else ""

    def as_json(self) -> str:
        """What is under the cursor, as JSON; '' for nothing."""
        return ""


def placeholder_lines(text: str) -> list[Line]:
    """A quiet line."""
    return [line(f" {text}", "dim")]
