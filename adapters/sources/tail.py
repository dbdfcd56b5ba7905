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

MOST_FILES = 256
MOST_AT_ONCE = 4 << 20
"""Bytes that are read of a file at a time; of more, the oldest are passed over."""


@dataclass(slots=True)
class _Place:
    """How far a file was read."""

    file: tuple[int, int]
    """Device and inode."""
    at: int


@dataclass
class Tail:
    """The files that a path names, whose last part may hold `*`."""

    path: Path
    from_start: bool = False
    """Whether what is there at the first look is read too."""
    most: int = MOST_AT_ONCE
    skipped: int = 0
    """Bytes that were passed over."""
    _places: dict[Path, _Place] = field(default_factory=dict)
    _looked: bool = False

    def read(self) -> Iterator[tuple[Path, bytes]]:
        """What was written to each file since the last time.

        Raises:
            OSError: there is no such file, or it may not be read.
        """
        pattern = "*" in self.path.name
        paths = sorted(self.path.parent.glob(self.path.name))[:MOST_FILES] if pattern else [self.path]
        for path in paths:
            try:
                if data := self._of(path):
                    yield path, data
            except OSError:
                # Of many files one may go away while it is looked at.
                if not pattern:
                    raise
        self._looked = True
        for gone in self._places.keys() - set(paths):
            del self._places[gone]

    def _of(self, path: Path) -> bytes:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            told = os.fstat(handle)
            if not stat.S_ISREG(told.st_mode):
                raise OSError(f"{path} is no plain file")
            place = self._place(path, told)
            if told.st_size - place.at > self.most:
                self.skipped += told.st_size - self.most - place.at
                place.at = told.st_size - self.most
            data = os.pread(handle, self.most, place.at)
            place.at += len(data)
            return data
        finally:
            with suppress(OSError):
                os.close(handle)

    def _place(self, path: Path, told: os.stat_result) -> _Place:
        place, file = self._places.get(path), (told.st_dev, told.st_ino)
        if place is None:
            begin = 0 if self.from_start or self._looked else told.st_size
            place = self._places[path] = _Place(file, begin)
        elif place.file != file or told.st_size < place.at:
            place.file, place.at = file, 0
        return place
