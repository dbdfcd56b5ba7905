"""Inputs of kind `csv`: a table of samples with a header, long (time, signal, value, labels) or wide (see `parquet`).

Columns are separated by commas, semicolons or tabs. Times are seconds since 1970 (larger numbers are milliseconds,
microseconds or nanoseconds) or ISO 8601; UTC where they have no zone. Empty cells and `N/A` are no samples.
"""

import codecs
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from skewscope.adapters.formats.bounds import SAMPLES
from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.formats.openmetrics import MAX_SECONDS
from skewscope.adapters.inputs import influx_csv, nvidia_smi, series_table, training_table
from skewscope.adapters.inputs.column_roles import (
    ROWS_OF_SAMPLE,
    ColumnSamples,
    OnlyGpuCheck,
    TableOrigin,
    assign_roles,
    find_origin,
    is_training_epoch,
)
from skewscope.adapters.inputs.parquet import LongTableReader, check_rows, read_batch, scan_batch
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.inputs.request_table import is_request_header
from skewscope.adapters.inputs.table_layout import EXPECTED, TableLayout, find_layout, is_time_name, long_batches
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block, concat_blocks
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem

BLOCK_BYTES = 4 << 20
MAX_COLUMNS = 4096
SEPARATORS = ",;\t"
CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d):([0-5]\d(?:\.\d{1,9})?)")
"""A time of a day without its date."""
EMPTY_CELLS = ["", "N/A", "NA", "n/a", "null", "None", "NaN", "nan", "[N/A]"]
COLUMN_NAME = re.compile(r'(?:"?[^\W\d][^\x00-\x1f"]*"?)?')
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
TIME_UNITS = (1.0, 1e3, 1e6, 1e9)
"""Seconds, milliseconds, microseconds and nanoseconds: numbers of them in a second."""


def recognise(head: bytes, name: str) -> bool:
    """Returns whether a file is a table of samples: by its name, and a header with a column of times."""
    if not re.search(r"\.(?:csv|tsv)(?:\.zst|\.gz)?$", name.lower()):
        return False
    names = _header_names(head)
    has_time = any(map(is_time_name, names))
    # nvidia-smi writes units in brackets; without them its names say what it is.
    if (nvidia_smi.TIME in names and nvidia_smi.recognise(head, name)) or is_request_header(names):
        return False
    if any(each.recognise(head, name) for each in (series_table, influx_csv, training_table)):
        return False
    return has_time and len(names) > 1 and all(COLUMN_NAME.fullmatch(each) for each in names)


def _header_names(head: bytes) -> list[str]:
    line = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].decode("utf-8", "replace").strip()
    return [each.strip().strip('"') for each in line.split(_separator(line))]


def _separator(line: str) -> str:
    return max(SEPARATORS, key=line.count)


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of the table.

    Raises:
        InputError: the file is no such table.
    """
    table = LongTableReader(recording.display_path(source.path), source, registry, names)
    path = recording.resolve_path(source.path)
    state = _CsvFile(table.file, TableOrigin(table.file, dict(source.labels), names))
    blocks = [block for batch, labels in _long_table(path, state) for block in read_batch(batch, labels, table)]
    if state.note:
        registry.warnings.append(f"{source.path}: {state.note}")
    return concat_blocks(blocks)


def scan(source: Input, recording: Recording) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields metric and labels of the series, as often as they occur."""
    state = _CsvFile(recording.display_path(source.path), find_origin(source, recording))
    for batch, labels in _long_table(recording.resolve_path(source.path), state):
        yield from scan_batch(batch, labels)


def explain(source: Input, recording: Recording) -> str:
    """Returns what is assumed of the columns of a table, and why some are not taken; '' where nothing is."""
    state = _CsvFile(recording.display_path(source.path), find_origin(source, recording))
    next(_long_table(recording.resolve_path(source.path), state), None)
    return state.note


@dataclass
class _CsvFile:
    """One file while it is read."""

    file: str
    origin: TableOrigin
    note: str = ""
    """What is assumed of its columns."""
    check: OnlyGpuCheck | None = None
    rows: int = 0
    """Rows before the current batch."""
    problems: list[Problem] = field(default_factory=list)
    """Of rows with a wrong number of columns."""

    def problem(self, row: int, column: str, found: str, expected: str, hint: str = "") -> InputError:
        """Returns the error of a cell; rows count from 0, below the header."""
        return InputError([Problem(self.file, row + 2, column, found, expected, hint)])


class _Utf8Stream(io.RawIOBase):
    """A stream whose bytes are checked as they are read: the parser reports bad ones in a bad row by a traceback."""

    def __init__(self, stream: Any, file: str) -> None:
        super().__init__()
        self._stream, self._file, self._line = stream, file, 1
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data: bytes = self._stream.read(len(buffer))
        try:
            self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            line = self._line + data.count(b"\n", 0, error.start)
            found = f"bytes that are not UTF-8 ({error.reason})"
            hint = "Convert it: `iconv -f LATIN1 -t UTF-8`."
            raise InputError([Problem(self._file, line, "", found, "text in UTF-8", hint)]) from None
        self._line += data.count(b"\n")
        buffer[: len(data)] = data
        return len(data)


def _long_table(path: Path, state: _CsvFile) -> Iterator[tuple[Any, list[str]]]:
    """Yields batches in the long layout, with the names of their labels."""
    import pyarrow as pa  # noqa: PLC0415 - needed for tables only

    layout: TableLayout | None = None
    try:
        with open_stream(path) as stream:
            for batch in _read_batches(stream, state):
                if layout is None:
                    layout = _layout_of(batch, state)
                converted = _convert(batch, layout, state)
                if state.check:
                    check_rows(state.check, converted, layout)
                for part in long_batches(converted, layout):
                    yield part, layout.label_names
                state.rows += batch.num_rows
            if state.check:
                state.check.finish()
    except (pa.ArrowException, UnicodeDecodeError) as error:
        text = " ".join(str(error).split())[:200]
        raise InputError(
            state.problems or [Problem(state.file, 0, "", f"no readable table ({text})", EXPECTED)]
        ) from None


def _read_batches(stream: Any, state: _CsvFile) -> Iterator[Any]:
    """Yields batches whose columns are texts."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.csv as pacsv  # noqa: PLC0415

    head = stream.peek(1 << 16)
    names = _header_names(head)
    if not head.strip() or len(names) > MAX_COLUMNS or len(set(names)) < len(names):
        found = (
            "an empty file"
            if not head.strip()
            else f"a header of {len(names)} columns, {len(set(names))} of them different"
        )
        raise InputError([Problem(state.file, 1, "", found, EXPECTED)])

    def refuse(row: Any) -> str:
        line = row.number or state.rows + 2
        found = f"{row.actual_columns} columns in {row.text[:60]!r}"
        state.problems.append(Problem(state.file, line, "", found, f"{row.expected_columns} columns"))
        return "error"

    line = head.partition(b"\n")[0].decode("utf-8", "replace")
    reader = pacsv.open_csv(
        pa.PythonFile(_Utf8Stream(stream, state.file), mode="r"),
        pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=names, skip_rows=1),
        pacsv.ParseOptions(delimiter=_separator(line), invalid_row_handler=refuse),
        pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=EMPTY_CELLS
        ),
    )
    yield from reader


def _layout_of(batch: Any, state: _CsvFile) -> TableLayout:
    def is_number(name: str) -> bool:
        texts = (
            text for text in batch.column(name).to_pylist() if text is not None and text.strip() not in EMPTY_CELLS
        )
        some = [text for _, text in zip(range(100), texts, strict=False)]
        # A cell that is no number among many that are is an error of its line, not a label.
        return sum(bool(NUMBER.fullmatch(text.strip())) for text in some) * 2 > len(some)

    def numbers(name: str) -> F64:
        texts = (text.strip() for text in head.column(name).to_pylist() if text is not None)
        found = np.array([float(text) for text in texts if NUMBER.fullmatch(text)], np.float64)
        return found[np.isfinite(found)]

    head = batch.slice(0, ROWS_OF_SAMPLE)
    names = batch.schema.names
    found = find_layout(names, is_number)
    samples = ColumnSamples(
        is_number, numbers, lambda name: [t for t in head.column(name).to_pylist() if t is not None]
    )
    if found is None or is_training_epoch(found.time, samples):
        raise InputError([Problem(state.file, 1, "", f"the columns {', '.join(names)[:200]}", EXPECTED)])
    if found.signal:
        return found
    layout, state.note, state.check = assign_roles(found, names, samples, state.origin)
    return layout


def _convert(batch: Any, layout: TableLayout, state: _CsvFile) -> Any:
    """Returns a batch with times and values as numbers; rows without a time are an error."""
    import pyarrow as pa  # noqa: PLC0415

    numbers = [layout.value] if layout.signal else list(layout.metrics)
    columns = {name: batch.column(name) for name in batch.schema.names}
    for name in numbers:
        columns[name] = _to_numbers(columns[name], name, state)
    columns[layout.time] = pa.array(_to_times(columns[layout.time], layout, state))
    if state.rows * len(numbers) > SAMPLES.limit():
        raise InputError([SAMPLES.problem(state.file, hint="Cut it into shorter ones.")])
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _to_numbers(column: Any, name: str, state: _CsvFile) -> Any:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        trimmed = pc.utf8_trim_whitespace(column)
        is_empty = pc.is_in(trimmed, value_set=pa.array(EMPTY_CELLS))
        return pc.if_else(is_empty, pa.scalar(None, pa.string()), trimmed).cast(pa.float64())
    except pa.ArrowInvalid:
        for row, text in enumerate(column.to_pylist()):
            if text is not None and text.strip() not in EMPTY_CELLS and not NUMBER.fullmatch(text.strip()):
                hint = "A label? Name its column as Skewscope does: node, gpu, port, device, rank, ..."
                raise state.problem(
                    state.rows + row, name, f"{text!r:.40}", "a number, or an empty cell", hint
                ) from None
        raise


def _to_times(column: Any, layout: TableLayout, state: _CsvFile) -> Any:
    """Returns [row] float64 seconds since 1970."""
    texts = column.to_pylist()
    seconds: dict[str, float] = {}
    for row, text in enumerate(texts):
        if text is None or (text not in seconds and not _add_time(text, seconds, layout.time_divisor)):
            expected = "seconds since 1970, or a date with a time (2026-11-21T17:30:00Z)"
            raise state.problem(state.rows + row, layout.time, f"{text!r:.40}" if text else "no time", expected)
    return np.array([seconds[text] for text in texts], np.float64)


def _add_time(text: str, seconds: dict[str, float], divisor: float) -> bool:
    """Adds the time of a text, a number by `divisor` (0: in the unit of its size); returns whether it is one."""
    bare = text.strip()
    if NUMBER.fullmatch(bare):
        number = float(bare)
        units = (divisor,) if divisor else TIME_UNITS
        unit = next((unit for unit in units if number / unit < MAX_SECONDS), 0.0)
        if unit and number >= 0:
            seconds[text] = number / unit
        return text in seconds
    if clock := CLOCK.fullmatch(bare):
        # Without a date, days are counted from 1970 on.
        hour, minute, second = clock.groups()
        seconds[text] = 3600.0 * int(hour) + 60.0 * int(minute) + float(second)
        return True
    with suppress(ValueError, OverflowError):
        when = datetime.fromisoformat(bare.replace("/", "-"))
        seconds[text] = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    return text in seconds


READER = InputReader(
    "CSV table of samples",
    read,
    recognise,
    scan=scan,
    explain=explain,
    has_metrics=True,
)
