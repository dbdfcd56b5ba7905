"""Layouts of tables of samples: long (a row is a sample) or wide (a row is a time, a column is a metric)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skewscope.adapters.mapping.column_names import clean_label, is_epoch, is_time, split_name
from skewscope.adapters.mapping.entities import DEVICE_LABELS, GPU_ID_LABELS, GPU_LABELS, NODE_LABELS
from skewscope.adapters.mapping.scales import UNITS

TIME_NAMES = ("time", "timestamp", "ts", "datetime", "date")
SIGNAL_NAMES = ("signal", "metric", "metric_name", "__name__", "name")
VALUE_NAMES = ("value", "val")
LONG_COLUMNS = ("time", "signal", "value")
"""Columns of the long layout besides labels."""
LABEL_COLUMNS = frozenset(
    (
        *("node", "port", "rank", "member", "group", "replica", "pool", "peer", "link", "le", "priority", "engine"),
        *("pod", "model_name", "nranks", "global_rank", "local_rank", "cpu"),
        *(*NODE_LABELS, *DEVICE_LABELS, *GPU_LABELS, *GPU_ID_LABELS),
    )
)
"""Columns that are labels even where they hold numbers."""
EXPECTED = (
    f"a column of times ({', '.join(TIME_NAMES)}), and either columns with names and values (signal, value) or "
    "a column for each metric"
)


@dataclass(frozen=True, slots=True)
class TakenColumn:
    """A column that is taken for a signal by the words of its name."""

    signal: str
    metric: str
    """Canonical metric of the signal."""
    unit: str
    scale: float
    """Factor from its values to the signal's unit."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that no column has."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Which column of a table is what."""

    time: str
    signal: str
    """'' in a wide table."""
    value: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    """Columns that are metrics, in a wide table."""
    time_unit: str = ""
    """Unit in the name of the column of times."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """Labels of columns that have another name."""
    taken: Mapping[str, TakenColumn] = field(default_factory=dict)
    """Columns that are taken for signals by the words of their names."""

    @property
    def time_divisor(self) -> float:
        """How many of the unit of the times are a second; 0 where their name does not say it, or says seconds."""
        return float(round(1 / UNITS[self.time_unit][1])) if self.time_unit not in ("", "s") else 0.0

    @property
    def label_names(self) -> list[str]:
        """Labels of the samples, those of columns first."""
        own = [self.renames.get(name, name) for name in self.labels]
        return [*own, *sorted({name for one in self.taken.values() for name in one.labels})]


def find_layout(names: Sequence[str], is_number: Callable[[str], bool]) -> TableLayout | None:
    """Returns the layout of a table with these columns; None where it holds no samples."""
    lower = {name.strip().lower(): name for name in reversed(names)}
    time = next((lower[name] for name in TIME_NAMES if name in lower), "")
    time_unit = ""
    if not time:
        # An epoch may be one of a training.
        some = sorted(filter(is_time_name, names), key=lambda name: (is_epoch(name), name))
        time = next(iter(some), "")
        time_unit = split_name(time).unit
    value = next((lower[name] for name in VALUE_NAMES if name in lower), "")
    signal = next((lower[name] for name in SIGNAL_NAMES if name in lower), "")
    if not time:
        return None
    if value and signal:
        labels = tuple(name for name in names if name not in (time, signal, value))
        found = TableLayout(time, signal, value, labels, time_unit=time_unit)
    else:
        rest = [name for name in names if name != time]
        metrics = tuple(name for name in rest if name not in LABEL_COLUMNS and is_number(name))
        found = TableLayout(time, "", "", tuple(name for name in rest if name not in metrics), metrics, time_unit)
    # A label of such a name cannot stand beside the column of that name: the table is one of them, and is damaged.
    has_samples = bool(found.signal or found.metrics) and not set(LONG_COLUMNS).intersection(found.labels)
    return found if has_samples else None


def is_time_name(name: str) -> bool:
    """Returns whether a column of this name holds times, by its words where it is none of `TIME_NAMES`."""
    return name.strip().lower() in TIME_NAMES or is_time(split_name(name))


def long_batches(batch: Any, layout: TableLayout) -> Iterator[Any]:
    """Yields batches with the columns time, signal, value and labels: one, or one for each metric of a wide table."""
    import pyarrow as pa  # noqa: PLC0415 - needed for tables only
    import pyarrow.compute as pc  # noqa: PLC0415

    labels = [_read_label(batch.column(name), layout.renames.get(name, "")) for name in layout.labels]
    names = [*LONG_COLUMNS, *layout.label_names]
    if layout.signal:
        columns = [batch.column(name) for name in (layout.time, layout.signal, layout.value)]
        yield pa.RecordBatch.from_arrays([*columns, *labels], names)
        return
    known = LABEL_COLUMNS | layout.renames.keys()
    for metric in layout.metrics:
        values = batch.column(metric)
        taken = layout.taken.get(metric)
        if taken and taken.scale != 1.0:
            values = pc.multiply(values.cast("float64", safe=False), taken.scale)
        signal = _constant(taken.metric if taken else metric, batch.num_rows)
        # What is not known to be a label must not divide a series that is found by the words of its name.
        places = [
            _constant(None, batch.num_rows) if taken and name not in known else column
            for name, column in zip(layout.labels, labels, strict=True)
        ]
        fixed = taken.labels if taken else {}
        places += [_constant(fixed.get(name), batch.num_rows) for name in names[len(LONG_COLUMNS) + len(labels) :]]
        whole = pa.RecordBatch.from_arrays([batch.column(layout.time), signal, values, *places], names)
        yield whole.filter(values.is_valid()) if values.null_count else whole


def _read_label(column: Any, label: str) -> Any:
    """Returns a column of labels, with the values as Skewscope writes them where it has another name."""
    import pyarrow as pa  # noqa: PLC0415

    if not label:
        return column
    texts = column if hasattr(column, "dictionary") else column.cast("string").dictionary_encode()
    clean = [None if text in (None, "nan") else clean_label(label, str(text)) for text in texts.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(texts.indices, pa.array(clean, pa.string()))


def _constant(text: str | None, rows: int) -> Any:
    """Returns a column of one text."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.array([text] * rows, pa.string()).dictionary_encode()
