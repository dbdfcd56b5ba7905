"""The commands of a controller: run it, check its config, verify its audit log."""

import logging
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path

import click

from skewscope.kb.problems import InputError
from skewscope.tui.cli.terminal import EXIT_ERROR, SuggestingGroup, print_error

FILE = click.Path(path_type=Path, dir_okay=False)


def parse_time(text: str) -> float:
    """A time as seconds since 1970: RFC 3339 (UTC where it names no zone), or already so.

    Raises:
        click.BadParameter: it is none.
    """
    with suppress(ValueError):
        if isfinite(seconds := float(text)):
            return seconds
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        told = f"{text!r} is no time; write 2026-11-21T17:30:00Z, or seconds since 1970."
        raise click.BadParameter(told) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


class ControllerCommand(click.Command):
    """A command that runs, or belongs to what runs."""

    section = "Live"


class ControllerGroup(SuggestingGroup):
    """A group of these."""

    section = "Live"


@click.command("run", cls=ControllerCommand)
@click.option("--config", "path", type=FILE, required=True, metavar="FILE", help="What it is to do: skewscope.yaml.")
def run(path: Path) -> None:
    """Run the controller: take telemetry in, diagnose it, serve and keep what was found.

    SIGHUP reads the config again, SIGTERM ends it in good order.
    """
    from skewscope.adapters.controller.process import run as run_  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    run_(path)


@click.group("config", cls=ControllerGroup)
def config() -> None:
    """Check a controller's config."""


@config.command("check")
@click.argument("path", type=FILE, metavar="FILE")
def check(path: Path) -> None:
    """Tell everything that is wrong with a config at once.

    Exit codes: 0 fine, 2 it cannot be used.
    """
    from skewscope.adapters.controller.config import read  # noqa: PLC0415

    try:
        found = read(path)
    except InputError as error:
        print_error(error)
        click.get_current_context().exit(EXIT_ERROR)
    nodes, sources = len(found.topology.nodes), len(found.sources)
    click.echo(f"{path}: fine. {nodes} nodes, {sources} sources, listens on {found.listen.host}:{found.listen.port}.")


@click.group("audit", cls=ControllerGroup)
def audit() -> None:
    """Look after the audit log of a controller."""


@audit.command("verify")
@click.argument("path", type=FILE, metavar="STORE")
def verify(path: Path) -> None:
    """Tell whether any line of an audit log was changed or taken out.

    Note the last hash somewhere else: lines cut off at the end show only to who knows it.
    """
    from skewscope.adapters.controller.store import StoreReader  # noqa: PLC0415

    lines, last = StoreReader(path).verify_audit()
    click.echo(f"{path}: {lines} lines, all as they were written. Last hash: {last}")
