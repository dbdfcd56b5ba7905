"""Measures the ready views of a history: `python -m bench.history_load` writes 100 million rows and asks each view.

A tenth are incidents of 10,000 nodes over two years, the rest is their evidence, labelled faults and coverage. It
prints elapsed and processor seconds of each view; the files are deleted at the end.
"""

import argparse
import resource
import shutil
import tempfile
import time
from pathlib import Path

from skewscope.adapters.history.database import HistoryDatabase, HistoryLimits
from skewscope.adapters.history.schema import SQL_TYPES, TABLES
from skewscope.adapters.history.views import VIEWS

PART_ROWS = 10_000_000
SHARES = {"incidents": 0.1, "evidence": 0.8, "faults": 0.02, "coverage": 0.08}
"""Share of each table in all rows: an incident has about eight items of evidence."""
TIME = "to_timestamp(1700000000 + ({at} % 10000000 * 6.3072)::BIGINT)"
"""Two years over the incidents of 100 million rows."""
NODE = "'n' || lpad((hash({at}) % 10000)::VARCHAR, 5, '0')"
CONDITION = "'condition-' || (hash({at} + 7) % 60)"
EXPRESSIONS = {
    "recording": "'week-' || ({at} // 1000000)",
    "id": "lower(hex({at} * 7919))",
    "incident": "lower(hex({at} * 7919))",
    "is_root": "hash({at} + 1) % 4 > 0 AND hash({at} + 9) % 3 > 0",
    "category": "CASE WHEN hash({at} + 1) % 4 = 0 THEN 'symptom' ELSE 'diagnosis' END",
    "condition": CONDITION,
    "signal": "'signal-' || (hash({at}) % 280)",
    "kind": "['node', 'gpu', 'port', 'rank'][1 + (hash({at} + 2) % 4)::INT]",
    "entity": NODE,
    "also": "[]::VARCHAR[]",
    "node": NODE,
    "nodes": f"[{NODE}]",
    "rack": "'r' || (hash({at}) % 10000 // 32)",
    "state": "'resolved'",
    "side": "CASE WHEN hash({at}) % 3 = 0 THEN 'against' ELSE 'for' END",
    "name": "'item_' || (hash({at} + 3) % 400)",
    "verdict": "['yes', 'no', 'unknown'][1 + (hash({at} + 4) % 3)::INT]",
    "opened_at": TIME,
    "resolved_at": TIME,
    "begin": TIME,
    "end": TIME,
    "hour": TIME,
    "lasted_s": "(hash({at} + 5) % 3600)::DOUBLE",
    "delay_s": "CASE WHEN hash({at} + 6) % 10 > 0 THEN (hash({at} + 6) % 60)::DOUBLE END",
    "severity": "['info', 'warning', 'critical'][1 + (hash({at} + 8) % 3)::INT]",
    "explained_by": "CASE WHEN hash({at} + 9) % 3 = 0 THEN lower(hex({at})) END",
    "lost_gpu_hours": "CASE WHEN hash({at} + 10) % 2 = 0 THEN (hash({at} + 10) % 1000) / 100.0 END",
    "rule": "'rule-' || (hash({at} + 7) % 60)",
    "label": "CASE hash({at} + 11) % 10 WHEN 0 THEN 'right' WHEN 1 THEN 'wrong' END",
}
"""How columns are made up; others are constant."""
DEFAULTS = {
    "VARCHAR": "''",
    "VARCHAR[]": "[]::VARCHAR[]",
    "DOUBLE": "0.9",
    "BIGINT": "8",
    "TIMESTAMPTZ": TIME,
    "BOOLEAN": "false",
}


def write_table(folder: Path, table: str, rows: int) -> None:
    """Writes a table of so many rows."""
    import duckdb  # noqa: PLC0415

    (folder / table).mkdir(parents=True)
    with duckdb.connect(":memory:") as connection:
        for number, begin in enumerate(range(0, rows, PART_ROWS)):
            columns = ", ".join(
                f'({EXPRESSIONS.get(name) or DEFAULTS[SQL_TYPES[kind]]})::{SQL_TYPES[kind]} AS "{name}"'
                for name, kind in TABLES[table].items()
            ).replace("{at}", "range")
            source = f"SELECT {columns} FROM range({begin}, {min(rows, begin + PART_ROWS)})"
            path = folder / table / f"part-{number:03}.parquet"
            connection.execute(f"COPY ({source}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")


def processor_seconds() -> float:
    """Returns the processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def ask(database: HistoryDatabase, sql: str) -> tuple[float, float, int]:
    """Returns elapsed and processor seconds of a question, the better of two, and the rows of its answer."""
    found = []
    for _ in range(2):
        began, used = time.monotonic(), processor_seconds()
        rows = len(database.ask(sql).rows)
        found.append((time.monotonic() - began, processor_seconds() - used, rows))
    return min(found)


def main() -> None:
    """Writes, asks and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    wanted = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="history-"))
    try:
        for table, share in SHARES.items():
            write_table(folder, table, round(wanted.rows * share))
        size = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
        rows = {table: round(wanted.rows * share) for table, share in SHARES.items()}
        print(f"{wanted.rows:,} rows {rows}, {size / 1e9:.2f} GB", flush=True)
        with HistoryDatabase(folder, HistoryLimits("8GB", 600.0)) as database:
            for name in ("incidents", "evidence", "coverage", *VIEWS):
                elapsed, used, count = ask(database, f"SELECT * FROM {name}")
                print(f"  {name:20} {elapsed:6.2f} s elapsed, {used:6.2f} s of processors, {count} rows", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
