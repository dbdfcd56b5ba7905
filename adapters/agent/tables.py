"""Arranges series in tables by period, so that rows have few gaps. A table only grows.

A series that two sources deliver belongs to the first one for good: two counters of the same thing differ, and a switch
would look like a burst or a reset.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from skewscope.adapters.agent.collectors.counter_names import Sample
from skewscope.adapters.formats.row_protocol import MAX_COLUMNS, MAX_TABLES, MAX_TEXT
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.arrays import F64

_NONE = np.empty(0)
STALE_PERIODS = 3
"""Consecutive missed rows after which the last one is stale."""


@dataclass
class RowTable:
    """Series that are sent together, and their newest values."""

    number: int
    keys: list[SeriesKey] = field(default_factory=list)
    time: float = 0.0
    values: F64 = field(default_factory=lambda: _NONE)
    period: float = 10.0
    """Seconds between its last two rows."""

    def is_stale(self, now: float) -> bool:
        """Returns whether its newest row is too old to be current."""
        return now - self.time > STALE_PERIODS * max(self.period, 1.0)


class RowTables:
    """All tables of an agent, by period. Threads may fill different tables concurrently."""

    def __init__(self) -> None:
        self.series_left_out = 0
        """Series above the limit, or with invalid names."""
        self._column_count = 0
        """Series in all tables: a controller limits them per agent."""
        self._lock = threading.Lock()
        self._tables: dict[str, RowTable] = {}
        self._columns: dict[SeriesKey, tuple[str, int, int]] = {}
        """Source, table and column of each series; a negative column for an omitted series."""

    def fill(self, name: str, time: float, sources: Iterable[tuple[str, Iterable[Sample]]]) -> RowTable | None:
        """Fills the newest row of a table from its sources; returns None if there are no samples."""
        reported = [(owner, *sample) for owner, samples in sources for sample in samples]
        if not reported:
            return None
        with self._lock:
            table = self._table(name)
            if table is None:
                return None
            found = [(self._column(table, owner, key), value) for owner, key, value in reported]
            values = np.full(len(table.keys), np.nan)
            for column, value in found:
                if column >= 0 and np.isnan(values[column]):
                    values[column] = value
            table.period = time - table.time if table.time else table.period
            table.time, table.values = time, values
        return table

    def snapshot(self) -> list[RowTable]:
        """Returns a snapshot of every table, by number."""
        with self._lock:
            return [replace(t, keys=t.keys[: len(t.values)]) for t in self._tables.values()]

    def _table(self, name: str) -> RowTable | None:
        found = self._tables.get(name)
        if found is None and len(self._tables) < MAX_TABLES:
            found = self._tables[name] = RowTable(len(self._tables))
        return found

    def _column(self, table: RowTable, owner: str, key: SeriesKey) -> int:
        known = self._columns.get(key)
        if known is None:
            column = len(table.keys)
            if self._column_count >= MAX_COLUMNS or not (_is_valid_name(key.entity) and _is_valid_name(key.selector)):
                column = -1
                self.series_left_out += 1
            else:
                table.keys.append(key)
                self._column_count += 1
            known = self._columns[key] = (owner, table.number, column)
        return known[2] if known[:2] == (owner, table.number) else -1


def _is_valid_name(text: str) -> bool:
    return len(text) <= MAX_TEXT and text.isprintable()
