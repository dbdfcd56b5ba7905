"""Reader of Parquet files that a controller records: a row is one batch, its values one list."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewscope.adapters.formats.bounds import SAMPLES
from skewscope.adapters.formats.openmetrics import MAX_SECONDS
from skewscope.adapters.mapping.names import SeriesRegistry
from skewscope.engine.ingest.feed import Block, SeriesKey
from skewscope.engine.model.arrays import I32
from skewscope.kb.problems import InputError, Problem

COLUMNS = ("time", "table", "first", "series", "numbers", "values")
MAX_TABLES = 1_000_000
MAX_COLUMNS = 1 << 16
"""Limit on the series of one table."""
UNNAMED_SERIES = -1
"""Number of a column without a series."""
ANNOUNCEMENT_COLUMNS = ["table", "first", "series"]


@dataclass
class WideTableReader:
    """Reads one file."""

    file: str
    registry: SeriesRegistry
    begin: float = -math.inf
    end: float = math.inf
    """Time span of the samples to read, in seconds since 1970."""
    tables: dict[int, list[int]] = field(default_factory=dict)
    """By table: number of each series in the registry."""
    number_arrays: dict[int, I32] = field(default_factory=dict)
    sample_count: int = 0

    def input_error(self, column: str, found: str, expected: str, hint: str = "") -> InputError:
        """Returns the error of a column."""
        return InputError([Problem(self.file, 0, column, found, expected, hint)])

    def read_blocks(self, file: Any) -> Iterator[Block]:
        """Yields the samples of each row group.

        Raises:
            InputError: values of series that were not announced, or more samples than are allowed.
        """
        for group in range(file.metadata.num_row_groups):
            wanted = self._overlaps(file.metadata.row_group(group))
            rows = file.read_row_group(group, columns=list(COLUMNS) if wanted else ANNOUNCEMENT_COLUMNS)
            for batch in rows.to_batches():
                self._add_columns(batch)
                if wanted:
                    yield self._build_block(batch)

    def _overlaps(self, group: Any) -> bool:
        """Returns whether a row group may have samples of the time span."""
        times = group.column(COLUMNS.index("time")).statistics
        if times is None or not times.has_min_max:
            return True
        return bool(times.min <= self.end and times.max >= self.begin)

    def _add_columns(self, batch: Any) -> None:
        """Adds the announced columns of tables."""
        announced = batch.filter(batch.column("series").is_valid())
        columns = (announced.column(name).to_pylist() for name in ANNOUNCEMENT_COLUMNS)
        for table, first, text in zip(*columns, strict=True):
            known = self.tables.setdefault(table, [])
            if first != len(known) or len(self.tables) > MAX_TABLES:
                raise self.input_error(
                    "first", f"series from {first} on of a table of {len(known)}", "those that follow"
                )
            known += [self._series_number(each) for each in self._parse_list(text)]
            if len(known) > MAX_COLUMNS:
                raise self.input_error("series", f"{len(known)} series of one table", f"at most {MAX_COLUMNS}")
            self.number_arrays[table] = np.array(known, np.int32)

    def _parse_list(self, text: str) -> list[object]:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list):
            raise self.input_error("series", "text that is no JSON list", "series with their ranks")
        return found

    def _series_number(self, series: object) -> int:
        match series:
            case ["", *_]:
                return UNNAMED_SERIES
            case [str(signal), str(kind), str(entity), str(selector), int(rank)]:
                return self.registry.register(SeriesKey(signal, kind, entity, selector), rank)
        raise self.input_error("series", f"{series!r:.60}", "[signal, kind, entity, selector, rank]")

    def _build_block(self, batch: Any) -> Block:
        """Returns the samples of a batch of rows."""
        rows = batch.filter(batch.column("values").is_valid())
        times = rows.column("time").to_numpy(zero_copy_only=False)
        if rows.column("time").null_count or not (np.abs(times) < MAX_SECONDS).all():
            raise self.input_error("time", "a row without a time, or years away", "seconds since 1970")
        values, ends = _flatten(rows.column("values"))
        places, places_end = _flatten(rows.column("numbers"))
        tables = rows.column("table").to_pylist()
        scattered = rows.column("numbers").is_valid().to_pylist()
        series = np.empty(len(values), np.int32)
        for n, table in enumerate(tables):
            at = slice(ends[n], ends[n + 1])
            size = at.stop - at.start
            place = places[places_end[n] : places_end[n + 1]] if scattered[n] else np.arange(size, dtype=np.int32)
            series[at] = self._series_numbers(table, place, size)
        sizes = np.diff(ends)
        time = np.repeat(times, sizes)
        some = (time >= self.begin) & (time <= self.end) & (series != UNNAMED_SERIES)
        self.sample_count += int(np.count_nonzero(some))
        if self.sample_count > SAMPLES.limit():
            raise InputError([SAMPLES.problem(self.file, hint="Play a shorter part: --from and --to.")])
        return Block(time[some], series[some], values[some])

    def _series_numbers(self, table: int, place: Any, size: int) -> I32:
        known = self.number_arrays.get(table)
        if known is None or len(place) != size or (size and not 0 <= place.min() <= place.max() < len(known)):
            raise self.input_error(
                "table", f"values of series of table {table} that were not announced", "known series"
            )
        found: I32 = known[place]
        return found


def is_wide(names: list[str]) -> bool:
    """Returns whether a file with these columns was recorded by a controller."""
    return tuple(names) == COLUMNS


def _flatten(column: Any) -> tuple[Any, Any]:
    """Returns all values of a column of lists, and [list + 1] the offsets of the lists."""
    # A null list may cover values; its length counts as 0.
    sizes = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    flat = column.flatten()
    return flat.to_numpy(zero_copy_only=False), np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
