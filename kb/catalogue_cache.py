"""Caches a valid catalogue as one file, so that the next process need not parse and check it again.

It cannot be stale: it contains the digest of every entry and of the code that reads them, and is ignored when either
differs. Where it cannot be read or written, the catalogue is parsed as usual.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from skewscope.kb.entry_kinds import KINDS, MAX_BYTES, MAX_FILES, VERSION_FILE

MAX_CACHED_BYTES = 64 << 20
"""Largest size of a cache file, in bytes."""

RawCatalogue = Mapping[str, Any]
"""`version`, and the fields of each entry by kind and id."""


def read(folder: Path) -> RawCatalogue | None:
    """Returns the cached entries of a folder in its present state; None where there are none."""
    place = _cache_path(folder)
    try:
        if place is None or place.stat().st_size > MAX_CACHED_BYTES:
            return None
        head, _, body = place.read_bytes().partition(b"\n")
        if head.decode("ascii", "replace") != _header(digest(folder), body):
            return None
        found: RawCatalogue = json.loads(body)
    except (OSError, ValueError, RecursionError):
        return None
    return found


def write(folder: Path, state: str, written: RawCatalogue) -> None:
    """Writes the entries that were valid when the folder's digest was `state`."""
    place = _cache_path(folder)
    if place is None:
        return
    import tempfile  # noqa: PLC0415 - 5 ms, and only after a change

    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        body = json.dumps(written, ensure_ascii=False, separators=(",", ":")).encode()
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=".catalogue-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_header(state, body).encode() + b"\n" + body)
            # Another process reads the old file or the new one, never half of one.
            Path(name).replace(place)
        except OSError:
            Path(name).unlink(missing_ok=True)


def digest(folder: Path) -> str:
    """Returns a digest of every entry and of the code and schemas that read them."""
    found = blake2b(digest_size=20)
    for name, data in _iter_files(folder):
        found.update(f"{name}\0{len(data)}\0".encode())
        found.update(data)
    return f"{found.hexdigest()}-{_code_digest()}"


@cache
def _code_digest() -> str:
    found = blake2b(digest_size=20)
    here = os.path.dirname(__file__)  # noqa: PTH120 - many files, few milliseconds
    for folder, ending in ((here, ".py"), (f"{here}/lints", ".py"), (f"{here}/schema", ".json")):
        for name, data in _read_contents(folder, [name for name in _list_names(folder) if name.endswith(ending)]):
            found.update(f"{name}\0{len(data)}\0".encode())
            found.update(data)
    return found.hexdigest()


def _iter_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the version file and every file in the folders of the kinds, entries or not."""
    with suppress(FileNotFoundError), (folder / VERSION_FILE).open("rb") as file:
        yield VERSION_FILE, file.read(MAX_BYTES + 1)
    base = os.fspath(folder)
    for kind in KINDS:
        place = f"{base}/{kind}"
        for name, data in _read_contents(place, _list_names(place)[: MAX_FILES + 1]):
            yield f"{kind}/{name}", data


def _list_names(folder: str) -> list[str]:
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208 - as above


def _read_contents(folder: str, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yields names and contents; system calls, since `open` is slow for hundreds of files. Does not wait for pipes."""
    for name in names:
        handle = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NONBLOCK)
        try:
            yield name, os.read(handle, MAX_BYTES + 1)
        finally:
            os.close(handle)


def _header(state: str, body: bytes) -> str:
    return f"skewscope catalogue {state} {blake2b(body, digest_size=20).hexdigest()}"


def _cache_path(folder: Path) -> Path | None:
    """Returns the cache file of a folder; None where the user has no cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    try:
        root = Path(base) if base else Path.home() / ".cache"
    except RuntimeError:
        return None
    if not root.is_absolute():
        return None
    name = blake2b(os.fsencode(folder.resolve()), digest_size=8).hexdigest()
    return root / "skewscope" / f"catalogue-{name}.json"
