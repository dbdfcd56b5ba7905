"""Weeks by node."""

import pytest

from skewscope.tui.render.cell_picture import picture_lines, picture_svg
from skewscope.tui.render.text import line_width, to_plain_text
from skewscope.tui.render.week_map import NodeDay, assign_letters, week_map

NAMES = {
    "gpu-thermal-throttle": "GPU throttled by heat",
    "fabric-loss": "Loss in the fabric",
    "tp-straggler": "Tensor-parallel straggler",
    "launch-latency": "Late kernels",
}
MONDAY = 20_696  # 2026-08-31
DAYS = (
    NodeDay("n1", MONDAY + 1, "gpu-thermal-throttle", 3, 20.0),
    NodeDay("n1", MONDAY + 8, "gpu-thermal-throttle", 1, 21.0),
    NodeDay("n1", MONDAY + 23, "gpu-thermal-throttle", 1, 20.0),
    NodeDay("n5", MONDAY + 10, "tp-straggler", 1, 13.0),
    NodeDay("n6", MONDAY + 18, "fabric-loss", 2, None),
    NodeDay("n6", MONDAY + 18, "launch-latency", 1, None),
    NodeDay("n6", MONDAY + 35, "fabric-loss", 1, None),
)


def lines(days=DAYS, cells=60, columns=110):
    return picture_lines(week_map(days, NAMES.__getitem__, cells), columns)


def test_nodes_by_days(golden):
    golden("weeks_110", to_plain_text(lines()))


def test_a_day_has_the_letter_of_its_most_frequent_condition():
    text = to_plain_text(lines()).splitlines()
    row = next(each for each in text if each.strip().startswith("n6"))
    assert row.split()[1].index("L") == 18
    assert "2×, every 17 d" in row


def test_letters_are_unique():
    found = assign_letters(DAYS, NAMES.__getitem__)
    assert found == {"gpu-thermal-throttle": "G", "fabric-loss": "L", "tp-straggler": "T", "launch-latency": "a"}


def test_many_nodes_and_long_spans_fit():
    many = [NodeDay(f"n{n:03}", MONDAY + 3 * n, "fabric-loss", 1, 1.0) for n in range(200)]
    found = lines(many, 40, 90)
    assert all(line_width(each) <= 90 for each in found)
    assert "and 160 more" in to_plain_text(found)
    assert "a cell is 15 days" in to_plain_text(found)


@pytest.mark.parametrize("days", [(), DAYS[:1]])
def test_none_and_one_day(days):
    found = week_map(days, NAMES.__getitem__, 60)
    assert (found is None) == (not days)
    assert found is None or "<svg" in picture_svg(found)
