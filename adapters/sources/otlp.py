"""Sources of kind `otlp`: metrics pushed by OpenTelemetry's protocol over HTTP, as protobuf or JSON.

Names of Prometheus exporters pass through a collector unchanged; in other names dots become underscores. Delta values
are summed up here. Some senders repeat points with the same time (a DOCA Telemetry Service before 3.2.1, with inventory
enabled): each counts once.
"""

import math
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from skewscope.adapters.formats.openmetrics_grammar import MAX_LABELS
from skewscope.adapters.formats.otlp_wire import parse_json, parse_protobuf
from skewscope.adapters.formats.protobuf import ProtobufError
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.push_receiver import (
    Headers,
    InvalidBodyError,
    PushEndpointInfo,
    PushReply,
    PushResult,
    PushSettings,
    PushSource,
    parse_settings,
)
from skewscope.adapters.sources.common.series_mapper import SeriesMapper, SourceBatchBuilder
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

PATH = "/v1/metrics"
ENDPOINT_INFO = PushEndpointInfo(
    "Metrics of OpenTelemetry (OTLP).", ("application/x-protobuf", "application/json"), "200"
)
DELTA = 1
"""Aggregation temporality: delta."""
NO_VALUE_FLAG = 1
"""Flag of a point without a value."""
MAX_BUCKETS = 4096
MAX_SCALE = 20
INVALID_CHARACTER = re.compile(r"[^a-zA-Z0-9_:]")

# OpenTelemetry's attribute names for labels of place.
LABEL_NAMES = {
    "host.name": "hostname",
    "k8s.node.name": "nodename",
    "service.instance.id": "instance",
}
SCALAR_TYPES = ("stringValue", "intValue", "doubleValue", "boolValue")

Labels = tuple[tuple[str, str], ...]


def read(fields: FieldReader, at: FieldPath, name: str) -> PushSettings:
    """Parses the settings of one source; problems are added to `fields`."""
    return parse_settings(fields, at, name, PATH)


def build(settings: PushSettings, context: SourceContext) -> PushSource:
    """Creates the source."""
    return PushSource(settings, context, OtlpReader().read_body, ENDPOINT_INFO)


@dataclass(frozen=True, slots=True)
class OtlpSample:
    """One value of one series."""

    name: str
    labels: Labels
    time: float
    value: float
    delta: bool = False


@dataclass
class OtlpReader:
    """Reads bodies, one after the other."""

    _sums: dict[int, tuple[float, float]] = field(default_factory=dict)
    """End time and sum of delta series, by number."""

    def read_body(self, body: bytes, headers: Headers, settings: PushSettings, series: SeriesMapper) -> PushResult:
        """Returns the samples of a body.

        Raises:
            InvalidBodyError: the body is invalid.
        """
        kind = headers.get("content-type", "").partition(";")[0].strip()
        data = decompress(body, headers.get("content-encoding", ""), settings.max_bytes)
        rows = SourceBatchBuilder()
        try:
            request = parse_json(data) if kind == "application/json" else parse_protobuf(data)
            # A body is read completely before any of it is used.
            for sample in list(iter_samples(request)):
                self._add_sample(sample, rows, series)
        except ProtobufError as error:
            raise InvalidBodyError(f"no metrics of OTLP: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise InvalidBodyError("no metrics of OTLP: fields in an unknown shape") from None
        answer = b"{}" if kind == "application/json" else b""
        reply = PushReply(200, answer, (("Content-Type", kind or "application/x-protobuf"),))
        return PushResult(rows.build(series.registry), reply)

    def _add_sample(self, sample: OtlpSample, rows: SourceBatchBuilder, series: SeriesMapper) -> None:
        targets = series.map_series(sample.name, sample.labels)
        for target in targets:
            value = sample.value
            if sample.delta:
                until, sum_ = self._sums.get(target.number, (-math.inf, 0.0))
                if sample.time <= until:
                    continue
                value += sum_
                self._sums[target.number] = sample.time, value
            rows.add((target,), sample.time, value)


def decompress(body: bytes, encoding: str, most: int) -> bytes:
    """Returns the decompressed body.

    Raises:
        InvalidBodyError: it exceeds `most` bytes, or is broken.
    """
    if encoding in ("", "identity"):
        data = body
    elif encoding == "gzip":
        reader = zlib.decompressobj(wbits=31)
        try:
            data = reader.decompress(body, most + 1)
        except zlib.error:
            raise InvalidBodyError("a body that is no gzip") from None
    else:
        raise InvalidBodyError(f"an encoding {encoding[:20]!r} that is not read")
    if len(data) > most:
        raise InvalidBodyError(f"more than the {most} bytes that are read")
    return data


def iter_samples(request: Mapping[str, Any]) -> Iterator[OtlpSample]:
    """Yields all values of a request; raises Python's errors for an unexpected shape."""
    for resource in request.get("resourceMetrics", ()):
        of_all = _parse_attributes(resource.get("resource", {}).get("attributes", ()))
        for scope in resource.get("scopeMetrics", ()):
            for metric in scope.get("metrics", ()):
                yield from _metric_samples(metric, of_all)


def _metric_samples(metric: Mapping[str, Any], of_all: dict[str, str]) -> Iterator[OtlpSample]:
    name = INVALID_CHARACTER.sub("_", str(metric["name"]))
    for kind, read_ in METRIC_KINDS.items():
        reported = metric.get(kind)
        if reported is None:
            continue
        delta = _parse_temporality(reported.get("aggregationTemporality", 0)) == DELTA
        for point in reported.get("dataPoints", ()):
            if int(point.get("flags", 0)) & NO_VALUE_FLAG:
                continue
            labels = of_all | _parse_attributes(point.get("attributes", ()))
            if len(labels) > MAX_LABELS:
                raise ValueError
            time = int(point["timeUnixNano"]) / 1e9
            for part, more, value in read_(point):
                yield OtlpSample(name + part, tuple(sorted((labels | more).items())), time, value, delta)


def _parse_temporality(reported: Any) -> int:
    return DELTA if reported == "AGGREGATION_TEMPORALITY_DELTA" else int(reported) if str(reported).isdigit() else 0


def _parse_attributes(reported: Any) -> dict[str, str]:
    """Returns attributes as labels; structured values are omitted."""
    found = {}
    for each in reported:
        value = each.get("value", {})
        plain = next((value[kind] for kind in SCALAR_TYPES if kind in value), "")
        if plain != "":
            key = str(each["key"])
            found[LABEL_NAMES.get(key) or INVALID_CHARACTER.sub("_", key)] = str(plain)
    return found


SeriesValues = Iterator[tuple[str, dict[str, str], float]]
"""Suffix of the name, additional labels, value."""


def _number_values(point: Mapping[str, Any]) -> SeriesValues:
    value = point.get("asDouble", point.get("asInt"))
    if value is not None:
        yield "", {}, float(value)


def _count_and_sum(point: Mapping[str, Any]) -> SeriesValues:
    """Yields count and sum of observations."""
    yield "_count", {}, float(point.get("count", 0))
    if "sum" in point:
        yield "_sum", {}, float(point["sum"])


def _histogram_values(point: Mapping[str, Any]) -> SeriesValues:
    counts = [int(count) for count in point.get("bucketCounts", ())]
    bounds = [float(bound) for bound in point.get("explicitBounds", ())]
    if len(counts) > MAX_BUCKETS or (counts and len(counts) != len(bounds) + 1):
        raise ValueError
    total = 0
    for count, bound in zip(counts, [*bounds, math.inf], strict=bool(counts)):
        total += count
        yield "_bucket", {"le": "+Inf" if bound == math.inf else f"{bound:.12g}"}, float(total)
    yield from _count_and_sum(point)


def _exponential_values(point: Mapping[str, Any]) -> SeriesValues:
    """Yields it as a histogram with powers of two as bounds, which do not depend on the sender's scale."""
    scale, positive = int(point.get("scale", 0)), point.get("positive", {})
    counts, offset = [int(count) for count in positive.get("bucketCounts", ())], int(positive.get("offset", 0))
    if len(counts) > MAX_BUCKETS or abs(scale) > MAX_SCALE or abs(offset) > 1 << 31:
        raise ValueError
    by_power: dict[int, int] = {}
    for n, count in enumerate(counts):
        # The nth bucket ends at base ** (offset + n + 1), and the base is 2 ** (2 ** -scale).
        power = math.ceil((offset + n + 1) * 2.0**-scale)
        by_power[power] = by_power.get(power, 0) + count
    # Values of zero or below count as below the first bound.
    total = int(point.get("count", 0)) - sum(counts)
    for power, count in sorted(by_power.items()):
        total += count
        if abs(power) < 1000:
            yield "_bucket", {"le": f"{2.0**power:.12g}"}, float(total)
    yield "_bucket", {"le": "+Inf"}, float(point.get("count", 0))
    yield from _count_and_sum(point)


METRIC_KINDS = {
    "gauge": _number_values,
    "sum": _number_values,
    "histogram": _histogram_values,
    "exponentialHistogram": _exponential_values,
    "summary": _count_and_sum,
}
