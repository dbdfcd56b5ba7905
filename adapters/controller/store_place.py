"""The place of a store on disk: whether its files are still those in use, and how they are put back.

A person, a cleaner or another program may remove the file of a store or its log. SQLite goes on with the removed files:
all is in them until the process ends, and nobody else sees it. So the open connection can write the store anew.
"""

import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path

from skewscope.adapters.controller.audit_head import HEAD_END
from skewscope.adapters.controller.store_copy import publish, write_draft
from skewscope.adapters.controller.store_file import LOG_END
from skewscope.adapters.controller.store_index import INDEX_END
from skewscope.adapters.controller.store_lock import LOCK_END, LogGuard, ProcessLock, create_private, file_identity
from skewscope.kb.problems import InputError, Problem

RETRY_PERIOD = 5.0
"""Seconds between two attempts to open a file that could not be written, or to write one anew."""

STORE_ENDS = LOG_END, INDEX_END, LOCK_END, HEAD_END
"""How the names of the files beside a store end."""

FileIds = tuple[tuple[int, int], ...]
"""Device and inode of the file, of its log, and of the index of that."""


class StoreError(Exception):
    """The store cannot be written or read: the disk is full, or the file is damaged or was taken away."""


@dataclass
class StorePlace:
    """The files of one store that this process has open for writing."""

    path: Path
    _lock: ProcessLock = field(init=False)
    _guard: LogGuard = field(default_factory=LogGuard)
    _files: FileIds = ()
    """Those in use."""
    _next_attempt: float = 0.0

    def __post_init__(self) -> None:
        # SQLite puts the files beside the file to which a link leads.
        self.path = self.path.resolve()
        self._lock = ProcessLock(self.path.with_name(self.path.name + LOCK_END))

    def prepare(self) -> None:
        """Keeps other controllers from the store; call it before the file is opened.

        Raises:
            InputError: another controller uses it.
        """
        try:
            self._lock.acquire()
        except BlockingIOError as error:
            held = f"a store that is in use by another controller ({error})"
            hint = "Stop that one, or give each a store of its own under store.path."
            raise InputError(
                [Problem(str(self.path), 0, "", held, "a store for this controller alone", hint)]
            ) from None
        except OSError:
            pass  # Without a writable disk there is nothing to keep, and some storage knows no locks.
        create_private(self.path)

    def settle(self) -> None:
        """Remembers the files in use; call it once SQLite has opened them."""
        self._guard.close()
        self._guard.hold(self.path)
        self._files = self._find_files()

    def close(self, connection: sqlite3.Connection) -> None:
        """Closes the connection, and lets other controllers have the store."""
        self._guard.allow_removal()
        connection.close()
        self.release()

    def release(self) -> None:
        """Lets other controllers have a store that is not open here."""
        self._guard.close()
        self._lock.release()

    def may_try(self) -> bool:
        """Returns whether it is time for another attempt, which then counts as made."""
        now = time.monotonic()
        if now < self._next_attempt:
            return False
        self._next_attempt = now + RETRY_PERIOD
        return True

    def find_loss(self) -> str:
        """Returns which file is no longer the one in use, in words; '' where all are in their place.

        Raises:
            StoreError: other files are there instead, or another controller: they are left alone.
        """
        if self._lock.was_removed:
            self._lock_again()
        files = self._find_files()
        if files == self._files:
            return ""
        file = files[0]
        if file != self._files[0] and (self.path.exists() or self.path.is_symlink()):
            raise StoreError(
                f"another file is in the place of the store {self.path}; move it away, or restart to use it"
            )
        return "its log was removed" if file == self._files[0] else "it was removed"

    def _lock_again(self) -> None:
        try:
            self._lock.acquire()
        except BlockingIOError as error:
            raise StoreError(f"another controller uses the store {self.path} ({error})") from None
        except OSError:
            return  # What holds is the lock of the removed file.

    def _find_files(self) -> FileIds:
        return tuple(file_identity(self._beside(end)) for end in ("", LOG_END, INDEX_END))

    def _beside(self, end: str) -> Path:
        return self.path.with_name(self.path.name + end)

    def write_anew(self, connection: sqlite3.Connection) -> None:
        """Writes all that a connection to removed files holds to a new file in their place.

        Raises:
            OSError: it cannot be written.
            sqlite3.Error: the same.
        """
        file = self._files[0]
        if self.path.parent.stat().st_dev != file[0]:
            raise OSError(f"the disk of {self.path.parent} is another one")
        if file_identity(self.path) == file:
            # From here on a crash loses nothing, either.
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        draft = write_draft(connection, self.path)
        # Another log than that of the new file must not lie beside it.
        for end in (LOG_END, INDEX_END):
            self._beside(end).unlink(missing_ok=True)
        publish(draft, self.path)
