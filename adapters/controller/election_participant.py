"""A controller's part in leader election: its progress, the leader's progress, and whether it is able to lead."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from skewscope.adapters.notify.dispatcher import Dispatcher
from skewscope.adapters.runtime.clock import Clock

STALL_TIMEOUT = 10.0
"""Seconds without a tick after which a controller does not lead..."""
SLOW_TICKS = 2.0
"""...or this many times as long as its last tick took: where all controllers are slow, one of them still leads..."""
MAX_STALL_TIMEOUT = 300.0
"""...but no longer than so many seconds."""


@dataclass(frozen=True)
class ControllerParticipant:
    """One controller's part in leader election."""

    dispatcher: Dispatcher
    clock: Clock
    seconds_since_tick: Callable[[], float | None]
    """Seconds since the end of the last tick; None before the first."""
    tick_duration: Callable[[], float]
    """Seconds that the last tick took."""
    note_leadership: Callable[[bool], Awaitable[None]]

    @property
    def is_able(self) -> bool:
        """Returns whether ticks are advancing."""
        passed = self.seconds_since_tick()
        patience = min(max(STALL_TIMEOUT, SLOW_TICKS * self.tick_duration()), MAX_STALL_TIMEOUT)
        return passed is not None and passed <= patience

    def progress(self) -> str:
        """Returns its progress as one line."""
        return self.dispatcher.progress(self.clock.now())

    def receive_progress(self, text: str) -> None:
        """Parses the progress of the present or previous leader."""
        self.dispatcher.handover.receive_progress(self.clock.now(), text)

    def list_omissions(self) -> str:
        """Returns what the leader has not reported, as a text for it; '' for nothing."""
        return self.dispatcher.list_omissions()

    def receive_omissions(self, text: str) -> None:
        """Parses what a follower says that this controller, which leads, has not reported."""
        self.dispatcher.receive_omissions(text)

    async def on_leadership_change(self, leads: bool) -> None:
        """Records a change of leadership."""
        await self.note_leadership(leads)
