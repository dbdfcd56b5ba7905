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

from skewscope.tui import status
from skewscope.tui.keymap import footer
from skewscope.tui.pages.base import Page
from skewscope.tui.status import Frame
from skewscope.tui.text import Line, fit, line, wrapped
from skewscope.tui.widgets import BarView, LineView, LiveTable

if TYPE_CHECKING:
    from skewscope.tui.app import Console

REST_S = 0.04
"""Seconds after which a cursor rests."""
Answer = Callable[[str], None]


class PageScreen(Screen[None]):
    """A page and the lines around it. What keys do comes from the console's table, through `do`."""

    def __init__(self, page: Page) -> None:
        super().__init__()
        self.page = page
        self.asking: Answer | None = None
        self.live: Answer | None = None
        self._rests: Timer | None = None
        self.other = False
        """Keys that move scroll the pane."""
        self._frame = Frame("full")

    @property
    def console(self) -> "Console":
        """The application."""
        return cast("Console", self.app)

    def compose(self) -> ComposeResult:
        """Status, rows and pane, replay bar, footer or prompt."""
        ascii_ = self.console.desk.ascii
        yield BarView(self._status, ascii_=ascii_, id="status")
        with Container(id="body"):
            yield LiveTable(self.page, ascii_=ascii_, id="list")
            yield LineView(self._pane, ascii_=ascii_, indent=1, id="pane")
        yield BarView(self._bar, ascii_=ascii_, id="bar")
        yield Input(id="prompt", compact=True)
        yield LineView(self._footer, ascii_=ascii_, id="footer")

    def on_mount(self) -> None:
        """Keys go to the rows."""
        self.set_class(self.console.desk.ascii, "-ascii")
        self.add_class(f"-{self.page.name}")
        self.menu.focus()
        self.renew()
        warm = getattr(self.page, "warm", None)
        if warm is not None:
            self.run_worker(warm, thread=True)

    @property
    def menu(self) -> LiveTable:
        """The rows."""
        return self.query_one("#list", LiveTable)

    @property
    def side(self) -> LineView:
        """The pane."""
        return self.query_one("#pane", LineView)

    # --- showing

    def renew(self, *, calmly: bool = False) -> None:
        """Show the desk's scene, wherever that changes something; `calmly` the pane a moment after the rows.

        Drawn together they would hold up a key for twice as long.
        """
        if not self.is_mounted:
            return
        if self.page.seen != self.console.desk.version:
            self.page.renew()
        self._divide()
        if not calmly:
            self.lines()
            return
        for widget in self.query(LineView):
            if widget is not self.side:
                widget.renew()
        self.set_timer(REST_S, self.side.renew)

    def lines(self) -> None:
        """Ask for all lines again."""
        for widget in self.query(LineView):
            widget.renew()

    def _divide(self) -> None:
        size = self.size
        frame = self._frame = self.page.frame(size.width, size.height)
        bare = frame.kind != "full"
        self.set_class(bare, "-bare")
        self.set_class(self.page.zoomed, "-zoomed")
        self.set_class(not frame.size and not bare, "-alone")
        self.set_class(frame.side, "-side")
        self.set_class(self.console.desk.feed.live, "-live")
        self.side.ruled = frame.side and not self.page.zoomed
        menu = self.menu
        menu.bare, menu.tiny = bare, frame.kind == "tiny"
        menu.styles.height = "1fr" if frame.side or not frame.size else frame.size
        menu.styles.width = frame.size if frame.side and frame.size else "1fr"

    def on_resize(self, _event: Resize) -> None:
        """Divide the screen anew; nothing is lost."""
        self.call_after_refresh(self.renew)

    def on_screen_resume(self) -> None:
        """What changed meanwhile."""
        self.console.desk.page = self.page.number
        self.renew()

    def _status(self, columns: int, _rows: int) -> list[Line]:
        now = self.console.desk.status()
        return [status.status_line(now, columns)] if now else [line(" Skewscope", "title")]

    def _footer(self, columns: int, _rows: int) -> list[Line]:
        if said := self.console.said:
            return [fit(((f" {said[0]}", "warn" if said[1] else "ok"),), columns)]
        return [footer(self.console.keys, self.page.name, columns)]

    def _bar(self, columns: int, _rows: int) -> list[Line]:
        desk = self.console.desk
        now = desk.scene
        if now is None:
            return []
        if desk.progress is not None:
            stage, share = desk.progress
            return [status.loading(stage, share, columns)[-1]]
        position = status.Position(now.start, now.end, now.time, desk.player.playing, desk.player.speed)
        return [status.replay_bar(position, desk.openings, columns)]

    def _pane(self, columns: int, rows: int) -> list[Line]:
        if self.console.desk.scene is None:
            return status.loading(*(self.console.desk.progress or ("waiting for data", 0.0)), columns)
        return self.page.whole(columns, rows) if self.page.zoomed else self.page.pane(columns, rows)

    # --- keys and mouse

    def do(self, verb: str, arg: int) -> bool:
        """What a key means here; whether it means anything."""
        if verb in ("move", "leaf"):
            self._moved(verb, arg)
            return True
        if verb == "other":
            self.other = not self.other
            self.set_class(self.other, "-other")
            return True
        method = getattr(self.page, f"do_{verb}", None)
        if method is None:
            return False
        zoomed, told = self.page.zoomed, getattr(self.page, "shown", None)
        method(arg)
        if told != getattr(self.page, "shown", None):
            self.side.scroll_to(y=0, animate=False)
        if zoomed != self.page.zoomed:
            self.side.scroll_to(y=0, animate=False)
            self._divide()
            self.call_after_refresh(self.lines)
        self.renew()
        return True

    def _moved(self, verb: str, arg: int) -> None:
        moves = getattr(self.page, "moves", None)
        to = moves(arg) if moves is not None else None
        if to is not None:
            self.side.renew()
            self.side.scroll_to(y=to, animate=False)
            return
        if not (self.page.zoomed or self.other):
            self.menu.move(arg) if verb == "move" else self.menu.leaf(arg)
            return
        by = arg * max(self.side.size.height - 1, 1) if verb == "leaf" else arg
        self.side.scroll_relative(y=by, animate=False)

    def on_live_table_picked(self) -> None:
        """Another row, another pane: once the cursor rests, so that it never waits for a chart."""
        if self._rests is not None:
            self._rests.stop()
        self._rests = self.set_timer(REST_S, self._rested)
        if getattr(self.page, "picks", False):
            self.menu.renew()

    def _rested(self) -> None:
        self.side.scroll_to(y=0, animate=False)
        self.side.renew()

    def on_live_table_opened(self) -> None:
        """The same as enter."""
        self.console.action_do("open", 0)

    def on_live_table_titled(self, event: LiveTable.Titled) -> None:
        """Sort by what was clicked."""
        picked = getattr(self.page, "picked", None)
        if picked is not None:
            picked(event.column)
            self.renew()

    def on_bar_view_sought(self, event: BarView.Sought) -> None:
        """Go where the bar was clicked; show the screen whose name was."""
        if event.bar.id == "status":
            number = event.bar.word_at(event.column)[:1]
            if number in "12345" and number:
                self.console.do_page(int(number))
            return
        self.console.verbs[0].seek_share(status.bar_share(event.column, self.size.width))

    # --- prompt

    def ask(self, hint: str, value: str, then: Answer, *, live: bool = False) -> None:
        """Ask for a line; `live` answers while it is typed."""
        prompt = self.query_one("#prompt", Input)
        self.asking, self.live = then, then if live else None
        prompt.placeholder, prompt.value = hint, value
        self.add_class("-asking")
        prompt.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """A filter works while it is typed."""
        if self.live is not None:
            self.live(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Do what was asked for."""
        self.answered(event.value)

    def answered(self, answer: str | None) -> None:
        """The line, or None where it was left; what was typed live is taken back then."""
        then, live = self.asking, self.live
        self.asking = self.live = None
        self.remove_class("-asking")
        self.menu.focus()
        if then and (answer is not None or live):
            then(answer or "")


class Sheet(ModalScreen[str]):
    """Text over the console, until a key closes it; choices are keys that close it with an answer."""

    BINDINGS: ClassVar = [
        Binding("escape,q", "dismiss('')", "close"),
        Binding("j,down", "scroll(1)", "down"),
        Binding("k,up", "scroll(-1)", "up"),
        Binding("ctrl+d,pagedown", "scroll(10)", "page down"),
        Binding("ctrl+u,pageup", "scroll(-10)", "page up"),
    ]

    def __init__(self, title: str, lines: Callable[[int], list[Line]], *, ascii_: bool, choices: str = "") -> None:
        super().__init__()
        self.sheet = LineView(
            lambda columns, _rows: wrapped(lines(columns), columns), ascii_=ascii_, indent=1, id="sheet"
        )
        self.sheet.border_title = f"{title} (esc closes)"
        self.choices = choices
        self.set_class(ascii_, "-ascii")

    def compose(self) -> ComposeResult:
        """The sheet alone."""
        yield self.sheet

    def on_key(self, event: Key) -> None:
        """A choice; the key means nothing else meanwhile."""
        if event.character and event.character in self.choices:
            event.stop()
            event.prevent_default()
            self.dismiss(event.character)

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.sheet.scroll_relative(y=by, animate=False)
