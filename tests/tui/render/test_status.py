"""The status line and the replay bar."""

from dataclasses import replace

import pytest

from skewscope.tui.render import status
from skewscope.tui.render.incident_timeline import IncidentLength
from skewscope.tui.render.text import line_width, to_plain_text
from tests.tui.samples import CHILD, INCIDENTS, ROOT, T0

NOW = T0 + 100


@pytest.mark.parametrize("columns", [30, 60, 80, 120, 200])
def test_the_status_line_and_the_replay_bar_fit(columns):
    now = status.ConsoleStatus(INCIDENTS, "REPLAY", NOW, 0.4, 7, 8)
    assert line_width(status.status_line(now, columns)) <= columns
    position = status.ReplayPosition(T0, T0 + 100, NOW, playing=False, speed=64)
    lengths = (IncidentLength("a", "Tensor-parallel straggler", "n2", "critical", 0.1, 0.3, 0),)
    bars = status.replay_bar(position, lengths, columns, 2)
    assert all(line_width(each) <= columns for each in bars)


def test_the_status_line_is_complete_at_80_columns():
    shown = to_plain_text([status.status_line(status.ConsoleStatus(INCIDENTS, "REPLAY", NOW, 0.4, 8, 8), 80)])
    for word in ("1 Diagnoses", "2 Fabric", "3 Signals", "4 Catalogue", "5 Actions", "✖ 1", "REPLAY 12:20:28"):
        assert word in shown
    assert "8/8" not in shown


def test_what_is_not_as_it_should_be_is_shown_before_the_names_of_screens():
    shown = to_plain_text([status.status_line(status.ConsoleStatus(INCIDENTS, "LIVE", NOW, 42.0, 7, 8), 80)])
    for word in ("1 Diagnoses", " 2 3 4 5", "✖ 1", "LIVE 12:20:28", "STALE 42 s"):
        assert word in shown


def test_what_is_silent_is_named_beside_the_names_of_all_screens_or_not_at_all():
    now = status.ConsoleStatus(INCIDENTS, "REPLAY", NOW, 0.4, 8, 24, live=False)
    assert status.silence(now) == "no data from 16 of 24 nodes (s: which)"
    assert status.silence(now) in to_plain_text([status.status_line(now, 140)])
    narrow = to_plain_text([status.status_line(now, 80)])
    assert "5 Actions" in narrow
    assert "nodes" not in narrow
    assert not status.silence(replace(now, reporting=24))


def test_the_demo_is_named_and_a_recording_has_no_age():
    now = status.ConsoleStatus(INCIDENTS, "DEMO", NOW, 0.4, 8, 8, title="built-in demo", live=False)
    assert "built-in demo" in to_plain_text([status.status_line(now, 120)])
    assert "DEMO 12:20:28" in to_plain_text([status.status_line(now, 80)])
    assert "old" not in to_plain_text([status.status_line(now, 160)])
    silent = status.ConsoleStatus((), "REPLAY", NOW, None, 0, 0, live=False)
    assert "no data" not in to_plain_text([status.status_line(silent, 160)])


@pytest.mark.parametrize(("age", "role"), [(0.4, ""), (11.0, "alarm"), (None, "alarm")])
def test_stale_data_looks_stale(age, role):
    spans = status.status_line(status.ConsoleStatus((), "LIVE", NOW, age, 8, 8), 120)
    assert [r for words, r in spans if "old" in words or "STALE" in words or "no data" in words] == [role]


def test_a_click_on_the_bar_means_the_mark_under_it():
    assert status.bar_share(0, 80) == 0
    assert status.bar_share(79, 80) == 1
    assert abs(status.bar_share(12 + 24, 80) - 0.5) < 0.02


def test_what_lasts_longer_than_its_cause_is_counted():
    left = [replace(ROOT, state="resolved", resolved_at=T0 + 50), CHILD]
    shown = to_plain_text([status.status_line(status.ConsoleStatus(tuple(left), "LIVE", NOW, 0.4, 8, 8), 120)])
    assert "! 1 warning" in shown
    narrow = to_plain_text([status.status_line(status.ConsoleStatus(tuple(left), "LIVE", NOW, 0.4, 8, 8), 80)])
    assert "! 1" in narrow
