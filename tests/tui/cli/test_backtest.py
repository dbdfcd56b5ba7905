"""The command `backtest`."""

import json

import pytest
from click.testing import CliRunner

from skewscope.rules.loader import RULES_FOLDER
from skewscope.tui.cli.main import cli

RULE = "tp-straggler-on-the-wire"


@pytest.fixture(scope="module")
def stricter(tmp_path_factory):
    """A rule whose score must hold for five seconds more."""
    file = tmp_path_factory.mktemp("rules") / f"{RULE}.yaml"
    text = (RULES_FOLDER / f"{RULE}.yaml").read_text()
    file.write_text(text.replace("fire: {score: 5, hold: 4*s}", "fire: {score: 5, hold: 9*s}"))
    return str(file)


def run(*words):
    return CliRunner().invoke(cli, ["backtest", *map(str, words)])


def test_one_version_prints_what_it_tells(brief, moment):
    found = run(RULE, "--over", brief, moment)
    assert found.exit_code == 1, found.output
    assert "2 recordings" in found.output
    assert "1 diagnosis, 0 suspicions, 0 symptoms" in found.output
    assert "rank n2" in found.output


def test_two_versions_print_their_difference(brief, stricter):
    found = run(stricter, "--against", RULE, "--over", brief)
    assert found.exit_code == 1, found.output
    assert "told later" in found.output
    assert "+5 s" in found.output


def test_labels_say_what_is_missed(moment, tmp_path):
    start = 1795216096.0
    fault = {"condition": "tp-straggler", "entity": "n2", "start": start, "end": start + 100}
    for name in ("recording.yaml", "topology.yaml", "metrics.om.zst"):
        (tmp_path / name).write_bytes((moment / name).read_bytes())
    (tmp_path / "labels.json").write_text(json.dumps({"start": start, "labels": [fault]}))
    found = run(RULE, "--over", tmp_path, "--json")
    assert found.exit_code == 0, found.output
    (version,) = json.loads(found.output)["versions"]
    assert [one["entity"] for one in version["missed"]] == ["n2"]
    assert version["false_alarms_a_node_day"] == 0.0
    assert (
        "found      0 of 1 fault that these rules can tell\nmissed     Tensor-parallel straggler at n2"
        in run(RULE, "--over", tmp_path).output
    )


def test_equal_versions_exit_with_zero(moment):
    found = run(RULE, "--against", RULE, "--over", moment, "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.output)["differences"] == []


def test_an_unknown_rule_is_refused(moment):
    found = run("tp-stragler-on-the-wire", "--over", moment)
    assert found.exit_code == 2
    assert RULE in found.output
