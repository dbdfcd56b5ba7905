"""Durable data in SQLite: incidents with history, evidence and advice, and the audit log.

One thread writes, in one transaction per tick; others read through connections of their own. A crash loses at most the
unfinished transaction, about which nobody was notified.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from skewscope.adapters.actions import acting_rows, ledger
from skewscope.adapters.actions.summary import describe_actions
from skewscope.adapters.controller import agent_registry, audit
from skewscope.adapters.controller.incident_restore import Wait
from skewscope.adapters.controller.silences import Silence, from_row, to_row
from skewscope.adapters.controller.store_file import (
    copy_to_memory,
    describe_damage,
    file_identity,
    is_unavailable,
    is_unfinished,
    may_come_back,
    open_for_reading,
    open_for_writing,
)
from skewscope.adapters.notify import outbox
from skewscope.adapters.notify.base import Notification
from skewscope.adapters.runtime.elapsed_time import ElapsedTime
from skewscope.engine.actions.action import Action
from skewscope.engine.actions.freeze import Freeze, parse_freeze
from skewscope.engine.engine import IncidentChange
from skewscope.engine.model.incident import DIAGNOSIS, Incident, IncidentEvidence, parse_incident, upgrade_incident
from skewscope.kb.problems import InputError

REOPEN_PERIOD = 5.0
"""Seconds between two attempts to open a file that could not be written at the start."""
MAX_GAP = 86400.0
"""Seconds without a controller that count as time that passed; more may be a jump of the clock."""
MAX_STEP = 10.0
"""The same between two ticks of one."""
MAX_DESCRIBED = 20
"""Actions of one incident that a notification counts."""
MAX_EVENTS = 1000
MAX_ACTIONS_AT_START = 10_000
"""Latest actions that a controller reads where it cannot write; those that may still change something are of today."""
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
    ledger.TABLES,
    outbox.ACTION_TABLES,
    (
        # Where the time that passed was not kept, it begins with this version.
        "ALTER TABLE incidents ADD COLUMN ended REAL",
        "UPDATE incidents SET ended = 0.0 WHERE state = 'resolved'",
        "CREATE TABLE elapsed (number INTEGER PRIMARY KEY, at REAL NOT NULL, seconds REAL NOT NULL) STRICT",
        "CREATE TABLE waits (incident TEXT PRIMARY KEY, unseen REAL NOT NULL, waited REAL NOT NULL) STRICT",
    ),
    agent_registry.MORE_COLUMNS,
    acting_rows.TABLES,
)
"""What each schema version adds to the previous one; existing entries never change."""


ROWS_AT_START = (
    ("incidents", (), "SELECT * FROM incidents WHERE state = 'firing'"),
    # A notifier may have to be told the end of one that is over.
    ("incidents", ("telling",), "SELECT * FROM incidents WHERE id IN (SELECT incident FROM telling)"),
    ("silences", (), "SELECT * FROM silences WHERE ended = ''"),
    *(
        (table, (), f"SELECT * FROM {table}")  # noqa: S608
        for table in ("telling", "acting", "agents", "waits", "elapsed", "acting_values")
    ),
    ("actions", (), f"SELECT * FROM actions ORDER BY created DESC LIMIT {MAX_ACTIONS_AT_START}"),  # noqa: S608
)
"""What a controller reads of its store when it starts: that is all it needs where it cannot write."""


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

    elapsed: ElapsedTime = field(init=False)
    """The time that passed since the store was created, by which resolved incidents age: the clock may be set."""
    recovered: bool = False
    """Whether the file was opened after the start: incidents may be open in it that nobody knows yet."""
    _file_id: tuple[int, int] = (-1, -1)
    _offline: str = ""
    """Why the file cannot be written since the start, while a copy in memory stands for it; '' when it is open."""
    _next_attempt: float = 0.0

    def __post_init__(self) -> None:
        try:
            self._connection = self._open_file()
        except sqlite3.Error as error:
            if not (is_unavailable(error) and may_come_back(self.path)):
                raise describe_damage(self.path, error) from None
            self._offline = f"the store {self.path} cannot be written: {error}"
            with self._report_damage():
                self._connection = copy_to_memory(self.path, MIGRATIONS, ROWS_AT_START)
        self.elapsed = self._load_elapsed()

    def _open_file(self) -> sqlite3.Connection:
        connection = open_for_writing(self.path, MIGRATIONS)
        self._file_id = file_identity(self.path)
        return connection

    def _reopen(self) -> None:
        """Opens the file that could not be written at the start.

        Raises:
            StoreError: it still cannot be written.
        """
        now = time.monotonic()
        if now < self._next_attempt:
            raise StoreError(self._offline)
        self._next_attempt = now + REOPEN_PERIOD
        try:
            connection = self._open_file()
        except (sqlite3.Error, InputError):
            raise StoreError(self._offline) from None
        self._connection.close()
        self._connection, self._offline, self.recovered = connection, "", True

    @property
    def is_offline(self) -> bool:
        """Whether the file could not be written since the start."""
        return bool(self._offline)

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yields a transaction: everything written within, or nothing.

        Raises:
            StoreError: it could not be written.
        """
        if self._offline:
            self._reopen()
        if file_identity(self.path) != self._file_id:
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
                if one.state == "resolved":
                    # It ages from when it was first written so.
                    ended = "UPDATE incidents SET ended = ? WHERE id = ?"
                    connection.execute(ended, (self.elapsed.seconds, one.id))
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
            raise describe_damage(self.path, error) from None

    def write_silence(self, t: float, who: str, what: str, silence: Silence) -> None:
        """Writes a silence and the audit line of its change."""
        payload = silence.as_json(t)
        with self.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO silences VALUES (?, ?, ?, ?, ?, ?, ?)", to_row(silence))
            audit.append(connection, t, who, what, payload)

    def actions(self, since: float, incidents: Collection[str] = ()) -> list[Action]:
        """Returns the actions that are live, those that ended since a time, and those for some incidents.

        Raises:
            InputError: the store is damaged.
        """
        with self._report_damage():
            return ledger.load_actions(self._connection, since, incidents)

    def write_action(
        self,
        t: float,
        who: str,
        what: str,
        action: Action,
        also: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        """Writes an action, the audit line of its change and whatever `also` writes in one transaction.

        Raises:
            StoreError: it could not be written.
        """
        details = {"action": action.id, "state": action.state, "incident": action.reason.incident}
        with self.transaction() as connection:
            if also is not None:
                also(connection)
            ledger.save_action(connection, action)
            audit.append(connection, t, who, what, details)

    def write_acting_value(self, t: float, who: str, what: str, value: tuple[str, Any]) -> None:
        """Writes a named value of acting, None to remove it, and the audit line of its change.

        Raises:
            StoreError: it could not be written.
        """
        name, content = value
        with self.transaction() as connection:
            acting_rows.save_value(connection, name, content)
            audit.append(connection, t, who, what, {name: content})

    def freeze(self) -> Freeze | None:
        """Returns the freeze of all actions; None for none.

        Raises:
            InputError: the store is damaged.
        """
        with self._report_damage():
            found = acting_rows.load_value(self._connection, acting_rows.FREEZE)
            return None if found is None else parse_freeze(found)

    def _load_elapsed(self) -> ElapsedTime:
        with self._report_damage():
            row = self._connection.execute("SELECT seconds, at FROM elapsed").fetchone()
            seconds, at = row or (0.0, None)
            return ElapsedTime(MAX_STEP, seconds, at, MAX_GAP)

    def agents(self) -> list[agent_registry.AgentRecord]:
        """Returns the agents of the last run.

        Raises:
            InputError: the store is damaged.
        """
        with self._report_damage():
            return agent_registry.load_agents(self._connection)

    def restore_outbox(self, pending: outbox.Outbox) -> None:
        """Takes over what was told and what waits, as far as it can be read where it cannot be written.

        Raises:
            StoreError: it could not be written.
        """
        try:
            with self.transaction() as connection:
                pending.restore(connection)
        except StoreError:
            if self._offline:
                pending.restore(self._connection)
            raise

    def waits(self) -> dict[str, Wait]:
        """Returns how long open incidents had waited to be seen again when the last controller stopped.

        Raises:
            InputError: the store is damaged.
        """
        with self._report_damage():
            found = self._connection.execute("SELECT incident, unseen, waited FROM waits")
            return {id_: Wait(unseen, waited) for id_, unseen, waited in found}

    def save_progress(self, waits: Mapping[str, Wait]) -> None:
        """Writes the time that passed, and how long open incidents have waited to be seen again.

        Raises:
            StoreError: it could not be written.
        """
        with self.transaction() as connection:
            row = (self.elapsed.at or 0.0, self.elapsed.seconds)
            connection.execute("INSERT OR REPLACE INTO elapsed VALUES (1, ?, ?)", row)
            connection.execute("DELETE FROM waits")
            connection.executemany("INSERT INTO waits VALUES (?, ?, ?)", [(id_, *wait) for id_, wait in waits.items()])

    def prune(self, age: float) -> None:
        """Deletes incidents that were resolved some seconds ago, by the time that passed; the audit log is kept."""
        before = self.elapsed.seconds - age
        old = "SELECT id FROM incidents WHERE state = 'resolved' AND ended < ?"
        with self.transaction() as connection:
            for table in ("history", "evidence", "advice"):
                connection.execute(f"DELETE FROM {table} WHERE incident IN ({old})", (before,))  # noqa: S608
            connection.execute("DELETE FROM incidents WHERE state = 'resolved' AND ended < ?", (before,))


@dataclass(frozen=True)
class StoreReader:
    """Read access to a store from any thread: one connection per query."""

    path: Path
    is_pending: Callable[[], bool] = lambda: False
    """Whether the file may not be there yet, or not be complete, as its disk has no room: it reads as empty then."""

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        """Yields a read-only connection."""
        with closing(self._open()) as connection:
            yield connection

    def _open(self) -> sqlite3.Connection:
        if self.is_pending() and is_unfinished(self.path, MIGRATIONS):
            return copy_to_memory(self.path, MIGRATIONS, ROWS_AT_START)
        return open_for_reading(self.path)

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

    def actions(self, most: int = 1000) -> list[dict[str, Any]]:
        """Returns actions as JSON values, latest first."""
        with self.connect() as connection:
            return ledger.list_actions(connection, most)

    def action(self, id_: str) -> dict[str, Any] | None:
        """Returns one action as JSON values; None if there is none."""
        with self.connect() as connection:
            return ledger.find_action(connection, id_)

    def action_outcomes(self) -> list[dict[str, Any]]:
        """Returns how often each mitigation helped here."""
        with self.connect() as connection:
            return ledger.count_outcomes(connection)

    def notifications(self, notifier: str, after: int, most: int) -> list[Notification]:
        """Returns the pending notifications of a notifier after a number, oldest first."""
        with self.connect() as connection:
            found = outbox.load_notifications(connection, notifier, after, most)
            return [one._replace(actions=_describe_actions(connection, one.update.incident.id)) for one in found]

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
            raise describe_damage(self.path, error) from None


def _write_incident(connection: sqlite3.Connection, t: float, one: Incident, line: str) -> None:
    row = (one.id, one.state, one.condition, one.kind, one.name, one.opened_at, one.resolved_at, t, line)
    connection.execute("INSERT OR REPLACE INTO incidents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)", row)
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


def _describe_actions(connection: sqlite3.Connection, incident: str) -> tuple[str, ...]:
    """Returns what is being done and was done about an incident, as notifications say it."""
    return describe_actions(ledger.find_actions_of(connection, incident, MAX_DESCRIBED), incident)
