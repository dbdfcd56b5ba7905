"""Queue of notifications in the controller's store: notifications survive a crash until they are delivered.

The thread that owns the store writes them. What a notifier has reported is stored beside its notifications, in the same
transaction: after a restart the controller continues where it stopped, and repeats only notifications whose delivery it
could not confirm.
"""

import json
import sqlite3
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from skewscope.adapters.notify.base import (
    ACTED,
    OPENED,
    RESOLVED,
    WITHDRAWN,
    IncidentUpdate,
    Notification,
    NotificationScope,
)
from skewscope.adapters.notify.notifier_state import NotifierState
from skewscope.adapters.notify.open_reports import BelievedOpen
from skewscope.engine.model.incident import Incident, parse_incident

TABLES = (
    """CREATE TABLE letters (
        number INTEGER PRIMARY KEY AUTOINCREMENT, teller TEXT NOT NULL, t REAL NOT NULL, what TEXT NOT NULL,
        why TEXT NOT NULL, told TEXT NOT NULL) STRICT""",
    "CREATE INDEX letters_by_teller ON letters (teller, number)",
    "CREATE TABLE telling (teller TEXT NOT NULL, incident TEXT NOT NULL, PRIMARY KEY (teller, incident)) STRICT",
)
"""Part of the store's schema."""
ACTION_TABLES = (
    "CREATE TABLE acting (teller TEXT NOT NULL, action TEXT NOT NULL, PRIMARY KEY (teller, action)) STRICT",
)
"""Another part: which notifiers were sent news of an action. They get its end even if its incident is over by then."""
REOPEN_S = 20.0
"""Seconds for which an incident fires after another controller reported its end, before it is reported again: two
controllers may see an end some seconds apart."""
MAX_WAITING = 10_000
"""Notifications that wait per notifier; above that the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class ActionNews:
    """What an action has come to."""

    action: str
    """Its id."""
    incident: str
    text: str
    is_last: bool
    """Whether nothing more will follow."""


@dataclass
class Outbox:
    """Notifier states and queues of all event notifiers."""

    scopes: Mapping[str, NotificationScope]
    """The scope of each event notifier, by name."""
    deliveries: deque[tuple[str, int]] = field(default_factory=deque)
    """Notifier and the number up to which its notifications are delivered; appended by the dispatcher."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Notifications dropped because too many waited, by notifier."""
    _states: dict[str, NotifierState] = field(default_factory=dict)
    _closed_since: dict[tuple[str, str], float] = field(default_factory=dict)
    """Since when a receiver has believed an incident to be over that fires here, by notifier and id."""

    def restore(self, connection: sqlite3.Connection) -> None:
        """Restores the state of the last run; deletes rows of notifiers that no longer exist."""
        self._states = {name: NotifierState(scope) for name, scope in self.scopes.items()}
        asked = "SELECT teller, told FROM telling JOIN incidents ON incidents.id = telling.incident"
        for notifier, line in connection.execute(asked).fetchall():
            if notifier in self._states:
                one = parse_incident(json.loads(line))
                self._states[notifier].reported[one.id] = one
        task = json.dumps(list(self.scopes))
        for table in ("letters", "telling", "acting"):
            unknown = f"DELETE FROM {table} WHERE teller NOT IN (SELECT value FROM json_each(?))"  # noqa: S608
            connection.execute(unknown, (task,))

    def collect_updates(
        self, t: float, incidents: Iterable[Incident], silenced: Mapping[str, str]
    ) -> list[tuple[str, IncidentUpdate]]:
        """Returns the updates of a tick with their notifiers; to be written before the next tick."""
        there = tuple(incidents)
        return [(name, reported) for name, desk in self._states.items() for reported in desk.update(t, there, silenced)]

    def reopen(self, t: float, believed: Mapping[str, BelievedOpen], waiting: Collection[str]) -> None:
        """Lets incidents be reported again that fire here, and whose end another controller reported.

        That one may have seen a fault end and begin again where this one sees a single one.

        Args:
            t: time of the tick.
            believed: what receivers believe to be open, by notifier; without those of which that is not certain.
            waiting: ids of the incidents of an earlier run that wait for their data.
        """
        closed = {
            (name, id_): state
            for name, state in self._states.items()
            if name in believed
            for id_, one in state.reported.items()
            if id_ not in waiting and not believed[name].has(one)
        }
        self._closed_since = {key: self._closed_since.get(key, t) for key in closed}
        for name, id_ in [key for key, since in self._closed_since.items() if t - since >= REOPEN_S]:
            del closed[name, id_].reported[id_], self._closed_since[name, id_]

    def collect_action_news(
        self, connection: sqlite3.Connection, t: float, news: ActionNews
    ) -> list[tuple[float, str, IncidentUpdate]]:
        """Returns the notifications of an action's new state, for `write` in the same transaction.

        They go to the notifiers that have reported its incident as firing, and to those that were sent earlier news of
        the action.
        """
        earlier = connection.execute("SELECT teller FROM acting WHERE action = ?", (news.action,)).fetchall()
        names = {name for (name,) in earlier if name in self._states}
        names |= {name for name, state in self._states.items() if news.incident in state.reported}
        row = connection.execute("SELECT told FROM incidents WHERE id = ?", (news.incident,)).fetchone()
        if row is None or not names:
            return []
        if news.is_last:
            connection.execute("DELETE FROM acting WHERE action = ?", (news.action,))
        else:
            rows = [(name, news.action) for name in sorted(names)]
            connection.executemany("INSERT OR IGNORE INTO acting VALUES (?, ?)", rows)
        update = IncidentUpdate(ACTED, news.text, parse_incident(json.loads(row[0])))
        return [(t, name, update) for name in sorted(names)]

    def take_deliveries(self) -> dict[str, int]:
        """Returns the deliveries since the last call: for each notifier, up to which number."""
        found: dict[str, int] = {}
        while self.deliveries:
            notifier, number = self.deliveries.popleft()
            found[notifier] = number
        return found

    def write(self, connection: sqlite3.Connection, found: Collection[tuple[float, str, IncidentUpdate]]) -> None:
        """Inserts notifications, each with time and notifier, in the open transaction."""
        # Several notifiers share an incident; `found` keeps it alive, so that its id() stays unique.
        incidents = {id(reported.incident): reported.incident for _, _, reported in found}
        written = {address: one.as_line() for address, one in incidents.items()}
        for t, notifier, reported in found:
            row = (notifier, t, reported.what, reported.why, written[id(reported.incident)])
            connection.execute("INSERT INTO letters (teller, t, what, why, told) VALUES (?, ?, ?, ?, ?)", row)
            if reported.what == OPENED:
                connection.execute("INSERT OR REPLACE INTO telling VALUES (?, ?)", (notifier, reported.incident.id))
            elif reported.what in (RESOLVED, WITHDRAWN):
                gone = (notifier, reported.incident.id)
                connection.execute("DELETE FROM telling WHERE teller = ? AND incident = ?", gone)
        for notifier in {notifier for _, notifier, _ in found}:
            self._drop_oldest(connection, notifier)

    def _drop_oldest(self, connection: sqlite3.Connection, notifier: str) -> None:
        count = connection.execute("SELECT count(*) FROM letters WHERE teller = ?", (notifier,))
        if (more := count.fetchone()[0] - MAX_WAITING) > 0:
            oldest = "SELECT number FROM letters WHERE teller = ? ORDER BY number LIMIT ?"
            connection.execute(f"DELETE FROM letters WHERE number IN ({oldest})", (notifier, more))  # noqa: S608
            self.dropped[notifier] = self.dropped.get(notifier, 0) + more


def delete_notifications(connection: sqlite3.Connection, until: Mapping[str, int]) -> None:
    """Deletes the notifications of each notifier up to a number."""
    connection.executemany("DELETE FROM letters WHERE teller = ? AND number <= ?", until.items())


def load_notifications(connection: sqlite3.Connection, notifier: str, after: int, most: int) -> list[Notification]:
    """Returns the oldest notifications of a notifier after a number."""
    asked = "SELECT number, t, what, why, told FROM letters WHERE teller = ? AND number > ? ORDER BY number LIMIT ?"
    rows = connection.execute(asked, (notifier, after, most))
    return [
        Notification(number, t, IncidentUpdate(what, why, parse_incident(json.loads(line))))
        for number, t, what, why, line in rows
    ]
