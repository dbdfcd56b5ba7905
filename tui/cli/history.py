"""The command `history`: incidents of many recordings as Parquet, and questions about them in SQL."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from skewscope.kb.problems import InputError, Problem
from skewscope.tui.cli.options import formats_option, json_option, load_catalogue, parse_time
from skewscope.tui.cli.terminal import (
    SuggestingGroup,
    clear_progress,
    output_width,
    print_json,
    print_lines,
    progress_bar,
)
from skewscope.tui.render.text import line

if TYPE_CHECKING:
    from skewscope.adapters.history.export import ExportedTables
    from skewscope.tui.render.history import HistoryPlots

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
STORE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
QUESTION = "sql"
NOTE_COLUMNS = 48
"""Columns of a picture of weeks beside its days: names and notes."""


def _is_question(word: str) -> bool:
    return len(word.split()) > 1


class HistoryGroup(SuggestingGroup):
    """A group whose first argument may be a question, which has blanks."""

    section = "Diagnose"

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Returns the command of a name, or the one that answers where it is a question."""
        return super().get_command(ctx, QUESTION if _is_question(name) else name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads `history 'SELECT ...'` as `history sql 'SELECT ...'`."""
        at = next((n for n, word in enumerate(args) if _is_question(word)), None)
        known = any(word in self.commands for word in args[:at])
        return super().parse_args(ctx, [QUESTION, *args] if at is not None and not known else args)


@click.group("history", cls=HistoryGroup)
def history() -> None:
    """Ask about incidents of weeks in SQL: `history 'SELECT * FROM worst_nodes'`.

    A history is a folder of Parquet files, which `history export` writes and which DuckDB, Spark and pandas read.
    """


folder_option = click.option(
    "--over", "folder", type=FOLDER, default=Path("history"), show_default=True, help="Folder of the history."
)


@history.command(QUESTION)
@click.argument("question", metavar="SQL")
@folder_option
@click.option("--rows", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help="Most rows to print.")
@click.option(
    "--seconds", type=click.FloatRange(0.1, 86400), default=60.0, show_default=True, help="Most time to answer."
)
@click.option("--memory", default="2GB", show_default=True, metavar="SIZE", help="Most memory to use.")
@json_option
def sql(question: str, folder: Path, rows: int, seconds: float, memory: str, as_json: bool) -> None:
    """Answer one SELECT over the tables and views of a history; files outside its folder cannot be read."""
    from skewscope.adapters.history.database import HistoryDatabase, HistoryLimits  # noqa: PLC0415
    from skewscope.tui.render.history import answer_json, answer_lines  # noqa: PLC0415

    with HistoryDatabase(folder, HistoryLimits(memory, seconds, rows)) as database:
        answer = database.ask(question)
    if as_json:
        print_json(answer_json(answer))
    else:
        print_lines(answer_lines(answer))


@history.command("views")
@json_option
def views(as_json: bool) -> None:
    """List tables and views with what they answer."""
    from skewscope.adapters.history.schema import TABLES  # noqa: PLC0415
    from skewscope.adapters.history.views import VIEWS  # noqa: PLC0415
    from skewscope.tui.render.blocks import table_lines  # noqa: PLC0415

    found = [(name, "table", ", ".join(columns)) for name, columns in TABLES.items()]
    found += [(name, "view", view.about) for name, view in VIEWS.items()]
    if as_json:
        print_json([{"name": name, "kind": kind, "about": about} for name, kind, about in found])
    else:
        print_lines(table_lines(found, ("name", "kind", "columns, or what it answers")), wrapped=True)


@history.command("weeks")
@folder_option
def weeks(folder: Path) -> None:
    """Draw the weeks of each node: on which days it was at fault, what that cost, how often it came back."""
    from skewscope.adapters.history.database import HistoryDatabase, HistoryLimits  # noqa: PLC0415
    from skewscope.adapters.history.plots import read_node_days  # noqa: PLC0415
    from skewscope.tui.render.cell_picture import picture_lines  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415
    from skewscope.tui.render.week_map import NodeDay, week_map  # noqa: PLC0415

    with HistoryDatabase(folder, HistoryLimits(rows=1_000_000)) as database:
        days = [NodeDay(*row) for row in read_node_days(database)]
    columns = output_width()
    picture = week_map(days, DisplayNames(load_catalogue()).condition_name, max(columns - NOTE_COLUMNS, 7))
    print_lines(picture_lines(picture, columns) if picture else [line("No node was at fault.", "dim")])


@history.command("export")
@click.argument("where", nargs=-1, required=True, metavar="WHERE...")
@click.option("--to", "folder", type=FOLDER, default=Path("history"), show_default=True, help="Folder of the history.")
@formats_option
@click.option("--samples", is_flag=True, help="Write every sample as well, for questions about telemetry.")
@click.option(
    "--topology", type=FILE, metavar="FILE", help="Topology of a controller's store, or of what is no recording."
)
@click.option("--since", type=parse_time, metavar="TIME", help="Only data from this time on.")
@click.option("--until", type=parse_time, metavar="TIME", help="Only data up to this time.")
@click.option("--no-progress", is_flag=True, help="Hide the progress bar.")
@json_option
def export(where: tuple[str, ...], folder: Path, as_json: bool, **options: Any) -> None:
    """Write recordings, or the store of a controller (a .db file), as tables of a history.

    Recordings are diagnosed by the installed rules. Each WHERE has files of its own; exporting it again replaces them.
    For example: `history export monday tuesday --to history`.
    """
    report = progress_bar("export", wanted=not options["no_progress"]) or (lambda _stage, _share: None)
    try:
        found = [_export_one(one, folder, options, report) for one in where]
    finally:
        clear_progress(wanted=not options["no_progress"])
    if as_json:
        print_json(found)
        return
    for each in found:
        counts = ", ".join(f"{count} {table}" for table, count in each.counts.items())
        print_lines([line(f"{each.recording}: {counts}")])


def _export_one(where: str, folder: Path, options: dict[str, Any], report: Any) -> "ExportedTables":
    from skewscope.adapters.backtest.telemetry import TelemetrySpan, open_telemetry  # noqa: PLC0415
    from skewscope.adapters.history.export import export_recording, export_store  # noqa: PLC0415

    path = Path(where)
    if path.suffix in STORE_SUFFIXES and path.is_file():
        return export_store(path, _read_topology(options["topology"]), folder)
    span = TelemetrySpan(options["since"], options["until"], options["topology"])
    with TemporaryDirectory(prefix="skewscope-") as scratch:
        recording = open_telemetry(where, span, Path(scratch), report)
        return export_recording(recording, folder, samples=options["samples"], progress=report)


def _read_topology(path: Path | None) -> Any:
    from skewscope.engine.model.topology_file import parse_valid_topology  # noqa: PLC0415
    from skewscope.kb.yamlfile import read  # noqa: PLC0415

    if path is None:
        hint = "It is the file that the controller's configuration names."
        raise InputError([Problem("--topology", 0, "", "a store without its topology", "the topology file", hint)])
    return parse_valid_topology(read(path))


def load_plots(folder: Path) -> "HistoryPlots":
    """Returns what the plots of a history show, with causes by their names.

    Raises:
        InputError: the folder is no history, or DuckDB is not installed.
    """
    from skewscope.adapters.history.database import HistoryDatabase, HistoryLimits  # noqa: PLC0415
    from skewscope.adapters.history.plots import read_plots  # noqa: PLC0415
    from skewscope.tui.render.cell_picture import MAX_SVG_CELLS  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415
    from skewscope.tui.render.history import HistoryPlots  # noqa: PLC0415
    from skewscope.tui.render.week_map import NodeDay, week_map  # noqa: PLC0415

    names = DisplayNames(load_catalogue())
    with HistoryDatabase(folder, HistoryLimits(rows=1_000_000)) as database:
        found = read_plots(database)
    return HistoryPlots(
        [(week, names.condition_name(condition), count) for week, condition, count in found.weeks],
        found.racks,
        [(names.condition_name(condition), count) for condition, count in found.causes],
        [(names.condition_name(condition), cost) for condition, cost in found.costs],
        week_map([NodeDay(*row) for row in found.nodes], names.condition_name, MAX_SVG_CELLS),
    )
