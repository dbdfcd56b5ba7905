"""Widgets on the line API: a view of lines, and the list of diagnoses. Each asks a function for what it shows."""

from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from skewscope.tui import text
from skewscope.tui.text import Line

Compute = Callable[[int, int], list[Line]]
"""Lines for so many columns and rows."""


class LineView(ScrollView, inherit_bindings=False, can_focus=False):
    """Lines that a function gives for the widget's size."""

    COMPONENT_CLASSES = {f"lines--{role}" for role in text.SGR}  # noqa: RUF012 - Textual's own shape

    def __init__(self, compute: Compute, *, ascii_: bool = False, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.compute = compute
        self.ascii = ascii_
        self.lines: list[Line] = []
        self.show_horizontal_scrollbar = False

    def on_resize(self, _event: Resize) -> None:
        """Other columns, other lines."""
        self.renew()

    def renew(self) -> None:
        """Ask again what to show."""
        size = self.scrollable_content_region.size
        if size.width and size.height:
            self.lines = self.compute(size.width, size.height)
            self.virtual_size = Size(size.width, len(self.lines))
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The strip at a row of the screen."""
        at = y + self.scroll_offset.y
        return self.strip(self.lines[at] if at < len(self.lines) else ())

    def strip(self, spans: Line, extra: Style | None = None) -> Strip:
        """A line as Textual wants it."""
        base = self.rich_style + extra if extra else self.rich_style
        segments = [Segment(self._shown(words), self._role(role, base)) for words, role in spans]
        return Strip(segments).adjust_cell_length(self.size.width, base)

    def _shown(self, words: str) -> str:
        return text.ascii_only(text.safe(words)) if self.ascii else text.safe(words)

    def _role(self, role: str, base: Style) -> Style:
        return base + self.get_component_rich_style(f"lines--{role}", partial=True) if role else base


class BarView(LineView):
    """The replay bar: a click on it goes there."""

    class Sought(Message):
        """A share of the replay, 0..1, was asked for."""

        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def on_click(self, event: Click) -> None:
        """Tell which column was meant."""
        self.post_message(self.Sought(event.x))


class DiagnosisList(LineView, can_focus=True):
    """Rows under a header, with a cursor. Only the rows in sight are formatted."""

    COMPONENT_CLASSES = {"list--cursor"}  # noqa: RUF012

    class Picked(Message):
        """The cursor is on another row now."""

    class Opened(Message):
        """A row was asked for in full."""

    def __init__(self, header: Compute, row: Callable[[int], Line], *, ascii_: bool, id: str) -> None:  # noqa: A002
        super().__init__(header, ascii_=ascii_, id=id)
        self.row = row
        self.count = 0
        self.cursor = 0

    def show(self, count: int, cursor: int) -> None:
        """Show so many rows, with the cursor on one of them."""
        self.count = count
        self.cursor = min(max(cursor, 0), max(count - 1, 0))
        self.renew()
        self._into_view()

    def renew(self) -> None:
        """Ask again for the header; rows are asked for as they are drawn."""
        size = self.scrollable_content_region.size
        if size.width and size.height:
            self.lines = self.compute(size.width, size.height)
            self.virtual_size = Size(size.width, self.count + len(self.lines))
            self.refresh()

    def move(self, by: int) -> None:
        """Move the cursor, repainting the two rows that change."""
        old, self.cursor = self.cursor, min(max(self.cursor + by, 0), max(self.count - 1, 0))
        if old == self.cursor:
            return
        before = self.scroll_offset.y
        self._into_view()
        if self.scroll_offset.y == before:
            self.refresh(self._region(old), self._region(self.cursor))
        self.post_message(self.Picked())

    def page(self, by: int) -> None:
        """Move by a page."""
        self.move(by * max(self._visible() - 1, 1))

    def render_line(self, y: int) -> Strip:
        """The header stays while rows scroll under it."""
        if y < len(self.lines):
            return self.strip(self.lines[y])
        at = y - len(self.lines) + self.scroll_offset.y
        if at >= self.count:
            return self.strip(())
        extra = self.get_component_rich_style("list--cursor", partial=True) if at == self.cursor else None
        return self.strip(self.row(at), extra)

    def on_click(self, event: Click) -> None:
        """A click moves the cursor, a second one opens."""
        at = event.y - len(self.lines) + self.scroll_offset.y
        if event.y < len(self.lines) or at >= self.count:
            return
        if event.chain > 1:
            self.post_message(self.Opened())
        self.move(at - self.cursor)

    def _visible(self) -> int:
        return self.size.height - len(self.lines)

    def _region(self, at: int) -> Region:
        return Region(0, at - self.scroll_offset.y + len(self.lines), self.size.width, 1)

    def _into_view(self) -> None:
        top, rows = self.scroll_offset.y, self._visible()
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True)
        elif rows > 0 and self.cursor >= top + rows:
            self.scroll_to(y=self.cursor - rows + 1, animate=False, immediate=True)
