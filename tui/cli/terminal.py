"""What commands share: exit codes, options, and printing for whatever stands at the other end."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeVar

import click

from skewscope.kb.problems import InputError, Problem, SkewscopeError, suggest_name
from skewscope.tui.render import text
from skewscope.tui.render.text import Line, line

EXIT_OK, EXIT_PROBLEMS, EXIT_ERROR = 0, 1, 2
EXIT_INTERRUPTED = 130
PIPE_COLUMNS = 100
"""Where there is no terminal to ask."""

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


class SuggestingGroup(click.Group):
    """A group of commands that says which one was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the words name."""
        if args and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(f"No such command {args[0]!r}. {suggest_name(args[0], self.commands)}".strip(), ctx)
        return super().resolve_command(ctx, args)


def json_option(command: CommandT) -> CommandT:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def print_error(error: SkewscopeError) -> None:
    """Print what is wrong on standard error, a line each."""
    problems = error.problems if isinstance(error, InputError) else (error,)
    for problem in problems:
        click.echo(text.sanitise(str(problem)), err=True)


def supports_colour() -> bool:
    """Whether standard output takes colours."""
    dull = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not dull


def is_ascii_only() -> bool:
    """Whether only ASCII may be printed: asked for, or all that standard output takes."""
    ctx = click.get_current_context(silent=True)
    asked = bool(ctx and ctx.find_root().params.get("ascii_"))
    return asked or not (sys.stdout.encoding or "").lower().startswith("utf")


def output_width() -> int:
    """The width to print for."""
    return shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns if sys.stdout.isatty() else PIPE_COLUMNS


def print_lines(lines: Iterable[Line], *, wrapped: bool = False) -> None:
    """Print lines, in colour where that is wanted: wrapped, or for a terminal cut to its width."""
    shown = list(lines)
    if wrapped:
        shown = text.wrap_lines(shown, min(output_width(), 110))
    elif sys.stdout.isatty():
        shown = [text.fit(each, output_width()) for each in shown]
    click.echo(
        text.to_plain_text(shown, colour=supports_colour(), ascii_=is_ascii_only()), nl=False, color=supports_colour()
    )


def print_json(value: object) -> None:
    """Print a value of ours as JSON."""
    from skewscope.tui.render.rules import to_json  # noqa: PLC0415 - show needs numbers of the terminal in turn

    click.echo(to_json(value))


def progress_bar(label: str, *, wanted: bool) -> Callable[[str, float], None] | None:
    """A bar on standard error, where that is a terminal."""
    if not (wanted and sys.stderr.isatty()):
        return None
    shown = [""]

    def report_progress(stage: str, share: float) -> None:
        done = round(min(max(share, 0.0), 1.0) * 30)
        bar = f"{label}: [{'#' * done}{'.' * (30 - done)}] {round(100 * share):3d} % {stage}"
        # Room for the ^C that a terminal writes behind it.
        bar = text.pad(text.sanitise(bar), max(shutil.get_terminal_size().columns - 3, 20))
        if bar != shown[0]:
            shown[0] = bar
            click.echo(f"\r{bar}", err=True, nl=False)

    report_progress("reading", 0.0)
    return report_progress


def clear_progress(*, wanted: bool) -> None:
    """Take the progress bar away."""
    if wanted and sys.stderr.isatty():
        click.echo("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r", err=True, nl=False)


def print_problems(problems: Iterable[Problem], *, as_json: bool) -> None:
    """Print problems and leave: they are what a lint looks for."""
    found = tuple(problems)
    if as_json:
        print_json([asdict(problem) for problem in found])
    else:
        # A line each, however wide: editors jump to them.
        lines = [line(str(problem)) for problem in found] or [line("No problems.", "ok")]
        click.echo(
            text.to_plain_text(lines, colour=supports_colour(), ascii_=is_ascii_only()),
            nl=False,
            color=supports_colour(),
        )
    click.get_current_context().exit(EXIT_PROBLEMS if found else EXIT_OK)
