"""Start the console with the user's settings, keys and operator log, on a recording or a controller."""

import getpass
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skewscope.kb.problems import InputError, Problem, SkewscopeError, suggest_name

if TYPE_CHECKING:
    from skewscope.adapters.inputs.recording import Recording
    from skewscope.adapters.runtime.channel import ControllerEndpoint
    from skewscope.adapters.runtime.replay import Progress
    from skewscope.adapters.view.action_feed import ActionFeed
    from skewscope.adapters.view.builder import ViewHistory

KEYS_FILE = "keys.toml"
TOKEN_VARIABLE = "SKEWSCOPE_TOKEN"  # noqa: S105 - its name, not what is in it
"""The environment variable that may hold a token."""
OPERATOR_LOG_FILE = "operator_log.jsonl"
_FORMER_LOG_FILE = "ledger.jsonl"
"""Its name in earlier versions, used as long as it exists."""
READER_SWITCH_INTERVAL_S = 0.001
"""Longest wait of a key press for the reading thread, shorter than Python's default of 5 ms."""
THEMES = ("dark", "light", "high-contrast", "ansi-dark", "ansi-light", "nord", "gruvbox", "solarized-light")
_THEME_NAMES = {"dark": "textual-dark", "light": "textual-light"}


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """The console's command-line options."""

    ascii: bool = False
    write: bool = False
    theme: str = ""
    keys: Path | None = None
    operator_log: Path | None = None


def settings_folder() -> Path:
    """Returns the folder of the user's settings."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "skewscope"


def state_folder() -> Path:
    """Returns the folder of the user's state."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "skewscope"


def resolve_theme(wanted: str) -> str:
    """Returns Textual's name of a theme.

    Raises:
        InputError: The theme is unknown.
    """
    if wanted and wanted not in THEMES:
        hint = suggest_name(wanted, THEMES)
        raise InputError([Problem("--theme", 0, "", repr(wanted), f"one of {', '.join(THEMES)}", hint)])
    return _THEME_NAMES.get(wanted, wanted)


def operator_name() -> str:
    """Returns the user's login name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "operator"


def open_console(recording: "Path | Recording", options: LaunchOptions) -> int:
    """Show a recording in the console; returns the exit code.

    Raises:
        SkewscopeError: The console cannot start.
    """
    from skewscope.adapters.inputs.recording import demo_path, open_recording  # noqa: PLC0415

    if isinstance(recording, Path):
        open_recording(recording)  # report a faulty recording before a screen opens
    from multiprocessing import resource_tracker  # noqa: PLC0415

    resource_tracker.ensure_running()  # reader processes need it, and the console takes over standard error
    return _run_console(
        options,
        lambda history, report_progress: _read_recording(recording, history, report_progress),
        title="built-in demo" if recording == demo_path() else "",
    )


def open_remote_console(url: str, token_file: Path | None, options: LaunchOptions) -> int:
    """Show a controller's snapshots in the console; returns the exit code.

    Raises:
        SkewscopeError: The console cannot start, or the controller does not answer.
    """
    endpoint = resolve_controller(url, token_file)
    from skewscope.adapters.view.action_feed import ActionFeed  # noqa: PLC0415

    feed = ActionFeed(endpoint)

    def read(history: "ViewHistory", report_progress: "Progress") -> None:
        _attach_remote(endpoint, history, report_progress)
        feed.start()

    return _run_console(options, read, feed)


def resolve_controller(url: str, token_file: Path | None, *, with_token: bool = True) -> "ControllerEndpoint":
    """Returns the endpoint of a controller, with the token from a file or the environment, or without one.

    Raises:
        InputError: The address is invalid, or the file cannot be read.
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
        raise InputError([Problem("--token-file", 0, "", f"an unreadable file, {token_file}", "a file with a token")])
    token, variable = (str(token_file), "") if token_file else ("", TOKEN_VARIABLE)
    if not with_token:
        token, variable = "", ""
    return ControllerEndpoint(url.rstrip("/"), token, variable, os.environ.get("SSL_CERT_FILE", ""))


def _default_log() -> Path:
    former = state_folder() / _FORMER_LOG_FILE
    return former if former.exists() else state_folder() / OPERATOR_LOG_FILE


def _run_console(
    options: LaunchOptions,
    read: Callable[["ViewHistory", "Progress"], None],
    action_feed: "ActionFeed | None" = None,
    title: str = "",
) -> int:
    """Open the console on the history that `read` fills; returns the exit code."""
    from skewscope.adapters.view.builder import ViewHistory  # noqa: PLC0415
    from skewscope.kb.loader import catalogue  # noqa: PLC0415
    from skewscope.tui.console import keymap, operator_log  # noqa: PLC0415
    from skewscope.tui.console.app import Console, ConsoleOptions  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415

    key_file = options.keys or settings_folder() / KEYS_FILE
    keys = keymap.load_keys(key_file) if options.keys or key_file.exists() else keymap.KEYS
    # read-only mode still shows what was logged before
    log = operator_log.read_log(options.operator_log or _default_log())
    console_options = ConsoleOptions(
        colour=not os.environ.get("NO_COLOR"),
        ascii=options.ascii,
        write=options.write,
        theme=resolve_theme(options.theme),
        keys=keys,
        operator_log=log,
        operator=operator_name(),
        action_feed=action_feed,
        title=title,
        state_folder=state_folder(),
    )
    sys.setswitchinterval(READER_SWITCH_INTERVAL_S)
    history = ViewHistory()
    console = Console(
        history, DisplayNames(catalogue()), console_options, read=lambda report_progress: read(history, report_progress)
    )
    failure = console.run()
    if isinstance(failure, SkewscopeError):
        raise failure
    return console.return_code or 0


def _read_recording(recording: "Path | Recording", history: "ViewHistory", report_progress: "Progress") -> None:
    from skewscope.adapters.runtime.replay import replay  # noqa: PLC0415
    from skewscope.adapters.runtime.watchdog import limit_memory, watch_memory  # noqa: PLC0415

    name = str(recording if isinstance(recording, Path) else recording.path)
    # There is no bound on its time: it shows how far it is, and a key ends it.
    with limit_memory(name):
        replay(recording, progress=watch_memory(name, report_progress), history=history, workers=None)


def _attach_remote(endpoint: "ControllerEndpoint", history: "ViewHistory", report_progress: "Progress") -> None:
    from skewscope.adapters.runtime.channel import Channel  # noqa: PLC0415
    from skewscope.adapters.view.remote import RemoteView  # noqa: PLC0415

    RemoteView(endpoint.url, Channel(endpoint), history).open(report_progress)
