"""Reads what is appended to files: bounded per read, never blocking.

A replaced or truncated file is read from its beginning, and so is a file that appears later. Only regular files are
read: a pipe would block the reader.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MAX_FILES = 256
MAX_READ = 4 << 20
"""Maximum bytes per file and read; of more, the oldest are skipped."""


@dataclass(slots=True)
class _FilePosition:
    """The read position in a file."""

    file_id: tuple[int, int]
    """Device and inode."""
    offset: int


@dataclass
class FileTail:
    """The files of a path, whose last part may contain `*`."""

    path: Path
    from_start: bool = False
    """Whether the existing content is read too."""
    max_bytes: int = MAX_READ
    skipped_bytes: int = 0
    """Bytes skipped so far."""
    _positions: dict[Path, _FilePosition] = field(default_factory=dict)
    _has_read: bool = False

    def read(self) -> Iterator[tuple[Path, bytes]]:
        """Yields what was appended to each file since the last call.

        Raises:
            OSError: there is no such file, or it is not readable.
        """
        pattern = "*" in self.path.name
        paths = sorted(self.path.parent.glob(self.path.name))[:MAX_FILES] if pattern else [self.path]
        for path in paths:
            try:
                if data := self._read_new(path):
                    yield path, data
            except OSError:
                # One of many files may disappear between listing and reading.
                if not pattern:
                    raise
        self._has_read = True
        for gone in self._positions.keys() - set(paths):
            del self._positions[gone]

    def _read_new(self, path: Path) -> bytes:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            reported = os.fstat(handle)
            if not stat.S_ISREG(reported.st_mode):
                raise OSError(f"{path} is not a regular file")
            place = self._position(path, reported)
            if reported.st_size - place.offset > self.max_bytes:
                self.skipped_bytes += reported.st_size - self.max_bytes - place.offset
                place.offset = reported.st_size - self.max_bytes
            data = os.pread(handle, self.max_bytes, place.offset)
            place.offset += len(data)
            return data
        finally:
            with suppress(OSError):
                os.close(handle)

    def _position(self, path: Path, reported: os.stat_result) -> _FilePosition:
        place, file = self._positions.get(path), (reported.st_dev, reported.st_ino)
        if place is None:
            begin = 0 if self.from_start or self._has_read else reported.st_size
            place = self._positions[path] = _FilePosition(file, begin)
        elif place.file_id != file or reported.st_size < place.offset:
            place.file_id, place.offset = file, 0
        return place
