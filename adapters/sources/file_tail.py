"""What is written to files from now on: bounded, however fast it grows, and never waiting for anybody.

A file that is replaced or cut short is read anew from its beginning, and so is one that appears later. Whatever is no
plain file is left alone: a pipe would hang its reader.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MAX_FILES = 256
MAX_READ = 4 << 20
"""Bytes that are read of a file at a time; of more, the oldest are passed over."""


@dataclass(slots=True)
class _FilePosition:
    """How far a file was read."""

    file_id: tuple[int, int]
    """Device and inode."""
    offset: int


@dataclass
class FileTail:
    """The files that a path names, whose last part may hold `*`."""

    path: Path
    from_start: bool = False
    """Whether what is there at the first look is read too."""
    max_bytes: int = MAX_READ
    skipped_bytes: int = 0
    """Bytes that were passed over."""
    _positions: dict[Path, _FilePosition] = field(default_factory=dict)
    _has_read: bool = False

    def read(self) -> Iterator[tuple[Path, bytes]]:
        """What was written to each file since the last time.

        Raises:
            OSError: there is no such file, or it may not be read.
        """
        pattern = "*" in self.path.name
        paths = sorted(self.path.parent.glob(self.path.name))[:MAX_FILES] if pattern else [self.path]
        for path in paths:
            try:
                if data := self._read_new(path):
                    yield path, data
            except OSError:
                # Of many files one may go away while it is looked at.
                if not pattern:
                    raise
        self._has_read = True
        for gone in self._positions.keys() - set(paths):
            del self._positions[gone]

    def _read_new(self, path: Path) -> bytes:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            told = os.fstat(handle)
            if not stat.S_ISREG(told.st_mode):
                raise OSError(f"{path} is no plain file")
            place = self._position(path, told)
            if told.st_size - place.offset > self.max_bytes:
                self.skipped_bytes += told.st_size - self.max_bytes - place.offset
                place.offset = told.st_size - self.max_bytes
            data = os.pread(handle, self.max_bytes, place.offset)
            place.offset += len(data)
            return data
        finally:
            with suppress(OSError):
                os.close(handle)

    def _position(self, path: Path, told: os.stat_result) -> _FilePosition:
        place, file = self._positions.get(path), (told.st_dev, told.st_ino)
        if place is None:
            begin = 0 if self.from_start or self._has_read else told.st_size
            place = self._positions[path] = _FilePosition(file, begin)
        elif place.file_id != file or told.st_size < place.offset:
            place.file_id, place.offset = file, 0
        return place
