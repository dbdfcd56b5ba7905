"""The commands `knowledge`: the rules, entries, policies and names of a site, beside those that are installed."""

from pathlib import Path

import click

from skewscope.tui.cli.catalogue import FOLDER, KnowledgeGroup
from skewscope.tui.cli.options import json_option
from skewscope.tui.cli.terminal import EXIT_OK, EXIT_PROBLEMS, print_json, print_lines


@click.group("knowledge", cls=KnowledgeGroup)
def knowledge() -> None:
    """Check the knowledge of a site: its own rules, entries, policies and names."""


@knowledge.command("check")
@click.argument("folder", type=FOLDER, metavar="FOLDER")
@json_option
def check(folder: Path, as_json: bool) -> None:
    """Check all files of a site's knowledge, and run the cases of its rules.

    Exit codes: 0 sound, 1 problems or failed cases, 2 it cannot be used.
    """
    from skewscope.adapters.config.site_check import check_knowledge  # noqa: PLC0415
    from skewscope.adapters.config.site_knowledge import load_knowledge  # noqa: PLC0415
    from skewscope.tui.render.rules import result_lines  # noqa: PLC0415
    from skewscope.tui.render.text import line  # noqa: PLC0415

    known = load_knowledge(folder)
    found = check_knowledge(known)
    if as_json:
        print_json({"version": known.catalogue.version, "problems": found.problems, "cases": found.results})
    else:
        print_lines([line(str(problem), "critical") for problem in found.problems], wrapped=True)
        print_lines(result_lines(list(found.results), found.rules), wrapped=True)
        click.echo(str(known))
    click.get_current_context().exit(EXIT_OK if found.is_ok else EXIT_PROBLEMS)
