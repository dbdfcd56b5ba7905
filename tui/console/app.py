"""The console: five screens over one desk. It pulls scenes at its own pace and holds up nobody."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.driver import Driver
from textual.screen import Screen
from textual.theme import Theme
from textual.worker import get_current_worker

from skewscope.adapters.view.snapshot import ViewFeed
from skewscope.engine.model.incident import Incident
from skewscope.kb.problems import SkewscopeError
from skewscope.tui.console.ansi_driver import make_compact_driver
from skewscope.tui.console.commands import IncidentCommands, TimeCommands
from skewscope.tui.console.console_screen import ConsoleScreen, TextDialog
from skewscope.tui.console.keymap import KEYS, KeyBinding, help_lines, keys_for_screen
from skewscope.tui.console.operator_log import OperatorLog
from skewscope.tui.console.screens.actions import ActionsModel
from skewscope.tui.console.screens.base import ScreenModel
from skewscope.tui.console.screens.catalogue import CatalogueModel
from skewscope.tui.console.screens.diagnoses import DiagnosesModel
from skewscope.tui.console.screens.fabric import FabricModel
from skewscope.tui.console.screens.signals import COLUMNS, SignalsModel
from skewscope.tui.console.state import REFRESH_INTERVALS_S, ConsoleState, NavigationTarget
from skewscope.tui.render import report, units
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.text import Line, line

Progress = Callable[[str, float], None]
ReadRecording = Callable[[Progress], None]
PLAY_INTERVAL_S = 0.25
MESSAGE_S = 6.0
"""How long something that was said stays in the footer."""
HIGH_CONTRAST = Theme(
    name="high-contrast",
    primary="#5fafff",
    secondary="#ffd75f",
    error="#ff9d00",
    warning="#ffd75f",
    success="#5fd7ff",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    dark=True,
)
"""Orange and blue: told apart by nearly everybody."""


class StoppedError(SkewscopeError):
    """The console was left before its data had been read."""


@dataclass(frozen=True)
class ConsoleOptions:
    """How a console looks and what it may do."""

    colour: bool = True
    ascii: bool = False
    write: bool = False
    theme: str = ""
    keys: Sequence[KeyBinding] = KEYS
    operator_log: OperatorLog = field(default_factory=OperatorLog)
    operator: str = "operator"
    recordings_folder: Path = field(default_factory=Path.cwd)
    """Where recordings are kept."""


class Console(App[SkewscopeError]):
    """Five screens; it returns what kept it from starting, if anything did."""

    CSS_PATH = Path(__file__).with_name("console.tcss")  # a console of somebody else's making has it as well
    TITLE = "Skewscope"
    DEFAULT_MODE: ClassVar[str] = "diagnoses"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING: ClassVar[str] = "f24"  # ours are in the table of keys

    def __init__(
        self,
        feed: ViewFeed,
        words: DisplayNames,
        options: ConsoleOptions | None = None,
        *,
        read: ReadRecording | None = None,
    ) -> None:
        self.options = options or ConsoleOptions()
        super().__init__(ansi_color=not self.options.colour)
        self.register_theme(HIGH_CONTRAST)
        if not self.options.colour:
            self.theme = "ansi-dark"
        elif self.options.theme:
            self.theme = self.options.theme
        self.keys = tuple(self.options.keys)
        self.state = ConsoleState(
            feed, words, self.options.operator_log, self.options.write, self.options.operator, self.options.ascii
        )
        self.state.navigate, self.state.show_message = self.navigate, self.show_message
        self.read = read
        self.message: tuple[str, bool] | None = None
        self.models: tuple[ScreenModel, ...] = (
            DiagnosesModel(self.state),
            FabricModel(self.state),
            SignalsModel(self.state),
            CatalogueModel(self.state),
            ActionsModel(self.state),
        )
        self.commands = (TimeCommands(self), IncidentCommands(self))
        for page in self.models:
            self.add_mode(page.name, partial(ConsoleScreen, page))
        for key in self.keys:
            self.bind(key.textual_keys, f"do({key.command!r}, {key.arg})", description=key.description, show=False)

    def get_driver_class(self) -> type[Driver]:
        """What writes to the terminal, with fewer bytes."""
        return make_compact_driver(super().get_driver_class())

    def on_mount(self) -> None:
        """Start reading; the screen stays alive meanwhile."""
        if self.read is None:
            self.state.progress = None
            self.pull()
        else:
            # Reading takes the processor: the first screen goes before.
            self.call_after_refresh(self.run_worker, self._read_data, thread=True)
        self.timer = self.set_interval(REFRESH_INTERVALS_S[self.state.refresh_index], self.pull)
        self._play = self.set_interval(PLAY_INTERVAL_S, self._advance_replay)

    # --- reading

    def _read_data(self) -> None:
        worker = get_current_worker()
        assert self.read is not None

        def report_progress(stage: str, share: float) -> None:
            if worker.is_cancelled:
                raise StoppedError(stage)
            self.state.progress = (stage, share)

        try:
            self.read(report_progress)
        except StoppedError:
            return
        except (SkewscopeError, OSError) as error:
            told = error if isinstance(error, SkewscopeError) else SkewscopeError(str(error))
            self.call_from_thread(self.exit, told, 2)
            return
        if not worker.is_cancelled:
            self.call_from_thread(self._finish_reading)

    def _finish_reading(self) -> None:
        """Everything was read: a recording stands at its end, where everything that happened can be seen."""
        self.state.progress = None
        self.state.pull()
        self.state.incident_starts = (
            tuple(i.opened_at for i in self.state.snapshot.incidents) if self.state.snapshot else ()
        )
        self.state.follow = self.state.feed.live
        self.state.version += 1
        self.redraw()

    # --- time

    def pull(self) -> None:
        """Look whether there is another scene."""
        moved = self.state.pull()
        if moved or self.state.progress is not None:
            self.redraw(calmly=True)
        elif self.state.feed.live:
            self._renew_widgets("#status")

    def _advance_replay(self) -> None:
        if self.state.player.playing:
            before = self.state.player.index
            self.state.seek(self.state.player.advance(PLAY_INTERVAL_S))
            if self.state.player.index != before or not self.state.player.playing:
                self.redraw()

    def redraw(self, *, calmly: bool = False) -> None:
        """Show the desk's scene on the screen that is there."""
        if isinstance(self.screen, ConsoleScreen):
            self.screen.renew(calmly=calmly)

    def _renew_widgets(self, which: str) -> None:
        if isinstance(self.screen, ConsoleScreen):
            for widget in self.screen.query(which):
                widget.renew()  # type: ignore[attr-defined]

    # --- saying

    def show_message(self, text: str, bad: bool) -> None:
        """Say something in the footer for a while."""
        self.message = (text, bad)
        self._renew_widgets("#footer")
        self.set_timer(MESSAGE_S, lambda said=self.message: self._clear_message(said))

    def _clear_message(self, said: tuple[str, bool]) -> None:
        if self.message is said:
            self.message = None
            self._renew_widgets("#footer")

    # --- keys

    @property
    def current_screen(self) -> ConsoleScreen | None:
        """The screen on show, unless something lies over it."""
        return self.screen if isinstance(self.screen, ConsoleScreen) else None

    @property
    def selected_incident(self) -> Incident | None:
        """The incident under the cursor, where the screen has incidents."""
        return getattr(self.current_screen.model, "selected_incident", None) if self.current_screen else None

    @property
    def selected_incidents(self) -> tuple[Incident, ...]:
        """The incidents that are marked, or else the one under the cursor."""
        marked: tuple[Incident, ...] = (
            getattr(self.current_screen.model, "marked_incidents", ()) if self.current_screen else ()
        )
        return marked or ((self.selected_incident,) if self.selected_incident else ())

    def clear_marks(self) -> None:
        """Nothing is marked any more: what was to be done with it is done."""
        if self.current_screen is not None and isinstance(self.current_screen.model, DiagnosesModel):
            self.current_screen.model.marked_ids.clear()

    def action_do(self, verb: str, arg: int) -> None:
        """What a key means: first on the screen, then everywhere."""
        here = self.current_screen
        if here is None:
            return
        if here.answer_handler and verb == "back":
            here.finish_prompt(None)
            return
        if self.message:
            self.message = None
            self._renew_widgets("#footer")
        if here.run_command(verb, arg):
            return
        owner = next((each for each in (self, *self.commands) if hasattr(each, f"do_{verb}")), None)
        if owner is None:
            self.show_message("That key means nothing on this screen; ? tells which do.", True)
        else:
            getattr(owner, f"do_{verb}")(arg)

    def navigate(self, to: NavigationTarget) -> None:
        """Show something on another screen."""
        page = self.models[to.screen - 1]
        if to.subject and self.current_screen is not None:
            page.origin = self.current_screen.model.number
        if isinstance(page, CatalogueModel) and to.subject:
            page.show_entry(to.subject)
        elif to.subject:
            page.set_filter(to.subject)
        self.do_screen(to.screen)

    def do_screen(self, arg: int) -> None:
        """One of the five screens, as it was left."""
        self.state.screen = arg
        self.switch_mode(self.models[arg - 1].name)
        self.redraw()

    def do_entry(self, _arg: int) -> None:
        """The catalogue's entry of what is under the cursor."""
        subject = self.current_screen.model.subject if self.current_screen else ""
        if subject:
            self.navigate(NavigationTarget(4, subject))

    def do_filter(self, _arg: int) -> None:
        """Ask for a filter."""
        if self.current_screen is not None:
            page = self.current_screen.model
            self.current_screen.prompt_for(f"filter: {page.filter_example}", page.filter, self._apply_filter, live=True)

    def _apply_filter(self, text: str) -> None:
        if self.current_screen is not None:
            self.current_screen.model.set_filter(text)
            self.current_screen.renew()

    def do_help(self, _arg: int) -> None:
        """The keys of this screen."""
        name = self.current_screen.model.name if self.current_screen else ""
        self.show_dialog(f"keys of {name}", lambda _columns: help_lines(self.keys, name), choices="?")

    def do_sources(self, _arg: int) -> None:
        """Who reports and what is missing."""
        self.show_dialog("sources", self._source_lines, choices="s")

    def _source_lines(self, columns: int) -> list[Line]:
        scene = self.state.snapshot
        if scene is None:
            return [line("Nothing has come yet.")]
        watched = (
            f"Watched {report.fleet_summary(scene.topology)} for {units.format_duration(scene.time - scene.start)}."
        )
        trouble = [line(self.state.feed.trouble, "warn")] if self.state.feed.trouble else []
        return [line(watched), *trouble, *report.unseen_lines(scene.missing, scene.sources, columns)]

    def show_dialog(
        self,
        title: str,
        lines: Callable[[int], list[Line]],
        then: Callable[[str], None] | None = None,
        choices: str = "",
    ) -> None:
        def on_answer(answer: str | None) -> None:
            if then is not None and answer:
                then(answer)
            self.redraw()

        self.push_screen(TextDialog(title, lines, ascii_=self.state.ascii, choices=choices), on_answer)

    # --- the rest

    def do_columns(self, _arg: int) -> None:
        """Choose the columns of the table of signals."""
        page = self.current_screen.model if self.current_screen else None
        if not isinstance(page, SignalsModel):
            return
        letters = "abcdefghijklmnop"
        free = [column for column in COLUMNS if column.priority]

        def lines(_columns: int) -> list[Line]:
            return [
                ((f"  {letters[n]}", "key"), (f"  {' ' if c.id in page.hidden_columns else 'x'}  {c.title}", ""))
                for n, c in enumerate(free)
            ]

        def then(answer: str) -> None:
            page.hidden_columns ^= {free[letters.index(answer)].id}
            self.redraw()
            self.do_columns(0)

        self.show_dialog("columns", lines, then, letters[: len(free)])

    def do_copy(self, arg: int) -> None:
        """What is under the cursor, or marked, into the clipboard of the terminal: as text, or as JSON."""
        page = self.current_screen.model if self.current_screen else None
        text = "" if page is None else page.as_json() if arg else page.as_text()
        if text:
            self.copy_to_clipboard(text)
            self.show_message(f"copied {len(text)} characters of {'JSON' if arg else 'text'}", False)

    def do_palette(self, _arg: int) -> None:
        """The palette."""
        self.action_command_palette()

    def do_quit(self, _arg: int) -> None:
        """Leave."""
        self.exit()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers: what keys do here, entries of the catalogue, nodes, themes."""
        name = screen.model.name if isinstance(screen, ConsoleScreen) else ""
        for key in keys_for_screen(self.keys, name):
            if key.group != "Move":
                yield SystemCommand(
                    f"{key.description[:1].upper()}{key.description[1:]}",
                    key.label,
                    lambda k=key: self.action_do(k.command, k.arg),
                )
        for entry in self.state.names.catalogue.conditions.values():
            yield SystemCommand(
                f"Entry: {entry.name}",
                entry.id,
                lambda id_=entry.id: self.navigate(NavigationTarget(4, id_)),
                discover=False,
            )
        nodes = self.state.snapshot.topology.node if self.state.snapshot else {}
        for node in nodes:
            yield SystemCommand(
                f"Only node {node}",
                "narrow all screens to it",
                lambda n=node: self._scope_to_node(n),
                discover=False,
            )
        yield SystemCommand("Theme", "light, dark, high contrast, ...", self.action_change_theme)

    def _scope_to_node(self, node: str) -> None:
        from skewscope.tui.render.node_lookup import NodeScope  # noqa: PLC0415

        self.state.set_scope(NodeScope(f"node {node}", frozenset([node])))
        self.redraw()


def is_colour_enabled() -> bool:
    """Whether the environment lets a console use colours."""
    return not os.environ.get("NO_COLOR")
