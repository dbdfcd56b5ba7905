"""Interfaces of notifiers. A state notifier repeats the current state; an event notifier sends each event once.

A notifier knows nothing of the engine or of other notifiers. Errors that it raises are recorded and the call is
retried; they never reach the caller of the dispatcher.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from skewscope.engine.model.incident import SEVERITIES, Incident

OPENED, CHANGED, RESOLVED, WITHDRAWN, ACTED = "opened", "changed", "resolved", "withdrawn", "acted"
"""Kinds of update: opened; severity or place changed; resolved; withdrawn (still firing, but now explained by another
incident or silenced); acted (an action for it waits for a person, was begun, verified, undone or given up).
"""


class DeliveryError(Exception):
    """A notification could not be delivered."""

    def __init__(self, why: str, *, refused: bool = False, after: float = 0.0) -> None:
        self.refused = refused
        """Whether another attempt would be refused too."""
        self.after = after
        """Minimum seconds before the next attempt, as requested by the receiver."""
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class NotificationScope:
    """Filter of the incidents that a notifier sends."""

    min_severity: str = SEVERITIES[0]
    """The lowest severity."""
    roots_only: bool = True
    """Whether incidents explained by another one are omitted."""
    min_age: float = 0.0
    """Seconds an incident must have fired; one that is explained or resolved earlier is never sent."""
    symptoms: bool = True
    """Whether symptoms are sent too."""


class IncidentUpdate(NamedTuple):
    """A change of a reported incident."""

    what: str
    why: str
    """The reason for a withdrawal, or what an action has come to."""
    incident: Incident

    @property
    def ending(self) -> str:
        """Returns how a report ended: healed, gone, or withdrawn with the reason; '' of one that goes on."""
        if self.what == RESOLVED:
            return self.incident.ending
        return f"{WITHDRAWN}: {self.why}" if self.what == WITHDRAWN else ""


class Notification(NamedTuple):
    """One update for one notifier."""

    number: int
    """Of all updates of one controller; permanent. Another controller may have the same, and ends of what another
    controller reported have 0."""
    t: float
    """Time of the update, seconds since 1970."""
    update: IncidentUpdate
    actions: tuple[str, ...] = ()
    """What is being done and was done about the incident, a sentence each."""
    session: str = ""
    """Of two controllers: names the time since this one last heard of another leader. What was not confirmed before
    that is another event if it is sent later: the receiver must not drop it as a duplicate."""


class Notifier(Protocol):
    """What both kinds of notifier have in common."""

    @property
    def name(self) -> str:
        """Unique name, shown in statuses."""
        ...

    @property
    def scope(self) -> NotificationScope:
        """The incidents that it sends."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds that one call may take."""
        ...


class StateNotifier(Notifier, Protocol):
    """Sends the current state; only the newest state matters."""

    @property
    def period(self) -> float:
        """Seconds between two repetitions."""
        ...

    async def show(self, incidents: Sequence[Incident], ended: Sequence[IncidentUpdate], now: float) -> None:
        """Sends the firing incidents as the complete state.

        Args:
            incidents: those that fire.
            ended: what has resolved or was withdrawn since the last call, whether that was delivered or not.
            now: seconds since 1970.

        Raises:
            DeliveryError: the state could not be delivered.
        """
        ...


class EventNotifier(Notifier, Protocol):
    """Sends each update once."""

    async def send(self, notification: Notification) -> None:
        """Sends one notification; returns when the receiver has accepted it.

        Raises:
            DeliveryError: it could not be delivered.
        """
        ...


class NotifierSettings(Protocol):
    """Settings of one entry of the config."""

    @property
    def name(self) -> str:
        """Name of the entry."""
        ...

    @property
    def scope(self) -> NotificationScope:
        """The incidents that the entry selects."""
        ...


@runtime_checkable
class PicturedNotifier(Protocol):
    """A notifier whose readers are people: its texts have a picture of the members, and a link to acknowledge."""

    draw: Callable[[Incident], str]
    """Returns the picture as text, '' for none."""
    acknowledge_link: Callable[[Incident], str]
    """Returns where its reader acknowledges an incident, '' for nowhere."""


class ConfiguredNotifier:
    """The only notifier of its entry: it takes name and scope from the entry."""

    settings: NotifierSettings

    @property
    def name(self) -> str:
        """Name of the entry."""
        return self.settings.name

    @property
    def scope(self) -> NotificationScope:
        """The incidents that it sends."""
        return self.settings.scope
