"""Durable data in SQLite: incidents with history, evidence and advice, and the audit log.

One thread writes, in one transaction per tick; others read through connections of their own. A crash loses at most the
unfinished transaction, about which nobody was notified.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from skewscope.adapters.controller import agent_registry, audit
from skewscope.adapters.controller.silences import Silence, from_row, to_row
from skewscope.adapters.notify import outbox
from skewscope.adapters.notify.base import Notification
from skewscope.engine.engine import IncidentChange
from skewscope.engine.model.incident import DIAGNOSIS, Incident, IncidentEvidence, parse_incident, upgrade_incident
from skewscope.kb.problems import InputError, Problem

BUSY_TIMEOUT = 5.0
"""Seconds to wait for another writing process."""
MAX_EVENTS = 1000
MAX_INCIDENTS = 10_000
SELECT_SILENCES = "SELECT id, match, starts, ends, owner, comment, ended FROM silences"

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE incidents (
            id TEXT PRIMARY KEY, state TEXT NOT NULL, condition TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
            opened_at REAL NOT NULL, resolved_at REAL, changed_at REAL NOT NULL, told TEXT NOT NULL) STRICT""",
        "CREATE INDEX incidents_by_state ON incidents (state, opened_at)",
        """CREATE TABLE history (
            number INTEGER PRIMARY KEY AUTOINCREMENT, incident TEXT NOT NULL, t REAL NOT NULL,
            what TEXT NOT NULL) STRICT""",
        "CREATE INDEX history_by_incident ON history (incident)",
        """CREATE TABLE evidence (
            incident TEXT NOT NULL, side TEXT NOT NULL, name TEXT NOT NULL, verdict TEXT NOT NULL,
            weight REAL NOT NULL, value REAL, unit TEXT NOT NULL, expr TEXT NOT NULL) STRICT""",
        "CREATE INDEX evidence_by_incident ON evidence (incident)",
        """CREATE TABLE advice (
            incident TEXT NOT NULL, mitigation TEXT NOT NULL, actor TEXT NOT NULL, why TEXT NOT NULL) STRICT""",
        "CREATE INDEX advice_by_incident ON advice (incident)",
        """CREATE TABLE audit (
            number INTEGER PRIMARY KEY, t REAL NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, told TEXT NOT NULL,
            previous TEXT NOT NULL, hash TEXT NOT NULL) STRICT""",
    ),
    (
        """CREATE TABLE silences (
            id TEXT PRIMARY KEY, match TEXT NOT NULL, starts REAL NOT NULL, ends REAL, owner TEXT NOT NULL,
            comment TEXT NOT NULL, ended TEXT NOT NULL) STRICT""",
        *outbox.TABLES,
    ),
    agent_registry.TABLES,
)
"""What each schema version adds to the previous one; existing entries never change."""


class StoreError(Exception):
    """The store cannot be written or read: the disk is full, or the file is damaged."""


class IncidentEvent(NamedTuple):
    """A numbered event of an incident."""

    number: int
    incident: str
    t: float
    what: str


@dataclass
class Store:
    """The database of one controller; for use by one thread."""

    path: Path
    _connection: sqlite3.Connection = field(init=False)
    _written_lines: dict[str, str] = field(default_factory=dict)
    """What was last written of each incident that may still change."""

    _file_id: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._connection = _open_database(self.path)
        _migrate(self._connection, self.path)
        self._file_id = _file_identity(self.path)

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yields a transaction: everything written within, or nothing.

        Raises:
            StoreError: it could not be written.
        """
        if _file_identity(self.path) != self._file_id:
            # SQLite would continue to write to the removed file.
            raise StoreError(f"the store {self.path} was removed; put it back, or restart to create a new one")
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"the store {self.path} cannot be written: {error}") from error
        finally:
            # Some failures end the transaction themselves; one left open would block all later ones.
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")

    def write_tick(
        self,
        t: float,
        incidents: Iterable[Incident],
        changes: Collection[IncidentChange],
        also: Callable[[sqlite3.Connection], None] | None = None,
    ) -> tuple[IncidentEvent, ...]:
        """Writes the changes of a tick and whatever `also` writes in one transaction; returns the numbered events.

        Raises:
            StoreError: it could not be written.
        """
        new = {one.id: (one, line) for one in incidents if self._written_lines.get(one.id) != (line := one.as_line())}
        if not new and not changes and also is None:
            return ()
        with self.transaction() as connection:
            for one, line in new.values():
                _write_incident(connection, t, one, line)
            events = tuple(_write_event(connection, change) for change in changes)
            for event in events:
                audit.append(connection, event.t, "engine", event.what, {"incident": event.incident})
            if also is not None:
                also(connection)
        self._written_lines |= {id_: line for id_, (_, line) in new.items()}
        return events

    def forget_before(self, before: float) -> None:
        """Stops comparing incidents resolved before a time: they no longer change."""
        old = self._connection.execute("SELECT id FROM incidents WHERE resolved_at < ?", (before,))
        for (id_,) in old:
            self._written_lines.pop(id_, None)

    def add_audit_entry(self, t: float, who: str, what: str, payload: Mapping[str, Any]) -> None:
        """Adds a line to the audit log."""
        with self.transaction() as connection:
            audit.append(connection, t, who, what, payload)

    def open_incidents(self) -> list[Incident]:
        """Returns the incidents that were firing when the last controller stopped.

        Raises:
            InputError: the store is damaged.
        """
        request = "SELECT id, told FROM incidents WHERE state = 'firing' ORDER BY opened_at, id"
        with self._report_damage():
            found = list(self._connection.execute(request))
            self._written_lines |= dict(found)
            return [parse_incident(json.loads(line)) for _, line in found]

    def silences(self) -> list[Silence]:
        """Returns the silences that were not ended explicitly.

        Raises:
            InputError: the store is damaged.
        """
        with self._report_damage():
            return [from_row(row) for row in self._connection.execute(f"{SELECT_SILENCES} WHERE ended = ''")]

    @contextmanager
    def _report_damage(self) -> Iterator[None]:
        """Turns errors of reading at the start into an InputError."""
        try:
            yield
        except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
            raise _store_problem(self.path, error) from None

    def write_silence(self, t: float, who: str, what: str, silence: Silence) -> None:
        """Writes a silence and the audit line of its change."""
        payload = silence.as_json(t)
        with self.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO silences VALUES (?, ?, ?, ?, ?, ?, ?)", to_row(silence))
            audit.append(connection, t, who, what, payload)

    def prune(self, before: float) -> None:
        """Deletes incidents resolved before a time; the audit log is kept."""
        old = "SELECT id FROM incidents WHERE state = 'resolved' AND resolved_at < ?"
        with self.transaction() as connection:
            for table in ("history", "evidence", "advice"):
                connection.execute(f"DELETE FROM {table} WHERE incident IN ({old})", (before,))  # noqa: S608
            connection.execute("DELETE FROM incidents WHERE state = 'resolved' AND resolved_at < ?", (before,))


@dataclass(frozen=True)
class StoreReader:
    """Read access to a store from any thread: one connection per query."""

    path: Path

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        """Yields a read-only connection."""
        with closing(_open_database(self.path, write=False)) as connection:
            yield connection

    def incident(self, id_: str) -> dict[str, Any] | None:
        """Returns the contract's object of an incident, with its history; None if there is none."""
        with self.connect() as connection:
            row = connection.execute("SELECT told FROM incidents WHERE id = ?", (id_,)).fetchone()
            if row is None:
                return None
            past = connection.execute("SELECT t, what FROM history WHERE incident = ? ORDER BY number", (id_,))
            return upgrade_incident(json.loads(row[0])) | {"history": [{"t": t, "what": what} for t, what in past]}

    def incidents(self, state: str = "", most: int = 1000, kind: str = "") -> list[dict[str, Any]]:
        """Returns the contract's objects, latest first."""
        # Objects before version 3 have no kind; all of them are diagnoses.
        tests = {"state = ?": state, f"coalesce(json_extract(told, '$.kind'), '{DIAGNOSIS}') = ?": kind}
        wanted = {test: value for test, value in tests.items() if value}
        where, values = (f"WHERE {' AND '.join(wanted)}" if wanted else ""), tuple(wanted.values())
        ordered = f"SELECT told FROM incidents {where} ORDER BY opened_at DESC, id LIMIT ?"  # noqa: S608
        with self.connect() as connection:
            return [upgrade_incident(json.loads(row[0])) for row in connection.execute(ordered, (*values, most))]

    def incidents_since(self, t: float, most: int = MAX_INCIDENTS) -> list[Incident]:
        """Returns the incidents that fired at any time since then, latest first."""
        query = "SELECT told FROM incidents WHERE coalesce(resolved_at, ?) >= ? ORDER BY opened_at DESC, id LIMIT ?"
        with self.connect() as connection:
            return [parse_incident(json.loads(row[0])) for row in connection.execute(query, (t, t, most))]

    def silences(self, most: int = 1000) -> list[Silence]:
        """Returns all silences, latest first."""
        with self.connect() as connection:
            rows = connection.execute(f"{SELECT_SILENCES} ORDER BY starts DESC, id LIMIT ?", (most,))
            return [from_row(row) for row in rows]

    def notifications(self, notifier: str, after: int, most: int) -> list[Notification]:
        """Returns the pending notifications of a notifier after a number, oldest first."""
        with self.connect() as connection:
            return outbox.load_notifications(connection, notifier, after, most)

    def events(self, after: int, most: int = MAX_EVENTS) -> list[IncidentEvent]:
        """Returns the events after an event, in order."""
        request = "SELECT number, incident, t, what FROM history WHERE number > ? ORDER BY number LIMIT ?"
        with self.connect() as connection:
            return [IncidentEvent(*row) for row in connection.execute(request, (after, most))]

    def last_event(self) -> int:
        """Returns the number of the newest event; 0 for none."""
        with self.connect() as connection:
            (number,) = connection.execute("SELECT coalesce(max(number), 0) FROM history").fetchone()
            return int(number)

    def verify_audit(self) -> tuple[int, str]:
        """Returns the number of lines of the audit log and the hash of the last one.

        Raises:
            InputError: a line was changed or removed.
        """
        try:
            with self.connect() as connection:
                return audit.verify_chain(connection, str(self.path))
        except sqlite3.Error as error:
            raise _store_problem(self.path, error) from None


def _open_database(path: Path, *, write: bool = True) -> sqlite3.Connection:
    if not write and not path.is_file():
        raise InputError([Problem(str(path), 0, "", "no such file", "the store of a controller")])
    try:
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
        if write:
            connection.execute("PRAGMA journal_mode = WAL")
            # A tick without news writes nothing, so waiting for the disk costs little.
            connection.execute("PRAGMA synchronous = FULL")
        else:
            connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise _store_problem(path, error) from None
    return connection


def _file_identity(path: Path) -> tuple[int, int]:
    """Returns device and inode of a file; an impossible pair if there is none."""
    try:
        found = path.stat()
    except OSError:
        return -1, -1
    return found.st_dev, found.st_ino


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            hint = "It was written by a newer Skewscope."
            expected = f"at most {len(MIGRATIONS)}"
            raise InputError([Problem(str(path), 0, "", f"version {version} of the schema", expected, hint)])
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            connection.execute("BEGIN IMMEDIATE")
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise _store_problem(path, error) from None


def _store_problem(path: Path, error: Exception) -> InputError:
    found, hint = (
        f"a file that is not a usable database ({error})",
        "Restore a copy of it, or move it away to start with an empty one.",
    )
    return InputError([Problem(str(path), 0, "", found, "an SQLite file of Skewscope, on a disk with room", hint)])


def _write_incident(connection: sqlite3.Connection, t: float, one: Incident, line: str) -> None:
    row = (one.id, one.state, one.condition, one.kind, one.name, one.opened_at, one.resolved_at, t, line)
    connection.execute("INSERT OR REPLACE INTO incidents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.execute("DELETE FROM evidence WHERE incident = ?", (one.id,))
    connection.execute("DELETE FROM advice WHERE incident = ?", (one.id,))
    sides = (("for", one.evidence), ("against", one.against))
    items = [_evidence_row(one.id, side, item) for side, found in sides for item in found]
    connection.executemany("INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?, ?)", items)
    advice = [(one.id, each.id, each.actor, each.why) for each in one.mitigations]
    connection.executemany("INSERT INTO advice VALUES (?, ?, ?, ?)", advice)


def _evidence_row(id_: str, side: str, item: IncidentEvidence) -> tuple[Any, ...]:
    return id_, side, item.name, item.verdict, item.weight, item.value, item.unit, item.expr


def _write_event(connection: sqlite3.Connection, change: IncidentChange) -> IncidentEvent:
    row = (change.id, change.t, change.what)
    cursor = connection.execute("INSERT INTO history (incident, t, what) VALUES (?, ?, ?)", row)
    assert cursor.lastrowid is not None
    return IncidentEvent(cursor.lastrowid, *row)
