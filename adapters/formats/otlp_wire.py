"""Parses OpenTelemetry's metrics request from protobuf or JSON into the same nested mappings.

Only used fields are read: the table below lists their numbers and their names in OTLP's JSON. In JSON, 64-bit integers
may be texts; both forms are accepted.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from skewscope.adapters.formats import protobuf
from skewscope.adapters.formats.protobuf import ProtobufError, WireValue, iter_fields

Message = dict[str, Any]
MAX_MESSAGES = 2_000_000
"""Maximum messages in a body: an empty one takes two bytes on the wire and thirty times that in memory."""


class FieldSpec(NamedTuple):
    """The type of a field."""

    name: str
    reader: Callable[[WireValue], Any] | str
    """A parser, or the name of a message."""
    repeated: bool = False


def _bool(value: WireValue) -> bool:
    return bool(protobuf.to_varint(value))


def _int64(value: WireValue) -> int:
    return protobuf.to_int64(protobuf.to_varint(value))


def _sint64(value: WireValue) -> int:
    return protobuf.decode_zigzag(protobuf.to_varint(value))


def _sfixed64(value: WireValue) -> int:
    return protobuf.to_int64(protobuf.to_fixed64(value))


POINT_FIELDS = {
    2: FieldSpec("startTimeUnixNano", protobuf.to_fixed64),
    3: FieldSpec("timeUnixNano", protobuf.to_fixed64),
}
MESSAGES: Mapping[str, Mapping[int, FieldSpec]] = {
    "request": {1: FieldSpec("resourceMetrics", "resource metrics", repeated=True)},
    "resource metrics": {
        1: FieldSpec("resource", "resource"),
        2: FieldSpec("scopeMetrics", "scope metrics", repeated=True),
    },
    "resource": {1: FieldSpec("attributes", "attribute", repeated=True)},
    "scope metrics": {2: FieldSpec("metrics", "metric", repeated=True)},
    "attribute": {1: FieldSpec("key", protobuf.to_text), 2: FieldSpec("value", "any")},
    "any": {
        1: FieldSpec("stringValue", protobuf.to_text),
        2: FieldSpec("boolValue", _bool),
        3: FieldSpec("intValue", _int64),
        4: FieldSpec("doubleValue", protobuf.to_double),
    },
    "metric": {
        1: FieldSpec("name", protobuf.to_text),
        3: FieldSpec("unit", protobuf.to_text),
        5: FieldSpec("gauge", "points"),
        7: FieldSpec("sum", "points"),
        9: FieldSpec("histogram", "histograms"),
        10: FieldSpec("exponentialHistogram", "exponentials"),
        11: FieldSpec("summary", "summaries"),
    },
    "points": {
        1: FieldSpec("dataPoints", "point", repeated=True),
        2: FieldSpec("aggregationTemporality", protobuf.to_varint),
        3: FieldSpec("isMonotonic", _bool),
    },
    "histograms": {
        1: FieldSpec("dataPoints", "histogram", repeated=True),
        2: FieldSpec("aggregationTemporality", protobuf.to_varint),
    },
    "exponentials": {
        1: FieldSpec("dataPoints", "exponential", repeated=True),
        2: FieldSpec("aggregationTemporality", protobuf.to_varint),
    },
    "summaries": {1: FieldSpec("dataPoints", "summary", repeated=True)},
    "point": POINT_FIELDS
    | {
        4: FieldSpec("asDouble", protobuf.to_double),
        6: FieldSpec("asInt", _sfixed64),
        7: FieldSpec("attributes", "attribute", repeated=True),
        8: FieldSpec("flags", protobuf.to_varint),
    },
    "histogram": POINT_FIELDS
    | {
        4: FieldSpec("count", protobuf.to_fixed64),
        5: FieldSpec("sum", protobuf.to_double),
        6: FieldSpec("bucketCounts", protobuf.to_fixed64_list),
        7: FieldSpec("explicitBounds", protobuf.to_double_list),
        9: FieldSpec("attributes", "attribute", repeated=True),
        10: FieldSpec("flags", protobuf.to_varint),
    },
    "exponential": POINT_FIELDS
    | {
        1: FieldSpec("attributes", "attribute", repeated=True),
        4: FieldSpec("count", protobuf.to_fixed64),
        5: FieldSpec("sum", protobuf.to_double),
        6: FieldSpec("scale", _sint64),
        7: FieldSpec("zeroCount", protobuf.to_fixed64),
        8: FieldSpec("positive", "buckets"),
        10: FieldSpec("flags", protobuf.to_varint),
    },
    "buckets": {1: FieldSpec("offset", _sint64), 2: FieldSpec("bucketCounts", protobuf.to_varints)},
    "summary": POINT_FIELDS
    | {
        4: FieldSpec("count", protobuf.to_fixed64),
        5: FieldSpec("sum", protobuf.to_double),
        7: FieldSpec("attributes", "attribute", repeated=True),
        8: FieldSpec("flags", protobuf.to_varint),
    },
}


def parse_protobuf(body: bytes) -> Message:
    """Parses a protobuf request.

    Raises:
        ProtobufError: the body is invalid.
    """
    return _parse_message(memoryview(body), "request", iter(range(MAX_MESSAGES)))


def _parse_message(data: memoryview, what: str, room: Iterator[int]) -> Message:
    """Parses one message; `room` yields once per message that is still allowed."""
    if next(room, None) is None:
        raise ProtobufError(f"more than {MAX_MESSAGES} messages")
    found: Message = {}
    table = MESSAGES[what]
    for number, value in iter_fields(data):
        known = table.get(number)
        if known is None:
            continue
        read = (
            _parse_message(protobuf.to_bytes(value), known.reader, room)
            if isinstance(known.reader, str)
            else known.reader(value)
        )
        if known.repeated:
            found.setdefault(known.name, []).append(read)
        elif isinstance(read, list):
            # A packed list may come in several parts.
            found.setdefault(known.name, []).extend(read)
        else:
            found[known.name] = read
    return found


def parse_json(body: bytes) -> Message:
    """Parses a JSON request.

    Raises:
        ProtobufError: the body is invalid.
    """
    if body.count(b"{") + body.count(b"[") > MAX_MESSAGES:
        raise ProtobufError(f"more than {MAX_MESSAGES} objects and lists")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise ProtobufError("a body that is no JSON") from None
    if not isinstance(found, dict):
        raise ProtobufError("a body that is no request")
    return found
