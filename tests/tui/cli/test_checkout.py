"""Inside a checkout the commands about rules and the catalogue read that checkout."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from skewscope.kb.entry_kinds import builtin_folder
from skewscope.rules.loader import RULES_FOLDER
from skewscope.tui.cli.checkout import default_folder, find_checkout
from skewscope.tui.cli.main import cli

RULE = "egress-loss-on-the-wire"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like a checkout, with one rule of its own and the installed catalogue."""
    root = tmp_path / "checkout"
    (root / "rules" / "schema").mkdir(parents=True)
    (root / "rules" / "cases").mkdir()
    (root / "kb").symlink_to(builtin_folder())
    (root / "pyproject.toml").write_text('[project]\nname = "skewscope"\n')
    for name in (f"{RULE}.yaml", f"cases/{RULE}.yaml"):
        shutil.copy(RULES_FOLDER / name, root / "rules" / name)
    return root


def test_a_checkout_is_found_from_any_folder_inside(checkout: Path) -> None:
    assert find_checkout(checkout) == checkout
    assert find_checkout(checkout / "rules" / "cases") == checkout
    assert find_checkout(checkout.parent) is None


@pytest.mark.parametrize("text", ['[project]\nname = "other"\n', "[project", "project = 1\n", ""])
def test_another_project_is_no_checkout(checkout: Path, text: str) -> None:
    (checkout / "pyproject.toml").write_text(text)
    assert find_checkout(checkout) is None


def test_the_installed_folder_is_the_default_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_folder("rules", RULES_FOLDER) == RULES_FOLDER
    assert capsys.readouterr().err == f"Reading {RULES_FOLDER}\n"


def test_rules_of_a_checkout_are_read_and_named(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout / "rules")
    rule = checkout / "rules" / f"{RULE}.yaml"
    rule.write_text(rule.read_text().replace("6*s", "6*packets"))
    result = CliRunner().invoke(cli, ["rules", "lint"])
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == f"Reading {checkout / 'rules'}"
    assert f"{RULE}.yaml:" in result.stdout
    rule.write_text(rule.read_text().replace("6*packets", "6*s"))
    result = CliRunner().invoke(cli, ["rules", "list"])
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 2)
    assert result.stderr == ""
    assert CliRunner().invoke(cli, ["rules", "test"]).exit_code == 0


STRAYS = ["rules/mine.yml", "rules/new/mine.yaml", "rules/policies/mine.YAML", "rules/schema/mine.yaml"]


@pytest.mark.parametrize("name", STRAYS)
def test_a_file_that_nothing_reads_is_a_problem(checkout: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text("id: [")
    monkeypatch.chdir(checkout)
    result = CliRunner().invoke(cli, ["rules", "lint"])
    assert f"{name}: found a file that nothing reads, expected a .yaml file in rules/cases, rules/policies" in (
        result.stdout.replace("rules, rules/cases", "rules/cases")
    )


@pytest.mark.parametrize("name", ["mine.yaml", "new/mine.yaml", "conditions/new/mine.yaml"])
def test_a_file_of_a_catalogue_that_nothing_reads_is_a_problem(tmp_path: Path, name: str) -> None:
    shutil.copytree(builtin_folder(), tmp_path / "kb", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (tmp_path / "kb" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "kb" / name).write_text("id: [")
    result = CliRunner().invoke(cli, ["kb", "lint", str(tmp_path / "kb")])
    assert result.exit_code == 1
    assert name.rpartition("/")[0] in result.stdout


def test_a_named_folder_is_held_against_the_catalogue_of_its_own_checkout(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / "kb").unlink()
    shutil.copytree(builtin_folder(), checkout / "kb", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (checkout / "kb" / "conditions" / "egress-loss.yaml").unlink()
    monkeypatch.chdir(checkout.parent)
    result = CliRunner().invoke(cli, ["rules", "lint", str(checkout / "rules")])
    assert (result.exit_code, "egress-loss" in result.stderr) == (2, True)


@pytest.mark.slow
def test_the_lint_says_how_much_it_read() -> None:
    result = CliRunner().invoke(cli, ["rules", "lint", str(RULES_FOLDER)])
    count = len(list(RULES_FOLDER.glob("*.yaml")))
    assert result.stdout.startswith(f"No problems in {count} rules, ")


def test_the_lints_come_before_everything_else_in_the_run_of_all_checks() -> None:
    script = (Path(__file__).parents[3] / ".ci" / "run").read_text()
    assert script.index("/lint") < script.index("pytest")
    assert script.index(".ci/lint") < script.index("apt-get")
