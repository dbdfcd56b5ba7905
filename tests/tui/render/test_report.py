from dataclasses import replace

import pytest

from skewscope.tui.render import report
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.report import unused_summary
from skewscope.tui.render.text import line_width, to_plain_text
from tests.tui.samples import ABNORMAL, INCIDENTS, SYMPTOM, catalogue, healthy, many, outcome


def text(found, columns=100, *, why=False):
    names = DisplayNames(catalogue(), found.incidents)
    return to_plain_text(report.report_lines("tp", found, names, columns, why=why))


def test_a_report_is_as_it_was_accepted(golden):
    golden("report_100", text(outcome()))
    golden("report_why_100", text(outcome(), why=True))
    golden("report_symptoms_100", text(outcome(ABNORMAL)))


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
def test_a_report_keeps_to_its_width(columns):
    lines = report.report_lines("tp", outcome(), DisplayNames(catalogue(), INCIDENTS), columns)
    assert all(line_width(row) <= columns for row in lines)


def test_healthy_data_gets_a_clear_sentence_with_the_fleet():
    shown = text(healthy())
    assert "tp: no diagnosis and no symptom in 2 signals from packets (7 of 8 ports)," in shown
    assert "8 nodes and 1 group for 1 min 40 s" in " ".join(shown.split())


def test_a_symptom_is_counted_and_never_called_healthy():
    assert "tp: 2 diagnoses, 1 symptom; 2 open at the end of the data; 2 more incidents" in text(outcome(ABNORMAL))
    alone = text(outcome((SYMPTOM, replace(INCIDENTS[0], confidence=0.2))))
    assert "tp: 1 symptom, 1 suspicion; 1 open at the end of the data." in alone
    assert "no diagnosis" not in alone
    shown = text(outcome((SYMPTOM,)), why=True)
    assert "4 burst" not in text(outcome((SYMPTOM,)))
    assert "4 Pipeline bubble  < 1 %" in shown


def test_no_data_is_not_called_healthy():
    empty = replace(healthy(), snapshots=(), samples=0, duration_s=0.0)
    assert "nothing is known" in text(empty)
    assert "no diagnosis" not in text(empty)


def test_missing_data_is_listed_in_sentences():
    assert "11 series could not be used (no signal of this name): go_threads, up." in text(outcome())
    shown = " ".join(text(outcome(), why=True).split())
    assert "No packets from n1/ew" in shown
    assert "11 series could not be used (no signal of this name): go_threads, up." in shown
    assert "GPU nodes 0/8 never" in shown
    assert "silent: n1/ew" in shown


def test_the_short_report_describes_the_most_urgent_ones():
    found = outcome(many(25))
    assert text(found).count("look for ") == report.MAX_DESCRIBED
    assert "15 more incidents in the table; --why describes all." in text(found)
    assert text(found, why=True).count("if wrong ") == 25


def test_repeated_incidents_of_one_place_are_described_once():
    again = tuple(replace(SYMPTOM, id=f"s{n}", opened_at=SYMPTOM.opened_at + 20 * n, history=()) for n in range(3))
    shown = text(outcome(again))
    assert "tp: 3 symptoms;" in shown
    assert shown.count("causes    1 ") == 1
    assert "again     3× since 12:19:28, every 20 s" in shown


def test_a_source_that_went_silent_is_named_without_its_table():
    found = outcome()
    last = replace(found.snapshots[-1], missing=())
    shown = text(replace(found, snapshots=(last,)))
    assert "packets: 7 of 8 ports report at the end (silent: n1/ew)." in shown
    assert "report at the end" not in text(found)
    assert "Sources" not in shown


def test_a_hostile_name_reaches_no_terminal():
    bad = replace(INCIDENTS[0], name="n\x1b[2J2\u202e")
    assert "\x1b" not in text(outcome((bad,)))


def test_a_label_that_would_decide_is_named_in_the_short_report():
    reason = "two engines report for replica A (port 1 and 2), so neither is used: `engine: {port: ...}` decides"
    found = unused_summary({f"serve.running: {reason}": 3, f"serve.waiting: {reason}": 3, "x: no such name": 2})
    assert found == [reason.replace("two", "Two", 1), "2 series could not be used (no such name): x"]
