"""Writes Protocol Buffers messages: the wire format of proto3, fields in order of their number."""

from collections.abc import Iterable

VARINT, LENGTH = 0, 2


def encode_varint(value: int) -> bytes:
    """Encodes a non-negative integer, seven bits per byte."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_number(field: int, value: int) -> bytes:
    """Encodes an integer, boolean or enum field; the default is omitted, as proto3 requires."""
    return encode_varint(field << 3 | VARINT) + encode_varint(value) if value else b""


def encode_text(field: int, value: str) -> bytes:
    """Encodes a text field; an empty text is omitted."""
    return encode_message(field, value.encode()) if value else b""


def encode_message(field: int, content: bytes) -> bytes:
    """Encodes a message or bytes field."""
    return encode_varint(field << 3 | LENGTH) + encode_varint(len(content)) + content


def encode_mapping(field: int, items: Iterable[tuple[str, str]]) -> bytes:
    """Encodes a map field from text to text."""
    return b"".join(encode_message(field, encode_text(1, key) + encode_text(2, value)) for key, value in items)
