"""Inputs of kind `parquet`: a long table with the columns time, signal, value and one per label, or a wide table.

A wide table has a column for each metric. Files that a controller records have another layout, read by
`adapters.formats.wide_parquet`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.formats import wide_parquet
from skewscope.adapters.formats.bounds import SAMPLES
from skewscope.adapters.formats.compression import report_bytes
from skewscope.adapters.formats.openmetrics import MAX_SECONDS, concat_blocks
from skewscope.adapters.formats.openmetrics_grammar import MAX_LABELS
from skewscope.adapters.inputs.column_roles import (
    PRESENT,
    ROWS_OF_SAMPLE,
    ColumnSamples,
    OnlyGpuCheck,
    TableOrigin,
    assign_roles,
    find_origin,
    is_training_epoch,
)
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.inputs.table_layout import LONG_COLUMNS, TableLayout, find_layout, long_batches
from skewscope.adapters.mapping.entities import UnmappedError
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem, suggest_name

ROWS = 1 << 17
MAX_GROUP_BYTES = 2 << 30
MAX_CODES = 1 << 20
"""Numbers that are renumbered through a table; more are sorted."""
COLUMNS = LONG_COLUMNS
MAX_COLUMNS = 4096


@dataclass
class LongTableReader:
    """Reads one Parquet file and caches the targets of its label texts."""

    file: str
    source: Input
    registry: SeriesRegistry
    resolver: MetricResolver | None
    targets: dict[tuple[str | None, ...], list[tuple[int, float]]] = field(default_factory=dict)
    origin: TableOrigin | None = None
    """Where the table is from, in order to take columns by the words of their names."""
    note: str = ""
    """What is assumed of its columns."""

    def input_error(self, column: str, found: str, expected: str, hint: str = "") -> InputError:
        """Returns the error of a column."""
        return InputError([Problem(self.file, 0, column, found, expected, hint)])


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of the table.

    Raises:
        InputError: the file is not a Parquet file, or has other columns.
    """
    # Loaded only for Parquet inputs.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = LongTableReader(recording.display_path(source.path), source, registry, names)
    try:
        with pq.ParquetFile(recording.resolve_path(source.path)) as file:
            if wide_parquet.is_wide(file.schema_arrow.names):
                return _read_wide(file, recording, table)
            table.origin = TableOrigin(table.file, dict(source.labels), names)
            parts = _long_parts(file, table, pa.types)
            whole = concat_blocks([block for batch, labels in parts for block in read_batch(batch, labels, table)])
            if table.note:
                registry.warnings.append(f"{source.path}: {table.note}")
            return whole
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        text = " ".join(str(error).split())[:200]
        raise table.input_error("", f"no readable Parquet ({text})", "a whole Parquet file") from None


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether a file is a Parquet file."""
    return head.startswith(b"PAR1")


def scan(source: Input, recording: Recording) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields metric and labels of the series of a table, as often as they occur; none of a controller's file.

    Raises:
        InputError: the file is not a Parquet file, or has other columns.
    """
    table = LongTableReader(recording.display_path(source.path), source, SeriesRegistry(), None)
    table.origin = find_origin(source, recording)
    for batch, names in _open_parts(recording.resolve_path(source.path), table):
        yield from scan_batch(batch, names)


def explain(source: Input, recording: Recording) -> str:
    """Returns what is assumed of the columns of a table, and why some are not taken; '' where nothing is."""
    table = LongTableReader(recording.display_path(source.path), source, SeriesRegistry(), None)
    table.origin = find_origin(source, recording)
    next(_open_parts(recording.resolve_path(source.path), table), None)
    return table.note


def _open_parts(path: Path, table: LongTableReader) -> Iterator[tuple[Any, list[str]]]:
    """Yields what scans need of a table in the long layout; nothing of a controller's file."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(path) as file:
            if not wide_parquet.is_wide(file.schema_arrow.names):
                yield from _long_parts(file, table, pa.types, values=False)
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        text = " ".join(str(error).split())[:200]
        raise table.input_error("", f"no readable Parquet ({text})", "a whole Parquet file") from None


def scan_batch(batch: Any, labels: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields metric and labels of each series of a batch."""
    if batch.num_rows:
        for signal, *values in distinct_texts(batch, ["signal", *labels])[1]:
            yield signal or "", {name: value for name, value in zip(labels, values, strict=True) if value}


def _long_parts(
    file: Any, table: LongTableReader, types: Any, *, values: bool = True
) -> Iterator[tuple[Any, list[str]]]:
    """Yields batches in the long layout with the names of their labels; without `values` only what scans need."""
    schema = file.schema_arrow
    if len(set(schema.names)) < len(schema.names):
        raise table.input_error("", "two columns of one name", "a name of its own for each")

    def is_number(name: str) -> bool:
        return bool(types.is_integer(schema.field(name).type) or types.is_floating(schema.field(name).type))

    # A column that holds one value takes a few bytes for any number of rows.
    SAMPLES.check(table.file, file.metadata.num_rows, "Cut it into shorter ones.")
    layout = None if {"signal", "value"} & set(schema.names) else find_layout(schema.names, is_number)
    if layout is None:
        labels = _check_schema(file, table, types)
        columns = [*(COLUMNS if values else ["signal"]), *labels]
        for batch in _report_batches(file.iter_batches(batch_size=ROWS, columns=columns), file, table):
            yield batch, labels
        return
    if len(schema.names) > MAX_COLUMNS:
        raise table.input_error("", f"{len(schema.names)} columns", f"at most {MAX_COLUMNS} columns")
    SAMPLES.check(table.file, file.metadata.num_rows * len(layout.metrics), "Cut it into shorter ones.")
    yield from _wide_parts(file, layout, table, is_number)


def _wide_parts(
    file: Any, layout: TableLayout, table: LongTableReader, is_number: Callable[[str], bool]
) -> Iterator[tuple[Any, list[str]]]:
    """Yields batches of a wide table in the long layout, with the names of their labels."""
    assert table.origin
    check: OnlyGpuCheck | None = None
    for number, batch in enumerate(_report_batches(file.iter_batches(batch_size=ROWS), file, table)):
        if not number:
            samples = _sample_columns(batch.slice(0, ROWS_OF_SAMPLE), is_number)
            if is_training_epoch(layout.time, samples):
                raise table.input_error(layout.time, "epochs of a training", "a column of times")
            layout, table.note, check = assign_roles(layout, batch.schema.names, samples, table.origin)
        timed = _convert_times(batch, layout)
        if check:
            check_rows(check, timed, layout)
        yield from ((part, layout.label_names) for part in long_batches(timed, layout))
    if check:
        check.finish()


def _sample_columns(batch: Any, is_number: Callable[[str], bool]) -> ColumnSamples:
    def numbers(name: str) -> F64:
        values = batch.column(name).cast("float64", safe=False).to_numpy(zero_copy_only=False)
        return np.asarray(values[np.isfinite(values)], np.float64)

    def texts(name: str) -> list[str]:
        words = batch.column(name).to_pylist()
        return [_to_text(word) for word in words if word is not None and word == word]  # noqa: PLR0124 - no NaN

    return ColumnSamples(is_number, numbers, texts)


def _convert_times(batch: Any, layout: TableLayout) -> Any:
    """Returns a batch whose times are seconds where they are numbers in another unit."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    place = batch.schema.get_field_index(layout.time)
    column = batch.column(place)
    if not layout.time_divisor or str(column.type).startswith("timestamp"):
        return batch
    columns = list(batch.columns)
    columns[place] = pc.divide(column.cast("float64", safe=False), layout.time_divisor)
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def check_rows(check: OnlyGpuCheck, batch: Any, layout: TableLayout) -> None:
    """Adds the times and nodes of a batch to a check."""
    time = np.asarray(batch.column(layout.time).to_numpy(zero_copy_only=False))
    names = [name for name in layout.labels if layout.renames.get(name, name) in PRESENT["node"]]
    if batch.num_rows:
        check.add(time, *(distinct_texts(batch, names) if names else (np.zeros(len(time), np.intp), [()])))


def _report_batches(batches: Iterable[Any], file: Any, table: LongTableReader) -> Iterator[Any]:
    """Yields the batches, and reports the bytes that their rows stand for."""
    per_row = Path(table.file).stat().st_size / max(file.metadata.num_rows, 1)
    for batch in batches:
        batch.validate(full=True)  # texts may be no UTF-8, which is known only as they are read
        yield batch
        report_bytes(round(per_row * batch.num_rows))


def _read_wide(file: Any, recording: Recording, table: LongTableReader) -> Block:
    """Returns the samples of a controller's file between start and end of the recording."""
    begin = -np.inf if recording.start is None else recording.start
    end = np.inf if recording.end is None else recording.end
    wide = wide_parquet.WideTableReader(table.file, table.registry, begin, end)
    return concat_blocks(list(wide.read_blocks(file)))


def _check_schema(file: Any, table: LongTableReader, types: Any) -> list[str]:
    """Checks the columns and returns those that are labels."""
    schema, metadata = file.schema_arrow, file.metadata
    if len(schema.names) > MAX_LABELS:
        raise table.input_error(
            "", f"{len(schema.names)} columns", f"at most {MAX_LABELS}", "A wide table? Write it long."
        )
    problems = [p for name in COLUMNS if (p := _check_column(schema, name, table, types))]
    labels = [name for name in schema.names if name not in COLUMNS]
    problems += [p for name in labels if (p := _check_label(schema.field(name).type, name, table, types))]
    if problems:
        raise InputError(problems)
    largest = max((metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups)), default=0)
    if largest > MAX_GROUP_BYTES:
        raise table.input_error("", f"a row group of {largest} bytes", f"at most {MAX_GROUP_BYTES}")
    return labels


def _check_column(schema: Any, name: str, table: LongTableReader, types: Any) -> Problem | None:
    if name not in schema.names:
        hint = suggest_name(name, schema.names)
        return Problem(table.file, 0, name, "no such column", f"the columns {', '.join(COLUMNS)}", hint)
    kind = schema.field(name).type
    number = types.is_integer(kind) or types.is_floating(kind)
    text = types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind)
    wanted = {
        "time": (number or types.is_timestamp(kind), "seconds since 1970, or timestamps"),
        "signal": (text, "text"),
        "value": (number or types.is_boolean(kind), "numbers"),
    }[name]
    return None if wanted[0] else Problem(table.file, 0, name, f"a column of {kind}", wanted[1])


def _check_label(kind: Any, name: str, table: LongTableReader, types: Any) -> Problem | None:
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return Problem(table.file, 0, name, f"a column of {kind}", "a label: text or whole numbers")
    if types.is_floating(kind):
        return Problem(table.file, 0, name, f"a column of {kind}", "a label", "A wide table? Write it long.")
    return None


def read_batch(batch: Any, labels: list[str], table: LongTableReader) -> Iterator[Block]:
    """Yields the samples of a batch of rows, one block per target that a row may have."""
    if not batch.num_rows:
        return
    time, value = _read_times(batch.column("time"), table), _read_floats(batch.column("value"))
    row_of, texts = distinct_texts(batch, ["signal", *labels])
    targets = [_targets_of(text, labels, table) for text in texts]
    for n in range(max(map(len, targets))):
        number = np.array([each[n][0] if len(each) > n else -1 for each in targets], np.int32)[row_of]
        scale = np.array([each[n][1] if len(each) > n else 1.0 for each in targets])[row_of]
        wanted = number >= 0
        yield Block(time[wanted], number[wanted], (value * scale)[wanted])


def distinct_texts(batch: Any, columns: list[str]) -> tuple[NDArray[np.intp], list[tuple[str | None, ...]]]:
    """Returns [row] the number of its combination of texts, and the combinations."""
    codes = np.zeros(batch.num_rows, np.int64)
    words = []
    for name in columns:
        column = batch.column(name)
        if not hasattr(column, "dictionary"):
            column = column.cast("string").dictionary_encode()
        words.append([None if word is None else str(word) for word in column.dictionary.to_pylist()] + [None])
        index = column.indices.fill_null(len(words[-1]) - 1).to_numpy(zero_copy_only=False)
        # Renumbering combinations after each column keeps the numbers small for any number of columns.
        codes = _renumber(codes * len(words[-1]) + index)
    first = np.empty(int(codes.max()) + 1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    picked = batch.take(first)
    texts = zip(*(_to_texts(picked.column(name)) for name in columns), strict=True)
    return codes.astype(np.intp), list(texts)


def _renumber(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns [row] the place of each code among the distinct ones in order."""
    top = int(codes.max()) + 1
    if top > MAX_CODES:
        return np.unique(codes, return_inverse=True)[1].reshape(-1)
    seen = np.zeros(top, bool)
    seen[codes] = True
    return (np.cumsum(seen) - 1)[codes]


def _to_texts(column: Any) -> list[str | None]:
    return [None if word is None else _to_text(word) for word in column.to_pylist()]


def _to_text(word: object) -> str:
    return str(word).lower() if isinstance(word, bool) else str(word)


def _targets_of(text: tuple[str | None, ...], labels: list[str], table: LongTableReader) -> list[tuple[int, float]]:
    """Returns number and scale of each series that a combination of texts maps to."""
    found = table.targets.get(text)
    if found is None:
        found = table.targets[text] = _resolve(text[0] or "", dict(zip(labels, text[1:], strict=True)), table)
    return found


def _resolve(signal: str, labels: Mapping[str, str | None], table: LongTableReader) -> list[tuple[int, float]]:
    given = {name: value for name, value in labels.items() if value}
    names, registry = table.resolver, table.registry
    assert names is not None
    try:
        mapped = names.resolve(names.metric_name(signal, given), given, dict(table.source.labels))
    except UnmappedError as reason:
        registry.ignore(signal, f"{reason} {names.suggest(signal)}".strip() if "." in signal else str(reason))
        return []
    return [(registry.register(m.key, m.rank), m.scale) for m in mapped]


def _read_times(column: Any, table: LongTableReader) -> F64:
    """Returns [row] float64 seconds since 1970."""
    if column.null_count:
        raise table.input_error("time", f"{column.null_count} rows without a time", "a time in each row")
    if str(column.type).startswith("timestamp"):
        seconds = column.cast("timestamp[ns]").cast("int64").to_numpy(zero_copy_only=False) / 1e9
    else:
        seconds = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
    if not (np.isfinite(seconds) & (np.abs(seconds) < MAX_SECONDS)).all():
        hint = "Milliseconds or nanoseconds? Write seconds, or a column of timestamps."
        raise table.input_error("time", "a time some thousands of years away", "seconds since 1970", hint)
    return np.asarray(seconds, np.float64)


def _read_floats(column: Any) -> F64:
    return np.asarray(column.cast("float64", safe=False).to_numpy(zero_copy_only=False), np.float64)


READER = InputReader(
    "Parquet table of samples",
    read,
    recognise,
    scan=scan,
    explain=explain,
)
