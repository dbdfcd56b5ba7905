"""Protobuf on the wire, read as if written by an enemy: fields one by one, nothing believed that is longer than it is.

Messages are small and few kinds of them are read, so no generated code is needed. What is broken raises
`ProtobufError`.
"""

import struct
from collections.abc import Iterator

MAX_SHIFT = 63
MAX_FIELDS = 1_000_000
"""Of one message: two bytes make a field, and each takes a hundred times that while it is read."""
DOUBLE = struct.Struct("<d")
FIXED64 = struct.Struct("<Q")

WireValue = int | memoryview
"""A varint as a number; everything else as its bytes."""


class ProtobufError(ValueError):
    """Bytes that are no message."""


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number of up to 64 bits, and where what follows it begins.

    Raises:
        ProtobufError: it does not end.
    """
    number = shift = 0
    while at < len(data) and shift <= MAX_SHIFT:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number & (2**64 - 1), at
        shift += 7
    raise ProtobufError("a number without end")


def iter_fields(data: memoryview) -> Iterator[tuple[int, WireValue]]:
    """Number and value of each field of a message, in the order written.

    Raises:
        ProtobufError: it is none.
    """
    at, left = 0, MAX_FIELDS
    while at < len(data):
        left -= 1
        if left < 0:
            raise ProtobufError(f"more than {MAX_FIELDS} fields in one message")
        tag, at = read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise ProtobufError("a field of number 0")
        if wire == 0:
            whole, at = read_varint(data, at)
            yield number, whole
            continue
        if wire == 2:
            size, at = read_varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ProtobufError(f"a field of kind {wire}")
        if size > len(data) - at:
            raise ProtobufError("a field beyond the end")
        yield number, data[at : at + size]
        at += size


def to_int64(number: int) -> int:
    """A 64-bit number as two's complement."""
    return number - 2**64 if number >= 2**63 else number


def decode_zigzag(number: int) -> int:
    """A number of kind sint."""
    return (number >> 1) ^ -(number & 1)


def to_double(value: WireValue) -> float:
    """A value of kind double.

    Raises:
        ProtobufError: it is none.
    """
    if isinstance(value, int) or len(value) != DOUBLE.size:
        raise ProtobufError("a field that is no double")
    return float(DOUBLE.unpack(value)[0])


def to_fixed64(value: WireValue) -> int:
    """A value of kind fixed64.

    Raises:
        ProtobufError: it is none.
    """
    if isinstance(value, int) or len(value) != FIXED64.size:
        raise ProtobufError("a field that is no fixed64")
    return int(FIXED64.unpack(value)[0])


def to_varint(value: WireValue) -> int:
    """A value of kind varint.

    Raises:
        ProtobufError: it is none.
    """
    if not isinstance(value, int):
        raise ProtobufError("a field that is no number")
    return value


def to_bytes(value: WireValue) -> memoryview:
    """A value that is bytes.

    Raises:
        ProtobufError: it is none.
    """
    if isinstance(value, int):
        raise ProtobufError("a number where a message stands")
    return value


def to_text(value: WireValue) -> str:
    """A value that is text.

    Raises:
        ProtobufError: it is none.
    """
    try:
        return bytes(to_bytes(value)).decode()
    except UnicodeDecodeError:
        raise ProtobufError("text that is no UTF-8") from None


def to_varints(value: WireValue) -> list[int]:
    """A packed list of varints; one that stands alone is a list of one.

    Raises:
        ProtobufError: it is none.
    """
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = read_varint(value, at)
        found.append(number)
    return found


def to_fixed64_list(value: WireValue) -> list[int]:
    """A packed list of fixed64.

    Raises:
        ProtobufError: it is none.
    """
    return [int(number) for number in _unpack_list(value, "Q")]


def to_double_list(value: WireValue) -> list[float]:
    """A packed list of doubles.

    Raises:
        ProtobufError: it is none.
    """
    return [float(number) for number in _unpack_list(value, "d")]


def _unpack_list(value: WireValue, kind: str) -> tuple[float, ...]:
    data = to_bytes(value)
    if len(data) % 8:
        raise ProtobufError("a list that is cut off")
    return struct.unpack(f"<{len(data) // 8}{kind}", data)
