"""What a tick found out, on its way into the store: written at once in one transaction, or kept while the disk is full.

A store that takes nothing must not end the diagnosing: whatever was to be written waits, is tried again each tick, and
the log says so once. What only shows what stands, such as Alertmanager, is told meanwhile; letters wait as well.
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
from skewscope.engine.incidents.lifecycle import IncidentChange
from skewscope.engine.model.incident import Incident

MAX_WAITING = 100_000
"""Changes, letters and lines of the audit log that wait, of each; of more, the oldest go."""

AuditEntry = tuple[float, str, str, Mapping[str, Any]]
"""Of the audit log: when, who, what, and what belongs to it."""

log = logging.getLogger(__name__)


@dataclass
class StoreWriter:
    """The way into a store."""

    store: Store
    outbox: Outbox = field(default_factory=lambda: Outbox({}))
    trouble: str = ""
    """Why the store takes nothing; '' while it does."""
    updated_notifiers: frozenset[str] = frozenset()
    """Tellers whose letters were written last."""
    _changes: deque[IncidentChange] = field(default_factory=lambda: deque(maxlen=MAX_WAITING))
    _notifications: deque[tuple[float, str, IncidentUpdate]] = field(default_factory=lambda: deque(maxlen=MAX_WAITING))
    _audit_entries: deque[AuditEntry] = field(default_factory=lambda: deque(maxlen=MAX_WAITING))
    _deliveries: dict[str, int] = field(default_factory=dict)

    def add_audit_entry(self, t: float, who: str, what: str, told: Mapping[str, Any]) -> None:
        """Adds a line to the audit log, at once where that can be."""
        self._audit_entries.append((t, who, what, told))
        self.write_tick(t, (), ())

    def queue_notifications(self, t: float, incidents: Iterable[Incident], hidden: Mapping[str, str]) -> None:
        """Writes letters of a tick, to be kept with it."""
        self._notifications += ((t, teller, told) for teller, told in self.outbox.collect_updates(t, incidents, hidden))

    def write_tick(
        self, t: float, incidents: Iterable[Incident], changes: Sequence[IncidentChange]
    ) -> tuple[IncidentEvent, ...]:
        """Writes all that waits and what is new; what happened, numbered, and nothing where it could not be written."""
        self._changes += changes
        self._deliveries |= self.outbox.take_deliveries()
        self.updated_notifiers = frozenset()
        more = self._notifications or self._audit_entries or self._deliveries
        try:
            events = self.store.write_tick(t, incidents, self._changes, self._write_pending if more else None)
        except StoreError as error:
            self._set_trouble(str(error))
            return ()
        self.updated_notifiers = frozenset(teller for _, teller, _ in self._notifications)
        for each in (self._changes, self._notifications, self._audit_entries, self._deliveries):
            each.clear()
        self._set_trouble("")
        return events

    def _write_pending(self, connection: sqlite3.Connection) -> None:
        """What goes into the same transaction."""
        for line in self._audit_entries:
            audit.append(connection, *line)
        self.outbox.write(connection, self._notifications)
        delete_notifications(connection, self._deliveries)

    def _set_trouble(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.error("%s; what is found meanwhile waits, and letters with it", trouble)
        elif self.trouble and not trouble:
            log.info("the store takes what is written again")
        self.trouble = trouble
