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

RENEW = 0.2
"""Of a lease, after which it is renewed."""
SAFE = 0.7
"""Of a lease, after which who could not renew it has lost it."""
LEASE = 15.0
"""Seconds, where a config does not say."""
MOST_BYTES = 1 << 17

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lock:
    """What a config says of it."""

    path: Path
    lease: float = LEASE
    """Seconds."""


@dataclass
class Turn:
    """One controller's part in it."""

    lock: Lock
    name: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}")
    now: Callable[[], float] = time.monotonic
    heard: bytes = b""
    """What stood there when another had renewed it last."""
    _renewed: float = float("-inf")
    _seen: bytes | None = None
    """What stood in the file when it was last looked at ..."""
    _since: float = 0.0
    """... and since when."""

    @property
    def ours(self) -> bool:
        """Whether it is ours now; any thread may ask."""
        return self.now() - self._renewed < SAFE * self.lock.lease

    def take(self, said: str = "") -> bool:
        """Renews what is ours, or takes what nobody has; whether it is ours. `said` is a line for whoever is next.

        Raises:
            OSError: the file cannot be read, written or locked.
        """
        begun = self.now()
        with self._held() as handle:
            found = os.pread(handle, MOST_BYTES, 0)
            if found != self._seen:
                self._seen, self._since = found, begun
            holder = found.split(b"\n")[0]
            if holder != self.name.encode():
                self.heard = found
            free = not holder or begun - self._since >= self.lock.lease
            if holder == self.name.encode() or free:
                # Told from before the file was opened: storage may have kept us waiting.
                self._write(handle, self.name, said)
                self._renewed = begun
        return self.ours

    def give(self, said: str = "") -> None:
        """Gives it back, if it is ours, so that nobody has to wait for its end.

        Raises:
            OSError: as above; then it ends by itself.
        """
        self._renewed = float("-inf")
        with self._held() as handle:
            if os.pread(handle, MOST_BYTES, 0).split(b"\n")[0] == self.name.encode():
                self._write(handle, "", said)

    def _write(self, handle: int, name: str, said: str) -> None:
        # Another number each time: a file that changes is a turn that goes on.
        text = f"{name}\n{secrets.token_hex(8)}\n{said}\n".encode()
        os.pwrite(handle, text, 0)
        os.ftruncate(handle, len(text))
        os.fsync(handle)
        self._seen, self._since = text, self.now()

    @contextmanager
    def _held(self) -> Iterator[int]:
        """The file, while nobody else may look at it."""
        handle = os.open(self.lock.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield handle
        finally:
            os.close(handle)


def line(found: bytes) -> str:
    """What somebody who leads wrote for whoever is next; '' for nothing."""
    _, _, said, *_ = (*found.split(b"\n"), b"", b"", b"")
    return said.decode("utf-8", "replace")


class Part(Protocol):
    """What a controller has to do with it."""

    @property
    def able(self) -> bool:
        """Whether it judges, second by second: who does not should not lead."""
        ...

    def progress(self) -> str:
        """How far it has told, in a line."""
        ...

    def hear(self, said: str) -> None:
        """Such a line of who leads, or led before."""
        ...

    async def changed(self, leads: bool) -> None:
        """Told when that changes."""
        ...


@dataclass
class Leader:
    """Says whether this controller tells; without a lock it always does."""

    lock: Lock | None
    part: Part
    _turn: Turn | None = field(init=False)
    _task: "asyncio.Task[None] | None" = None
    _doing: "asyncio.Future[object] | None" = None
    _told: bool | None = None
    _heard: bytes = b""
    _trouble: str = ""

    def __post_init__(self) -> None:
        self._turn = Turn(self.lock) if self.lock else None
        # Storage that hangs holds up this thread and nobody else.
        self._thread = ThreadPoolExecutor(1, "leader")

    @property
    def leads(self) -> bool:
        """Whether this controller tells: it is its turn, and it has heard what the one before it told."""
        return self._turn is None or (bool(self._told) and self._turn.ours)

    def start(self) -> None:
        """Takes part from now on."""
        if self._turn is not None:
            self._task = asyncio.create_task(self._run(self._turn), name="leader")

    async def close(self) -> None:
        """Takes part no more; the turn is another's."""
        if self._task is not None:
            self._task.cancel()
        if self._turn is not None:
            await self._tried(partial(self._turn.give, self.part.progress()), self._turn.lock.lease * RENEW)
        self._thread.shutdown(wait=False)

    async def _run(self, turn: Turn) -> None:
        while True:
            if self.part.able:
                await self._tried(partial(turn.take, self.part.progress()), turn.lock.lease)
            if turn.heard != self._heard:
                self._heard = turn.heard
                self.part.hear(line(turn.heard))
            if self._told != turn.ours:
                self._told = turn.ours
                log.info("this controller %s", "leads and tells" if turn.ours else "follows and tells nobody")
                await self.part.changed(turn.ours)
            await asyncio.sleep(RENEW * turn.lock.lease)

    async def _tried(self, do: Callable[[], object], patience: float) -> None:
        if self._doing is None or self._doing.done():
            self._doing = asyncio.get_running_loop().run_in_executor(self._thread, do)
        try:
            async with asyncio.timeout(patience):
                await asyncio.shield(self._doing)
            trouble = ""
        except BlockingIOError:
            return  # another looks at it just now
        except (OSError, TimeoutError) as error:
            trouble = f"{type(error).__name__}: {error}" if str(error) else "no answer of the storage"
        if trouble and trouble != self._trouble and self.lock:
            log.warning("%s: %s; nobody is told by this controller meanwhile", self.lock.path, trouble)
        self._trouble = trouble
