"""A history as Parquet, its views, and what a question may not do."""

import sys

import pyarrow.parquet as pq
import pytest

from skewscope.adapters.backtest.telemetry import TelemetrySpan, open_telemetry
from skewscope.adapters.controller.store import Store
from skewscope.adapters.history.database import HistoryDatabase, HistoryLimits
from skewscope.adapters.history.export import export_recording, export_store
from skewscope.adapters.history.schema import TABLES, arrow_schema
from skewscope.adapters.history.views import VIEWS
from skewscope.kb.problems import InputError
from tests.support import history

pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return history.write_history(tmp_path_factory.mktemp("history"))


@pytest.fixture
def database(folder):
    with HistoryDatabase(folder, HistoryLimits(seconds=5)) as found:
        yield found


def rows(database, sql):
    return list(database.ask(sql).rows)


@pytest.mark.parametrize("name", [*TABLES, *VIEWS])
def test_every_table_and_view_answers(database, name):
    columns = database.ask(f"SELECT * FROM {name}").columns
    assert columns[0] == next(iter(TABLES[name])) if name in TABLES else columns


def test_the_worst_node_comes_first(database):
    assert rows(database, "SELECT node, rack, diagnoses, hours FROM worst_nodes LIMIT 1") == [("n1", "r0", 3, 9.0)]


def test_the_cost_is_the_share_lost_of_the_gpus_that_wait(database):
    found = dict(rows(database, "SELECT condition, lost_gpu_hours FROM cost"))
    # Four nodes of eight GPUs wait: 0.2 of 3 h, 0.15 of 2 h and 0.25 of 4 h.
    assert found["gpu-thermal-throttle"] == pytest.approx(32 * 1.9)
    assert found["host-cpu-bottleneck"] is None


def test_the_time_to_detect_is_that_of_labelled_faults(database):
    sql = "SELECT condition, faults, found, mean_s FROM mean_time_to_detect"
    assert rows(database, sql) == [
        ("fabric-loss", 1, 1, 12.0),
        ("gpu-thermal-throttle", 3, 3, 5.0),
        ("tp-straggler", 2, 1, 9.0),
    ]


def test_what_comes_back_is_a_repeat_offender(database):
    found = rows(database, "SELECT entity, condition, times, hours_between FROM repeat_offenders")
    assert found == [("n1", "gpu-thermal-throttle", 3, 264.0), ("n6", "fabric-loss", 2, 408.0)]


def test_weeks_begin_on_monday(database):
    found = rows(database, "SELECT strftime(week, '%a %Y-%m-%d') FROM by_week ORDER BY week LIMIT 1")
    assert found == [("Mon 2026-08-31",)]


def test_a_symptom_and_a_wrong_diagnosis_are_told_apart(database):
    assert rows(database, "SELECT id, symptom FROM symptoms") == [("s0", "slow-steps")]
    assert rows(database, "SELECT rule, wrong FROM false_alarms WHERE wrong > 0") == [
        ("fabric-loss-rule", 1),
        ("host-cpu-bottleneck-rule", 1),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_parquet('/tmp/*.parquet')",
        "SELECT * FROM glob('/*')",
        "COPY incidents TO 'incidents.csv'",
        "CREATE TABLE x AS SELECT 1",
        "SET memory_limit = '64GB'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "ATTACH 'x.db'",
        "PRAGMA database_list",
        "SELECT 1; SELECT 2",
        "",
        "SELEC 1",
        "SELECT * FROM no_such_table",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'FOLDER/incidents/x.parquet'",
        "EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO 'FOLDER/incidents/x.parquet'",
        "EXPLAIN /* */ ANALYZE COPY (SELECT 1) TO 'FOLDER/incidents/x.parquet'",
        "EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1",
        "EXPLAIN ANALYZE DROP VIEW incidents",
        "WITH x AS (INSERT INTO incidents VALUES (1) RETURNING *) SELECT * FROM x",
        "SELECT * FROM query('DROP VIEW incidents')",
    ],
)
def test_a_question_reads_the_history_and_nothing_else(database, folder, sql):
    before = sorted(folder.rglob("*"))
    with pytest.raises(InputError):
        database.ask(sql.replace("FOLDER", str(folder)))
    assert sorted(folder.rglob("*")) == before
    assert rows(database, "SELECT count(*) FROM incidents") == [(8,)]


@pytest.mark.parametrize("prefix", ["EXPLAIN ", "explain analyze ", "EXPLAIN (ANALYZE, FORMAT json) "])
def test_a_plan_of_a_question_is_shown(database, prefix):
    assert database.ask(f"{prefix}SELECT count(*) FROM incidents").rows


def test_a_question_is_asked_in_a_transaction_that_cannot_write(folder, monkeypatch):
    with HistoryDatabase(folder) as database:
        monkeypatch.setattr(database, "_check_statement", lambda _: None)
        with pytest.raises(InputError, match="read-only"):
            database.ask("CREATE TABLE x AS SELECT 1")


def test_a_question_that_takes_too_long_is_ended(folder):
    with HistoryDatabase(folder, HistoryLimits(seconds=0.2)) as database:
        with pytest.raises(InputError, match=r"more than 0\.2 s"):
            database.ask("SELECT sum(a.range * b.range) FROM range(1000000000) a, range(1000000) b")
        assert database.ask("SELECT 1").rows == ((1,),)


def test_a_question_that_takes_too_much_memory_is_ended(folder):
    with HistoryDatabase(folder, HistoryLimits("20MB")) as database, pytest.raises(InputError, match="memory"):
        database.ask("SELECT list(range) FROM range(100000000)")


def test_more_rows_than_wanted_are_cut(folder):
    with HistoryDatabase(folder, HistoryLimits(rows=3)) as database:
        answer = database.ask("SELECT * FROM incidents")
    assert (len(answer.rows), answer.is_cut) == (3, True)


def test_pandas_and_arrow_read_the_stated_schema(folder):
    for table in ("incidents", "evidence", "faults", "nodes", "coverage"):
        assert pq.read_schema(folder / table / "autumn.parquet").equals(arrow_schema(table))
    assert pq.read_table(folder / "incidents").num_rows == 8


def test_a_folder_without_a_history_is_refused(tmp_path):
    with pytest.raises(InputError, match="no history"):
        HistoryDatabase(tmp_path)


def test_without_duckdb_the_error_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InputError, match=r"pip install 'skewscope\[history\]'"):
        HistoryDatabase(folder)


def test_a_recording_is_exported_again_and_again(moment, tmp_path):
    opened = open_telemetry(str(moment), TelemetrySpan(), tmp_path, lambda _stage, _share: None)
    for _ in range(2):
        counts = export_recording(opened, tmp_path / "history", samples=True).counts
    with HistoryDatabase(tmp_path / "history") as database:
        assert rows(database, "SELECT count(*) FROM samples") == [(counts["samples"],)]
        assert rows(database, "SELECT sum(samples) FROM coverage") == [(counts["samples"],)]
        (read,) = rows(database, "SELECT entities, samples FROM coverage WHERE signal = 'host.softnet_dropped'")
    assert read[0] == 8


def test_the_store_of_a_controller_is_exported(tmp_path):
    store = Store(tmp_path / "store.db")
    store.write_tick(history.BEGIN, history.incidents(), ())
    store.close()
    counts = export_store(tmp_path / "store.db", history.FLEET, tmp_path / "history").counts
    assert (counts["incidents"], counts["evidence"]) == (8, 16)
    with HistoryDatabase(tmp_path / "history") as database:
        assert rows(database, "SELECT rack, diagnoses FROM by_rack") == [("r0", 4), ("r1", 3)]
