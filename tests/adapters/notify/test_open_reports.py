"""What receivers believe is shared between controllers: nothing is reported twice under two ids, and every end is."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.notify.base import ACTED, CHANGED, OPENED, RESOLVED, WITHDRAWN, IncidentUpdate, Notification
from skewscope.adapters.notify.handover import MAX_MARKS, STALE_AFTER, Handover, notification_mark
from skewscope.adapters.notify.open_reports import MAX_REPORTS, OpenReport, OpenReports, parse_report, parse_reports
from skewscope.engine.model.incident import Explanation
from tests.adapters.notify.incidents import incident

OURS = incident(3)
THEIRS = replace(OURS, id="theirs", opened_at=OURS.opened_at - 2.0)


def news(what, one=OURS):
    return Notification(7, 50.0, IncidentUpdate(what, "", one))


def believing(*reported, is_confirmed=True):
    reports = [OpenReport.of(one, is_confirmed=is_confirmed) for one in reported]
    return OpenReports(known=True, by_place={report.place: report for report in reports})


@pytest.mark.parametrize(
    ("reports", "what", "id_"),
    [
        (OpenReports(), OPENED, OURS.id),
        (OpenReports(), RESOLVED, OURS.id),
        (believing(), OPENED, OURS.id),
        (believing(), RESOLVED, None),
        (believing(), WITHDRAWN, None),
        (believing(), CHANGED, None),
        (believing(), ACTED, OURS.id),
        (believing(THEIRS), OPENED, None),
        (believing(THEIRS), CHANGED, "theirs"),
        (believing(THEIRS), RESOLVED, "theirs"),
        (believing(THEIRS, is_confirmed=False), OPENED, "theirs"),
        (believing(OURS), OPENED, None),
        (believing(OURS), RESOLVED, OURS.id),
    ],
)
def test_a_notification_goes_out_under_the_id_that_its_receiver_knows(reports, what, id_):
    found = reports.adapt(news(what))
    assert (found and found.update.incident.id) == id_
    assert found is None or found.update.incident.opened_at <= OURS.opened_at


def test_what_was_delivered_is_believed_until_its_end():
    reports = OpenReports()
    reports.claim(news(OPENED))
    assert [one.is_confirmed for one in reports.by_place.values()] == [False]
    reports.record_delivery(news(OPENED))
    assert [one.is_confirmed for one in reports.by_place.values()] == [True]
    reports.record_delivery(news(CHANGED))
    reports.record_delivery(news(RESOLVED))
    assert reports.by_place == {}


@pytest.mark.parametrize("end", [RESOLVED, WITHDRAWN])
def test_an_end_whose_delivery_was_under_way_is_certain_for_no_controller(end):
    """The receiver may have got it: what fires still is reported again, and what is over is ended again."""
    reports = believing(OURS)
    reports.claim(news(end))
    assert not reports.belief().has(OURS)
    successor = parse_reports(reports.as_json())
    assert successor.adapt(news(OPENED)).update.incident.id == OURS.id
    assert successor.adapt(news(end)).update.incident.id == OURS.id
    successor.record_delivery(news(OPENED))
    assert successor.belief().has(OURS)


def test_a_successor_reads_what_its_predecessor_wrote():
    first, second = Handover(is_shared=True), Handover(is_shared=True)
    first.record_delivery("chat", news(OPENED, THEIRS))
    second.receive_progress(60.0, first.format_progress(55.0, {"chat": 50.0}))
    assert second.reports_of("chat").adapt(news(OPENED)) is None
    assert second.reports_of("chat").adapt(news(RESOLVED)).update.incident.id == "theirs"
    assert second.reports_of("chat").list_others({OURS.id})[0].build_incident(60.0).state == "resolved"
    assert second.reports_of("chat").list_others({"theirs"}) == ()


MARK = notification_mark(news(OPENED))


@pytest.mark.parametrize(
    ("lines", "missed"),
    [
        ({n: ([], []) for n in (30, 40, 50, 60, 70)}, True),
        ({30: ([], []), 50: ([MARK], []), 70: ([], [])}, False),
        ({30: ([MARK], []), 50: ([], []), 70: ([], [])}, True),
        ({30: ([], []), 50: ([], [THEIRS]), 70: ([], [])}, False),
        ({30: ([], [THEIRS]), 50: ([], []), 70: ([], [])}, True),
        ({30: ([], []), 70: ([], [])}, False),
        ({30: ([], []), 50: (["x"] * MAX_MARKS, []), 70: ([], [])}, False),
        ({30: ([], []), 50: ([], [])}, False),
    ],
    ids=["silent", "told", "told before", "open", "open before", "a line too few", "cut marks", "not yet"],
)
def test_what_the_leader_certainly_never_reported_is_missed(lines, missed):
    """The incident opens at 50 s; each line tells of the 20 s before it."""
    handover = Handover(is_shared=True)
    for now, (marks, reports) in lines.items():
        said = [0.0, marks, [OpenReport.of(one, is_confirmed=True).as_json() for one in reports]]
        handover.receive_progress(now, json.dumps({"chat": said}))
    assert handover.was_missed("chat", news(OPENED), 80.0) == missed
    assert not handover.was_missed("chat", news(OPENED), 50.0 + STALE_AFTER + 1)
    assert not handover.was_missed("mail", news(OPENED), 80.0)


def test_the_line_of_an_older_version_says_nothing_of_open_reports():
    handover = Handover(is_shared=True)
    handover.receive_progress(60.0, '{"chat": [0.0, []]}')
    assert handover.reports_of("chat").adapt(news(RESOLVED)) == news(RESOLVED)


def test_with_too_many_open_reports_nothing_is_said_of_them():
    many = believing(*(replace(THEIRS, name=f"n{n}", id=f"i{n}") for n in range(MAX_REPORTS + 1)))
    assert many.as_json() is None
    assert not parse_reports(many.as_json()).known


TEXTS = st.text(max_size=300)


@given(st.builds(OpenReport, *[TEXTS] * 7, st.floats(0, 1e10), st.booleans()))
def test_a_report_is_read_as_it_was_written(report):
    assert parse_report(json.loads(json.dumps(report.as_json()))) == report


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=10)))
def test_no_content_of_the_file_raises(data):
    parse_reports(data)
    parse_report(data)
    Handover().receive_progress(1.0, json.dumps({"chat": [1.0, [], data]}))


def test_a_notification_refers_to_other_incidents_by_the_ids_that_its_receiver_knows():
    root, effect = OURS, incident(4, explained_by=Explanation(OURS.id, "caused"))
    effect = replace(effect, history=((50.0, "opened"), (51.0, f"explained by {root.id}")))
    reports, places = believing(THEIRS), {one.id: (one.condition, one.kind, one.name) for one in (root, effect)}
    update = IncidentUpdate(WITHDRAWN, f"caused by {root.id}", effect)
    for what, is_open in ((OPENED, True), (WITHDRAWN, True), (OPENED, False)):
        if not is_open:
            reports.record_delivery(news(RESOLVED, THEIRS))
        found = reports.adapt(Notification(7, 50.0, update._replace(what=what)), places if is_open else {})
        if what == OPENED:
            told = found.update
            assert (told.incident.id, told.incident.root_id, told.why) == (effect.id, "theirs", "caused by theirs")
            assert told.incident.history[-1] == (51.0, "explained by theirs")
        else:
            assert found is None, "the receiver never heard of it"
