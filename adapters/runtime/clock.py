"""The system clock behind a protocol; tests pass their own."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Returns the time and waits."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        ...

    def uptime(self) -> float:
        """Seconds since some moment in the past; they go on while the machine sleeps, and nobody sets them."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits for some seconds; returns at once for 0 or less."""
        ...


def read_uptime() -> float:
    """Returns seconds that nobody sets; where the system has them, those in which the machine slept count too."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SystemClock:
    """The clock of this host."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return time.time()

    def uptime(self) -> float:
        """Seconds since the machine was started."""
        return read_uptime()

    async def sleep(self, seconds: float) -> None:
        """Waits for some seconds; returns at once for 0 or less."""
        await asyncio.sleep(max(seconds, 0.0))
