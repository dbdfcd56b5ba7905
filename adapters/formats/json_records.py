"""JSON objects of a text that grows or is cut: each begins a line, and a broken one ends at the next."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MAX_RECORD = 1 << 20
"""Maximum characters of a record; verbose ones contain a trace."""
DECODER = json.JSONDecoder()


@dataclass
class JsonRecordParser:
    """Parses JSON objects from chunks of text, each object on one line or several."""

    broken: int = 0
    _rest: str = ""

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yields the objects completed by this chunk."""
        text, at = self._rest + data.decode("utf-8", "replace"), 0
        while (at := text.find("{", at)) >= 0:
            try:
                found, at = DECODER.raw_decode(text, at)
            except (ValueError, RecursionError):
                # Objects start at the beginning of a line: a new start means that the previous object is broken.
                after = text.find("\n{", at)
                if after < 0 and len(text) - at <= MAX_RECORD:
                    break
                self.broken += 1
                at = after + 1 if after >= 0 else len(text)
                continue
            yield found
        self._rest = text[at:] if at >= 0 else ""
