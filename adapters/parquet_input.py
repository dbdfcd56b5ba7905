"""Inputs of kind `parquet`: a long table with the columns time, signal, value, and one for each label.

What a controller records is wide, and read by `adapters.parquet_wide`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters import parquet_wide
from skewscope.adapters.entities import Nowhere
from skewscope.adapters.grammar import MOST_LABELS
from skewscope.adapters.names import Intake, Names
from skewscope.adapters.openmetrics import MOST_SAMPLES, MOST_SECONDS, joined_as_read
from skewscope.adapters.recording import Input, Recording
from skewscope.engine.feed import F64, Block
from skewscope.kb.problems import InputError, Problem, nearest

ROWS = 1 << 17
MOST_GROUP_BYTES = 2 << 30
COLUMNS = ("time", "signal", "value")


@dataclass
class Table:
    """A Parquet file being read, and what its label texts turned out to be."""

    file: str
    source: Input
    intake: Intake
    names: Names
    known: dict[tuple[str | None, ...], list[tuple[int, float]]] = field(default_factory=dict)

    def fault(self, column: str, found: str, expected: str, hint: str = "") -> InputError:
        """The error of a column; a Parquet file has no lines."""
        return InputError([Problem(self.file, 0, column, found, expected, hint)])


def read(source: Input, recording: Recording, intake: Intake, names: Names) -> Block:
    """The samples of the table.

    Raises:
        InputError: it is no Parquet file, or its columns are not these.
    """
    # Only who reads Parquet pays for loading it.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = Table(recording.shown(source.path), source, intake, names)
    try:
        with pq.ParquetFile(recording.file(source.path)) as file:
            if parquet_wide.is_wide(file.schema_arrow.names):
                return _wide(file, recording, table)
            labels = _check(file, table, pa.types)
            batches = file.iter_batches(batch_size=ROWS, columns=[*COLUMNS, *labels])
            return joined_as_read([block for batch in batches for block in _blocks(batch, labels, table)])
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        text = " ".join(str(error).split())[:200]
        raise table.fault("", f"no readable Parquet ({text})", "a whole Parquet file") from None


def _wide(file: Any, recording: Recording, table: Table) -> Block:
    """The samples of a controller's file that lie between start and end of the recording."""
    begin = -np.inf if recording.start is None else recording.start
    end = np.inf if recording.end is None else recording.end
    wide = parquet_wide.Wide(table.file, table.intake, begin, end)
    return joined_as_read(list(wide.blocks(file)))


def _check(file: Any, table: Table, types: Any) -> list[str]:
    """The columns that are labels."""
    schema, metadata = file.schema_arrow, file.metadata
    if len(set(schema.names)) < len(schema.names):
        raise table.fault("", "two columns of one name", "a name of its own for each")
    if len(schema.names) > MOST_LABELS:
        raise table.fault("", f"{len(schema.names)} columns", f"at most {MOST_LABELS}", "A wide table? Write it long.")
    problems = [p for name in COLUMNS if (p := _column(schema, name, table, types))]
    labels = [name for name in schema.names if name not in COLUMNS]
    problems += [p for name in labels if (p := _label(schema.field(name).type, name, table, types))]
    if problems:
        raise InputError(problems)
    if metadata.num_rows > MOST_SAMPLES:
        raise table.fault("", f"{metadata.num_rows} rows", f"at most {MOST_SAMPLES}", "Cut it into shorter ones.")
    largest = max((metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups)), default=0)
    if largest > MOST_GROUP_BYTES:
        raise table.fault("", f"a row group of {largest} bytes", f"at most {MOST_GROUP_BYTES}")
    return labels


def _column(schema: Any, name: str, table: Table, types: Any) -> Problem | None:
    if name not in schema.names:
        hint = nearest(name, schema.names)
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


def _label(kind: Any, name: str, table: Table, types: Any) -> Problem | None:
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return Problem(table.file, 0, name, f"a column of {kind}", "a label: text or whole numbers")
    if types.is_floating(kind):
        return Problem(table.file, 0, name, f"a column of {kind}", "a label", "A wide table? Write it long.")
    return None


def _blocks(batch: Any, labels: list[str], table: Table) -> Iterator[Block]:
    """The samples of some rows, a block for each target that a row may have."""
    if not batch.num_rows:
        return
    time, value = _times(batch.column("time"), table), _floats(batch.column("value"))
    row_of, texts = _distinct(batch, ["signal", *labels])
    targets = [_targets(text, labels, table) for text in texts]
    for n in range(max(map(len, targets))):
        number = np.array([each[n][0] if len(each) > n else -1 for each in targets], np.int32)[row_of]
        scale = np.array([each[n][1] if len(each) > n else 1.0 for each in targets])[row_of]
        wanted = number >= 0
        yield Block(time[wanted], number[wanted], (value * scale)[wanted])


def _distinct(batch: Any, columns: list[str]) -> tuple[NDArray[np.intp], list[tuple[str | None, ...]]]:
    """For each row the number of its combination of texts, and the combinations."""
    codes = np.zeros(batch.num_rows, np.int64)
    words = []
    for name in columns:
        column = batch.column(name)
        if not hasattr(column, "dictionary"):
            column = column.cast("string").dictionary_encode()
        words.append([None if word is None else str(word) for word in column.dictionary.to_pylist()] + [None])
        index = column.indices.fill_null(len(words[-1]) - 1).to_numpy(zero_copy_only=False)
        # Counting combinations anew after each column keeps the numbers small, however many columns there are.
        codes = np.unique(codes * len(words[-1]) + index, return_inverse=True)[1].reshape(-1)
    first = np.unique(codes, return_index=True)[1]
    picked = batch.take(first)
    texts = zip(*(_words(picked.column(name)) for name in columns), strict=True)
    return codes.astype(np.intp), list(texts)


def _words(column: Any) -> list[str | None]:
    return [None if word is None else _word(word) for word in column.to_pylist()]


def _word(word: object) -> str:
    return str(word).lower() if isinstance(word, bool) else str(word)


def _targets(text: tuple[str | None, ...], labels: list[str], table: Table) -> list[tuple[int, float]]:
    """Number and scale of each series that a combination of texts stands for."""
    found = table.known.get(text)
    if found is None:
        found = table.known[text] = _resolved(text[0] or "", dict(zip(labels, text[1:], strict=True)), table)
    return found


def _resolved(signal: str, labels: Mapping[str, str | None], table: Table) -> list[tuple[int, float]]:
    given = {name: value for name, value in labels.items() if value}
    names, intake = table.names, table.intake
    try:
        mapped = names.resolve(names.metric(signal, given), given, dict(table.source.labels))
    except Nowhere as reason:
        intake.ignore(signal, f"{reason} {names.hint(signal)}".strip() if "." in signal else str(reason))
        return []
    return [(intake.ranked(m.key, m.rank), m.scale) for m in mapped]


def _times(column: Any, table: Table) -> F64:
    """Seconds since 1970."""
    if column.null_count:
        raise table.fault("time", f"{column.null_count} rows without a time", "a time in each row")
    if str(column.type).startswith("timestamp"):
        seconds = column.cast("timestamp[ns]").cast("int64").to_numpy(zero_copy_only=False) / 1e9
    else:
        seconds = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
    if not (np.isfinite(seconds) & (np.abs(seconds) < MOST_SECONDS)).all():
        hint = "Milliseconds or nanoseconds? Write seconds, or a column of timestamps."
        raise table.fault("time", "a time some thousands of years away", "seconds since 1970", hint)
    return np.asarray(seconds, np.float64)


def _floats(column: Any) -> F64:
    return np.asarray(column.cast("float64", safe=False).to_numpy(zero_copy_only=False), np.float64)
