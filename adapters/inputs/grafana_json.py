"""Inputs of kind `grafana-json`: data of panels as JSON, as Grafana's inspector shows it or its API answers.

A file holds frames (answers of `/api/ds/query`, "DataFrame JSON", "Panel data", snapshots of dashboards) or targets
with points. The labels of a field, its name or its legend say what it is; the title of its panel says it of plain
names.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np

from skewscope.adapters.formats.bounded_json import parse_json
from skewscope.adapters.formats.bounds import JSON_BYTES, SAMPLES, SERIES
from skewscope.adapters.formats.openmetrics import MAX_SECONDS
from skewscope.adapters.inputs.cell_values import to_number
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.series_names import NamedSeries, SeriesContext, is_known_metric, name_series, to_series
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem, join_names

MARKS = re.compile(
    rb'"frames"\s*:\s*\[|"schema"\s*:\s*\{[\s\S]{0,2000}?"fields"\s*:\s*\[|"datapoints"\s*:\s*\[|"snapshotData"\s*:'
    rb'|"series"\s*:\s*\[\s*\{[^\[\]]{0,2000}"fields"\s*:\s*\[|"targets"\s*:\s*\[[^\]]{0,4000}"expr"\s*:'
)
MAX_DEPTH = 12
"""Levels of objects and lists within which frames are looked for."""
PLAIN_NAMES = frozenset(("", "value", "value #a"))
"""Names of fields that say nothing."""
EXPECTED = "frames with a field of times, as Inspect > JSON > Panel data shows them or /api/ds/query answers"
NO_DATA = "It holds the queries of a panel: take Inspect > JSON > Panel data, or ask Prometheus for them: "
MAX_NAMED = 4


@dataclass(frozen=True, slots=True)
class FrameField:
    """A field of numbers of a frame."""

    name: str
    labels: Mapping[str, str]
    title: str
    """Of the panel; '' where unknown."""
    times: list[Any]
    """Milliseconds since 1970."""
    values: list[Any]


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether a file begins with frames, targets with points, or a panel."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") and bool(MARKS.search(head))


def read_series(file: BinaryIO, name: str, _labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of all frames of a file.

    Raises:
        InputError: it has no frame with data, or is damaged.
    """
    data = file.read(JSON_BYTES.limit() + 1)
    document = parse_json(data.removeprefix(b"\xef\xbb\xbf"), name, EXPECTED)
    pairs: list[tuple[NamedSeries, F64, F64]] = []
    count = 0
    for each in _walk(document, "", MAX_DEPTH):
        count += len(each.times)
        SAMPLES.check(name, count, "Export less.")
        SERIES.check(name, len(pairs) + 1, "Export less.")
        times, values = _numbers(each.times), _numbers(each.values)
        # Grafana writes milliseconds, Graphite seconds.
        times = np.where(times < MAX_SECONDS, times, times / 1000)
        fits = (times >= 0) & (times < MAX_SECONDS) & ~np.isnan(values)
        order = np.flatnonzero(fits)[np.argsort(times[fits], kind="stable")]
        if len(order):
            pairs.append((_name_field(each, values[order]), times[order], values[order]))
    if not pairs:
        queries = sorted(set(_find_queries(document, MAX_DEPTH)))
        hint = NO_DATA + join_names([query[:200] for query in queries], MAX_NAMED) if queries else ""
        raise InputError([Problem(name, 0, "", "no frame with data", EXPECTED, hint)])
    return to_series(pairs)


def _numbers(cells: list[Any]) -> F64:
    return np.array([np.nan if (number := to_number(each)) is None else number for each in cells], np.float64)


def _name_field(each: FrameField, values: F64) -> NamedSeries:
    """Returns what a field means: by the metric among its labels or its name, else by words."""
    labels = {str(label): str(text) for label, text in each.labels.items()}
    metric = labels.pop("__name__", "")
    name = metric or each.name
    if metric or is_known_metric(name):
        return NamedSeries(name, labels)
    plain = name if name.lower() not in PLAIN_NAMES else ""
    named = name_series(plain or each.title, values, SeriesContext(each.title))
    return replace(named, labels={**named.labels, **labels})


def _walk(node: Any, title: str, depth: int) -> Iterator[FrameField]:
    """Yields the fields of all frames within a value."""
    if depth == 0:
        return
    if isinstance(node, list):
        for each in node:
            yield from _walk(each, title, depth - 1)
    elif isinstance(node, dict):
        title = node["title"] if isinstance(node.get("title"), str) else title
        schema, data, points = node.get("schema"), node.get("data"), node.get("datapoints")
        if isinstance(schema, dict) and isinstance(data, dict):
            yield from _fields(schema.get("fields"), data.get("values"), title)
        elif isinstance(node.get("fields"), list):
            yield from _fields(node["fields"], None, title)
        elif isinstance(points, list):
            pairs = [each for each in points if isinstance(each, list) and len(each) == 2]
            yield FrameField(str(node.get("target", "")), {}, title, [p[1] for p in pairs], [p[0] for p in pairs])
        else:
            for each in node.values():
                yield from _walk(each, title, depth - 1)


def _fields(fields: Any, columns: Any, title: str) -> Iterator[FrameField]:
    """Yields the fields of numbers of a frame, whose values stand in them or in columns beside."""
    times: list[Any] | None = None
    for place, raw in enumerate(fields if isinstance(fields, list) else ()):
        if not isinstance(raw, dict):
            continue
        values = columns[place] if isinstance(columns, list) and place < len(columns) else raw.get("values")
        values = values.get("buffer") if isinstance(values, dict) else values
        if not isinstance(values, list):
            continue
        if raw.get("type") == "time":
            times = times or values
        elif times is not None and raw.get("type") in ("number", None) and len(values) == len(times):
            labels, config = raw.get("labels"), raw.get("config")
            shown = config.get("displayNameFromDS") or config.get("displayName") if isinstance(config, dict) else ""
            named = labels if isinstance(labels, dict) else {}
            yield FrameField(str(shown or raw.get("name") or ""), named, title, times, values)


def _find_queries(node: Any, depth: int) -> Iterator[str]:
    """Yields the queries of panels within a value."""
    if depth and isinstance(node, dict | list):
        if isinstance(node, dict) and isinstance(node.get("expr"), str):
            yield node["expr"]
        for each in node.values() if isinstance(node, dict) else node:
            yield from _find_queries(each, depth - 1)


READER = artefact_reader(
    "JSON of a Grafana panel, or answer of /api/ds/query",
    read_series,
    recognise,
    has_metrics=True,
)
