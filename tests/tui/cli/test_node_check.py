"""`skewscope check`: what a prolog is told of its nodes, and by which exit code."""

import json

import pytest
from click.testing import CliRunner

from skewscope.adapters.health_client import Health, HealthAnswer
from skewscope.tui.cli.main import cli

HOT = {"condition": "gpu-thermal-throttle", "severity": "critical"}
KNOWN = {
    "good": HealthAnswer("node", "good", 1.0, coverage=1.0, age=1.0),
    "ill": HealthAnswer("node", "ill", 0.2, (HOT,), 1.0, 1.0),
    "dark": HealthAnswer("node", "dark", trouble="no telemetry comes from there"),
    "gone": HealthAnswer("node", "gone", trouble="it is gone", is_gone=True),
}


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(Health, "query", lambda _, __, name: KNOWN[name])
    return lambda *args: CliRunner().invoke(cli, ["check", *args])


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["good"], 0),
        (["ill"], 1),
        (["dark"], 3),
        (["gone"], 3),
        (["good", "dark"], 3),
        (["dark", "ill", "good"], 1),
    ],
)
def test_the_exit_code_is_that_of_the_worst_node(run, names, code):
    assert run(*names).exit_code == code


def test_each_node_has_a_line_with_reasons(run):
    lines = run("good", "ill", "dark").output.splitlines()
    assert [line.split()[:2] for line in lines] == [["PASS", "good"], ["FAIL", "ill"], ["UNKNOWN", "dark"]]
    assert "gpu-thermal-throttle (critical)" in lines[1]
    assert "no telemetry" in lines[2]


def test_a_program_reads_verdicts(run):
    found = json.loads(run("ill", "dark", "--json").output)
    assert [(one["name"], one["verdict"], one["score"]) for one in found] == [
        ("ill", "FAIL", 0.2),
        ("dark", "UNKNOWN", None),
    ]


def test_a_controller_that_does_not_answer_makes_all_unknown():
    result = CliRunner().invoke(cli, ["--url", "http://127.0.0.1:9", "check", "n1"])
    assert result.exit_code == 3
    assert "no answer" in result.output
