"""News of actions: whom they are sent to, once each, and with the action in one transaction."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from skewscope.adapters.actions.summary import describe_news
from skewscope.adapters.controller.persistence import StoreWriter
from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.adapters.controller.store_place import StoreError
from skewscope.adapters.notify import chat
from skewscope.adapters.notify.alert_text import AlertContext
from skewscope.adapters.notify.base import ACTED, IncidentUpdate, Notification, NotificationScope
from skewscope.adapters.notify.outbox import Outbox
from skewscope.engine.actions.action import APPLIED, APPROVED, EXPIRED, PROPOSED, UNDOING, UNDONE
from skewscope.kb.loader import catalogue
from tests.adapters.notify.incidents import fleet, incident
from tests.support.action_samples import build_proposal, build_verified

CONTEXT = AlertContext(catalogue(), fleet())

ONE = incident(3)
PROPOSAL = replace(build_proposal(), reason=replace(build_proposal().reason, incident=ONE.id))


@pytest.fixture
def writer(tmp_path):
    with closing(Store(tmp_path / "store.db")) as store:
        scopes = {"chat": NotificationScope(), "pager": NotificationScope(min_severity="critical")}
        found = StoreWriter(store, Outbox(scopes))
        with store.transaction() as connection:
            found.outbox.restore(connection)
        yield found


def report(writer, t, incidents):
    writer.queue_notifications(t, incidents, {})
    writer.write_tick(t, incidents, ())


def news(writer, notifier="chat"):
    found = StoreReader(writer.store.path).notifications(notifier, 0, 99)
    return [(one.t, one.update.why) for one in found if one.update.what == ACTED]


def act(writer, t, action, state):
    moved = replace(action, state="").move(t, state, "a test")
    writer.write_action(t, "controller", "a test", moved)
    return moved


def test_news_go_where_the_incident_was_reported(writer):
    report(writer, 100.0, [ONE])
    act(writer, 101.0, PROPOSAL, PROPOSED)
    waits = (
        "drain w2 at front: proposed; calls: set server be/w2 state drain (to /run/haproxy/admin.sock); "
        "undo: set server be/w2 state ready (to /run/haproxy/admin.sock); "
        f"approve it with `skewscope act approve {PROPOSAL.id} --why REASON`"
    )
    assert news(writer) == [(101.0, waits)]
    assert news(writer, "pager") == []


def test_the_notifier_is_woken_at_the_next_tick(writer):
    report(writer, 100.0, [ONE])
    writer.write_tick(101.0, [ONE], ())
    assert writer.updated_notifiers == frozenset()
    act(writer, 101.0, PROPOSAL, PROPOSED)
    writer.write_tick(102.0, [ONE], ())
    assert writer.updated_notifiers == {"chat"}
    writer.write_tick(103.0, [ONE], ())
    assert writer.updated_notifiers == frozenset()


def test_each_state_is_sent_once(writer):
    report(writer, 100.0, [ONE])
    proposal = act(writer, 101.0, PROPOSAL, PROPOSED)
    writer.write_action(102.0, "controller", "waits", replace(proposal, waiting="outside the windows"))
    act(writer, 103.0, proposal, APPROVED)
    assert len(news(writer)) == 1


def test_the_end_is_sent_after_the_incident_is_over(writer):
    report(writer, 100.0, [ONE])
    proposal = act(writer, 101.0, PROPOSAL, PROPOSED)
    report(writer, 110.0, [])
    act(writer, 120.0, proposal, UNDOING)
    act(writer, 121.0, proposal, UNDONE)
    assert [t for t, _ in news(writer)] == [101.0, 121.0]
    with sqlite3.connect(writer.store.path) as connection:
        assert connection.execute("SELECT count(*) FROM acting").fetchone() == (0,)


def test_an_incident_that_nobody_was_told_of_makes_no_news(writer):
    act(writer, 101.0, PROPOSAL, PROPOSED)
    report(writer, 102.0, [replace(ONE, severity="info", confidence=0.1)])
    act(writer, 103.0, PROPOSAL, UNDONE)
    assert news(writer) == []


def test_nothing_is_sent_of_what_was_not_stored(writer, tmp_path):
    report(writer, 100.0, [ONE])
    (tmp_path / "store.db").rename(tmp_path / "gone.db")
    (tmp_path / "store.db").mkdir()
    with pytest.raises(StoreError):
        act(writer, 101.0, PROPOSAL, PROPOSED)
    (tmp_path / "store.db").rmdir()
    (tmp_path / "gone.db").rename(tmp_path / "store.db")
    assert news(writer) == []
    act(writer, 102.0, PROPOSAL, PROPOSED)
    assert [t for t, _ in news(writer)] == [102.0]


def test_an_undo_that_is_stuck_is_told_once(writer):
    report(writer, 100.0, [ONE])
    stuck = replace(PROPOSAL, state=UNDOING, stuck=True, waiting="the answer 503")
    for t in (101.0, 102.0):
        writer.write_action(t, "controller", "failed", stuck)
    assert news(writer) == [
        (101.0, "drain w2 at front: undoing; it is tried again, but needs a person: the answer 503")
    ]


@pytest.mark.parametrize(("state", "is_news"), [(APPLIED, False), (EXPIRED, False), (UNDONE, True)])
def test_only_some_states_are_news(state, is_news):
    assert bool(describe_news(replace(build_verified(), state=state), PROPOSED, was_stuck=False)) is is_news


def test_a_chat_says_what_became_of_an_action():
    update = IncidentUpdate(ACTED, "drain w2 at front: undone", ONE)
    title, body = chat.build_message(
        Notification(1, 5.0, update, ("drain w2 at front: undone",)), AlertContext(catalogue(), fleet())
    )
    assert title.startswith("Action: n3 holds up group A")
    assert body.count("drain w2 at front: undone") == 1
