"""What agents push: printed and read back, and whatever is no such thing is refused by name."""

import json
import struct
from contextlib import suppress

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.formats import row_protocol
from skewscope.adapters.formats.row_protocol import BadRowsError, HelloFrame, RowFrame, SeriesFrame, decode, encode
from skewscope.engine.ingest.feed import SeriesKey

NAMES = st.text(st.characters(categories=("L", "N", "P", "S")), max_size=20)
KEYS = st.builds(SeriesKey, NAMES, NAMES, NAMES, NAMES)
ANNOUNCED = st.builds(SeriesFrame, st.integers(0, 255), st.integers(0, 60000), st.lists(KEYS, max_size=4).map(tuple))
ROWS = st.builds(
    RowFrame,
    st.integers(0, 2**64 - 1),
    st.floats(0, 4e9),
    st.integers(0, 255),
    st.lists(st.floats(), max_size=9).map(np.array),
)
HELLO = HelloFrame("n0", "b00t", "0.1.0")


def packed(*frames: tuple[int, bytes]) -> bytes:
    """A body of frames as they stand."""
    return zstandard.compress(b"".join(struct.pack("<BI", kind, len(what)) + what for kind, what in frames))


@given(st.lists(ANNOUNCED | ROWS, max_size=5))
def test_what_is_sent_arrives(frames: list[SeriesFrame | RowFrame]) -> None:
    found = list(decode(encode([HELLO, *frames])))
    assert encode(found) == encode([HELLO, *frames])
    assert [type(frame) for frame in found] == [HelloFrame, *(type(frame) for frame in frames)]


@given(st.binary(max_size=200))
def test_what_is_none_is_refused(body: bytes) -> None:
    for sent in (body, zstandard.compress(body)):
        with suppress(BadRowsError):
            list(decode(sent))


HELLO_FRAME = (0, json.dumps({"node": "n0", "boot": "b", "version": "1"}).encode())


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"text", "not compressed"),
        (packed((2, b"")), "begins with one hello"),
        (packed(HELLO_FRAME, HELLO_FRAME), "begins with one hello"),
        (packed((0, b"[")), "cannot be read"),
        (packed((0, b"[" * 8_000)), "cannot be read"),
        (packed((0, b"[" * 100_000)), "a hello of 100000 bytes"),
        (
            packed(HELLO_FRAME, *[(1, b'{"table":0,"first":0,"series":[],"x":[' + b"0," * 40_000 + b"0]}")] * 20),
            "JSON frames with more than 786432 times ,",
        ),
        (
            packed(HELLO_FRAME, (1, b'{"table":0,"first":0,"series":[],"x":[' + b"0," * 50_000 + b"0]}")),
            "a JSON frame with more than 49152 times ,",
        ),
        (
            packed(HELLO_FRAME, (1, b'{"x":"' + b"a" * (4 << 20) + b'"}')),
            "a series frame of 4194312 bytes, more than 4194304",
        ),
        (
            packed(HELLO_FRAME, (1, b'{"table":0,"first":0,"series":[' + b"[]," * 4096 + b"[]]}")),
            "4097 series in one frame, more than 4096",
        ),
        (packed((0, b"[]")), "no JSON object"),
        (packed((0, b'{"node": "\\u001b[2J"}')), "printable"),
        (packed(HELLO_FRAME, (7, b"{}")), "kind 7"),
        (packed(HELLO_FRAME, (1, b'{"table": 256, "first": 0, "series": []}')), "0 to 255"),
        (packed(HELLO_FRAME, (1, b'{"table": true, "first": 0, "series": []}')), "0 to 255"),
        (packed(HELLO_FRAME, (1, b'{"table": 0, "first": 0, "series": [["a", "b"]]}')), "signal, kind"),
        (packed(HELLO_FRAME, (1, b'{"table": 0, "first": 65535, "series": [[],[]]}')), "65537 columns"),
        (packed(HELLO_FRAME, (2, struct.pack("<QdII", 1, 1.0, 0, 2) + bytes(8))), "2 values"),
        (packed(HELLO_FRAME, (2, struct.pack("<QdII", 1, float("nan"), 0, 0))), "without a time"),
        (zstandard.compress(bytes(row_protocol.MAX_BYTES + 1)), "when unpacked"),
        (zstandard.compress(struct.pack("<BI", 0, 4_000_000_000) + b"{}"), "cut short"),
        (zstandard.compress(b""), "0 bytes after"),
    ],
)
def test_bad_bodies_are_named(body: bytes, told: str) -> None:
    with pytest.raises(BadRowsError, match=told):
        list(decode(body))


@pytest.mark.parametrize("part", [b"[]", b"{}", b'""', b"1"])
def test_json_of_very_many_small_parts_is_refused_before_it_is_parsed(part):
    """It would take a hundred times its size in memory."""
    text = b'{"table":0,"first":0,"series":[' + (part + b",") * 3_000_000 + part + b"]}"
    hello = zstandard.ZstdDecompressor().decompress(encode([HelloFrame("n0", "b", "1")]))
    sent = zstandard.ZstdCompressor(level=1).compress(hello + struct.pack("<BI", 1, len(text)) + text)
    frames = decode(sent)
    next(frames)
    with pytest.raises(BadRowsError, match=r"(a JSON frame with more|a series frame of .* bytes, more) than"):
        next(frames)


def test_many_series_take_several_frames():
    keys = tuple(SeriesKey("a", "node", "n0", str(n)) for n in range(5_000))
    _, *found = decode(encode([HelloFrame("n0", "b", "1"), SeriesFrame(3, 7, keys)]))
    assert [(one.table, one.first, len(one.series)) for one in found] == [(3, 7, 2048), (3, 2055, 2048), (3, 4103, 904)]
    assert tuple(key for one in found for key in one.series) == keys


def test_a_body_announces_no_more_series_than_an_agent_may_have():
    some = SeriesFrame(0, 0, tuple(SeriesKey("a", "node", "n0", str(n)) for n in range(40_000)))
    with pytest.raises(BadRowsError, match="more than 65536 series in one body"):
        list(decode(encode([HelloFrame("n0", "b", "1"), some, some])))
