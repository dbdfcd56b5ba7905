"""Options and arguments that several commands share, and the values that they accept."""

import os
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from skewscope.kb.entry_kinds import FORMATS_VARIABLE
from skewscope.kb.problems import InputError, Problem, join_names, suggest_name
from skewscope.kb.site_files import KNOWLEDGE_VARIABLE
from skewscope.tui.cli.completion import complete_recordings

if TYPE_CHECKING:
    from skewscope.kb.model import Catalogue

DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhd])")
DURATION_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def json_option(command: CommandT) -> CommandT:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def why_option(command: CommandT) -> CommandT:
    """Add `--why`."""
    what = "Add the reasoning: evidence with its expressions, all alternatives, recipes of the advice, sources."
    return click.option("--why", is_flag=True, help=what)(command)


def output_option(command: CommandT) -> CommandT:
    """Add `-o FILE`."""
    what = "Write to this file instead of printing."
    option = click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help=what)
    return option(command)


def recording_option(command: CommandT) -> CommandT:
    """Add `--replay PATH`, `--formats DIR` and `--knowledge DIR`."""
    what = "Folder of a recording (default: the built-in demo)."
    path = click.Path(path_type=Path)
    complete = complete_recordings
    option = click.option("--replay", "recording", type=path, metavar="PATH", help=what, shell_complete=complete)
    return option(formats_option(command))


def recording_argument(command: CommandT) -> CommandT:
    """Add the argument `[RECORDING]`, `--formats DIR` and `--knowledge DIR`."""
    path = click.Path(path_type=Path)
    argument = click.argument(
        "recording", required=False, type=path, metavar="[RECORDING]", shell_complete=complete_recordings
    )
    return argument(formats_option(command))


def formats_option(command: CommandT) -> CommandT:
    """Add `--formats DIR` and `--knowledge DIR`: both count for as long as the command runs, and in its processes."""
    formats = f"Read texts by your own formats too: a folder of files, or one (or the variable {FORMATS_VARIABLE})."
    knowledge = f"Use a site's own rules, policies, entries and names too (or the variable {KNOWLEDGE_VARIABLE})."
    of_formats = _folder_option("--formats", FORMATS_VARIABLE, _use_formats, formats)
    return _folder_option("--knowledge", KNOWLEDGE_VARIABLE, _use_knowledge, knowledge)(of_formats(command))


def _folder_option(
    name: str, variable: str, use: Callable[[click.Context, click.Parameter, Path | None], None], what: str
) -> Callable[[CommandT], CommandT]:
    """Returns an option whose folder is used before the command runs, and which the command does not see."""
    return click.option(
        name,
        type=click.Path(path_type=Path),
        metavar="DIR",
        envvar=variable,
        is_eager=True,
        expose_value=False,
        callback=use,
        help=what,
    )


def _use_knowledge(ctx: click.Context, _option: click.Parameter, place: Path | None) -> None:
    if place is None:
        return
    from skewscope.adapters.config.site_knowledge import load_knowledge  # noqa: PLC0415

    known = load_knowledge(place)
    before = os.environ.get(KNOWLEDGE_VARIABLE)
    known.use()
    ctx.call_on_close(lambda: _restore_variable(KNOWLEDGE_VARIABLE, before))


def _use_formats(ctx: click.Context, _option: click.Parameter, place: Path | None) -> None:
    if place is None:
        return
    from skewscope.kb.own_formats import read_formats  # noqa: PLC0415

    read_formats(place, load_catalogue())
    before = os.environ.get(FORMATS_VARIABLE)
    os.environ[FORMATS_VARIABLE] = str(place.resolve())
    ctx.call_on_close(lambda: _restore_variable(FORMATS_VARIABLE, before))


def _restore_variable(name: str, before: str | None) -> None:
    os.environ.pop(name, None)
    if before is not None:
        os.environ[name] = before


def parse_time(text: str) -> float:
    """Parse a time, RFC 3339 (UTC without a zone) or seconds since 1970; returns seconds since 1970.

    Raises:
        click.BadParameter: The text is not a time.
    """
    with suppress(ValueError):
        if isfinite(seconds := float(text)):
            return seconds
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is not a time; write 2026-11-21T17:30:00Z, or seconds since 1970."
        raise click.BadParameter(message) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def parse_duration(text: str) -> float:
    """Parse a duration such as 90s, 15m, 2h or 7d; returns seconds.

    Raises:
        click.BadParameter: The text is not a duration.
    """
    found = DURATION.fullmatch(text)
    if found is None or not (seconds := float(found[1]) * DURATION_UNITS[found[2]]):
        raise click.BadParameter(f"{text!r} is not a duration; write 90s, 15m, 2h or 7d.")
    return seconds


def check_choices(field: str, wanted: tuple[str, ...], known: Collection[str]) -> tuple[str, ...]:
    """Returns the values of an option after checking that each is known.

    Raises:
        InputError: A value is unknown.
    """
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InputError(
            Problem(field, 0, "", repr(name), f"one of {join_names(list(known), 60)}", suggest_name(name, known))
            for name in unknown
        )
    return wanted


def load_catalogue() -> "Catalogue":
    """Load the catalogue of the package."""
    from skewscope.kb.loader import catalogue as load  # noqa: PLC0415

    return load()
