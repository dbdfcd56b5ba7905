"""Pictures of members over time: which classes cells have, and how they look as text and as SVG."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from skewscope.engine.model.incident import IncidentEvidence
from skewscope.tui.render.cell_picture import CellPicture, ColumnMark, RowLabel, picture_lines, picture_svg, resample
from skewscope.tui.render.members_over_time import choose_scale, members_over_time, relative_values
from skewscope.tui.render.node_lookup import NodeLookup
from skewscope.tui.render.text import line_width, to_plain_text
from tests.tui.samples import ROOT, TOPOLOGY, film

LATE = IncidentEvidence("late", "yes", 3, 0.0124, "s", "wire.onset_lag > 2*ms")


def picture(incident=ROOT, **more):
    history = film()
    snapshot = history.snapshot(len(history.times()) - 1)
    return members_over_time(incident, snapshot, NodeLookup(TOPOLOGY), **more)


@pytest.mark.parametrize("columns", [80, 160])
def test_the_late_member_stands_out(golden, columns):
    golden(f"strip_{columns}", to_plain_text(picture_lines(picture(), columns)))


@pytest.mark.parametrize("columns", [4, 12, 19, 40, 59, 220])
def test_no_line_is_wider_than_the_screen(columns):
    assert all(line_width(each) <= columns for each in picture_lines(picture(), columns))


def test_rows_that_do_not_fit_are_one_row():
    found = picture(most=2)
    assert [label.name for label in found.labels] == ["A n0", "A n2", "2 others"]
    assert found.labels[1].is_marked
    assert set(found.cells[2].tolist()) == {1}


def test_there_is_no_picture_where_nothing_differs():
    calm = replace(ROOT, name="n1", opened_at=ROOT.opened_at - 20, resolved_at=ROOT.opened_at - 10, evidence=(LATE,))
    assert picture(calm) is None
    assert picture(replace(ROOT, evidence=())) is None


def test_pairs_and_single_series_are_no_members():
    items = tuple(replace(LATE, expr=expr) for expr in ("wire.peer_bytes > 1", "serve.waiting > 1"))
    assert picture(replace(ROOT, evidence=items)) is None


@pytest.mark.parametrize(
    ("normal", "own", "classes"),
    [
        ([1.0, 1.01, 0.99], [1.0, 100.0, 1000.0], [1, 2, 5]),
        ([0.0, 0.0, 0.0], [0.0, 0.05, 0.001], [1, 5, 1]),
        ([100.0, 101.0, 99.0], [100.0, 50.0, 0.0], [1, 3, 5]),
        ([-1.0, -1.0, -1.0], [-1.0, 3.0, 0.05], [1, 5, 1]),
    ],
)
def test_classes_follow_the_distance_from_normal(normal, own, classes):
    values = np.array([normal, normal, own])
    suspect = np.zeros(values.shape, bool)
    suspect[2] = True
    assert choose_scale(values, suspect).classify(values)[2].tolist() == classes


def test_unknown_values_have_a_class_of_their_own():
    values = np.array([[1.0, 1.0, np.nan], [1.0, 9.0, np.nan]])
    suspect = np.array([[False] * 3, [False, True, True]])
    assert choose_scale(values, suspect).classify(values).tolist() == [[1, 1, 0], [1, 5, 0]]
    assert choose_scale(np.full((2, 3), np.nan), suspect) is None


def test_a_short_peak_survives_fewer_columns():
    cells = np.ones((1, 1000), np.uint8)
    cells[0, 777] = 5
    assert resample(cells, 10).tolist() == [[1, 1, 1, 1, 1, 1, 1, 5, 1, 1]]
    assert resample(np.array([[1, 5]], np.uint8), 6).tolist() == [[1, 1, 1, 5, 5, 5]]


def test_a_sign_replaces_the_time_below_it():
    row = CellPicture("t", "", (RowLabel("a"),), np.ones((1, 40), np.uint8), ("10:00:00", "10:00:40"))
    marked = replace(row, marks=(ColumnMark(0.97, "▲", "began"),))
    assert "10:00:40" in to_plain_text(picture_lines(row, 60))
    axis = to_plain_text(picture_lines(marked, 60)).splitlines()[2]
    assert "▲" in axis
    assert "10:00:00" in axis
    assert "0:40" not in axis


def test_signs_differ_in_ascii():
    rows = to_plain_text(picture_lines(picture(), 80), ascii_=True)
    assert rows.isascii()
    assert len({to_plain_text([((each, ""),)], ascii_=True) for each in "?·░▒▓█"}) == 6


def test_the_drawing_is_valid_and_says_what_it_shows():
    hostile = replace(picture(), labels=(RowLabel("<b>'&", "1 s", is_marked=True),) * 4)
    text = picture_svg(hostile)
    assert "<b>" not in text
    assert "aria-label='How late a member begins to send (wire.onset_lag) at" in text
    assert ET.fromstring(text).tag == "svg"


def test_members_with_different_work_are_compared_with_themselves():
    during = np.array([False] * 6 + [True] * 4)
    values = np.outer([1.0, 1000.0, 50.0, 3.0], np.ones(10))
    values[2, during] = 0.0
    relative = relative_values(values, during)
    assert relative[2].tolist() == [1.0] * 6 + [0.0] * 4
    assert relative[[0, 1, 3]].tolist() == np.ones((3, 10)).tolist()


def test_a_member_that_never_had_a_level_is_unknown():
    during = np.array([False, False, True])
    values = np.array([[0.0, 0.0, 5.0], [np.nan, np.nan, 1.0]])
    assert np.isnan(relative_values(values, during)).all()


def test_of_two_moments_in_one_column_the_first_one_is_marked():
    one = picture()
    marks = tuple(ColumnMark(0.5, sign, sign) for sign in "▲△")
    assert "▲" in "".join(to_plain_text(picture_lines(replace(one, marks=marks), 80)).splitlines()[-1:])
