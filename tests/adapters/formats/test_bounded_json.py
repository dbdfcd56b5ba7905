import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.formats import bounded_json
from skewscope.adapters.formats.bounded_json import count_parts, parse_json
from skewscope.adapters.formats.flight_recorder import parse_dump
from skewscope.kb.problems import InputError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def size(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(size, inner))


@given(VALUES)
def test_no_text_has_more_values_than_are_counted(value):
    text = json.dumps(value)
    assert size(value) <= count_parts(text) == count_parts(text.encode())
    assert parse_json(text.encode(), "f") == value


def test_a_text_of_many_parts_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr(bounded_json.json, "loads", None)
    many = b'{"version":"2.10","entries":[' + b"[]," * 6_000_000 + b"[]]}"
    with pytest.raises(InputError, match=r"rank_0: found \d+ parts of JSON.*SKEWSCOPE_MAX_PARTS=\d+ allows more"):
        parse_dump(many, "rank_0")
    monkeypatch.setenv("SKEWSCOPE_MAX_JSON_BYTES", "1000")
    with pytest.raises(InputError, match="found 2002 bytes of JSON, expected at most 1000"):
        parse_dump(b'"' + b"x" * 2000 + b'"', "rank_0")


@pytest.mark.parametrize(("data", "told"), [(b"[" * 100_000, "nested too deeply"), (b"{", "no readable JSON")])
def test_what_cannot_be_parsed_is_told(data, told):
    with pytest.raises(InputError, match=f"f: found .*{told}.*, expected a dump. Copy it."):
        parse_json(data, "f", "a dump", "Copy it.")
