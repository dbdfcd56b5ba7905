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
