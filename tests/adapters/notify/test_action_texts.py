"""What was done about an incident: notifications and reports say the same."""

import json
from contextlib import closing
from dataclasses import replace

import pytest

from skewscope.adapters.actions.summary import describe_action, describe_actions
from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.adapters.notify import chat
from skewscope.adapters.notify.alert_text import AlertContext
from skewscope.adapters.notify.base import OPENED, RESOLVED, WITHDRAWN, IncidentUpdate, Notification
from skewscope.engine.actions.action import action_to_json
from skewscope.kb.problems import InputError
from skewscope.tui.cli.reports import read_actions
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.html_report import HtmlReportData, render_html
from tests.adapters.notify.incidents import fleet, incident
from tests.support.action_samples import build_proposal, build_refused, build_verified
from tests.tui.samples import INCIDENTS, catalogue, film

CONTEXT = AlertContext(catalogue(), fleet())

VERIFIED = "drain w1 at front: verified, helped, 95 % of what was lost is back"
REFUSED = "drain w2 at front: refused (refused by bob: not now)"


def test_an_action_is_one_sentence():
    assert describe_action(build_verified()) == VERIFIED
    assert describe_action(build_refused()) == REFUSED
    waiting = replace(build_proposal(), waiting="outside the windows")
    assert describe_action(waiting) == "drain w2 at front: proposed (waits: outside the windows)"


def test_those_of_an_incident_are_listed_latest_first():
    found = [build_refused(), build_verified(), build_proposal()]
    incident_id = found[0].reason.incident
    assert describe_actions(found, incident_id) == ("drain w2 at front: proposed", VERIFIED, REFUSED)
    assert describe_actions(found, "other") == ()
    many = [replace(found[0], id=f"a-{n}", created=float(n)) for n in range(9)]
    assert describe_actions(many, incident_id)[-1] == "and 4 earlier"


@pytest.mark.parametrize("what", [OPENED, RESOLVED, WITHDRAWN])
def test_a_chat_tells_what_was_done(what):
    update = IncidentUpdate(what, "a new version", incident(3))
    assert f"Acted: {VERIFIED}." in chat.build_message(Notification(1, 5.0, update, (VERIFIED,)), CONTEXT)[1]
    assert "Acted" not in chat.build_message(Notification(1, 5.0, update), CONTEXT)[1]


def test_a_stored_notification_finds_the_actions_of_its_incident(tmp_path):
    action = build_verified()
    one = incident(3)
    with closing(Store(tmp_path / "store.db")) as store:
        about = replace(action, reason=replace(action.reason, incident=one.id))
        store.write_action(1.0, "a", "x", about)
        store.write_action(1.0, "a", "x", build_refused())
        with store.transaction() as connection:
            connection.execute(
                "INSERT INTO letters (teller, t, what, why, told) VALUES ('chat', 1.0, ?, '', ?)",
                (OPENED, one.as_line()),
            )
    (found,) = StoreReader(tmp_path / "store.db").notifications("chat", 0, 9)
    assert found.actions == (VERIFIED,)


def test_the_page_says_the_same_beside_the_calls(tmp_path):
    actions = (build_verified(), build_refused())
    (tmp_path / "actions.json").write_text(json.dumps([action_to_json(one) for one in actions]))
    assert read_actions(tmp_path / "actions.json") == actions
    data = HtmlReportData(
        *("tp", film(INCIDENTS).snapshot(99), DisplayNames(catalogue(), INCIDENTS)),
        *((("1 diagnosis", "warn"),), "Watched", (), (), actions),
    )
    page = render_html(data)
    for text in (VERIFIED, REFUSED, "<code>set server be/w2 state drain", "41 % of the healthy level before"):
        assert text in page
    assert "<h3>acted</h3>" not in render_html(replace(data, actions=()))


@pytest.mark.parametrize("text", ["", "{}", "[3]", '[{"id": 1}]', "\x00"])
def test_what_are_no_actions_is_reported(tmp_path, text):
    (tmp_path / "actions.json").write_text(text)
    with pytest.raises(InputError, match="act list --json"):
        read_actions(tmp_path / "actions.json")
