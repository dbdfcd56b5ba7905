"""A store on a disk whose blocks are smaller than the pages of SQLite's index; it needs root and loop devices."""

import subprocess
import sys

import pytest

from bench.campaign_disk import small_disk
from skewscope.adapters.controller.store import StoreReader

BEGIN = """
import sys
from contextlib import suppress
from pathlib import Path
from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.adapters.controller.store_place import StoreError
from skewscope.kb.problems import InputError
from tests.adapters.controller.writer import incident
path = Path(sys.argv[1])
"""
OPEN = f"""{BEGIN}
store = Store(path)
store.write_tick(1.0, [incident(1)], [])
"""
CLOSE = "store.close()"
WRITE = """
for number in range(2, 400):
    with suppress(StoreError):
        store.write_tick(float(number), [incident(number)], [])
store.close()
"""
READ = f"""{BEGIN}
with suppress(InputError):
    StoreReader(path).incidents()
"""
FILL = """
with (path.parent / "filler").open("ab", buffering=0) as filler:
    for size in (1 << 20, 4096, 1):
        with suppress(OSError):
            while filler.write(bytes(size)):
                pass
"""


def run(code, path):
    return subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", block_bytes=1024) as found:
        if found is None:
            pytest.skip("no disk can be mounted here")
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("code", [f"{BEGIN}store = Store(path)\n{WRITE}", READ], ids=["write", "read"])
def test_no_room_for_the_index_ends_no_process(disk, code):
    """SQLite ends with SIGBUS where 8, 16 or 24 KiB are free, and where others take what it has not written yet."""
    store = disk.folder / "s.db"
    assert run(OPEN + CLOSE, store).returncode == 0
    for kib in (0, 4, 8, 12, 16, 24, 33, 36, 40, 60, 100, 200, 300, 600):
        disk.fill(but_bytes=kib * 1024)
        done = run(code, store)
        assert done.returncode == 0, (kib, done.returncode, done.stderr)
        disk.free()
    reader = StoreReader(store)
    assert 1 in {int(one["id"].rpartition("-")[2]) for one in reader.incidents()}


@pytest.mark.slow
def test_a_disk_that_others_fill_ends_no_process(disk):
    """All room is taken after the store was opened, before the first write through the mapping of the index."""
    store = disk.folder / "s.db"
    done = run(f"{OPEN}{FILL}{WRITE}", store)
    assert done.returncode == 0, done.stderr
    disk.free()
    # Some more may have found room in the log of the store.
    assert "i-1" in {one["id"] for one in StoreReader(store).incidents()}
