"""The clock, which only the rim reads; tests bring their own."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Comes back after so many seconds; at once for none or fewer."""
        ...


class SystemClock:
    """The machine's own."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Comes back after so many seconds; at once for none or fewer."""
        await asyncio.sleep(max(seconds, 0.0))
