"""Opens the file of a store: for writing, for reading, or, where nothing can be written, a part of it in memory."""

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from skewscope.adapters.controller.store_index import check_index_room, reserve_index
from skewscope.kb.problems import InputError, Problem

BUSY_TIMEOUT = 5.0
"""Seconds to wait for another writing process."""
MAX_COPIED_BYTES = 256 << 20
"""Size of a file up to which all of it is copied where its log cannot be read in its place."""
MAX_UNFINISHED_BYTES = 1 << 20
"""Size of a file up to which it may be one that was only begun."""
MEMORY_FOLDER = "/dev/shm"  # noqa: S108 - a folder of its own is made in it
FILE_HEADER = b"SQLite format 3\0"
LOG_END = "-wal"
"""What SQLite adds to the name of a file for its log."""
CHECK_STEPS = 100_000
"""Steps of SQLite between two looks at whether a check is to end."""
MIN_FREE_BLOCKS = 64
"""Free blocks of a disk below which it counts as full."""
UNAVAILABLE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
"""What SQLite says where the file may be sound, and the disk is full, read-only or gone."""

Migrations = Sequence[Sequence[str]]
Queries = Sequence[tuple[str, Sequence[str], str]]
"""(table, other tables that the query needs, query of its rows)."""


def open_for_writing(path: Path, migrations: Migrations) -> sqlite3.Connection:
    """Opens a file, which is created if needed, and brings its schema up to date.

    Raises:
        InputError: it was written by a newer version.
        sqlite3.Error: it cannot be written, or is damaged.
    """
    check_index_room(path)
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        reserve_index(path)
        # A tick without news writes nothing, so waiting for the disk costs little.
        connection.execute("PRAGMA synchronous = FULL")
        if migrate(connection, path, migrations):
            # A file whose log is lost then still has its tables, in which what is missing is found.
            with suppress(sqlite3.Error):
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Opens a file for reading only, also on a disk where nothing can be written.

    Raises:
        InputError: there is no such file.
        sqlite3.Error: it cannot be read.
    """
    if not path.is_file():
        raise InputError([Problem(str(path), 0, "", "no such file", "the store of a controller")])
    try:
        return _open_shared(path)
    except sqlite3.Error as error:
        log_file = path.with_name(path.name + LOG_END)
        # Without its log, such a file is that of some earlier time, or none at all.
        if not is_unavailable(error) or (log_file.exists() and log_file.stat().st_size):
            raise
        address = f"{_file_uri(path)}?immutable=1"
        return _open_probed(lambda: sqlite3.connect(address, uri=True, check_same_thread=False))


def is_unfinished(path: Path, migrations: Migrations) -> bool:
    """Returns whether a file is not there, or was begun on a disk without room: small, and without its schema."""
    if not path.is_file():
        return True
    if path.stat().st_size > MAX_UNFINISHED_BYTES:
        return False
    with suppress(sqlite3.Error), closing(open_for_reading(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return bool(version < len(migrations))
    return False


def copy_to_memory(path: Path, migrations: Migrations, queries: Queries) -> sqlite3.Connection:
    """Returns the part of a file that queries select, in memory and with the present schema; none if it is unreadable.

    Raises:
        InputError: it was written by a newer version.
        sqlite3.Error: it is damaged.
    """
    memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for opener in (_open_exclusive, open_for_reading, _open_elsewhere) if path.is_file() else ():
        try:
            with closing(opener(path)) as source:
                _copy_rows(source, memory, (path, migrations), queries)
            break
        except OSError:
            continue
        except sqlite3.Error as error:
            if not is_unavailable(error):
                raise
    migrate(memory, path, migrations)
    return memory


def _copy_rows(
    source: sqlite3.Connection, memory: sqlite3.Connection, schema: tuple[Path, Migrations], queries: Queries
) -> None:
    """Copies what queries select to a database that has the schema of the source; tables that it lacks are left out."""
    path, migrations = schema
    (version,) = source.execute("PRAGMA user_version").fetchone()
    check_version(version, path, migrations)
    migrate(memory, path, migrations[:version])
    tables = {name for (name,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table, needs, query in queries:
        if tables >= {table, *needs}:
            found = source.execute(query)
            marks = ", ".join("?" for _ in found.description)
            memory.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", found)  # noqa: S608


def _open_shared(path: Path) -> sqlite3.Connection:
    """Opens a file for reading beside others: through a read-only descriptor no log can be moved or removed."""
    check_index_room(path)
    address = f"{_file_uri(path)}?mode=ro"
    return _open_probed(lambda: sqlite3.connect(address, timeout=BUSY_TIMEOUT, uri=True, check_same_thread=False))


def _file_uri(path: Path) -> str:
    return f"file:{quote(str(path.absolute()))}"


def _open_exclusive(path: Path) -> sqlite3.Connection:
    """Opens a file without shared memory beside it, for which a full disk has no room; all of it is read."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, check_same_thread=False)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        return connection

    return _open_probed(connect)


def _open_elsewhere(path: Path) -> sqlite3.Connection:
    """Opens a copy of a file and of its log in memory: on a read-only disk a log without an index cannot be read.

    Raises:
        OSError: there is no place for a copy.
    """
    if path.stat().st_size > MAX_COPIED_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    with TemporaryDirectory(dir=MEMORY_FOLDER) as folder:
        copy = Path(folder) / "copy.db"
        for end in ("", LOG_END):
            source = path.with_name(path.name + end)
            if source.exists():
                shutil.copyfile(source, copy.with_name(copy.name + end))
        # An open file outlives its name.
        return _open_exclusive(copy)


def _open_probed(connect: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
    """Returns a connection that can read: SQLite opens a file with the first query only."""
    connection = connect()
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def is_database(path: Path) -> bool:
    """Returns whether a file begins as one of SQLite does, or is empty; also where it cannot be read at present."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(FILE_HEADER)) in (FILE_HEADER, b"")
    return True


def is_unavailable(error: sqlite3.Error) -> bool:
    """Returns whether an error is of the disk, not of the file."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in UNAVAILABLE


def may_come_back(path: Path) -> bool:
    """Returns whether a file that cannot be opened may be writable later: it is there, or its disk has no room."""
    if path.is_file():
        return True
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    is_full = disk.f_bavail < MIN_FREE_BLOCKS or (disk.f_files > 0 and not disk.f_favail)
    return bool(disk.f_flag & os.ST_RDONLY) or is_full


def migrate(connection: sqlite3.Connection, path: Path, migrations: Migrations) -> bool:
    """Brings the schema of a database up to date; returns whether it was older.

    Raises:
        InputError: it was written by a newer version.
        sqlite3.Error: it cannot be written, or is damaged.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    check_version(version, path, migrations)
    for number, statements in enumerate(migrations[version:], version + 1):
        connection.execute("BEGIN IMMEDIATE")
        for statement in statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    return bool(version < len(migrations))


def check_version(version: int, path: Path, migrations: Migrations) -> None:
    """Checks that a file is not newer than the program.

    Raises:
        InputError: it was written by a newer version.
    """
    if version > len(migrations):
        hint = "It was written by a newer Skewscope."
        expected = f"at most {len(migrations)}"
        raise InputError([Problem(str(path), 0, "", f"version {version} of the schema", expected, hint)])


def find_damage(path: Path, is_stopped: Callable[[], bool]) -> str:
    """Returns the first damage of the pages of a file, in a sentence; '' for none. Reads all of it."""
    if not path.is_file():
        return ""
    try:
        with closing(_open_shared(path)) as connection:
            connection.set_progress_handler(lambda: int(is_stopped()), CHECK_STEPS)
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        if is_stopped() or is_unavailable(error):
            return ""
        found = str(error)
    if found == "ok":
        return ""
    line = " ".join(str(found).split())
    return f"the store {path} has damaged pages ({line:.200}); restore a copy of it, or move it away"


def describe_damage(path: Path, error: Exception) -> InputError:
    """Returns the problem of a file that is no usable store."""
    found, hint = (
        f"a file that is not a usable database ({error})",
        "Restore a copy of it, or move it away to start with an empty one.",
    )
    return InputError([Problem(str(path), 0, "", found, "an SQLite file of Skewscope, on a disk with room", hint)])
