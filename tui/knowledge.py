"""The commands about what is known: `kb` and `rules`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skewscope.kb.problems import InputError, Problem, nearest
from skewscope.tui.terminal import json_option, print_faults, print_json, show

if TYPE_CHECKING:
    from skewscope.kb.model import Catalogue
    from skewscope.rules.model import Rule


class Know(click.Group):
    """A group of commands about what is known and how it is recognised."""

    section = "What is known"


def catalogue() -> "Catalogue":
    """The catalogue that comes with the package."""
    from skewscope.kb.load import catalogue as load  # noqa: PLC0415

    return load()


@click.group("kb", cls=Know)
def kb() -> None:
    """The catalogue: conditions, signals, mitigations, sources."""


KIND = click.Choice(["conditions", "signals", "mitigations", "sources"])


@kb.command("list")
@click.argument("kind", type=KIND, default="conditions")
@json_option
def kb_list(kind: str, as_json: bool) -> None:
    """List all entries of a kind."""
    from skewscope.tui.show import entries, list_lines  # noqa: PLC0415

    if as_json:
        print_json(list(entries(catalogue(), kind).values()))
    else:
        show(list_lines(catalogue(), kind))


@kb.command("show")
@click.argument("id_", metavar="ID")
@json_option
def kb_show(id_: str, as_json: bool) -> None:
    """Show an entry, of whatever kind."""
    from skewscope.tui.detail import Words  # noqa: PLC0415
    from skewscope.tui.show import KINDS, entries, entry_lines  # noqa: PLC0415

    known = catalogue()
    found = next((entries(known, kind)[id_] for kind in KINDS if id_ in entries(known, kind)), None)
    if found is None:
        ids = [each for kind in KINDS for each in entries(known, kind)]
        raise InputError([Problem(repr(id_), 0, "", "no entry of the catalogue", "an id", nearest(id_, ids))])
    if as_json:
        print_json(found)
    else:
        show(entry_lines(found, Words(known)), wrapped=True)


@kb.command("lint")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@json_option
def kb_lint(folder: Path | None, as_json: bool) -> None:
    """Check the catalogue, or one in a folder."""
    from skewscope.kb.lint import lint  # noqa: PLC0415

    print_faults(lint(folder), as_json=as_json)


@click.group("rules", cls=Know)
def rules() -> None:
    """The rules: how each condition is recognised."""


def all_rules() -> "Mapping[str, Rule]":
    from skewscope.rules.load import rules as load  # noqa: PLC0415

    return load(catalogue())


@rules.command("list")
@json_option
def rules_list(as_json: bool) -> None:
    """List all rules."""
    from skewscope.tui.show import table  # noqa: PLC0415

    found = all_rules().values()
    if as_json:
        print_json(list(found))
        return
    rows = [(r.id, r.condition, r.scope, r.vantage, r.maturity) for r in found]
    show(table(rows, ("id", "condition", "judges each", "seen from", "maturity")))


@rules.command("show")
@click.argument("id_", metavar="ID")
@json_option
def rules_show(id_: str, as_json: bool) -> None:
    """Show a rule with its evidence."""
    from skewscope.tui.detail import Words  # noqa: PLC0415
    from skewscope.tui.show import rule_lines  # noqa: PLC0415

    known = all_rules()
    if id_ not in known:
        raise InputError([Problem(repr(id_), 0, "", "no rule", "the id of a rule", nearest(id_, known))])
    if as_json:
        print_json(known[id_])
    else:
        show(rule_lines(known[id_], Words(catalogue())), wrapped=True)
