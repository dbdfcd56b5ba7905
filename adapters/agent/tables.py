"""Series laid out in tables by their rhythm, so that a row has few gaps. A table only grows.

What two sources deliver is taken from the one that had it first, for good: two counters of the same thing differ, and
to go from one to the other would look like a burst or a reset.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from skewscope.adapters.agent.kernel import Sample
from skewscope.adapters.wire_rows import MOST_COLUMNS, MOST_TABLES, MOST_TEXT
from skewscope.engine.feed import F64, SeriesKey

_NONE = np.empty(0)
MISSED = 3
"""Rows missed in turn before the last one is no longer told."""


@dataclass
class Table:
    """Series that are told together, and their newest numbers."""

    number: int
    keys: list[SeriesKey] = field(default_factory=list)
    time: float = 0.0
    values: F64 = field(default_factory=lambda: _NONE)
    period: float = 10.0
    """Seconds between its last two rows."""

    def stale(self, now: float) -> bool:
        """Whether its newest row is too old to be called the present."""
        return now - self.time > MISSED * max(self.period, 1.0)


class Tables:
    """All tables of an agent, by rhythm. Several threads may fill tables, each its own."""

    def __init__(self) -> None:
        self.left_out = 0
        """Series for which there was no room, or whose names nobody would take."""
        self._placed = 0
        """Series in all tables: a controller takes so many of one agent."""
        self._lock = threading.Lock()
        self._tables: dict[str, Table] = {}
        self._columns: dict[SeriesKey, tuple[str, int, int]] = {}
        """Owner, table and column of each series; a series that has no place has a column below nought."""

    def fill(self, name: str, time: float, sources: Iterable[tuple[str, Iterable[Sample]]]) -> Table | None:
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

    def all(self) -> list[Table]:
        """Every table as it is now, by number."""
        with self._lock:
            return [replace(t, keys=t.keys[: len(t.values)]) for t in self._tables.values()]

    def _table(self, name: str) -> Table | None:
        found = self._tables.get(name)
        if found is None and len(self._tables) < MOST_TABLES:
            found = self._tables[name] = Table(len(self._tables))
        return found

    def _column(self, table: Table, owner: str, key: SeriesKey) -> int:
        known = self._columns.get(key)
        if known is None:
            column = len(table.keys)
            if self._placed >= MOST_COLUMNS or not (_tellable(key.entity) and _tellable(key.selector)):
                column = -1
                self.left_out += 1
            else:
                table.keys.append(key)
                self._placed += 1
            known = self._columns[key] = (owner, table.number, column)
        return known[2] if known[:2] == (owner, table.number) else -1


def _tellable(text: str) -> bool:
    return len(text) <= MOST_TEXT and text.isprintable()
