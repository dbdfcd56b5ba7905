"""Records every sample of the sources, for later replay.

One Parquet file per source and time span. A row is what arrived together: its time, the number of its columns, and all
values as one list. The columns are described in rows of their own before use (`series`, a JSON list of [signal, kind,
entity, selector, rank] from number `first` on), so that every file can be read alone. A file is renamed when it is
complete; a crash loses only the unfinished file.
"""

import errno
import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

import numpy as np
import zstandard

from skewscope.adapters.controller.store_lock import ProcessLock, create_private
from skewscope.adapters.inputs.recording import RECORDING_FILE
from skewscope.adapters.sources.common.base import SeriesColumns, SourceBatch
from skewscope.kb.problems import InputError, Problem

FILE_SPAN = 60
"""Seconds per file."""
MAX_GAP = 86400.0
"""Seconds without a recording that count for the age of a file at most; a tenth of the maximum age, if that is less."""
MAX_BUFFERED = 500_000
"""Values, or units of eight bytes of text, buffered per row group."""
FILE_SUFFIX = ".wide.parquet"
TOPOLOGY_FILE = "topology.yaml"
PART_SUFFIX = ".part"
LOCK_FILE = ".lock"
"""What a controller has locked while it records in a folder."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a disk that is full or read-only: the diagnosis goes on, and the recording when there is room."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordingRetention:
    """Retention of a recording."""

    max_age: float = 86400.0
    """Seconds."""
    max_bytes: int = 50 << 30
    """Total bytes of all files."""


class _SeriesTexts:
    """Compressed JSON of columns: long for a fleet, and expensive to serialise for each file."""

    def __init__(self) -> None:
        self._packed: WeakKeyDictionary[SeriesColumns, tuple[int, bytes]] = WeakKeyDictionary()

    def text_of(self, columns: SeriesColumns, first: int, size: int) -> str:
        """Returns the columns from `first` to `size` as JSON."""
        kept, packed = self._packed.get(columns, (0, b""))
        if first == 0 and kept == size:
            return zstandard.ZstdDecompressor().decompress(packed).decode()
        pairs = zip(columns.keys[first:size], columns.ranks[first:size], strict=True)
        series = [[k.signal, k.kind, k.entity, k.selector, rank] for k, rank in pairs]
        text = json.dumps(series, separators=(",", ":"), ensure_ascii=False)
        if first == 0:
            packed = zstandard.ZstdCompressor(level=1).compress(text.encode())
            # The compressor over-allocates its output fifty times.
            self._packed[columns] = size, bytes(memoryview(packed))
        return text


@dataclass
class _RecordingFile:
    """One file being written."""

    path: Path
    """Its path when complete."""
    writer: Any
    texts: _SeriesTexts
    numbers: dict[int, int] = field(default_factory=dict)
    """Number of columns in this file, by their id()."""
    tables: list[SeriesColumns] = field(default_factory=list)
    announced: list[int] = field(default_factory=list)
    """Number of announced series, by number of columns."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    values: int = 0

    def add(self, batch: SourceBatch) -> None:
        """Adds a batch to the buffer."""
        table = self._table(batch.columns)
        if isinstance(batch.time, float | int):
            self._row(table, float(batch.time), batch.numbers, batch.value)
            return
        if not len(batch.time):
            return  # A page without samples; np.split would still return one part.
        times, which = np.unique(batch.time, return_inverse=True)
        order = np.argsort(which, kind="stable")
        cuts = np.searchsorted(which[order], np.arange(1, len(times)))
        for time, at in zip(times.tolist(), np.split(order, cuts), strict=True):
            numbers = at.astype(np.int32) if batch.numbers is None else batch.numbers[at]
            self._row(table, time, numbers, batch.value[at])

    def _row(self, table: int, time: float, numbers: Any, values: Any) -> None:
        self.rows.append({"time": time, "table": table, "numbers": numbers, "values": values})
        self.values += len(values)

    def _table(self, columns: SeriesColumns) -> int:
        """Returns the number of columns, announcing new series."""
        table = self.numbers.get(id(columns))
        if table is None:
            table = self.numbers[id(columns)] = len(self.tables)
            self.tables.append(columns)
            self.announced.append(0)
        size, first = len(columns.ranks), self.announced[table]
        if size > first:
            text = self.texts.text_of(columns, first, size)
            self.rows.append({"table": table, "first": first, "series": text})
            self.values += len(text) // 8
            self.announced[table] = size
        return table

    def flush(self) -> None:
        """Writes the buffer as a row group."""
        import pyarrow as pa  # noqa: PLC0415 - only who records pays for loading it

        if not self.rows:
            return
        rows, self.rows, self.values = self.rows, [], 0
        columns = [
            pa.array([row.get("time") for row in rows], pa.float64()),
            pa.array([row["table"] for row in rows], pa.int32()),
            pa.array([row.get("first") for row in rows], pa.int32()),
            pa.array([row.get("series") for row in rows], pa.string()),
            _list_column([row.get("numbers") for row in rows], pa.int32(), pa),
            _list_column([row.get("values") for row in rows], pa.float64(), pa),
        ]
        self.writer.write_batch(pa.record_batch(columns, schema=build_schema()))
        pa.default_memory_pool().release_unused()

    def close(self) -> None:
        """Completes the file."""
        self.flush()
        self.writer.close()
        self.path.with_name(self.path.name + PART_SUFFIX).replace(self.path)


def build_schema() -> Any:
    """Returns the schema of a file."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.schema(
        [
            ("time", pa.float64()),
            ("table", pa.int32()),
            ("first", pa.int32()),
            ("series", pa.string()),
            ("numbers", pa.list_(pa.int32())),
            ("values", pa.list_(pa.float64())),
        ]
    )


def _list_column(found: Sequence[Any], kind: Any, pa: Any) -> Any:
    """Builds a list column without a Python object per value."""
    sizes = np.array([0 if each is None else len(each) for each in found], np.int64)
    ends = pa.array(np.concatenate(([0], np.cumsum(sizes))).astype(np.int32), pa.int32())
    there = [each for each in found if each is not None]
    flat = np.concatenate(there) if there else np.empty(0)
    nothing = pa.array([each is None for each in found], pa.bool_())
    return pa.ListArray.from_arrays(ends, pa.array(flat, kind), mask=nothing)


class Recorder:
    """Writes a recording folder. A full disk costs the rest of a file's span only."""

    def __init__(
        self, folder: Path, topology: Path | None, retention: RecordingRetention | None = None, topology_text: str = ""
    ) -> None:
        """Opens a folder, creating it if needed.

        Args:
            folder: where the recording is.
            topology: file of the topology.
            retention: what is kept.
            topology_text: the topology, where it is not that of the file.

        Raises:
            InputError: the folder cannot be written.
        """
        self.folder = folder
        self.retention = retention or RecordingRetention()
        self.trouble = ""
        """Why nothing is recorded at the moment; '' while recording."""
        self._files: dict[str, _RecordingFile] = {}
        self._texts = _SeriesTexts()
        self._span: int | None = None
        self._topology, self._topology_text = topology, topology_text
        self._lock = ProcessLock(folder / LOCK_FILE)
        self._ready = False
        """Whether the folder is there with what a recording needs."""
        try:
            self._prepare()
        except OSError as error:
            if error.errno in NO_ROOM:
                self._set_trouble(f"{folder} cannot be written: {error.strerror or error}")
                return
            found = f"no folder that can be written ({error.strerror or error})"
            raise InputError([Problem(str(folder), 0, "", found, "a folder for recordings, with room")]) from None

    def _prepare(self) -> None:
        """Makes the folder, without what an earlier controller left unfinished."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._take_folder()
        for left in self.folder.glob(f"*{PART_SUFFIX}"):
            left.unlink()
        create_private(self.folder / TOPOLOGY_FILE)
        if self._topology is None or self._topology_text:
            (self.folder / TOPOLOGY_FILE).write_text(self._topology_text, encoding="utf-8")
        else:
            shutil.copyfile(self._topology, self.folder / TOPOLOGY_FILE)
        self._describe()
        self._ready = True

    def _take_folder(self) -> None:
        """Keeps other controllers from the folder.

        Raises:
            OSError: there is no room, or another one records there (BlockingIOError).
        """
        try:
            self._lock.acquire()
        except BlockingIOError as error:
            raise BlockingIOError(f"another controller records there ({error})") from None
        except OSError as error:
            if error.errno in NO_ROOM:
                raise  # Some storage knows no locks, which is no reason not to record.

    def record(self, t: float, batches: Mapping[str, Sequence[SourceBatch]]) -> None:
        """Records the batches of the tick that ends at `t`."""
        span = int(t // FILE_SPAN)
        try:
            if self._span is not None and span != self._span:
                self._rotate(t)
                self._set_trouble("")
            if not self.trouble:
                self._record_batches(span, batches)
        except OSError as error:
            self._abandon_files(error)
        self._span = span

    def _record_batches(self, span: int, handed: Mapping[str, Sequence[SourceBatch]]) -> None:
        for name, batches in handed.items():
            if not batches:
                continue
            file = self._files.get(name) or self._open_file(name, span)
            for batch in batches:
                file.add(batch)
                if file.values >= MAX_BUFFERED:
                    file.flush()

    def close(self) -> None:
        """Completes all files, and leaves the folder to others."""
        try:
            if self._ready:
                self._close_files()
                self._describe()
        except OSError as error:
            self._abandon_files(error)
        self._lock.release()

    def _close_files(self) -> None:
        while self._files:
            _, file = self._files.popitem()
            file.close()

    def _abandon_files(self, error: OSError) -> None:
        """Deletes unfinished files to free space; the next span starts anew."""
        for file in self._files.values():
            with suppress(OSError):
                file.writer.close()
        self._files.clear()
        for left in self.folder.glob(f"*{PART_SUFFIX}") if self._ready else ():
            with suppress(OSError):
                left.unlink()
        self._set_trouble(f"{self.folder} cannot be written: {error.strerror or error}")

    def _set_trouble(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.error("%s; the rest of this minute is not recorded", trouble)
        elif self.trouble and not trouble:
            log.info("recording to %s continues", self.folder)
        self.trouble = trouble

    def _open_file(self, name: str, span: int) -> _RecordingFile:
        import pyarrow.parquet as pq  # noqa: PLC0415

        stem = f"{span * FILE_SPAN}-{quote(name, safe='')}"
        path = self.folder / f"{stem}{FILE_SUFFIX}"
        again = 1
        while path.exists():
            path, again = self.folder / f"{stem}.{again}{FILE_SUFFIX}", again + 1
        # Byte-split values that hardly change from row to row compress well.
        part = path.with_name(path.name + PART_SUFFIX)
        create_private(part)
        writer = pq.ParquetWriter(
            part,
            build_schema(),
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
        )
        file = self._files[name] = _RecordingFile(path, writer, self._texts)
        return file

    def _rotate(self, t: float) -> None:
        if not self._ready:
            self._prepare()
        self._close_files()
        self._prune(t)
        self._describe()

    def _prune(self, t: float) -> None:
        """Deletes files that are too old, then the oldest ones until the total is below the limit.

        The age of a file is the time that was recorded since; a longer gap may be a jump of the clock.
        """
        left, age, at = 0, 0.0, t
        longest = min(MAX_GAP, self.retention.max_age / 10)
        # A later time than now is of a clock that was set back since: older than all since then.
        oldest_first = sorted(self.folder.glob(f"*{FILE_SUFFIX}"), key=lambda p: (_begin_time(p) <= t, _begin_time(p)))
        for path in reversed(oldest_first):
            begin = _begin_time(path)
            age += min(abs(at - begin), longest)
            at, left = begin, left + path.stat().st_size
            if left > self.retention.max_bytes or age > self.retention.max_age + FILE_SPAN:
                path.unlink()

    def _describe(self) -> None:
        """Writes `recording.yaml`, so that the folder can be replayed at any time."""
        paths = sorted(self.folder.glob(f"*{FILE_SUFFIX}"))
        inputs = [f"  - {{kind: parquet, path: {json.dumps(path.name)}}}" for path in paths]
        lines = ["version: 1", f"topology: {TOPOLOGY_FILE}", "inputs:" if inputs else "inputs: []", *inputs]
        new = self.folder / f"{RECORDING_FILE}{PART_SUFFIX}"
        create_private(new)
        new.write_text("\n".join([*lines, ""]), encoding="utf-8")
        new.replace(self.folder / RECORDING_FILE)


def _begin_time(path: Path) -> float:
    """Returns the start time in a file's name."""
    text = path.name.partition("-")[0]
    return float(text) if text.isdecimal() else 0.0
