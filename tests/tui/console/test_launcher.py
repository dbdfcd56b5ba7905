"""Settings, themes and files of the console."""

import pytest

from skewscope.kb.problems import InputError
from skewscope.tui.console import launcher


def test_themes_have_short_names_and_a_misspelt_one_gets_a_suggestion():
    assert launcher.resolve_theme("light") == "textual-light"
    assert launcher.resolve_theme("high-contrast") == "high-contrast"
    assert launcher.resolve_theme("") == ""
    with pytest.raises(InputError, match="light"):
        launcher.resolve_theme("ligth")


def test_folders_of_settings_and_state_follow_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    assert launcher.settings_folder() == tmp_path / "c" / "skewscope"
    assert launcher.state_folder() == tmp_path / "s" / "skewscope"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert launcher.settings_folder().name == "skewscope"
    assert launcher.operator_name()


def test_a_log_of_an_earlier_version_is_used_as_long_as_it_exists(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert launcher._default_log().name == "operator_log.jsonl"
    (tmp_path / "skewscope").mkdir()
    (tmp_path / "skewscope" / "ledger.jsonl").touch()
    assert launcher._default_log().name == "ledger.jsonl"
