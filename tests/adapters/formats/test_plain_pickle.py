import os
import pickle
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.adapters.formats.plain_pickle import MAX_DEPTH, parse_pickle
from skewscope.kb.problems import InputError

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.text() | st.binary()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=50, deadline=None)
@given(VALUES, st.sampled_from([3, 4, 5]))
def test_a_plain_value_is_read_as_it_was_written(value, protocol):
    assert parse_pickle(pickle.dumps(value, protocol), "dump") == value


def test_protocol_2_which_pytorch_writes_is_read():
    value = {
        "version": "2.9",
        "entries": [{"sizes": [[1, 2]], "group": ("0", "default_pg"), "time": 2**62, "p2p": False}],
    }
    assert parse_pickle(pickle.dumps(value, 2), "dump") == value


class Payload:
    """An object whose pickle runs a command where it is loaded."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_run_code_is_refused_by_name_and_runs_nothing(tmp_path, protocol):
    mark = tmp_path / "ran"
    data = pickle.dumps({"version": [Payload(f"touch {mark}")]}, protocol)
    with pytest.raises(InputError, match=r"dump: byte \d+: found the instruction \w+, which would import posix.system"):
        parse_pickle(data, "dump")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x80\x02}(X\x01\x00\x00\x00aios\nsystem\n.", "INST, which would import os.system"),
        (b"\x80\x02)\x81.", "NEWOBJ, which would construct an object"),
        (b"\x80\x02}}b.", "BUILD, which would construct an object"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"\x80\x02Pid\n.", "PERSID"),
        (b"\x80\x09N.", "protocol 9"),
        (b"\x80\x02h\x05.", "the number 5 of no value"),
        (b"\x80\x02e.", "an instruction without its mark"),
        (b"\x80\x02K\x01K\x02.", "2 values at the end"),
        (b"\x80\x02K\x01s.", "an instruction without its value"),
        (b"\x80\x02}]K\x01s.", "a key of type list"),
        (b"\x80\x02\x8b\xff\xff\x00\x00.", "an integer of 65535 bytes"),
        (b"\x80\x02X\xff\xff\xff\x7f.", "the end of the file"),
        (b"\x80\x02I1_0\n.", "'1_0' for a number"),
        (b"\x80\x02\xff.", "the byte ff"),
        (b"\x80\x02", "the end of the file after 2 bytes"),
        (b"", "the end of the file"),
    ],
)
def test_what_is_no_plain_pickle_is_told_with_its_place(data, told):
    with pytest.raises(InputError, match=r"^dump: byte \d+: found ") as error:
        parse_pickle(data, "dump")
    assert told in str(error.value)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_a_clear_error(data):
    with suppress(InputError):
        parse_pickle(b"\x80\x02" + data, "dump")


def test_a_value_that_is_nested_too_deeply_is_refused():
    deep = []
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    with pytest.raises(InputError, match="nested deeper than"):
        parse_pickle(pickle.dumps(deep, 2), "dump")


def test_lists_that_hold_one_another_many_times_take_no_time():
    value = []
    for _ in range(40):
        value = [value] * 10
    assert len(parse_pickle(pickle.dumps(value, 2), "dump")) == 10


def test_more_instructions_than_parts_take_are_not_run(monkeypatch):
    monkeypatch.setenv("SKEWSCOPE_MAX_PARTS", "1000")
    assert len(parse_pickle(pickle.dumps(list(range(900)), 2), "dump")) == 900
    with pytest.raises(InputError, match=r"dump: found more than 1000 parts.*SKEWSCOPE_MAX_PARTS=2000"):
        parse_pickle(pickle.dumps(list(range(3000)), 2), "dump")
