"""docs/history.md: its questions have the answers that it prints, and it states every table, column and view."""

import re
from pathlib import Path

import pytest

from skewscope.adapters.history.database import HistoryDatabase
from skewscope.adapters.history.schema import TABLES
from skewscope.adapters.history.views import VIEWS
from skewscope.tui.render.history import answer_lines
from skewscope.tui.render.text import to_plain_text
from tests.support.history import write_history

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "history.md").read_text()
QUESTIONS = re.findall(r"### ([^\n]+)\n\n```sql\n(.*?)\n```\n\n```\n(.*?)\n```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    pytest.importorskip("duckdb")
    with HistoryDatabase(write_history(tmp_path_factory.mktemp("history"))) as found:
        yield found


@pytest.mark.parametrize(("title", "question", "answer"), QUESTIONS, ids=[title for title, _, _ in QUESTIONS])
def test_a_question_has_the_answer_that_the_page_prints(database, title, question, answer):
    found = to_plain_text(answer_lines(database.ask(question)))
    assert [line.rstrip() for line in found.splitlines()] == answer.splitlines()


def test_the_page_has_questions():
    assert len(QUESTIONS) > 8


@pytest.mark.parametrize("table", TABLES)
def test_the_page_states_every_column(table):
    section = PAGE.partition(f"### `{table}`")[2].partition("###")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(TABLES[table])


def test_the_page_states_every_view():
    section = PAGE.partition("## Ready views")[2].partition("## Questions")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(VIEWS)
