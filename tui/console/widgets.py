"""Widgets on Textual's line API: a view of lines, a clickable line, and the table of a screen."""

from collections.abc import Callable
from string import ascii_letters

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
"""Rows per step of the mouse wheel."""
PANE_LETTER = "p"
"""The letter of the pane while rows have letters."""
JUMP_LETTERS = "".join(letter for letter in ascii_letters if letter != PANE_LETTER)
"""The letters of rows from the first visible one on."""
LineSource = Callable[[int, int], list[Line]]
"""Returns lines for a number of columns and rows."""


class LineView(ScrollView, inherit_bindings=False, can_focus=False):
    """Lines computed by a function for the widget's size."""

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
        """Whether to draw a rule to its left; a border would add a colour change to each row."""
        self.compute = compute
        self.ascii = ascii_
        self.lines: list[Line] = []
        self.show_horizontal_scrollbar = False
        self._role_styles: dict[tuple[str, bool], Style] = {}
        self._base_style: Style | None = None

    def on_resize(self, _event: Resize) -> None:
        """Recompute the lines for the new width."""
        self.renew()

    def renew(self) -> None:
        """Recompute the lines and repaint those that changed."""
        size = self.scrollable_content_region.size
        if not (size.width and size.height):
            return
        before, self.lines = self.lines, self.compute(size.width - 2 * self.indent, size.height)
        whole = Size(size.width, len(self.lines))
        if whole != self.virtual_size:
            self.virtual_size = whole
            self.refresh()
            return
        # Repaint only changed rows, to save bytes on the terminal connection.
        top, width = self.scroll_offset.y, self.size.width
        changed = [n - top for n, (old, new) in enumerate(zip(before, self.lines, strict=False)) if old != new]
        if len(before) != len(self.lines) or len(changed) > len(before) // 2:
            self.refresh()
        elif changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed if 0 <= y < self.size.height))

    def notify_style_update(self) -> None:
        """Drop cached styles when the theme changes."""
        super().notify_style_update()
        self._role_styles, self._base_style = {}, None

    def render_line(self, y: int) -> Strip:
        """Returns the strip of a screen row."""
        at = y + self.scroll_offset.y
        return self.to_strip(self.lines[at] if at < len(self.lines) else ())

    def to_strip(self, spans: Line, *, marked: bool = False, left: int = 0) -> Strip:
        """Convert a line; `marked` draws the cursor, `left` is the number of columns scrolled away."""
        columns, base = self.size.width, self._role_style("", marked)
        if self.has_rule:
            spans = (("│ ", "dim"), *spans)
        elif self.indent:
            spans = (((" " * self.indent) + spans[0][0], spans[0][1]), *spans[1:]) if spans else ()
        segments = [
            Segment(self._display_text(content), self._role_style(role, marked))
            for content, role in text.merge_spans(spans)
        ]
        cells = sum(text.width(segment.text) for segment in segments)
        if left:
            return Strip(segments, cells).crop_extend(left, left + columns, base)
        if cells > columns:
            return Strip(segments, cells).crop(0, columns)
        if cells < columns:
            # Append blanks to the last segment: a segment costs about forty bytes on the terminal connection.
            blank = " " * (columns - cells)
            if segments and segments[-1].style is base:
                segments[-1] = Segment(segments[-1].text + blank, base)
            else:
                segments.append(Segment(blank, base))
        return Strip(segments, columns)

    def _display_text(self, content: str) -> str:
        return text.to_ascii(text.sanitise(content)) if self.ascii else text.sanitise(content)

    def _role_style(self, role: str, marked: bool) -> Style:
        """Returns the style of a role, cached since a look-up in Textual costs more than drawing."""
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
    """A clickable line: the replay bar, or the status line with the names of the screens."""

    class Clicked(Message):
        """A column of the line was clicked."""

        def __init__(self, bar: "BarView", column: int) -> None:
            super().__init__()
            self.bar, self.column = bar, column

    def on_click(self, event: Click) -> None:
        """Report the clicked column."""
        self.post_message(self.Clicked(self, event.x))

    def word_at(self, column: int) -> str:
        """Returns the text of the span at a column, stripped."""
        at = 0
        for content, _ in self.lines[0] if self.lines else ():
            at += text.width(content)
            if column < at:
                return content.strip()
        return ""


class LiveTable(LineView, can_focus=True):
    """The rows of a screen under a fixed header, with a cursor. Formats only visible rows."""

    COMPONENT_CLASSES = {"list--cursor"}  # noqa: RUF012

    class RowHighlighted(Message):
        """The cursor moved to another row."""

    class RowSelected(Message):
        """A row was opened."""

    class HeaderSelected(Message):
        """A column title was clicked."""

        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def __init__(self, model: ScreenModel, *, ascii_: bool, id: str) -> None:  # noqa: A002
        super().__init__(model.header, ascii_=ascii_, id=id)
        self.model = model
        self.bare = self.tiny = False
        """Whether the screen has room for rows only, or not even for those."""
        self.has_letters = False
        """Whether each visible row has a letter to jump to it."""

    def renew(self) -> None:
        """Recompute the header and repaint; rows are formatted as they are drawn."""
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
            # The scroll range is known only after the layout.
            self.call_after_refresh(self.scroll_to_cursor)
        self.scroll_to_cursor()
        self._prepare()
        # Exclude the scroll bar, which would cost about sixty bytes per row on the terminal connection.
        self.refresh(Region(0, 0, size.width, size.height))

    def _prepare(self) -> None:
        self.model.prepare(self.scroll_offset.y, self.scroll_offset.y + self._visible_rows())

    def move(self, by: int) -> None:
        """Move the cursor and repaint the two rows that change."""
        model = self.model
        old, model.cursor = model.cursor, min(max(model.cursor + by, 0), max(model.count - 1, 0))
        model.cursor_moved = True
        if old == model.cursor:
            return
        before = self.scroll_offset.y
        self.scroll_to_cursor()
        if self.scroll_offset.y == before:
            self.refresh(self._row_region(old), self._row_region(model.cursor))
        self.post_message(self.RowHighlighted())

    def move_page(self, by: int) -> None:
        """Move by pages."""
        self.move(by * max(self._visible_rows() - 1, 1))

    def render_line(self, y: int) -> Strip:
        """Returns the strip of a screen row; the header does not scroll."""
        model = self.model
        if y < len(self.lines):
            return self.to_strip(self.lines[y], left=model.x_offset)
        at = y - len(self.lines) + self.scroll_offset.y
        if at >= model.count or self.tiny:
            return self.to_strip(())
        shown = model.compact_row(at) if self.bare else model.row(at)
        if self.has_letters:
            shown = _with_letter(shown, JUMP_LETTERS[y - len(self.lines) :][:1])
        return self.to_strip(shown, marked=at == model.cursor, left=model.x_offset)

    def row_beside(self, letter: str) -> int | None:
        """Returns the row beside which a letter stands, None where none does."""
        at = JUMP_LETTERS.find(letter) + self.scroll_offset.y
        is_there = letter and letter in JUMP_LETTERS and self.scroll_offset.y <= at < self.model.count
        return at if is_there and at - self.scroll_offset.y < self._visible_rows() else None

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Move the cursor down: the next refresh would scroll back to it otherwise."""
        event.stop()
        event.prevent_default()
        self.move(WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Move the cursor up."""
        event.stop()
        event.prevent_default()
        self.move(-WHEEL_ROWS)

    def on_click(self, event: Click) -> None:
        """Move the cursor to the row, open it on a double click, or sort by the clicked title."""
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


def _with_letter(spans: Line, letter: str) -> Line:
    """Returns a row with a letter in place of its first column."""
    if not (letter and spans):
        return spans
    (first, role), *rest = spans
    return ((letter, "bar"), (first[1:], role), *rest)
