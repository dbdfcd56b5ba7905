"""Caches a valid catalogue as one file, so that the next process need not parse and check it again.

It cannot be stale: it contains the digest of every entry and of the code that reads them, and is ignored when either
differs. Where it cannot be read or written, the catalogue is parsed as usual.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from skewscope.kb.entry_kinds import KINDS, MAX_BYTES, MAX_FILES, VERSION_FILE
from skewscope.kb.file_cache import CacheFile

RawCatalogue = Mapping[str, Any]
"""`version`, and the fields of each entry by kind and id."""

_states: dict[Path, set[str]] = {}
"""The digests of each folder by which it was read or written."""


def read(folder: Path) -> RawCatalogue | None:
    """Returns the cached entries of a folder in its present state; None where there are none."""
    states: list[str] = []

    def state() -> str:
        states.append(digest(folder))
        return states[-1]

    found: RawCatalogue | None = CacheFile("catalogue", folder).read(state)
    if found is not None:
        _states.setdefault(folder, set()).update(states)
    return found


def write(folder: Path, state: str, written: RawCatalogue) -> None:
    """Writes the entries that were valid when the folder's digest was `state`."""
    _states.setdefault(folder, set()).add(state)
    CacheFile("catalogue", folder).write(state, written)


def known_state(folder: Path) -> str:
    """Returns the one digest by which this process has read a folder; '' for none, or if it has changed since."""
    states = _states.get(folder, set())
    return next(iter(states)) if len(states) == 1 else ""


def digest(folder: Path) -> str:
    """Returns a digest of every entry and of the code and schemas that read them."""
    found = blake2b(digest_size=20)
    add_to_digest(found, _iter_files(folder))
    return f"{found.hexdigest()}-{_code_digest()}"


def add_to_digest(found: blake2b, files: Iterable[tuple[str, bytes]]) -> None:
    """Adds the names and contents of files to a digest."""
    for name, data in files:
        found.update(f"{name}\0{len(data)}\0".encode())
        found.update(data)


@cache
def _code_digest() -> str:
    found = blake2b(digest_size=20)
    here = os.path.dirname(__file__)  # noqa: PTH120 - many files, few milliseconds
    for folder, ending in ((here, ".py"), (f"{here}/lints", ".py"), (f"{here}/schema", ".json")):
        add_to_digest(found, read_contents(folder, [name for name in list_names(folder) if name.endswith(ending)]))
    return found.hexdigest()


def _iter_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the version file and every file in the folders of the kinds, entries or not."""
    with suppress(FileNotFoundError), (folder / VERSION_FILE).open("rb") as file:
        yield VERSION_FILE, file.read(MAX_BYTES + 1)
    base = os.fspath(folder)
    for kind in KINDS:
        place = f"{base}/{kind}"
        for name, data in read_contents(place, list_names(place)[: MAX_FILES + 1]):
            yield f"{kind}/{name}", data


def list_names(folder: str) -> list[str]:
    """Returns the names in a folder, sorted, without hidden ones."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208 - as above


def read_contents(folder: str, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yields names and contents; system calls, since `open` is slow for hundreds of files. Does not wait for pipes."""
    for name in names:
        handle = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NONBLOCK)
        try:
            yield name, os.read(handle, MAX_BYTES + 1)
        finally:
            os.close(handle)
