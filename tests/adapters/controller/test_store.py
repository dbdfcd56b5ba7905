"""What a store keeps, and that being killed at any moment loses nothing that was told."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from skewscope.adapters.controller.agent_registry import FORGET_AFTER, AgentRecord, load_agents, save_agents
from skewscope.adapters.controller.incident_restore import (
    RESTORE_WAIT,
    TEXT_NOT_SEEN,
    TEXT_SAME,
    TEXT_STILL_FIRING,
    RestoredIncidents,
    Wait,
)
from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.adapters.controller.store_file import find_damage
from skewscope.engine.engine import IncidentChange
from skewscope.engine.model.incident import MAX_HISTORY, SYMPTOM, Explanation, Incident, parse_incident
from skewscope.engine.model.verdict import NO, UNKNOWN, YES
from skewscope.kb.problems import InputError
from tests.adapters.controller.fleets import demo, working
from tests.adapters.controller.writer import incident

KILLS = 12


def test_an_incident_comes_back_as_it_was(tmp_path):
    store, one = Store(tmp_path / "s.db"), incident(3)
    store.write_tick(5.0, [one], [IncidentChange(5.0, one.id, "opened")])
    (again,) = store.open_incidents()
    # Its begin is stored, as the history by which it is known is not.
    assert again == replace(one, history=(), began_at=one.began)
    assert parse_incident(json.loads(one.as_line())) == again
    told = StoreReader(store.path).incident(one.id)
    assert told == one.as_json() | {"history": [{"t": 5.0, "what": "opened"}]}
    assert [e.what for e in StoreReader(store.path).events(0)] == ["opened"]


def test_rows_of_the_first_version_are_read(tmp_path):
    store, one = Store(tmp_path / "s.db"), replace(incident(3), explained_by=Explanation("i-9", "caused"))
    store.write_tick(5.0, [one], [])
    newer = ("version", "kind", "decides", "summary")
    old = {name: value for name, value in one.as_json().items() if name not in newer} | {"explained_by": "i-9"}
    with store.transaction() as connection:
        connection.execute("UPDATE incidents SET told = ?", (json.dumps(old),))
    reader = StoreReader(store.path)
    assert [each.explained_by for each in store.open_incidents()] == [one.explained_by]
    assert [each.explained_by for each in reader.incidents_since(0.0)] == [one.explained_by]
    assert reader.incidents() == reader.incidents(kind="diagnosis") == [one.as_json()]
    assert reader.incident(one.id)["explained_by"] == {"id": "i-9", "relation": "caused"}


def test_diagnoses_and_symptoms_are_listed_apart(tmp_path):
    store, diagnosis = Store(tmp_path / "s"), incident(3)
    symptom = replace(incident(4), category=SYMPTOM, candidates=("a", "b"), probabilities=(0.5, 0.25))
    store.write_tick(1.0, [diagnosis, symptom], [])
    reader = StoreReader(tmp_path / "s")
    assert [one["id"] for one in reader.incidents(kind="diagnosis")] == ["i-3"]
    assert [one["id"] for one in reader.incidents("firing", kind="symptom")] == ["i-4"]
    assert reader.incidents("resolved", kind="symptom") == []
    assert next(one for one in store.open_incidents() if one.is_symptom).probabilities == (0.5, 0.25)


def test_what_did_not_change_is_not_written(tmp_path):
    store, one = Store(tmp_path / "s.db"), incident(3)
    store.write_tick(5.0, [one], [])
    before = store._connection.total_changes
    assert store.write_tick(6.0, [one], []) == ()
    assert store._connection.total_changes == before


def test_an_incident_that_is_the_same_object_is_not_even_compared(tmp_path, monkeypatch):
    store, one = Store(tmp_path / "s.db"), incident(3)
    store.write_tick(5.0, [one], [])
    lines = []
    monkeypatch.setattr(Incident, "as_line", lambda each: lines.append(each.id) or "{}")
    store.write_tick(6.0, [one], [])
    assert lines == []
    store.write_tick(7.0, [replace(one, confidence=0.1)], [])
    assert lines == [one.id]


def test_of_a_long_history_the_first_and_the_latest_events_are_returned(tmp_path):
    store, one = Store(tmp_path / "s.db"), incident(3)
    count = 3 * MAX_HISTORY
    store.write_tick(5.0, [one], [IncidentChange(float(t), one.id, "found again") for t in range(count)])
    times = [event["t"] for event in StoreReader(store.path).incident(one.id)["history"]]
    assert times == [*range(MAX_HISTORY // 2), *range(count - MAX_HISTORY // 2, count)]


def test_agents_are_kept_for_a_day_after_they_were_heard(tmp_path):
    store = Store(tmp_path / "s.db")
    for passed, now, nodes in ((0.0, 7.0, "ab"), (50_000.0, 5e9, "bc"), (FORGET_AFTER + 1, 8.0, "c")):
        with store.transaction() as connection:
            save_agents(connection, [AgentRecord(node, "1", now) for node in nodes], passed)
    store.close()
    again = Store(tmp_path / "s.db")
    assert load_agents(again._connection) == [AgentRecord("b", "1", 5e9), AgentRecord("c", "1", 8.0)]
    with again.transaction() as connection:
        # One that was not heard again is written with the others, too.
        save_agents(connection, [AgentRecord("c", "1", 8.0), AgentRecord("d", "1", 9.0)], 2 * FORGET_AFTER + 2)
    assert load_agents(again._connection) == [AgentRecord("d", "1", 9.0)]


def test_a_clock_that_jumps_ages_no_incident_by_more_than_a_tick(tmp_path):
    store = Store(tmp_path / "s.db")
    for t in (1000.0, 1001.0, 1001.0 + 3650 * 86400.0, 1002.0, 1003.0):
        store.elapsed.advance(t)
    assert store.elapsed.seconds == 12.0
    store.save_progress({})
    store.close()
    again = Store(tmp_path / "s.db")
    again.elapsed.advance(1003.0 + 7200.0)
    assert again.elapsed.seconds == 7212.0, "a time without a controller counts"
    again.elapsed.advance(1003.0 + 3 * 7200.0)
    assert again.elapsed.seconds == 7222.0


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE audit SET what = 'nothing' WHERE number = 2",
        "UPDATE audit SET told = '{' WHERE number = 2",
        "DELETE FROM audit WHERE number = 2",
        "UPDATE audit SET hash = previous WHERE number = 3",
    ],
)
def test_a_changed_audit_line_is_found(tmp_path, damage):
    store = Store(tmp_path / "s.db")
    for n in range(4):
        store.add_audit_entry(float(n), "tester", "did", {"n": n})
    lines, last = StoreReader(store.path).verify_audit()
    assert (lines, len(last)) == (4, 64)
    store._connection.execute(damage)
    with pytest.raises(InputError, match=r"audit line [23]"):
        StoreReader(store.path).verify_audit()


def test_a_store_of_a_newer_version_and_what_is_none_are_refused(tmp_path):
    Store(tmp_path / "s.db").close()
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    (tmp_path / "text.db").write_text("no database " * 100)
    for name, told in (("s.db", "newer Skewscope"), ("text.db", "not a usable database")):
        with pytest.raises(InputError, match=told):
            Store(tmp_path / name)


@pytest.mark.slow
def test_a_controller_that_is_killed_loses_nothing_that_it_told(tmp_path):
    """A child writes ticks and says after each what it has kept; whenever it is killed, all that is there."""
    path = tmp_path / "s.db"
    chance = random.Random(5)
    told: set[str] = set()
    for _ in range(KILLS):
        command = [sys.executable, "-m", "tests.adapters.controller.writer", str(path), str(len(told))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as child:
            assert child.stdout is not None
            told.add(child.stdout.readline().strip())
            time.sleep(chance.uniform(0.0, 0.05))
            child.send_signal(signal.SIGKILL)
            told |= {line.strip() for line in child.stdout if line.endswith("\n")}
        kept = {one["id"] for one in StoreReader(path).incidents(most=1_000_000)}
        assert told <= kept
        lines, _ = StoreReader(path).verify_audit()
        assert lines >= len(told)


def run_through(restored, span, incidents, verdict=lambda _: NO):
    """What is told of the ticks of a span, and the incidents of the last one."""
    told, found = [], ()
    for t in np.arange(span[0] + 1.0, span[1] + 1.0):
        found, changes = restored.apply(float(t), incidents, [], verdict)
        told += changes
    return found, tuple(told)


def test_open_incidents_go_on_after_a_restart_without_being_announced_again():
    before, gone = incident(1), incident(2)
    carried = RestoredIncidents.from_incidents([before, gone])
    again = replace(incident(1), id="other", opened_at=2050.0)
    effect = replace(incident(7), explained_by=Explanation("other", "lingering"))
    incidents, changes = carried.apply(2060.0, [again, effect], [IncidentChange(2060.0, "other", "opened")])
    assert [(one.id, one.opened_at) for one in incidents] == [
        (before.id, before.opened_at),
        (effect.id, effect.opened_at),
        (gone.id, gone.opened_at),
    ]
    assert incidents[1].explained_by == Explanation(before.id, "lingering")
    assert changes == (IncidentChange(2060.0, before.id, TEXT_STILL_FIRING),)
    end = 2061.0 + RESTORE_WAIT
    incidents, changes = run_through(carried, (2060.0, end), [again])
    assert [(one.id, one.state) for one in incidents] == [(before.id, "firing"), (gone.id, "resolved")]
    assert changes == (IncidentChange(end, gone.id, TEXT_NOT_SEEN),)
    assert carried.apply(end + 1.0, [again], [])[1] == ()
    assert carried.apply(end + 2.0, [again], [])[0][0] is carried.apply(end + 3.0, [again], [])[0][0]


def test_texts_name_incidents_by_the_ids_that_they_had_before_a_restart():
    before = incident(1)
    restored = RestoredIncidents.from_incidents([before])
    again = replace(incident(1), id="0123456789ab")
    effect = replace(incident(7), history=((59.0, "opened"), (60.0, "part of 0123456789ab")))
    told = [IncidentChange(60.0, effect.id, "explained by 0123456789ab"), IncidentChange(60.0, effect.id, "opened")]
    incidents, changes = restored.apply(60.0, [again, effect], told)
    assert [one.what for one in changes] == [f"explained by {before.id}", "opened"]
    assert incidents[1].history == ((59.0, "opened"), (60.0, f"part of {before.id}"))


TEN_YEARS = 3650 * 86400.0


def test_no_incident_ends_before_it_began_when_the_clock_is_set_back():
    one, again = incident(1), replace(incident(2), id="other", opened_at=990.0)
    restored = RestoredIncidents.from_incidents([replace(one, opened_at=TEN_YEARS), incident(2)])
    restored.apply(1000.0, [again], [])
    ended = replace(again, state="resolved", resolved_at=1001.0)
    found, _ = run_through(restored, (1000.0, 1000.0 + RESTORE_WAIT + 2.0), [ended])
    assert {each.state for each in found} == {"resolved"}
    assert all(each.opened_at <= each.resolved_at <= 1100.0 for each in found)


def test_a_jump_ahead_is_no_time_in_which_an_incident_was_not_seen():
    restored = RestoredIncidents.from_incidents([incident(1)])
    restored.apply(2000.0, [], [])
    found, _ = restored.apply(TEN_YEARS, [], [])
    assert [each.state for each in found] == ["firing"]


def test_what_is_over_is_resolved_under_ever_new_restarts_and_what_holds_is_not():
    over, holds, unknown = incident(1), incident(2), incident(3)
    says = {over.id: NO, holds.id: YES, unknown.id: UNKNOWN}
    waits, told, open_ = {}, [], [over, holds, unknown]
    for start in range(10):
        t = 5000.0 + 60.0 * start
        restored = RestoredIncidents.from_incidents(open_, waits)
        restored.apply(t, [], [])
        told += run_through(restored, (t, t + 50.0), [], lambda one: says[one.id])[1]
        open_, waits = list(restored.waiting_incidents()), restored.waits
    assert [(change.id, change.what) for change in told] == [(over.id, TEXT_NOT_SEEN)]
    assert set(waits) == {holds.id, unknown.id}


def test_of_two_earlier_incidents_of_one_place_the_root_goes_on_and_the_other_ends():
    root = incident(1)
    part = replace(root, id="i-part", opened_at=root.opened_at - 5, explained_by=Explanation(root.id, "merged"))
    restored = RestoredIncidents.from_incidents([root, part])
    t = root.opened_at + 60
    incidents, changes = restored.apply(t, [], [])
    assert {one.id: (one.state, one.resolved_at) for one in incidents} == {
        root.id: ("firing", None),
        part.id: ("resolved", t),
    }
    assert changes == (IncidentChange(t, part.id, TEXT_SAME),)
    incidents, changes = restored.apply(t + 1, [], [])
    assert ([one.id for one in incidents], changes) == ([root.id, part.id], ())


def test_how_long_incidents_waited_is_kept(tmp_path):
    store, waits = Store(tmp_path / "s.db"), {"i-1": Wait(3.0, 5.0)}
    store.save_progress({"i-2": Wait(1.0, 1.0)})
    store.save_progress(waits)
    store.close()
    assert Store(tmp_path / "s.db").waits() == waits


def test_a_jump_of_the_clock_deletes_nothing_and_time_that_passes_does(tmp_path):
    store, day = Store(tmp_path / "s.db"), 86400.0
    ended = replace(incident(1), state="resolved", resolved_at=2000.0)
    store.elapsed.advance(2000.0)
    store.write_tick(2000.0, [ended], [])
    store.elapsed.advance(TEN_YEARS)
    store.prune(7 * day)
    assert StoreReader(store.path).incident(ended.id)
    store.elapsed.advance(3000.0)
    store.save_progress({})
    store.close()
    store = Store(tmp_path / "s.db")
    for n in range(1, round(6.5 * day / 10)):
        store.elapsed.advance(3000.0 + day + 10.0 * n)
    store.prune(7 * day)
    assert StoreReader(store.path).incident(ended.id) is None


def test_a_controller_that_never_lives_for_ten_seconds_still_counts_how_long_an_incident_was_not_seen(tmp_path):
    recording, _ = demo(1.0)
    store = Store(tmp_path / "store.db")
    store.write_tick(1.0, [incident(1)], [])
    store.close()
    for start in range(3):
        with working(tmp_path, recording) as work:
            work.restored.waits = work.store.waits()
            for second in range(4):
                work.step(2000.0 + 10.0 * start + second, {})
            work.close(2000.0 + 10.0 * start + 4)
    (wait,) = Store(tmp_path / "store.db").waits().values()
    assert wait.waited == 9.0


def explain(store, statement, values=()):
    """How SQLite answers a question: whether by an index or over all rows."""
    rows = store._connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)
    return [text for *_, text in rows]


def test_what_ticks_and_requests_ask_is_found_without_reading_all_incidents(tmp_path):
    """Each statement that reads incidents, as it is executed."""
    store, asked = Store(tmp_path / "s.db"), []
    ended = [replace(incident(n), state="resolved", resolved_at=2000.0) for n in range(30)]
    store.write_tick(2000.0, ended, [])
    store._connection.set_trace_callback(asked.append)
    store.elapsed.seconds = 10.0
    store.prune(1.0)
    store.forget_before(2500.0)
    store._connection.set_trace_callback(None)
    reader = StoreReader(store.path)
    connect, connections = StoreReader._open, []

    def traced(self):
        connections.append(connect(self))
        connections[-1].set_trace_callback(asked.append)
        return connections[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoreReader, "_open", traced)
        for state in ("", "firing", "resolved"):
            for kind in ("", "symptom"):
                reader.incidents(state, kind=kind)
        reader.incidents_since(1.0)
        reader.outlines_since(1.0)
    questions = [text for text in asked if " incidents " in text and text.startswith(("SELECT", "DELETE"))]
    assert len(questions) >= 9
    for question in questions:
        plan = explain(store, question)
        assert not [step for step in plan if step.startswith("SCAN incidents") and "USING" not in step], (
            question,
            plan,
        )
        assert not [step for step in plan if step == "USE TEMP B-TREE FOR ORDER BY" and "IN (" not in question], plan


def test_old_incidents_are_deleted_in_pieces_the_oldest_first_with_all_their_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.store.PRUNED_AT_ONCE", 2)
    store = Store(tmp_path / "s.db")
    for n in range(5):
        store.elapsed.seconds = 10.0 * n
        one = replace(incident(n), state="resolved", resolved_at=2000.0)
        store.write_tick(2000.0, [one], [IncidentChange(2000.0, one.id, "resolved")])
    left = []
    for _ in range(4):
        store.prune(10.0)
        left.append(sorted(one["id"] for one in StoreReader(store.path).incidents()))
    assert left == [["i-2", "i-3", "i-4"], ["i-3", "i-4"], ["i-3", "i-4"], ["i-3", "i-4"]]
    for table in ("history", "evidence", "advice"):
        (count,) = store._connection.execute(f"SELECT count(DISTINCT incident) FROM {table}").fetchone()
        assert count == 2


def test_damaged_pages_are_found_and_a_sound_store_has_none(tmp_path):
    store = Store(tmp_path / "s.db")
    store.write_tick(1.0, [incident(n) for n in range(200)], [])
    store.close()
    assert find_damage(store.path, lambda: False) == ""
    whole = bytearray(store.path.read_bytes())
    size = 4096
    for page in range(3, len(whole) // size):
        whole[page * size : page * size + 64] = b"\xff" * 64
    store.path.write_bytes(bytes(whole))
    assert "damaged pages" in find_damage(store.path, lambda: False)
    assert find_damage(tmp_path / "none.db", lambda: False) == ""
