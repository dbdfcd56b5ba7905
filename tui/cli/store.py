"""The commands of a controller's store: its backup, and its audit log. They only read it, also while it is in use."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from skewscope.tui.cli.controller import ControllerGroup
from skewscope.tui.cli.options import json_option, parse_time
from skewscope.tui.cli.terminal import print_json, print_lines
from skewscope.tui.render.text import line

if TYPE_CHECKING:
    from skewscope.adapters.controller.audit import AuditLine

FILE = click.Path(path_type=Path, dir_okay=False)
MAX_SHOWN = 100_000


@click.group("store", cls=ControllerGroup)
def store() -> None:
    """Copy the store of a controller."""


@store.command("backup")
@click.argument("path", type=FILE, metavar="STORE")
@click.argument("to", type=FILE, metavar="DEST")
def backup(path: Path, to: Path) -> None:
    """Write a verified copy of a store to a new file, also while a controller uses the store.

    To restore it: stop the controller, move its store and the files beside it (-wal, -shm, -head) away, and copy DEST
    there.
    """
    from skewscope.adapters.controller.store_copy import back_up  # noqa: PLC0415

    head = back_up(path, to)
    click.echo(f"{to}: a copy of {path}, {head.number} audit lines, unchanged. Last hash: {head.hash}")


@click.group("audit", cls=ControllerGroup)
def audit() -> None:
    """Show and verify the audit log of a controller."""


@audit.command("verify")
@click.argument("path", type=FILE, metavar="STORE")
def verify(path: Path) -> None:
    """Verify that no line of an audit log was changed or removed.

    The file STORE-head has number and hash of the newest line. Who can write to the store can write to that file
    too, so keep the printed hash elsewhere.
    """
    from skewscope.adapters.controller.audit_head import head_file  # noqa: PLC0415
    from skewscope.adapters.controller.store import StoreReader  # noqa: PLC0415

    lines, last = StoreReader(path).verify_audit()
    click.echo(f"{path}: {lines} lines, unchanged. Last hash: {last}")
    if not head_file(path).exists():
        click.echo(
            f"There is no {head_file(path).name} beside it: lines that were cut off at the end cannot be noticed."
        )


@audit.command("show")
@click.argument("path", type=FILE, metavar="STORE")
@click.option("--since", type=parse_time, metavar="TIME", help="Only lines from this time on.")
@click.option("--until", type=parse_time, metavar="TIME", help="Only lines before this time.")
@click.option("--who", metavar="NAME", help="Only lines of this token, or of engine or controller.")
@click.option("--what", metavar="TEXT", help="Only lines that contain this text, in what was done or in its details.")
@click.option(
    "--most", type=click.IntRange(1, MAX_SHOWN), default=100, show_default=True, help="Most lines: the newest of them."
)
@json_option
def show(path: Path, most: int, as_json: bool, **wanted: float | str | None) -> None:
    """Show lines of an audit log, oldest first: who did what, and when."""
    from skewscope.adapters.controller.audit import AuditFilter  # noqa: PLC0415
    from skewscope.adapters.controller.store import StoreReader  # noqa: PLC0415

    given = {name: value for name, value in wanted.items() if value is not None}
    lines = StoreReader(path).audit_lines(AuditFilter(**given), most)  # type: ignore[arg-type] # click has parsed them
    if as_json:
        print_json([each.as_json() for each in lines])
    else:
        print_lines(_format_lines(lines) or [line("No such lines.")])


def _format_lines(lines: "list[AuditLine]") -> "list[tuple[tuple[str, str], ...]]":
    from skewscope.engine.model.incident import rfc3339  # noqa: PLC0415
    from skewscope.tui.render.blocks import table_lines  # noqa: PLC0415

    rows = [(str(each.number), rfc3339(each.t), each.actor, each.action, each.details) for each in lines]
    return table_lines(rows, ("line", "time", "who", "what", "details")) if rows else []
