"""Writes the results of a tick to the store: in one transaction, or later while the disk is full.

A store that cannot be written must not stop the diagnosis: pending data is kept, retried each tick, and logged once.
State notifiers such as Alertmanager continue meanwhile; notifications of event notifiers wait.
"""

import logging
import sqlite3
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skewscope.adapters.controller import audit
from skewscope.adapters.controller.store import IncidentEvent, Store, StoreError
from skewscope.adapters.notify.base import IncidentUpdate
from skewscope.adapters.notify.outbox import Outbox, delete_notifications
from skewscope.engine.engine import IncidentChange
from skewscope.engine.model.incident import Incident

MAX_WAITING = 100_000
"""Maximum pending changes, notifications and audit lines, of each; the oldest are dropped."""

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

    def add_audit_entry(self, t: float, who: str, what: str, payload: Mapping[str, Any]) -> None:
        """Adds an audit line, at once if possible."""
        self._audit_entries.append((t, who, what, payload))
        self.write_tick(t, (), ())

    def queue_notifications(self, t: float, incidents: Iterable[Incident], hidden: Mapping[str, str]) -> None:
        """Queues the notifications of a tick for the next write."""
        self._notifications += (
            (t, notifier, payload) for notifier, payload in self.outbox.collect_updates(t, incidents, hidden)
        )

    def write_tick(
        self, t: float, incidents: Iterable[Incident], changes: Sequence[IncidentChange]
    ) -> tuple[IncidentEvent, ...]:
        """Writes pending and new data; returns the numbered events, none if the write failed."""
        self._changes += changes
        self._deliveries |= self.outbox.take_deliveries()
        self.updated_notifiers = frozenset()
        more = self._notifications or self._audit_entries or self._deliveries
        try:
            events = self.store.write_tick(t, incidents, self._changes, self._write_pending if more else None)
        except StoreError as error:
            self._set_trouble(str(error))
            return ()
        self.updated_notifiers = frozenset(notifier for _, notifier, _ in self._notifications)
        for each in (self._changes, self._notifications, self._audit_entries, self._deliveries):
            each.clear()
        self._set_trouble("")
        return events

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
