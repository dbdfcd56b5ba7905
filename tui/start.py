"""Starts the console: settings, keys and ledger from where this person keeps them, a recording into a film."""

import getpass
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skewscope.kb.problems import InputError, Problem, SkewscopeError, nearest

if TYPE_CHECKING:
    from skewscope.adapters.channel import Controller
    from skewscope.adapters.film import Film
    from skewscope.adapters.replay import Progress

KEYS = "keys.toml"
TOKEN = "SKEWSCOPE_TOKEN"  # noqa: S105 - its name, not what is in it
"""The variable that may hold a token."""
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

    resource_tracker.ensure_running()  # processes that read need it, and it needs the standard error the console takes
    return _shown(wishes, lambda film, heard: _read(recording, film, heard))


def attached(url: str, token_file: Path | None, wishes: Wishes) -> int:
    """Show what a controller sees in the console; the exit code.

    Raises:
        SkewscopeError: what keeps it from starting, or that nobody answers.
    """
    where = controller(url, token_file)
    return _shown(wishes, lambda film, heard: _attach(where, film, heard))


def controller(url: str, token_file: Path | None) -> "Controller":
    """A controller to ask, with the token that is in a file or else in the environment.

    Raises:
        InputError: the address is none, or the file cannot be read.
    """
    from urllib.parse import urlsplit  # noqa: PLC0415

    from skewscope.adapters.channel import Controller  # noqa: PLC0415

    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise InputError([Problem("--url", 0, "", repr(url), "http://HOST:PORT or https://HOST:PORT")])
    if token_file is not None and not os.access(token_file, os.R_OK):
        raise InputError([Problem("--token-file", 0, "", f"{token_file}, which cannot be read", "a file with a token")])
    token, variable = (str(token_file), "") if token_file else ("", TOKEN)
    return Controller(url.rstrip("/"), token, variable, os.environ.get("SSL_CERT_FILE", ""))


def _shown(wishes: Wishes, read: Callable[["Film", "Progress"], None]) -> int:
    """Opens the console on a film that `read` makes; the exit code."""
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
    film = Film()
    shown = Console(film, Words(catalogue()), options, read=lambda heard: read(film, heard))
    failure = shown.run()
    if isinstance(failure, SkewscopeError):
        raise failure
    return shown.return_code or 0


def _read(recording: Path, film: "Film", heard: "Progress") -> None:
    from skewscope.adapters.replay import replay  # noqa: PLC0415

    replay(recording, progress=heard, film=film, workers=None)


def _attach(where: "Controller", film: "Film", heard: "Progress") -> None:
    from skewscope.adapters.attached import Attached  # noqa: PLC0415
    from skewscope.adapters.channel import Channel  # noqa: PLC0415

    Attached(where.url, Channel(where), film).open(heard)
