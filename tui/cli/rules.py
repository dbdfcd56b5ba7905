"""The `rules` commands: list, show, check and test rules."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skewscope.kb.problems import InputError, Problem, suggest_name
from skewscope.tui.cli.catalogue import FOLDER, KnowledgeGroup
from skewscope.tui.cli.checkout import default_folder, find_checkout
from skewscope.tui.cli.completion import complete_rules
from skewscope.tui.cli.options import json_option, load_catalogue
from skewscope.tui.cli.terminal import EXIT_OK, EXIT_PROBLEMS, print_json, print_lines, print_problems

if TYPE_CHECKING:
    from skewscope.kb.model import Catalogue
    from skewscope.rules.case_file import CaseFile
    from skewscope.rules.model import Rule


@click.group("rules", cls=KnowledgeGroup)
def rules() -> None:
    """List, show, check and test the rules."""


def load_rules() -> "Mapping[str, Rule]":
    """The rules of the checkout around the current directory, or the installed ones."""
    from skewscope.rules.loader import load_strict as load  # noqa: PLC0415

    return load(_load_catalogue(), _rules_folder(None, quiet=True))


def _load_catalogue(rules_folder: Path | None = None) -> "Catalogue":
    """The catalogue of the checkout around a folder of rules or the current directory, or the installed one."""
    from skewscope.kb.entry_kinds import builtin_folder  # noqa: PLC0415
    from skewscope.kb.loader import load_cached  # noqa: PLC0415

    checkout = find_checkout(rules_folder.resolve()) if rules_folder else None
    folder = checkout / "kb" if checkout else default_folder("kb", builtin_folder(), quiet=True)
    folder = builtin_folder() if folder.resolve() == builtin_folder().resolve() else folder
    return load_catalogue() if folder == builtin_folder() else load_cached(folder)


@rules.command("list")
@json_option
def rules_list(as_json: bool) -> None:
    """List all rules."""
    from skewscope.tui.render.blocks import table_lines  # noqa: PLC0415

    found = load_rules().values()
    if as_json:
        print_json(list(found))
        return
    rows = [(r.id, r.scope, r.vantage, r.maturity, r.title) for r in found]
    print_lines(table_lines(rows, ("id", "scope", "vantage", "maturity", "title")))


@rules.command("show")
@click.argument("id_", metavar="ID", shell_complete=complete_rules)
@json_option
def rules_show(id_: str, as_json: bool) -> None:
    """Show a rule with its evidence."""
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415
    from skewscope.tui.render.rules import rule_lines  # noqa: PLC0415

    known = load_rules()
    if id_ not in known:
        raise InputError([Problem(repr(id_), 0, "", "no rule", "the id of a rule", suggest_name(id_, known))])
    if as_json:
        print_json(known[id_])
    else:
        print_lines(rule_lines(known[id_], DisplayNames(_load_catalogue())), wrapped=True)


def _rules_folder(folder: Path | None, *, quiet: bool = False) -> Path:
    """The given folder of rules, or the default one, which is named on standard error unless `quiet`.

    Raises:
        InputError: the folder has no rules.
    """
    from skewscope.rules.loader import RULES_FOLDER  # noqa: PLC0415

    if folder is not None and next(folder.glob("*.yaml"), None) is None:
        raise InputError([Problem(str(folder), 0, "", "no rule", "a folder with rules, a .yaml file each")])
    return folder or default_folder("rules", RULES_FOLDER, quiet=quiet)


@rules.command("lint")
@click.argument("folder", required=False, type=FOLDER)
@json_option
def rules_lint(folder: Path | None, as_json: bool) -> None:
    """Check rules, cases and policies.

    Without FOLDER, those of the checkout around the current directory, or
    outside of a checkout the installed ones.
    """
    from skewscope.engine.advice.policy_lint import lint_policies  # noqa: PLC0415
    from skewscope.rules.lint import lint_folder  # noqa: PLC0415
    from skewscope.rules.policy import load as load_policies  # noqa: PLC0415

    place = _rules_folder(folder)
    catalogue = _load_catalogue(folder)
    policies, _ = load_policies(place / "policies")
    found = sorted({*lint_folder(catalogue, place), *lint_policies(policies, catalogue)})
    print_problems(found, as_json=as_json, checked=_describe_files(place))


def _describe_files(place: Path) -> str:
    """Returns how many files of a folder of rules were read."""
    rules, cases, policies = (len(list((place / part).glob("*.yaml"))) for part in ("", "cases", "policies"))
    return f"{rules} rules, {cases} files of cases and {policies} policies"


folder_option = click.option(
    "--folder", type=FOLDER, help="A folder of rules with cases/ in it; by default that of the checkout, or installed."
)


def _load_rules_and_cases(ids: tuple[str, ...], folder: Path | None) -> "tuple[Mapping[str, Rule], list[CaseFile]]":
    """Load the rules with these ids (all if none is given) and their cases."""
    from skewscope.rules import case_file  # noqa: PLC0415
    from skewscope.rules.loader import load_strict as load  # noqa: PLC0415

    place = _rules_folder(folder)
    catalogue = _load_catalogue(folder)
    known = load(catalogue, place)
    if unknown := [id_ for id_ in ids if id_ not in known]:
        raise InputError(
            Problem(repr(id_), 0, "", "no rule", "the id of a rule", suggest_name(id_, known)) for id_ in unknown
        )
    files, problems = case_file.load(catalogue, place / "cases", ids)
    if problems:
        raise InputError(problems)
    chosen = {id_: rule for id_, rule in known.items() if not ids or id_ in ids}
    return chosen, [file for id_, file in sorted(files.items()) if id_ in chosen]


@rules.command("test")
@click.argument("ids", metavar="[ID]...", nargs=-1, shell_complete=complete_rules)
@folder_option
@json_option
def rules_test(ids: tuple[str, ...], folder: Path | None, as_json: bool) -> None:
    """Run the cases of rules."""
    from skewscope.engine.casetest.case_runner import run_cases  # noqa: PLC0415
    from skewscope.tui.render.rules import result_lines  # noqa: PLC0415

    chosen, files = _load_rules_and_cases(ids, folder)
    results = run_cases(chosen, files, _load_catalogue())
    if as_json:
        print_json(results)
    else:
        print_lines(result_lines(results, chosen), wrapped=True)
    click.get_current_context().exit(EXIT_OK if all(result.is_ok for result in results) else EXIT_PROBLEMS)


@rules.command("mutate")
@click.argument("ids", metavar="[ID]...", nargs=-1, shell_complete=complete_rules)
@folder_option
@json_option
def rules_mutate(ids: tuple[str, ...], folder: Path | None, as_json: bool) -> None:
    """Change rules one place at a time and list the changes that no case detects.

    Moves thresholds by a quarter either way, inverts comparisons, and drops terms and evidence items. Exits with 1 if
    more than a tenth of all changes are undetected.
    """
    from skewscope.engine.casetest.mutants import generate_mutants  # noqa: PLC0415
    from skewscope.engine.casetest.mutation import find_survivors  # noqa: PLC0415
    from skewscope.tui.render.rules import mutant_lines  # noqa: PLC0415

    chosen, files = _load_rules_and_cases(ids, folder)
    total = sum(1 for file in files for _ in generate_mutants(chosen[file.rule]))
    found = find_survivors(chosen, files, _load_catalogue())
    if as_json:
        print_json([{"rule": mutant.rule.id, "change": mutant.change} for mutant in found])
    else:
        print_lines(mutant_lines(found, total), wrapped=True)
    click.get_current_context().exit(EXIT_PROBLEMS if len(found) > total / 10 else EXIT_OK)
