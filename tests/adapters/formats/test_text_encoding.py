"""Text that Windows wrote is read as any other; bytes without a byte order mark stay as they are."""

import codecs
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.formats.text_encoding import convert_to_utf8

MARKS = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE, "utf-8": codecs.BOM_UTF8}


def cut(data, places):
    """The data in chunks that end at these places."""
    ends = sorted({min(place, len(data)) for place in places} | {len(data)})
    return iter([data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)])


@pytest.mark.parametrize("encoding", MARKS)
@given(text=st.text(st.characters(codec="utf-8")), places=st.lists(st.integers(0, 40)))
def test_text_with_a_byte_order_mark_becomes_utf8(encoding, text, places):
    chunks = list(convert_to_utf8(cut(MARKS[encoding] + text.encode(encoding), places)))
    assert b"".join(chunks) == text.encode()
    assert all(chunks)


@given(st.binary(), st.lists(st.integers(0, 40)))
def test_other_bytes_stay_as_they_are(data, places):
    if data.startswith(tuple(MARKS.values())):
        return
    assert b"".join(convert_to_utf8(cut(data, places))) == data


@given(st.binary(), st.lists(st.integers(0, 40)))
def test_damaged_characters_raise_nothing(data, places):
    b"".join(convert_to_utf8(cut(codecs.BOM_UTF16_LE + data, places))).decode()


def test_a_compressed_file_of_windows_is_read(tmp_path):
    path = tmp_path / "n0.csv.gz"
    path.write_bytes(gzip.compress("timestamp, power.draw [W]\r\n".encode("utf-16")))
    with open_stream(path) as stream:
        assert stream.read() == b"timestamp, power.draw [W]\n"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_known_by_its_zeros(encoding):
    text = "timestamp, power.draw [W], clocks.sm [MHz]\r\n" * 2
    assert b"".join(convert_to_utf8(cut(text.encode(encoding), [3, 40]))).decode() == text
