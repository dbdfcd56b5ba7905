"""The share of the bytes that are read is told while one large input is read, here and in other processes."""

import gzip
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from skewscope.adapters.inputs.byte_progress import ByteProgress, SharedCounter, count_bytes
from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.recording import load
from skewscope.adapters.runtime.processes import map_parallel
from skewscope.kb.loader import catalogue
from tests.support.process_work import read_slowly

LINES = "".join(
    f'DCGM_FI_DEV_SM_CLOCK{{Hostname="h",gpu="{n % 8}"}} {1400 + n % 97} {1750000000 + n // 8}\n' for n in range(80_000)
).encode()


def shares(path, workers=1):
    """Returns the shares that are told while the inputs are looked at, and while they are read."""
    looked, read = [], []
    draft = draft_recording([path], progress=lambda _, share: looked.append(share))
    load(draft.recording, catalogue(), lambda _, share: read.append(share), workers)
    return looked, read


@pytest.mark.parametrize(
    ("name", "pack"),
    [("a.om", bytes), ("a.om.gz", partial(gzip.compress, compresslevel=1)), ("a.om.zst", zstandard.compress)],
)
def test_a_large_file_is_told_in_parts(tmp_path, name, pack):
    path = tmp_path / name
    path.write_bytes(pack(LINES))
    for told in shares(path):
        assert told == sorted(told)
        assert told[-1] == 1.0
        assert len([share for share in told if 0.1 < share < 0.9]) >= 3


def test_a_large_table_is_told_in_parts(tmp_path):
    rows = 1 << 19
    columns = {"time": [1750000000.0 + n // 8 for n in range(rows)], "host": ["h"] * rows}
    columns |= {"gpu": [n % 8 for n in range(rows)], "DCGM_FI_DEV_SM_CLOCK": [1400.0 + n % 97 for n in range(rows)]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    _, read = shares(tmp_path / "a.parquet")
    assert len([share for share in read if 0.1 < share < 0.9]) >= 3


def test_bytes_that_are_read_twice_are_no_more_than_the_file():
    told = []
    progress = ByteProgress(lambda _, share: told.append(share), 200)
    progress.begin("a", 100)
    progress.add(80)
    progress.add(80)
    progress.finish("a", 100)
    assert told == [0.4, 0.5, 0.5]


@pytest.mark.alone
def test_bytes_that_other_processes_read_are_told_before_a_result_is_ready(tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(b"x" * (8 << 20))
    counter, told = SharedCounter(), []
    progress = ByteProgress(lambda _, share: told.append(share), 16 << 20)
    work = partial(count_bytes, counter, read_slowly)
    done = list(map_parallel(work, [tmp_path / "a", tmp_path / "b"], 2, lambda: progress.tell_counter(counter)))
    assert len(done) == 2
    assert told == sorted(told)
    assert len({share for share in told if 0 < share < 1}) >= 3
    assert counter.value == 16 << 20
