"""Snapshots of a shard and the log of what it got since, as files of its own folder.

The folder belongs to the user of the process, and nobody else may write to it. A record that was cut short, because the
process ended within a write, ends the log: its sender was not told that it arrived.
"""

import fcntl
import json
import logging
import os
import shutil
import struct
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

import zstandard

from skewscope.adapters.fleet.state_codec import Buffer, StateError
from skewscope.kb.problems import SkewscopeError

TICK, ROWS = 1, 2
"""Kinds of records: the end of a tick; a body of rows."""
MAGIC = b"skewscope shard 1\n"
LOCK_WAIT = 15.0
"""Seconds that a new process waits for the end of the one before it."""
MAX_HEADER = 1 << 24
MAX_RECORD = 1 << 26
MAX_PART = 1 << 48
"""Bytes of a part, for which there is room in a header."""
KEPT_SNAPSHOTS = 2
TOPOLOGY_FILE = "topology.yaml"
log = logging.getLogger(__name__)

_HEAD = struct.Struct("<BdII")


class JournalRecord(NamedTuple):
    """One record of the log."""

    kind: int
    time: float
    """Seconds since 1970: the end of a tick, or when rows arrived."""
    payload: bytes


@dataclass
class Journal:
    """The files of one shard, which this process alone uses. Call `open` first."""

    folder: Path
    fingerprint: str
    """Names the code and fleet for which snapshots are valid."""
    log_bytes: int = 0
    """Bytes of the present log."""
    _number: int = -1
    """Of the newest snapshot; its log has the same."""
    _log: IO[bytes] | None = None
    _lock: IO[bytes] | None = field(default=None, repr=False)

    def open(self) -> None:
        """Creates the folder if there is none, and locks it.

        Raises:
            SkewscopeError: others may write to it, or another process uses it.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = self.folder.stat()
        if known.st_uid != os.geteuid() or known.st_mode & 0o022:
            raise SkewscopeError(f"{self.folder}: others may write to it. Make it a folder of this user alone (0700).")
        self._lock = (self.folder / "lock").open("wb")
        begun = time.monotonic()
        while not _try_lock(self._lock):
            if time.monotonic() - begun > LOCK_WAIT:
                self._lock.close()
                raise SkewscopeError(f"{self.folder}: another process uses it.")
            time.sleep(0.05)

    def close(self) -> None:
        """Closes the files."""
        for file in (self._log, self._lock):
            if file is not None:
                file.close()
        self._log = self._lock = None

    def snapshots(self) -> Iterator[int]:
        """Yields the numbers of the snapshots, the newest first."""
        found = (path.name.removeprefix("snapshot-") for path in self.folder.glob("snapshot-*"))
        yield from sorted((int(text) for text in found if text.isdecimal()), reverse=True)

    def read_snapshot(self, number: int) -> list[Buffer]:
        """Returns the buffers of a snapshot; all are writable.

        Raises:
            StateError: it is damaged, or was made by other code or for another fleet.
        """
        try:
            with self._path("snapshot", number).open("rb") as file:
                return _read_buffers(file, self.fingerprint)
        except (OSError, ValueError, KeyError, TypeError, zstandard.ZstdError) as error:
            raise StateError(f"{self._path('snapshot', number)}: {error}") from error

    def records_since(self, number: int) -> Iterator[JournalRecord]:
        """Yields the records since a snapshot, and goes on after the last one; what was cut short is removed."""
        numbers = sorted(int(p.name.removeprefix("log-")) for p in self.folder.glob("log-*"))
        later = [n for n in numbers if n >= number]
        for n in later:
            with self._path("log", n).open("rb") as file:
                end = yield from _read_records(file)
            if n == later[-1]:
                os.truncate(self._path("log", n), end)
        self._open_log(later[-1] if later else number)

    def append(self, kind: int, at: float, payload: bytes = b"") -> None:
        """Adds a record; it survives the end of this process from now on.

        Raises:
            OSError: it cannot be written.
        """
        assert self._log is not None
        head = _HEAD.pack(kind, at, len(payload), zlib.crc32(payload))
        # One write: a record of which only a part is written is known by its length or checksum.
        self._log.write(head + payload)
        self._log.flush()
        self.log_bytes += len(head) + len(payload)

    def write_snapshot(self, buffers: Sequence[Buffer]) -> None:
        """Writes a snapshot and begins its log; older files are removed but for those of the snapshot before.

        Raises:
            OSError: it cannot be written; the log goes on.
        """
        number = self._number + 1
        draft = self.folder / "draft"
        with draft.open("wb") as file:
            _write_buffers(file, buffers, self.fingerprint)
        draft.replace(self._path("snapshot", number))
        self._open_log(number)
        for kind in ("snapshot", "log"):
            for path in self.folder.glob(f"{kind}-*"):
                text = path.name.removeprefix(f"{kind}-")
                if text.isdecimal() and int(text) <= number - KEPT_SNAPSHOTS:
                    path.unlink(missing_ok=True)

    def keep_topology(self, text: Callable[[], str]) -> None:
        """Keeps the topology of the newest snapshot; its text takes long, and is made only where it lacks."""
        path = self.folder / TOPOLOGY_FILE
        head = f"# {self.fingerprint}"
        if self.read_topology().partition("\n")[0] == head:
            return
        try:
            draft = self.folder / "draft"
            draft.write_text(f"{head}\n{text()}")
            draft.replace(path)
        except OSError as error:
            log.warning("%s: %s; after a change of the topology this shard begins anew", path, error)

    def read_topology(self) -> str:
        """Returns the topology that was kept last, as YAML; '' where none can be read."""
        try:
            return (self.folder / TOPOLOGY_FILE).read_text()
        except (OSError, ValueError):
            return ""

    def clear(self) -> None:
        """Removes all snapshots and logs: they are of no use to this code and fleet."""
        for path in (*self.folder.glob("snapshot-*"), *self.folder.glob("log-*")):
            path.unlink(missing_ok=True)
        self._number = -1

    def remove(self) -> None:
        """Closes and removes the folder: the shard is no more."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _open_log(self, number: int) -> None:
        if self._log is not None:
            self._log.close()
        self._number = number
        path = self._path("log", number)
        self._log = path.open("ab", buffering=0)
        self.log_bytes = path.stat().st_size

    def _path(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}-{number:08d}"


def _try_lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_records(file: IO[bytes]) -> Generator[JournalRecord, None, int]:
    """Yields the records of a log up to the first damaged one; returns where that begins."""
    end = 0
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        kind, at, size, checksum = _HEAD.unpack(head)
        payload = file.read(size) if size <= MAX_RECORD else b""
        if len(payload) != size or zlib.crc32(payload) != checksum or kind not in (TICK, ROWS):
            break
        end += len(head) + size
        yield JournalRecord(kind, at, payload)
    return end


def _write_buffers(file: IO[bytes], buffers: Sequence[Buffer], fingerprint: str) -> None:
    # Most of a state is windows that are not full: it packs to a twentieth, faster than it could be written. Each part
    # is written as soon as it is packed, and the header, for which there is room before them, in the end.
    pack, checksum, packed = zstandard.ZstdCompressor(level=1).compress, 0, []
    sizes = [len(buffer) for buffer in buffers]
    room = len(_encode_header(fingerprint, sizes, [MAX_PART] * len(sizes), MAX_PART))
    file.write(MAGIC + room.to_bytes(4, "little") + b" " * room)
    for buffer in buffers:
        part = pack(buffer)
        packed.append(len(part))
        checksum = zlib.crc32(part, checksum)
        file.write(part)
    file.seek(len(MAGIC) + 4)
    file.write(_encode_header(fingerprint, sizes, packed, checksum).ljust(room))


def _encode_header(fingerprint: str, sizes: Sequence[int], packed: Sequence[int], checksum: int) -> bytes:
    header = {"fingerprint": fingerprint, "sizes": sizes, "packed": packed, "checksum": checksum}
    return json.dumps(header).encode()


def _read_buffers(file: IO[bytes], fingerprint: str) -> list[Buffer]:
    if file.read(len(MAGIC)) != MAGIC:
        raise StateError("no snapshot of a shard")
    size = int.from_bytes(file.read(4), "little")
    header = json.loads(file.read(min(size, MAX_HEADER)))
    if header["fingerprint"] != fingerprint:
        raise StateError("a snapshot of other code, rules or topology")
    found: list[Buffer] = []
    checksum = 0
    for length, unpacked in zip(header["packed"], header["sizes"], strict=True):
        part = file.read(length)
        checksum = zlib.crc32(part, checksum)
        found.append(_unpack_part(part, unpacked))
    if checksum != header["checksum"]:
        raise StateError("a damaged snapshot")
    return found


def _unpack_part(part: bytes, size: int) -> bytearray:
    """Returns the content of a part in memory of its own: arrays are written to."""
    # Into its place: a copy would double the time.
    found, done = bytearray(size), 0
    with memoryview(found) as view, zstandard.ZstdDecompressor().stream_reader(part) as reader:
        while done < size and (count := reader.readinto(view[done:])):
            done += count
    if done != size:
        raise StateError(f"{done} bytes instead of {size}")
    return found
