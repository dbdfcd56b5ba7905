"""The console: a list of diagnoses over a replay, with why, why not, what to do and what cannot be seen."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Input
from textual.worker import get_current_worker

from skewscope.engine.incident import Incident
from skewscope.kb.problems import SkewscopeError
from skewscope.tui import detail, report, view
from skewscope.tui.detail import Words
from skewscope.tui.keymap import KEYS, footer, help_lines
from skewscope.tui.player import Player, asked_time
from skewscope.tui.text import Line, line, wrap, wrapped
from skewscope.tui.widgets import BarView, DiagnosisList, LineView

if TYPE_CHECKING:
    from skewscope.adapters.replay import Outcome, Snapshot

Progress = Callable[[str, float], None]
Load = Callable[[Progress], "Outcome"]
TICK_S = 0.25


class StoppedError(SkewscopeError):
    """The console was left before its data had been read."""


class TextScreen(ModalScreen[None]):
    """Text over the console, until a key closes it."""

    BINDINGS: ClassVar = [
        Binding("escape,q,enter,question_mark,K,s", "dismiss", "close"),
        Binding("j,down", "scroll(1)", "down"),
        Binding("k,up", "scroll(-1)", "up"),
        Binding("ctrl+d,pagedown", "scroll(10)", "page down"),
        Binding("ctrl+u,pageup", "scroll(-10)", "page up"),
    ]

    def __init__(self, title: str, lines: Callable[[int], list[Line]], *, ascii_: bool) -> None:
        super().__init__()
        self.sheet = LineView(lambda columns, _rows: wrapped(lines(columns), columns), ascii_=ascii_, id="sheet")
        self.sheet.border_title = f"{title} (esc closes)"

    def compose(self) -> ComposeResult:
        """The sheet alone."""
        yield self.sheet

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.sheet.scroll_relative(y=by, animate=False)


class Console(App[SkewscopeError]):
    """One screen over one replayed recording; it returns what kept it from starting, if anything did."""

    CSS_PATH = "console.tcss"
    TITLE = "Skewscope"
    BINDINGS: ClassVar = [Binding(key.keys, key.action, key.does, show=False) for key in KEYS]

    def __init__(self, load: Load, words: Words, *, colour: bool = True, ascii_: bool = False) -> None:
        super().__init__(ansi_color=not colour)
        if not colour:
            self.theme = "ansi-dark"
        self.load, self.words, self.ascii = load, words, ascii_
        self.outcome: Outcome | None = None
        self.player = Player(())
        self.progress = ("starting", 0.0)
        self.filter = view.Filter()
        self.folded = False
        self.rows: list[view.Row] = []
        self.columns: list[tuple[view.Column, int]] = []
        self.asking: Callable[[str], None] | None = None

    # What is on the screen.

    def compose(self) -> ComposeResult:
        """Status, list and detail, replay bar, footer or prompt."""
        yield LineView(self._status, ascii_=self.ascii, id="status")
        with Container(id="body"):
            yield DiagnosisList(self._header, self._row, ascii_=self.ascii, id="list")
            yield LineView(self._detail, ascii_=self.ascii, id="detail")
        yield BarView(self._bar, ascii_=self.ascii, id="bar")
        yield Input(id="prompt", compact=True)
        yield LineView(lambda columns, _rows: [footer(columns)], ascii_=self.ascii, id="footer")

    def on_mount(self) -> None:
        """Start reading; the screen stays alive meanwhile."""
        self.screen.set_class(self.ascii, "-ascii")
        self.menu.focus()
        self.timer = self.set_interval(TICK_S, self._tick)
        self.run_worker(self._read, thread=True)

    @property
    def menu(self) -> DiagnosisList:
        """The list of diagnoses."""
        return self.screen_stack[0].query_one("#list", DiagnosisList)

    @property
    def pane(self) -> LineView:
        """The detail pane."""
        return self.screen_stack[0].query_one("#detail", LineView)

    @property
    def snapshot(self) -> "Snapshot | None":
        """The state shown."""
        if self.outcome is None or not self.outcome.snapshots:
            return None
        return self.outcome.snapshots[self.player.index]

    @property
    def selected(self) -> Incident | None:
        """The incident under the cursor."""
        at = self.menu.cursor
        return self.rows[at].incident if at < len(self.rows) else None

    # Reading.

    def _read(self) -> None:
        worker = get_current_worker()

        def heard(stage: str, share: float) -> None:
            if worker.is_cancelled:
                raise StoppedError(stage)
            self.progress = (stage, share)

        try:
            outcome = self.load(heard)
        except StoppedError:
            return
        except (SkewscopeError, OSError) as error:
            told = error if isinstance(error, SkewscopeError) else SkewscopeError(str(error))
            self.call_from_thread(self.exit, told, 2)
            return
        if not worker.is_cancelled:
            self.call_from_thread(self._loaded, outcome)

    def _loaded(self, outcome: "Outcome") -> None:
        self.outcome = outcome
        self.player = Player.at_end(tuple(s.time for s in outcome.snapshots))
        self._renew()

    def _tick(self) -> None:
        if self.outcome is None:
            self.menu.renew()
        elif self.player.playing:
            self._go(self.player.elapse(TICK_S))

    # Showing.

    def _go(self, player: Player) -> None:
        moved = player.index != self.player.index
        self.player = player
        if moved:
            self._renew()
        else:
            self._renew_lines()

    def _renew(self) -> None:
        """Show the snapshot: the same incident stays selected while it is there."""
        before = self.selected
        snapshot = self.snapshot
        incidents = snapshot.incidents if snapshot else ()
        self.words = replace(self.words, incidents=incidents)
        self.rows = view.ranked((i for i in incidents if self.filter.keeps(i)), fold=self.folded)
        ids = [row.incident.id for row in self.rows]
        tiny = self._divide() == "tiny"
        self.menu.show(0 if tiny else len(self.rows), ids.index(before.id) if before and before.id in ids else 0)
        self._renew_lines()

    def _renew_lines(self) -> None:
        for widget in self.screen_stack[0].query(LineView):
            widget.renew()

    def _divide(self) -> str:
        home, size = self.screen_stack[0], self.size
        frame = view.frame(size.width, size.height, len(self.rows))
        home.set_class(frame.kind != "full", "-bare")
        home.set_class(frame.side_by_side, "-side")
        self.menu.styles.height = frame.list_rows or "1fr"
        return frame.kind

    def on_resize(self, _event: Resize) -> None:
        """Divide the screen anew."""
        self._renew()

    def _status(self, columns: int, _rows: int) -> list[Line]:
        now = self.snapshot
        if now is None:
            return [line(" Skewscope", "title")]
        mode = "PLAYING" if self.player.playing else "REPLAY"
        status = view.Status(now.incidents, mode, now.time, view.oldest(now.sources), *view.reporting(now.sources))
        return [view.status_line(status, columns)]

    def _bar(self, columns: int, _rows: int) -> list[Line]:
        now = self.snapshot
        if now is None or self.outcome is None:
            return []
        position = view.Position(now.start, now.end, now.time, self.player.playing, self.player.speed)
        return [view.replay_bar(position, (i.opened_at for i in self.outcome.incidents), columns)]

    def _header(self, columns: int, rows: int) -> list[Line]:
        if self.outcome is None:
            return view.loading(*self.progress, columns)
        frame = view.frame(self.size.width, self.size.height, len(self.rows))
        if frame.kind == "tiny":
            return view.too_small(columns)
        if not self.rows:
            return self._nothing(columns)
        self.columns = view.columns_for(self.rows, self.words, self.player.time, columns)
        chip = view.chip(self.filter, len(self.rows), len(self.words.incidents))
        bare = frame.kind == "bare"
        return [*([] if bare or rows < 2 else [view.header(self.columns)]), *chip]

    def _nothing(self, columns: int) -> list[Line]:
        if self.filter.text:
            return view.chip(self.filter, 0, len(self.words.incidents))
        if self.outcome is None or self.player.ended:
            enough = self.outcome is not None and self.outcome.samples > 0
            (said, role), *_ = report.verdict((), enough=enough)
            return wrap(((f" {said[0].upper()}{said[1:]}", role),), columns, 1)
        return [line(" Nothing had been found yet at this time.", "dim")]

    def _row(self, at: int) -> Line:
        if view.frame(self.size.width, self.size.height, len(self.rows)).kind == "bare":
            return view.bare_line(self.rows[at], self.words)
        return view.row_line(self.rows[at], self.columns, self.words, self.player.time)

    def _detail(self, columns: int, rows: int) -> list[Line]:
        chosen = self.selected
        if chosen is None:
            return self._summary(columns) if self.outcome else []
        if self.maximised:
            return detail.full(chosen, self.words, self.player.time, columns)
        return detail.best(chosen, self.words, self.player.time, columns, rows)

    def _summary(self, columns: int) -> list[Line]:
        if self.outcome is None:
            return []
        return [*wrap(line(report.watched(self.outcome)), columns), *report.missing(self.outcome, columns)]

    @property
    def maximised(self) -> bool:
        """Whether the detail has the screen for itself."""
        return self.screen_stack[0].has_class("-full")

    def on_diagnosis_list_picked(self) -> None:
        """Another diagnosis, another detail."""
        self.pane.scroll_to(y=0, animate=False)
        self.pane.renew()

    def on_diagnosis_list_opened(self) -> None:
        """The same as enter."""
        self.action_open()

    def on_bar_view_sought(self, event: BarView.Sought) -> None:
        """Go where the bar was clicked."""
        if self.outcome is not None and (now := self.snapshot):
            share = view.bar_share(event.column, self.size.width)
            self._go(self.player.seek(now.start + share * (now.end - now.start)))

    # What keys do; the table is `keymap`.

    def action_move(self, by: int) -> None:
        """Move in what is shown."""
        if self.maximised:
            self.pane.scroll_relative(y=by, animate=False)
        else:
            self.menu.move(by)

    def action_page(self, by: int) -> None:
        """Move by a page."""
        if self.maximised:
            self.pane.scroll_relative(y=by * max(self.pane.size.height - 1, 1), animate=False)
        else:
            self.menu.page(by)

    def action_open(self) -> None:
        """The detail in full, and back."""
        if self.selected is not None:
            self.screen_stack[0].toggle_class("-full")
            self.pane.scroll_to(y=0, animate=False)
            self.call_after_refresh(self._renew_lines)

    def action_leave(self) -> None:
        """Out of what is open; never out of the console."""
        if self.asking:
            self._asked(None)
        elif self.maximised:
            self.action_open()
        elif self.filter.text:
            self._filter("")

    def action_fold(self) -> None:
        """Fold what a diagnosis explains, or show it."""
        self.folded = not self.folded
        self._renew()

    def action_catalogue(self) -> None:
        """The catalogue's entry of the condition under the cursor."""
        from skewscope.tui.entries import condition_lines  # noqa: PLC0415 - only when it is asked for

        if (chosen := self.selected) is None:
            return
        known = self.words.catalogue.conditions.get(chosen.condition)
        lines = condition_lines(known, self.words) if known else [line("The catalogue has no such entry.")]
        self.push_screen(TextScreen(chosen.condition, lambda _columns: lines, ascii_=self.ascii))

    def action_sources(self) -> None:
        """Who reports and what is missing."""
        self.push_screen(TextScreen("sources", self._summary, ascii_=self.ascii))

    def action_help(self) -> None:
        """All keys."""
        self.push_screen(TextScreen("keys", lambda _columns: help_lines(), ascii_=self.ascii))

    def action_play(self) -> None:
        """Play or hold."""
        self._go(self.player.toggle())

    def action_step(self, by: int) -> None:
        """A snapshot on or back."""
        self._go(self.player.step(by))

    def action_jump(self, by: int) -> None:
        """Seconds of data on or back."""
        self._go(self.player.jump(by))

    def action_speed(self, by: int) -> None:
        """Faster or slower."""
        self._go(self.player.shift(by))

    # The prompt.

    def action_filter(self) -> None:
        """Ask for a filter."""
        self._ask("filter: text  !text  sev>=warning  sure>80  node:n2", self.filter.text, self._filter)

    def action_goto(self) -> None:
        """Ask for a time."""
        self._ask("go to: 12:03:11, +30 from the start, -10 from the end", "", self._goto)

    def _ask(self, hint: str, value: str, then: Callable[[str], None]) -> None:
        prompt = self.query_one("#prompt", Input)
        self.asking = then
        prompt.placeholder, prompt.value = hint, value
        self.screen_stack[0].add_class("-asking")
        prompt.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """A filter works while it is typed."""
        if self.asking == self._filter:
            self._filter(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Do what was asked for."""
        self._asked(event.value)

    def _asked(self, answer: str | None) -> None:
        then, self.asking = self.asking, None
        self.screen_stack[0].remove_class("-asking")
        self.menu.focus()
        if then == self._filter and answer is None:
            answer = ""
        if then and answer is not None:
            then(answer)

    def _filter(self, words: str) -> None:
        self.filter = view.parse_filter(words, self.words)
        self._renew()

    def _goto(self, words: str) -> None:
        now = self.snapshot
        time = asked_time(words, now.start, now.end) if now else None
        if time is None:
            self.notify(f"{words!r} is no time of this replay: write 12:03:11, +30 or -10", severity="warning")
        else:
            self._go(self.player.seek(time))
