"""What receivers believe is shared between controllers: nothing is reported twice under two ids, and every end is."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.notify.base import ACTED, CHANGED, OPENED, RESOLVED, WITHDRAWN, IncidentUpdate, Notification
from skewscope.adapters.notify.handover import Handover
from skewscope.adapters.notify.open_reports import MAX_REPORTS, OpenReport, OpenReports, parse_report, parse_reports
from skewscope.adapters.notify.report_ledger import KEPT_FOR, MAX_SPANS, ReportLedger, parse_ledger
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


def test_an_earlier_end_is_not_the_end_of_what_a_report_stands_for_since():
    """One controller's incident ended at 40 s; what another one has seen since 48 s was taken for the same."""
    reports = believing(THEIRS)
    ended = news(RESOLVED, replace(THEIRS, resolved_at=40.0, state="resolved"))
    later = replace(OURS, opened_at=48.0)
    assert reports.adapt(news(OPENED, later)) is None
    successor = parse_reports(json.loads(json.dumps(reports.as_json())))
    for one in (reports, successor):
        assert one.adapt(ended) is None
        assert one.adapt(news(RESOLVED, replace(later, resolved_at=50.0))).update.incident.id == "theirs"


def told_in_turn(handover, *spans):
    """Has a controller report incidents at one place, one after another."""
    for begin, end in spans:
        one = replace(THEIRS, opened_at=begin)
        handover.record_delivery("chat", Notification(1, begin, IncidentUpdate(OPENED, "", one)))
        over = replace(one, resolved_at=end, state="resolved")
        handover.record_delivery("chat", Notification(2, end, IncidentUpdate(RESOLVED, "", over)))


BEGIN = 1000.0
HERE = Notification(7, BEGIN, IncidentUpdate(OPENED, "", replace(OURS, opened_at=BEGIN)))


@pytest.mark.parametrize(
    ("spans", "ended_at", "missed"),
    [
        ((), None, True),
        (((BEGIN - 50, BEGIN - 1),), None, True),
        (((BEGIN - 50, BEGIN + 1),), None, False),
        (((BEGIN + 5, BEGIN + 6),), None, False),
        (((BEGIN + 50, BEGIN + 60),), None, True),
        (((BEGIN + 50, BEGIN + 60),), BEGIN + 55, False),
        (((BEGIN - 300 + n, BEGIN - 300 + n + 0.5) for n in range(MAX_SPANS + 1)), None, True),
        (((BEGIN - MAX_SPANS + n, BEGIN - MAX_SPANS + n + 0.5) for n in range(2 * MAX_SPANS + 9)), None, False),
    ],
    ids=["silent", "over before", "told", "seen later", "another", "lasted", "many before", "more than are kept"],
)
def test_what_no_leader_reported_is_missed_even_after_restarts(spans, ended_at, missed):
    first, second = Handover(is_shared=True), Handover(is_shared=True)
    first.format_progress(BEGIN - 400, {"chat": BEGIN - 400})
    told_in_turn(first, *spans)
    # The leader dies, and its file is read a minute later, by a controller that has just started.
    second.receive_progress(BEGIN + 460, first.format_progress(BEGIN + 400, {"chat": BEGIN + 400}))
    assert second.was_missed("chat", HERE, ended_at, BEGIN + 460) == missed
    assert not second.was_missed("chat", HERE, ended_at, BEGIN + KEPT_FOR + 1)
    assert not second.was_missed("mail", HERE, ended_at, BEGIN + 460)


def test_what_was_over_before_a_leader_began_is_not_known_to_be_missed():
    first, second = Handover(is_shared=True), Handover(is_shared=True)
    second.receive_progress(BEGIN + 30, first.format_progress(BEGIN + 30, {"chat": BEGIN + 30}))
    assert not second.was_missed("chat", HERE, None, BEGIN + 40)


@given(st.lists(st.tuples(st.floats(0, 2e9), st.floats(0, 500)), max_size=20), st.floats(0, 2e9))
def test_a_ledger_is_read_as_it_was_written(spans, since):
    ledger = ReportLedger(since)
    for begin, lasted in spans:
        ledger.record_end(replace(OpenReport.of(OURS, is_confirmed=True), opened_at=begin), begin + lasted)
    last = max([since, *(one.ended_at for one in ledger.spans)])
    parsed = parse_ledger(json.loads(json.dumps(ledger.as_json(last))), last)
    assert list(parsed.spans) == [one for one in ledger.spans if one.ended_at >= last - KEPT_FOR]
    assert parsed.since == pytest.approx(max(since, last - KEPT_FOR), abs=1e-3)


def test_the_line_of_an_older_version_says_nothing_of_open_reports():
    handover = Handover(is_shared=True)
    handover.receive_progress(60.0, '{"chat": [0.0, []]}')
    assert handover.reports_of("chat").adapt(news(RESOLVED)) == news(RESOLVED)


def test_with_too_many_open_reports_nothing_is_said_of_them():
    many = believing(*(replace(THEIRS, name=f"n{n}", id=f"i{n}") for n in range(MAX_REPORTS + 1)))
    assert many.as_json() is None
    assert not parse_reports(many.as_json()).known


TEXTS = st.text(max_size=300)


@given(st.builds(OpenReport, *[TEXTS] * 7, st.floats(0, 1e10), st.floats(0, 1e10), st.booleans()))
def test_a_report_is_read_as_it_was_written(report):
    assert parse_report(json.loads(json.dumps(report.as_json()))) == report


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=10)))
def test_no_content_of_the_file_raises(data):
    parse_reports(data)
    parse_report(data)
    parse_ledger(data, 1.0)
    Handover().receive_progress(1.0, json.dumps({"chat": [1.0, [], data, data]}))


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
