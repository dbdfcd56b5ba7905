"""The command `compare`: two measurements side by side."""

from pathlib import Path

import click

from skewscope.adapters.runtime.watchdog import bound_work
from skewscope.kb.problems import NothingKnownError
from skewscope.tui.cli.options import formats_option, json_option, load_catalogue
from skewscope.tui.cli.reports import ReportCommand
from skewscope.tui.cli.terminal import (
    EXIT_OK,
    EXIT_PROBLEMS,
    EXIT_TOO_LITTLE,
    clear_progress,
    output_width,
    print_error,
    print_json,
    print_lines,
    progress_bar,
)

SIDE = click.Path(path_type=Path)


@click.command("compare", cls=ReportCommand)
@click.argument("before", type=SIDE, metavar="BEFORE")
@click.argument("after", type=SIDE, metavar="AFTER")
@formats_option
@click.option("--no-progress", is_flag=True, help="Hide the progress bar.")
@json_option
@click.pass_context
def compare(ctx: click.Context, /, before: Path, after: Path, *, no_progress: bool, as_json: bool) -> None:
    """Compare two measurements: what is worse, by how much, and which conditions fit.

    BEFORE and AFTER are results of a benchmark (a file, or a folder with several: repeats, loads, pairs of nodes), or
    two recordings. What differs by no more than repeats do, or than the catalogue calls a change, is alike.

    Exits with 1 if something is worse, and with 3 if the two have nothing in common. For example:
    `compare before.json after.json`, or `compare monday/ tuesday/`.
    """
    from skewscope.adapters.comparison.comparison import compare_sides  # noqa: PLC0415
    from skewscope.adapters.results.run_comparison import WORSE  # noqa: PLC0415
    from skewscope.tui.render.comparison import comparison_json, comparison_lines  # noqa: PLC0415

    report = progress_bar("compare", wanted=not no_progress)
    try:
        with bound_work(str(after)):
            found = compare_sides(before, after, report)
    except NothingKnownError as error:
        clear_progress(wanted=not no_progress)
        print_error(error)
        ctx.exit(EXIT_TOO_LITTLE)
    finally:
        clear_progress(wanted=not no_progress)
    sides, known = (str(before), str(after)), load_catalogue()
    if as_json:
        print_json(comparison_json(found, sides, known))
    else:
        print_lines(comparison_lines(found, sides, known, output_width()))
    ctx.exit(EXIT_PROBLEMS if found.verdict == WORSE else EXIT_OK)
