import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.problems import InputError
from tests.support.telemetry import catalogue, record


def loaded(folder, columns, **how):
    path = record(folder, [{"kind": "parquet", "path": "samples.parquet"}], {})
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, path / "samples.parquet", **how)
    return load(open_recording(path), catalogue())


def rows(found):
    return [
        (found.table.keys[n], value, time)
        for n, value, time in zip(
            found.block.series.tolist(), found.block.value.tolist(), found.block.time.tolist(), strict=True
        )
    ]


def test_a_row_is_a_sample_by_id_by_canonical_name_or_by_an_exporters(tmp_path):
    found = loaded(
        tmp_path,
        {
            "time": [1.5, 1.5, 2.5, 2.5, 3.5],
            "signal": [
                "host.retrans",
                "skewscope_wire_loss",
                "node_cpu_scaling_frequency_hz",
                "serve.ttft",
                "DCGM_FI_DEV_GPU_UTIL",
            ],
            "value": [1.0, None, 2e9, 4.0, 50.0],
            "node": ["n0", "n0", "n1", "n0", "n1"],
            "port": [None, "ew", None, None, None],
            "le": [None, None, None, "0.5", ""],
            "gpu": pa.array([None, None, None, None, 1], pa.int64()),
        },
    )
    assert repr(rows(found)) == repr(
        [
            (SeriesKey("host.retrans", "node", "n0"), 1.0, 1.5),
            (SeriesKey("wire.loss", "port", "n0/ew"), float("nan"), 1.5),
            (SeriesKey("host.clock", "node", "n1"), 2000.0, 2.5),
            (SeriesKey("serve.ttft", "replica", "A", "bucket:0.5"), 4.0, 2.5),
            (SeriesKey("gpu.util", "gpu", "n1/gpu1"), 50.0, 3.5),
        ]
    )


def test_timestamps_integers_and_dictionaries_are_read_too(tmp_path):
    moment = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
    found = loaded(
        tmp_path,
        {
            "time": pa.array([moment, moment], pa.timestamp("us", tz="UTC")),
            "signal": pa.array(["host.retrans"] * 2).dictionary_encode(),
            "value": pa.array([1, 2], pa.int32()),
            "node": pa.array(["n1", "n0"]).dictionary_encode(),
        },
    )
    assert rows(found) == [
        (SeriesKey("host.retrans", "node", "n0"), 2.0, moment.timestamp()),
        (SeriesKey("host.retrans", "node", "n1"), 1.0, moment.timestamp()),
    ]


def test_many_rows_over_many_groups_are_all_there(tmp_path):
    n = 300_000
    rng = np.random.default_rng(1)
    node, cpu = rng.integers(0, 2, n), rng.integers(0, 50, n)
    value = rng.normal(size=n)
    found = loaded(
        tmp_path,
        {
            "time": np.arange(n) / 10,
            "signal": ["host.cpu"] * n,
            "value": value,
            "node": [f"n{k}" for k in node],
            "cpu": cpu,
        },
        row_group_size=70_000,
    )
    assert len(found.table.keys) == 100
    keys = [found.table.keys[k] for k in found.block.series[:1000]]
    assert [(k.entity, k.selector) for k in keys] == [
        (f"n{a}", f"cpu{b}") for a, b in zip(node[:1000], cpu[:1000], strict=True)
    ]
    assert np.array_equal(found.block.value, value)


def test_a_name_of_nothing_is_counted_with_the_nearest_signal(tmp_path):
    found = loaded(tmp_path, {"time": [1.0], "signal": ["host.retranz"], "value": [1.0], "node": ["n0"]})
    assert len(found.block) == 0
    assert found.unmapped[0].metric == "host.retranz"
    assert "Did you mean 'host.retrans'?" in found.unmapped[0].reason


GOOD = {"time": [1.0], "signal": ["host.retrans"], "value": [1.0], "node": ["n0"]}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"time": ["now"]}, "time: found a column of string, expected seconds since 1970, or timestamps"),
        ({"time": [None]}, "time:"),
        ({"time": [1795177354075.0]}, "time: found a time some thousands of years away"),
        ({"time": [float("nan")]}, "time: found a time"),
        ({"signal": [1]}, "signal: found a column of int64, expected text"),
        ({"value": ["1"]}, "value: found a column of string, expected numbers"),
        ({"node": [["n0"]]}, "node: found a column of list"),
        ({"speed": [1.5]}, "speed: found a column of double, expected a label. A wide table? Write it long."),
    ],
)
def test_a_column_of_another_kind_is_told_by_its_name(tmp_path, change, told):
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, {**GOOD, **change})
    assert f"samples.parquet: {told}" in str(caught.value)


def test_a_missing_column_is_told_with_the_nearest_one(tmp_path):
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, {"times": [1.0], "signal": ["a"], "value": [1.0]})
    assert "time: found no such column, expected the columns time, signal, value. Did you mean 'times'?" in str(
        caught.value
    )


@pytest.mark.parametrize("names", [["time", "host.retrans", "host.retrans"], ["time", "time", "host.retrans"]])
def test_two_columns_of_one_name_are_refused_in_a_wide_table(tmp_path, names):
    table = pa.Table.from_arrays([pa.array([1.0])] * len(names), names)
    with pytest.raises(InputError, match="found two columns of one name"):
        loaded(tmp_path, table)


def test_a_missing_time_in_one_row_is_told(tmp_path):
    with pytest.raises(InputError, match="1 rows without a time"):
        loaded(tmp_path, {**GOOD, "time": pa.array([None], pa.float64())})


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + b"\x00" * 100 + b"PAR1", b"a,b\n1,2\n"])
def test_what_is_no_parquet_is_told(tmp_path, data):
    path = record(tmp_path, [{"kind": "parquet", "path": "s.parquet"}], {"s.parquet": data})
    with pytest.raises(InputError, match="no readable Parquet"):
        load(open_recording(path), catalogue())


def test_texts_that_are_no_utf8_are_told(tmp_path):
    data = pa.py_buffer(b"gpu.pow\xdfr")
    names = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 9], np.int32)), data)
    columns = {"time": [1.0], "signal": names, "value": [3.0], "node": ["n0"], "gpu": ["0"]}
    path = record(tmp_path, [{"kind": "parquet", "path": "s.parquet"}], {})
    pq.write_table(pa.table(columns), path / "s.parquet")
    with pytest.raises(InputError, match="no readable Parquet"):
        draft_recording([path / "s.parquet"])
    with pytest.raises(InputError, match="no readable Parquet"):
        load(open_recording(path), catalogue())


def test_a_damaged_file_is_told_or_read_but_never_crashes(tmp_path):
    path = record(tmp_path, [{"kind": "parquet", "path": "s.parquet"}], {})
    pq.write_table(pa.table({k: v * 500 for k, v in GOOD.items()}), path / "s.parquet")
    whole = (path / "s.parquet").read_bytes()
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(60):
        damaged = bytearray(whole)
        for at in rng.integers(0, len(whole), 4):
            damaged[at] ^= int(rng.integers(1, 256))
        (path / "s.parquet").write_bytes(bytes(damaged))
        try:
            load(open_recording(path), catalogue())
        except InputError:
            refused += 1
    assert refused
