"""Small files of the kernel, read again and again: kept open, and what cannot be read is told once."""

import logging
import os
from collections import Counter, OrderedDict
from contextlib import suppress
from pathlib import Path

log = logging.getLogger("skewscope.agent")

MAX_BYTES = 1 << 16
"""Of one file."""
MAX_OPEN = 512
PERMISSION_ERRORS = (PermissionError,)


class ReadFailures:
    """What could not be read: said once, counted always."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def note(self, what: str, why: object) -> None:
        """Counts a failure; the first of its kind is logged."""
        if what not in self.counts:
            log.warning("cannot read %s: %s; it is left out, and this is not said again", what, why)
        self.counts[what] += 1


class KernelFiles:
    """Files below a folder, which stands for the root of a file system."""

    def __init__(self, root: Path, troubles: ReadFailures) -> None:
        self._root = root
        self._failures = troubles
        self._open: OrderedDict[str, int] = OrderedDict()

    def names(self, folder: str) -> list[str]:
        """What lies in a folder, in order; nothing where there is none."""
        try:
            return sorted(entry.name for entry in (self._root / folder).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            self._failures.note(folder, error.strerror)
            return []

    def text(self, path: str) -> str:
        """What a file holds, without the blanks around it; '' where it is missing or cannot be read now."""
        for _ in range(2):
            handle = self._handle(path)
            if handle < 0:
                return ""
            try:
                return os.pread(handle, MAX_BYTES, 0).decode("utf-8", "replace").strip()
            except OSError as error:
                # The device may have gone and come again: its new file is another one.
                self._forget(path)
                if isinstance(error, PERMISSION_ERRORS):
                    self._failures.note(path, error.strerror)
                    return ""
        return ""

    def link(self, path: str) -> str:
        """Where a symbolic link points, as it says itself; '' where there is none."""
        try:
            return str((self._root / path).readlink())
        except OSError:
            return ""

    def number(self, path: str) -> float | None:
        """The whole number that a file holds; None where it holds none."""
        text = self.text(path)
        try:
            return float(int(text))
        except ValueError:
            return None

    def close(self) -> None:
        """Closes all of them."""
        for path in list(self._open):
            self._forget(path)

    def _handle(self, path: str) -> int:
        known = self._open.get(path)
        if known is not None:
            self._open.move_to_end(path)
            return known
        try:
            handle = os.open(self._root / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return -1
        except OSError as error:
            self._failures.note(path, error.strerror)
            return -1
        self._open[path] = handle
        if len(self._open) > MAX_OPEN:
            self._forget(next(iter(self._open)))
        return handle

    def _forget(self, path: str) -> None:
        with suppress(OSError, KeyError):
            os.close(self._open.pop(path))
