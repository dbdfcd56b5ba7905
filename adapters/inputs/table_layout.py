"""Layouts of tables of samples: long (a row is a sample) or wide (a row is a time, a column is a metric)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from skewscope.adapters.mapping.entities import DEVICE_LABELS, GPU_ID_LABELS, GPU_LABELS, NODE_LABELS

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
class TableLayout:
    """Which column of a table is what."""

    time: str
    signal: str
    """'' in a wide table."""
    value: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    """Columns that are metrics, in a wide table."""


def find_layout(names: Sequence[str], is_number: Callable[[str], bool]) -> TableLayout | None:
    """Returns the layout of a table with these columns; None where it holds no samples."""
    lower = {name.strip().lower(): name for name in reversed(names)}
    time = next((lower[name] for name in TIME_NAMES if name in lower), "")
    value = next((lower[name] for name in VALUE_NAMES if name in lower), "")
    signal = next((lower[name] for name in SIGNAL_NAMES if name in lower), "")
    if not time:
        return None
    if value and signal:
        found = TableLayout(time, signal, value, tuple(name for name in names if name not in (time, signal, value)))
    else:
        rest = [name for name in names if name != time]
        metrics = tuple(name for name in rest if name not in LABEL_COLUMNS and is_number(name))
        found = TableLayout(time, "", "", tuple(name for name in rest if name not in metrics), metrics)
    # A label of such a name cannot stand beside the column of that name: the table is one of them, and is damaged.
    has_samples = bool(found.signal or found.metrics) and not set(LONG_COLUMNS).intersection(found.labels)
    return found if has_samples else None


def long_batches(batch: Any, layout: TableLayout) -> Iterator[Any]:
    """Yields batches with the columns time, signal, value and labels: one, or one for each metric of a wide table."""
    import pyarrow as pa  # noqa: PLC0415 - needed for tables only

    labels = [batch.column(name) for name in layout.labels]
    names = [*LONG_COLUMNS, *layout.labels]
    if layout.signal:
        columns = [batch.column(name) for name in (layout.time, layout.signal, layout.value)]
        yield pa.RecordBatch.from_arrays([*columns, *labels], names)
        return
    for metric in layout.metrics:
        values = batch.column(metric)
        signal = pa.array([metric] * batch.num_rows).dictionary_encode()
        whole = pa.RecordBatch.from_arrays([batch.column(layout.time), signal, values, *labels], names)
        yield whole.filter(values.is_valid()) if values.null_count else whole
