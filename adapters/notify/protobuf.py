"""As much of Protocol Buffers as it takes to write a message: the wire format of proto3, fields in order of number."""

from collections.abc import Iterable

VARINT, LENGTH = 0, 2


def encode_varint(value: int) -> bytes:
    """A number that is not negative, seven bits a byte."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_number(field: int, value: int) -> bytes:
    """A field that holds a number, a boolean or one of an enum; the default is left out, as proto3 does."""
    return encode_varint(field << 3 | VARINT) + encode_varint(value) if value else b""


def encode_text(field: int, value: str) -> bytes:
    """A field that holds a text; an empty one is left out."""
    return encode_message(field, value.encode()) if value else b""


def encode_message(field: int, content: bytes) -> bytes:
    """A field that holds another message, or bytes."""
    return encode_varint(field << 3 | LENGTH) + encode_varint(len(content)) + content


def encode_mapping(field: int, items: Iterable[tuple[str, str]]) -> bytes:
    """A field that maps texts to texts."""
    return b"".join(encode_message(field, encode_text(1, key) + encode_text(2, value)) for key, value in items)
