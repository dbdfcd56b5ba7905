"""The base of all screens: rows under a header with a cursor, a pane, a filter, and commands."""

from collections.abc import Hashable, Sequence
from typing import ClassVar

from skewscope.engine.actions.action import Action
from skewscope.engine.model.incident import Incident
from skewscope.tui.console.screen_layout import ScreenLayout, small_layout
from skewscope.tui.console.state import ConsoleState, NavigationTarget
from skewscope.tui.render import filter_query
from skewscope.tui.render.columns import ColumnWidths
from skewscope.tui.render.node_lookup import NodeScope
from skewscope.tui.render.text import Line, line, to_plain_text

COPY_WIDTH, MAX_COPY_ROWS = 100, 1000
"""Columns and rows of text copies."""


class ScreenModel:
    """The content of one screen; widgets draw it."""

    name: ClassVar[str] = ""
    number: ClassVar[int] = 0
    pane_title: ClassVar[str] = ""
    """What the pane shows, in a word."""
    filter_example: ClassVar[str] = ""
    """An example of a filter, shown in the prompt."""

    def __init__(self, state: ConsoleState) -> None:
        self.state = state
        self.cursor = 0
        self.cursor_moved = False
        """Whether the user moved the cursor; until then it stays at the top."""
        self.count = 0
        self.total = 0
        """Rows before filtering."""
        self.filter = ""
        self.query: filter_query.Query = filter_query.AllOf()
        self.filter_error = ""
        self.origin = 0
        """The number of the screen that navigated here; `back` returns to it."""
        self.zoomed = False
        """Whether the pane fills the screen."""
        self.wide = False
        self.x_offset = 0
        """Columns of a wide table that are scrolled away."""
        self.widths: ColumnWidths = ()
        self.shown_version = -1
        """The version of the state that is shown."""

    # --- content

    def renew(self) -> None:
        """Update to the current snapshot; the cursor stays on its row as long as that exists."""
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
        """Compute the rows."""

    def identity(self, at: int) -> Hashable:
        """Returns the key of a row."""
        return at

    def find(self, identity: Hashable) -> int:
        """Returns the row with a key, -1 if there is none."""
        return next((at for at in range(self.count) if self.identity(at) == identity), -1)

    def header(self, columns: int, rows: int) -> list[Line]:  # noqa: ARG002
        """Returns the fixed lines above the rows."""
        return []

    def row(self, at: int) -> Line:  # noqa: ARG002
        """Returns a row as a line."""
        return ()

    def compact_row(self, at: int) -> Line:
        """Returns a row for screens too narrow for columns."""
        return self.row(at)

    def pane(self, columns: int, rows: int) -> list[Line]:  # noqa: ARG002
        """Returns the detail of the row under the cursor."""
        return []

    def full_pane(self, columns: int, rows: int) -> list[Line]:
        """Returns the detail for a pane that fills the screen."""
        return self.pane(columns, rows)

    def layout(self, columns: int, lines: int) -> ScreenLayout:
        """Returns how the screen is divided."""
        if tight := small_layout(columns, lines):
            return tight
        if columns >= 160:
            return ScreenLayout("full", side_by_side=True, list_size=columns // 2)
        return ScreenLayout("full", list_size=min(max(self.count + 2, 4), (lines - 4) * 2 // 5))

    # --- filter

    def filter_table(self) -> filter_query.FilterTable:
        """Returns the texts and fields that a filter can test."""
        return filter_query.FilterTable([])

    def set_filter(self, text: str) -> None:
        """Set the filter and update the rows."""
        self.filter = text.strip()
        self.query = filter_query.parse(text)
        self.cursor, self.cursor_moved = 0, False
        self.renew()

    def filtered_rows(self) -> Sequence[int]:
        """Returns the indices of the rows that pass the filter."""
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
        """The id of the catalogue entry under the cursor, '' for none."""
        return ""

    # --- what some screens add

    @property
    def selected_incident(self) -> Incident | None:
        """The incident under the cursor, None on screens without incidents."""
        return None

    @property
    def selected_action(self) -> Action | None:
        """The action under the cursor, None on screens without actions."""
        return None

    @property
    def marked_incidents(self) -> tuple[Incident, ...]:
        """The marked incidents, on screens that mark them."""
        return ()

    @property
    def current_entry(self) -> tuple[str, str]:
        """Kind and id of the catalogue entry on show, ('', '') on other screens."""
        return "", ""

    @property
    def redraws_on_move(self) -> bool:
        """Whether moving the cursor changes other rows too."""
        return False

    def prepare(self, first: int, last: int) -> None:
        """Prepare the rows from `first` up to `last`, which are about to be drawn."""

    def build_index(self) -> None:
        """Build what later commands need, in a background thread."""

    def move_link(self, by: int) -> int | None:  # noqa: ARG002
        """Move to another link; returns the line to scroll to, None if keys do not move links."""
        return None

    def select_incident(self, _id: str) -> None:
        """Move to an incident, on a screen that lists them."""

    def sort_by_title(self, column: int) -> None:
        """Sort by the title at a column of the screen, if the rows can be sorted."""

    # --- commands that most screens share

    def do_open(self, _arg: int) -> None:
        """Let the pane fill the screen, or undo that."""
        self.cursor_moved = True
        if self.count:
            self.zoomed = not self.zoomed

    def do_zoom(self, _arg: int) -> None:
        """Let the pane fill the screen, or undo that, also where `open` does something else."""
        if self.count:
            self.zoomed = not self.zoomed

    def do_back(self, _arg: int) -> None:
        """Undo the last of: open pane, filter, scope, navigation. Never quits."""
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
        """Show all columns and scroll sideways, or undo that."""
        self.wide = not self.wide
        self.x_offset = 0

    def do_pan(self, arg: int) -> None:
        """Scroll a wide table sideways."""
        whole = sum(cells + 1 for _, cells in self.widths)
        self.x_offset = min(max(self.x_offset + 10 * arg, 0), max(whole - 20, 0)) if self.wide else 0

    def as_text(self) -> str:
        """Returns the detail under the cursor as text, '' for none."""
        return to_plain_text(self.pane(COPY_WIDTH, MAX_COPY_ROWS)) if self.count else ""

    def as_json(self) -> str:
        """Returns the item under the cursor as JSON, '' for none."""
        return ""


def placeholder_lines(text: str) -> list[Line]:
    """Returns a dimmed line for an empty screen."""
    return [line(f" {text}", "dim")]
