"""Locks around the file of a store: one controller uses it, and no other process may remove its log.

SQLite's locks are those of the process: closing any descriptor of the file drops them all. The next reader in another
process is then the last one by all locks, and removes the log under the controller. The locks here are of a descriptor.
"""

import fcntl
import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LOCK_END = "-lock"
"""How the name of the file ends by which one controller keeps others from its store."""
PRIVATE_MODE = 0o600
"""Mode of new files: what a store or a recording holds is for the user of the controller."""
SHARED_RANGE = 0x40000002, 510
"""First byte and number of the bytes that SQLite locks to read; who has all of them alone may remove the log."""
MAX_HOLDER_BYTES = 200


def file_identity(path: Path) -> tuple[int, int]:
    """Returns device and inode of a file; an impossible pair if there is none."""
    with suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return -1, -1


def create_private(path: Path) -> None:
    """Creates an empty file for its user alone; one that is there, or cannot be created, is left as it is."""
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_MODE))


@dataclass
class ProcessLock:
    """A file that one process at a time has locked, until it ends; the file itself stays."""

    path: Path
    _handle: int = -1
    _file_id: tuple[int, int] = (-1, -1)

    @property
    def was_removed(self) -> bool:
        """Whether the file that is locked is no longer the one at its path, so that others can lock another one."""
        return self._handle >= 0 and file_identity(self.path) != self._file_id

    def acquire(self) -> None:
        """Locks the file, which is created if needed; nothing is done while it is locked in its place.

        Raises:
            BlockingIOError: another process has locked it; the text names that.
            OSError: the file cannot be opened or locked here.
        """
        if self._handle >= 0 and not self.was_removed:
            return
        handle = self._open()
        try:
            self._lock(handle)
        except BaseException:
            os.close(handle)
            raise
        self.release()
        status = os.fstat(handle)
        self._handle, self._file_id = handle, (status.st_dev, status.st_ino)

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
        except OSError:
            # A read-only disk does not keep others from the file.
            return os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)

    def _lock(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(os.pread(handle, MAX_HOLDER_BYTES, 0).decode("utf-8", "replace").strip()) from None
        with suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        """Unlocks the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        """Unlocks the file."""
        self.release()


@dataclass
class LogGuard:
    """Keeps other processes from removing the log of a file that SQLite has open here."""

    _handle: int = -1

    def hold(self, path: Path) -> None:
        """Begins; call it once SQLite has opened the file. Where such locks are unknown nothing is done."""
        with suppress(OSError):
            # From now on this descriptor stays open: closing it would drop SQLite's own locks.
            self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._set(fcntl.F_RDLCK)

    def allow_removal(self) -> None:
        """Lets SQLite remove the log when it closes the file; `close` follows."""
        self._set(fcntl.F_UNLCK)

    def close(self) -> None:
        """Ends; call it once SQLite has closed the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _set(self, kind: int) -> None:
        first, count = SHARED_RANGE
        if self._handle < 0:
            return
        with suppress(OSError, AttributeError):
            fcntl.fcntl(self._handle, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, first, count, 0))
