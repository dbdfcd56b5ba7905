"""Options and arguments that several commands share, and the values that they accept."""

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from skewscope.kb.problems import InputError, Problem, join_names, suggest_name

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
    """Add `--replay PATH`."""
    what = "Folder of a recording (default: the built-in demo)."
    return click.option("--replay", "recording", type=click.Path(path_type=Path), metavar="PATH", help=what)(command)


def recording_argument(command: CommandT) -> CommandT:
    """Add the argument `[RECORDING]`."""
    return click.argument("recording", required=False, type=click.Path(path_type=Path), metavar="[RECORDING]")(command)


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
