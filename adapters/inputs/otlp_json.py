"""Inputs of kind `otlp-json`: metrics of OpenTelemetry as JSON, as the Collector's file exporter writes them.

Names and labels are read as the source `otlp` reads them; values of deltas are summed up.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from skewscope.adapters.formats.json_stream import CutOffError, JsonReader
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.sources.otlp import iter_samples
from skewscope.kb.problems import InputError, Problem

MARK = re.compile(rb'"resourceMetrics"\s*:')
EXPECTED = "lines with resourceMetrics, as the file exporter of the OpenTelemetry Collector writes them"


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether a file begins with metrics of OpenTelemetry."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") and bool(MARK.search(head[:4096]))


def read_series(file: BinaryIO, name: str, _labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of all metrics of a file.

    Raises:
        InputError: it has no metrics, or is damaged.
    """
    plain, deltas = SeriesCollector(name), SeriesCollector(name)
    reader = JsonReader(file, name)
    note = ""
    try:
        for _, member, value in reader.documents((), ("resourceMetrics",)):
            if member == "resourceMetrics":
                _add_resource(value, plain, deltas, reader)
            elif not member and isinstance(value, dict):
                for each in value.get("resourceMetrics", ()):
                    _add_resource(each, plain, deltas, reader)
    except CutOffError:
        note = "ends inside a metric, which is left out"
    series = [*plain.series(), *(replace(each, values=each.values.cumsum()) for each in deltas.series())]
    if not series:
        raise InputError([Problem(name, 0, "", note or "no metric", EXPECTED)])
    return [replace(series[0], note=note), *series[1:]]


def _add_resource(resource: Any, plain: SeriesCollector, deltas: SeriesCollector, reader: JsonReader) -> None:
    """Adds the samples of what one resource sent.

    Raises:
        InputError: it has another shape.
    """
    try:
        for sample in iter_samples({"resourceMetrics": [resource]}):
            collector = deltas if sample.delta else plain
            collector.add(sample.name, dict(sample.labels), sample.time, sample.value)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise reader.error("a metric in an unknown shape", EXPECTED) from None


READER = artefact_reader(
    "metrics of OpenTelemetry as JSON (OTLP)",
    read_series,
    recognise,
    has_metrics=True,
)
