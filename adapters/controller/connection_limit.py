"""Limits the number of connections, and the memory that unfinished requests take, by closing the least needed ones."""

from typing import Protocol


class AbortableConnection(Protocol):
    """A connection that can be closed at once."""

    def abort(self) -> None:
        """Closes the connection at once."""
        ...


MAX_HEAD_BYTES = 32 << 20
"""Maximum bytes of all unfinished heads of requests: nobody has shown a token before the end of one."""


class ConnectionLimit:
    """The open connections.

    Above the limit, the one that has been idle longest is closed; where none is idle, the one that has waited longest
    for something to happen.
    """

    def __init__(self, most: int, reserve: int = 0) -> None:
        """Takes the limit, and how many more may be open while all are busy: for requests that are always answered."""
        self._limit = most
        self._reserve = reserve
        self._connections: set[AbortableConnection] = set()
        self._idle: dict[AbortableConnection, None] = {}
        """In the order in which they became idle."""
        self._waiting: dict[AbortableConnection, None] = {}
        """Those with a request that waits, in the order in which they began to."""
        self._heads: dict[AbortableConnection, int] = {}
        """Bytes of each unfinished head, the oldest first."""
        self._head_bytes = 0

    def add(self, who: AbortableConnection) -> None:
        """Adds a connection, idle at first."""
        self._connections.add(who)
        self.mark_idle(who)
        while len(self._connections) > self._limit and (least := self._find_least_needed(who)) is not None:
            self._close(least)

    def _find_least_needed(self, newest: AbortableConnection) -> AbortableConnection | None:
        """Returns the connection to close for the newest one, which may be that one; None if it may stay as well."""
        oldest = next(iter(self._idle), newest)
        if oldest is not newest:
            return oldest
        if self._waiting:
            return next(iter(self._waiting))
        return newest if len(self._connections) > self._limit + self._reserve else None

    def mark_idle(self, who: AbortableConnection) -> None:
        """Marks a connection without a request as idle."""
        if who in self._connections:
            self.mark_busy(who)
            self._idle[who] = None

    def mark_waiting(self, who: AbortableConnection) -> None:
        """Marks a connection whose request waits for something to happen, such as an order."""
        if who in self._connections:
            self.mark_busy(who)
            self._waiting[who] = None

    def mark_busy(self, who: AbortableConnection) -> None:
        """Marks a connection with a request as busy."""
        self._idle.pop(who, None)
        self._waiting.pop(who, None)

    def note_head(self, who: AbortableConnection, size: int) -> None:
        """Notes the bytes of a head that is not finished, 0 once it is; closes the oldest where all take too much."""
        size = size if who in self._connections else 0
        self._head_bytes += size - self._heads.get(who, 0)
        if size:
            self._heads[who] = size
        else:
            self._heads.pop(who, None)
        while self._head_bytes > MAX_HEAD_BYTES:
            self._close(next(iter(self._heads)))

    def remove(self, who: AbortableConnection) -> None:
        """Removes a closed connection."""
        self._connections.discard(who)
        self.mark_busy(who)
        self.note_head(who, 0)

    def _close(self, who: AbortableConnection) -> None:
        self.remove(who)
        who.abort()

    @property
    def idle_connections(self) -> tuple[AbortableConnection, ...]:
        """Idle connections, longest idle first."""
        return tuple(self._idle)
