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

from skewscope.adapters.scene import Feed
from skewscope.engine.incident import Incident
from skewscope.kb.problems import SkewscopeError
from skewscope.tui import report, units
from skewscope.tui.desk import RATES, Desk, Jump
from skewscope.tui.detail import Words
from skewscope.tui.keymap import KEYS, Key, help_lines, on_page
from skewscope.tui.lean import lean
from skewscope.tui.ledger import Ledger
from skewscope.tui.pages.actions import Actions
from skewscope.tui.pages.base import Page
from skewscope.tui.pages.catalogue import CataloguePage
from skewscope.tui.pages.diagnoses import Diagnoses
from skewscope.tui.pages.fabric import Fabric
from skewscope.tui.pages.signals import COLUMNS, SignalTable
from skewscope.tui.screen import PageScreen, Sheet
from skewscope.tui.text import Line, line
from skewscope.tui.verbs import ActVerbs, TimeVerbs

Progress = Callable[[str, float], None]
Read = Callable[[Progress], None]
PLAY_S = 0.25
SAID_S = 6.0
"""How long something that was said stays in the footer."""
CONTRAST = Theme(
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
class Options:
    """How a console looks and what it may do."""

    colour: bool = True
    ascii: bool = False
    write: bool = False
    theme: str = ""
    keys: Sequence[Key] = KEYS
    ledger: Ledger = field(default_factory=Ledger)
    who: str = "operator"
    folder: Path = field(default_factory=Path.cwd)
    """Where recordings are kept."""


class Console(App[SkewscopeError]):
    """Five screens; it returns what kept it from starting, if anything did."""

    CSS_PATH = Path(__file__).with_name("console.tcss")  # a console of somebody else's making has it as well
    TITLE = "Skewscope"
    DEFAULT_MODE: ClassVar[str] = "diagnoses"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING: ClassVar[str] = "f24"  # ours are in the table of keys

    def __init__(self, feed: Feed, words: Words, options: Options | None = None, *, read: Read | None = None) -> None:
        self.options = options or Options()
        super().__init__(ansi_color=not self.options.colour)
        self.register_theme(CONTRAST)
        if not self.options.colour:
            self.theme = "ansi-dark"
        elif self.options.theme:
            self.theme = self.options.theme
        self.keys = tuple(self.options.keys)
        self.desk = Desk(feed, words, self.options.ledger, self.options.write, self.options.who, self.options.ascii)
        self.desk.jump, self.desk.tell = self.jump, self.tell
        self.read = read
        self.said: tuple[str, bool] | None = None
        self.pages: tuple[Page, ...] = (
            Diagnoses(self.desk),
            Fabric(self.desk),
            SignalTable(self.desk),
            CataloguePage(self.desk),
            Actions(self.desk),
        )
        self.verbs = (TimeVerbs(self), ActVerbs(self))
        for page in self.pages:
            self.add_mode(page.name, partial(PageScreen, page))
        for key in self.keys:
            self.bind(key.binding, f"do({key.verb!r}, {key.arg})", description=key.does, show=False)

    def get_driver_class(self) -> type[Driver]:
        """What writes to the terminal, with fewer bytes."""
        return lean(super().get_driver_class())

    def on_mount(self) -> None:
        """Start reading; the screen stays alive meanwhile."""
        if self.read is None:
            self.desk.progress = None
            self.pull()
        else:
            # Reading takes the processor: the first screen goes before.
            self.call_after_refresh(self.run_worker, self._reading, thread=True)
        self.timer = self.set_interval(RATES[self.desk.rate], self.pull)
        self._play = self.set_interval(PLAY_S, self._played)

    # --- reading

    def _reading(self) -> None:
        worker = get_current_worker()
        assert self.read is not None

        def heard(stage: str, share: float) -> None:
            if worker.is_cancelled:
                raise StoppedError(stage)
            self.desk.progress = (stage, share)

        try:
            self.read(heard)
        except StoppedError:
            return
        except (SkewscopeError, OSError) as error:
            told = error if isinstance(error, SkewscopeError) else SkewscopeError(str(error))
            self.call_from_thread(self.exit, told, 2)
            return
        if not worker.is_cancelled:
            self.call_from_thread(self._there)

    def _there(self) -> None:
        """Everything was read: a recording stands at its end, where everything that happened can be seen."""
        self.desk.progress = None
        self.desk.pull()
        self.desk.openings = tuple(i.opened_at for i in self.desk.scene.incidents) if self.desk.scene else ()
        self.desk.following = self.desk.feed.live
        self.desk.version += 1
        self.show()

    # --- time

    def pull(self) -> None:
        """Look whether there is another scene."""
        moved = self.desk.pull()
        if moved or self.desk.progress is not None:
            self.show(calmly=True)
        elif self.desk.feed.live:
            self._lines("#status")

    def _played(self) -> None:
        if self.desk.player.playing:
            before = self.desk.player.index
            self.desk.go(self.desk.player.elapse(PLAY_S))
            if self.desk.player.index != before or not self.desk.player.playing:
                self.show()

    def show(self, *, calmly: bool = False) -> None:
        """Show the desk's scene on the screen that is there."""
        if isinstance(self.screen, PageScreen):
            self.screen.renew(calmly=calmly)

    def _lines(self, which: str) -> None:
        if isinstance(self.screen, PageScreen):
            for widget in self.screen.query(which):
                widget.renew()  # type: ignore[attr-defined]

    # --- saying

    def tell(self, text: str, bad: bool) -> None:
        """Say something in the footer for a while."""
        self.said = (text, bad)
        self._lines("#footer")
        self.set_timer(SAID_S, lambda said=self.said: self._unsay(said))

    def _unsay(self, said: tuple[str, bool]) -> None:
        if self.said is said:
            self.said = None
            self._lines("#footer")

    # --- keys

    @property
    def here(self) -> PageScreen | None:
        """The screen on show, unless something lies over it."""
        return self.screen if isinstance(self.screen, PageScreen) else None

    @property
    def chosen(self) -> Incident | None:
        """The incident under the cursor, where the screen has incidents."""
        return getattr(self.here.page, "selected", None) if self.here else None

    @property
    def selection(self) -> tuple[Incident, ...]:
        """The incidents that are marked, or else the one under the cursor."""
        marked: tuple[Incident, ...] = getattr(self.here.page, "marked", ()) if self.here else ()
        return marked or ((self.chosen,) if self.chosen else ())

    def unmark(self) -> None:
        """Nothing is marked any more: what was to be done with it is done."""
        if self.here is not None and isinstance(self.here.page, Diagnoses):
            self.here.page.marks.clear()

    def action_do(self, verb: str, arg: int) -> None:
        """What a key means: first on the screen, then everywhere."""
        here = self.here
        if here is None:
            return
        if here.asking and verb == "leave":
            here.answered(None)
            return
        if self.said:
            self.said = None
            self._lines("#footer")
        if here.do(verb, arg):
            return
        owner = next((each for each in (self, *self.verbs) if hasattr(each, f"do_{verb}")), None)
        if owner is None:
            self.tell("That key means nothing on this screen; ? tells which do.", True)
        else:
            getattr(owner, f"do_{verb}")(arg)

    def jump(self, to: Jump) -> None:
        """Show something on another screen."""
        page = self.pages[to.page - 1]
        if to.id and self.here is not None:
            page.origin = self.here.page.number
        if isinstance(page, CataloguePage) and to.id:
            page.show(to.id)
        elif to.id:
            page.narrow(to.id)
        self.do_page(to.page)

    def do_page(self, arg: int) -> None:
        """One of the five screens, as it was left."""
        self.desk.page = arg
        self.switch_mode(self.pages[arg - 1].name)
        self.show()

    def do_entry(self, _arg: int) -> None:
        """The catalogue's entry of what is under the cursor."""
        subject = self.here.page.subject if self.here else ""
        if subject:
            self.jump(Jump(4, subject))

    def do_filter(self, _arg: int) -> None:
        """Ask for a filter."""
        if self.here is not None:
            page = self.here.page
            self.here.ask(f"filter: {page.fields}", page.filter, self._filtered, live=True)

    def _filtered(self, text: str) -> None:
        if self.here is not None:
            self.here.page.narrow(text)
            self.here.renew()

    def do_help(self, _arg: int) -> None:
        """The keys of this screen."""
        name = self.here.page.name if self.here else ""
        self.sheet(f"keys of {name}", lambda _columns: help_lines(self.keys, name), choices="?")

    def do_sources(self, _arg: int) -> None:
        """Who reports and what is missing."""
        self.sheet("sources", self._sources, choices="s")

    def _sources(self, columns: int) -> list[Line]:
        scene = self.desk.scene
        if scene is None:
            return [line("Nothing has come yet.")]
        watched = f"Watched {report.fleet(scene.topology)} for {units.seconds(scene.time - scene.start)}."
        trouble = [line(self.desk.feed.trouble, "warn")] if self.desk.feed.trouble else []
        return [line(watched), *trouble, *report.unseen(scene.missing, scene.sources, columns)]

    def sheet(
        self,
        title: str,
        lines: Callable[[int], list[Line]],
        then: Callable[[str], None] | None = None,
        choices: str = "",
    ) -> None:
        def answered(answer: str | None) -> None:
            if then is not None and answer:
                then(answer)
            self.show()

        self.push_screen(Sheet(title, lines, ascii_=self.desk.ascii, choices=choices), answered)

    # --- the rest

    def do_columns(self, _arg: int) -> None:
        """Choose the columns of the table of signals."""
        page = self.here.page if self.here else None
        if not isinstance(page, SignalTable):
            return
        letters = "abcdefghijklmnop"
        free = [column for column in COLUMNS if column.keep]

        def lines(_columns: int) -> list[Line]:
            return [
                ((f"  {letters[n]}", "key"), (f"  {' ' if c.id in page.hidden else 'x'}  {c.title}", ""))
                for n, c in enumerate(free)
            ]

        def then(answer: str) -> None:
            page.hidden ^= {free[letters.index(answer)].id}
            self.show()
            self.do_columns(0)

        self.sheet("columns", lines, then, letters[: len(free)])

    def do_copy(self, arg: int) -> None:
        """What is under the cursor, or marked, into the clipboard of the terminal: as text, or as JSON."""
        page = self.here.page if self.here else None
        text = "" if page is None else page.copied() if arg else page.told()
        if text:
            self.copy_to_clipboard(text)
            self.tell(f"copied {len(text)} characters of {'JSON' if arg else 'text'}", False)

    def do_palette(self, _arg: int) -> None:
        """The palette."""
        self.action_command_palette()

    def do_quit(self, _arg: int) -> None:
        """Leave."""
        self.exit()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers: what keys do here, entries of the catalogue, nodes, themes."""
        name = screen.page.name if isinstance(screen, PageScreen) else ""
        for key in on_page(self.keys, name):
            if key.group != "Move":
                yield SystemCommand(
                    f"{key.does[:1].upper()}{key.does[1:]}",
                    key.shown,
                    lambda k=key: self.action_do(k.verb, k.arg),
                )
        for entry in self.desk.words.catalogue.conditions.values():
            yield SystemCommand(
                f"Entry: {entry.name}",
                entry.id,
                lambda id_=entry.id: self.jump(Jump(4, id_)),
                discover=False,
            )
        nodes = self.desk.scene.topology.node if self.desk.scene else {}
        for node in nodes:
            yield SystemCommand(
                f"Only node {node}",
                "narrow all screens to it",
                lambda n=node: self._only(n),
                discover=False,
            )
        yield SystemCommand("Theme", "light, dark, high contrast, ...", self.action_change_theme)

    def _only(self, node: str) -> None:
        from skewscope.tui.whereabouts import Scope  # noqa: PLC0415

        self.desk.narrow(Scope(f"node {node}", frozenset([node])))
        self.show()


def colour_wanted() -> bool:
    """Whether the environment lets a console use colours."""
    return not os.environ.get("NO_COLOR")
