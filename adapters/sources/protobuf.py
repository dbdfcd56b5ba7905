"""Protobuf on the wire, read as if written by an enemy: fields one by one, nothing believed that is longer than it is.

Messages are small and few kinds of them are read, so no generated code is needed. What is broken raises
`ProtobufError`.
"""

import struct
from collections.abc import Iterator

MOST_SHIFT = 63
MOST_FIELDS = 1_000_000
"""Of one message: two bytes make a field, and each takes a hundred times that while it is read."""
DOUBLE = struct.Struct("<d")
FIXED = struct.Struct("<Q")

Value = int | memoryview
"""A varint as a number; everything else as its bytes."""


class ProtobufError(ValueError):
    """Bytes that are no message."""


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number of up to 64 bits, and where what follows it begins.

    Raises:
        ProtobufError: it does not end.
    """
    number = shift = 0
    while at < len(data) and shift <= MOST_SHIFT:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number & (2**64 - 1), at
        shift += 7
    raise ProtobufError("a number without end")


def fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Number and value of each field of a message, in the order written.

    Raises:
        ProtobufError: it is none.
    """
    at, left = 0, MOST_FIELDS
    while at < len(data):
        left -= 1
        if left < 0:
            raise ProtobufError(f"more than {MOST_FIELDS} fields in one message")
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise ProtobufError("a field of number 0")
        if wire == 0:
            whole, at = varint(data, at)
            yield number, whole
            continue
        if wire == 2:
            size, at = varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ProtobufError(f"a field of kind {wire}")
        if size > len(data) - at:
            raise ProtobufError("a field beyond the end")
        yield number, data[at : at + size]
        at += size


def signed(number: int) -> int:
    """A 64-bit number as two's complement."""
    return number - 2**64 if number >= 2**63 else number


def zigzag(number: int) -> int:
    """A number of kind sint."""
    return (number >> 1) ^ -(number & 1)


def double(value: Value) -> float:
    """A value of kind double.

    Raises:
        ProtobufError: it is none.
    """
    if isinstance(value, int) or len(value) != DOUBLE.size:
        raise ProtobufError("a field that is no double")
    return float(DOUBLE.unpack(value)[0])


def fixed(value: Value) -> int:
    """A value of kind fixed64.

    Raises:
        ProtobufError: it is none.
    """
    if isinstance(value, int) or len(value) != FIXED.size:
        raise ProtobufError("a field that is no fixed64")
    return int(FIXED.unpack(value)[0])


def whole(value: Value) -> int:
    """A value of kind varint.

    Raises:
        ProtobufError: it is none.
    """
    if not isinstance(value, int):
        raise ProtobufError("a field that is no number")
    return value


def part(value: Value) -> memoryview:
    """A value that is bytes.

    Raises:
        ProtobufError: it is none.
    """
    if isinstance(value, int):
        raise ProtobufError("a number where a message stands")
    return value


def text(value: Value) -> str:
    """A value that is text.

    Raises:
        ProtobufError: it is none.
    """
    try:
        return bytes(part(value)).decode()
    except UnicodeDecodeError:
        raise ProtobufError("text that is no UTF-8") from None


def packed(value: Value) -> list[int]:
    """A packed list of varints; one that stands alone is a list of one.

    Raises:
        ProtobufError: it is none.
    """
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def packed_fixed(value: Value) -> list[int]:
    """A packed list of fixed64.

    Raises:
        ProtobufError: it is none.
    """
    return [int(number) for number in _of(value, "Q")]


def packed_doubles(value: Value) -> list[float]:
    """A packed list of doubles.

    Raises:
        ProtobufError: it is none.
    """
    return [float(number) for number in _of(value, "d")]


def _of(value: Value, kind: str) -> tuple[float, ...]:
    data = part(value)
    if len(data) % 8:
        raise ProtobufError("a list that is cut off")
    return struct.unpack(f"<{len(data) // 8}{kind}", data)
