"""Copies a store as a whole while it is in use: the open connection reads one state of it."""

import os
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

from skewscope.adapters.controller.store_lock import create_private


def write_draft(source: sqlite3.Connection, path: Path) -> Path:
    """Writes all that a connection reads to a new file beside a path, durably; returns the new file.

    Raises:
        OSError: the file cannot be written.
        sqlite3.Error: the same, or the source cannot be read.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    create_private(draft)
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as target:
            # All pages in one step: a single state, however much is written meanwhile.
            source.backup(target, pages=-1)
        _sync(draft, os.O_RDWR)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


def publish(draft: Path, path: Path) -> None:
    """Gives a draft its name, durably, in place of a file that may have it.

    Raises:
        OSError: it could not be renamed.
    """
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes new names in a folder durable.

    Raises:
        OSError: it failed.
    """
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
