"""What there is to tell: laws of the desk, and what a restart does to letters."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.adapters.notify import outbox
from skewscope.adapters.notify.base import CHANGED, OPENED, RESOLVED, WITHDRAWN, NotificationScope
from skewscope.adapters.notify.notifier_state import NotifierState
from skewscope.adapters.notify.open_reports import BelievedOpen
from skewscope.adapters.notify.outbox import REOPEN_S, Outbox
from skewscope.engine.model.incident import SYMPTOM, Explanation
from tests.adapters.notify.incidents import incident, over

EXPLANATION = Explanation("i-9", "caused")


def whats(told):
    return [(each.what, each.incident.id) for each in told]


def test_an_incident_is_told_once_and_ended_once():
    desk, one = NotifierState(NotificationScope()), incident(3)
    assert whats(desk.update(1.0, [one], {})) == [(OPENED, "i-3")]
    assert desk.update(2.0, [replace(one, confidence=0.1, coverage=0.5)], {}) == []
    assert whats(desk.update(3.0, [replace(one, severity="critical")], {})) == [(CHANGED, "i-3")]
    (told,) = desk.update(4.0, [over(one, 4.0)], {})
    assert (told.what, told.incident.resolved_at) == (RESOLVED, 4.0)
    assert desk.update(5.0, [over(one, 4.0)], {}) == []


@pytest.mark.parametrize(
    "one",
    [
        incident(3, confidence=0.3),
        incident(3, explained_by=EXPLANATION),
        incident(3, severity="info"),
        incident(3, opened_at=9.0),
        incident(3, state="pending"),
        over(incident(3), 5.0),
    ],
)
def test_what_is_not_to_be_told(one):
    assert (
        NotifierState(NotificationScope("warning", min_age=5.0)).update(
            10.0, [replace(one, opened_at=min(one.opened_at, 9.0))], {}
        )
        == []
    )


def test_a_symptom_is_told_when_no_diagnosis_has_explained_it_for_a_while():
    one = incident(3, category=SYMPTOM, confidence=0.3, opened_at=1.0)
    desk = NotifierState(NotificationScope())
    assert desk.update(30.0, [one], {}) == []
    assert whats(desk.update(31.0, [one], {})) == [(OPENED, "i-3")]
    assert whats(desk.update(32.0, [replace(one, explained_by=EXPLANATION)], {})) == [(WITHDRAWN, "i-3")]
    assert NotifierState(NotificationScope(symptoms=False)).update(99.0, [one], {}) == []


def test_what_is_silenced_or_explained_is_withdrawn_and_comes_back():
    desk, one = NotifierState(NotificationScope()), incident(3)
    desk.update(1.0, [one], {})
    (told,) = desk.update(2.0, [one], {"i-3": "s-1"})
    assert (told.what, told.why) == (WITHDRAWN, "silenced by s-1")
    assert whats(desk.update(3.0, [one], {})) == [(OPENED, "i-3")]
    (told,) = desk.update(4.0, [replace(one, explained_by=EXPLANATION)], {})
    assert (told.what, told.why) == (WITHDRAWN, "caused by i-9")


def test_a_diagnosis_waits_until_what_may_explain_it_has_been_sampled():
    desk = NotifierState(NotificationScope())
    assert desk.update(1.0, [incident(3, is_settled=False)], {}) == []
    assert whats(desk.update(16.0, [incident(3)], {})) == [(OPENED, "i-3")]


def test_an_unlikely_root_is_sent_as_soon_as_it_explains_what_is_likely():
    desk = NotifierState(NotificationScope("warning"))
    root = incident(9, confidence=0.2, severity="info")
    suspicion = incident(3, confidence=0.2, severity="critical", explained_by=EXPLANATION)
    assert desk.update(1.0, [root, suspicion], {}) == []
    (sent,) = desk.update(2.0, [root, replace(suspicion, confidence=0.9)], {})
    assert (sent.what, sent.incident.id, sent.incident.severity) == (OPENED, "i-9", "critical")


def test_who_wants_everything_is_told_what_is_explained():
    assert whats(
        NotifierState(NotificationScope(roots_only=False)).update(1.0, [incident(3, explained_by=EXPLANATION)], {})
    ) == [(OPENED, "i-3")]


def test_what_is_gone_without_a_word_is_over():
    desk = NotifierState(NotificationScope())
    desk.update(1.0, [incident(3)], {})
    (told,) = desk.update(7.0, [], {})
    assert (told.what, told.incident.state, told.incident.resolved_at) == (RESOLVED, "resolved", 7.0)


states = st.tuples(
    st.sampled_from(["firing", "resolved", "gone"]), st.booleans(), st.booleans(), st.sampled_from([0.1, 0.9])
)


@given(st.lists(st.dictionaries(st.integers(0, 3), states), max_size=12))
@pytest.mark.slow
def test_openings_and_ends_take_turns(ticks):
    desk, last = NotifierState(NotificationScope()), {}
    for t, tick in enumerate(ticks):
        there, hidden = [], {}
        for number, (state, explained, silent, confidence) in tick.items():
            one = incident(number, state="firing" if state == "firing" else "resolved", confidence=confidence)
            there += [replace(one, explained_by=EXPLANATION if explained else None)] if state != "gone" else []
            hidden |= {one.id: "s"} if silent else {}
        for told in desk.update(float(t), there, hidden):
            before = last.get(told.incident.id, RESOLVED)
            assert (told.what == OPENED) == (before in (RESOLVED, WITHDRAWN))
            last[told.incident.id] = told.what
        now = {id_ for id_, what in last.items() if what in (OPENED, CHANGED)}
        assert set(desk.reported) == now
        firing = {one.id for one in there if one.state == "firing" and one.explained_by is None}
        assert now <= firing - set(hidden)


# --- letters


def turned(store, box, t, incidents, hidden=None):
    store.write_tick(t, incidents, [])
    found = box.collect_updates(t, incidents, hidden or {})
    with store.transaction() as connection:
        box.write(connection, [(t, *each) for each in found])
        outbox.delete_notifications(connection, box.take_deliveries())


def opened(store, *names):
    box = Outbox({name: NotificationScope() for name in names})
    with store.transaction() as connection:
        box.restore(connection)
    return box


def letters(store, name="a", after=0):
    return [(each.number, each.update.what) for each in StoreReader(store.path).notifications(name, after, 100)]


def test_letters_wait_until_they_have_arrived(tmp_path):
    store = Store(tmp_path / "s.db")
    box = opened(store, "a", "b")
    turned(store, box, 1.0, [incident(3)])
    turned(store, box, 2.0, [over(incident(3), 2.0)])
    assert letters(store) == [(1, OPENED), (3, RESOLVED)]
    assert letters(store, "b") == [(2, OPENED), (4, RESOLVED)]
    box.deliveries.append(("a", 1))
    turned(store, box, 3.0, [])
    assert letters(store) == [(3, RESOLVED)]
    assert letters(store, after=3) == []


def test_a_restart_tells_nothing_twice_and_forgets_nothing(tmp_path):
    store = Store(tmp_path / "s.db")
    turned(store, opened(store, "a"), 1.0, [incident(3), incident(4)])
    # Another controller; in its first tick one of them is over, which the store learns before the letters do.
    store.write_tick(2.0, [over(incident(3), 2.0)], [])
    box = opened(store, "a")
    assert set(box._states["a"].reported) == {"i-3", "i-4"}
    turned(store, box, 3.0, [incident(4)])
    assert letters(store) == [(1, OPENED), (2, OPENED), (3, RESOLVED)]
    (last,) = StoreReader(store.path).notifications("a", 2, 9)
    assert (last.update.incident.id, last.update.incident.resolved_at) == ("i-3", 2.0)


def test_who_is_told_no_more_leaves_nothing(tmp_path):
    store = Store(tmp_path / "s.db")
    turned(store, opened(store, "a", "b"), 1.0, [incident(3)])
    opened(store, "b")
    assert (letters(store), len(letters(store, "b"))) == ([], 1)


def test_of_too_many_letters_the_oldest_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(outbox, "MAX_WAITING", 5)
    store = Store(tmp_path / "s.db")
    box = opened(store, "a")
    turned(store, box, 1.0, [incident(n) for n in range(8)])
    assert [number for number, _ in letters(store)] == [4, 5, 6, 7, 8]
    assert box.dropped == {"a": 3}


# --- another controller reported its end


NOTHING_OPEN = BelievedOpen(frozenset(), frozenset())


def desk_that_reported(one):
    box = Outbox({"e": NotificationScope()}, _states={"e": NotifierState(NotificationScope())})
    assert whats(update for _, update in box.collect_updates(1.0, [one], {})) == [(OPENED, one.id)]
    return box


@pytest.mark.parametrize(
    ("believed", "waiting", "is_reopened"),
    [
        ({"e": NOTHING_OPEN}, (), True),
        ({"e": BelievedOpen(frozenset({("tp-straggler", "rank", "n3")}), frozenset())}, (), False),
        ({"e": BelievedOpen(frozenset(), frozenset({"i-3"}))}, (), False),
        ({"e": NOTHING_OPEN}, ("i-3",), False),
        ({}, (), False),
    ],
    ids=["closed", "open at its place", "open elsewhere", "waits for its data", "not certain"],
)
def test_what_fires_here_and_another_controller_ended_is_reported_again(believed, waiting, is_reopened):
    one = incident(3)
    box, told = desk_that_reported(one), []
    for t in range(2, 4 + int(REOPEN_S)):
        box.reopen(float(t), believed, waiting)
        told += [(t, update.what) for _, update in box.collect_updates(float(t), [one], {})]
    assert told == ([(2 + int(REOPEN_S), OPENED)] if is_reopened else [])


def test_an_end_that_follows_soon_is_not_reported_again():
    one = incident(3)
    box = desk_that_reported(one)
    for t in (2.0, 10.0):
        box.reopen(t, {"e": NOTHING_OPEN}, ())
        assert box.collect_updates(t, [one], {}) == []
    assert whats(update for _, update in box.collect_updates(11.0, [over(one, 11.0)], {})) == [(RESOLVED, "i-3")]
    box.reopen(40.0, {"e": NOTHING_OPEN}, ())
    assert box.collect_updates(40.0, [over(one, 11.0)], {}) == []
