"""Patterns of lines, and what the lines of a format give."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.kb.known_events import known_events
from skewscope.kb.line_patterns import MAX_COLUMNS, PatternError, compile_pattern
from skewscope.kb.line_reading import LineReader, Reading
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Format, FormatField, FormatLine

NUMBERS = (("a", "number"), ("b", "number"))


def format_of(*lines: FormatLine) -> Format:
    return Format("x", "x", "x", "x", "x", "node", lines, (), "judgement: a test")


def read(one: Format, *texts: str) -> list[Reading]:
    reader = LineReader(one, catalogue().signals)
    return [reading for text in texts for found in reader.read(text) for reading in found.readings]


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        ("Running: <a> reqs", "INFO Running: 12 reqs, Waiting", {"a": "12"}),
        ("Running: <a> reqs", "Running:   1,234.5   reqs", {"a": "1,234.5"}),
        ("Running: <a> reqs", "Running: twelve reqs", None),
        ("Running: <a> reqs", "Running: 12 requests", None),
        ("x=<a>{ y=<b>}", "x=1", {"a": "1"}),
        ("x=<a>{ y=<b>}", "x=1 y=2e-3", {"a": "1", "b": "2e-3"}),
        ("x=<a>...y=<b>", "x=1, of which (2) y=-3", {"a": "1", "b": "-3"}),
        ("<<<a>>> {{x}}", "<5> {x}", {"a": "5"}),
        ("link <c>/<d> up", "link mlx5_0/1 up", {"c": "mlx5_0", "d": "1"}),
        ("a(b)[c] <a>", "a(b)[c] 7", {"a": "7"}),
        ("in <a>", "within 5", None),
    ],
)
def test_a_pattern_finds_its_fields(pattern, line, found):
    assert compile_pattern(pattern, NUMBERS).find(line) == found


@pytest.mark.parametrize("pattern", ["{x {y}}", "{x", "x}", "<a> <a>", "  ", "..."])
def test_a_pattern_that_is_not_well_formed_is_refused(pattern):
    with pytest.raises(PatternError):
        compile_pattern(pattern)


@given(st.text(max_size=200), st.text(max_size=400))
def test_no_pattern_and_no_line_fails_in_another_way(pattern, line):
    try:
        found = compile_pattern(pattern).find(line)
    except PatternError:
        return
    assert found is None or set(found) <= set(compile_pattern(pattern).fields)


def test_a_long_hostile_line_takes_no_long_time():
    pattern = compile_pattern("a<a>...b{ c<c>}...d<d>", (("a", "text"), ("c", "text"), ("d", "text")))
    begun = time.process_time()
    assert pattern.find("a" * (50 * MAX_COLUMNS)) is None
    assert pattern.find("ab" * (50 * MAX_COLUMNS)) is None
    assert time.process_time() - begun < 20.0


def test_units_words_and_labels_become_those_of_the_signal():
    fields = {
        "use": FormatField(signal="serve.kv_usage", unit="%"),
        "state": FormatField(signal="port.carrier", words={"UP": 1.0, "DOWN": 0.0}),
        "size": FormatField(signal="gpu.fb_used"),
        "unit": FormatField(unit_of="size", words={"Gi": "GiBy", "Mi": "MiBy"}),
        "dev": FormatField(label="device"),
    }
    one = format_of(FormatLine("<dev>: <use>%, <state>, <size><unit>", fields))
    assert read(one, "eth0: 43%, DOWN, 2Gi") == [
        Reading("serve.kv_usage", pytest.approx(0.43), {"device": "eth0"}),
        Reading("port.carrier", 0.0, {"device": "eth0"}),
        Reading("gpu.fb_used", 2048.0, {"device": "eth0"}),
    ]
    assert [reading.signal for reading in read(one, "eth0: N/A%, UNKNOWN, 2Gi")] == []
    assert [reading.signal for reading in read(one, "eth0: 1%, UNKNOWN, 2Gi")] == ["serve.kv_usage", "gpu.fb_used"]


def test_labels_hold_and_sections_bound():
    use = {"use": FormatField(signal="gpu.util", unit="%")}
    one = format_of(
        FormatLine("GPU <gpu>", {"gpu": FormatField(label="gpu")}, holds=True),
        FormatLine("Utilization", section="utilization"),
        FormatLine("Clocks", section="clocks"),
        FormatLine("Gpu : <use> %", use, within="utilization"),
    )
    found = read(one, "GPU 0", "Clocks", "Gpu : 5 %", "Utilization", "Gpu : 97 %", "GPU 1", "Gpu : 3 %")
    assert [(one.labels["gpu"], one.value) for one in found] == [("0", 97.0), ("1", 3.0)]


@pytest.mark.parametrize(
    "what",
    [
        FormatField(signal="no.such_signal"),
        FormatField(signal="gpu.util", unit="MHz"),
        FormatField(signal="gpu.util", unit="no unit"),
    ],
)
def test_a_field_of_no_signal_or_unit_is_refused(what):
    with pytest.raises(PatternError):
        LineReader(format_of(FormatLine("x <a>", {"a": what})), catalogue().signals)


def test_fields_and_descriptions_must_agree():
    line = FormatLine("x <a>", {"a": FormatField(label="gpu")})
    for wrong in (replace(line, pattern="x <b>"), replace(line, pattern="x"), replace(line, fields={})):
        with pytest.raises(PatternError):
            LineReader(format_of(wrong), catalogue().signals)


@pytest.mark.parametrize("number", ["1e999", "1e400", "0e999", "1e-999"])
def test_a_number_that_is_too_large_is_none_and_fails_nothing(number):
    line = FormatLine("step <n> took <took>", {"n": FormatField(step="number"), "took": FormatField(step="duration")})
    found = {one.signal: one.value for one in read(format_of(line), f"step {number} took 1.5")}
    assert found == {"step duration": 1.5} | ({"step number": 0.0} if float(number) == 0 else {})


def test_a_line_is_compared_only_with_events_whose_words_it_has():
    matchers = known_events().matchers
    keys = dict(known_events().keys)
    for place, matcher in enumerate(matchers):
        for sample in matcher.event.samples:
            assert any(place in keys[key] for key in keys if key in sample)


def test_long_lines_of_bars_are_passed_over_fast():
    line = " 10%|###       | 123/99999999 [0:02:33<9999:00:00,  1.25s/it] " * 60
    begin = time.process_time()
    for _ in range(20):
        known_events().compare(line)
    assert time.process_time() - begin < 1.0


def test_lines_of_which_a_text_has_no_words_are_not_looked_for():
    table = FormatLine(table=("NAME", "USE"), columns={"a": "USE"}, fields={"a": FormatField(signal="host.cpu_util")})
    reader = LineReader(format_of(table), catalogue().signals)
    assert not reader.may_read("a b\n1 2\n")
    assert reader.may_read("NAME USE\nx 0.5\n")
    found = [one for text in ("NAME USE", "x 0.5") for each in reader.read(text) for one in each.readings]
    assert [one.value for one in found] == [0.5]
