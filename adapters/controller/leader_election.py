"""Leader election between controllers: all diagnose, and a lease decides which one notifies.

The leader holds the lease and renews it (`lease.py`). A leader that could not renew stops before another one takes
over, and one that finds another's name in the lease stops at once. Where the lease cannot be used no controller leads,
and this is reported.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from skewscope.adapters.controller.kubernetes_lease import KubernetesLease
from skewscope.adapters.controller.lease import FileLease, Lease, LeaseConfig, parse_progress
from skewscope.adapters.runtime.tasks import cancel_and_wait, start_service

RENEW_SHARE = 0.2
"""Share of a lease after which it is renewed."""
PUBLISH_TRIES, PUBLISH_PAUSE = 20, 0.02
"""Tries to write the progress at once, while another controller looks into the file, and seconds between two."""

log = logging.getLogger(__name__)


class ElectionParticipant(Protocol):
    """What leader election needs from a controller."""

    @property
    def is_able(self) -> bool:
        """Returns whether ticks are advancing: a stalled controller must not lead."""
        ...

    def progress(self) -> str:
        """Returns its progress as one line."""
        ...

    def list_omissions(self) -> str:
        """Returns what the leader has not reported, as a text for it; '' for nothing."""
        ...

    def receive_omissions(self, text: str) -> None:
        """Parses what a follower says that this controller, which leads, has not reported."""
        ...

    def receive_progress(self, text: str) -> None:
        """Receives the progress of the present or previous leader."""
        ...

    async def on_leadership_change(self, leads: bool) -> None:
        """Called when leadership changes."""
        ...


def create_lease(lock: LeaseConfig) -> Lease:
    """Returns the lease of a controller."""
    return FileLease(lock) if lock.object is None else KubernetesLease(lock)


@dataclass
class LeaderElection:
    """Decides whether this controller notifies; without a lease it always does."""

    lock: LeaseConfig | None
    participant: ElectionParticipant
    _lease: Lease | None = field(init=False)
    _task: "asyncio.Task[None] | None" = None
    _pending: "asyncio.Future[object] | None" = None
    _was_leader: bool | None = None
    _other_content: bytes = b""
    _trouble: str = ""

    def __post_init__(self) -> None:
        self._lease = create_lease(self.lock) if self.lock else None
        # Hanging storage blocks only this thread.
        self._thread = ThreadPoolExecutor(1, "leader")

    @property
    def is_leader(self) -> bool:
        """Whether this controller leads and has received the progress of its predecessor."""
        return self._lease is None or (bool(self._was_leader) and self._lease.is_held)

    @property
    def term(self) -> int | None:
        """Number of the present leadership; None while this controller does not lead."""
        if not self.is_leader:
            return None
        return self._lease.term if self._lease is not None else 0

    async def publish(self) -> None:
        """Writes the progress for the other controllers now; returns without having done so where it cannot be done."""
        if self._lease is None:
            return
        wait = RENEW_SHARE * self._lease.lock.lease
        for _ in range(PUBLISH_TRIES):
            if self._pending is not None and not self._pending.done():
                await asyncio.wait([self._pending], timeout=wait)
                continue  # What it writes was put together before.
            if not self.is_leader:
                return
            if await self._attempt(partial(self._lease.acquire, self.participant.progress()), wait):
                return
            await asyncio.sleep(PUBLISH_PAUSE)

    def start(self) -> None:
        """Starts to participate."""
        if self._lease is not None:
            self._task = start_service("leader", partial(self._run, self._lease), asyncio.sleep)

    async def close(self) -> None:
        """Stops to participate and releases the lease."""
        if self._task is not None:
            await cancel_and_wait(self._task)
        if self._lease is not None:
            patience = RENEW_SHARE * self._lease.lock.lease
            if self._pending is not None:
                # What is under way may acquire the lease.
                await asyncio.wait([self._pending], timeout=patience)
            await self._attempt(partial(self._lease.release, self.participant.progress()), patience)
        self._thread.shutdown(wait=False)

    async def _run(self, lease: Lease) -> None:
        while True:
            if self.participant.is_able:
                lease.message = self.participant.list_omissions()
                await self._attempt(partial(lease.acquire, self.participant.progress()), lease.lock.lease)
            if lease.other_content != self._other_content:
                self._other_content = lease.other_content
                self.participant.receive_progress(parse_progress(lease.other_content))
            if lease.received and lease.is_held:
                self.participant.receive_omissions(lease.received)
            lease.received = ""
            if self._was_leader != lease.is_held:
                self._was_leader = lease.is_held
                log.info("this controller %s", "leads and notifies" if lease.is_held else "follows, without notifying")
                await self.participant.on_leadership_change(lease.is_held)
            await asyncio.sleep(RENEW_SHARE * lease.lock.lease)

    async def _attempt(self, do: Callable[[], object], patience: float) -> bool:
        """Runs something in the thread of the storage; returns whether it was done."""
        if self._pending is None or self._pending.done():
            self._pending = asyncio.get_running_loop().run_in_executor(self._thread, do)
        try:
            async with asyncio.timeout(patience):
                await asyncio.shield(self._pending)
            trouble = ""
        except BlockingIOError:
            return False  # Another controller holds the lock at the moment.
        except (OSError, TimeoutError) as error:
            trouble = f"{type(error).__name__}: {error}" if str(error) else "storage does not respond"
        if trouble and trouble != self._trouble and self.lock:
            log.warning("%s: %s; this controller does not notify meanwhile", self.lock, trouble)
        self._trouble = trouble
        return not trouble
