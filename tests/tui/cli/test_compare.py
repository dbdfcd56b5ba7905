"""The command `compare`: exit codes, the answer first, and JSON."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from skewscope.tui.cli.main import cli
from tests.support.benchmark_texts import serving_table


def run(*args):
    return CliRunner().invoke(cli, ["compare", *map(str, args)])


@pytest.fixture
def sides(tmp_path):
    """Two results, the second one with a queue."""
    paths = tmp_path / "before.txt", tmp_path / "after.txt"
    for path, text in zip(paths, (serving_table(80, 16), serving_table(39870, 17, served=2.54)), strict=True):
        path.write_text(text)
    return paths


def test_the_answer_comes_first_and_the_numbers_after_it(sides):
    done = run(*sides)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[1].startswith("Requests wait before they are computed: the first token comes after 39.9 s")
    assert any("time to first token" in each and "worse" in each for each in lines)
    assert "Backlog after a burst of requests" in done.stdout


def test_the_page_shows_what_the_command_prints(sides, monkeypatch):
    monkeypatch.chdir(sides[0].parent)
    page = (Path(__file__).parents[3] / "docs" / "results.md").read_text()
    assert page.split("```\n")[1] == run("before.txt", "after.txt").stdout


def test_json_has_all_of_it(sides):
    done = run(*sides, "--json")
    answer = json.loads(done.stdout)
    assert (answer["version"], answer["verdict"], answer["kind"]) == (1, "worse", "results")
    assert answer["findings"][0]["event"] == "bench-requests-queue"
    assert {each["name"]: each["verdict"] for each in answer["changes"]}["ttft"] == "worse"


def test_exit_codes_say_worse_alike_too_little_and_error(sides, tmp_path):
    before, after = sides
    assert run(before, before).exit_code == 0
    assert run(after, before).exit_code == 0
    other = tmp_path / "other.txt"
    other.write_text(serving_table(80, 16, rate="9.00") + serving_table(80, 16, rate="7.00"))
    both = tmp_path / "both.txt"
    both.write_text(serving_table(80, 16) + serving_table(80, 16, rate="2.00"))
    assert run(both, other).exit_code == 3
    assert run(before, tmp_path / "none").exit_code == 2
