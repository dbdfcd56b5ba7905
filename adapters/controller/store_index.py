"""Reserves room on a disk for the index that SQLite maps beside the log of a store.

SQLite allots this index in pages of 4 KiB and writes the last byte of each, which takes one block of the disk. Where
blocks are smaller, the rest of a page has none until it is first written through the mapping; on a full disk that write
ends the process with SIGBUS.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

PAGE_BYTES = 4096
"""Bytes that SQLite allots at once."""
INDEX_BYTES = 128 << 10
"""Bytes that are reserved: an index of 16,000 pages of the log, of which 1,000 are usual."""
INDEX_END = "-shm"
"""What SQLite adds to the name of a file for the index of its log."""
OPEN_FILES = Path("/proc/self/fd")


def check_index_room(path: Path) -> None:
    """Checks that the index of a file can be mapped; call it before SQLite opens the file.

    Raises:
        sqlite3.OperationalError: its disk has smaller blocks than SQLite expects, and no room; the code is SQLITE_FULL.
    """
    with suppress(OSError):
        disk = os.statvfs(path.parent)
        if disk.f_frsize < PAGE_BYTES and disk.f_bavail * disk.f_frsize < 2 * INDEX_BYTES:
            raise _full_disk(path)


def reserve_index(path: Path) -> None:
    """Allots the index of a file that this process has open; call it after SQLite has opened the log.

    It does so through the descriptor that SQLite holds: closing another one of the same file would give up its locks.
    Nothing is done where blocks are large enough, or where a process cannot list its open files.

    Raises:
        sqlite3.OperationalError: the disk has no room; the code is SQLITE_FULL.
    """
    index = path.resolve().with_name(path.resolve().name + INDEX_END)
    with suppress(OSError):
        if os.statvfs(path.parent).f_frsize >= PAGE_BYTES:
            return
    for descriptor in _find_descriptors(index):
        try:
            os.posix_fallocate(descriptor, 0, INDEX_BYTES)
        except OSError as error:
            raise _full_disk(path) from error


def _find_descriptors(file: Path) -> list[int]:
    """Returns the descriptors by which this process has a file open."""
    found = []
    with suppress(OSError):
        for link in OPEN_FILES.iterdir():
            with suppress(OSError):
                if link.readlink() == file:
                    found.append(int(link.name))
    return sorted(found)


def _full_disk(path: Path) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(f"no room for the index of {path}")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error
