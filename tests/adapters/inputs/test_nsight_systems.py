"""Reports of Nsight Systems as SQLite, made here."""

import sqlite3
from contextlib import closing

import pytest

from skewscope.adapters.inputs import nsight_systems
from skewscope.adapters.inputs.recognition import find_kind
from skewscope.kb.problems import InputError

T = 1789372800
MS = 1_000_000
TABLES = f"""
CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT, deviceId INT, globalPid INT, shortName INT);
CREATE TABLE NVTX_EVENTS(start INT, end INT, text TEXT, globalTid INT, textId INT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INT);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES({T * 10**9});
INSERT INTO StringIds VALUES(1, 'gemm'), (2, 'ncclDevKernel_AllReduce'), (3, 'dataloader'), (4, 'train step');
"""


def report(path, compute_ms, *, step="step {}", loading_ms=0):
    """Writes a report with steps of 400 ms; a process for each number of milliseconds that its GPU computes."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES)
        for rank, length in enumerate(compute_ms):
            process = (1000 + rank) << 24
            for n in range(6):
                at = n * 400 * MS
                text, number = (step.format(n), None) if step else (None, 4)
                ranges = [(at, at + 400 * MS, text, process + 7, number)]
                ranges += [(at, at + loading_ms * MS, None, process + 7, 3)] if loading_ms else []
                database.executemany("INSERT INTO NVTX_EVENTS VALUES(?, ?, ?, ?, ?)", ranges)
                end = at + length * MS
                kernels = [(at, end, rank, process, 1), (end, at + 390 * MS, rank, process, 2)]
                database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(?, ?, ?, ?, ?)", kernels)
        database.commit()
    return path


def shown(series):
    return {
        (one.metric.removeprefix("skewscope_step_"), dict(one.labels).get("rank", "")): one.values.round(6).tolist()
        for one in series
    }


def test_each_process_is_a_rank(tmp_path):
    path = report(tmp_path / "report.sqlite", [150, 300])
    assert find_kind(path) == "nsight-systems"
    series = nsight_systems.read_report(path, "report.sqlite", {})
    found = shown(series)
    assert found["duration", ""] == [0.4] * 6
    assert found["comm_time", "0"] == [0.24] * 6
    assert found["compute_time", "1"] == [0.31] * 6
    assert series[0].times[0] >= T
    assert "its 2 processes are taken for ranks" in series[0].note


@pytest.mark.parametrize("step", ["iteration_{}", "ProfilerStep#{}", "Batch {} of 6", ""])
def test_names_of_steps_and_what_they_wait_for_data(tmp_path, step):
    path = report(tmp_path / "rank3.sqlite", [300], step=step, loading_ms=100)
    found = shown(nsight_systems.read_report(path, "rank3.sqlite", {}))
    assert found["duration", ""] == [0.4] * 6
    assert found["data_time", ""] == [0.1] * 6
    assert found["compute_time", "3"] == [0.31] * 6


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (
            "CREATE TABLE NVTX_EVENTS(start INT, end INT, text TEXT, globalTid INT);",
            "no range that is named after a step",
        ),
        ("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT);", "no table NVTX_EVENTS"),
        ("CREATE VIEW NVTX_EVENTS AS SELECT 1 AS start, 2 AS end;", "no table NVTX_EVENTS"),
        ("CREATE TABLE NVTX_EVENTS(other INT);", "no readable database"),
    ],
)
def test_a_database_without_steps_is_refused(tmp_path, script, found):
    path = tmp_path / "report.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)
    with pytest.raises(InputError, match=found):
        nsight_systems.read_report(path, "report.sqlite", {})


def test_a_report_that_is_cut_or_damaged_gives_a_clear_error(tmp_path):
    data = report(tmp_path / "report.sqlite", [150]).read_bytes()
    for number, broken in enumerate((data[: len(data) // 2], data[:100] + b"\xff" * (len(data) - 100), data[:16])):
        path = tmp_path / f"{number}.sqlite"
        path.write_bytes(broken)
        with pytest.raises(InputError, match="report"):
            nsight_systems.read_report(path, "report", {})
