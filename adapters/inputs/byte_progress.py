"""Progress of reading inputs, by the bytes that were read of them, in this process and in others."""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, TypeVar

from skewscope.adapters.formats.compression import observe_bytes

Progress = Callable[[str, float], None]
"""Receives the input that is read, and the share of all bytes that is done."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass
class ByteProgress:
    """Reports how much of all inputs is read."""

    report: Progress
    total: int
    """Bytes of all inputs, as they are stored."""
    folder: str = "."
    """What an input is called that is all of its folder."""
    _done: int = 0
    """Bytes of inputs that are finished."""
    _path: str = ""
    _size: int = 0
    _read: int = 0
    """Bytes read of the current input; some are read twice."""

    def begin(self, path: str, size: int) -> None:
        """Begins an input that is read in this process."""
        self._path, self._size, self._read = path, size, 0

    def add(self, count: int) -> None:
        """Adds bytes that were read of the current input."""
        self._read += count
        self._tell(self._path, self._done + min(self._read, self._size))

    def finish(self, path: str, size: int) -> None:
        """Ends an input."""
        self._done += size
        self._size = 0
        self._tell(path, self._done)

    def tell_counter(self, counter: "SharedCounter") -> None:
        """Reports what other processes read."""
        self._tell("inputs", max(self._done, counter.value))

    def _tell(self, path: str, done: int) -> None:
        self.report(self.folder if path == "." else path, min(done / max(self.total, 1), 1.0))


class SharedCounter:
    """A number of bytes that several processes add to; pickled only while a process starts."""

    def __init__(self) -> None:
        self._number: Any = get_context("spawn").Value("q", 0)

    @property
    def value(self) -> int:
        """The number."""
        return int(self._number.value)

    def add(self, count: int) -> None:
        """Adds bytes."""
        with self._number.get_lock():
            self._number.value += count


def count_bytes(counter: SharedCounter, work: Callable[[T], R], item: T) -> R:
    """Returns `work(item)`, and adds the bytes of the files that it reads to a counter."""
    with observe_bytes(counter.add):
        return work(item)
