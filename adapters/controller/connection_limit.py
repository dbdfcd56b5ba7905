"""Limits the number of connections by closing the longest idle one."""

from typing import Protocol


class AbortableConnection(Protocol):
    """A connection that can be closed at once."""

    def abort(self) -> None:
        """Closes the connection at once."""
        ...


class ConnectionLimit:
    """The open connections. Above the limit, the one that has been idle longest is closed."""

    def __init__(self, most: int) -> None:
        self._limit = most
        self._connections: set[AbortableConnection] = set()
        self._idle: dict[AbortableConnection, None] = {}
        """In the order in which they became idle."""

    def add(self, who: AbortableConnection) -> None:
        """Adds a connection, idle at first."""
        self._connections.add(who)
        self.mark_idle(who)
        while len(self._connections) > self._limit and self._idle:
            oldest = next(iter(self._idle))
            self.remove(oldest)
            oldest.abort()

    def mark_idle(self, who: AbortableConnection) -> None:
        """Marks a connection without a request as idle."""
        if who in self._connections:
            self._idle.pop(who, None)
            self._idle[who] = None

    def mark_busy(self, who: AbortableConnection) -> None:
        """Marks a connection with a request as busy."""
        self._idle.pop(who, None)

    def remove(self, who: AbortableConnection) -> None:
        """Removes a closed connection."""
        self._connections.discard(who)
        self._idle.pop(who, None)

    @property
    def idle_connections(self) -> tuple[AbortableConnection, ...]:
        """Idle connections, longest idle first."""
        return tuple(self._idle)
