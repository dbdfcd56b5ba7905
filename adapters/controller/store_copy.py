"""Copies a store as a whole while it is in use: the open connection reads one state of it."""

import os
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

from skewscope.adapters.controller import audit
from skewscope.adapters.controller.audit_head import AuditHead, read_head, write_head
from skewscope.adapters.controller.store_file import open_for_reading
from skewscope.adapters.controller.store_lock import create_private
from skewscope.kb.problems import InputError, Problem


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


def back_up(store: Path, to: Path) -> AuditHead:
    """Writes a copy of a store to a new file, as one file without a log; returns the newest line of its audit log.

    Raises:
        InputError: there is no such store, it is damaged or lost lines, or the copy cannot be written.
    """
    if to.exists():
        raise InputError([Problem(str(to), 0, "", "a file that is there", "a new name for the copy")])
    head = read_head(store)
    try:
        with closing(open_for_reading(store)) as source:
            draft = write_draft(source, to)
        try:
            newest = _check_copy(draft, store, head)
            write_head(to, newest)
            publish(draft, to)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except (OSError, sqlite3.Error) as error:
        raise InputError([Problem(str(to), 0, "", f"no copy of {store}: {error}", "a sound store, and room")]) from None
    return newest


def _check_copy(draft: Path, store: Path, head: AuditHead | None) -> AuditHead:
    """Checks pages and audit log of a copy, and makes it a single file; returns its newest line."""
    with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
        (result,) = copy.execute("PRAGMA quick_check(1)").fetchone()
        if result != "ok":
            raise sqlite3.DatabaseError(f"damaged pages: {result}")
        newest = AuditHead(*audit.verify_chain(copy, str(store), head))
        copy.execute("PRAGMA journal_mode = DELETE")
    _sync(draft, os.O_RDWR)
    return newest


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
