"""Widgets on the line API: a view of lines, and the table of a screen. Each asks a function for what it shows."""

from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from skewscope.tui.console.screens.base import ScreenModel
from skewscope.tui.render import text
from skewscope.tui.render.status import too_small_lines
from skewscope.tui.render.text import Line

WHEEL_ROWS = 3
"""Rows that one notch of the wheel moves."""
LineSource = Callable[[int, int], list[Line]]
"""Lines for so many columns and rows."""


class LineView(ScrollView, inherit_bindings=False, can_focus=False):
    """Lines that a function gives for the widget's size."""

    COMPONENT_CLASSES = {f"lines--{role}" for role in text.SGR}  # noqa: RUF012 - Textual's own shape

    def __init__(
        self,
        compute: LineSource,
        *,
        ascii_: bool = False,
        indent: int = 0,
        id: str | None = None,  # noqa: A002 - Textual's own name
    ) -> None:
        super().__init__(id=id)
        self.indent = indent
        self.has_rule = False
        """Whether a line stands to the left of it: a border would be a change of colour more in each row."""
        self.compute = compute
        self.ascii = ascii_
        self.lines: list[Line] = []
        self.show_horizontal_scrollbar = False
        self._role_styles: dict[tuple[str, bool], Style] = {}
        self._base_style: Style | None = None

    def on_resize(self, _event: Resize) -> None:
        """Other columns, other lines."""
        self.renew()

    def renew(self) -> None:
        """Ask again what to show."""
        size = self.scrollable_content_region.size
        if not (size.width and size.height):
            return
        before, self.lines = self.lines, self.compute(size.width - 2 * self.indent, size.height)
        whole = Size(size.width, len(self.lines))
        if whole != self.virtual_size:
            self.virtual_size = whole
            self.refresh()
            return
        # What stays as it is need not be told to the terminal again.
        top, width = self.scroll_offset.y, self.size.width
        changed = [n - top for n, (old, new) in enumerate(zip(before, self.lines, strict=False)) if old != new]
        if len(before) != len(self.lines) or len(changed) > len(before) // 2:
            self.refresh()
        elif changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed if 0 <= y < self.size.height))

    def notify_style_update(self) -> None:
        """Another theme, other colours."""
        super().notify_style_update()
        self._role_styles, self._base_style = {}, None

    def render_line(self, y: int) -> Strip:
        """The strip at a row of the screen."""
        at = y + self.scroll_offset.y
        return self.to_strip(self.lines[at] if at < len(self.lines) else ())

    def to_strip(self, spans: Line, *, marked: bool = False, left: int = 0) -> Strip:
        """A line as Textual wants it: `marked` is where the cursor is, `left` what is scrolled away."""
        columns, base = self.size.width, self._role_style("", marked)
        if self.has_rule:
            spans = (("│ ", "dim"), *spans)
        elif self.indent:
            spans = (((" " * self.indent) + spans[0][0], spans[0][1]), *spans[1:]) if spans else ()
        segments = [
            Segment(self._display_text(words), self._role_style(role, marked))
            for words, role in text.merge_spans(spans)
        ]
        cells = sum(text.width(segment.text) for segment in segments)
        if left:
            return Strip(segments, cells).crop_extend(left, left + columns, base)
        if cells > columns:
            return Strip(segments, cells).crop(0, columns)
        if cells < columns:
            # Blanks go with what stands before them: each segment costs a terminal forty bytes.
            blank = " " * (columns - cells)
            if segments and segments[-1].style is base:
                segments[-1] = Segment(segments[-1].text + blank, base)
            else:
                segments.append(Segment(blank, base))
        return Strip(segments, columns)

    def _display_text(self, words: str) -> str:
        return text.to_ascii(text.sanitise(words)) if self.ascii else text.sanitise(words)

    def _role_style(self, role: str, marked: bool) -> Style:
        """The style of a role; asking Textual for it again for each line would cost more than drawing."""
        found = self._role_styles.get((role, marked))
        if found is None:
            if self._base_style is None:
                self._base_style = self.rich_style
            found = self._base_style
            if marked:
                found += self.get_component_rich_style("list--cursor", partial=True)
            if role:
                found += self.get_component_rich_style(f"lines--{role}", partial=True)
            self._role_styles[role, marked] = found
        return found


class BarView(LineView):
    """A line that is clicked on: the replay bar goes there, the names of screens show them."""

    class Clicked(Message):
        """A column of the line was meant."""

        def __init__(self, bar: "BarView", column: int) -> None:
            super().__init__()
            self.bar, self.column = bar, column

    def on_click(self, event: Click) -> None:
        """Tell which column was meant."""
        self.post_message(self.Clicked(self, event.x))

    def word_at(self, column: int) -> str:
        """The span that was clicked on, without blanks."""
        at = 0
        for words, _ in self.lines[0] if self.lines else ():
            at += text.width(words)
            if column < at:
                return words.strip()
        return ""


class LiveTable(LineView, can_focus=True):
    """The rows of a screen under their header, with a cursor. Only the rows in sight are formatted."""

    COMPONENT_CLASSES = {"list--cursor"}  # noqa: RUF012

    class RowHighlighted(Message):
        """The cursor is on another row now."""

    class RowSelected(Message):
        """A row was asked for in full."""

    class HeaderSelected(Message):
        """The title at a column was clicked."""

        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def __init__(self, page: ScreenModel, *, ascii_: bool, id: str) -> None:  # noqa: A002
        super().__init__(page.header, ascii_=ascii_, id=id)
        self.model = page
        self.bare = self.tiny = False
        """Whether there is room for no more than rows, or not even for those."""

    def renew(self) -> None:
        """Ask again for the header; rows are asked for as they are drawn."""
        size = self.scrollable_content_region.size
        if not (size.width and size.height):
            return
        if self.tiny:
            self.lines = too_small_lines(size.width)
        else:
            self.lines = [] if self.bare and self.model.count else self.compute(size.width, size.height)
        whole = Size(size.width, self.model.count + len(self.lines))
        if whole != self.virtual_size:
            self.virtual_size = whole
            # What may be scrolled to is known only once that was laid out.
            self.call_after_refresh(self.scroll_to_cursor)
        self.scroll_to_cursor()
        self._prepare()
        # The rows alone: the scroll bar beside them stays, and would cost a terminal sixty bytes a row.
        self.refresh(Region(0, 0, size.width, size.height))

    def _prepare(self) -> None:
        prepare = getattr(self.model, "prepare", None)
        if prepare is not None:
            prepare(self.scroll_offset.y, self.scroll_offset.y + self._visible_rows())

    def move(self, by: int) -> None:
        """Move the cursor, repainting the two rows that change."""
        page = self.model
        old, page.cursor = page.cursor, min(max(page.cursor + by, 0), max(page.count - 1, 0))
        page.cursor_moved = True
        if old == page.cursor:
            return
        before = self.scroll_offset.y
        self.scroll_to_cursor()
        if self.scroll_offset.y == before:
            self.refresh(self._row_region(old), self._row_region(page.cursor))
        self.post_message(self.RowHighlighted())

    def move_page(self, by: int) -> None:
        """Move by a page."""
        self.move(by * max(self._visible_rows() - 1, 1))

    def render_line(self, y: int) -> Strip:
        """The header stays while rows scroll under it."""
        page = self.model
        if y < len(self.lines):
            return self.to_strip(self.lines[y], left=page.x_offset)
        at = y - len(self.lines) + self.scroll_offset.y
        if at >= page.count or self.tiny:
            return self.to_strip(())
        return self.to_strip(
            page.compact_row(at) if self.bare else page.row(at), marked=at == page.cursor, left=page.x_offset
        )

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """The wheel moves the cursor: rows that scroll away from it would come back at the next look."""
        event.stop()
        event.prevent_default()
        self.move(WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """The same upwards."""
        event.stop()
        event.prevent_default()
        self.move(-WHEEL_ROWS)

    def on_click(self, event: Click) -> None:
        """A click moves the cursor, a second one opens; on a title it sorts."""
        at = event.y - len(self.lines) + self.scroll_offset.y
        if event.y < len(self.lines):
            self.post_message(self.HeaderSelected(event.x))
        elif at < self.model.count:
            if event.chain > 1:
                self.post_message(self.RowSelected())
            self.move(at - self.model.cursor)

    def _visible_rows(self) -> int:
        return max(self.size.height - len(self.lines), 0)

    def _row_region(self, at: int) -> Region:
        return Region(0, at - self.scroll_offset.y + len(self.lines), self.size.width, 1)

    def scroll_to_cursor(self) -> None:
        """Scroll to the cursor."""
        top, rows, cursor = self.scroll_offset.y, self._visible_rows(), self.model.cursor
        if cursor < top:
            self.scroll_to(y=cursor, animate=False, immediate=True)
        elif rows > 0 and cursor >= top + rows:
            self.scroll_to(y=cursor - rows + 1, animate=False, immediate=True)
