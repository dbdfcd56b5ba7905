from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.adapters.formats.exposition import format_exposition
from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from tests.support.telemetry import catalogue, record

KEYS = [
    SeriesKey("host.cpu", "node", "n0", "cpu0,mode=user"),
    SeriesKey("host.clock", "node", "n1"),
    SeriesKey("port.rx_bytes", "port", "n1/ew/0"),
    SeriesKey("prio.rx_pause", "port", "n0/ew", "p3"),
    SeriesKey("gpu.util", "gpu", "n1/gpu1"),
    SeriesKey("serve.running", "replica", "A", "3"),
    SeriesKey("serve.ttft", "replica", "B", "bucket:0.5"),
    SeriesKey("serve.ttft", "replica", "B", "count"),
    SeriesKey("nccl.busbw", "rank", "A:n1"),
    SeriesKey("nccl.busbw", "rank", "B:n0/gpu1"),
    SeriesKey("wire.peer_bytes", "peer", "n0/ew>n1/ew/0"),
    SeriesKey("wire.peer_bytes", "peer", "n1/ew/0>n0", "A"),
    SeriesKey("wire.round_rate", "group", "A"),
    SeriesKey("wire.loss", "port", "n0/ew", "tx"),
    SeriesKey("wire.loss", "port", "n0/ew", "A"),
    SeriesKey("pool.queue", "pool", "chat"),
]
VALUES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1e-300, 1e22])
SAMPLES = st.lists(st.tuples(st.integers(0, len(KEYS) - 1), st.integers(1, 1 << 40), VALUES), max_size=40)


def block_of(rows, table):
    known = {(series, time / 1024): value for series, time, value in rows}
    numbers = [table.number(KEYS[series]) for series, _ in known]
    times = [time for _, time in known]
    return Block(np.array(times, float), np.array(numbers, np.int32), np.array(list(known.values()), float))


def content(block, table):
    keys = [table.keys[number] for number in block.series.tolist()]
    return sorted(zip(keys, block.time.tolist(), map(repr, block.value.tolist()), strict=True))


def read_back(text):
    with TemporaryDirectory() as folder:
        path = record(Path(folder) / "r", [{"kind": "openmetrics", "path": "m.om"}], {"m.om": text})
        found = load(open_recording(path), catalogue(), workers=1)
    assert not found.unmapped
    return content(found.block, found.table)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_every_kind_of_series_is_found_again_by_its_labels(key):
    table = SeriesTable()
    block = Block(np.array([5.0]), np.array([table.number(key)], np.int32), np.array([1.5]))
    text = "".join(format_exposition(block, table, catalogue()))
    assert read_back(text) == [(key, 5.0, "1.5")]


@settings(max_examples=30, deadline=None)
@given(SAMPLES)
def test_what_is_written_reads_back_to_the_same_bits(rows):
    table = SeriesTable()
    block = block_of(rows, table)
    assert read_back("".join(format_exposition(block, table, catalogue()))) == content(block, table)


def test_series_of_one_family_stand_together_and_the_document_ends():
    table = SeriesTable()
    text = "".join(format_exposition(block_of([(0, 1, 1.0), (13, 1, 2.0), (14, 1, 3.0)], table), table, catalogue()))
    assert text.splitlines() == [
        "# TYPE skewscope_host_cpu counter",
        'skewscope_host_cpu_total{node="n0",cpu="0",mode="user"} 1.0 0.0009765625',
        "# TYPE skewscope_wire_loss gauge",
        'skewscope_wire_loss{node="n0",port="ew",group="A"} 3.0 0.0009765625',
        'skewscope_wire_loss{node="n0",port="ew",direction="tx"} 2.0 0.0009765625',
        "# EOF",
    ]
