"""OpenTelemetry's request for metrics, out of protobuf or JSON, as the same nested mappings.

Only what is used is read: the table below has the numbers of the fields and what OTLP's JSON calls them. In JSON whole
numbers of 64 bits are texts, and both are taken.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from skewscope.adapters.sources import protobuf
from skewscope.adapters.sources.protobuf import ProtobufError, Value, fields

Found = dict[str, Any]
MOST_MESSAGES = 2_000_000
"""In one body: an empty one takes two bytes on the wire, and thirty times that here."""


class Is(NamedTuple):
    """What a field holds."""

    name: str
    how: Callable[[Value], Any] | str
    """How it is read, or the name of a message."""
    many: bool = False


def _yes(value: Value) -> bool:
    return bool(protobuf.whole(value))


def _signed(value: Value) -> int:
    return protobuf.signed(protobuf.whole(value))


def _zigzag(value: Value) -> int:
    return protobuf.zigzag(protobuf.whole(value))


def _signed_fixed(value: Value) -> int:
    return protobuf.signed(protobuf.fixed(value))


POINT = {2: Is("startTimeUnixNano", protobuf.fixed), 3: Is("timeUnixNano", protobuf.fixed)}
MESSAGES: Mapping[str, Mapping[int, Is]] = {
    "request": {1: Is("resourceMetrics", "resource metrics", many=True)},
    "resource metrics": {1: Is("resource", "resource"), 2: Is("scopeMetrics", "scope metrics", many=True)},
    "resource": {1: Is("attributes", "attribute", many=True)},
    "scope metrics": {2: Is("metrics", "metric", many=True)},
    "attribute": {1: Is("key", protobuf.text), 2: Is("value", "any")},
    "any": {
        1: Is("stringValue", protobuf.text),
        2: Is("boolValue", _yes),
        3: Is("intValue", _signed),
        4: Is("doubleValue", protobuf.double),
    },
    "metric": {
        1: Is("name", protobuf.text),
        3: Is("unit", protobuf.text),
        5: Is("gauge", "points"),
        7: Is("sum", "points"),
        9: Is("histogram", "histograms"),
        10: Is("exponentialHistogram", "exponentials"),
        11: Is("summary", "summaries"),
    },
    "points": {
        1: Is("dataPoints", "point", many=True),
        2: Is("aggregationTemporality", protobuf.whole),
        3: Is("isMonotonic", _yes),
    },
    "histograms": {
        1: Is("dataPoints", "histogram", many=True),
        2: Is("aggregationTemporality", protobuf.whole),
    },
    "exponentials": {
        1: Is("dataPoints", "exponential", many=True),
        2: Is("aggregationTemporality", protobuf.whole),
    },
    "summaries": {1: Is("dataPoints", "summary", many=True)},
    "point": POINT
    | {
        4: Is("asDouble", protobuf.double),
        6: Is("asInt", _signed_fixed),
        7: Is("attributes", "attribute", many=True),
        8: Is("flags", protobuf.whole),
    },
    "histogram": POINT
    | {
        4: Is("count", protobuf.fixed),
        5: Is("sum", protobuf.double),
        6: Is("bucketCounts", protobuf.packed_fixed),
        7: Is("explicitBounds", protobuf.packed_doubles),
        9: Is("attributes", "attribute", many=True),
        10: Is("flags", protobuf.whole),
    },
    "exponential": POINT
    | {
        1: Is("attributes", "attribute", many=True),
        4: Is("count", protobuf.fixed),
        5: Is("sum", protobuf.double),
        6: Is("scale", _zigzag),
        7: Is("zeroCount", protobuf.fixed),
        8: Is("positive", "buckets"),
        10: Is("flags", protobuf.whole),
    },
    "buckets": {1: Is("offset", _zigzag), 2: Is("bucketCounts", protobuf.packed)},
    "summary": POINT
    | {
        4: Is("count", protobuf.fixed),
        5: Is("sum", protobuf.double),
        7: Is("attributes", "attribute", many=True),
        8: Is("flags", protobuf.whole),
    },
}


def of_protobuf(body: bytes) -> Found:
    """The request in a body.

    Raises:
        ProtobufError: it is none.
    """
    return _message(memoryview(body), "request", iter(range(MOST_MESSAGES)))


def _message(data: memoryview, what: str, room: Iterator[int]) -> Found:
    """One message; `room` has a number for each that there may still be."""
    if next(room, None) is None:
        raise ProtobufError(f"more than {MOST_MESSAGES} messages")
    found: Found = {}
    table = MESSAGES[what]
    for number, value in fields(data):
        known = table.get(number)
        if known is None:
            continue
        read = _message(protobuf.part(value), known.how, room) if isinstance(known.how, str) else known.how(value)
        if known.many:
            found.setdefault(known.name, []).append(read)
        elif isinstance(read, list):
            # A packed list may come in several parts.
            found.setdefault(known.name, []).extend(read)
        else:
            found[known.name] = read
    return found


def of_json(body: bytes) -> Found:
    """The request in a body.

    Raises:
        ProtobufError: it is none.
    """
    if body.count(b"{") + body.count(b"[") > MOST_MESSAGES:
        raise ProtobufError(f"more than {MOST_MESSAGES} objects and lists")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise ProtobufError("a body that is no JSON") from None
    if not isinstance(found, dict):
        raise ProtobufError("a body that is no request")
    return found
