"""Durable data in SQLite: incidents with history, evidence and advice, and the audit log.

One thread writes, in one transaction per tick; others read through connections of their own. A crash loses at most the
unfinished transaction, about which nobody was notified.
"""

import json
import logging
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from skewscope.adapters.actions import acting_rows, ledger
from skewscope.adapters.actions.approval_links import ActionLink, no_link
from skewscope.adapters.actions.summary import describe_actions
from skewscope.adapters.controller import agent_registry, audit
from skewscope.adapters.controller.audit_head import AuditHead, read_head, write_head
from skewscope.adapters.controller.incident_restore import Wait
from skewscope.adapters.controller.silences import Silence, from_row, to_row
from skewscope.adapters.controller.store_file import (
    copy_to_memory,
    describe_damage,
    is_unavailable,
    is_unfinished,
    may_come_back,
    open_for_reading,
    open_for_writing,
)
from skewscope.adapters.controller.store_place import StoreError, StorePlace
from skewscope.adapters.controller.store_schema import CATEGORY, MIGRATIONS, ROWS_AT_START
from skewscope.adapters.notify import outbox
from skewscope.adapters.notify.base import Notification
from skewscope.adapters.runtime.elapsed_time import ElapsedTime
from skewscope.engine.actions.action import Action
from skewscope.engine.actions.freeze import Freeze, parse_freeze
from skewscope.engine.engine import IncidentChange
from skewscope.engine.model.incident import MAX_HISTORY, Incident, IncidentEvidence, parse_incident, upgrade_incident
from skewscope.kb.problems import InputError

MAX_GAP = 86400.0
"""Seconds without a controller that count as time that passed; more may be a jump of the clock."""
MAX_STEP = 10.0
"""The same between two ticks of one."""
MAX_DESCRIBED = 20
"""Actions of one incident that a notification counts."""
MAX_EVENTS = 1000
MAX_INCIDENTS = 10_000
log = logging.getLogger(__name__)

PRUNED_AT_ONCE = 20
"""Incidents that are deleted in one transaction: some milliseconds."""
PRUNED_ROWS = (("history", "incident"), ("evidence", "incident"), ("advice", "incident"), ("incidents", "id"))
"""Tables, and their columns with the id of an incident."""
OUTLINE = "json_set(told, {})".format(
    ", ".join(f"'$.{name}', json('[]')" for name in ("evidence", "against", "unseen", "competing", "mitigations"))
)
"""An incident without what takes most of its room, in SQL."""
SELECT_HISTORY = """SELECT t, what FROM history WHERE incident = ? AND (
    number IN (SELECT number FROM history WHERE incident = ? ORDER BY number LIMIT ?)
    OR number IN (SELECT number FROM history WHERE incident = ? ORDER BY number DESC LIMIT ?)) ORDER BY number"""
"""The first and the latest events of an incident."""
SELECT_SILENCES = "SELECT id, match, starts, ends, owner, comment, ended FROM silences"


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
    _written: dict[str, Incident] = field(default_factory=dict)
    """The incidents that are as they were last written: their lines need not be compared."""
    _written_lines: dict[str, str] = field(default_factory=dict)
    """What was last written of each incident that may still change."""
    _resolved: dict[str, float] = field(default_factory=dict)
    """When those of them were resolved that are."""

    elapsed: ElapsedTime = field(init=False)
    """The time that passed since the store was created, by which resolved incidents age: the clock may be set."""
    recovered: bool = False
    """Whether the file was opened after the start: incidents may be open in it that nobody knows yet."""
    damage: str = ""
    """That it has damaged pages, or lost what it had, in a sentence; '' for neither."""
    notice: str = ""
    """That its file was written anew, in a sentence; '' where it never was."""
    restored: int = 0
    """How often its file was written anew because it was removed under this controller."""
    _notes: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    """What the audit log is to say of the store itself: what, and details."""
    _place: StorePlace = field(init=False)
    _head: AuditHead = audit.EMPTY_HEAD
    """The newest line of the audit log."""
    _offline: str = ""
    """Why the file cannot be opened, while another connection stands for it; '' when it is open."""
    _is_copy: bool = False
    """Whether that is a copy in memory, of what a start needs."""

    def __post_init__(self) -> None:
        self._place = StorePlace(self.path)
        try:
            self._open_first()
        except BaseException:
            self._place.release()
            raise
        self.elapsed = self._load_elapsed()

    def _open_first(self) -> None:
        try:
            self._connection = self._open_file()
        except sqlite3.Error as error:
            if not (is_unavailable(error) and may_come_back(self.path)):
                raise describe_damage(self.path, error) from None
            self._offline = f"the store {self.path} cannot be written: {error}"
            with self._report_damage():
                self._connection, self._is_copy = copy_to_memory(self.path, MIGRATIONS, ROWS_AT_START), True

    def _open_file(self) -> sqlite3.Connection:
        self._place.prepare()
        connection = open_for_writing(self.path, MIGRATIONS)
        self._place.settle()
        self._head = audit.find_head(connection)
        self._check_head(connection)
        return connection

    def _check_head(self, connection: sqlite3.Connection) -> None:
        """Compares the audit log with the head that was noted beside the store."""
        try:
            head = read_head(self.path)
            lost = audit.find_lost_lines(connection, head) if head is not None else ""
            details = {"head": head and head.number, "newest": self._head.number}
        except InputError as error:
            head, lost, details = None, f"the head cannot be read: {error}", {}
        if lost:
            self.damage = f"the store {self.path} lost data: {lost}"
            self._report(self.damage, "store had lost entries", details | {"lost": lost})
        elif head is None and self._head.number:
            self._notes.append(("head of the audit log was made", {"newest": self._head.number}))

    def _report(self, message: str, what: str, details: dict[str, object]) -> None:
        log.error("%s", message)
        self._notes.append((what, details))

    def take_notes(self) -> list[tuple[str, dict[str, object]]]:
        """Returns what the audit log is to say of the store itself, once: what, and details."""
        notes, self._notes = self._notes, []
        return notes

    def _reopen(self) -> None:
        """Opens the file that could not be opened; `_connection` stands for it until then.

        Raises:
            StoreError: it still cannot be opened.
        """
        try:
            connection = self._open_file()
        except (sqlite3.Error, InputError) as error:
            self._offline = f"the store {self.path} cannot be written: {error}"
            raise StoreError(self._offline) from None
        before, self._connection, self._offline = self._connection, connection, ""
        before.close()

    def ensure_in_place(self) -> None:
        """Sees to it that what is written next lies in the files that others find.

        A file that could not be opened is tried again. Where the file or its log was removed, the store is written
        anew: all of it is in the removed files, as long as they are open here.

        Raises:
            StoreError: it cannot be written.
        """
        why = self._offline
        if not why and (loss := self._place.find_loss()):
            why = f"the store {self.path} is not used any more by others: {loss}"
        if not why:
            return
        if not self._place.may_try():
            raise StoreError(why)
        if self._offline:
            self._reopen()
            self.recovered = self._is_copy
        else:
            self._write_anew(why, loss)

    def _write_anew(self, why: str, loss: str) -> None:
        try:
            self._place.write_anew(self._connection)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{why}; it cannot be written anew: {error}") from error
        self._offline, self._is_copy = f"{why}; it was written anew, and cannot be opened", False
        self.restored += 1
        self.notice = f"{why}; it was written anew, with all that it had"
        self._report(self.notice, "store was written anew", {"why": loss})
        self._reopen()

    @property
    def is_offline(self) -> bool:
        """Whether the file could not be written since the start."""
        return bool(self._offline)

    def close(self) -> None:
        """Closes the file."""
        self._place.close(self._connection)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yields a transaction: everything written within, or nothing.

        Raises:
            StoreError: it could not be written.
        """
        self.ensure_in_place()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection
            head = audit.find_head(self._connection)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"the store {self.path} cannot be written: {error}") from error
        finally:
            # Some failures end the transaction themselves; one left open would block all later ones.
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
        self._settle_commit(head)

    def _settle_commit(self, head: AuditHead) -> None:
        """Does what follows a commit: it counts, also where one of these fails, which the next one reports."""
        if head != self._head:
            self._head = head
            try:
                write_head(self.path, head)
            except OSError as error:
                log.warning("%s; until it can be written, lines that are cut off may pass unnoticed", error)
        with suppress(StoreError):
            self.ensure_in_place()

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
        made = [one for one in incidents if self._written.get(one.id) is not one]
        new = {one.id: (one, line) for one in made if self._written_lines.get(one.id) != (line := one.as_line())}
        if not new and not changes and also is None:
            self.ensure_in_place()
            self._written |= {one.id: one for one in made}
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
        self._written |= {one.id: one for one in made}
        self._written_lines |= {id_: line for id_, (_, line) in new.items()}
        self._resolved |= {id_: one.resolved_at for id_, (one, _) in new.items() if one.resolved_at is not None}
        return events

    def forget_before(self, before: float) -> None:
        """Stops comparing incidents resolved before a time: they no longer change."""
        for id_ in [id_ for id_, resolved_at in self._resolved.items() if resolved_at < before]:
            self._written_lines.pop(id_, None)
            self._written.pop(id_, None)
            del self._resolved[id_]

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

    def audit_lines(self, what: str, most: int) -> list[audit.AuditLine]:
        """Returns the newest lines of the audit log with a text in what was done or in its details.

        Raises:
            InputError: the store is damaged.
        """
        with self._report_damage():
            return audit.find_lines(self._connection, audit.AuditFilter(what=what), most)

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

    def shadow_runs(self) -> list[dict[str, Any]]:
        """Returns the summaries of shadow runs that are kept as evidence, oldest first.

        Raises:
            InputError: the store is damaged.
        """
        with self._report_damage():
            found = acting_rows.load_value(self._connection, acting_rows.SHADOW)
            return [{**one, "days": float(one["days"]), "targets": list(one["targets"])} for one in found or ()]

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
        """Deletes some incidents that were resolved so many seconds ago, by the time that passed, the oldest first.

        The audit log is kept. Call it often: a tick must not wait for all of them.
        """
        old = "SELECT id FROM incidents WHERE ended < ? ORDER BY ended LIMIT ?"
        ids = self._connection.execute(old, (self.elapsed.seconds - age, PRUNED_AT_ONCE)).fetchall()
        if not ids:
            return
        with self.transaction() as connection:
            for table, column in PRUNED_ROWS:
                connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", ids)  # noqa: S608


@dataclass(frozen=True)
class StoreReader:
    """Read access to a store from any thread: one connection per query."""

    path: Path
    is_pending: Callable[[], bool] = lambda: False
    """Whether the file may not be there yet, or not be complete, as its disk has no room: it reads as empty then."""
    link: ActionLink = no_link

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
            past = connection.execute(SELECT_HISTORY, (id_, id_, MAX_HISTORY // 2, id_, MAX_HISTORY // 2))
            return upgrade_incident(json.loads(row[0])) | {"history": [{"t": t, "what": what} for t, what in past]}

    def incidents(self, state: str = "", most: int = 1000, kind: str = "") -> list[dict[str, Any]]:
        """Returns the contract's objects, latest first."""
        tests = {"state = ?": state, f"{CATEGORY} = ?": kind}
        wanted = {test: value for test, value in tests.items() if value}
        where, values = (f"WHERE {' AND '.join(wanted)}" if wanted else ""), tuple(wanted.values())
        ordered = f"SELECT told FROM incidents {where} ORDER BY opened_at DESC, id LIMIT ?"  # noqa: S608
        with self.connect() as connection:
            return [upgrade_incident(json.loads(row[0])) for row in connection.execute(ordered, (*values, most))]

    def incidents_since(self, t: float, most: int = MAX_INCIDENTS) -> list[Incident]:
        """Returns the incidents that fired at any time since then, latest first."""
        return self._incidents_since(t, most, "told")

    def outlines_since(self, t: float, most: int = MAX_INCIDENTS) -> list[Incident]:
        """Returns the same without evidence and advice, which take most of the time to read."""
        return self._incidents_since(t, most, OUTLINE)

    def _incidents_since(self, t: float, most: int, content: str) -> list[Incident]:
        query = f"""SELECT {content} FROM incidents WHERE id IN (
            SELECT id FROM incidents WHERE resolved_at IS NULL OR resolved_at >= ?
            ORDER BY opened_at DESC, id LIMIT ?) ORDER BY opened_at DESC, id"""  # noqa: S608
        with self.connect() as connection:
            return [parse_incident(json.loads(row[0])) for row in connection.execute(query, (t, most))]

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

    def incidents_acted_upon(self, since: float) -> frozenset[str]:
        """Returns the incidents for which something was changed that was in place since a time."""
        with self.connect() as connection:
            return ledger.list_incidents_acted_upon(connection, since)

    def find_begin(self, otherwise: float) -> float:
        """Returns the time of the first line of the audit log, when the store began; another one for an empty store."""
        with self.connect() as connection:
            row = connection.execute("SELECT t FROM audit ORDER BY number LIMIT 1").fetchone()
            return otherwise if row is None else float(row[0])

    def action_outcomes(self) -> list[dict[str, Any]]:
        """Returns how often each mitigation helped here."""
        with self.connect() as connection:
            return ledger.count_outcomes(connection)

    def notifications(self, notifier: str, after: int, most: int) -> list[Notification]:
        """Returns the pending notifications of a notifier after a number, oldest first."""
        with self.connect() as connection:
            found = outbox.load_notifications(connection, notifier, after, most)
            return [one._replace(actions=self._describe_actions(connection, one, notifier)) for one in found]

    def _describe_actions(self, connection: sqlite3.Connection, one: Notification, notifier: str) -> tuple[str, ...]:
        """Returns what is being done and was done about an incident, as notifications say it."""
        incident = one.update.incident.id
        actions = ledger.find_actions_of(connection, incident, MAX_DESCRIBED)
        return describe_actions(actions, incident, lambda action: self.link(action, notifier))

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

    def audit_lines(self, wanted: audit.AuditFilter, most: int) -> list[audit.AuditLine]:
        """Returns the newest lines of the audit log that a filter admits, in its order.

        Raises:
            InputError: the file is no store, or is damaged.
        """
        try:
            with self.connect() as connection:
                return audit.find_lines(connection, wanted, most)
        except sqlite3.Error as error:
            raise describe_damage(self.path, error) from None

    def verify_audit(self) -> tuple[int, str]:
        """Returns the number of lines of the audit log and the hash of the last one.

        Raises:
            InputError: a line was changed or removed, or the newest ones are missing.
        """
        # Read first: the log may grow meanwhile, and the head with it.
        head = read_head(self.path)
        try:
            with self.connect() as connection:
                return audit.verify_chain(connection, str(self.path), head)
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
