"""Commands that read the store of a controller, which may be in use."""

import json
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from click.testing import CliRunner

from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.tui.cli.main import cli
from tests.adapters.controller.writer import incident

ENTRIES = ((1000.0, "ann", "silence was made", {"id": "s-1"}), (2000.0, "bob", "did", {}), (3000.0, "ann", "did", {}))


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "s.db")
    for entry in ENTRIES:
        found.add_audit_entry(*entry)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ((), [1, 2, 3]),
        (("--most", 2), [2, 3]),
        (("--who", "ann"), [1, 3]),
        (("--who", "ann", "--most", 1), [3]),
        (("--what", "silence"), [1]),
        (("--what", "s-1"), [1]),
        (("--since", "2000"), [2, 3]),
        (("--until", "2000"), [1]),
        (("--since", "5000"), []),
    ],
)
def test_lines_of_the_audit_log_are_shown_by_time_name_and_text(store, options, lines):
    found = json.loads(run("audit", "show", store.path, "--json", *options).output)
    assert [one["line"] for one in found] == lines


def test_the_log_is_a_table_without_escape_characters(store):
    store.add_audit_entry(4000.0, "\x1b[2J", "did", {})
    text = run("audit", "show", store.path).output
    assert "\x1b" not in text
    assert text.splitlines()[1].split(maxsplit=3) == [
        "1",
        "1970-01-01T00:16:40.000Z",
        "ann",
        'silence was made  {"id":"s-1"}',
    ]
    assert run("audit", "show", store.path, "--who", "nobody").output == "No such lines.\n"


def test_the_log_is_read_after_a_crash_without_touching_its_files(tmp_path):
    code = "import sys, os\nfrom pathlib import Path\nfrom skewscope.adapters.controller.store import Store\n"
    code += "Store(Path(sys.argv[1])).add_audit_entry(1.0, 'ann', 'did', {}); os._exit(1)"
    path = tmp_path / "s.db"
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    before = (tmp_path / "s.db-wal").read_bytes()
    assert [one["who"] for one in json.loads(run("audit", "show", path, "--json").output)] == ["ann"]
    assert "1 lines, unchanged" in run("audit", "verify", path).output
    assert (tmp_path / "s.db-wal").read_bytes() == before


def test_verify_says_where_it_cannot_notice_what_was_cut_off(store):
    assert "cannot be noticed" not in run("audit", "verify", store.path).output
    (store.path.parent / "s.db-head").unlink()
    assert "no s.db-head beside it" in run("audit", "verify", store.path).output


def test_a_backup_while_rows_are_written_is_one_state_of_the_store(store, tmp_path):
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            store.write_tick(float(number), [incident(number)], [])
            store.add_audit_entry(float(number), "ann", "did", {"number": number})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        outputs = [run("store", "backup", store.path, tmp_path / f"{n}.db").output for n in range(5)]
    finally:
        stop.set()
        writer.join()
    for n, output in enumerate(outputs):
        copy = tmp_path / f"{n}.db"
        lines, last = StoreReader(copy).verify_audit()
        assert f"{lines} audit lines, unchanged. Last hash: {last}" in output
        assert lines - len(ENTRIES) <= len(StoreReader(copy).incidents(most=100_000)) <= lines - len(ENTRIES) + 1
    assert store.restored == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"{n}.db{end}" for n in range(5) for end in ("", "-head")),
        *(f"s.db{end}" for end in ("", "-head", "-lock", "-shm", "-wal")),
    }


def test_a_backup_is_used_as_a_store(store, tmp_path):
    copy = tmp_path / "copy.db"
    run("store", "backup", store.path, copy)
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(Store(copy)) as again:
        again.add_audit_entry(9.0, "ann", "went on", {})
    assert StoreReader(copy).verify_audit()[0] == len(ENTRIES) + 1


def test_an_older_copy_in_the_place_of_the_store_is_noticed(store, tmp_path):
    run("store", "backup", store.path, tmp_path / "copy.db")
    store.add_audit_entry(9.0, "ann", "did", {})
    store.close()
    (tmp_path / "copy.db").replace(store.path)
    done = run("audit", "verify", store.path)
    assert (done.exit_code, "audit lines 4 to 4 are missing" in done.stderr) == (2, True)


def test_no_backup_is_written_over_a_file_nor_of_a_damaged_log(store, tmp_path):
    (tmp_path / "there").write_text("of somebody")
    assert "a file that is there" in run("store", "backup", store.path, tmp_path / "there").stderr
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("UPDATE audit SET who = 'eve' WHERE number = 2")
        connection.commit()
    assert "audit line 2" in run("store", "backup", store.path, tmp_path / "copy.db").stderr
    assert not [path for path in tmp_path.iterdir() if "copy" in path.name]
