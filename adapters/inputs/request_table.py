"""Inputs of kind `request-table`: a row for each request, as CSV, JSON lines or a list in JSON.

Benchmarks write such tables, and proxies write their access logs as JSON lines. The words of the names say which field
is what (`request_fields`); objects in a row count as if their fields stood in it.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import BinaryIO

from skewscope.adapters.formats.json_stream import CutOffError, JsonReader
from skewscope.adapters.formats.log_lines import is_binary
from skewscope.adapters.inputs.cell_values import find_separator, split_cells
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.request_fields import (
    EXPECTED,
    ROWS_OF_SAMPLE,
    RequestFields,
    Row,
    find_fields,
    read_request,
    settle_units,
)
from skewscope.adapters.inputs.request_rows import RequestCollector
from skewscope.kb.problems import InputError, Problem

HEAD_BYTES = 1 << 16
MAX_DEPTH = 3
"""Objects within objects whose fields count."""
MAX_FIELDS = 400


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first row of a file, or its header, has the fields of requests."""
    if is_binary(head):
        return False
    text = head[:HEAD_BYTES].decode("utf-8-sig", "replace").lstrip()
    if text[:1] in ("{", "["):
        return find_fields(_first_object(text)).is_request
    line = text.partition("\n")[0]
    return is_request_header(split_cells(line, find_separator(line)))


def is_request_header(names: list[str]) -> bool:
    """Returns whether columns of these names make a table of requests."""
    return len(names) > 2 and find_fields(names).is_request


def _first_object(text: str) -> Mapping[str, object]:
    """Returns the fields of the first object of a JSON text that may be cut off; none where it is no such row."""
    begin = text.find("{")
    with suppress(ValueError, RecursionError):
        row, _ = json.JSONDecoder(strict=False).raw_decode(text, begin)
        return flatten(row)
    return {}


def flatten(row: object) -> dict[str, object]:
    """Returns the fields of an object and of the objects in it by their own names; the outer ones count first."""
    fields: dict[str, object] = {}
    level = [row] if isinstance(row, dict) else []
    for _ in range(MAX_DEPTH):
        inner: list[dict[str, object]] = []
        for name, value in (pair for each in level for pair in each.items()):
            if isinstance(value, dict) and {"value", "unit"} <= value.keys():
                fields.setdefault(f"{name} ({value['unit']!s:.20})", value["value"])
            elif isinstance(value, dict):
                inner.append(value)
            elif not isinstance(value, list) and len(fields) < MAX_FIELDS:
                fields.setdefault(str(name), value)
        level = inner
    return fields


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of the servers that answered the requests of a file.

    Raises:
        InputError: it has no rows of requests, or is damaged.
    """
    collector = RequestCollector(name, labels)
    rows = _iter_rows(file, name, collector)
    first = [row for _, row in zip(range(ROWS_OF_SAMPLE), rows, strict=False)]
    fields = settle_units(find_fields(dict.fromkeys(field for row in first for field in row)), first)
    if not fields.is_request:
        shown = ", ".join(dict.fromkeys(field for row in first[:1] for field in row))[:200]
        raise InputError([Problem(name, 1, "", f"the fields {shown}" if shown else "no rows", EXPECTED)])
    collector.notes += [fields.describe()]
    for row in first:
        _add(row, fields, collector)
    del first
    for row in rows:
        _add(row, fields, collector)
    return collector.series()


def _add(row: Row, fields: RequestFields, collector: RequestCollector) -> None:
    if request := read_request(row, fields):
        collector.add(request)
    else:
        collector.left_out += 1


def _iter_rows(file: BinaryIO, name: str, collector: RequestCollector) -> Iterator[Row]:
    """Yields the rows of a file.

    Raises:
        InputError: it is too large or damaged.
    """
    head = file.peek(HEAD_BYTES) if hasattr(file, "peek") else file.read(HEAD_BYTES)
    if not hasattr(file, "peek"):
        file.seek(0)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if is_binary(head):
        raise InputError([Problem(name, 0, "", "binary data", EXPECTED)])
    yield from _json_rows(file, name, collector) if start in (b"{", b"[") else _table_rows(file, name)


def _json_rows(file: BinaryIO, name: str, collector: RequestCollector) -> Iterator[Row]:
    held: dict[str, object] = {}
    number = 0
    try:
        for document, member, value in JsonReader(file, name).documents((), ()):
            if document != number and held:
                yield flatten(held)
                held = {}
            number = document
            if member:
                held[member] = value
            else:
                yield flatten(value)
    except CutOffError:
        collector.notes.append("ends inside a row, which is left out")
        return
    if held:
        yield flatten(held)


def _table_rows(file: BinaryIO, name: str) -> Iterator[Row]:
    text = io.TextIOWrapper(file, "utf-8-sig", "replace", newline="")
    header = text.readline(HEAD_BYTES)
    separator = find_separator(header)
    names = split_cells(header, separator)
    if not is_request_header(names):
        shown = ", ".join(names)[:200]
        raise InputError([Problem(name, 1, "", f"the columns {shown}" if shown else "an empty file", EXPECTED)])
    try:
        for cells in csv.reader(text, delimiter=separator):
            if len(cells) == len(names):
                yield dict(zip(names, cells, strict=True))
    except csv.Error as error:
        raise InputError([Problem(name, 0, "", f"no readable table ({error!s:.100})", EXPECTED)]) from None
    finally:
        text.detach()


READER = artefact_reader(
    "table with a row for each request (CSV, JSON lines), as benchmarks and proxies write it",
    read_series,
    recognise,
    placed_by_name=True,
)
