"""A controller's part in who leads: how far it has told, what it hears of the other, and whether it judges."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from skewscope.adapters.notify.dispatcher import Dispatcher
from skewscope.adapters.runtime.clock import Clock

STALL_TIMEOUT = 10.0
"""Seconds without a tick after which a controller does not lead: nothing would be told."""


@dataclass(frozen=True)
class ControllerParticipant:
    """One controller's part in it."""

    dispatcher: Dispatcher
    clock: Clock
    last_tick_time: Callable[[], float | None]
    """The time of the last tick; None before the first."""
    note_leadership: Callable[[bool], Awaitable[None]]

    @property
    def is_able(self) -> bool:
        """Whether it judges, second by second."""
        last = self.last_tick_time()
        return last is not None and self.clock.now() - last <= STALL_TIMEOUT

    def progress(self) -> str:
        """How far it has told, in a line."""
        return self.dispatcher.progress(self.clock.now())

    def receive_progress(self, said: str) -> None:
        """Such a line of who leads, or led before."""
        self.dispatcher.handover.receive_progress(self.clock.now(), said)

    async def on_leadership_change(self, leads: bool) -> None:
        """Notes it."""
        await self.note_leadership(leads)
