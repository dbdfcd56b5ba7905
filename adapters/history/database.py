"""Questions in SQL about a history folder, on a bounded DuckDB connection that can read only that folder."""

import importlib
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from skewscope.adapters.history.schema import SQL_TYPES, TABLES
from skewscope.adapters.history.views import VIEWS
from skewscope.kb.problems import InputError, Problem

MEMORY = "2GB"
SECONDS = 60.0
ROWS = 1000
EXPLAIN_PREFIX = re.compile(r"\s*EXPLAIN\s+(?:ANALYZE\s+|\([^()]*\)\s*)?", re.IGNORECASE)
"""What may stand before a SELECT. EXPLAIN ANALYZE carries out what it explains, whatever that is."""
HINT = "skewscope history views lists the tables and views."


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """What a question may take."""

    memory: str = MEMORY
    seconds: float = SECONDS
    rows: int = ROWS
    threads: int = 0
    """0: as many as there are cores."""


@dataclass(frozen=True, slots=True)
class HistoryAnswer:
    """The answer to a question."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool
    """Whether there are more rows than were asked for."""


class HistoryDatabase:
    """A read-only connection to a history folder. Use it as a context manager."""

    def __init__(self, folder: Path, limits: HistoryLimits | None = None) -> None:
        """Opens a folder.

        Raises:
            InputError: DuckDB is not installed, or the folder is no history.
        """
        self._limits = limits or HistoryLimits()
        self._duckdb = _import_duckdb()
        if not any((folder / table).is_dir() for table in TABLES):
            hint = "Write one: skewscope history export RECORDING --to FOLDER."
            raise InputError([Problem(str(folder), 0, "", "no history", "a folder with incidents, evidence ...", hint)])
        self._connection = self._duckdb.connect(":memory:")
        try:
            self._prepare(folder.resolve())
        except self._duckdb.Error as error:
            self._connection.close()
            text = " ".join(str(error).split())[:300]
            raise InputError([Problem(str(folder), 0, "", text, "tables that an export wrote")]) from None

    def _prepare(self, folder: Path) -> None:
        """Defines the views, and then gives up everything that reading them does not need."""
        run = self._connection.execute
        run(f"SET memory_limit = '{self._limits.memory}'")
        if self._limits.threads:
            run(f"SET threads = {self._limits.threads}")
        run("SET TimeZone = 'UTC'")
        run("SET preserve_insertion_order = false")
        run("SET temp_directory = ''")
        run("SET autoinstall_known_extensions = false")
        run("SET autoload_known_extensions = false")
        # Cached footers: a folder of thousands of files would be read anew for every question.
        run("SET parquet_metadata_cache = true")
        for table in TABLES:
            run(f"CREATE VIEW {table} AS {_table_sql(table, folder / table)}")
        for name, view in VIEWS.items():
            run(f"CREATE VIEW {name} AS {view.sql}")
        run(f"SET allowed_directories = [{_quoted(str(folder) + '/')}]")
        run("SET enable_external_access = false")
        run("SET lock_configuration = true")

    def ask(self, sql: str, values: Sequence[object] = ()) -> HistoryAnswer:
        """Answers one SELECT.

        Raises:
            InputError: it is no SELECT, is wrong, or takes more memory or time than it may.
        """
        try:
            self._check_statement(sql)
            timer = threading.Timer(self._limits.seconds, self._connection.interrupt)
            timer.daemon = True
            timer.start()
            try:
                # A SELECT may hold an INSERT, and may call functions that change something.
                self._connection.execute("BEGIN TRANSACTION READ ONLY")
                found = self._connection.execute(sql, list(values))
                columns = tuple(one[0] for one in found.description)
                rows = found.fetchmany(self._limits.rows + 1)
            finally:
                timer.cancel()
                self._connection.rollback()
        except self._duckdb.InterruptException:
            found, wanted = f"more than {self._limits.seconds:g} s", "an answer in less"
            raise InputError([Problem("SQL", 0, "", found, wanted, "--seconds allows more.")]) from None
        except self._duckdb.Error as error:
            text = " ".join(str(error).split())[:400]
            raise InputError([Problem("SQL", 0, "", text, "a question that can be answered", HINT)]) from None
        return HistoryAnswer(columns, tuple(rows[: self._limits.rows]), len(rows) > self._limits.rows)

    def _check_statement(self, sql: str) -> None:
        kinds = self._list_kinds(sql)
        if kinds == ["EXPLAIN"]:
            kinds = self._list_kinds(EXPLAIN_PREFIX.sub("", sql, count=1))
        if kinds != ["SELECT"]:
            found = f"{len(kinds)} statements" if len(kinds) != 1 else f"a statement of kind {kinds[0]}"
            raise InputError([Problem("SQL", 0, "", found, "one SELECT: a history is only read", HINT)])

    def _list_kinds(self, sql: str) -> list[str]:
        """Returns DuckDB's names of the kinds of some statements."""
        return [one.type.name for one in self._connection.extract_statements(sql)]

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _table_sql(table: str, folder: Path) -> str:
    """Returns a SELECT of a table's files, of no row where there is none."""
    columns = TABLES[table]
    if not any(folder.glob("*.parquet")):
        empty = ", ".join(f"NULL::{SQL_TYPES[kind]} AS {_name(column)}" for column, kind in columns.items())
        return f"SELECT {empty} WHERE false"
    chosen = ", ".join(map(_name, columns))
    return f"SELECT {chosen} FROM read_parquet({_quoted(f'{folder}/*.parquet')})"  # noqa: S608 - own names


def _name(column: str) -> str:
    """Returns a column's name as SQL takes it; `begin` and `end` are words of SQL."""
    return f'"{column}"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _import_duckdb() -> Any:
    """Returns the library.

    Raises:
        InputError: it is not installed.
    """
    try:
        return importlib.import_module("duckdb")
    except ImportError:
        hint = "Install it: pip install 'skewscope[history]'."
        raise InputError([Problem("history", 0, "", "no DuckDB in this environment", "the library", hint)]) from None
