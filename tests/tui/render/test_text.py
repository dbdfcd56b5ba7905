import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.kb.quantities import round_together
from skewscope.tui.render import text, units

WORDS = st.lists(st.tuples(st.text(max_size=30), st.sampled_from(["", "dim", "key"])), max_size=5).map(tuple)


@given(WORDS, st.integers(2, 60), st.integers(0, 6))
def test_wrapped_lines_fit_and_lose_no_word(spans, columns, hang):
    hang = min(hang, columns - 2)
    rows = text.wrap(spans, columns, hang)
    assert all(text.line_width(row) <= columns for row in rows)
    letters = "".join("".join(word.split()) for word, _ in spans)
    assert "".join("".join(word.split()) for row in rows for word, _ in row) == letters


@given(st.text(max_size=40), st.integers(0, 50))
def test_cut_and_padded_texts_have_the_width_asked_for(words, columns):
    assert text.width(text.cut(words, columns)) <= columns
    assert text.width(text.pad(words, columns)) == columns


@given(WORDS, st.integers(0, 50))
def test_a_fitted_line_fits(spans, columns):
    assert text.line_width(text.fit(spans, columns)) <= columns


@given(st.text(max_size=40))
def test_control_characters_are_replaced(words):
    shown = text.to_plain_text([text.line(words, "crit")])
    assert "\x1b" not in shown
    assert "\n" not in shown[:-1]
    assert text.to_plain_text([text.line(words)], ascii_=True).isascii()


def test_wrapped_text_is_indented_after_a_bullet_or_a_label():
    lines = [
        text.line("some words of prose"),
        (("  · a", "key"), (" b c d", "")),
        (("unit   ", "label"), ("a b c", "")),
    ]
    shown = text.to_plain_text(text.wrap_lines(lines, 10)).splitlines()
    assert shown == ["some words", "of prose", "  · a b c", "    d", "unit   a b", "     c"]


def test_colours_are_written_only_when_asked_for():
    spans = (("bad", "crit"), (" day", ""))
    assert text.to_plain_text([spans]) == "bad day\n"
    assert text.to_plain_text([spans], colour=True) == "\x1b[1;31mbad\x1b[0m day\n"


def test_ascii_keeps_columns_of_our_own_glyphs():
    assert text.to_ascii("✖ ! · ✓ ─ ● └ … −3 µs") == "X ! . v - o ` ~ -3 us"


@pytest.mark.parametrize(
    ("value", "unit", "share", "shown"),
    [
        (0.0124, "s", False, "12.4 ms"),
        (0.000812, "s", False, "812 µs"),
        (0.9999, "s", False, "1 s"),
        (31.2, "s", False, "31.2 s"),
        (252, "s", False, "4 min 12 s"),
        (7500, "s", False, "2 h 5 min"),
        (273600, "s", False, "3 d 4 h"),
        (0, "s", False, "0 s"),
        (0.34, "1", True, "34 %"),
        (5.12, "1", False, "5.12"),
        (1.2e6, "By", False, "1.2 MB"),
        (999_700, "By", False, "1 MB"),
        (12.5e6, "By/s", False, "12.5 MB/s"),
        (-0.38, "1", True, "−38 %"),
        (71, "Cel", False, "71 °C"),
        (1234, "{packet}/s", False, "1,234 packets/s"),
        (1, "{packet}/s", False, "1 packet/s"),
        (12, "{request}", False, "12 requests"),
        (-1.7e-18, "1", True, "0 %"),
        (92.0, "1", True, "92×"),
        (2.4, "1", True, "240 %"),
        (2_533_225, "{packet}/s", False, "2.53 M packets/s"),
        (40, "1/s", False, "40 per s"),
        (592_559_328, "ns/s", False, "59.3 %"),
        (0, "ms/s", False, "0 %"),
        (None, "s", False, "unknown"),
        (float("nan"), "1", True, "unknown"),
        (float("inf"), "s", False, "infinite"),
    ],
)
def test_numbers_are_formatted_with_units(value, unit, share, shown):
    assert units.format_value(value, unit, share=share) == shown


@pytest.mark.parametrize(
    ("columns", "shown"),
    [(20, "node0007/gpu7"), (13, "node0007/gpu7"), (10, "nod…7/gpu7"), (3, "n…7"), (1, "…"), (0, "")],
)
def test_of_a_place_begin_and_end_are_kept(columns, shown):
    assert text.cut_middle("node0007/gpu7", columns) == shown


@pytest.mark.parametrize(
    ("columns", "shown"),
    [(30, "leaf4/HundredGigE0/0/0/4 +1"), (20, "leaf4/…0/0/0/4 +1"), (13, "leaf4/…0/4 +1"), (11, "leaf…0/4 +1")],
)
def test_what_stands_before_a_slash_is_whole_where_there_is_room(columns, shown):
    assert text.cut_middle("leaf4/HundredGigE0/0/0/4 +1", columns) == shown


@pytest.mark.parametrize(
    ("columns", "shown"),
    [(40, "Failed adapter or rail"), (16, "Failed adapter …"), (9, "Failed …"), (4, "Fai…"), (0, "")],
)
def test_a_name_is_cut_between_two_words(columns, shown):
    assert text.cut_words("Failed adapter or rail", columns) == shown


@pytest.mark.parametrize(
    ("shares", "rounded"),
    [
        ((0.102, 0.083, 0.074, 0.702, 0.039), (0.1, 0.08, 0.08, 0.7, 0.04)),
        ((0.104, 0.076, 0.066, 0.716, 0.038), (0.1, 0.08, 0.07, 0.71, 0.04)),
        ((1 / 3, 1 / 3, 1 / 3), (0.34, 0.33, 0.33)),
        ((0.997, 0.003), (1.0, 0.0)),
        ((), ()),
    ],
)
def test_percents_of_one_whole_add_up(shares, rounded):
    assert round_together(shares) == pytest.approx(list(rounded))


@pytest.mark.parametrize("columns", range(12, 40))
def test_no_unit_is_torn_from_its_number(columns):
    rows = text.wrap(text.line("late 12.9 ms, peers 163 µs, 25 % and 4.14 MB/s of 2.53 M/s."), columns)
    assert not [row for row in rows if text.to_plain_text([row]).split()[0] in ("ms,", "µs,", "%", "MB/s", "M/s.")]


@pytest.mark.parametrize("columns", range(8, 30))
def test_blanks_at_the_end_are_no_line_of_their_own(columns):
    rows = text.wrap((("why       ", "label"), ("12/s  ", ""), ("   ", "info")), columns, 4)
    assert all(rows)
    assert text.wrap((), 10) == [()]


def test_a_span_of_several_days_has_both_dates():
    assert units.format_span(1750000000, 1750000060) == "2025-06-15 15:06:40 to 15:07:40 UTC"
    assert units.format_span(1750000000, 1750090000) == "2025-06-15 15:06:40 to 2025-06-16 16:06:40 UTC"


@pytest.mark.parametrize(("change", "said"), [(0.5, "+50 %"), (-0.5, "−50 %"), (9.9, "11×"), (92.0, "93×")])
def test_a_large_change_is_formatted_as_a_factor(change, said):
    assert units.format_value(change, "1", share=True, signed=True) == said


def test_times_are_utc_and_cut_to_the_second():
    assert units.format_time(1795177128.999) == "12:18:48"
    assert units.format_datetime(1795177128.0) == "2026-11-20 12:18:48 UTC"


@pytest.mark.parametrize(
    ("value", "reference", "unit", "against", "shown"),
    [
        (0.0129, 0.0002, "s", units.PEERS, "12.9 ms, peers 200 µs (64×)"),
        (7.8, 0.093, "s", units.NORMALLY, "7.8 s, normally 93 ms (84×)"),
        (0.0, 288.0, "1/s", units.NORMALLY, "0/s, normally 288/s"),
        (2.5e6, 2.4e6, "{packet}/s", units.PEERS, "2.5 M/s, peers 2.4 M/s"),
        (5.0, 0.0, "{request}", units.NORMALLY, "5, normally 0"),
    ],
)
def test_a_value_stands_beside_what_is_normal_with_the_factor(value, reference, unit, against, shown):
    assert units.format_comparison(value, reference, unit, against) == shown
