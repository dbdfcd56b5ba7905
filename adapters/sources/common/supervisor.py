"""Runs sources: each in a task of its own, so that failures stay isolated.

A source that ends or raises is restarted after a backoff that doubles with each consecutive failure. A source without a
batch for several periods is considered hung, and restarted.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from skewscope.adapters.runtime.clock import Clock
from skewscope.adapters.runtime.tasks import cancel_and_wait, check_cancellation, start_service
from skewscope.adapters.sources.common.base import BatchSink, SourceBatch, TelemetrySource, redact_message
from skewscope.adapters.sources.common.push_receiver import PushReceiver

MIN_BACKOFF, MAX_BACKOFF = 1.0, 60.0
"""Backoff in seconds."""
HANG_PERIODS = 5.0
"""Periods without a batch after which a source is considered hung."""
MIN_HANG_SECONDS = 10.0
"""Minimum seconds before that."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """Status of one source."""

    name: str
    up: bool
    """Whether batches arrive."""
    since: float
    """Start of that state, seconds since 1970."""
    last: float | None
    """Time of the newest batch; None for none."""
    values: int
    dropped: int
    restarts: int
    trouble: str
    """The last error, without secrets; '' for none."""
    unmapped: Mapping[str, int] = field(default_factory=dict)
    """Number of series that are not used, by reason: they have no place in the topology or the catalogue, or several
    engines claim their replica."""
    refusals: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Number of series that their sender must not report, by sender, then by reason."""


@dataclass
class SupervisedSource:
    """One source, its sink and its task."""

    source: TelemetrySource
    sink: BatchSink
    clock: Clock
    task: "asyncio.Task[None] | None" = None
    started_at: float = 0.0
    """Last start, by the clock that nobody sets."""
    up: bool = False
    since: float = 0.0
    restarts: int = 0
    failures: int = 0
    """Consecutive failures."""
    trouble: str = ""
    is_backing_off: bool = False
    """Whether it waits to be restarted."""

    def start(self) -> None:
        """Starts its task."""
        self.since, self.is_backing_off = self.since or self.clock.now(), False
        self.task = start_service(f"source {self.source.name}", self._supervise, self.clock.sleep)

    async def _supervise(self) -> None:
        while True:
            self.started_at = self.clock.uptime()
            before = self.sink.values
            try:
                await self.source.run(self.sink)
                trouble = "it ended"
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a source does, only that source may end of it
                trouble = redact_message(error) or type(error).__name__
            check_cancellation()
            self.failures = 1 if self.sink.values > before else self.failures + 1
            self.restarts += 1
            self._report(trouble)
            self.is_backing_off = True
            # After a day of failures the unbounded power would overflow.
            await self.clock.sleep(min(MIN_BACKOFF * 2.0 ** min(self.failures - 1, 10), MAX_BACKOFF))
            self.is_backing_off = False

    def _report(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("source %s: %s", self.source.name, trouble)
        self.trouble = trouble
        self._set_up(up=False)

    def _set_up(self, *, up: bool) -> None:
        if up != self.up:
            self.up, self.since = up, self.clock.now()

    def check(self) -> None:
        """Updates the status; restarts a hung source."""
        now, period = self.clock.uptime(), self.source.period
        patience = max(HANG_PERIODS * period, MIN_HANG_SECONDS)
        heard_at = self.sink.heard_at
        heard = self.started_at if heard_at is None else max(heard_at, self.started_at)
        if heard_at is not None and now - heard_at <= patience and heard_at >= self.started_at:
            self.trouble = self.sink.trouble
            self._set_up(up=True)
        elif now - heard > patience:
            self._set_up(up=False)
            self.trouble = self.sink.trouble or self.trouble
            if period and not self.is_backing_off:
                self._restart(f"no batch for {now - heard:.0f} s")

    def _restart(self, trouble: str) -> None:
        if self.task is not None:
            self.task.cancel()
        self.restarts += 1
        self.failures += 1
        self._report(trouble)
        self.start()

    def status(self) -> SourceStatus:
        """Returns its status."""
        sink = self.sink
        return SourceStatus(
            self.source.name,
            self.up,
            self.since,
            sink.last_batch_time,
            sink.values,
            sink.dropped,
            self.restarts,
            self.trouble,
            sink.count_by_reason(),
            sink.count_refusals(),
        )


@dataclass
class SourceSupervisor:
    """All sources of a controller."""

    clock: Clock
    _supervised: dict[str, SupervisedSource] = field(default_factory=dict)

    def start(self, source: TelemetrySource) -> None:
        """Starts a source; its name must be unique."""
        if source.name in self._supervised:
            raise ValueError(f"two sources called {source.name!r}")
        supervised = self._supervised[source.name] = SupervisedSource(source, BatchSink(self.clock), self.clock)
        supervised.start()

    async def stop(self, name: str) -> list[SourceBatch]:
        """Stops a source; returns its remaining batches."""
        supervised = self._supervised.pop(name)
        if supervised.task is not None:
            await cancel_and_wait(supervised.task)
        return supervised.sink.take()

    async def close(self) -> dict[str, list[SourceBatch]]:
        """Stops all sources; returns the remaining batches of each."""
        return {name: await self.stop(name) for name in list(self._supervised)}

    def check(self) -> None:
        """Updates all statuses; called periodically."""
        for supervised in self._supervised.values():
            supervised.check()

    def take(self) -> dict[str, list[SourceBatch]]:
        """Returns the batches of each source since the last call."""
        return {name: supervised.sink.take() for name, supervised in self._supervised.items()}

    def count_series_without_place(self) -> dict[str, dict[str, int]]:
        """Returns the number of series that have no place, by source and reason. Any thread may ask."""
        return {name: supervised.sink.count_by_reason() for name, supervised in list(self._supervised.items())}

    def receiver_at(self, path: str) -> PushReceiver | None:
        """Returns the source that receives pushes at a path; None for none."""
        return next((one for one in self.receivers if one.path == path), None)

    @property
    def receivers(self) -> tuple[PushReceiver, ...]:
        """Returns all sources that receive pushes."""
        found = (supervised.source for supervised in self._supervised.values() if hasattr(supervised.source, "take"))
        return tuple(cast("PushReceiver", one) for one in found)

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of all sources."""
        return tuple(self._supervised)

    def statuses(self) -> tuple[SourceStatus, ...]:
        """Returns the status of each source, by name."""
        return tuple(supervised.status() for _, supervised in sorted(self._supervised.items()))
