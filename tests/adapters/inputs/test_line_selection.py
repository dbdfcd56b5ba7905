"""What is known of a shape of lines stands for each of them: a long text is read as if each line were looked at."""

import io
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.formats.line_shapes import ShapedLines
from skewscope.adapters.inputs import line_selection
from skewscope.adapters.inputs.recording import input_readers
from skewscope.adapters.inputs.text_times import LineTimes, may_have_time
from skewscope.kb.known_events import known_events
from skewscope.kb.line_patterns import mask_digits
from skewscope.kb.line_reading import LineReader
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError

FORMATS = [one for one in catalogue().formats.values() if one.samples and not one.document]
EVENT_LINES = [line for event in catalogue().events.values() for line in event.samples]
SEED = 5


def series(one, lines, monkeypatch, least):
    """Returns the series of a text of a format, or the refusal; lines from `least` on are looked at by shape."""
    monkeypatch.setattr(line_selection, "MIN_LINES", least)
    reader = input_readers()[one.kind or "text"]
    try:
        found = reader.read_series(io.BytesIO("\n".join(lines).encode()), "a-2026-11-22.log", {"format": one.id})
    except InputError as refusal:
        return str(refusal)
    return [(each.metric, each.labels, each.times.tolist(), each.values.tolist(), each.note) for each in found]


def vary(line, rng):
    """Returns a line with other digits in its numbers, about as many."""
    return re.sub(r"[0-9]+(?![^ ]*:)", lambda run: str(rng.randint(1, 10 ** len(run[0]))), line)


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)), max_size=30), min_size=1))
def test_many_lines_have_the_shapes_of_each(lines):
    assert [shape.decode() for shape in ShapedLines(lines).shapes] == [mask_digits(line) for line in lines]


@pytest.mark.parametrize("one", FORMATS, ids=[one.id for one in FORMATS])
def test_a_text_is_read_by_shapes_as_line_by_line(one, monkeypatch):
    rng = random.Random(SEED)
    lines = []
    for n in range(6):
        for sample in one.samples:
            own = sample.lines.splitlines()
            lines += own if n % 2 else [vary(line, rng) for line in own]
        lines += [f"2026-11-22 10:0{n}:00 {rng.choice(EVENT_LINES)}", f"worker {n} waits"]
        lines += [vary(rng.choice(EVENT_LINES), rng)]
    assert series(one, lines, monkeypatch, 1) == series(one, lines, monkeypatch, 1 << 30)


def test_the_shape_of_each_event_may_be_one():
    for line in EVENT_LINES:
        assert known_events().may_have(mask_digits(line))


def test_the_shape_of_each_line_that_gives_something_may_give_it():
    for one in catalogue().formats.values():
        reader = LineReader(one, catalogue().signals)
        for line in (line for sample in one.samples for line in sample.lines.splitlines()):
            if any(found.readings or found.time for found in reader.read(line)):
                assert reader.may_give(mask_digits(line))


def test_lines_that_only_show_their_format_are_passed_over():
    reader = LineReader(catalogue().formats["kernel-log"], catalogue().signals)
    assert list(reader.read("[ 1.0] usb 1-1: new device"))
    assert not reader.may_give(mask_digits("[ 1.0] usb 1-1: new device"))


@pytest.mark.parametrize(
    "text",
    [
        "[Sun Nov 22 10:04:18 2026] NVRM",
        "Nov  2 10:04:18 n0 kernel:",
        "I1122 10:04:18.123 1 x.cc:1] y",
        "a 2026-11-22T10:04:18Z x",
        "a 2026-11-22 - 10:04:18 x",
        "11/22/2026 | 10:04:18 x",
        "11/22/2026, 10:04:18 x",
        "INFO 11-22 10:04:18 x",
        "[10:04:18] x",
        "1795341858.5 x",
    ],
)
def test_the_shape_of_each_time_may_be_one(text):
    assert LineTimes({"year": "2026"}, "x", 5.0).find(text) is not None
    assert may_have_time(mask_digits(text))
    assert not may_have_time(mask_digits("node-a:100:200 [0] NCCL INFO Channel 03/0 : 1[1] -> 2[2]"))
