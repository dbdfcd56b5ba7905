"""The commands `formats`: which texts are read, and a format tried on a text."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skewscope.kb.problems import InputError, Problem, suggest_name
from skewscope.tui.cli.completion import complete_entries
from skewscope.tui.cli.options import formats_option, json_option, load_catalogue
from skewscope.tui.cli.terminal import (
    EXIT_OK,
    EXIT_PROBLEMS,
    SuggestingGroup,
    print_error,
    print_json,
    print_lines,
)

if TYPE_CHECKING:
    from skewscope.kb.model import Format

DEFAULT_LINES = 40
"""Lines of a text that `formats test` shows."""


class FormatsGroup(SuggestingGroup):
    """A group of commands on formats."""

    section = "Catalogue and rules"


@click.group("formats", cls=FormatsGroup)
def formats() -> None:
    """List the formats of texts, and try one on a text."""


@formats.command("list")
@formats_option
@json_option
def list_formats(as_json: bool) -> None:
    """List the formats by which texts are read: those of --formats DIR, then those of the catalogue."""
    from skewscope.adapters.inputs.known_formats import known_formats  # noqa: PLC0415
    from skewscope.tui.render.blocks import table_lines  # noqa: PLC0415

    known = known_formats()
    own = {one.id for one in known.own}
    listed = [*known.own, *(one for one in known.by_id.values() if one.id not in own)]
    if as_json:
        print_json([{"id": one.id, "name": one.name, "tool": one.tool, "own": one.id in own} for one in listed])
        return
    rows = [(one.id, "own" if one.id in own else "", one.tool, one.name) for one in listed]
    print_lines(table_lines(rows, ("id", "", "tool", "name")), wrapped=True)


@formats.command("test")
@click.argument("which", metavar="FORMAT", shell_complete=complete_entries("formats"))
@click.argument("text", metavar="TEXT", type=click.Path(path_type=Path))
@click.option(
    "--lines",
    "most",
    type=click.IntRange(0),
    default=DEFAULT_LINES,
    show_default=True,
    metavar="N",
    help="Show so many lines.",
)
@formats_option
@json_option
@click.pass_context
def try_on_text(ctx: click.Context, /, which: str, text: Path, most: int, *, as_json: bool) -> None:
    """Show line by line what a format understands of a text.

    FORMAT is a file, or the id of a format. Each line is shown with the pattern that it matches, the fields and the
    samples that it gives; a line that matches none with the pattern that is nearest, and where it stops fitting. The
    samples of the format's own file are checked as well.

    Exits with 1 if a sample does not give what it says, or if no line gives a sample. For example:
    `formats test my-tool.yaml train.log`, or `formats test vllm vllm.log --lines 0`.
    """
    from skewscope.adapters.inputs.format_trial import try_format  # noqa: PLC0415
    from skewscope.adapters.runtime.watchdog import bound_work  # noqa: PLC0415
    from skewscope.tui.render.format_trial import count_lines, trial_json, trial_lines  # noqa: PLC0415

    chosen, problems = _find_format(which)
    if problems:
        print_error(InputError(problems))
    if chosen is None:
        ctx.exit(EXIT_PROBLEMS)
    counts: Counter[str] = Counter()
    with bound_work(str(text)):
        for trial in try_format(chosen, text):
            counts.update(lines=1, matched=bool(trial.found), samples=len(trial.samples))
            if counts["lines"] > most:
                continue
            if as_json:
                click.echo(json.dumps(trial_json(trial)))
            else:
                print_lines(trial_lines(trial, chosen, load_catalogue()), wrapped=True)
    if not as_json:
        print_lines(count_lines(counts, most, chosen, is_sound=not problems), wrapped=True)
    ctx.exit(EXIT_PROBLEMS if problems or not counts["samples"] else EXIT_OK)


def _find_format(which: str) -> "tuple[Format | None, tuple[Problem, ...]]":
    """Returns the format of a file or an id, and its problems; None where it cannot be tried.

    Raises:
        InputError: there is neither.
    """
    from skewscope.adapters.inputs.known_formats import known_formats  # noqa: PLC0415
    from skewscope.kb.own_formats import open_format  # noqa: PLC0415

    known = known_formats().by_id
    if which in known:
        return known[which], ()
    if Path(which).exists():
        return open_format(Path(which), load_catalogue())
    hint = suggest_name(which, known) or "`skewscope formats list` lists those that are known."
    raise InputError([Problem(repr(which), 0, "", "no file and no id of a format", "one of them", hint)])
