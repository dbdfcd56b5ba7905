"""What every screen is: rows under a header with a cursor, a pane beside or below them, a filter, and verbs."""

from collections.abc import Hashable, Sequence
from typing import ClassVar

from skewscope.tui import query
from skewscope.tui.columns import Widths
from skewscope.tui.desk import Desk, Jump
from skewscope.tui.status import Frame, small
from skewscope.tui.text import Line, line, plain
from skewscope.tui.whereabouts import Scope

COPIED, MOST_COPIED = 100, 1000
"""Columns and rows of what is copied as text."""


class Page:
    """One screen. A console asks it what to show; it never draws."""

    name: ClassVar[str] = ""
    number: ClassVar[int] = 0
    fields: ClassVar[str] = ""
    """An example of a filter, shown while one is typed."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.cursor = 0
        self.touched = False
        """Whether somebody has chosen a row: until then the cursor stays at the top, whatever comes there."""
        self.count = 0
        self.total = 0
        """Rows before the filter."""
        self.filter = ""
        self.query: query.Query = query.Every()
        self.fault = ""
        self.origin = 0
        """The screen from which somebody jumped here; `leave` goes back to it."""
        self.zoomed = False
        """The pane has the screen for itself."""
        self.wide = False
        self.left = 0
        """Columns of a wide table that are scrolled away."""
        self.widths: Widths = ()
        self.seen = -1
        """The version of the desk that is shown."""

    # --- what it shows

    def renew(self) -> None:
        """Show the desk's scene; the cursor stays on what it is on while that is there."""
        before = self.identity(self.cursor) if self.count and self.touched else None
        self.collect()
        self.seen = self.desk.version
        if before is not None and (self.cursor >= self.count or self.identity(self.cursor) != before):
            at = self.find(before)
            self.cursor = at if at >= 0 else self.cursor
        elif before is None:
            self.cursor = self.cursor if self.touched else 0
        self.cursor = min(max(self.cursor, 0), max(self.count - 1, 0))

    def collect(self) -> None:
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

    def bare(self, at: int) -> Line:
        """One row where there is no room for columns."""
        return self.row(at)

    def pane(self, columns: int, rows: int) -> list[Line]:  # noqa: ARG002
        """What is told of the row under the cursor."""
        return []

    def whole(self, columns: int, rows: int) -> list[Line]:
        """The same with the screen for itself."""
        return self.pane(columns, rows)

    def frame(self, columns: int, lines: int) -> Frame:
        """How the screen is divided."""
        if tight := small(columns, lines):
            return tight
        if columns >= 160:
            return Frame("full", side=True, size=columns // 2)
        return Frame("full", size=min(max(self.count + 2, 4), (lines - 4) * 2 // 5))

    # --- filter

    def table(self) -> query.Table:
        """What a filter can ask."""
        return query.Table([])

    def narrow(self, text: str) -> None:
        """Filter by a text."""
        self.filter = text.strip()
        self.query = query.parse(text)
        self.cursor, self.touched = 0, False
        self.renew()

    def kept(self) -> Sequence[int]:
        """The rows that the filter keeps."""
        table = self.table()
        self.total = len(table.texts)
        self.fault = ""
        if self.query == query.Every():
            return range(self.total)
        found = query.ask(self.query, table)
        self.fault = found.fault
        return [int(n) for n in found.mask.nonzero()[0]]

    @property
    def subject(self) -> str:
        """The catalogue's entry of what is under the cursor, '' for none."""
        return ""

    # --- verbs that most screens share

    def do_open(self, _arg: int) -> None:
        """The pane with the screen for itself, and back."""
        self.touched = True
        if self.count:
            self.zoomed = not self.zoomed

    def do_zoom(self, _arg: int) -> None:
        """The same, whatever `open` does."""
        if self.count:
            self.zoomed = not self.zoomed

    def do_leave(self, _arg: int) -> None:
        """Out of what is open; never out of the console."""
        if self.zoomed:
            self.zoomed = False
        elif self.filter:
            self.narrow("")
        elif self.desk.scope.name:
            self.desk.narrow(Scope())
        elif self.origin:
            origin, self.origin = self.origin, 0
            self.desk.jump(Jump(origin))

    def do_wide(self, _arg: int) -> None:
        """All columns, scrolled sideways; and back."""
        self.wide = not self.wide
        self.left = 0

    def do_aside(self, arg: int) -> None:
        """Sideways in a wide table."""
        whole = sum(cells + 1 for _, cells in self.widths)
        self.left = min(max(self.left + 10 * arg, 0), max(whole - 20, 0)) if self.wide else 0

    def told(self) -> str:
        """What is told of the row under the cursor, as text; '' for nothing."""
        return plain(self.pane(COPIED, MOST_COPIED)) if self.count else ""

    def copied(self) -> str:
        """What is under the cursor, as JSON; '' for nothing."""
        return ""


def waiting(text: str) -> list[Line]:
    """A quiet line."""
    return [line(f" {text}", "dim")]
