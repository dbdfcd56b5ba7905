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

import pytest

from skewscope.adapters.controller.agent_registry import FORGET_AFTER, AgentRecord, load_agents, save_agents
from skewscope.adapters.controller.incident_restore import (
    RESTORE_WAIT,
    TEXT_NOT_SEEN,
    TEXT_STILL_FIRING,
    RestoredIncidents,
)
from skewscope.adapters.controller.store import Store, StoreError, StoreReader
from skewscope.engine.engine import IncidentChange
from skewscope.engine.model.incident import SYMPTOM, Explanation, parse_incident
from skewscope.kb.problems import InputError
from tests.adapters.controller.writer import incident

KILLS = 12


def test_an_incident_comes_back_as_it_was(tmp_path):
    store, one = Store(tmp_path / "s.db"), incident(3)
    store.write_tick(5.0, [one], [IncidentChange(5.0, one.id, "opened")])
    (again,) = store.open_incidents()
    assert again == replace(one, history=())
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


def test_agents_are_kept_for_a_day_after_they_were_heard(tmp_path):
    store = Store(tmp_path / "s.db")
    for now, nodes in ((0.0, "ab"), (50_000.0, "bc"), (FORGET_AFTER + 1, "c")):
        with store.transaction() as connection:
            save_agents(connection, [AgentRecord(node, "1", now) for node in nodes], now)
    store.close()
    again = Store(tmp_path / "s.db")
    assert load_agents(again._connection) == [AgentRecord("b", "1", 50_000.0), AgentRecord("c", "1", FORGET_AFTER + 1)]


@pytest.mark.parametrize("how", ["moved away", "deleted", "replaced"])
def test_a_file_that_was_taken_away_takes_nothing_until_it_is_back(tmp_path, how):
    store, one = Store(tmp_path / "s.db"), incident(3)
    kept = tmp_path / "kept.db"
    os.link(store.path, kept)
    store.path.unlink()
    if how == "moved away":
        store.path.mkdir()
    elif how == "replaced":
        Store(store.path).close()
    with pytest.raises(StoreError, match="was removed"):
        store.write_tick(5.0, [one], [IncidentChange(5.0, one.id, "opened")])
    if how == "deleted":
        os.link(kept, store.path)
        assert store.write_tick(5.0, [one], [IncidentChange(5.0, one.id, "opened")])


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


def test_open_incidents_go_on_after_a_restart_without_being_announced_again():
    before, gone = incident(1), incident(2)
    carried = RestoredIncidents.from_incidents([before, gone])
    again = replace(incident(1), id="other", opened_at=50.0)
    effect = replace(incident(7), explained_by=Explanation("other", "lingering"))
    incidents, changes = carried.apply(60.0, [again, effect], [IncidentChange(60.0, "other", "opened")])
    assert [(one.id, one.opened_at) for one in incidents] == [
        (before.id, before.opened_at),
        (effect.id, effect.opened_at),
        (gone.id, gone.opened_at),
    ]
    assert incidents[1].explained_by == Explanation(before.id, "lingering")
    assert changes == (IncidentChange(60.0, before.id, TEXT_STILL_FIRING),)
    incidents, changes = carried.apply(61.0 + RESTORE_WAIT, [again], [])
    assert [(one.id, one.state) for one in incidents] == [(before.id, "firing"), (gone.id, "resolved")]
    assert changes == (IncidentChange(61.0 + RESTORE_WAIT, gone.id, TEXT_NOT_SEEN),)
    assert carried.apply(62.0 + RESTORE_WAIT, [again], [])[1] == ()
