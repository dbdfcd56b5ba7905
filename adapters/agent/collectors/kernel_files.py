"""Small kernel files that are read repeatedly: kept open, with read failures logged once."""

import logging
import os
from collections import Counter, OrderedDict
from contextlib import suppress
from pathlib import Path

log = logging.getLogger("skewscope.agent")

MAX_BYTES = 1 << 16
"""Maximum bytes of one file."""
MAX_OPEN = 512
PERMISSION_ERRORS = (PermissionError,)


class ReadFailures:
    """Read failures: logged once, always counted."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def note(self, what: str, why: object) -> None:
        """Counts a failure; logs the first of its kind."""
        if what not in self.counts:
            log.warning("cannot read %s: %s; it is omitted, and further failures are only counted", what, why)
        self.counts[what] += 1


class KernelFiles:
    """Kernel files below a folder that stands for the root of the file system."""

    def __init__(self, root: Path, troubles: ReadFailures) -> None:
        self._root = root
        self._failures = troubles
        self._open: OrderedDict[str, int] = OrderedDict()

    def names(self, folder: str) -> list[str]:
        """Returns the names in a folder, sorted; empty if it does not exist."""
        try:
            return sorted(entry.name for entry in (self._root / folder).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            self._failures.note(folder, error.strerror)
            return []

    def text(self, path: str) -> str:
        """Returns the stripped content of a file; '' if it is missing or cannot be read."""
        for _ in range(2):
            handle = self._handle(path)
            if handle < 0:
                return ""
            try:
                return os.pread(handle, MAX_BYTES, 0).decode("utf-8", "replace").strip()
            except OSError as error:
                # The device may have been removed and added again: its file is a new one.
                self._forget(path)
                if isinstance(error, PERMISSION_ERRORS):
                    self._failures.note(path, error.strerror)
                    return ""
        return ""

    def link(self, path: str) -> str:
        """Returns the target of a symbolic link, unresolved; '' if there is none."""
        try:
            return str((self._root / path).readlink())
        except OSError:
            return ""

    def number(self, path: str) -> float | None:
        """Returns the integer in a file; None if there is none."""
        text = self.text(path)
        try:
            return float(int(text))
        except ValueError:
            return None

    def close(self) -> None:
        """Closes all files."""
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
