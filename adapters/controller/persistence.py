"""Writes the results of a tick to the store: in one transaction, or later while the disk is full.

A store that cannot be written must not stop the diagnosis: pending data is kept, retried each tick, and logged once.
State notifiers such as Alertmanager continue meanwhile; notifications of event notifiers wait.
"""

import itertools
import logging
import sqlite3
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skewscope.adapters.actions import ledger
from skewscope.adapters.actions.approval_links import ActionLink, no_link
from skewscope.adapters.actions.summary import add_link, describe_news
from skewscope.adapters.controller import audit
from skewscope.adapters.controller.store import IncidentEvent, Store
from skewscope.adapters.controller.store_place import StoreError
from skewscope.adapters.notify.base import IncidentUpdate
from skewscope.adapters.notify.outbox import ActionNews, Outbox, delete_notifications
from skewscope.engine.actions.action import Action
from skewscope.engine.engine import IncidentChange
from skewscope.engine.model.incident import Incident

MAX_WAITING = 100_000
"""Maximum pending changes, notifications and audit lines, of each; the oldest are dropped."""
MAX_UNWRITTEN = 10_000
"""Maximum incidents kept while the store cannot be written; the oldest are dropped."""

AuditEntry = tuple[float, str, str, Mapping[str, Any]]
"""An audit line: time, actor, action, data."""

log = logging.getLogger(__name__)


@dataclass
class StoreWriter:
    """Writes to a store, with pending data."""

    store: Store
    outbox: Outbox = field(default_factory=lambda: Outbox({}))
    trouble: str = ""
    """Why the store cannot be written; '' while it can."""
    updated_notifiers: frozenset[str] = frozenset()
    """Notifiers with notifications in the last write."""
    _changes: deque[IncidentChange] = field(default_factory=lambda: deque(maxlen=MAX_WAITING))
    _notifications: deque[tuple[float, str, IncidentUpdate]] = field(default_factory=lambda: deque(maxlen=MAX_WAITING))
    _audit_entries: deque[AuditEntry] = field(default_factory=lambda: deque(maxlen=MAX_WAITING))
    _deliveries: dict[str, int] = field(default_factory=dict)
    _unwritten: dict[str, Incident] = field(default_factory=dict)
    """The last known state of each incident, while the store cannot be written."""
    _notified_between_ticks: set[str] = field(default_factory=set)
    """Notifiers that were sent news of actions since the last tick."""

    def add_audit_entry(self, t: float, who: str, what: str, payload: Mapping[str, Any]) -> None:
        """Adds an audit line, at once if possible."""
        self._audit_entries.append((t, who, what, payload))
        self.write_tick(t, (), ())

    def queue_notifications(self, t: float, incidents: Iterable[Incident], hidden: Mapping[str, str]) -> None:
        """Queues the notifications of a tick for the next write."""
        self._notifications += (
            (t, notifier, payload) for notifier, payload in self.outbox.collect_updates(t, incidents, hidden)
        )

    def write_action(self, t: float, who: str, what: str, action: Action, link: ActionLink = no_link) -> None:
        """Writes an action, with notifications of its new state; `link` gives the reader of each where to decide.

        Raises:
            StoreError: it could not be written.
        """
        found: list[tuple[float, str, IncidentUpdate]] = []

        def write_news(connection: sqlite3.Connection) -> None:
            text = describe_news(action, *ledger.read_standing(connection, action.id))
            if text:
                news = ActionNews(action.id, action.reason.incident, text, not action.is_live)
                news_of = self.outbox.collect_action_news(connection, t, news)
                for at, name, update in news_of:
                    why = add_link(update.why, link(action, name))
                    found.append((at, name, update._replace(why=why)))
                self.outbox.write(connection, found)

        self.store.write_action(t, who, what, action, write_news)
        self._notified_between_ticks |= {notifier for _, notifier, _ in found}

    def write_tick(
        self, t: float, incidents: Iterable[Incident], changes: Sequence[IncidentChange]
    ) -> tuple[IncidentEvent, ...]:
        """Writes pending and new data; returns the numbered events, none if the write failed."""
        self._audit_entries += ((t, "controller", what, details) for what, details in self.store.take_notes())
        self._changes += changes
        found = {**self._unwritten, **{one.id: one for one in incidents}}
        self._deliveries |= self.outbox.take_deliveries()
        self.updated_notifiers = frozenset()
        more = self._notifications or self._audit_entries or self._deliveries
        try:
            events = self.store.write_tick(t, found.values(), self._changes, self._write_pending if more else None)
        except StoreError as error:
            self._set_trouble(str(error))
            self._keep(found)
            return ()
        self.updated_notifiers = frozenset(notifier for _, notifier, _ in self._notifications)
        self.updated_notifiers |= self._notified_between_ticks
        self._notified_between_ticks.clear()
        for each in (self._changes, self._notifications, self._audit_entries, self._deliveries, self._unwritten):
            each.clear()
        self._set_trouble("")
        return events

    def _keep(self, found: dict[str, Incident]) -> None:
        """Keeps incidents until they can be written: those resolved for long are no longer in a tick by then."""
        over = len(found) - MAX_UNWRITTEN
        self._unwritten = dict(itertools.islice(found.items(), over, None)) if over > 0 else found

    def _write_pending(self, connection: sqlite3.Connection) -> None:
        """Writes pending data in the open transaction."""
        for line in self._audit_entries:
            audit.append(connection, *line)
        self.outbox.write(connection, self._notifications)
        delete_notifications(connection, self._deliveries)

    def _set_trouble(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.error("%s; incidents and notifications are kept in memory meanwhile", trouble)
        elif self.trouble and not trouble:
            log.info("the store can be written again")
        self.trouble = trouble
