"""Starts the console: settings, keys and ledger from where this person keeps them, a recording into a film."""

import getpass
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skewscope.kb.problems import InputError, Problem, SkewscopeError, suggest_name

if TYPE_CHECKING:
    from skewscope.adapters.runtime.channel import ControllerEndpoint
    from skewscope.adapters.runtime.replay import Progress
    from skewscope.adapters.view.history import ViewHistory

KEYS_FILE = "keys.toml"
TOKEN_VARIABLE = "SKEWSCOPE_TOKEN"  # noqa: S105 - its name, not what is in it
"""The variable that may hold a token."""
OPERATOR_LOG_FILE = "ledger.jsonl"
READER_SWITCH_INTERVAL_S = 0.001
"""How long the thread that reads may keep a key waiting each time, instead of Python's 5 ms."""
THEMES = ("dark", "light", "high-contrast", "ansi-dark", "ansi-light", "nord", "gruvbox", "solarized-light")
_THEME_NAMES = {"dark": "textual-dark", "light": "textual-light"}


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What was asked for on the command line."""

    ascii: bool = False
    write: bool = False
    theme: str = ""
    keys: Path | None = None
    ledger: Path | None = None


def settings_folder() -> Path:
    """Where a person's settings are kept."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "skewscope"


def state_folder() -> Path:
    """Where what happened is kept."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "skewscope"


def resolve_theme(wanted: str) -> str:
    """Textual's name of a theme.

    Raises:
        InputError: there is no such theme.
    """
    if wanted and wanted not in THEMES:
        hint = suggest_name(wanted, THEMES)
        raise InputError([Problem("--theme", 0, "", repr(wanted), f"one of {', '.join(THEMES)}", hint)])
    return _THEME_NAMES.get(wanted, wanted)


def operator_name() -> str:
    """Who sits there."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "operator"


def open_console(recording: Path, wishes: LaunchOptions) -> int:
    """Show a recording in the console; the exit code.

    Raises:
        SkewscopeError: what keeps it from starting.
    """
    from skewscope.adapters.inputs.recording import open_recording  # noqa: PLC0415

    open_recording(recording)  # what is wrong with it is told before a screen opens
    from multiprocessing import resource_tracker  # noqa: PLC0415

    resource_tracker.ensure_running()  # processes that read need it, and it needs the standard error the console takes
    return _run_console(wishes, lambda film, heard: _read_recording(recording, film, heard))


def open_remote_console(url: str, token_file: Path | None, wishes: LaunchOptions) -> int:
    """Show what a controller sees in the console; the exit code.

    Raises:
        SkewscopeError: what keeps it from starting, or that nobody answers.
    """
    where = resolve_controller(url, token_file)
    return _run_console(wishes, lambda film, heard: _attach_remote(where, film, heard))


def resolve_controller(url: str, token_file: Path | None) -> "ControllerEndpoint":
    """A controller to ask, with the token that is in a file or else in the environment.

    Raises:
        InputError: the address is none, or the file cannot be read.
    """
    from urllib.parse import urlsplit  # noqa: PLC0415

    from skewscope.adapters.runtime.channel import ControllerEndpoint  # noqa: PLC0415

    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise InputError([Problem("--url", 0, "", repr(url), "http://HOST:PORT or https://HOST:PORT")])
    if token_file is not None and not os.access(token_file, os.R_OK):
        raise InputError([Problem("--token-file", 0, "", f"{token_file}, which cannot be read", "a file with a token")])
    token, variable = (str(token_file), "") if token_file else ("", TOKEN_VARIABLE)
    return ControllerEndpoint(url.rstrip("/"), token, variable, os.environ.get("SSL_CERT_FILE", ""))


def _run_console(wishes: LaunchOptions, read: Callable[["ViewHistory", "Progress"], None]) -> int:
    """Opens the console on a film that `read` makes; the exit code."""
    from skewscope.adapters.view.history import ViewHistory  # noqa: PLC0415
    from skewscope.tui.cli.catalogue import load_catalogue  # noqa: PLC0415
    from skewscope.tui.console import keymap, operator_log  # noqa: PLC0415
    from skewscope.tui.console.app import Console, ConsoleOptions  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415

    own = wishes.keys or settings_folder() / KEYS_FILE
    keys = keymap.load_keys(own) if wishes.keys or own.exists() else keymap.KEYS
    # Without leave to write nothing is written, but what was written is shown.
    kept = operator_log.read_log(wishes.ledger or state_folder() / OPERATOR_LOG_FILE)
    options = ConsoleOptions(
        colour=not os.environ.get("NO_COLOR"),
        ascii=wishes.ascii,
        write=wishes.write,
        theme=resolve_theme(wishes.theme),
        keys=keys,
        operator_log=kept,
        operator=operator_name(),
    )
    sys.setswitchinterval(READER_SWITCH_INTERVAL_S)
    film = ViewHistory()
    shown = Console(film, DisplayNames(load_catalogue()), options, read=lambda heard: read(film, heard))
    failure = shown.run()
    if isinstance(failure, SkewscopeError):
        raise failure
    return shown.return_code or 0


def _read_recording(recording: Path, film: "ViewHistory", heard: "Progress") -> None:
    from skewscope.adapters.runtime.replay import replay  # noqa: PLC0415

    replay(recording, progress=heard, film=film, workers=None)


def _attach_remote(where: "ControllerEndpoint", film: "ViewHistory", heard: "Progress") -> None:
    from skewscope.adapters.runtime.channel import Channel  # noqa: PLC0415
    from skewscope.adapters.view.remote import RemoteView  # noqa: PLC0415

    RemoteView(where.url, Channel(where), film).open(heard)
