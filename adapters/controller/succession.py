"""A controller's part in who leads: how far it has told, what it hears of the other, and whether it judges."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from skewscope.adapters.clock import Clock
from skewscope.adapters.telling.office import Office

STILL = 10.0
"""Seconds without a tick after which a controller does not lead: nothing would be told."""


@dataclass(frozen=True)
class Succession:
    """One controller's part in it."""

    office: Office
    clock: Clock
    judged: Callable[[], float | None]
    """The time of the last tick; None before the first."""
    note: Callable[[bool], Awaitable[None]]

    @property
    def able(self) -> bool:
        """Whether it judges, second by second."""
        last = self.judged()
        return last is not None and self.clock.now() - last <= STILL

    def progress(self) -> str:
        """How far it has told, in a line."""
        return self.office.progress(self.clock.now())

    def hear(self, said: str) -> None:
        """Such a line of who leads, or led before."""
        self.office.handover.hear(self.clock.now(), said)

    async def changed(self, leads: bool) -> None:
        """Notes it."""
        await self.note(leads)
