"""Leader election between controllers: all diagnose, and a file on shared storage decides which one notifies.

The leader holds a lease and renews it. Another controller takes over once the file has not changed for a whole lease by
its own clock; clocks of two machines are never compared. A leader that could not renew stops earlier, and one that
finds another's name in the file stops at once. A file that is missing or empty may have been removed under a leader:
whoever does not hold the lease waits for as long as that may last. Without working locks no controller leads, and this
is reported.
"""

import asyncio
import fcntl
import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from skewscope.adapters.controller.store_lock import PRIVATE_MODE, create_private
from skewscope.adapters.runtime.clock import read_uptime
from skewscope.adapters.runtime.tasks import cancel_and_wait, start_service

RENEW_SHARE = 0.2
"""Share of a lease after which it is renewed."""
SAFE_SHARE = 0.7
"""Share of a lease after which a leader that could not renew has lost it."""
DEFAULT_LEASE = 15.0
"""Default lease in seconds."""
PUBLISH_TRIES, PUBLISH_PAUSE = 20, 0.02
"""Tries to write the progress at once, while another controller looks into the file, and seconds between two."""
MAX_BYTES = 1 << 20
MISSED_SUFFIX = ".missed"
"""How the name of the file beside that of the lease ends, in which a follower writes what the leader did not report."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseConfig:
    """Settings of leader election."""

    path: Path
    lease: float = DEFAULT_LEASE
    """Seconds."""


@dataclass
class FileLease:
    """One controller's lease on the file."""

    lock: LeaseConfig
    name: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}")
    now: Callable[[], float] = read_uptime
    other_content: bytes = b""
    """Content of the file when another controller last renewed it."""
    message: str = ""
    """What the leader is to know while this controller follows; '' for nothing."""
    received: str = ""
    """What a follower last wrote, while this controller leads."""
    term: int = 0
    """How often this controller has acquired the lease from another one, or from nobody: whoever led in between may
    have changed what it believes to know."""
    _renewed_at: float = float("-inf")
    _last_content: bytes | None = None
    """Content of the file at the last look."""
    _last_change: float = 0.0
    """Time since which the content is unchanged."""

    @property
    def is_held(self) -> bool:
        """Whether this controller holds the lease; thread-safe."""
        return self.now() - self._renewed_at < SAFE_SHARE * self.lock.lease

    def acquire(self, text: str = "") -> bool:
        """Renews or acquires the lease; returns whether it is held. `said` is a line for the successor.

        Raises:
            OSError: the file cannot be read, written or locked.
        """
        begun = self.now()
        with self._lock_file() as handle:
            found = os.pread(handle, MAX_BYTES, 0)
            if found != self._last_content:
                self._last_content, self._last_change = found, begun
            holder = found.split(b"\n")[0]
            is_own = holder == self.name.encode() or (not found and self.is_held)
            if not is_own:
                self.other_content, self._renewed_at = found, float("-inf")
            is_released = bool(found) and not holder
            if is_own or is_released or begun - self._last_change >= self.lock.lease:
                # A new leader keeps what its predecessor wrote, until it has received it.
                said = text if is_own or not found else parse_progress(found)
                self._write(handle, self.name, said)
                self.term += not is_own
                # Measured from before the file was opened: storage may have blocked.
                self._renewed_at = begun
                self._take_message()
            elif self.message:
                with suppress(OSError):  # written again at the next look
                    create_private(self._message_file)
                    self._message_file.write_text(self.message, encoding="utf-8")
        return self.is_held

    @property
    def _message_file(self) -> Path:
        return self.lock.path.with_name(self.lock.path.name + MISSED_SUFFIX)

    def _take_message(self) -> None:
        """Reads what a follower wrote, once; a file that cannot be read takes no lease away."""
        with suppress(OSError):
            with self._message_file.open("rb") as file:
                found = file.read(MAX_BYTES)
            self._message_file.unlink()
            self.received = found.decode("utf-8", "replace")

    def release(self, text: str = "") -> None:
        """Releases the lease, so that a successor need not wait for its end.

        Raises:
            OSError: the file cannot be written; the lease then expires.
        """
        self._renewed_at = float("-inf")
        with self._lock_file() as handle:
            if os.pread(handle, MAX_BYTES, 0).split(b"\n")[0] == self.name.encode():
                self._write(handle, "", text)

    def _write(self, handle: int, name: str, said: str) -> None:
        # A new number each time: a changing file means a live lease.
        text = f"{name}\n{secrets.token_hex(8)}\n{said}\n".encode()
        os.pwrite(handle, text, 0)
        os.ftruncate(handle, len(text))
        os.fsync(handle)
        self._last_content, self._last_change = text, self.now()

    @contextmanager
    def _lock_file(self) -> Iterator[int]:
        """Yields the descriptor of the locked file.

        Raises:
            BlockingIOError: another controller has locked it, or it was replaced at this moment.
            OSError: it cannot be opened.
        """
        handle = os.open(self.lock.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(handle), self.lock.path.stat()):
                raise BlockingIOError(f"{self.lock.path} was replaced")
            yield handle
        finally:
            os.close(handle)


def parse_progress(found: bytes) -> str:
    """Returns the line of the leader in the file's content; '' for none."""
    _, _, text, *_ = (*found.split(b"\n"), b"", b"", b"")
    return text.decode("utf-8", "replace")


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


@dataclass
class LeaderElection:
    """Decides whether this controller notifies; without a lease file it always does."""

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

    async def _run(self, lease: FileLease) -> None:
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
            log.warning("%s: %s; this controller does not notify meanwhile", self.lock.path, trouble)
        self._trouble = trouble
        return not trouble
