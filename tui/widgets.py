"""Widgets on the line API: a view of lines, and the table of a screen. Each asks a function for what it shows."""

from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from skewscope.tui import text
from skewscope.tui.pages.base import Page
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


class LiveTable(LineView, can_focus=True):
    """The rows of a screen under their header, with a cursor. Only the rows in sight are formatted."""

    COMPONENT_CLASSES = {"list--cursor"}  # noqa: RUF012

    class Picked(Message):
        """The cursor is on another row now."""

    class Opened(Message):
        """A row was asked for in full."""

    class Titled(Message):
        """The title at a column was clicked."""

        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def __init__(self, page: Page, *, ascii_: bool, id: str) -> None:  # noqa: A002
        super().__init__(page.header, ascii_=ascii_, id=id)
        self.page = page
        self.bare = False

    def renew(self) -> None:
        """Ask again for the header; rows are asked for as they are drawn."""
        size = self.scrollable_content_region.size
        if not (size.width and size.height):
            return
        self.lines = [] if self.bare and self.page.count else self.compute(size.width, size.height)
        whole = Size(size.width, self.page.count + len(self.lines))
        if whole != self.virtual_size:
            self.virtual_size = whole
            # What may be scrolled to is known only once that was laid out.
            self.call_after_refresh(self.into_view)
        self.into_view()
        self._prepare()
        self.refresh()

    def _prepare(self) -> None:
        prepare = getattr(self.page, "prepare", None)
        if prepare is not None:
            prepare(self.scroll_offset.y, self.scroll_offset.y + self._visible())

    def move(self, by: int) -> None:
        """Move the cursor, repainting the two rows that change."""
        page = self.page
        old, page.cursor = page.cursor, min(max(page.cursor + by, 0), max(page.count - 1, 0))
        page.touched = True
        if old == page.cursor:
            return
        before = self.scroll_offset.y
        self.into_view()
        if self.scroll_offset.y == before:
            self.refresh(self._region(old), self._region(page.cursor))
        self.post_message(self.Picked())

    def leaf(self, by: int) -> None:
        """Move by a page."""
        self.move(by * max(self._visible() - 1, 1))

    def render_line(self, y: int) -> Strip:
        """The header stays while rows scroll under it."""
        page = self.page
        if y < len(self.lines):
            return self._aside(self.lines[y], None)
        at = y - len(self.lines) + self.scroll_offset.y
        if at >= page.count:
            return self.strip(())
        extra = self.get_component_rich_style("list--cursor", partial=True) if at == page.cursor else None
        return self._aside(page.bare(at) if self.bare else page.row(at), extra)

    def _aside(self, spans: Line, extra: Style | None) -> Strip:
        """A line of a wide table, scrolled sideways."""
        if not self.page.left:
            return self.strip(spans, extra)
        base = self.rich_style + extra if extra else self.rich_style
        segments = [Segment(self._shown(words), self._role(role, base)) for words, role in spans]
        return Strip(segments).crop_extend(self.page.left, self.page.left + self.size.width, base)

    def on_click(self, event: Click) -> None:
        """A click moves the cursor, a second one opens; on a title it sorts."""
        at = event.y - len(self.lines) + self.scroll_offset.y
        if event.y < len(self.lines):
            self.post_message(self.Titled(event.x))
        elif at < self.page.count:
            if event.chain > 1:
                self.post_message(self.Opened())
            self.move(at - self.page.cursor)

    def _visible(self) -> int:
        return max(self.size.height - len(self.lines), 0)

    def _region(self, at: int) -> Region:
        return Region(0, at - self.scroll_offset.y + len(self.lines), self.size.width, 1)

    def into_view(self) -> None:
        """Scroll to the cursor."""
        top, rows, cursor = self.scroll_offset.y, self._visible(), self.page.cursor
        if cursor < top:
            self.scroll_to(y=cursor, animate=False, immediate=True)
        elif rows > 0 and cursor >= top + rows:
            self.scroll_to(y=cursor - rows + 1, animate=False, immediate=True)
