"""Which of several controllers tells: all of them diagnose, and one file on shared storage says whose turn it is.

A turn lasts for a lease, and whoever has it renews it. Others take it once the file has not changed for a whole lease
by their own clock: clocks of two machines are never compared. Who could not renew stops before that, so that never two
have it. Where locks do not work nobody leads, and that is told.
"""

import asyncio
import fcntl
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

RENEW_SHARE = 0.2
"""Of a lease, after which it is renewed."""
SAFE_SHARE = 0.7
"""Of a lease, after which who could not renew it has lost it."""
DEFAULT_LEASE = 15.0
"""Seconds, where a config does not say."""
MAX_BYTES = 1 << 17

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseConfig:
    """What a config says of it."""

    path: Path
    lease: float = DEFAULT_LEASE
    """Seconds."""


@dataclass
class FileLease:
    """One controller's part in it."""

    lock: LeaseConfig
    name: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}")
    now: Callable[[], float] = time.monotonic
    other_content: bytes = b""
    """What stood there when another had renewed it last."""
    _renewed_at: float = float("-inf")
    _last_content: bytes | None = None
    """What stood in the file when it was last looked at ..."""
    _last_change: float = 0.0
    """... and since when."""

    @property
    def is_held(self) -> bool:
        """Whether it is ours now; any thread may ask."""
        return self.now() - self._renewed_at < SAFE_SHARE * self.lock.lease

    def acquire(self, said: str = "") -> bool:
        """Renews what is ours, or takes what nobody has; whether it is ours. `said` is a line for whoever is next.

        Raises:
            OSError: the file cannot be read, written or locked.
        """
        begun = self.now()
        with self._lock_file() as handle:
            found = os.pread(handle, MAX_BYTES, 0)
            if found != self._last_content:
                self._last_content, self._last_change = found, begun
            holder = found.split(b"\n")[0]
            if holder != self.name.encode():
                self.other_content = found
            free = not holder or begun - self._last_change >= self.lock.lease
            if holder == self.name.encode() or free:
                # Told from before the file was opened: storage may have kept us waiting.
                self._write(handle, self.name, said)
                self._renewed_at = begun
        return self.is_held

    def release(self, said: str = "") -> None:
        """Gives it back, if it is ours, so that nobody has to wait for its end.

        Raises:
            OSError: as above; then it ends by itself.
        """
        self._renewed_at = float("-inf")
        with self._lock_file() as handle:
            if os.pread(handle, MAX_BYTES, 0).split(b"\n")[0] == self.name.encode():
                self._write(handle, "", said)

    def _write(self, handle: int, name: str, said: str) -> None:
        # Another number each time: a file that changes is a turn that goes on.
        text = f"{name}\n{secrets.token_hex(8)}\n{said}\n".encode()
        os.pwrite(handle, text, 0)
        os.ftruncate(handle, len(text))
        os.fsync(handle)
        self._last_content, self._last_change = text, self.now()

    @contextmanager
    def _lock_file(self) -> Iterator[int]:
        """The file, while nobody else may look at it."""
        handle = os.open(self.lock.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield handle
        finally:
            os.close(handle)


def parse_progress(found: bytes) -> str:
    """What somebody who leads wrote for whoever is next; '' for nothing."""
    _, _, said, *_ = (*found.split(b"\n"), b"", b"", b"")
    return said.decode("utf-8", "replace")


class ElectionParticipant(Protocol):
    """What a controller has to do with it."""

    @property
    def is_able(self) -> bool:
        """Whether it judges, second by second: who does not should not lead."""
        ...

    def progress(self) -> str:
        """How far it has told, in a line."""
        ...

    def receive_progress(self, said: str) -> None:
        """Such a line of who leads, or led before."""
        ...

    async def on_leadership_change(self, leads: bool) -> None:
        """Told when that changes."""
        ...


@dataclass
class LeaderElection:
    """Says whether this controller tells; without a lock it always does."""

    lock: LeaseConfig | None
    participant: ElectionParticipant
    _lease: FileLease | None = field(init=False)
    _task: "asyncio.Task[None] | None" = None
    _pending: "asyncio.Future[object] | None" = None
    _was_leader: bool | None = None
    _other_content: bytes = b""
    _trouble: str = ""

    def __post_init__(self) -> None:
        self._lease = FileLease(self.lock) if self.lock else None
        # Storage that hangs holds up this thread and nobody else.
        self._thread = ThreadPoolExecutor(1, "leader")

    @property
    def is_leader(self) -> bool:
        """Whether this controller tells: it is its turn, and it has heard what the one before it told."""
        return self._lease is None or (bool(self._was_leader) and self._lease.is_held)

    def start(self) -> None:
        """Takes part from now on."""
        if self._lease is not None:
            self._task = asyncio.create_task(self._run(self._lease), name="leader")

    async def close(self) -> None:
        """Takes part no more; the turn is another's."""
        if self._task is not None:
            self._task.cancel()
        if self._lease is not None:
            await self._attempt(
                partial(self._lease.release, self.participant.progress()), self._lease.lock.lease * RENEW_SHARE
            )
        self._thread.shutdown(wait=False)

    async def _run(self, turn: FileLease) -> None:
        while True:
            if self.participant.is_able:
                await self._attempt(partial(turn.acquire, self.participant.progress()), turn.lock.lease)
            if turn.other_content != self._other_content:
                self._other_content = turn.other_content
                self.participant.receive_progress(parse_progress(turn.other_content))
            if self._was_leader != turn.is_held:
                self._was_leader = turn.is_held
                log.info("this controller %s", "leads and tells" if turn.is_held else "follows and tells nobody")
                await self.participant.on_leadership_change(turn.is_held)
            await asyncio.sleep(RENEW_SHARE * turn.lock.lease)

    async def _attempt(self, do: Callable[[], object], patience: float) -> None:
        if self._pending is None or self._pending.done():
            self._pending = asyncio.get_running_loop().run_in_executor(self._thread, do)
        try:
            async with asyncio.timeout(patience):
                await asyncio.shield(self._pending)
            trouble = ""
        except BlockingIOError:
            return  # another looks at it just now
        except (OSError, TimeoutError) as error:
            trouble = f"{type(error).__name__}: {error}" if str(error) else "no answer of the storage"
        if trouble and trouble != self._trouble and self.lock:
            log.warning("%s: %s; nobody is told by this controller meanwhile", self.lock.path, trouble)
        self._trouble = trouble
