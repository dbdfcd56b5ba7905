"""A clock that tests move."""

import asyncio
import heapq
import itertools
import time
from dataclasses import dataclass, field

from skewscope.adapters.runtime.blocking_calls import FILES, NAMES, STORE, WORK


@dataclass
class FakeClock:
    """Time stands until `pass_` moves it; who sleeps wakes in order."""

    t: float = 1000.0
    passed: float = 0.0
    """Seconds that `pass_` let pass, whatever `t` was set to."""
    _waiting: list[tuple[float, int, "asyncio.Future[None]"]] = field(default_factory=list)
    _count: itertools.count = field(default_factory=itertools.count)

    def now(self) -> float:
        return self.t

    def uptime(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self.t + max(seconds, 0.0), next(self._count), woken))
        await woken

    async def pass_(self, seconds: float) -> None:
        """So much later, with all that happens meanwhile."""
        end = self.t + seconds
        await settled()
        while self._waiting and self._waiting[0][0] <= end:
            at, _, woken = heapq.heappop(self._waiting)
            self._move_to(max(self.t, at))
            if not woken.done():
                woken.set_result(None)
            await settled()
        self._move_to(end)
        await settled()

    def _move_to(self, t: float) -> None:
        self.passed += t - self.t
        self.t = t


PATIENCE_S = 2.0
"""Seconds that calls in threads may take; longer ones hang on purpose."""


async def settled() -> None:
    """Lets everybody who can go on do so, calls in threads included."""
    begun = time.monotonic()
    while True:
        for _ in range(10):
            await asyncio.sleep(0)
        is_busy = any(calls.under_way for calls in (STORE, FILES, NAMES, WORK))
        if not is_busy or time.monotonic() - begun > PATIENCE_S:
            return
        await asyncio.sleep(0.001)
