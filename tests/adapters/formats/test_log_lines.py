import datetime as dt
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.formats.log_lines import MAX_LINE, decode_head, file_stem, read_lines
from skewscope.adapters.formats.log_times import DayTimes, find_stamp, parse_offset
from skewscope.kb.problems import InputError

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=30)


@given(st.lists(TEXTS, max_size=8))
def test_lines_are_read_back_with_their_numbers(texts):
    data = "".join(text + "\n" for text in texts).encode()
    assert list(read_lines(io.BytesIO(data), "f")) == [(n, text) for n, text in enumerate(texts, 1)]


def test_the_states_of_a_progress_bar_are_lines_of_one_number():
    assert list(read_lines(io.BytesIO(b"a\rb\rc\r\nd"), "f")) == [(1, "a"), (1, "b"), (1, "c"), (1, ""), (2, "d")]


def test_a_long_line_is_cut_and_the_next_one_is_whole():
    found = list(read_lines(io.BytesIO(b"x" * (5 * MAX_LINE) + b"\nnext\n"), "f"))
    assert [(number, len(text)) for number, text in found] == [(1, MAX_LINE), (2, 4)]


def test_colours_and_invalid_bytes_do_not_matter():
    assert list(read_lines(io.BytesIO(b"\x1b[36m(pid=1)\x1b[0;0m INFO\xff\n"), "f")) == [(1, "(pid=1) INFO�")]


ZEROS = "a prompt\0\n" + "x" * 80 + "é\n"


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        pytest.param(ZEROS.encode(), 2, id="a zero byte in a text"),
        pytest.param(ZEROS.encode()[:-2], 2, id="whose last character is cut"),
        pytest.param("█".encode()[1:] + ZEROS.encode(), 2, id="whose first character is cut"),
        pytest.param(ZEROS.encode("latin-1") + b"x", 0, id="in bytes that are no UTF-8"),
        pytest.param(b"a\0b\n", 0, id="many zero bytes"),
    ],
)
def test_the_first_bytes_of_binary_data_have_no_lines(head, lines):
    assert len(decode_head(head)) == lines


@given(st.floats(1e5, 2e9), st.sampled_from(["", "Z", "+09:00", "-0330"]))
def test_a_stamp_is_read_back_in_its_zone(seconds, zone):
    text = f"[{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M:%S.%f}{zone}] x"
    hours = {"": 0, "Z": 0, "+09:00": 9, "-0330": -3.5}[zone]
    assert find_stamp(text) == pytest.approx(seconds - hours * 3600, abs=1e-5)


@pytest.mark.parametrize(
    "text", ["", "2026-13-01 10:00:00", "2026-02-30T10:00:00", "26-11-22 10:00:00", "12026-11-22 10:00:00"]
)
def test_what_is_no_date_is_no_stamp(text):
    assert find_stamp(text) is None


def test_a_clock_without_a_zone_is_ahead_by_the_offset():
    assert find_stamp("2026-11-22 10:00:00", 3600.0) == find_stamp("2026-11-22 09:00:00")
    assert parse_offset({"utc_offset": "-01:30"}, "f") == -5400
    with pytest.raises(InputError, match="utc_offset"):
        parse_offset({"utc_offset": "1"}, "f")


def test_a_day_ends_where_the_clock_falls_back():
    days = DayTimes()
    assert [days.place(clock) for clock in ("23:59:59", "23:59:58", "00:00:01")] == [86399, 86398, 86401]


def test_a_stem_has_no_folder_and_no_endings():
    assert [file_stem(name) for name in ("a/b/c.log.gz", "c", "a\\b.txt")] == ["c", "c", "b"]
