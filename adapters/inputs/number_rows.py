"""Rows of numbers, whatever holds them: lines of a table, records of JSON. What each is of, when, and its numbers.

Columns whose names say so are the time and the place of a row; the others count where their cells are numbers.
"""

import re
from collections.abc import Iterator, Mapping
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
    return Cell(float(match["number"].replace(",", "")), match["unit"].lower())


def label_place(text: str) -> dict[str, str]:
    """Returns the label of a place by its own name: a GPU, a port, else a part of a program."""
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
    return _count(f"{first}_{leaf}", {**labels, **(label_place(place) if place else {})}, cell, time)


def _count(name: str, labels: Mapping[str, str], cell: Cell, time: float | None) -> Counter:
    """Returns a number; a status at the end of its name becomes a label, as exporters have it."""
    own = dict(labels)
    if match := STATUS.fullmatch(name):
        name, own["code"] = f"{match['base']}_responses_total", match["code"]
    metric = re.sub(r"[^\w%]+", "_", f"{name} {cell.unit}").strip("_")[:MAX_NAME]
    return Counter(name, metric, own, cell.value, 0, time)


def list_numbers(cells: Mapping[str, str], labels: Mapping[str, str]) -> Iterator[Counter]:
    """Yields the numbers of a row, given as texts by the names of its columns, with the labels of what it is in."""
    times = (to_time(text) for name, text in cells.items() if is_time_name(name) and not is_epoch(name))
    time = next((each for each in times if each is not None), None)
    places = {name: label for label, name in find_places(tuple(cells)).items() if cells[name].strip()}
    numbers = {name: cell for name, text in cells.items() if name not in places and (cell := read_cell(text))}
    texts = [text for name, text in cells.items() if name not in numbers and 0 < len(text.strip()) <= MAX_PLACE]
    own = {**labels, **{label: _clean_place(label, cells[name]) for name, label in places.items()}}
    if not own and texts and time is None:
        own = label_place(texts[0].strip())
    for name, cell in numbers.items():
        if not is_time_name(name):
            yield _count(name, own, cell, time)


def _clean_place(label: str, text: str) -> str:
    match = GPU_INDEX.fullmatch(text.strip()) if label == "gpu" else None
    return match[1] if match else text.strip()[:MAX_PLACE]


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
