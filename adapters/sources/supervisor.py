"""Keeps sources running: each in a task of its own, so that none can hurt another.

What ends or raises is started again, after a wait that doubles with each failure in a row. What hands over nothing for
several of its periods hangs, and is ended and started again as well.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import cast

from skewscope.adapters.clock import Clock
from skewscope.adapters.sources.base import Batch, Sink, Source, scrubbed
from skewscope.adapters.sources.pushed import Receiving
from skewscope.adapters.tasks import leave_if_cancelled, let_go

LEAST_WAIT, MOST_WAIT = 1.0, 60.0
"""Seconds before a source is started again."""
PATIENCE = 5.0
"""Periods without a batch after which a source hangs ..."""
LEAST_PATIENCE = 10.0
"""... and seconds that it has at least."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a source does."""

    name: str
    up: bool
    """Whether batches come."""
    since: float
    """When that began, seconds since 1970."""
    last: float | None
    """When the newest batch came; None where there was none."""
    values: int
    dropped: int
    restarts: int
    trouble: str
    """What was wrong last, without secrets; '' when nothing is."""


@dataclass
class Kept:
    """One source, its sink, and the task that it runs in."""

    source: Source
    sink: Sink
    clock: Clock
    task: "asyncio.Task[None] | None" = None
    begun: float = 0.0
    """When it was started last."""
    up: bool = False
    since: float = 0.0
    restarts: int = 0
    failures: int = 0
    """In a row."""
    trouble: str = ""
    resting: bool = False
    """Whether it waits to be started again."""

    def start(self) -> None:
        """Runs it in a task of its own."""
        self.since, self.resting = self.since or self.clock.now(), False
        self.task = asyncio.create_task(self._kept(), name=f"source {self.source.name}")

    async def _kept(self) -> None:
        while True:
            self.begun = self.clock.now()
            before = self.sink.values
            try:
                await self.source.run(self.sink)
                trouble = "it ended"
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a source does, only that source may end of it
                trouble = scrubbed(error) or type(error).__name__
            leave_if_cancelled()
            self.failures = 1 if self.sink.values > before else self.failures + 1
            self.restarts += 1
            self._tell(trouble)
            self.resting = True
            # After a day of failures the power itself would be too large for a number.
            await self.clock.sleep(min(LEAST_WAIT * 2.0 ** min(self.failures - 1, 10), MOST_WAIT))
            self.resting = False

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("source %s: %s", self.source.name, trouble)
        self.trouble = trouble
        self._stands(up=False)

    def _stands(self, *, up: bool) -> None:
        if up != self.up:
            self.up, self.since = up, self.clock.now()

    def look(self) -> None:
        """Notes whether batches come; starts a source that hangs anew."""
        now, period = self.clock.now(), self.source.period
        patience = max(PATIENCE * period, LEAST_PATIENCE)
        heard = max(self.sink.last or 0.0, self.begun)
        if self.sink.last is not None and now - self.sink.last <= patience and self.sink.last >= self.begun:
            self.trouble = self.sink.trouble
            self._stands(up=True)
        elif now - heard > patience:
            self._stands(up=False)
            self.trouble = self.sink.trouble or self.trouble
            if period and not self.resting:
                self._restart(f"no batch for {now - heard:.0f} s")

    def _restart(self, trouble: str) -> None:
        if self.task is not None:
            self.task.cancel()
        self.restarts += 1
        self.failures += 1
        self._tell(trouble)
        self.start()

    def standing(self) -> Standing:
        """How it does."""
        sink = self.sink
        return Standing(
            self.source.name, self.up, self.since, sink.last, sink.values, sink.dropped, self.restarts, self.trouble
        )


@dataclass
class Supervisor:
    """All sources of a controller."""

    clock: Clock
    _kept: dict[str, Kept] = field(default_factory=dict)

    def start(self, source: Source) -> None:
        """Starts a source that has a name of its own."""
        if source.name in self._kept:
            raise ValueError(f"two sources called {source.name!r}")
        kept = self._kept[source.name] = Kept(source, Sink(self.clock), self.clock)
        kept.start()

    async def stop(self, name: str) -> list[Batch]:
        """Ends a source; what it handed over and nobody took yet."""
        kept = self._kept.pop(name)
        if kept.task is not None:
            await let_go(kept.task)
        return kept.sink.take()

    async def close(self) -> dict[str, list[Batch]]:
        """Ends all of them; what is left of each."""
        return {name: await self.stop(name) for name in list(self._kept)}

    def look(self) -> None:
        """To be called now and then: notes who is silent."""
        for kept in self._kept.values():
            kept.look()

    def take(self) -> dict[str, list[Batch]]:
        """What each source handed over since the last time."""
        return {name: kept.sink.take() for name, kept in self._kept.items()}

    def receiving(self, path: str) -> Receiving | None:
        """The source that is pushed to at a path; None where there is none."""
        return next((one for one in self.receivers if one.path == path), None)

    @property
    def receivers(self) -> tuple[Receiving, ...]:
        """All sources that are pushed to."""
        found = (kept.source for kept in self._kept.values() if hasattr(kept.source, "take"))
        return tuple(cast("Receiving", one) for one in found)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all sources."""
        return tuple(self._kept)

    def standings(self) -> tuple[Standing, ...]:
        """How each of them does, by name."""
        return tuple(kept.standing() for _, kept in sorted(self._kept.items()))
