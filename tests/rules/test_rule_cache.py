"""The cached rules are those of the files, and are never used once anything differs."""

import json

import pytest

from skewscope.kb import catalogue_cache
from skewscope.kb.loader import catalogue
from skewscope.rules import rule_cache
from skewscope.rules.loader import RULES_FOLDER, load


@pytest.fixture(scope="module")
def rules():
    return load(catalogue())[0]


@pytest.fixture
def state(tmp_path, monkeypatch):
    """The state in which they are cached, in an empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(catalogue_cache, "known_state", lambda _folder: "known")
    return rule_cache.digest(RULES_FOLDER)


def test_cached_rules_are_those_of_the_files_to_the_last_digit(rules, state):
    assert rule_cache.read(RULES_FOLDER) is None
    rule_cache.write(RULES_FOLDER, state, rules)
    found = rule_cache.read(RULES_FOLDER)
    assert {name: repr(rule) for name, rule in found.items()} == {name: repr(rule) for name, rule in rules.items()}
    assert found == rules


def test_rules_of_another_state_or_catalogue_are_passed_over(rules, state, monkeypatch):
    rule_cache.write(RULES_FOLDER, "another", rules)
    assert rule_cache.read(RULES_FOLDER) is None
    rule_cache.write(RULES_FOLDER, state, rules)
    monkeypatch.setattr(catalogue_cache, "known_state", lambda _folder: "changed")
    assert rule_cache.read(RULES_FOLDER) is None
    monkeypatch.setattr(catalogue_cache, "known_state", lambda _folder: "")
    assert rule_cache.read(RULES_FOLDER) is None


def test_a_rule_file_more_is_another_state(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue_cache, "known_state", lambda _folder: "known")
    before = rule_cache.digest(tmp_path)
    (tmp_path / "one-more.yaml").write_text("id: one-more\n")
    assert rule_cache.digest(tmp_path) != before


@pytest.mark.parametrize(
    "content",
    ["[]", "1", "{}", '{"rules":[{"Other":[]}],"expressions":[]}', '{"rules":[{"Expr":7}],"expressions":[]}'],
)
def test_what_are_no_rules_is_passed_over(state, tmp_path, monkeypatch, content):
    monkeypatch.setattr(rule_cache, "encode", lambda _rules: json.loads(content))
    rule_cache.write(RULES_FOLDER, state, {})
    assert list((tmp_path / "skewscope").iterdir())
    assert rule_cache.read(RULES_FOLDER) is None
