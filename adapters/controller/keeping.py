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
from skewscope.adapters.controller.store import Event, Store, StoreError
from skewscope.adapters.telling.base import Told
from skewscope.adapters.telling.outbox import Outbox, delivered
from skewscope.engine.incident import Incident
from skewscope.engine.incidents import Change

MOST_WAITING = 100_000
"""Changes, letters and lines of the audit log that wait, of each; of more, the oldest go."""

Line = tuple[float, str, str, Mapping[str, Any]]
"""Of the audit log: when, who, what, and what belongs to it."""

log = logging.getLogger(__name__)


@dataclass
class Keeping:
    """The way into a store."""

    store: Store
    outbox: Outbox = field(default_factory=lambda: Outbox({}))
    trouble: str = ""
    """Why the store takes nothing; '' while it does."""
    mail: frozenset[str] = frozenset()
    """Tellers whose letters were written last."""
    _changes: deque[Change] = field(default_factory=lambda: deque(maxlen=MOST_WAITING))
    _letters: deque[tuple[float, str, Told]] = field(default_factory=lambda: deque(maxlen=MOST_WAITING))
    _lines: deque[Line] = field(default_factory=lambda: deque(maxlen=MOST_WAITING))
    _arrived: dict[str, int] = field(default_factory=dict)

    def note(self, t: float, who: str, what: str, told: Mapping[str, Any]) -> None:
        """Adds a line to the audit log, at once where that can be."""
        self._lines.append((t, who, what, told))
        self.keep(t, (), ())

    def tell(self, t: float, incidents: Iterable[Incident], hidden: Mapping[str, str]) -> None:
        """Writes letters of a tick, to be kept with it."""
        self._letters += ((t, teller, told) for teller, told in self.outbox.turn(t, incidents, hidden))

    def keep(self, t: float, incidents: Iterable[Incident], changes: Sequence[Change]) -> tuple[Event, ...]:
        """Writes all that waits and what is new; what happened, numbered, and nothing where it could not be written."""
        self._changes += changes
        self._arrived |= self.outbox.arrived()
        self.mail = frozenset()
        more = self._letters or self._lines or self._arrived
        try:
            events = self.store.keep(t, incidents, self._changes, self._rest if more else None)
        except StoreError as error:
            self._failed(str(error))
            return ()
        self.mail = frozenset(teller for _, teller, _ in self._letters)
        for each in (self._changes, self._letters, self._lines, self._arrived):
            each.clear()
        self._failed("")
        return events

    def _rest(self, connection: sqlite3.Connection) -> None:
        """What goes into the same transaction."""
        for line in self._lines:
            audit.append(connection, *line)
        self.outbox.write(connection, self._letters)
        delivered(connection, self._arrived)

    def _failed(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.error("%s; what is found meanwhile waits, and letters with it", trouble)
        elif self.trouble and not trouble:
            log.info("the store takes what is written again")
        self.trouble = trouble
