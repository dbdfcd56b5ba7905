"""The commands `formats`, and `--formats` of the commands that read texts."""

import json
import os

import pytest
from click.testing import CliRunner

from skewscope.kb.entry_kinds import FORMATS_VARIABLE
from skewscope.tui.cli.main import cli
from tests.kb.test_own_formats import FORMAT

READERS = ("diagnose", "compare", "replay", "watch", "report", "explain", "coverage", "what-if", "backtest", "assess")


@pytest.fixture
def folder(tmp_path):
    """Returns a folder with a format, beside which a log lies that no other one reads in full."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "odd.yaml").write_text(FORMAT)
    lines = [f"it#{n} took {(500 if n < 60 else 1500) + 7 * (n % 5)}.5 milli" for n in range(150)]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\nit#9 tooked 3\n")
    return tmp_path


def run(*words):
    return CliRunner().invoke(cli, list(map(str, words)))


@pytest.mark.parametrize("name", READERS)
def test_every_command_that_reads_texts_takes_formats(name, tmp_path):
    command = cli.get_command(None, name)
    assert any("--formats" in option.opts for option in command.params)
    assert "at most" in run(name, "--formats", bad_folder(tmp_path)).stderr


def bad_folder(folder):
    for number in range(501):
        (folder / f"f{number}.yaml").touch()
    return folder


def test_diagnose_reads_by_formats_of_a_folder(folder):
    answer = run("diagnose", "--formats", folder / "own", folder / "train.log", "--json")
    (incident,) = map(json.loads, answer.stdout.splitlines())
    assert (answer.exit_code, incident["condition"], incident["entity"]["name"]) == (1, "slow-steps", "train")
    assert incident["evidence"][0]["value"] == pytest.approx(1.5, rel=0.02)
    assert FORMATS_VARIABLE not in os.environ


def test_a_saved_format_is_used_at_once(folder):
    log = folder / "other.log"
    log.write_text("".join(f"pass {n} | loss 0.1 | step_time 0.4{n % 10}s |\n" for n in range(60)))
    saved = folder / "my-tool.yaml"
    assert run("diagnose", log, "--save-format", saved).exit_code == 0
    answer = run("diagnose", log, "--formats", saved)
    assert answer.exit_code == 0
    assert "no format is known" not in answer.stdout
    assert "my-tool" in run("formats", "list", "--formats", saved).stdout


def test_a_saved_recording_says_which_formats_it_needs(folder):
    answer = run("diagnose", folder / "train.log", "--formats", folder / "own", "--save", folder / "kept")
    assert f"skewscope replay {folder / 'kept'} --formats {folder / 'own'}" in answer.stderr
    assert "1 symptom" in run("replay", folder / "kept", "--formats", folder / "own").stdout


def test_a_format_of_a_user_stands_in_place_of_one_of_the_catalogue(folder):
    (folder / "own" / "odd.yaml").write_text(FORMAT.replace("id: odd", "id: vllm"))
    listed = json.loads(run("formats", "list", "--formats", folder / "own", "--json").stdout)
    assert [(one["tool"], one["own"]) for one in listed if one["id"] == "vllm"] == [("odd", True)]


def test_formats_test_shows_what_each_line_gives(folder):
    answer = run("formats", "test", folder / "own" / "odd.yaml", folder / "train.log", "--lines", 2)
    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    assert lines[:3] == [
        "     1  it#0 took 500.5 milli",
        "        pattern 1: it#<n> took <ms> milli",
        "          <n> is step number 0; <ms> is step duration 0.5005 s",
    ]
    assert "sample: step.duration 0.5075 s at group group=train" in answer.stdout
    assert "149 more lines are not shown; --lines 151 shows all." in answer.stdout
    assert "151 lines: 150 match, 1 do not." in answer.stdout
    assert "They give 149 samples." in answer.stdout


def test_formats_test_shows_where_a_line_stops_fitting(folder):
    answer = run("formats", "test", folder / "own" / "odd.yaml", folder / "train.log", "--lines", 200)
    last = " ".join(answer.stdout.partition("tooked 3\n")[2].split())
    assert last.startswith("nearest is pattern 1 (it#<n> took <ms> milli): 'tooked 3' stands where took <ms> milli")


def test_formats_test_gives_json_by_line(folder):
    answer = run("formats", "test", folder / "own" / "odd.yaml", folder / "train.log", "--json")
    first, second = map(json.loads, answer.stdout.splitlines()[:2])
    assert first["matches"][0]["readings"][0] == {"signal": "step number", "value": 0}
    assert second["samples"][0]["labels"] == {"group": "train"}


def test_formats_test_checks_the_samples_of_the_file(folder):
    (folder / "own" / "odd.yaml").write_text(FORMAT.replace("value: 3}", "value: 4}"))
    answer = run("formats", "test", folder / "own" / "odd.yaml", folder / "train.log", "--lines", 0)
    assert answer.exit_code == 1
    assert "odd.yaml:13: samples[0]: found no" in answer.stderr
    assert "not all give what they say" in answer.stdout
    assert run("formats", "test", "vllm", folder / "train.log", "--lines", 0).exit_code == 1


def test_formats_test_refuses_what_is_no_format(folder):
    answer = run("formats", "test", "vlm", folder / "train.log")
    assert answer.exit_code == 2
    assert "Did you mean 'vllm'?" in answer.stderr
