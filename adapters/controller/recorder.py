"""Every sample that sources handed over, as a recording that can be played at any time.

One Parquet file a source and span of time. A row is what came together: its time, the number of its columns, and all
values as one list. What the columns are stands in rows of their own before they are used (`series`, a JSON list of
[signal, kind, entity, selector, rank] from number `first` on), so that every file can be read alone. A file gets its
name when it is whole; one that was being written when a controller was killed is lost, and nothing else.
"""

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

from skewscope.adapters.recording import FILE
from skewscope.adapters.sources.base import Batch, Columns
from skewscope.kb.problems import InputError, Problem

SPAN = 60
"""Seconds of a file."""
MOST_BUFFERED = 500_000
"""Values, or as many eights of bytes of text, that wait for a row group of their own."""
ENDING = ".wide.parquet"
TOPOLOGY = "topology.yaml"
PART = ".part"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of a recording is kept."""

    age: float = 86400.0
    """Seconds."""
    size: int = 50 << 30
    """Bytes, of all files."""


class _Texts:
    """What columns are, as it stands in each file: packed, for a fleet's is long, and dear to write anew each time."""

    def __init__(self) -> None:
        self._packed: WeakKeyDictionary[Columns, tuple[int, bytes]] = WeakKeyDictionary()

    def of(self, columns: Columns, first: int, size: int) -> str:
        """Columns `first`... to `size` as JSON."""
        kept, packed = self._packed.get(columns, (0, b""))
        if first == 0 and kept == size:
            return zstandard.ZstdDecompressor().decompress(packed).decode()
        pairs = zip(columns.keys[first:size], columns.ranks[first:size], strict=True)
        series = [[k.signal, k.kind, k.entity, k.selector, rank] for k, rank in pairs]
        text = json.dumps(series, separators=(",", ":"), ensure_ascii=False)
        if first == 0:
            packed = zstandard.ZstdCompressor(level=1).compress(text.encode())
            # What the compressor gives keeps the room that was set aside for it, fifty times of what it needs.
            self._packed[columns] = size, bytes(memoryview(packed))
        return text


@dataclass
class _File:
    """One file while it is written."""

    path: Path
    """Its name once it is whole."""
    writer: Any
    texts: _Texts
    numbers: dict[int, int] = field(default_factory=dict)
    """By the identity of columns: their number in this file."""
    known: list[Columns] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    """How many series of each were announced."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    values: int = 0

    def add(self, batch: Batch) -> None:
        """Takes in a batch; it is written later."""
        table = self._table(batch.columns)
        if isinstance(batch.time, float | int):
            self._row(table, float(batch.time), batch.numbers, batch.value)
            return
        times, which = np.unique(batch.time, return_inverse=True)
        order = np.argsort(which, kind="stable")
        cuts = np.searchsorted(which[order], np.arange(1, len(times)))
        for time, at in zip(times.tolist(), np.split(order, cuts), strict=True):
            numbers = at.astype(np.int32) if batch.numbers is None else batch.numbers[at]
            self._row(table, time, numbers, batch.value[at])

    def _row(self, table: int, time: float, numbers: Any, values: Any) -> None:
        self.rows.append({"time": time, "table": table, "numbers": numbers, "values": values})
        self.values += len(values)

    def _table(self, columns: Columns) -> int:
        """The number of some columns, announced as far as they go."""
        table = self.numbers.get(id(columns))
        if table is None:
            table = self.numbers[id(columns)] = len(self.known)
            self.known.append(columns)
            self.told.append(0)
        size, first = len(columns.ranks), self.told[table]
        if size > first:
            text = self.texts.of(columns, first, size)
            self.rows.append({"table": table, "first": first, "series": text})
            self.values += len(text) // 8
            self.told[table] = size
        return table

    def flush(self) -> None:
        """Writes what waits as a row group."""
        import pyarrow as pa  # noqa: PLC0415 - only who records pays for loading it

        if not self.rows:
            return
        rows, self.rows, self.values = self.rows, [], 0
        columns = [
            pa.array([row.get("time") for row in rows], pa.float64()),
            pa.array([row["table"] for row in rows], pa.int32()),
            pa.array([row.get("first") for row in rows], pa.int32()),
            pa.array([row.get("series") for row in rows], pa.string()),
            _lists([row.get("numbers") for row in rows], pa.int32(), pa),
            _lists([row.get("values") for row in rows], pa.float64(), pa),
        ]
        self.writer.write_batch(pa.record_batch(columns, schema=schema()))
        pa.default_memory_pool().release_unused()

    def close(self) -> None:
        """Makes it whole."""
        self.flush()
        self.writer.close()
        self.path.with_name(self.path.name + PART).replace(self.path)


def schema() -> Any:
    """The columns of a file."""
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


def _lists(found: Sequence[Any], kind: Any, pa: Any) -> Any:
    """A column of lists, without a Python object for each value."""
    sizes = np.array([0 if each is None else len(each) for each in found], np.int64)
    ends = pa.array(np.concatenate(([0], np.cumsum(sizes))).astype(np.int32), pa.int32())
    there = [each for each in found if each is not None]
    flat = np.concatenate(there) if there else np.empty(0)
    nothing = pa.array([each is None for each in found], pa.bool_())
    return pa.ListArray.from_arrays(ends, pa.array(flat, kind), mask=nothing)


class Recorder:
    """Writes a folder that `skewscope replay` plays. A disk that is full costs the rest of a file's span, no more."""

    def __init__(self, folder: Path, topology: Path, retention: Retention | None = None) -> None:
        """Begins in a folder, which is made where it is not there.

        Raises:
            InputError: nothing can be written there.
        """
        self.folder = folder
        self.retention = retention or Retention()
        self.trouble = ""
        """Why nothing is recorded just now; '' while it is."""
        self._files: dict[str, _File] = {}
        self._texts = _Texts()
        self._span: int | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for left in folder.glob(f"*{PART}"):
                left.unlink()
            shutil.copyfile(topology, folder / TOPOLOGY)
            self._describe()
        except OSError as error:
            found = f"no folder that can be written ({error.strerror or error})"
            raise InputError([Problem(str(folder), 0, "", found, "a folder for recordings, with room")]) from None

    def take(self, t: float, handed: Mapping[str, Sequence[Batch]]) -> None:
        """Keeps what sources handed over in the tick that ends at `t`."""
        span = int(t // SPAN)
        try:
            if self._span is not None and span != self._span:
                self._rotate(t)
                self._said("")
            if not self.trouble:
                self._take(span, handed)
        except OSError as error:
            self._given_up(error)
        self._span = span

    def _take(self, span: int, handed: Mapping[str, Sequence[Batch]]) -> None:
        for name, batches in handed.items():
            if not batches:
                continue
            file = self._files.get(name) or self._opened(name, span)
            for batch in batches:
                file.add(batch)
                if file.values >= MOST_BUFFERED:
                    file.flush()

    def close(self) -> None:
        """Makes all files whole."""
        try:
            self._whole()
            self._describe()
        except OSError as error:
            self._given_up(error)

    def _whole(self) -> None:
        while self._files:
            _, file = self._files.popitem()
            file.close()

    def _given_up(self, error: OSError) -> None:
        """What is open could not be read by anybody: it makes room, and the next span begins anew."""
        for file in self._files.values():
            with suppress(OSError):
                file.writer.close()
        self._files.clear()
        for left in self.folder.glob(f"*{PART}"):
            with suppress(OSError):
                left.unlink()
        self._said(f"{self.folder} takes no recording: {error.strerror or error}")

    def _said(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.error("%s; the rest of this minute is not recorded", trouble)
        elif self.trouble and not trouble:
            log.info("%s is recorded to again", self.folder)
        self.trouble = trouble

    def _opened(self, name: str, span: int) -> _File:
        import pyarrow.parquet as pq  # noqa: PLC0415

        stem = f"{span * SPAN}-{quote(name, safe='')}"
        path = self.folder / f"{stem}{ENDING}"
        again = 1
        while path.exists():
            path, again = self.folder / f"{stem}.{again}{ENDING}", again + 1
        # Numbers that hardly change from row to row share their bytes when these are split.
        writer = pq.ParquetWriter(
            path.with_name(path.name + PART), schema(), compression="zstd", compression_level=1, use_dictionary=False
        )
        file = self._files[name] = _File(path, writer, self._texts)
        return file

    def _rotate(self, t: float) -> None:
        self._whole()
        self._prune(t)
        self._describe()

    def _prune(self, t: float) -> None:
        """Drops files that are too old, then the oldest until the rest is small enough."""
        left = 0
        for path in sorted(self.folder.glob(f"*{ENDING}"), key=_begin, reverse=True):
            left += path.stat().st_size
            if left > self.retention.size or _begin(path) + SPAN < t - self.retention.age:
                path.unlink()

    def _describe(self) -> None:
        """Says what is there, so that the folder can be played at any time."""
        paths = sorted(self.folder.glob(f"*{ENDING}"))
        inputs = [f"  - {{kind: parquet, path: {json.dumps(path.name)}}}" for path in paths]
        lines = ["version: 1", f"topology: {TOPOLOGY}", "inputs:" if inputs else "inputs: []", *inputs]
        new = self.folder / f"{FILE}{PART}"
        new.write_text("\n".join([*lines, ""]), encoding="utf-8")
        new.replace(self.folder / FILE)


def _begin(path: Path) -> float:
    """When a file begins, by its name."""
    text = path.name.partition("-")[0]
    return float(text) if text.isdigit() else 0.0
