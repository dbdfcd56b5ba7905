"""The command `history`, and the plots in the HTML report."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from skewscope.tui.cli.main import cli
from skewscope.tui.render.history import HistoryPlots, history_html
from tests.support.history import write_history

MONDAY = datetime(2026, 8, 31, tzinfo=UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("duckdb")
    return str(write_history(tmp_path_factory.mktemp("history")))


def run(*words):
    return CliRunner().invoke(cli, [*map(str, words)])


def test_a_question_is_answered_as_a_table_and_as_json(folder):
    question = "SELECT node, diagnoses FROM worst_nodes LIMIT 1"
    assert run("history", question, "--over", folder).output.splitlines()[1].split() == ["n1", "3"]
    found = run("history", "--over", folder, question, "--json")
    assert json.loads(found.output) == [{"node": "n1", "diagnoses": 3}]


def test_a_wrong_question_exits_with_two(folder):
    found = run("history", "DROP TABLE incidents", "--over", folder)
    assert found.exit_code == 2
    assert "only read" in found.output


def test_views_are_listed():
    assert {one["name"] for one in json.loads(run("history", "views", "--json").output)} > {"incidents", "cost"}


def test_a_store_needs_its_topology(tmp_path):
    (tmp_path / "store.db").write_bytes(b"")
    found = run("history", "export", tmp_path / "store.db", "--to", tmp_path / "history")
    assert found.exit_code == 2
    assert "--topology" in found.output


def test_the_report_has_the_plots(folder, moment, tmp_path):
    page = tmp_path / "page.html"
    assert run("report", moment, "--html", "--history", folder, "-o", page).exit_code == 0
    html = page.read_text()
    titles = ["Diagnoses by week", "Diagnoses by rack", "Diagnoses by cause", "GPU hours lost by cause"]
    assert re.findall(r"<h3>([^<]+)</h3><svg", html) == titles


def test_rare_causes_and_empty_weeks_are_drawn():
    weeks = [(MONDAY + timedelta(weeks=5 * n), f"cause <{n}>", 1 + n) for n in range(8)]
    html = history_html(HistoryPlots(weeks, [(f"r{n}", float(n + 1)) for n in range(20)], [], []))
    assert "cause &lt;7&gt;" in html
    assert "others" in html
    assert "8 others" in html
    assert html.count("<rect") == 8 + 13
    assert not history_html(HistoryPlots([], [], [], []))
