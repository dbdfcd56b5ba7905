"""Who is connected, and who goes where there is no room for one more."""

from typing import Protocol


class AbortableConnection(Protocol):
    """Somebody who is connected."""

    def abort(self) -> None:
        """Ends the connection at once."""
        ...


class ConnectionLimit:
    """Who is connected. Where there are too many, the one goes of whom nothing has been under way for longest."""

    def __init__(self, most: int) -> None:
        self._limit = most
        self._connections: set[AbortableConnection] = set()
        self._idle: dict[AbortableConnection, None] = {}
        """In the order in which they began to rest."""

    def add(self, who: AbortableConnection) -> None:
        """Somebody comes, and has not asked for anything yet."""
        self._connections.add(who)
        self.mark_idle(who)
        while len(self._connections) > self._limit and self._idle:
            oldest = next(iter(self._idle))
            self.remove(oldest)
            oldest.abort()

    def mark_idle(self, who: AbortableConnection) -> None:
        """Nothing is under way of somebody."""
        if who in self._connections:
            self._idle.pop(who, None)
            self._idle[who] = None

    def mark_busy(self, who: AbortableConnection) -> None:
        """Somebody has asked for something."""
        self._idle.pop(who, None)

    def remove(self, who: AbortableConnection) -> None:
        """Somebody is gone."""
        self._connections.discard(who)
        self._idle.pop(who, None)

    @property
    def idle_connections(self) -> tuple[AbortableConnection, ...]:
        """Those of whom nothing is under way, the longest first."""
        return tuple(self._idle)
