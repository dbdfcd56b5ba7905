"""Inputs of kind `cloud-series`: series in JSON as the tools and APIs of CloudWatch, Azure, Google and Datadog answer.

The label of a series is a metric with the place at which it was measured, in words. What counts in each interval
becomes a counter.
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
from skewscope.adapters.mapping.number_words import find_number, split_place
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem

MARKS = re.compile(
    rb'"MetricDataResults"\s*:|"Datapoints"\s*:\s*\[|"pointlist"\s*:\s*\[|"timeSeries"\s*:\s*\[|"timeseries"\s*:\s*\['
    rb'|"metricKind"\s*:\s*"|Microsoft[.]Insights/metrics'
)
STATISTICS = ("Average", "Maximum", "Sum", "Minimum", "SampleCount")
TAG = re.compile(r"([A-Za-z_][\w.]*):([^,{}]+)")
DOTS = re.compile(r"[.]")
PATH = re.compile(r"[./]")
RESOURCE = re.compile(r"/([^/]+)/providers/Microsoft[.]Insights/")
AVERAGES = ("average", "total", "maximum", "minimum", "count")
"""What a point of Azure may hold, what is used first."""
PLACES = {
    "host": "node",
    "InstanceId": "node",
    "gpu_index": "gpu",
    "device": "device",
    "pod_name": "pod",
    "instance_name": "node",
    "resource": "node",
    "node_name": "node",
    "device_name": "disk",
}
"""Labels of the topology by the names of tags and dimensions."""
EXPECTED = (
    "series such as `aws cloudwatch get-metric-data`, `az monitor metrics list` or Datadog's /api/v1/query answers"
)


UNITS = {
    "Seconds": "s",
    "Milliseconds": "ms",
    "MilliSeconds": "ms",
    "Microseconds": "us",
    "Percent": "%",
    "Bytes": "By",
    "s": "s",
    "ms": "ms",
    "us": "us",
    "%": "%",
    "By": "By",
}
"""Units as clouds name them."""


class CloudSeries(NamedTuple):
    """One series as it stands in an answer."""

    name: str
    tags: Mapping[str, str]
    times: list[Any]
    values: list[Any]
    unit: str = ""
    """As the cloud names it."""
    is_delta: bool = False
    """Whether each value counts since the one before."""


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
            pairs.append((_name(each, values), times, np.cumsum(values) if _counts(each) else values))
    if not pairs:
        raise InputError([Problem(name, 0, "", "no series with samples", EXPECTED)])
    return to_series(pairs)


def _name(each: CloudSeries, values: F64) -> NamedSeries:
    text = DOTS.sub("_", each.name) if " " not in each.name else each.name
    named = name_series(text, values, SeriesContext(unit=UNITS.get(each.unit, "")))
    if _counts(each):
        named = replace(named, metric=f"{named.metric}_total")
    placed = {PLACES[key]: text for key, text in each.tags.items() if key in PLACES}
    return replace(named, labels={**named.labels, **placed})


def _counts(each: CloudSeries) -> bool:
    """Returns whether the values of a series count, each since the one before: clouds count errors in each interval."""
    meaning = find_number(split_place(each.name)[0])
    return each.is_delta or (meaning is not None and meaning.signal == "other.errors")


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
    yield from _list_google(document)
    yield from _list_azure(document)
    for raw in _list(document.get("series")):
        pairs = [pair for pair in _plain(raw.get("pointlist")) if isinstance(pair, list) and len(pair) == 2]
        tags = dict(TAG.findall(str(raw.get("scope", ""))))
        yield CloudSeries(str(raw.get("metric", "")), tags, [pair[0] for pair in pairs], [pair[1] for pair in pairs])


def _list_google(document: Mapping[str, Any]) -> Iterator[CloudSeries]:
    """Yields the series of an answer of Google's `timeSeries.list`."""
    for raw in _list(document.get("timeSeries")):
        metric, resource = _dict(raw.get("metric")), _dict(raw.get("resource"))
        labels = {**_dict(resource.get("labels")), **_dict(metric.get("labels"))}
        name = PATH.sub("_", str(metric.get("type", "")).partition("/")[2])
        points = _list(raw.get("points"))
        times = [_dict(point.get("interval")).get("endTime") for point in points]
        values = [next(iter(_dict(point.get("value")).values()), None) for point in points]
        tags = {str(key): str(text) for key, text in labels.items()}
        is_delta = raw.get("metricKind") == "DELTA"
        yield CloudSeries(name, tags, times, values, str(raw.get("unit", "")), is_delta)


def _list_azure(document: Mapping[str, Any]) -> Iterator[CloudSeries]:
    """Yields the series of an answer of `az monitor metrics list`."""
    for raw in _list(document.get("value")):
        name, resource = str(_dict(raw.get("name")).get("value", "")), RESOURCE.search(str(raw.get("id", "")))
        for one in _list(raw.get("timeseries")):
            points = _list(one.get("data"))
            kind = next((kind for kind in AVERAGES if any(point.get(kind) is not None for point in points)), "")
            tags = {"resource": resource[1]} if resource else {}
            for each in _list(one.get("metadatavalues")):
                tags[str(_dict(each.get("name")).get("value", ""))] = str(each.get("value", ""))
            times, values = [point.get("timeStamp") for point in points], [point.get(kind) for point in points]
            yield CloudSeries(name, tags, times, values, str(raw.get("unit", "")))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _plain(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


READER = artefact_reader("series of a cloud in JSON", read_series, recognise, has_metrics=True)
