"""Rows of tables are read by the names of their columns."""

import pytest

from skewscope.kb.line_patterns import SHAPES
from skewscope.kb.model import FormatLine
from skewscope.kb.table_rows import TablePattern, find_header

SHAPE = {"name": SHAPES["text"], "state": SHAPES["text"], "use": SHAPES["number"]}
COLUMNS = {"name": "NODE NAME", "state": "STATE", "use": "USE"}


def read(text):
    pattern = TablePattern(FormatLine(table=("NODE NAME", "USE"), columns=COLUMNS, unless=("VERSION",)), SHAPE)
    return [found for line in text.splitlines() if (found := pattern.find(line))]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("NODE NAME  STATE    USE\nn0         drained  3\n", [{"name": "n0", "state": "drained", "use": "3"}]),
        ("USE  STATE  NODE NAME\n 3   idle   n0", [{"name": "n0", "state": "idle", "use": "3"}]),
        ("NODE NAME|STATE|OTHER|USE\nn0||x y|3\n", [{"name": "n0", "use": "3"}]),
        ("NODE NAME,STATE,USE\r\nn0,down,3\r\n", [{"name": "n0", "state": "down", "use": "3"}]),
        # A cell of several words, and an empty one.
        (
            "NODE NAME  STATE         USE\nn0         not here now  3\n",
            [{"name": "n0", "state": "not here now", "use": "3"}],
        ),
        ("NODE NAME  STATE    USE\nn0                  3\n", [{"name": "n0", "use": "3"}]),
        # What is no number is none, and an empty line ends the table.
        ("NODE NAME  STATE  USE\nn0  idle  N/A\n\nn1  idle  3\n", [{"name": "n0", "state": "idle"}]),
        ("NODE NAME  STATE\nn0  idle\n", []),
        # A heading ends it as well, and a name alone in its row does not.
        ("NODE NAME  USE\nn0  3\nCapacity:\ncpu:  128\n", [{"name": "n0", "use": "3"}]),
        ("NODE NAME  USE\nn0  3\nAllocated resources:\ncpu  128\n", [{"name": "n0", "use": "3"}]),
        ("NODE NAME  STATE  USE  VERSION\nn0  idle  3  1\n", []),
        ("n0  idle  3\n", []),
    ],
)
def test_cells_are_found_by_the_names_of_their_columns(text, rows):
    assert read(text) == rows


def test_a_time_of_day_before_each_row_is_a_column_without_a_name():
    header = find_header("12:00:01 AM     CPU     %usr   %idle", ("CPU", "%idle"), ())
    assert header.split_row("12:00:11 AM       3     0.10   99.90") == {
        "": "12:00:11 AM",
        "CPU": "3",
        "%usr": "0.10",
        "%idle": "99.90",
    }
    assert header.split_row("Average:          3     0.10   99.90") is None


def test_a_name_is_no_part_of_another_one():
    assert find_header("CPUS  IDLE%", ("CPU",), ()) is None


def test_a_separator_may_end_each_line():
    header = find_header("# pxname,svname,qcur,", ("svname", "qcur"), ())
    assert header.split_row("pool,vllm-1,7,") == {"# pxname": "pool", "svname": "vllm-1", "qcur": "7"}
    assert header.split_row("pool,vllm-1,7,8") is None
