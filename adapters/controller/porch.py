"""Who is connected, and who goes where there is no room for one more."""

from typing import Protocol


class Guest(Protocol):
    """Somebody who is connected."""

    def abort(self) -> None:
        """Ends the connection at once."""
        ...


class Porch:
    """Who is connected. Where there are too many, the one goes of whom nothing has been under way for longest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._here: set[Guest] = set()
        self._resting: dict[Guest, None] = {}
        """In the order in which they began to rest."""

    def enter(self, who: Guest) -> None:
        """Somebody comes, and has not asked for anything yet."""
        self._here.add(who)
        self.rest(who)
        while len(self._here) > self._most and self._resting:
            oldest = next(iter(self._resting))
            self.leave(oldest)
            oldest.abort()

    def rest(self, who: Guest) -> None:
        """Nothing is under way of somebody."""
        if who in self._here:
            self._resting.pop(who, None)
            self._resting[who] = None

    def busy(self, who: Guest) -> None:
        """Somebody has asked for something."""
        self._resting.pop(who, None)

    def leave(self, who: Guest) -> None:
        """Somebody is gone."""
        self._here.discard(who)
        self._resting.pop(who, None)

    @property
    def resting(self) -> tuple[Guest, ...]:
        """Those of whom nothing is under way, the longest first."""
        return tuple(self._resting)
