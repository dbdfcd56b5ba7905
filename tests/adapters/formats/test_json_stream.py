import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.formats import json_stream
from skewscope.adapters.formats.json_stream import iter_members
from skewscope.kb.problems import InputError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def members(data, arrays=("events",)):
    return list(iter_members(io.BufferedReader(io.BytesIO(data)), "trace", arrays))


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4), st.lists(VALUES, max_size=6), st.integers(10, 60))
def test_an_object_in_pieces_is_the_object_as_a_whole(others, events, chunk):
    whole = {**others, "events": events}
    before, json_stream.CHUNK = json_stream.CHUNK, chunk
    try:
        found = members(json.dumps(whole, indent=chunk % 3 or None).encode())
    finally:
        json_stream.CHUNK = before
    assert found == [
        pair
        for name, value in whole.items()
        for pair in ([(name, each) for each in value] if name == "events" else [(name, value)])
    ]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "trace:1: found the end of the file, expected '{'"),
        (b"[1]", "found '[1]', expected '{'"),
        (b'{"events": [1, 2', "found the end of the file"),
        (b'{"events": [{"a": 1}, {"b":', "found the end of the file"),
        (b'{"events": [1}', "found '}', expected ','"),
        (b'{"a"\n\n= 1}', "trace:3: found '= 1}', expected ':'"),
        (b"{7: 1}", "the name of a member"),
        (b'{"a": zzz, "b": 1}', "expected JSON"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_whole_object_is_told_with_its_line(data, told):
    with pytest.raises(InputError) as error:
        members(data)
    assert told in str(error.value)


def test_a_member_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(json_stream, "MAX_ELEMENT", 1000)
    monkeypatch.setattr(json_stream, "CHUNK", 100)
    assert members(b'{"events": [' + b'"' + b"x" * 500 + b'"]}') == [("events", "x" * 500)]
    with pytest.raises(InputError, match="more than 1000 characters"):
        members(b'{"events": ["' + b"x" * 5000)


def test_an_element_of_many_parts_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK", 100)
    monkeypatch.setattr(json_stream, "PARTS_FREE", 200)
    monkeypatch.setenv("SKEWSCOPE_MAX_PARTS", "1000")
    assert len(members(b'{"events": [' + b"[]," * 5000 + b"[]]}")) == 5001
    with pytest.raises(InputError, match=r"parts of JSON.*SKEWSCOPE_MAX_PARTS="):
        members(b'{"events": [[' + b"[]," * 5000 + b"[]]]}")
    with pytest.raises(InputError, match="parts of JSON"):
        members(b'{"x": [' + b"[]," * 5000 + b"[]]}")
