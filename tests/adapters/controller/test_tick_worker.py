"""A controller's work: what it diagnoses live is what a replay of its recording gives."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skewscope.adapters.controller.agent_receiver import AgentTable
from skewscope.adapters.controller.incident_restore import RESTORE_WAIT, TEXT_NOT_SEEN, TEXT_UNKNOWN, UNKNOWN_TIMEOUT
from skewscope.adapters.controller.store import StoreReader
from skewscope.adapters.controller.store_place import StoreError
from skewscope.adapters.controller.uncertainty import UncertaintyCheck
from skewscope.adapters.inputs.recording import clip_recording, load, open_recording
from skewscope.adapters.notify.base import NotificationScope
from skewscope.adapters.notify.outbox import Outbox
from skewscope.adapters.runtime.replay import replay
from skewscope.adapters.sources.common.base import SourceBatch
from skewscope.kb.loader import catalogue
from tests.adapters.controller.fleets import batches, demo, working
from tests.adapters.controller.processes import KEYS


def told(incidents):
    return [i.as_json() | {"input_hash": ""} for i in incidents]


@pytest.mark.slow
def test_the_same_samples_replayed_give_the_same_incidents_as_live(tmp_path: Path):
    # One fault that is over by then, and one that is not.
    recording, loaded = demo(75.0)
    with working(tmp_path, recording, record=True) as work:
        for t, handed in batches(recording, loaded):
            known = work.step(t, {"demo": handed})
        work.close(t)
    live = told(known.snapshot.incidents)
    assert [i["state"] for i in live if i["kind"] == "diagnosis"] == ["resolved", "firing"]
    assert live == told(replay(tmp_path / "recorded").incidents)
    part = load(
        clip_recording(open_recording(tmp_path / "recorded"), None, loaded.start + 60.0), catalogue(), workers=1
    )
    assert len(part.block) == np.count_nonzero(loaded.block.time <= loaded.start + 60.0)
    assert {i["id"]: i["state"] for i in StoreReader(tmp_path / "store.db").incidents()} == {
        i["id"]: i["state"] for i in live
    }


def full(store, *, is_full):
    """A disk without room, or with."""
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages if is_full else 1 << 30}")


@pytest.mark.slow
def test_a_full_disk_ends_no_diagnosing_and_loses_nothing(tmp_path, caplog):
    recording, loaded = demo(75.0)
    found = {}
    for name in ("sound", "full"):
        (tmp_path / name).mkdir()
        with working(tmp_path / name, recording) as work:
            work.replace_outbox(Outbox({"chat": NotificationScope()}))
            stored = []
            for n, (t, handed) in enumerate(batches(recording, loaded)):
                if name == "full" and n in (5, 60):
                    full(work.store, is_full=n == 5)
                known = work.step(t, {"demo": handed})
                stored.append(known.store_ok)
            work.close(t)
        reader = StoreReader(tmp_path / name / "store.db")
        letters = [
            (each.t, each.update.what, each.update.incident.condition) for each in reader.notifications("chat", 0, 99)
        ]
        events = [(each.t, each.what) for each in reader.events(0)]
        found[name] = told(known.snapshot.incidents), letters, events, reader.verify_audit()[0]
        assert all(stored) == (name == "sound")
        assert stored[-1]
    assert found["full"] == found["sound"]
    assert found["sound"][1]
    assert ["disk is full" in r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == [True]


def test_a_failure_at_the_last_moment_leaves_no_transaction_open(tmp_path):
    with working(tmp_path, demo(75.0)[0]) as work:
        full(work.store, is_full=True)
        with pytest.raises(StoreError, match="disk is full"):
            work.store.add_audit_entry(0.0, "tester", "did", {"x": "x" * 100_000})
        full(work.store, is_full=False)
        work.store_writer.add_audit_entry(1.0, "tester", "did", {})
    assert StoreReader(tmp_path / "store.db").verify_audit()[0] == 1


def test_a_recording_that_has_no_room_is_told_and_begins_anew(tmp_path, monkeypatch):
    recording, loaded = demo(75.0)
    feed = list(batches(recording, loaded))
    t, handed = feed[0]
    with working(tmp_path, recording, record=True) as work:
        assert work.step(t, {"demo": handed}).recording_ok
        monkeypatch.setattr(type(next(iter(work.recorder._files.values()))), "add", no_room)
        known = work.step(t + 1, {"demo": feed[1][1]})
        assert (known.recording_ok, any("cannot be written" in each for each in known.snapshot.missing)) == (
            False,
            True,
        )
        assert not list((tmp_path / "recorded").glob("*.part"))
        monkeypatch.undo()
        assert work.step(t + 61, {"demo": feed[2][1]}).recording_ok
        work.close(t + 62)
    assert len(list((tmp_path / "recorded").glob("*.wide.parquet"))) == 1


START = 1_795_000_000.0


def dark(work, first, last, host):
    """What is known after a node was heard for some seconds: its wire goes on, its host tells what `host` says."""
    table = AgentTable("n0/0")
    table.keys.extend(KEYS)
    for n in range(first, last):
        row = np.array([host(n), 5.0])
        known = work.step(START + n, {"agents": [SourceBatch(table, None, START + n, row)]})
    return known


@pytest.mark.slow
def test_what_nobody_can_say_after_a_restart_is_not_over(tmp_path):
    """A node's exporter died before the restart: nothing that comes says that it is back, until it is."""
    recording, _ = demo(1.0)
    with working(tmp_path, recording) as work:
        (one,) = dark(work, 0, 40, lambda n: float(n) if n < 20 else np.nan).snapshot.incidents
        assert (one.condition, one.state) == ("telemetry-blackout", "firing")
        work.close(START + 40)
    with working(tmp_path, recording) as work:
        (still,) = dark(work, 45, 45 + int(RESTORE_WAIT) + 20, lambda _: np.nan).snapshot.incidents
        assert (still.id, still.state) == (one.id, "firing")
        begin = 45 + int(RESTORE_WAIT) + 20
        known = dark(work, begin, begin + int(RESTORE_WAIT) - 5, float)
        assert [each.state for each in known.snapshot.incidents] == ["firing"]
        known = dark(work, begin + int(RESTORE_WAIT) - 5, begin + int(RESTORE_WAIT) + 10, float)
        assert [(each.id, each.state) for each in known.snapshot.incidents] == [(one.id, "resolved")]
        assert [event.what for event in StoreReader(tmp_path / "store.db").events(0)] == ["opened", TEXT_NOT_SEEN]
        work.close(START + 999)


@pytest.mark.slow
def test_of_whom_something_is_unknown_is_known_by_name_and_by_members(tmp_path):
    recording, loaded = demo(75.0)
    with working(tmp_path, recording) as work:
        doubt = UncertaintyCheck(work.runtime.engine)
        for t, handed in batches(recording, loaded):
            known = work.step(t, {"demo": handed})
        fired = [one for one in known.snapshot.incidents if one.state == "firing"]
        assert fired
        for one in fired:
            assert not doubt.is_unknown(one)
            assert not doubt.is_unknown(replace(one, name="a group", also=(one.name,)))
            assert not doubt.is_unknown(replace(one, rule="a policy"))
        for n in range(3):
            work.step(loaded.end + 1000.0 + n, {})
        assert all(
            doubt.is_unknown(one) == doubt.is_unknown(replace(one, name="a group", also=(one.name,))) for one in fired
        )
        work.close(loaded.end + 2000)


def test_what_is_never_heard_of_again_is_given_up_after_a_day(tmp_path, monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.incident_restore.MAX_STEP", UNKNOWN_TIMEOUT)
    recording, _ = demo(1.0)
    with working(tmp_path, recording) as work:
        dark(work, 0, 40, lambda n: float(n) if n < 20 else np.nan)
        work.close(START + 40)
    with working(tmp_path, recording) as work:
        states = [
            [one.state for one in work.step(START + 40 + t, {}).snapshot.incidents]
            for t in (0.0, UNKNOWN_TIMEOUT - 1, UNKNOWN_TIMEOUT + 1)
        ]
        assert states == [["firing"], ["firing"], ["resolved"]]
        assert StoreReader(tmp_path / "store.db").events(0)[-1].what == TEXT_UNKNOWN
        work.close(START + UNKNOWN_TIMEOUT + 99)


def no_room(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
