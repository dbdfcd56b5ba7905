"""One screen of the console in a terminal: status, rows, pane, replay bar, prompt, footer."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.events import Key, Resize
from textual.screen import ModalScreen, Screen
from textual.timer import Timer
from textual.widgets import Input

from skewscope.tui.console.keymap import footer_key_at, footer_line
from skewscope.tui.console.screen_layout import ScreenLayout
from skewscope.tui.console.screens.base import ScreenModel
from skewscope.tui.console.widgets import PANE_LETTER, BarView, LineView, LiveTable
from skewscope.tui.render import status
from skewscope.tui.render.text import Line, fit, line, wrap_lines

if TYPE_CHECKING:
    from skewscope.tui.console.app import Console

TALL_LINES = 36
"""Lines from which on the replay bar has the names of incidents below it."""
CURSOR_REST_S = 0.04
"""Seconds without movement after which the pane follows the cursor."""
SHEET_SHARE, SHEET_WIDTH, SHEET_HEIGHT_SHARE, SHEET_FRAME = 96, 110, 90, 5
"""Of a dialog: percent of the columns, columns, and percent of the rows at most; columns beside its text."""
SCREEN_NUMBERS = frozenset("12345")
JUMP_HINT = f"type the letter beside a row, {PANE_LETTER} for the pane, 1 to 5 for a screen; esc leaves all as it is"
AnswerHandler = Callable[[str], None]


class ConsoleScreen(Screen[None]):
    """A screen model with the lines around it; keys arrive as commands from the key table."""

    def __init__(self, model: ScreenModel) -> None:
        super().__init__()
        self.model = model
        self.answer_handler: AnswerHandler | None = None
        self.live_handler: AnswerHandler | None = None
        self._rest_timer: Timer | None = None
        self.pane_scrolls = False
        """Whether movement keys scroll the pane instead of the cursor."""
        self.is_jumping = False
        """Whether the next key is a letter beside a row or the pane, or the number of a screen."""
        self._screen_layout = ScreenLayout("full")

    @property
    def console(self) -> "Console":
        """The application."""
        return cast("Console", self.app)

    def compose(self) -> ComposeResult:
        """Create the status line, the table and pane, the replay bar, the prompt and the footer."""
        ascii_ = self.console.state.ascii
        yield BarView(self._status_lines, ascii_=ascii_, id="status")
        with Container(id="body"):
            yield LiveTable(self.model, ascii_=ascii_, id="list")
            yield LineView(self._pane_lines, ascii_=ascii_, indent=1, id="pane")
        yield BarView(self._replay_bar_lines, ascii_=ascii_, id="bar")
        yield Input(id="prompt", compact=True)
        yield BarView(self._footer_lines, ascii_=ascii_, id="footer")

    def on_mount(self) -> None:
        """Focus the table and build the model's index in the background."""
        self.set_class(self.console.state.ascii, "-ascii")
        self.add_class(f"-{self.model.name}")
        self.table.focus()
        self._name_panes()
        self.renew()
        self.run_worker(self.model.build_index, thread=True)

    @property
    def table(self) -> LiveTable:
        """The table."""
        return self.query_one("#list", LiveTable)

    @property
    def pane(self) -> LineView:
        """The pane."""
        return self.query_one("#pane", LineView)

    # --- drawing

    def renew(self, *, calmly: bool = False) -> None:
        """Redraw what changed; with `calmly` the pane is redrawn shortly after the table.

        Drawn together they would delay a key press for twice as long.
        """
        if not self.is_mounted:
            return
        if self.model.shown_version != self.console.state.version:
            self.model.renew()
        self._apply_layout()
        self._name_panes()
        if not calmly:
            self.renew_lines()
            return
        for widget in self.query(LineView):
            if widget is not self.pane:
                widget.renew()
        self.set_timer(CURSOR_REST_S, self.pane.renew)

    def renew_lines(self) -> None:
        """Recompute all lines."""
        for widget in self.query(LineView):
            widget.renew()

    def _apply_layout(self) -> None:
        size = self.size
        frame = self._screen_layout = self.model.layout(size.width, size.height)
        bare = frame.kind != "full"
        self.set_class(bare, "-bare")
        self.set_class(self.model.zoomed, "-zoomed")
        self.set_class(not frame.list_size and not bare, "-alone")
        self.set_class(frame.side_by_side, "-side")
        self.set_class(self.console.state.feed.live, "-live")
        self.set_class(size.height >= TALL_LINES, "-tall")
        self.pane.has_rule = frame.side_by_side and not self.model.zoomed
        table = self.table
        table.bare, table.tiny = bare, frame.kind == "tiny"
        table.styles.height = "1fr" if frame.side_by_side or not frame.list_size else frame.list_size
        table.styles.width = frame.list_size if frame.side_by_side and frame.list_size else "1fr"

    def on_resize(self, _event: Resize) -> None:
        """Divide the screen for its new size."""
        self.call_after_refresh(self.renew)

    def on_screen_resume(self) -> None:
        """Show changes made while another screen was visible."""
        self.console.state.screen = self.model.number
        self.renew()

    def _status_lines(self, columns: int, _rows: int) -> list[Line]:
        now = self.console.state.status()
        return [status.status_line(now, columns)] if now else [line(" Skewscope", "title")]

    def _footer_lines(self, columns: int, _rows: int) -> list[Line]:
        if self.is_jumping:
            return [fit(line(f" {JUMP_HINT}", "ok"), columns)]
        if message := self.console.message:
            return [fit(((f" {message[0]}", "warn" if message[1] else "ok"),), columns)]
        return [footer_line(self.console.keys, self.model.name, columns)]

    def _replay_bar_lines(self, columns: int, rows: int) -> list[Line]:
        state = self.console.state
        now = state.snapshot
        if now is None:
            return []
        if state.progress is not None:
            stage, share = state.progress
            return [status.loading_lines(stage, share, columns)[-1]]
        position = status.ReplayPosition(now.start, now.end, now.time, state.player.playing, state.player.speed)
        return status.replay_bar(position, state.incident_lengths, columns, rows)

    def _pane_lines(self, columns: int, rows: int) -> list[Line]:
        if self.console.state.snapshot is None:
            loading = status.loading_lines(*(self.console.state.progress or ("waiting for data", 0.0)), columns)
            can_play = self.console.state.progress is not None and not self.console.state.feed.live
            return [*loading, (), line("  p shows the recording as it is read", "dim")] if can_play else loading
        return self.model.full_pane(columns, rows) if self.model.zoomed else self.model.pane(columns, rows)

    def _name_panes(self) -> None:
        """Show the title of the pane, and how the keys that move get there and back."""
        if not self.model.pane_title:
            return
        where = "tab: back to the list" if self.pane_scrolls else "tab scrolls it"
        now = self.console.state.status()
        silence = status.silence(now) if now else ""
        is_said = not now or any(silence in words for words, _ in status.status_line(now, self.size.width))
        letter = f"{PANE_LETTER}: " if self.is_jumping else ""
        self.pane.border_title = f"{letter}{self.model.pane_title} ({where})" + ("" if is_said else f" ── {silence}")

    # --- keys and mouse

    def run_command(self, command: str, arg: int) -> bool:
        """Run a command on this screen; returns whether the screen has it."""
        if command in ("move", "page"):
            self._move_cursor(command, arg)
            return True
        if command == "letters":
            self.set_jumping(on=True)
            return True
        if command == "other":
            self.pane_scrolls = not self.pane_scrolls
            self.set_class(self.pane_scrolls, "-other")
            self._name_panes()
            return True
        method = getattr(self.model, f"do_{command}", None)
        if method is None:
            return False
        zoomed, entry = self.model.zoomed, self.model.current_entry
        method(arg)
        if entry != self.model.current_entry:
            self.pane.scroll_to(y=0, animate=False)
        if zoomed != self.model.zoomed:
            self.pane.scroll_to(y=0, animate=False)
            self._apply_layout()
            self.call_after_refresh(self.renew_lines)
        self.renew()
        return True

    def set_jumping(self, *, on: bool) -> None:
        """Show or hide a letter beside each row and the pane."""
        self.is_jumping = self.table.has_letters = on
        self._name_panes()
        self.table.renew()
        self.query_one("#footer", BarView).renew()

    def on_key(self, event: Key) -> None:
        """Take the letter of a jump, before it is a command."""
        if not self.is_jumping:
            return
        event.stop()
        event.prevent_default()
        self.set_jumping(on=False)
        self.jump_to(event.character or "")

    def jump_to(self, letter: str) -> None:
        """Move to the row of a letter, to the pane, or to the screen of a number; nothing else has an effect."""
        at = self.table.row_beside(letter)
        if letter in SCREEN_NUMBERS:
            self.console.do_screen(int(letter))
        elif self.pane_scrolls != (letter == PANE_LETTER) and (at is not None or letter == PANE_LETTER):
            self.run_command("other", 0)
        if at is not None:
            self.table.move(at - self.model.cursor)

    def _move_cursor(self, command: str, arg: int) -> None:
        to = self.model.move_link(arg)
        if to is not None:
            self.pane.renew()
            self.pane.scroll_to(y=to, animate=False)
            return
        if not (self.model.zoomed or self.pane_scrolls):
            self.table.move(arg) if command == "move" else self.table.move_page(arg)
            return
        by = arg * max(self.pane.size.height - 1, 1) if command == "page" else arg
        self.pane.scroll_relative(y=by, animate=False)

    def on_live_table_row_highlighted(self) -> None:
        """Redraw the pane once the cursor rests, so that moving never waits for a chart."""
        if self._rest_timer is not None:
            self._rest_timer.stop()
        self._rest_timer = self.set_timer(CURSOR_REST_S, self._on_cursor_rest)
        if self.model.redraws_on_move:
            self.table.renew()

    def _on_cursor_rest(self) -> None:
        self.pane.scroll_to(y=0, animate=False)
        self.pane.renew()

    def on_live_table_row_selected(self) -> None:
        """Open the row."""
        self.console.action_do("open", 0)

    def on_live_table_header_selected(self, event: LiveTable.HeaderSelected) -> None:
        """Sort by the clicked title."""
        self.model.sort_by_title(event.column)
        self.renew()

    def on_bar_view_clicked(self, event: BarView.Clicked) -> None:
        """Seek to the clicked position of the bar and select what lasted then, or show the clicked screen."""
        if event.bar.id == "status":
            number = event.bar.word_at(event.column)[:1]
            if number in SCREEN_NUMBERS:
                self.console.do_screen(int(number))
            return
        if event.bar.id == "footer":
            shown = event.bar.lines[0] if event.bar.lines else ()
            if key := footer_key_at(self.console.keys, self.model.name, shown, event.column):
                self.console.action_do(key.command, key.arg)
            return
        share = status.bar_share(event.column, self.size.width)
        if lasting := [one.id for one in self.console.state.incident_lengths if one.begin <= share <= one.end]:
            self.model.select_incident(lasting[-1])
        self.console.commands[0].seek_share(share)

    # --- prompt

    def prompt_for(self, hint: str, value: str, then: AnswerHandler, *, live: bool = False) -> None:
        """Prompt for a line; with `live`, `then` is called while it is typed."""
        prompt = self.query_one("#prompt", Input)
        self.answer_handler, self.live_handler = then, then if live else None
        prompt.placeholder, prompt.value = hint, value
        self.add_class("-asking")
        prompt.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Call the live handler."""
        if self.live_handler is not None:
            self.live_handler(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Finish the prompt with its text."""
        self.finish_prompt(event.value)

    def finish_prompt(self, answer: str | None) -> None:
        """Close the prompt; `answer` is None if it was cancelled, which reverts a live change."""
        then, live = self.answer_handler, self.live_handler
        self.answer_handler = self.live_handler = None
        self.remove_class("-asking")
        self.table.focus()
        if then and (answer is not None or live):
            then(answer or "")


class TextDialog(ModalScreen[str]):
    """Text over the console, closed by a key; keys in `choices` close it with an answer."""

    BINDINGS: ClassVar = [
        Binding("escape,q", "dismiss('')", "close"),
        Binding("j,down", "scroll(1)", "down"),
        Binding("k,up", "scroll(-1)", "up"),
        Binding("ctrl+d,pagedown", "scroll(10)", "page down"),
        Binding("ctrl+u,pageup", "scroll(-10)", "page up"),
        Binding("g,home", "scroll(-1000000)", "first line"),
        Binding("G,end", "scroll(1000000)", "last line"),
    ]

    def __init__(self, title: str, lines: Callable[[int], list[Line]], *, ascii_: bool, choices: str = "") -> None:
        super().__init__()
        self.view = LineView(
            lambda columns, _rows: wrap_lines(lines(columns), columns), ascii_=ascii_, indent=1, id="sheet"
        )
        self.view.border_title = f"{title} (esc closes)"
        self.choices = choices
        self.set_class(ascii_, "-ascii")

    def compose(self) -> ComposeResult:
        """Create the text view."""
        yield self.view

    def on_mount(self) -> None:
        """Give the view no more rows than its text has."""
        width = min(self.size.width * SHEET_SHARE // 100, SHEET_WIDTH) - SHEET_FRAME
        rows = len(self.view.compute(max(width, 1), self.size.height)) + 2
        self.view.styles.height = min(rows, max(self.size.height * SHEET_HEIGHT_SHARE // 100, 3))

    def on_key(self, event: Key) -> None:
        """Close with the answer of a choice key."""
        if event.character and event.character in self.choices:
            event.stop()
            event.prevent_default()
            self.dismiss(event.character)

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.view.scroll_relative(y=by, animate=False)
