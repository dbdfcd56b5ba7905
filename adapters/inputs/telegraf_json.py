"""Inputs of kind `telegraf-json`: points of Telegraf's JSON serializer, one a line, or several as `metrics`."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from skewscope.adapters.formats.bounded_json import parse_json
from skewscope.adapters.formats.bounds import JSON_BYTES
from skewscope.adapters.formats.log_lines import read_lines
from skewscope.adapters.inputs.cell_values import to_number, to_time
from skewscope.adapters.inputs.influx_lines import PointReader, SeriesName
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader

POINT = re.compile(rb'\A\s*[\[{]\s*(?:"metrics"\s*:\s*\[\s*\{\s*)?"fields"\s*:\s*\{')
MEMBERS = (b'"name"', b'"tags"', b'"timestamp"')
EXPECTED = 'objects such as {"fields": {...}, "name": "nvidia_smi", "tags": {...}, "timestamp": 1795168800}'


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether a file begins with points in JSON."""
    return bool(POINT.match(head)) and all(member in head for member in MEMBERS)


def read_series(file: BinaryIO, name: str, _labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of all fields that are numbers.

    Raises:
        InputError: there are none, or the file is damaged.
    """
    points = PointReader(name)
    for number, value in _list_points(file, name):
        fields = {key: amount for key, each in value["fields"].items() if (amount := to_number(each)) is not None}
        tags = value.get("tags")
        own = {str(key): str(text) for key, text in tags.items()} if isinstance(tags, dict) else {}
        points.read_point(number, SeriesName(str(value.get("name", "")), own), fields, to_time(value.get("timestamp")))
    return points.series()


def _list_points(file: BinaryIO, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (number of the line, object) of each point, without a last one that is cut off."""
    lines = read_lines(file, name)
    number, first = next(lines, (0, ""))
    if not first.rstrip().endswith("}") or '"metrics"' in first[:40]:
        text = "\n".join((first, *(text for _, text in lines)))
        JSON_BYTES.check(name, len(text))
        document = parse_json(text.encode(), name, EXPECTED)
        found = document.get("metrics") if isinstance(document, dict) and "metrics" in document else document
        for value in found if isinstance(found, list) else [found]:
            if (point := _to_point(value)) is not None:
                yield number, point
        return
    for place, text in ((number, first), *lines):
        try:
            value = json.loads(text) if text.startswith("{") else None
        except (ValueError, RecursionError):
            continue
        if (point := _to_point(value)) is not None:
            yield place, point


def _to_point(value: Any) -> dict[str, Any] | None:
    """Returns an object with fields, None for any other value."""
    return value if isinstance(value, dict) and isinstance(value.get("fields"), dict) else None


READER = artefact_reader("points of Telegraf in JSON", read_series, recognise, has_metrics=True)
