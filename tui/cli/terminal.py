"""What commands share: exit codes, and printing to terminals, pipes and files."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from skewscope.kb.problems import InputError, Problem, SkewscopeError, suggest_name
from skewscope.tui.render import text
from skewscope.tui.render.text import Line, line

EXIT_OK, EXIT_PROBLEMS, EXIT_ERROR, EXIT_TOO_LITTLE = 0, 1, 2, 3
EXIT_INTERRUPTED = 130
PIPE_COLUMNS = 100
"""Width of output that does not go to a terminal, unless COLUMNS is set."""
MIN_COLUMNS = 20
"""Least width that COLUMNS may set."""
ACCEPTS_CONNECTION = "accepts_connection"
"""Attribute of a command's function that uses `--url` and `--token-file`, its own or those before it."""


class SuggestingGroup(click.Group):
    """A group of commands that suggests the nearest name for an unknown command."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their whole first sentences."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(100)) for name, command in commands if command])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the command that the arguments name."""
        if args and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(f"No such command {args[0]!r}. {suggest_name(args[0], self.commands)}".strip(), ctx)
        name, command, rest = super().resolve_command(ctx, args)
        _check_root_options(ctx, command)
        return name, command, rest


class SetUpCommand(click.Command):
    """A command that sets Skewscope up on a machine."""

    section = "Set up"


def _check_root_options(ctx: click.Context, command: click.Command | None) -> None:
    """Refuses `--url` and `--token-file` before a command that would pass them over in silence.

    Raises:
        click.UsageError: one was given.
    """
    if command is None or isinstance(command, click.Group) or getattr(command.callback, ACCEPTS_CONNECTION, False):
        return
    for name in ("url", "token_file"):
        if ctx.find_root().params.get(name):
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} before {command.name!r} has no effect: leave it out.", ctx)


def write_output(text: str, output: Path | None) -> None:
    """Print a text unchanged, or write it to a file."""
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


def print_error(error: SkewscopeError) -> None:
    """Print an error on standard error, one line per problem."""
    problems = error.problems if isinstance(error, InputError) else (error,)
    for problem in problems:
        click.echo(text.sanitise(str(problem)), err=True)


def supports_colour() -> bool:
    """Returns whether standard output supports colours."""
    dull = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not dull


def is_ascii_only() -> bool:
    """Returns whether output must be ASCII: requested, or required by the encoding."""
    ctx = click.get_current_context(silent=True)
    requested = bool(ctx and ctx.find_root().params.get("ascii_"))
    return requested or not (sys.stdout.encoding or "").lower().startswith("utf")


def output_width() -> int:
    """Returns the width of the output in columns: COLUMNS if it is set, else the terminal's, else PIPE_COLUMNS."""
    if sys.stdout.isatty():
        return shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns
    given = os.environ.get("COLUMNS", "")
    is_usable = given.isascii() and given.isdigit() and len(given) < 5 and int(given) >= MIN_COLUMNS
    return int(given) if is_usable else PIPE_COLUMNS


def is_piped() -> bool:
    """Returns whether the output has no screen: nothing of it is cut then."""
    return not sys.stdout.isatty()


def findings_exit_code(recording: Path | None, incidents: Sequence[object]) -> int:
    """Returns 1 if a recording has incidents. Those of the built-in demo, None, are no findings."""
    return EXIT_PROBLEMS if recording and incidents else EXIT_OK


def print_lines(lines: Iterable[Line], *, wrapped: bool = False) -> None:
    """Print lines, in colour if supported; wrapped, or cut to the terminal's width."""
    shown = list(lines)
    if wrapped:
        shown = text.wrap_lines(shown, min(output_width(), 110))
    elif sys.stdout.isatty():
        shown = [text.fit(each, output_width()) for each in shown]
    click.echo(
        text.to_plain_text(shown, colour=supports_colour(), ascii_=is_ascii_only()), nl=False, color=supports_colour()
    )


def print_json(value: object) -> None:
    """Print a value as JSON."""
    from skewscope.tui.render.json_text import to_json  # noqa: PLC0415 - show needs numbers of the terminal in turn

    click.echo(to_json(value))


def progress_bar(label: str, *, wanted: bool) -> Callable[[str, float], None] | None:
    """Returns a progress callback that draws a bar on standard error, None without a terminal."""
    if not (wanted and sys.stderr.isatty()):
        return None
    shown = [""]

    def report_progress(stage: str, share: float) -> None:
        done = round(min(max(share, 0.0), 1.0) * 30)
        bar = f"{label}: [{'#' * done}{'.' * (30 - done)}] {round(100 * share):3d} % {stage}"
        # Leave room for the ^C that a terminal appends.
        bar = text.pad(text.sanitise(bar), max(shutil.get_terminal_size().columns - 3, 20))
        if bar != shown[0]:
            shown[0] = bar
            click.echo(f"\r{bar}", err=True, nl=False)

    report_progress("reading", 0.0)
    return report_progress


def clear_progress(*, wanted: bool) -> None:
    """Erase the progress bar."""
    if wanted and sys.stderr.isatty():
        click.echo("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r", err=True, nl=False)


def print_problems(problems: Iterable[Problem], *, as_json: bool, checked: str = "") -> None:
    """Print problems, or that what was checked has none, and exit with 0 if there are none, else with 1."""
    found = tuple(problems)
    if as_json:
        print_json([asdict(problem) for problem in found])
    else:
        # One unwrapped line per problem, so that editors can jump to it.
        lines = [line(str(problem)) for problem in found] or [
            line(f"No problems in {checked}." if checked else "No problems.", "ok")
        ]
        click.echo(
            text.to_plain_text(lines, colour=supports_colour(), ascii_=is_ascii_only()),
            nl=False,
            color=supports_colour(),
        )
    click.get_current_context().exit(EXIT_PROBLEMS if found else EXIT_OK)
