"""The files of a store: no other process removes its log, one controller uses it, and what is removed is put back."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from skewscope.adapters.controller.audit_head import head_file, read_head, write_head
from skewscope.adapters.controller.persistence import StoreWriter
from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.adapters.controller.store_place import StoreError, StorePlace
from skewscope.engine.engine import IncidentChange
from skewscope.kb.problems import InputError
from tests.adapters.controller.processes import AUTH, TOKENS, running
from tests.adapters.controller.writer import incident

READERS = {
    "a plain connection": "c = sqlite3.connect(PATH); c.execute('SELECT * FROM incidents').fetchall(); c.close()",
    "a backup": "c = sqlite3.connect(PATH); d = sqlite3.connect(PATH + '.copy'); c.backup(d); c.close(); d.close()",
    "our reader": "StoreReader(Path(PATH)).incidents(); StoreReader(Path(PATH)).verify_audit()",
}


def run_elsewhere(path, code):
    """Runs code in another process, where PATH is the store."""
    head = (
        "import sqlite3\nfrom pathlib import Path\nfrom skewscope.adapters.controller.store import Store, StoreReader\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{head}PATH = {str(path)!r}\n{code}"], check=False, capture_output=True, text=True
    )
    return done.stderr


def write(store, number):
    one = incident(number)
    return store.write_tick(float(number), [one], [IncidentChange(float(number), one.id, "opened")])


def ids(path):
    return {one["id"] for one in StoreReader(path).incidents()}


def copy_as_after_a_crash(store, to):
    """Copies the files of a store that is in use: what a process that is killed now leaves."""
    for end in ("", "-wal", "-head"):
        source = store.path.with_name(store.path.name + end)
        if source.exists():
            to.with_name(to.name + end).write_bytes(source.read_bytes())
    return to


@pytest.mark.parametrize("reader", READERS)
def test_readers_elsewhere_leave_the_log_although_this_process_closed_a_descriptor_of_the_file(tmp_path, reader):
    store = Store(tmp_path / "s.db")
    write(store, 1)
    before = (tmp_path / "s.db-wal").stat().st_ino
    os.close(os.open(store.path, os.O_RDONLY))
    assert run_elsewhere(store.path, READERS[reader]) == ""
    write(store, 2)
    assert (tmp_path / "s.db-wal").stat().st_ino == before
    assert (ids(store.path), store.restored) == ({"i-1", "i-2"}, 0)


def test_a_reader_of_ours_never_takes_the_log_of_a_crash_away(tmp_path):
    code = "s = Store(Path(PATH)); s.add_audit_entry(1.0, 'ops', 'did', {}); import os; os._exit(1)"
    run_elsewhere(tmp_path / "s.db", code)
    assert run_elsewhere(tmp_path / "s.db", READERS["our reader"]) == ""
    assert (tmp_path / "s.db-wal").stat().st_size > 0
    assert StoreReader(tmp_path / "s.db").verify_audit()[0] == 1


@pytest.mark.parametrize("gone", [["s.db-wal", "s.db-shm"], ["s.db-shm"], ["s.db"], ["s.db", "s.db-wal", "s.db-shm"]])
@pytest.mark.parametrize("idle", [True, False])
def test_what_was_removed_is_written_anew_with_all_that_was_stored(tmp_path, gone, idle):
    store = Store(tmp_path / "s.db")
    writer = StoreWriter(store)
    writer.write_tick(1.0, [incident(1)], [IncidentChange(1.0, "i-1", "opened")])
    for name in gone:
        (tmp_path / name).unlink()
    if not idle:
        writer.write_tick(2.0, [incident(1), incident(2)], [IncidentChange(2.0, "i-2", "opened")])
    writer.write_tick(3.0, [incident(1)], [])
    writer.write_tick(4.0, [incident(1)], [])
    assert store.restored == 1
    assert "removed; it was written anew" in store.notice
    copy = copy_as_after_a_crash(store, tmp_path / "copy.db")
    expected = {"i-1"} if idle else {"i-1", "i-2"}
    assert ids(store.path) == ids(copy) == expected
    assert StoreReader(copy).verify_audit()[0] == len(expected) + 1
    assert [event.incident for event in StoreReader(copy).events(0)] == sorted(expected)
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_commit_that_lands_in_a_removed_log_is_not_lost(tmp_path):
    store = Store(tmp_path / "s.db")
    write(store, 1)
    with store.transaction() as connection:
        connection.execute("UPDATE incidents SET state = 'resolved'")
        (tmp_path / "s.db-wal").unlink()
    copy = copy_as_after_a_crash(store, tmp_path / "copy.db")
    assert [one["id"] for one in StoreReader(copy).incidents("resolved")] == ["i-1"]


@pytest.mark.parametrize("young", [True, False])
def test_what_was_only_in_the_log_is_stated_as_lost_after_a_kill_with_the_log_removed(tmp_path, young):
    first = "" if young else "s.add_audit_entry(1.0, 'ops', 'first', {}); s.close(); s = Store(Path(PATH)); "
    code = f"s = Store(Path(PATH)); {first}s.add_audit_entry(2.0, 'ops', 'did', {{}}); import os; os._exit(1)"
    run_elsewhere(tmp_path / "s.db", code)
    for end in ("-wal", "-shm"):
        (tmp_path / f"s.db{end}").unlink()
    lost = 1 if young else 2
    with pytest.raises(InputError, match=f"audit lines {lost} to {lost} are missing"):
        StoreReader(tmp_path / "s.db").verify_audit()
    assert "lost data: audit lines" in Store(tmp_path / "s.db").damage


def test_another_file_in_the_place_of_the_store_is_left_alone_until_it_is_moved_away(tmp_path):
    store = Store(tmp_path / "s.db")
    write(store, 1)
    store.path.unlink()
    store.path.write_text("of somebody")
    with pytest.raises(StoreError, match="another file is in the place"):
        write(store, 2)
    assert store.path.read_text() == "of somebody"
    store.path.unlink()
    write(store, 2)
    assert ids(store.path) == {"i-1", "i-2"}


def test_without_room_for_a_new_file_nothing_is_told_and_the_next_attempt_is_later(tmp_path, monkeypatch):
    store = Store(tmp_path / "s.db")
    write(store, 1)
    (tmp_path / "s.db-wal").unlink()
    tries = []

    def fail(*_):
        tries.append(1)
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(StorePlace, "write_anew", fail)
        for _ in range(3):
            with pytest.raises(StoreError, match="its log was removed"):
                write(store, 2)
    assert len(tries) == 1
    store._place._next_attempt = 0.0
    write(store, 2)
    assert ids(store.path) == {"i-1", "i-2"}


def test_a_second_controller_on_the_store_is_refused_until_the_first_one_ends(tmp_path):
    store = Store(tmp_path / "s.db")
    with pytest.raises(InputError, match=rf"in use by another controller \(process {os.getpid()} on"):
        Store(tmp_path / "s.db")
    os.close(os.open(tmp_path / "s.db-lock", os.O_RDONLY))
    assert "in use by another controller" in run_elsewhere(tmp_path / "s.db", "Store(Path(PATH))")
    store.close()
    Store(tmp_path / "s.db").close()


def test_a_lock_file_that_was_removed_is_made_again_and_another_holder_is_respected(tmp_path):
    first = Store(tmp_path / "s.db")
    (tmp_path / "s.db-lock").unlink()
    write(first, 1)
    assert "in use by another controller" in run_elsewhere(tmp_path / "s.db", "Store(Path(PATH))")
    (tmp_path / "s.db-lock").unlink()
    second = StorePlace(tmp_path / "s.db")
    second.prepare()
    with pytest.raises(StoreError, match="another controller uses the store"):
        write(first, 2)


def test_lines_that_are_cut_off_are_found_by_the_head_and_the_next_start_writes_it_down(tmp_path):
    store = Store(tmp_path / "s.db")
    for n in range(4):
        store.add_audit_entry(float(n), "ops", "did", {})
    assert StoreReader(store.path).verify_audit()[0] == 4
    store.close()
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("DELETE FROM audit WHERE number > 2")
        connection.commit()
    with pytest.raises(InputError, match="audit lines 3 to 4 are missing at the end"):
        StoreReader(store.path).verify_audit()
    store = Store(store.path)
    assert "audit lines 3 to 4 are missing" in store.damage
    StoreWriter(store).write_tick(9.0, [], [])
    assert StoreReader(store.path).verify_audit()[0] == 3
    (what,) = store._connection.execute("SELECT what FROM audit WHERE number = 3").fetchone()
    assert what == "store had lost entries"


def test_a_crash_between_entry_and_head_is_no_loss_and_an_exchanged_tail_is(tmp_path):
    store = Store(tmp_path / "s.db")
    for n in range(3):
        before = read_head(store.path)
        store.add_audit_entry(float(n), "ops", "did", {})
    write_head(store.path, before)
    assert StoreReader(store.path).verify_audit()[0] == 3
    write_head(store.path, before._replace(hash="f" * 64))
    with pytest.raises(InputError, match="audit line 2 is not the one"):
        StoreReader(store.path).verify_audit()
    head_file(store.path).write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        StoreReader(store.path).verify_audit()


def test_the_files_of_a_store_are_for_its_user_alone_unless_they_had_another_mode(tmp_path):
    before = os.umask(0)
    try:
        store = Store(tmp_path / "s.db")
        write(store, 1)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        assert modes == dict.fromkeys(("s.db", "s.db-wal", "s.db-shm", "s.db-lock", "s.db-head"), 0o600)
        store.close()
        store.path.chmod(0o640)
        write(Store(store.path), 2)
        assert store.path.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_a_link_leads_to_the_same_lock_log_and_head(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "s.db")
    store = Store(tmp_path / "link.db")
    write(store, 1)
    with pytest.raises(InputError, match="in use by another controller"):
        Store(tmp_path / "s.db")
    (tmp_path / "s.db-wal").unlink()
    write(store, 2)
    assert (store.restored, ids(tmp_path / "s.db")) == (1, {"i-1", "i-2"})
    assert (tmp_path / "link.db").is_symlink()
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("DELETE FROM audit WHERE number > 1")
        connection.commit()
    with pytest.raises(InputError, match="missing at the end"):
        StoreReader(tmp_path / "s.db").verify_audit()


@pytest.mark.slow
def test_a_reload_and_readers_elsewhere_lose_nothing_of_a_controller_that_is_killed_then(tmp_path):
    body = {"match": {"node": ["n0"]}, "comment": "x", "hours": 1}
    with running(tmp_path, AUTH) as found:
        found.process.send_signal(signal.SIGHUP)
        found.until(lambda: "reloaded" in found.log())
        for reader in READERS.values():
            assert run_elsewhere(tmp_path / "skewscope.db", reader) == ""
        status, silence = found.send("/api/v1/silences", body, TOKENS["ADMIN"])
        assert status == 201
        listed = found.json("/api/v1/silences", TOKENS["READ"])["silences"]
        assert "skewscope_store_restored_total 0.0" in found.ask("/metrics", TOKENS["READ"])[2].decode()
        found.process.kill()
        found.process.wait(30)
    assert [one["id"] for one in listed] == [silence["id"]]
    assert [one.id for one in StoreReader(tmp_path / "skewscope.db").silences()] == [silence["id"]]
    assert StoreReader(tmp_path / "skewscope.db").verify_audit()[0] == 3
