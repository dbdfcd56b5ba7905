"""What a teller is. Some show what stands, again and again; others pass on what happens, each thing once.

A teller knows nothing of the engine or of other tellers. What it raises is noted and tried again; it never gets back to
who told it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from skewscope.engine.model.incident import SEVERITIES, Incident

OPENED, CHANGED, RESOLVED, WITHDRAWN = "opened", "changed", "resolved", "withdrawn"
"""What can happen to what is told: it is new; its severity or its place is another; it is over; it goes on, but is told
no longer, for another one explains it or somebody silenced it."""


class DeliveryError(Exception):
    """Somebody who could not be told, and why."""

    def __init__(self, why: str, *, refused: bool = False, after: float = 0.0) -> None:
        self.refused = refused
        """Whether it would be refused again."""
        self.after = after
        """Seconds to wait at least, as the other side wishes."""
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class NotificationScope:
    """Which incidents somebody wants to be told."""

    min_severity: str = SEVERITIES[0]
    """The lowest severity."""
    roots_only: bool = True
    """Whether what another incident explains is left out."""
    min_age: float = 0.0
    """Seconds that an incident must have fired: what is explained or gone by then is never told."""


class IncidentUpdate(NamedTuple):
    """Something that happened to what is told."""

    what: str
    why: str
    """Where it is withdrawn."""
    incident: Incident


class Notification(NamedTuple):
    """One of these for one teller. Its number is its own for ever: who gets it twice can see that."""

    number: int
    t: float
    """When it happened, seconds since 1970."""
    update: IncidentUpdate


class Notifier(Protocol):
    """What both kinds have."""

    @property
    def name(self) -> str:
        """What it is called in states; no other has the same."""
        ...

    @property
    def scope(self) -> NotificationScope:
        """Which incidents it wants."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds that one call of it may take."""
        ...


class StateNotifier(Notifier, Protocol):
    """Shows what stands: only the newest counts."""

    @property
    def period(self) -> float:
        """Seconds after which it shows the same again."""
        ...

    async def show(self, incidents: Sequence[Incident], now: float) -> None:
        """Shows what fires, and nothing else.

        Raises:
            TellError: it could not.
        """
        ...


class EventNotifier(Notifier, Protocol):
    """Passes on what happens."""

    async def send(self, letter: Notification) -> None:
        """Sends one letter; comes back when the other side has it.

        Raises:
            TellError: it could not.
        """
        ...


class NotifierSettings(Protocol):
    """The settings of one entry of the config."""

    @property
    def name(self) -> str:
        """What the entry is called."""
        ...

    @property
    def scope(self) -> NotificationScope:
        """Which incidents it asks for."""
        ...


class ConfiguredNotifier:
    """The only teller of its entry: it is called as the entry is, and wants what that asks for."""

    settings: NotifierSettings

    @property
    def name(self) -> str:
        """What it is called."""
        return self.settings.name

    @property
    def scope(self) -> NotificationScope:
        """Which incidents it wants."""
        return self.settings.scope
