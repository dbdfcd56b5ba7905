"""Rows of numbers, whatever holds them: lines of a table, records of JSON. What each is of, when, and its numbers.

Columns whose names say so are the time and the place of a row; the others count where their cells are numbers.
"""

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from skewscope.adapters.inputs.cell_values import to_time
from skewscope.adapters.inputs.counter_dumps import DEVICE, Counter
from skewscope.adapters.inputs.guessed_table import find_places
from skewscope.adapters.inputs.table_layout import is_time_name
from skewscope.adapters.mapping.column_names import GPU_INDEX, UNIT_WORDS, is_epoch
from skewscope.kb.document_lines import MAX_DEPTH

CELL = re.compile(
    r"(?P<number>[-+]?\d[\d,]{0,30}(?:\.\d{0,30})?(?:[eE][-+]?\d{1,3})?) ?\u00b0?(?P<unit>%|[A-Za-z]{0,8})"
)
STATUS = re.compile(r"(?P<base>.{1,200}?)[._]?(?P<code>[1-5](?:xx|\d\d))")
"""The name of a counter of responses of one status, or of a class of them."""
NAMES = ("name", "metric", "stat")
"""Members of a record that say what its value is called."""
PARTS = frozenset(
    ("partition", "index", "shard", "cpu", "core", "topic", "queue", "volume", "database", "pool", "disk")
)
"""Columns that say, also by a number, which part of the place of a row it is of."""
MAX_NAME, MAX_PLACE = 200, 100


class Cell(NamedTuple):
    """A number in a text."""

    value: float
    unit: str = ""
    """As it is written, '' where there is none."""


def read_cell(text: str) -> Cell | None:
    """Returns the number of a text, also with a unit that is known behind it; None for other texts."""
    match = CELL.fullmatch(text.strip())
    if match is None or (match["unit"] and match["unit"].lower() not in UNIT_WORDS):
        return None
    value = float(match["number"].replace(",", ""))
    return Cell(value, match["unit"].lower()) if math.isfinite(value) else None


def label_place(text: str) -> dict[str, str]:
    """Returns the label of a place by its own name: a GPU, a port, else a part of a program; none for ''."""
    if not text:
        return {}
    if DEVICE.fullmatch(text):
        return {"device": text}
    if "gpu" in text.lower() and (match := GPU_INDEX.fullmatch(text)):
        return {"gpu": match[1]}
    return {"replica": text.replace(" ", "")[:MAX_PLACE]}


def name_number(path: str, labels: Mapping[str, str], cell: Cell, time: float | None = None) -> Counter:
    """Returns a number by the path that is its name: what stands between its first and its last part is the place."""
    first, *others = path.split(".")
    if not others or not re.search(r"[A-Za-z]", others[-1]):
        return _count(path, labels, cell, time)
    *places, leaf = others
    place = ".".join(places)
    if not places and re.search(r"[\d-]", first):
        first, place = "", first
    return _count(f"{first}_{leaf}", {**labels, **label_place(place)}, cell, time)


def _count(name: str, labels: Mapping[str, str], cell: Cell, time: float | None) -> Counter:
    metric, code = _find_metric(name, cell.unit)
    return Counter(name, metric, {**labels, "code": code} if code else labels, cell.value, 0, time)


@lru_cache(4096)
def _find_metric(name: str, unit: str) -> tuple[str, str]:
    """Returns the metric of a name, and the status that it ends in, which becomes a label as exporters have it."""
    match = STATUS.fullmatch(name)
    whole = f"{match['base']}_responses_total" if match else f"{name} {unit}"
    return re.sub(r"[^\w%]+", "_", whole).strip("_")[:MAX_NAME], match["code"] if match else ""


class _Columns(NamedTuple):
    """What the columns of a table say."""

    times: tuple[str, ...]
    places: Mapping[str, str]
    """Labels by the names of their columns."""


@lru_cache(256)
def _find_columns(names: tuple[str, ...]) -> _Columns:
    places = {name: label for label, name in find_places(names).items()}
    parts = {name: name.lower() for name in names if name.lower() in PARTS}
    return _Columns(tuple(filter(is_time_name, names)), parts | places)


def list_numbers(cells: Mapping[str, str], labels: Mapping[str, str]) -> Iterator[Counter]:
    """Yields the numbers of a row, given as texts by the names of its columns, with the labels of what it is in."""
    columns = _find_columns(tuple(cells))
    times = (to_time(cells[name]) for name in columns.times if not is_epoch(name))
    time = next((each for each in times if each is not None), None)
    places = {name: label for name, label in columns.places.items() if cells[name].strip()}
    numbers = {name: cell for name, text in cells.items() if name not in places and (cell := read_cell(text))}
    own = {**labels, **{label: _clean_place(label, cells[name]) for name, label in places.items()}}
    if not own and time is None:
        texts = (text.strip() for name, text in cells.items() if name not in numbers)
        own = label_place(next((text for text in texts if 0 < len(text) <= MAX_PLACE), ""))
    for name, cell in numbers.items():
        if name not in columns.times:
            yield _count(name, own, cell, time)


def _clean_place(label: str, text: str) -> str:
    match = GPU_INDEX.fullmatch(text.strip()) if label == "gpu" else None
    # Java writes an address without its host as `/10.0.0.5`.
    return match[1] if match else text.strip().lstrip("/")[:MAX_PLACE]


def list_records(document: Any) -> Iterator[Counter]:
    """Yields the numbers of the records in a document: of lists of objects, and of objects by their names."""
    for cells in _list_cells(document, {}, 0):
        name = next((cells[key] for key in NAMES if key in cells), "")
        if name and (cell := read_cell(cells.get("value", ""))):
            yield name_number(name, {}, cell)
        else:
            yield from list_numbers(cells, {})


def _list_cells(value: Any, above: Mapping[str, str], depth: int) -> Iterator[dict[str, str]]:
    """Yields the plain members of each record, with those above it that say what it is of."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        for each in value:
            yield from _list_cells(each, above, depth + 1)
    elif isinstance(value, dict):
        if _is_keyed(value):
            for key, each in value.items():
                yield from _list_cells(each, {**above, **label_place(str(key))}, depth + 1)
            return
        own: dict[str, str] = {}
        _flatten(value, "", own, depth)
        yield {**above, **own}
        places = find_places(tuple(own)).values()
        below = {**above, **{name: own[name] for name in places}}
        for each in value.values():
            if isinstance(each, list) or (isinstance(each, dict) and _is_keyed(each)):
                yield from _list_cells(each, below, depth + 1)


def _is_keyed(value: Mapping[str, Any]) -> bool:
    """Returns whether an object has records of one kind by their names."""
    records = [each for each in value.values() if isinstance(each, dict)]
    return len(records) > 1 and len(records) == len(value) and bool(set.intersection(*map(set, records)))


def _flatten(value: Mapping[str, Any], prefix: str, found: dict[str, str], depth: int) -> None:
    """Adds the plain members of an object, and those of the objects in it with a path."""
    for name, each in value.items():
        if isinstance(each, dict) and depth < MAX_DEPTH and not _is_keyed(each):
            _flatten(each, f"{prefix}{name}_", found, depth + 1)
        elif isinstance(each, str | int | float) and not isinstance(each, bool):
            found[f"{prefix}{name}"[:MAX_NAME]] = str(each)[:MAX_NAME]
