"""Caches a value as one file in the user's cache folder, with the digest of all that it was built from.

It cannot be stale: it is ignored where that digest differs. Where it cannot be read or written, nothing is cached.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

MAX_CACHED_BYTES = 64 << 20
"""Largest size of a cache file, in bytes."""


@dataclass(frozen=True, slots=True)
class CacheFile:
    """The cache file of what is built from a folder."""

    kind: str
    """What it holds, in one word."""
    folder: Path

    def read(self, state: Callable[[], str]) -> Any:
        """Returns the cached value, made of JSON types, if it was built in the present state; None for none.

        `state` returns the digest of all that the value is built from; it is only called where there is a file.
        """
        place = self._path()
        try:
            if place is None or place.stat().st_size > MAX_CACHED_BYTES:
                return None
            head, _, body = place.read_bytes().partition(b"\n")
            if head.decode("ascii", "replace") != self._header(state(), body):
                return None
            return json.loads(body)
        except (OSError, ValueError, RecursionError):
            return None

    def write(self, state: str, value: Any) -> None:
        """Writes a value of JSON types that was built when the digest was `state`."""
        place = self._path()
        if place is None:
            return
        import tempfile  # noqa: PLC0415 - 5 ms, and only after a change

        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
            handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{self.kind}-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(self._header(state, body).encode() + b"\n" + body)
                # Another process reads the old file or the new one, never half of one.
                Path(name).replace(place)
            except OSError:
                Path(name).unlink(missing_ok=True)

    def _header(self, state: str, body: bytes) -> str:
        return f"skewscope {self.kind} {state} {blake2b(body, digest_size=20).hexdigest()}"

    def _path(self) -> Path | None:
        """Returns the file; None where the user has no cache folder."""
        base = os.environ.get("XDG_CACHE_HOME") or ""
        try:
            root = Path(base) if base else Path.home() / ".cache"
        except RuntimeError:
            return None
        if not root.is_absolute():
            return None
        name = blake2b(os.fsencode(self.folder.resolve()), digest_size=8).hexdigest()
        return root / "skewscope" / f"{self.kind}-{name}.json"
