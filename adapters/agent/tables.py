"""Series laid out in tables by their rhythm, so that a row has few gaps. A table only grows.

What two sources deliver is taken from the one that had it first, for good: two counters of the same thing differ, and
to go from one to the other would look like a burst or a reset.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from skewscope.adapters.agent.collectors.counter_names import Sample
from skewscope.adapters.formats.row_protocol import MAX_COLUMNS, MAX_TABLES, MAX_TEXT
from skewscope.engine.ingest.feed import F64, SeriesKey

_NONE = np.empty(0)
STALE_PERIODS = 3
"""Rows missed in turn before the last one is no longer told."""


@dataclass
class RowTable:
    """Series that are told together, and their newest numbers."""

    number: int
    keys: list[SeriesKey] = field(default_factory=list)
    time: float = 0.0
    values: F64 = field(default_factory=lambda: _NONE)
    period: float = 10.0
    """Seconds between its last two rows."""

    def is_stale(self, now: float) -> bool:
        """Whether its newest row is too old to be called the present."""
        return now - self.time > STALE_PERIODS * max(self.period, 1.0)


class RowTables:
    """All tables of an agent, by rhythm. Several threads may fill tables, each its own."""

    def __init__(self) -> None:
        self.series_left_out = 0
        """Series for which there was no room, or whose names nobody would take."""
        self._column_count = 0
        """Series in all tables: a controller takes so many of one agent."""
        self._lock = threading.Lock()
        self._tables: dict[str, RowTable] = {}
        self._columns: dict[SeriesKey, tuple[str, int, int]] = {}
        """Owner, table and column of each series; a series that has no place has a column below nought."""

    def fill(self, name: str, time: float, sources: Iterable[tuple[str, Iterable[Sample]]]) -> RowTable | None:
        """A table with what its sources tell at one time as its newest row; None where that is nothing."""
        told = [(owner, *sample) for owner, samples in sources for sample in samples]
        if not told:
            return None
        with self._lock:
            table = self._table(name)
            if table is None:
                return None
            found = [(self._column(table, owner, key), value) for owner, key, value in told]
            values = np.full(len(table.keys), np.nan)
            for column, value in found:
                if column >= 0 and np.isnan(values[column]):
                    values[column] = value
            table.period = time - table.time if table.time else table.period
            table.time, table.values = time, values
        return table

    def snapshot(self) -> list[RowTable]:
        """Every table as it is now, by number."""
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
