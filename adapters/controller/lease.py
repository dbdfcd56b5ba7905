"""A lease that one of several controllers holds: when it is acquired, renewed and lost, wherever its content is kept.

Another controller takes over once the content has not changed for a whole lease by its own clock; clocks of two
machines are never compared. Content that is missing or empty may have been removed under a leader: whoever does not
hold the lease waits for as long as that may last.
"""

import fcntl
import os
import secrets
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from skewscope.adapters.controller.store_lock import PRIVATE_MODE, create_private
from skewscope.adapters.runtime.clock import read_uptime

SAFE_SHARE = 0.7
"""Share of a lease after which a leader that could not renew has lost it."""
DEFAULT_LEASE = 15.0
"""Default lease in seconds."""
MAX_BYTES = 1 << 20
MISSED_SUFFIX = ".missed"
"""How the name of the file beside that of the lease ends, in which a follower writes what the leader did not report."""
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where a pod has the token of its service account, and the certificate of the API server."""


@dataclass(frozen=True, slots=True)
class LeaseObject:
    """A Lease of Kubernetes, and how its API server is called."""

    name: str
    namespace: str
    url: str = "https://kubernetes.default.svc"
    token_file: str = f"{ACCOUNT}/token"
    trust: str = f"{ACCOUNT}/ca.crt"
    """File with the certificates of authorities; '' for those of the system."""


@dataclass(frozen=True, slots=True)
class LeaseConfig:
    """Settings of leader election: a file on storage that all share, or an object of Kubernetes."""

    path: Path | None
    lease: float = DEFAULT_LEASE
    """Seconds."""
    object: LeaseObject | None = None

    def __str__(self) -> str:
        return str(self.path) if self.object is None else f"lease {self.object.namespace}/{self.object.name}"


class LeaseContent(Protocol):
    """The content of a lease while it is looked at; nobody else changes it meanwhile, or the write fails."""

    def read(self) -> bytes:
        """Returns the content; empty where there is none."""
        ...

    def write(self, data: bytes) -> None:
        """Replaces the content.

        Raises:
            BlockingIOError: somebody else has changed it meanwhile.
            OSError: it cannot be written.
        """
        ...


@dataclass
class Lease(ABC):
    """One controller's lease."""

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
        with self._open() as content:
            found = content.read()
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
                self._write(content, self.name, said)
                self.term += not is_own
                # Measured from before the file was opened: storage may have blocked.
                self._renewed_at = begun
                with suppress(OSError):  # a message that cannot be read takes no lease away
                    self.received = self._take_message() or self.received
            elif self.message:
                with suppress(OSError):  # written again at the next look
                    self._leave_message(self.message)
        return self.is_held

    def release(self, text: str = "") -> None:
        """Releases the lease, so that a successor need not wait for its end.

        Raises:
            OSError: the file cannot be written; the lease then expires.
        """
        self._renewed_at = float("-inf")
        with self._open() as content:
            if content.read().split(b"\n")[0] == self.name.encode():
                self._write(content, "", text)

    def _write(self, content: LeaseContent, name: str, said: str) -> None:
        # A new number each time: changing content means a live lease.
        text = f"{name}\n{secrets.token_hex(8)}\n{said}\n".encode()
        content.write(text)
        self._last_content, self._last_change = text, self.now()

    @abstractmethod
    def _open(self) -> AbstractContextManager[LeaseContent]:
        """Returns the content, to be looked at and replaced.

        Raises:
            BlockingIOError: somebody else looks at it at this moment.
            OSError: it cannot be read.
        """

    @abstractmethod
    def _leave_message(self, text: str) -> None:
        """Leaves a message of a follower for the leader."""

    @abstractmethod
    def _take_message(self) -> str:
        """Returns what a follower left, once; '' for nothing."""


@dataclass(frozen=True, slots=True)
class LockedFile:
    """The content of a file that is locked."""

    handle: int

    def read(self) -> bytes:
        """Returns the content."""
        return os.pread(self.handle, MAX_BYTES, 0)

    def write(self, data: bytes) -> None:
        """Replaces the content."""
        os.pwrite(self.handle, data, 0)
        os.ftruncate(self.handle, len(data))
        os.fsync(self.handle)


@dataclass
class FileLease(Lease):
    """A lease whose content is a file on shared storage. Without working locks no controller leads."""

    @property
    def _path(self) -> Path:
        assert self.lock.path is not None
        return self.lock.path

    @property
    def _message_file(self) -> Path:
        return self._path.with_name(self._path.name + MISSED_SUFFIX)

    def _leave_message(self, text: str) -> None:
        create_private(self._message_file)
        self._message_file.write_text(text, encoding="utf-8")

    def _take_message(self) -> str:
        with self._message_file.open("rb") as file:
            found = file.read(MAX_BYTES)
        self._message_file.unlink()
        return found.decode("utf-8", "replace")

    @contextmanager
    def _open(self) -> Iterator[LeaseContent]:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(handle), self._path.stat()):
                raise BlockingIOError(f"{self._path} was replaced")
            yield LockedFile(handle)
        finally:
            os.close(handle)


def parse_progress(found: bytes) -> str:
    """Returns the line of the leader in the file's content; '' for none."""
    _, _, text, *_ = (*found.split(b"\n"), b"", b"", b"")
    return text.decode("utf-8", "replace")
