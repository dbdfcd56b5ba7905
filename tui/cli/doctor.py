"""The command `doctor`: what this machine and the settings have, what is missing, and the next command."""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from skewscope.kb.problems import SkewscopeError
from skewscope.tui.cli.controller_client import ControllerAddress, ask_controller, connection_options, expect_list
from skewscope.tui.cli.options import json_option, load_catalogue
from skewscope.tui.cli.terminal import EXIT_OK, EXIT_PROBLEMS, SetUpCommand, is_ascii_only, print_json, print_lines
from skewscope.tui.console import launcher
from skewscope.tui.render.text import Line, line, pad

GOOD, HINT, FAULT, NOTE = "good", "hint", "fault", "note"
SIGNS = {GOOD: ("✓", "ok"), HINT: ("!", "warn"), FAULT: ("✖", "crit"), NOTE: ("-", "dim")}
EXTRAS = ("site", "history", "chat", "nvsentinel", "fleet")
"""Extras of the package that a user may want."""
EXTRA_MARK = re.compile(r"extra == ['\"](\w+)['\"]")
DISTRIBUTION = re.compile(r"[\w.-]+")
FIRST_WORD = re.compile(r"[a-z][\w.-]*")
SHELL_FILES = {
    "bash": (".bashrc", ".bash_profile", ".local/share/bash-completion/completions/skewscope"),
    "zsh": (".zshrc",),
    "fish": (".config/fish/completions/skewscope.fish", ".config/fish/config.fish"),
}
INSTALL_COMPLETION = {
    "bash": "skewscope completion bash >> ~/.bashrc",
    "zsh": "skewscope completion zsh >> ~/.zshrc",
    "fish": "skewscope completion fish > ~/.config/fish/completions/skewscope.fish",
}
"""Commands that install the completion of a shell."""
MACHINES = ("login", "node")
"""Where commands of the catalogue are run that may be run here."""
COMMAND_TIMEOUT_S = 2.0
MAX_NAMED = 6


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    state: str
    """good; hint: works, but could do more; fault: does not work; note: neither."""
    name: str
    text: str
    next: str = ""
    """A command or a line of settings that mends it, '' for none."""

    def to_line(self, name_width: int) -> Line:
        """Returns the check as a line."""
        sign, role = SIGNS[self.state]
        after = ((":  ", ""), (self.next, "command")) if self.next else ()
        return ((f" {sign} ", role), (f"{pad(self.name, name_width)}  {self.text}", ""), *after)


@click.command("doctor", cls=SetUpCommand)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Check this config of a controller too.",
)
@connection_options
@json_option
def doctor(controller: ControllerAddress, config: Path | None, as_json: bool) -> None:
    """Show what this machine and your settings have, what is missing, and the next command.

    \b
    Examples:
      skewscope doctor
      skewscope doctor --url http://HOST:8470
      skewscope doctor --config skewscope.yaml

    Exit codes: 0 no fault, 1 a fault.
    """
    result = list(run_checks(controller, config))
    faults = sum(check.state == FAULT for check in result)
    if as_json:
        print_json([asdict(check) for check in result])
    else:
        print_lines([*check_lines(result), summary_line(result)])
    click.get_current_context().exit(EXIT_PROBLEMS if faults else EXIT_OK)


def run_checks(controller: ControllerAddress, config: Path | None) -> Iterator[Check]:
    """Yields all checks of this machine, of the user's settings, of a config and of a controller."""
    yield Check(GOOD, "skewscope", describe_version())
    yield check_terminal()
    yield check_clipboard(os.environ)
    yield check_settings()
    yield from check_config(config)
    yield check_controller(controller)
    yield check_tools()
    yield check_extras()
    yield check_completion(os.environ.get("SHELL", ""), Path.home())


def check_lines(checks: Iterable[Check]) -> list[Line]:
    """Returns the checks as lines in columns."""
    result = list(checks)
    widest = max((len(check.name) for check in result), default=0)
    return [check.to_line(widest) for check in result]


def summary_line(checks: Iterable[Check]) -> Line:
    """Returns how many faults and hints there are."""
    states = [check.state for check in checks]
    faults, hints = states.count(FAULT), states.count(HINT)
    role = "crit" if faults else "ok"
    return line(f" {faults or 'no'} fault{'s' * (faults != 1)}, {hints or 'no'} hint{'s' * (hints != 1)}", role)


# --- versions


def installed_version(distribution: str) -> str:
    """Returns the version of an installed distribution, '' where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def describe_version() -> str:
    """Returns the versions of the program, its catalogue and Python."""
    from skewscope.kb.entry_kinds import builtin_version  # noqa: PLC0415

    number = installed_version("skewscope") or "(not installed)"
    return f"{number}, catalogue {builtin_version() or '(unknown)'}, Python {platform.python_version()}"


def describe_environment() -> str:
    """Returns what a report of a bug needs besides the version of the program."""
    libraries = ", ".join(f"{name} {installed_version(name) or '-'}" for name in ("textual", "numpy", "click"))
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return f"{libraries}; {system}; {describe_terminal()}"


# --- the terminal


def describe_terminal() -> str:
    """Returns kind, size, colours and encoding of the terminal; that there is none in a pipe."""
    if not sys.stdout.isatty():
        return f"no terminal, {sys.stdout.encoding or 'unknown encoding'}"
    size = shutil.get_terminal_size()
    colours = "24-bit colour" if os.environ.get("COLORTERM") in ("truecolor", "24bit") else "256 colours or fewer"
    encoding = (sys.stdout.encoding or "unknown encoding").upper()
    return f"{os.environ.get('TERM') or 'TERM is not set'}, {size.columns}x{size.lines}, {colours}, {encoding}"


def check_terminal() -> Check:
    """Returns whether the console has what it needs."""
    text = describe_terminal()
    if sys.stdout.isatty() and is_ascii_only():
        return Check(HINT, "terminal", f"{text}: no UTF-8, so signs are ASCII", "export LC_ALL=C.UTF-8")
    return Check(GOOD if sys.stdout.isatty() else NOTE, "terminal", text)


def check_clipboard(environment: "os._Environ[str] | dict[str, str]") -> Check:
    """Returns whether what the console copies can reach the clipboard."""
    if not environment.get("TMUX"):
        via = "through ssh" if environment.get("SSH_TTY") else "of this machine"
        return Check(NOTE, "clipboard", f"{via}, if the terminal takes OSC 52")
    setting = _ask("tmux", "show-options", "-sv", "set-clipboard")
    if setting in ("on", "external"):
        return Check(GOOD, "clipboard", f"tmux passes it on (set-clipboard {setting})")
    return Check(HINT, "clipboard", "tmux keeps what is copied", "tmux set -s set-clipboard on")


def _ask(*command: str) -> str:
    """Returns what a program prints, '' where it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - the commands are written in this file
            command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


# --- settings


def check_settings() -> Check:
    """Returns whether the user's keys can be read."""
    from skewscope.tui.console import keymap  # noqa: PLC0415

    path = launcher.settings_folder() / launcher.KEYS_FILE
    if not path.exists():
        return Check(NOTE, "keys", f"no {path}, so the keys are those of", "skewscope keys")
    try:
        changed = sum(own != known for own, known in zip(keymap.load_keys(path), keymap.KEYS, strict=False))
    except SkewscopeError as error:
        return Check(FAULT, "keys", str(error).splitlines()[0])
    return Check(GOOD, "keys", f"{path}, {changed} changed")


def check_config(path: Path | None) -> Iterator[Check]:
    """Yields whether a controller's config is valid: the one that was named, else one in this folder."""
    named = path or Path("skewscope.yaml")
    if path is None and not named.exists():
        yield Check(NOTE, "config", "no skewscope.yaml here", "skewscope config new")
        return
    from skewscope.adapters.controller.config import read_at_start  # noqa: PLC0415

    try:
        result = read_at_start(named)
    except SkewscopeError as error:
        problems = str(error).splitlines()
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        yield Check(FAULT, "config", f"{problems[0]}{more}", f"skewscope config check {named}")
        return
    nodes, sources = len(result.topology.nodes), len(result.sources)
    after = "" if sources else f"skewscope sources of {named}: docs/sources.md"
    yield Check(GOOD, "config", f"{named}: {nodes} nodes, {sources} sources", after)


# --- the controller


def check_controller(controller: ControllerAddress) -> Check:
    """Returns whether a controller answers, and how much of its telemetry is there."""
    if not controller.is_named:
        return Check(NOTE, "controller", "none named", "skewscope doctor --url http://HOST:8470")
    begin = time.monotonic()
    try:
        answer = ask_controller(controller, "GET", "/api/v1/sources")
        telemetry = expect_list(controller, answer, "telemetry")
        missing = expect_list(controller, answer, "missing")
    except SkewscopeError as error:
        return Check(FAULT, "controller", str(error).splitlines()[0])
    took = 1000 * (time.monotonic() - begin)
    parts = [f"{controller.url} answers in {took:.0f} ms", *_reporting(telemetry)]
    text = ", ".join(parts)
    if missing:
        return Check(HINT, "controller", f"{text}; {len(missing)} kinds of telemetry are missing", "skewscope coverage")
    return Check(GOOD, "controller", text)


def _reporting(telemetry: list[object]) -> Iterator[str]:
    """Yields how much of each kind of telemetry reports."""
    for source in telemetry[:MAX_NAMED]:
        if isinstance(source, dict) and source.get("reporting"):
            yield f"{source.get('name')}: {source.get('reporting')} of {source.get('known')} {source.get('kind')}"


# --- the machine


def check_tools() -> Check:
    """Returns which programs that the catalogue's advice calls are on this machine."""
    programs = sorted(_advised_programs())
    here = [name for name in programs if shutil.which(name)]
    listed = ", ".join(here[:MAX_NAMED]) or "none"
    more = f" and {len(here) - MAX_NAMED} more" if len(here) > MAX_NAMED else ""
    return Check(NOTE, "commands", f"{listed}{more} of {len(programs)} that advice may name are here")


def _advised_programs() -> set[str]:
    """Returns the first word of each command of the catalogue."""
    known = load_catalogue()
    words = (
        FIRST_WORD.match(each.do)
        for entry in known.mitigations.values()
        for each in entry.commands
        if each.where in MACHINES
    )
    return {word[0] for word in words if word}


def check_extras() -> Check:
    """Returns which extras of the package are installed, and how the first missing one is."""
    needs = extra_requirements(importlib.metadata.requires("skewscope") or () if installed_version("skewscope") else ())
    states = {extra: all(installed_version(name) for name in needs.get(extra, ("",))) for extra in EXTRAS}
    text = "  ".join(f"{extra} {'✓' if there else '✗'}" for extra, there in states.items())
    missing = [extra for extra, there in states.items() if not there]
    after = f"pip install 'skewscope[{','.join(missing)}]'" if missing else ""
    return Check(NOTE if missing else GOOD, "extras", text, after)


def extra_requirements(requirements: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Returns the distributions that each extra needs."""
    result: dict[str, tuple[str, ...]] = {}
    for each in requirements:
        extra, name = EXTRA_MARK.search(each), DISTRIBUTION.match(each)
        if extra and name:
            result[extra[1]] = (*result.get(extra[1], ()), name[0])
    return result


def check_completion(shell: str, home: Path) -> Check:
    """Returns whether the completion of the user's shell is installed."""
    name = Path(shell).name
    if name not in SHELL_FILES:
        return Check(NOTE, "completion", "for bash, zsh and fish", "skewscope completion --help")
    for path in (home / file for file in SHELL_FILES[name]):
        try:
            if "SKEWSCOPE_COMPLETE" in path.read_text(encoding="utf-8", errors="replace"):
                return Check(GOOD, "completion", f"{name}, in {path}")
        except OSError:
            continue
    return Check(NOTE, "completion", "not installed", INSTALL_COMPLETION[name])
