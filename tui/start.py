"""Starts the console: settings, keys and ledger from where this person keeps them, a recording into a film."""

import getpass
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skewscope.kb.problems import InputError, Problem, SkewscopeError, nearest

if TYPE_CHECKING:
    from skewscope.adapters.film import Film

KEYS = "keys.toml"
LEDGER = "ledger.jsonl"
READING_SWITCH_S = 0.001
"""How long the thread that reads may keep a key waiting each time, instead of Python's 5 ms."""
THEMES = ("dark", "light", "high-contrast", "ansi-dark", "ansi-light", "nord", "gruvbox", "solarized-light")
_NAMES = {"dark": "textual-dark", "light": "textual-light"}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for on the command line."""

    ascii: bool = False
    write: bool = False
    theme: str = ""
    keys: Path | None = None
    ledger: Path | None = None


def settings() -> Path:
    """Where a person's settings are kept."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "skewscope"


def memory() -> Path:
    """Where what happened is kept."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "skewscope"


def theme_of(wanted: str) -> str:
    """Textual's name of a theme.

    Raises:
        InputError: there is no such theme.
    """
    if wanted and wanted not in THEMES:
        hint = nearest(wanted, THEMES)
        raise InputError([Problem("--theme", 0, "", repr(wanted), f"one of {', '.join(THEMES)}", hint)])
    return _NAMES.get(wanted, wanted)


def who() -> str:
    """Who sits there."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "operator"


def console(recording: Path, wishes: Wishes) -> int:
    """Show a recording in the console; the exit code.

    Raises:
        SkewscopeError: what keeps it from starting.
    """
    from skewscope.adapters.recording import open_recording  # noqa: PLC0415

    open_recording(recording)  # what is wrong with it is told before a screen opens
    from multiprocessing import resource_tracker  # noqa: PLC0415

    from skewscope.adapters.film import Film  # noqa: PLC0415
    from skewscope.tui import keymap, ledger  # noqa: PLC0415
    from skewscope.tui.app import Console, Options  # noqa: PLC0415
    from skewscope.tui.catalogue import catalogue  # noqa: PLC0415
    from skewscope.tui.detail import Words  # noqa: PLC0415

    own = wishes.keys or settings() / KEYS
    keys = keymap.load(own) if wishes.keys or own.exists() else keymap.KEYS
    # Without leave to write nothing is written, but what was written is shown.
    kept = ledger.read(wishes.ledger or memory() / LEDGER)
    options = Options(
        colour=not os.environ.get("NO_COLOR"),
        ascii=wishes.ascii,
        write=wishes.write,
        theme=theme_of(wishes.theme),
        keys=keys,
        ledger=kept,
        who=who(),
    )
    sys.setswitchinterval(READING_SWITCH_S)
    resource_tracker.ensure_running()  # processes that read need it, and it needs the standard error the console takes
    film = Film()
    shown = Console(film, Words(catalogue()), options, read=lambda heard: _read(recording, film, heard))
    failure = shown.run()
    if isinstance(failure, SkewscopeError):
        raise failure
    return shown.return_code or 0


def _read(recording: Path, film: "Film", heard: object) -> None:
    from skewscope.adapters.replay import replay  # noqa: PLC0415

    replay(recording, progress=heard, film=film, workers=None)  # type: ignore[arg-type]
