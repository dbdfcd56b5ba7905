"""Inputs of kind `influx-csv`: tables of InfluxDB and Telegraf: Flux CSV, annotated or not, and Telegraf's `csv`.

A row of Flux is a sample of one field; a row of Telegraf is a measurement with columns for its tags and fields. Names
and labels are read as those of line protocol are.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from skewscope.adapters.formats.log_lines import is_binary
from skewscope.adapters.inputs.cell_values import split_cells, to_number, to_time
from skewscope.adapters.inputs.influx_lines import SeriesName, convert_value, map_field
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.kb.problems import InputError, Problem

MAX_HEADER = 1 << 16
FLUX = frozenset(("_time", "_value", "_field", "_measurement"))
NO_TAGS = frozenset(("", "result", "table", "_start", "_stop", *FLUX))
TELEGRAF_TIMES, TELEGRAF_NAMES = ("timestamp", "time"), ("name", "measurement")
EXPECTED = (
    "columns _time, _value, _field and _measurement (Flux), or timestamp and name with tags and fields (Telegraf)"
)


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the header of a table is one of Flux or Telegraf."""
    if is_binary(head):
        return False
    lines = head[:MAX_HEADER].decode("utf-8-sig", "replace").splitlines()
    header = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    names = split_cells(header, ",")
    return set(names) >= FLUX or _is_telegraf(names, lines[1:3])


def _is_telegraf(names: Sequence[str], lines: Sequence[str]) -> bool:
    """Returns whether a header is one of Telegraf: time, name of the measurement, and the tag of its host."""
    if len(names) < 4 or names[0] not in TELEGRAF_TIMES or names[1] not in TELEGRAF_NAMES or "host" not in names:
        return False
    rows = [split_cells(line, ",") for line in lines if line]
    # The long layout of other tables has a column of values, and more than one name.
    return "value" not in names and all(len(row) < 2 or to_number(row[1]) is None for row in rows)


def read_series(file: BinaryIO, name: str, _labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of all rows.

    Raises:
        InputError: there are none, or the table is damaged.
    """
    collector = SeriesCollector(name)
    text = io.TextIOWrapper(file, "utf-8-sig", "replace", newline="")
    try:
        for number, row in _iter_rows(text):
            _add_row(row, collector, number)
    except csv.Error as error:
        raise InputError([Problem(name, 0, "", f"no readable table ({error!s:.100})", EXPECTED)]) from None
    finally:
        text.detach()
    series = collector.series()
    if not series:
        raise InputError([Problem(name, 0, "", "no row with a time and a number", EXPECTED)])
    return series


def _iter_rows(text: io.TextIOWrapper) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields (line, cells by name); a blank line or an annotation begins a new table with its own header."""
    names: list[str] = []
    for number, cells in enumerate(csv.reader(text), 1):
        if not any(cells) or cells[0].startswith("#"):
            names = []
        elif not names:
            names = cells
        elif len(cells) == len(names):
            yield number, dict(zip(names, cells, strict=True))


def _add_row(row: Mapping[str, str], collector: SeriesCollector, line: int) -> None:
    """Adds the samples of a row; one without a time or a number is left out."""
    if row.keys() >= FLUX:
        time = to_time(row["_time"])
        tags = {name: text for name, text in row.items() if name not in NO_TAGS and text}
        pairs = [(row["_field"], row["_value"])]
        measurement = row["_measurement"]
    else:
        time = next((to_time(row[name]) for name in TELEGRAF_TIMES if name in row), None)
        measurement = next((row[name] for name in TELEGRAF_NAMES if name in row), "")
        rest = {name: text for name, text in row.items() if name not in (*TELEGRAF_TIMES, *TELEGRAF_NAMES) and text}
        tags = {name: text for name, text in rest.items() if to_number(text) is None or name in LABELS_OF_NUMBERS}
        pairs = [(name, text) for name, text in rest.items() if name not in tags]
    if time is None or not measurement:
        return
    for field_name, text in pairs:
        number = to_number(text)
        metric, labels = map_field(SeriesName(measurement, tags), field_name, is_histogram=False)
        if number is not None and metric:
            collector.add(metric, labels, time, convert_value(metric, number), line)


LABELS_OF_NUMBERS = frozenset(("index", "port", "cpu", "rank"))
"""Tags that may hold numbers."""
READER = artefact_reader(
    "CSV of InfluxDB (Flux) or Telegraf",
    read_series,
    recognise,
    has_metrics=True,
)
