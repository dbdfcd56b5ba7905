"""A controller that starts on a disk where nothing can be written: it diagnoses, and writes when there is room."""

import errno
import os
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from skewscope.adapters.controller import store as module
from skewscope.adapters.controller import store_place
from skewscope.adapters.controller.incident_restore import TEXT_FOUND_ANEW, RestoredIncidents, Wait
from skewscope.adapters.controller.persistence import StoreWriter
from skewscope.adapters.controller.recorder import Recorder
from skewscope.adapters.controller.silences import Silence
from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.adapters.controller.store_file import find_damage
from skewscope.adapters.controller.store_place import StoreError
from skewscope.adapters.inputs.recording import demo_path
from skewscope.engine.engine import IncidentChange
from skewscope.kb.problems import InputError
from tests.adapters.controller.fleets import demo, working
from tests.adapters.controller.processes import Sender, running
from tests.adapters.controller.test_tick_worker import dark
from tests.adapters.controller.writer import incident


@contextmanager
def unwritable(monkeypatch, code=sqlite3.SQLITE_FULL):
    """Every store that is opened meanwhile is on a disk without room."""

    def fail(*_):
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = code
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(module, "open_for_writing", fail)
        patch.setattr(store_place, "RETRY_PERIOD", 0.0)
        yield


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR_SHMSIZE])
def test_a_restart_without_room_goes_on_with_what_is_stored_and_writes_later(tmp_path, monkeypatch, code):
    path = tmp_path / "s.db"
    before = Store(path)
    before.write_tick(5.0, [incident(1)], [IncidentChange(5.0, "i-1", "opened")])
    before.close()
    with unwritable(monkeypatch, code):
        store = Store(path)
        assert [one.id for one in store.open_incidents()] == ["i-1"]
        writer = StoreWriter(store)
        gone = replace(incident(2), state="resolved", resolved_at=2000.0)
        assert writer.write_tick(6.0, [incident(1), gone], [IncidentChange(6.0, gone.id, "opened")]) == ()
        assert "cannot be written" in writer.trouble
        assert writer.write_tick(7.0, [incident(1)], []) == ()
    store._place._next_attempt = 0.0
    events = writer.write_tick(8.0, [incident(1)], [])
    assert (writer.trouble, [event.incident for event in events]) == ("", ["i-2"])
    assert StoreReader(path).incident("i-2")["state"] == "resolved", "it was no longer in the tick that was written"
    assert store.recovered


def test_a_large_store_is_read_as_far_as_a_start_needs_it(tmp_path, monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.store_file.MAX_COPIED_BYTES", 1)
    path = tmp_path / "s.db"
    before = Store(path)
    over = replace(incident(2), state="resolved", resolved_at=2000.0)
    before.write_tick(5.0, [incident(1), over], [IncidentChange(5.0, "i-1", "opened")])
    before.write_silence(6.0, "ops", "silence was made", Silence("s-1", (("node", ("n0",)),), 6.0, None, "ops", "it"))
    before.save_progress({"i-1": Wait(3.0, 4.0)})
    before.close()
    with unwritable(monkeypatch):
        store = Store(path)
        assert [one.id for one in store.open_incidents()] == ["i-1"]
        assert [one.id for one in store.silences()] == ["s-1"]
        assert store.waits() == {"i-1": Wait(3.0, 4.0)}
        assert store._connection.execute("SELECT count(*) FROM incidents").fetchone() == (1,)
        assert store._connection.execute("SELECT count(*) FROM history").fetchone() == (0,)


def test_what_is_kept_without_room_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("skewscope.adapters.controller.persistence.MAX_UNWRITTEN", 10)
    Store(tmp_path / "s.db").close()
    with unwritable(monkeypatch):
        writer = StoreWriter(Store(tmp_path / "s.db"))
        for n in range(30):
            writer.write_tick(float(n), [incident(n)], [])
        assert list(writer._unwritten) == [f"i-{n}" for n in range(20, 30)]


def test_a_controller_without_room_diagnoses_from_the_first_tick(tmp_path, monkeypatch):
    Store(tmp_path / "store.db").close()
    recording, _ = demo(1.0)
    with unwritable(monkeypatch), working(tmp_path, recording) as work:
        known = dark(work, 0, 40, lambda n: float(n) if n < 20 else np.nan)
        assert [one.condition for one in known.snapshot.incidents] == ["telemetry-blackout"]
        assert not known.store_ok
        assert work.load_agents() == []


def test_incidents_of_a_store_that_could_not_be_read_are_taken_over_and_none_is_told_under_two_ids():
    restored = RestoredIncidents.from_incidents([])
    again = replace(incident(1), id="new", opened_at=3000.0)
    restored.apply(3000.0, [again], [])
    restored.adopt(3000.0, [incident(1), incident(2), again])
    found, changes = restored.apply(3001.0, [again], [])
    assert {one.id: one.state for one in found} == {"new": "firing", "i-1": "resolved", "i-2": "firing"}
    assert changes == (IncidentChange(3000.0, "i-1", TEXT_FOUND_ANEW),)


@pytest.mark.parametrize("name", ["none/s.db", "there"])
def test_what_can_never_be_a_store_is_refused(tmp_path, name):
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="not a usable database"):
        Store(tmp_path / name)


def test_a_recording_without_room_at_the_start_begins_when_there_is(tmp_path, monkeypatch):
    def no_room(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr("skewscope.adapters.controller.recorder.shutil.copyfile", no_room)
        recorder = Recorder(tmp_path / "recorded", demo_path() / "topology.yaml")
        recorder.record(60.0, {})
        assert "cannot be written" in recorder.trouble
    recorder.record(120.0, {})
    assert recorder.trouble == ""
    assert (tmp_path / "recorded" / "topology.yaml").is_file()


def test_the_store_of_a_controller_reads_as_empty_while_its_file_cannot_be_made(tmp_path):
    reader = StoreReader(tmp_path / "s.db", lambda: True)
    assert (reader.incidents(), reader.silences(), reader.actions(), reader.last_event()) == ([], [], [], 0)
    assert reader.notifications("e", 0, 50) == []
    Store(tmp_path / "s.db").close()
    assert reader.incidents() == []
    with pytest.raises(InputError, match="no such file"):
        StoreReader(tmp_path / "another.db").incidents()


@contextmanager
def small_disk(folder):
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounts need root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def set_room(folder, how, there):
    """Makes a disk full or read-only, or gives the room back."""
    if how == "read-only":
        subprocess.run(["mount", "-o", f"remount,{'rw' if there else 'ro'}", str(folder)], check=True)
    elif there:
        (folder / "filler").unlink()
    else:
        with (folder / "filler").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass


@pytest.mark.slow
@pytest.mark.parametrize("how", ["full", "read-only"])
@pytest.mark.parametrize("known", [True, False])
def test_a_disk_without_room_stops_no_start(tmp_path, how, known):
    disk = tmp_path / "disk"
    with small_disk(disk):
        if known:
            store = Store(disk / "s.db")
            store.write_tick(5.0, [incident(1)], [])
            store.close()
        set_room(disk, how, there=False)
        events = "tell: [{kind: cloudevents, name: e, urls: ['http://127.0.0.1:9/']}]\n"
        with running(tmp_path, f"store: {{path: disk/s.db}}\n{events}") as found:
            for path in ("silences", "actions", "incidents"):
                assert found.ask(f"/api/v1/{path}")[0] == 200
            assert "skewscope_store_up 0.0" in found.ask("/metrics")[2].decode()
            sender = Sender(found)
            sender.send(25, 1.0)
            sender.send(5, float("nan"))

            def ids():
                return {one["condition"] for one in found.json("/api/v1/incidents")["incidents"]}

            def goes_on():
                sender.send(1, float("nan"), 0.2)
                return "telemetry-blackout" in ids()

            found.until(goes_on, 60)
            if known:
                assert "tp-straggler" in ids()
            set_room(disk, how, there=True)
            found.until(lambda: "skewscope_store_up 1.0" in found.ask("/metrics")[2].decode())
            assert "Traceback" not in found.log()
        conditions = {one["condition"] for one in StoreReader(disk / "s.db").incidents()}
        assert "telemetry-blackout" in conditions
        StoreReader(disk / "s.db").verify_audit()


CRASH = """
import os, signal, sys
from pathlib import Path
from skewscope.adapters.controller.store import Store
from tests.adapters.controller.writer import incident
store = Store(Path(sys.argv[1]))
store.write_tick(1.0, [incident(1)], [])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_what_a_killed_controller_wrote_last_is_read_without_room(tmp_path, how):
    """It is in the log beside the file only, and the memory that readers of the log share has no room."""
    disk = tmp_path / "disk"
    with small_disk(disk):
        subprocess.run([sys.executable, "-c", CRASH, str(disk / "s.db")], check=False)
        (disk / "s.db-shm").unlink()
        set_room(disk, how, there=False)
        assert find_damage(disk / "s.db", lambda: False) == ""
        store = Store(disk / "s.db")
        assert [one.id for one in store.open_incidents()] == ["i-1"]
        set_room(disk, how, there=True)
        store._place._next_attempt = 0.0
        store.write_tick(2.0, [incident(1), incident(2)], [])
        store.close()
        assert {one["id"] for one in StoreReader(disk / "s.db").incidents()} == {"i-1", "i-2"}


def test_a_store_without_room_says_so_to_who_writes(tmp_path, monkeypatch):
    Store(tmp_path / "s.db").close()
    with unwritable(monkeypatch):
        store = Store(tmp_path / "s.db")
        with pytest.raises(StoreError, match="cannot be written: database or disk is full"):
            store.add_audit_entry(1.0, "tester", "did", {})
