"""Lines that are appended to log files."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from skewscope.adapters.sources.common.file_tail import FileTail
from skewscope.adapters.sources.common.kernel_events import MAX_LINE


@dataclass
class LogFileReader:
    """Reads log files."""

    tail: FileTail
    _partial_lines: dict[Path, bytes] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yields the lines since the last call.

        Raises:
            OSError: there is no such file.
        """
        for path, data in self.tail.read():
            *lines, rest = (self._partial_lines.get(path, b"") + data).split(b"\n")
            self._partial_lines = {known: text for known, text in self._partial_lines.items() if known.exists()}
            self._partial_lines[path] = rest[-MAX_LINE:]
            for line in lines:
                yield line[:MAX_LINE].decode("utf-8", "replace")

    @property
    def skipped_count(self) -> int:
        """Bytes skipped so far."""
        return self.tail.skipped_bytes

    def close(self) -> None:
        """Does nothing: no file is kept open."""
