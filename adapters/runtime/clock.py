"""The system clock behind a protocol; tests pass their own."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Returns the time and waits."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits for some seconds; returns at once for 0 or less."""
        ...


class SystemClock:
    """The clock of this host."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Waits for some seconds; returns at once for 0 or less."""
        await asyncio.sleep(max(seconds, 0.0))
