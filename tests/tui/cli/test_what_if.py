"""The commands `what-if` and `explain --why-not`."""

import json

import pytest
from click.testing import CliRunner

from skewscope.tui.cli.main import cli

TIME = "2026-11-20T23:10:12Z"


def run(*words):
    return CliRunner().invoke(cli, [*map(str, words)])


def test_explain_says_why_a_condition_was_not_told(brief):
    found = run("explain", "--why-not", "tp-straggler", "--at", "n3", "--time", TIME, "--over", brief)
    assert found.exit_code == 0, found.output
    assert "rank_is_late is required and is no." in found.output
    assert "Nothing was open there at that time." in found.output


@pytest.mark.slow
def test_what_if_says_what_turns_an_incident(brief):
    told = map(json.loads, run("replay", brief, "--json").output.splitlines())
    incident = next(one for one in told if one["condition"] == "tp-straggler")
    lag = ("--set", "wire.peer_onset_lag=0.0005", "--set", "wire.own_onset_lag@*=0")
    found = run("what-if", incident["id"], "--over", brief, *lag, "--json")
    assert found.exit_code == 1, found.output
    answer = json.loads(found.output)
    assert (answer["result"], answer["turned"]) == ("gone", ["rank_is_late"])


@pytest.mark.parametrize(
    "words",
    [
        ("what-if", "abc"),
        ("explain", "--why-not", "tp-straggler", "--at", "n3"),
        ("explain",),
        ("explain", "tp-straggler", "--why-not", "tp-straggler"),
    ],
)
def test_incomplete_questions_are_refused(words):
    found = run(*words)
    assert found.exit_code == 2
    assert "Give" in found.output
