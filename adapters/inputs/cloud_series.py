"""Inputs of kind `cloud-series`: series in JSON as the command lines and APIs of CloudWatch and Datadog answer.

The label of a series is a metric with the place at which it was measured, in words.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from skewscope.adapters.formats.bounded_json import parse_json
from skewscope.adapters.formats.bounds import JSON_BYTES, SAMPLES, SERIES
from skewscope.adapters.inputs.cell_values import to_number, to_time
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.series_names import NamedSeries, SeriesContext, name_series, to_series
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem

MARKS = re.compile(rb'"MetricDataResults"\s*:|"Datapoints"\s*:\s*\[|"pointlist"\s*:\s*\[')
STATISTICS = ("Average", "Maximum", "Sum", "Minimum", "SampleCount")
TAG = re.compile(r"([A-Za-z_][\w.]*):([^,{}]+)")
DOTS = re.compile(r"[.]")
PLACES = {"host": "node", "InstanceId": "node", "gpu_index": "gpu", "device": "device", "pod_name": "pod"}
"""Labels of the topology by the names of tags and dimensions."""
EXPECTED = "series such as `aws cloudwatch get-metric-data` or Datadog's /api/v1/query answers"


UNITS = {"Seconds": "s", "Milliseconds": "ms", "Microseconds": "us", "Percent": "%", "Bytes": "By"}
"""Units that CloudWatch names."""


class CloudSeries(NamedTuple):
    """One series as it stands in an answer."""

    name: str
    tags: Mapping[str, str]
    times: list[Any]
    values: list[Any]
    unit: str = ""
    """As CloudWatch names it."""


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether a file begins with such an answer."""
    return head.lstrip()[:1] in (b"{", b"[") and bool(MARKS.search(head))


def read_series(file: BinaryIO, name: str, _labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of an answer.

    Raises:
        InputError: it has none, or is damaged.
    """
    data = file.read(JSON_BYTES.limit() + 1)
    pairs: list[tuple[NamedSeries, F64, F64]] = []
    count = 0
    for each in _list_series(parse_json(data, name, EXPECTED)):
        count += len(each.times)
        SAMPLES.check(name, count, "Export less.")
        SERIES.check(name, len(pairs) + 1, "Export less.")
        cells = [
            (time, value)
            for raw, cell in zip(each.times, each.values, strict=False)
            if (time := to_time(raw)) is not None and (value := to_number(cell)) is not None
        ]
        if cells:
            times, values = (np.array(part, np.float64) for part in zip(*sorted(cells), strict=True))
            pairs.append((_name(each, values), times, values))
    if not pairs:
        raise InputError([Problem(name, 0, "", "no series with samples", EXPECTED)])
    return to_series(pairs)


def _name(each: CloudSeries, values: F64) -> NamedSeries:
    named = name_series(
        DOTS.sub("_", each.name) if " " not in each.name else each.name,
        values,
        SeriesContext(unit=UNITS.get(each.unit, "")),
    )
    placed = {PLACES[key]: text for key, text in each.tags.items() if key in PLACES}
    return replace(named, labels={**named.labels, **placed})


def _list_series(document: Any) -> Iterator[CloudSeries]:
    if not isinstance(document, dict):
        return
    for raw in _list(document.get("MetricDataResults")):
        yield CloudSeries(str(raw.get("Label", "")), {}, _plain(raw.get("Timestamps")), _plain(raw.get("Values")))
    points = _list(document.get("Datapoints"))
    statistic = next((word for word in STATISTICS if points and word in points[0]), "")
    if statistic:
        times, values = [raw.get("Timestamp") for raw in points], [raw.get(statistic) for raw in points]
        yield CloudSeries(str(document.get("Label", "")), {}, times, values, str(points[0].get("Unit", "")))
    for raw in _list(document.get("series")):
        pairs = [pair for pair in _plain(raw.get("pointlist")) if isinstance(pair, list) and len(pair) == 2]
        tags = dict(TAG.findall(str(raw.get("scope", ""))))
        yield CloudSeries(str(raw.get("metric", "")), tags, [pair[0] for pair in pairs], [pair[1] for pair in pairs])


def _list(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _plain(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


READER = artefact_reader("series of CloudWatch or Datadog in JSON", read_series, recognise)
