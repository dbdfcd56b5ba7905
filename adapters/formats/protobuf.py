"""Reads the protobuf wire format of untrusted input: field by field, with every length checked.

Messages are small and of few kinds, so no generated code is needed. Broken input raises `ProtobufError`.
"""

import struct
from collections.abc import Iterator

MAX_SHIFT = 63
MAX_FIELDS = 1_000_000
"""Maximum fields of one message: a field of two bytes takes a hundred times that while it is read."""
DOUBLE = struct.Struct("<d")
FIXED64 = struct.Struct("<Q")

WireValue = int | memoryview
"""A varint as an integer; everything else as bytes."""


class ProtobufError(ValueError):
    """The bytes are not a valid message."""


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Returns a 64-bit varint and the offset behind it.

    Raises:
        ProtobufError: the varint does not end.
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
    """Yields number and value of each field, in the order written.

    Raises:
        ProtobufError: the message is invalid.
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
    """Converts an unsigned 64-bit number to two's complement."""
    return number - 2**64 if number >= 2**63 else number


def decode_zigzag(number: int) -> int:
    """Decodes a zigzag number (sint)."""
    return (number >> 1) ^ -(number & 1)


def to_double(value: WireValue) -> float:
    """Returns a double.

    Raises:
        ProtobufError: the field is not a double.
    """
    if isinstance(value, int) or len(value) != DOUBLE.size:
        raise ProtobufError("a field that is no double")
    return float(DOUBLE.unpack(value)[0])


def to_fixed64(value: WireValue) -> int:
    """Returns a fixed64.

    Raises:
        ProtobufError: the field is not a fixed64.
    """
    if isinstance(value, int) or len(value) != FIXED64.size:
        raise ProtobufError("a field that is no fixed64")
    return int(FIXED64.unpack(value)[0])


def to_varint(value: WireValue) -> int:
    """Returns a varint.

    Raises:
        ProtobufError: the field is not a varint.
    """
    if not isinstance(value, int):
        raise ProtobufError("a field that is no number")
    return value


def to_bytes(value: WireValue) -> memoryview:
    """Returns bytes.

    Raises:
        ProtobufError: the field is not bytes.
    """
    if isinstance(value, int):
        raise ProtobufError("a number where a message stands")
    return value


def to_text(value: WireValue) -> str:
    """Returns text.

    Raises:
        ProtobufError: the field is not UTF-8 text.
    """
    try:
        return bytes(to_bytes(value)).decode()
    except UnicodeDecodeError:
        raise ProtobufError("text that is no UTF-8") from None


def to_varints(value: WireValue) -> list[int]:
    """Returns a packed list of varints; a single varint gives a list of one.

    Raises:
        ProtobufError: the field is not such a list.
    """
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = read_varint(value, at)
        found.append(number)
    return found


def to_fixed64_list(value: WireValue) -> list[int]:
    """Returns a packed list of fixed64.

    Raises:
        ProtobufError: the field is not such a list.
    """
    return [int(number) for number in _unpack_list(value, "Q")]


def to_double_list(value: WireValue) -> list[float]:
    """Returns a packed list of doubles.

    Raises:
        ProtobufError: the field is not such a list.
    """
    return [float(number) for number in _unpack_list(value, "d")]


def _unpack_list(value: WireValue, kind: str) -> tuple[float, ...]:
    data = to_bytes(value)
    if len(data) % 8:
        raise ProtobufError("a list that is cut off")
    return struct.unpack(f"<{len(data) // 8}{kind}", data)
