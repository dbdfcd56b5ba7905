"""The console application: five screens over one shared state, refreshed at its own pace."""

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

from skewscope.adapters.view.action_feed import ActionFeed
from skewscope.adapters.view.snapshot import ViewFeed
from skewscope.engine.model.incident import Incident
from skewscope.kb.problems import SkewscopeError
from skewscope.tui.console.action_commands import ActionCommands
from skewscope.tui.console.ansi_driver import make_compact_driver
from skewscope.tui.console.commands import IncidentCommands, TimeCommands
from skewscope.tui.console.console_screen import ConsoleScreen, TextDialog
from skewscope.tui.console.copy_commands import CopyCommands
from skewscope.tui.console.keymap import KEYS, KeyBinding, help_lines, keys_for_screen
from skewscope.tui.console.operator_log import OperatorLog
from skewscope.tui.console.role_colours import role_colours
from skewscope.tui.console.screens.actions import ActionsModel
from skewscope.tui.console.screens.base import ScreenModel
from skewscope.tui.console.screens.catalogue import CatalogueModel
from skewscope.tui.console.screens.diagnoses import DiagnosesModel
from skewscope.tui.console.screens.fabric import FabricModel
from skewscope.tui.console.screens.signals import COLUMNS, SignalsModel
from skewscope.tui.console.state import REFRESH_INTERVALS_S, ConsoleState, NavigationTarget
from skewscope.tui.render import report
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.incident_timeline import build_timeline
from skewscope.tui.render.text import Line, line

Progress = Callable[[str, float], None]
ReadRecording = Callable[[Progress], None]
PLAY_INTERVAL_S = 0.25
MESSAGE_S = 6.0
"""Seconds for which a message stays in the footer."""
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
"""Orange and blue, which remain distinct with most forms of colour blindness."""


class StoppedError(SkewscopeError):
    """The console was closed before its data was read."""


@dataclass(frozen=True)
class ConsoleOptions:
    """Appearance and permissions of a console."""

    colour: bool = True
    ascii: bool = False
    write: bool = False
    theme: str = ""
    keys: Sequence[KeyBinding] = KEYS
    operator_log: OperatorLog = field(default_factory=OperatorLog)
    operator: str = "operator"
    recordings_folder: Path = field(default_factory=Path.cwd)
    """The folder in which new recordings and pages are created."""
    state_folder: Path | None = None
    """The folder in which copied texts are kept too; None for a console that writes no file."""
    action_feed: ActionFeed | None = None
    """The actions of the controller that is shown; None for a recording."""
    title: str = ""
    """What is shown, where it is no fleet of the reader: `built-in demo`."""


class Console(App[SkewscopeError]):
    """Five screens; returns the error that kept it from starting, if any."""

    CSS_PATH = Path(__file__).with_name("console.tcss")  # absolute, so that subclasses elsewhere find it
    TITLE = "Skewscope"
    DEFAULT_MODE: ClassVar[str] = "diagnoses"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING: ClassVar[str] = "f24"  # never pressed: the palette's keys are in the key table

    def __init__(
        self,
        feed: ViewFeed,
        names: DisplayNames,
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
            feed, names, self.options.operator_log, self.options.write, self.options.operator, self.options.ascii
        )
        self.state.action_feed, self.state.title = self.options.action_feed, self.options.title
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
        self.copies = CopyCommands(self)
        self.commands = (TimeCommands(self), IncidentCommands(self), ActionCommands(self), self.copies)
        for model in self.models:
            self.add_mode(model.name, partial(ConsoleScreen, model))
        for key in self.keys:
            self.bind(key.textual_keys, f"do({key.command!r}, {key.arg})", description=key.description, show=False)

    def get_driver_class(self) -> type[Driver]:
        """Returns Textual's driver class with compacted output."""
        return make_compact_driver(super().get_driver_class())

    def get_css_variables(self) -> dict[str, str]:
        """Returns the variables of the theme, with the colours of the roles."""
        variables = super().get_css_variables()
        return {**variables, **role_colours(variables)}

    def on_mount(self) -> None:
        """Start reading data in the background."""
        if self.read is None:
            self.state.progress = None
            self.pull()
        else:
            # Reading uses the processor: draw the first screen before it starts.
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
            failure = error if isinstance(error, SkewscopeError) else SkewscopeError(str(error))
            self.call_from_thread(self.exit, failure, 2)
            return
        if not worker.is_cancelled:
            self.call_from_thread(self._finish_reading)

    def _finish_reading(self) -> None:
        """Show the end of the recording, where all incidents are visible."""
        self.state.progress = None
        self.state.pull()
        self.state.pull_actions()
        if (now := self.state.snapshot) is not None:
            timeline = build_timeline(now.incidents, now.start, now.end, self.state.names)
            self.state.incident_lengths = timeline.lengths
        self.state.follow = self.state.feed.live
        self.state.version += 1
        self.redraw()

    # --- time

    def pull(self) -> None:
        """Redraw if there is a newer snapshot."""
        moved, before = self.state.pull(), self.state.version
        if fresh := self.state.pull_actions():
            what = fresh[0] if len(fresh) == 1 else f"{len(fresh)} changes"
            self.show_message(f"proposed: {what}; 5 shows it", False)
        if moved or self.state.version != before or self.state.progress is not None:
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
        """Redraw the visible screen from the current snapshot."""
        if self.current_screen is not None:
            self.current_screen.renew(calmly=calmly)

    def _renew_widgets(self, which: str) -> None:
        if self.current_screen is not None:
            for widget in self.current_screen.query(which):
                widget.renew()  # type: ignore[attr-defined]

    # --- messages

    def show_message(self, text: str, bad: bool) -> None:
        """Show a message in the footer for a few seconds."""
        self.message = (text, bad)
        self._renew_widgets("#footer")
        self.set_timer(MESSAGE_S, lambda message=self.message: self._clear_message(message))

    def _clear_message(self, message: tuple[str, bool]) -> None:
        if self.message is message:
            self.message = None
            self._renew_widgets("#footer")

    # --- keys

    @property
    def current_screen(self) -> ConsoleScreen | None:
        """The visible screen, None under a dialog, and once the console ends and a timer still runs."""
        top = self.screen_stack[-1] if self.screen_stack else None
        return top if isinstance(top, ConsoleScreen) else None

    @property
    def selected_incident(self) -> Incident | None:
        """The incident under the cursor, None on screens without incidents."""
        return self.current_screen.model.selected_incident if self.current_screen else None

    @property
    def selected_incidents(self) -> tuple[Incident, ...]:
        """The marked incidents, or the one under the cursor if none is marked."""
        marked = self.current_screen.model.marked_incidents if self.current_screen else ()
        return marked or ((self.selected_incident,) if self.selected_incident else ())

    def clear_marks(self) -> None:
        """Clear all marks."""
        if self.current_screen is not None and isinstance(self.current_screen.model, DiagnosesModel):
            self.current_screen.model.marked_ids.clear()

    def action_do(self, command: str, arg: int) -> None:
        """Run a key's command on the screen, or else on the console."""
        screen = self.current_screen
        if screen is None:
            return
        if screen.answer_handler and command == "back":
            screen.finish_prompt(None)
            return
        if self.message:
            self.message = None
            self._renew_widgets("#footer")
        if screen.run_command(command, arg):
            return
        owner = next((each for each in (self, *self.commands) if hasattr(each, f"do_{command}")), None)
        if owner is None:
            self.show_message("This key has no effect on this screen; ? lists the keys.", True)
        else:
            getattr(owner, f"do_{command}")(arg)

    def navigate(self, to: NavigationTarget) -> None:
        """Show a target on another screen."""
        model = self.models[to.screen - 1]
        if to.subject and self.current_screen is not None:
            model.origin = self.current_screen.model.number
        if isinstance(model, CatalogueModel) and to.subject:
            model.show_entry(to.subject)
        elif to.subject:
            model.set_filter(to.subject)
        self.do_screen(to.screen)

    def do_screen(self, arg: int) -> None:
        """Show one of the five screens in its last state."""
        self.state.screen = arg
        self.switch_mode(self.models[arg - 1].name)
        self.redraw()

    def do_entry(self, _arg: int) -> None:
        """Show the catalogue entry of the row under the cursor."""
        subject = self.current_screen.model.subject if self.current_screen else ""
        if subject:
            self.navigate(NavigationTarget(4, subject))

    def do_filter(self, _arg: int) -> None:
        """Prompt for a filter."""
        if self.current_screen is not None:
            model = self.current_screen.model
            self.current_screen.prompt_for(
                f"filter: {model.filter_example}", model.filter, self._apply_filter, live=True
            )

    def _apply_filter(self, text: str) -> None:
        if self.current_screen is not None:
            self.current_screen.model.set_filter(text)
            self.current_screen.renew()

    def do_help(self, _arg: int) -> None:
        """Show the keys of this screen."""
        name = self.current_screen.model.name if self.current_screen else ""
        self.show_dialog(f"keys of {name}", lambda columns: help_lines(self.keys, name, columns), choices="?")

    def do_sources(self, _arg: int) -> None:
        """Show the sources and the missing data."""
        self.show_dialog("sources", self._source_lines, choices="s")

    def _source_lines(self, columns: int) -> list[Line]:
        snapshot = self.state.snapshot
        if snapshot is None:
            return [line("No data received yet.")]
        watched = report.snapshot_summary(snapshot)
        trouble = [line(self.state.feed.trouble, "warn")] if self.state.feed.trouble else []
        missing = report.missing_data_lines(snapshot.missing, snapshot.sources, columns)
        return [line(watched), *trouble, *missing, *report.unplaced_lines(snapshot.unplaced, columns)]

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

    # --- other commands

    def do_columns(self, _arg: int) -> None:
        """Choose the columns of the signal table."""
        model = self.current_screen.model if self.current_screen else None
        if not isinstance(model, SignalsModel):
            return
        letters = "abcdefghijklmnop"
        free = [column for column in COLUMNS if column.priority]

        def lines(_columns: int) -> list[Line]:
            return [
                ((f"  {letters[n]}", "key"), (f"  {' ' if c.id in model.hidden_columns else 'x'}  {c.title}", ""))
                for n, c in enumerate(free)
            ]

        def then(answer: str) -> None:
            model.hidden_columns ^= {free[letters.index(answer)].id}
            self.redraw()
            self.do_columns(0)

        self.show_dialog("columns", lines, then, letters[: len(free)])

    def do_palette(self, _arg: int) -> None:
        """Open the command palette."""
        self.action_command_palette()

    def do_quit(self, _arg: int) -> None:
        """Quit."""
        self.exit()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Returns the palette's commands: keys of this screen, catalogue entries, nodes, themes."""
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
                "restrict all screens to this node",
                lambda n=node: self._scope_to_node(n),
                discover=False,
            )
        yield SystemCommand("Theme", "light, dark, high contrast, ...", self.action_change_theme)

    def _scope_to_node(self, node: str) -> None:
        from skewscope.tui.render.node_lookup import NodeScope  # noqa: PLC0415

        self.state.set_scope(NodeScope(f"node {node}", frozenset([node])))
        self.redraw()


def is_colour_enabled() -> bool:
    """Returns whether the environment allows colours."""
    return not os.environ.get("NO_COLOR")
