"""The commands about rules: `rules`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skewscope.kb.problems import InputError, Problem, nearest
from skewscope.tui.catalogue import FOLDER, Know, catalogue
from skewscope.tui.terminal import FINE, FOUND, json_option, print_faults, print_json, show

if TYPE_CHECKING:
    from skewscope.rules.case import CaseFile
    from skewscope.rules.model import Rule


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


def _rules_in(folder: Path | None) -> Path:
    """The folder of the rules that are meant.

    Raises:
        InputError: there are none in it.
    """
    from skewscope.rules.load import HERE  # noqa: PLC0415

    if folder is not None and next(folder.glob("*.yaml"), None) is None:
        raise InputError([Problem(str(folder), 0, "", "no rule", "a folder with rules, a .yaml file each")])
    return folder or HERE


@rules.command("lint")
@click.argument("folder", required=False, type=FOLDER)
@json_option
def rules_lint(folder: Path | None, as_json: bool) -> None:
    """Check rules, cases and policies, or those in a folder."""
    from skewscope.engine.policy_lint import lint  # noqa: PLC0415
    from skewscope.rules.lint import faults  # noqa: PLC0415
    from skewscope.rules.policy import load as load_policies  # noqa: PLC0415

    place = _rules_in(folder)
    policies, _ = load_policies(place / "policies")
    print_faults(sorted({*faults(catalogue(), place), *lint(policies, catalogue())}), as_json=as_json)


from_folder = click.option(
    "--folder", type=FOLDER, help="A folder of rules with cases/ in it; without it, those built in."
)


def _tested(ids: tuple[str, ...], folder: Path | None) -> "tuple[Mapping[str, Rule], list[CaseFile]]":
    """The rules of these ids (all, when none is told) and their cases."""
    from skewscope.rules import case  # noqa: PLC0415
    from skewscope.rules.load import rules as load  # noqa: PLC0415

    place = _rules_in(folder)
    known = load(catalogue(), place)
    if unknown := [id_ for id_ in ids if id_ not in known]:
        raise InputError(
            Problem(repr(id_), 0, "", "no rule", "the id of a rule", nearest(id_, known)) for id_ in unknown
        )
    files, problems = case.load(catalogue(), place / "cases", ids)
    if problems:
        raise InputError(problems)
    chosen = {id_: rule for id_, rule in known.items() if not ids or id_ in ids}
    return chosen, [file for id_, file in sorted(files.items()) if id_ in chosen]


@rules.command("test")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@from_folder
@json_option
def rules_test(ids: tuple[str, ...], folder: Path | None, as_json: bool) -> None:
    """Run the cases of rules."""
    from skewscope.engine.trial import run_cases  # noqa: PLC0415
    from skewscope.tui.show import result_lines  # noqa: PLC0415

    chosen, files = _tested(ids, folder)
    results = run_cases(chosen, files, catalogue())
    if as_json:
        print_json(results)
    else:
        show(result_lines(results, chosen), wrapped=True)
    click.get_current_context().exit(FINE if all(result.good for result in results) else FOUND)


@rules.command("mutate")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@from_folder
@json_option
def rules_mutate(ids: tuple[str, ...], folder: Path | None, as_json: bool) -> None:
    """Change rules in each place and list what no case notices.

    Thresholds are moved by a quarter either way, comparisons turned round,
    terms and items left out. Ends with 1 where more than a tenth of all
    changes go unnoticed.
    """
    from skewscope.engine.mutants import mutants, survivors  # noqa: PLC0415
    from skewscope.tui.show import mutant_lines  # noqa: PLC0415

    chosen, files = _tested(ids, folder)
    total = sum(1 for file in files for _ in mutants(chosen[file.rule]))
    found = survivors(chosen, files, catalogue())
    if as_json:
        print_json([{"rule": mutant.rule.id, "change": mutant.change} for mutant in found])
    else:
        show(mutant_lines(found, total), wrapped=True)
    click.get_current_context().exit(FOUND if len(found) > total / 10 else FINE)
