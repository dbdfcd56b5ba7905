"""Sources of kind `otlp`: metrics that are pushed by OpenTelemetry's protocol over HTTP, as protobuf or JSON.

A collector passes the names of Prometheus exporters on as they are; other names have their dots as underscores. What
comes as differences is added up here. Some senders repeat points with the same times (a DOCA Telemetry Service before
3.2.1 does, with its inventory switched on): each counts once.
"""

import math
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from skewscope.adapters.grammar import MOST_LABELS
from skewscope.adapters.sources import World
from skewscope.adapters.sources.otlp_wire import of_json, of_protobuf
from skewscope.adapters.sources.protobuf import ProtobufError
from skewscope.adapters.sources.pushed import About, Headers, Pushed, Read, Reply, Settings, UnfitError, settings
from skewscope.adapters.sources.samples import Rows, Series
from skewscope.kb.fields import Fields
from skewscope.kb.yamlfile import Path_

PATH = "/v1/metrics"
ABOUT = About("Metrics of OpenTelemetry (OTLP).", ("application/x-protobuf", "application/json"), "200")
DELTA = 1
"""The temporality of differences."""
NO_VALUE = 1
"""The flag of a point that has none."""
MOST_BUCKETS = 4096
MOST_SCALE = 20
WORD = re.compile(r"[^a-zA-Z0-9_:]")

# What OpenTelemetry calls the labels that say where something is.
PLACES = {
    "host.name": "hostname",
    "k8s.node.name": "nodename",
    "service.instance.id": "instance",
}
PLAIN = ("stringValue", "intValue", "doubleValue", "boolValue")

Labels = tuple[tuple[str, str], ...]


def read(fields: Fields, at: Path_, name: str) -> Settings:
    """The settings of one source; faults are noted."""
    return settings(fields, at, name, PATH)


def build(wanted: Settings, world: World) -> Pushed:
    """The source."""
    return Pushed(wanted, world, Otlp().taken, ABOUT)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series."""

    name: str
    labels: Labels
    time: float
    value: float
    delta: bool = False


@dataclass
class Otlp:
    """Reads bodies one after the other."""

    _sums: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Of differences: until when, and how much; by number."""

    def taken(self, body: bytes, headers: Headers, wanted: Settings, series: Series) -> Read:
        """What a body holds.

        Raises:
            UnfitError: it is none.
        """
        kind = headers.get("content-type", "").partition(";")[0].strip()
        data = unpacked(body, headers.get("content-encoding", ""), wanted.most)
        rows = Rows()
        try:
            request = of_json(data) if kind == "application/json" else of_protobuf(data)
            # All of a body is read before any of it counts.
            for sample in list(samples(request)):
                self._put(sample, rows, series)
        except ProtobufError as error:
            raise UnfitError(f"no metrics of OTLP: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise UnfitError("no metrics of OTLP: fields in an unknown shape") from None
        answer = b"{}" if kind == "application/json" else b""
        reply = Reply(200, answer, (("Content-Type", kind or "application/x-protobuf"),))
        return Read(rows.batch(series.listing), reply)

    def _put(self, sample: Sample, rows: Rows, series: Series) -> None:
        targets = series.of(sample.name, sample.labels)
        for target in targets:
            value = sample.value
            if sample.delta:
                until, sum_ = self._sums.get(target.number, (-math.inf, 0.0))
                if sample.time <= until:
                    continue
                value += sum_
                self._sums[target.number] = sample.time, value
            rows.put((target,), sample.time, value)


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """A body as it was before it was packed.

    Raises:
        UnfitError: it holds more than `most` bytes, or is broken.
    """
    if encoding in ("", "identity"):
        data = body
    elif encoding == "gzip":
        reader = zlib.decompressobj(wbits=31)
        try:
            data = reader.decompress(body, most + 1)
        except zlib.error:
            raise UnfitError("a body that is no gzip") from None
    else:
        raise UnfitError(f"an encoding {encoding[:20]!r} that is not read")
    if len(data) > most:
        raise UnfitError(f"more than the {most} bytes that are read")
    return data


def samples(request: Mapping[str, Any]) -> Iterator[Sample]:
    """All values of a request; raises what Python raises where it has another shape."""
    for resource in request.get("resourceMetrics", ()):
        of_all = _attributes(resource.get("resource", {}).get("attributes", ()))
        for scope in resource.get("scopeMetrics", ()):
            for metric in scope.get("metrics", ()):
                yield from _metric(metric, of_all)


def _metric(metric: Mapping[str, Any], of_all: dict[str, str]) -> Iterator[Sample]:
    name = WORD.sub("_", str(metric["name"]))
    for kind, read_ in KINDS.items():
        told = metric.get(kind)
        if told is None:
            continue
        delta = _temporality(told.get("aggregationTemporality", 0)) == DELTA
        for point in told.get("dataPoints", ()):
            if int(point.get("flags", 0)) & NO_VALUE:
                continue
            labels = of_all | _attributes(point.get("attributes", ()))
            if len(labels) > MOST_LABELS:
                raise ValueError
            time = int(point["timeUnixNano"]) / 1e9
            for part, more, value in read_(point):
                yield Sample(name + part, tuple(sorted((labels | more).items())), time, value, delta)


def _temporality(told: Any) -> int:
    return DELTA if told == "AGGREGATION_TEMPORALITY_DELTA" else int(told) if str(told).isdigit() else 0


def _attributes(told: Any) -> dict[str, str]:
    """Attributes as labels; those that are no plain value are left out."""
    found = {}
    for each in told:
        value = each.get("value", {})
        plain = next((value[kind] for kind in PLAIN if kind in value), "")
        if plain != "":
            key = str(each["key"])
            found[PLACES.get(key) or WORD.sub("_", key)] = str(plain)
    return found


Parts = Iterator[tuple[str, dict[str, str], float]]
"""What is put behind a name, labels besides, and the value."""


def _number(point: Mapping[str, Any]) -> Parts:
    value = point.get("asDouble", point.get("asInt"))
    if value is not None:
        yield "", {}, float(value)


def _whole(point: Mapping[str, Any]) -> Parts:
    """Number and sum of observations."""
    yield "_count", {}, float(point.get("count", 0))
    if "sum" in point:
        yield "_sum", {}, float(point["sum"])


def _histogram(point: Mapping[str, Any]) -> Parts:
    counts = [int(count) for count in point.get("bucketCounts", ())]
    bounds = [float(bound) for bound in point.get("explicitBounds", ())]
    if len(counts) > MOST_BUCKETS or (counts and len(counts) != len(bounds) + 1):
        raise ValueError
    total = 0
    for count, bound in zip(counts, [*bounds, math.inf], strict=bool(counts)):
        total += count
        yield "_bucket", {"le": "+Inf" if bound == math.inf else f"{bound:.12g}"}, float(total)
    yield from _whole(point)


def _exponential(point: Mapping[str, Any]) -> Parts:
    """As a histogram whose bounds are powers of two: they stay the same whatever the sender's scale."""
    scale, positive = int(point.get("scale", 0)), point.get("positive", {})
    counts, offset = [int(count) for count in positive.get("bucketCounts", ())], int(positive.get("offset", 0))
    if len(counts) > MOST_BUCKETS or abs(scale) > MOST_SCALE or abs(offset) > 1 << 31:
        raise ValueError
    by_power: dict[int, int] = {}
    for n, count in enumerate(counts):
        # The nth bucket ends at base ** (offset + n + 1), and the base is 2 ** (2 ** -scale).
        power = math.ceil((offset + n + 1) * 2.0**-scale)
        by_power[power] = by_power.get(power, 0) + count
    # What is nought or below counts as below the first bound.
    total = int(point.get("count", 0)) - sum(counts)
    for power, count in sorted(by_power.items()):
        total += count
        if abs(power) < 1000:
            yield "_bucket", {"le": f"{2.0**power:.12g}"}, float(total)
    yield "_bucket", {"le": "+Inf"}, float(point.get("count", 0))
    yield from _whole(point)


KINDS = {
    "gauge": _number,
    "sum": _number,
    "histogram": _histogram,
    "exponentialHistogram": _exponential,
    "summary": _whole,
}
