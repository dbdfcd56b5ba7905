"""What is known of a shape of lines stands for each of them: a long text is read as if each line were looked at."""

import io
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.formats.line_shapes import ShapedLines
from skewscope.adapters.inputs import line_selection, text
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
    monkeypatch.setattr(line_selection, "MIN_TRACED", 2)
    monkeypatch.setattr(text, "MIN_TRACED", 2)
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


@pytest.mark.parametrize(
    "stamp", ["2026-11-22 10:{:02}:{:02},123 ", "[11-22 10:{:02}:{:02}] ", "12-31 23:59:59 01-01 {:02}:{:02}:00 "]
)
@pytest.mark.parametrize("one", FORMATS, ids=[one.id for one in FORMATS])
def test_dated_lines_in_a_row_are_read_together_as_one_by_one(one, stamp, monkeypatch):
    rng = random.Random(SEED)
    own = [line for sample in one.samples for line in sample.lines.splitlines()]
    rows = [stamp.format(n // 60, n % 60) + vary(own[n // 20 % len(own)], rng) for n in range(40 + 20 * len(own))]
    assert series(one, rows, monkeypatch, 1) == series(one, rows, monkeypatch, 1 << 30)


STEP = "{stamp}iteration {n}/ 100 | elapsed time per iteration (ms): {ms} | lm loss: {loss} | global batch size: 128 |"
STATES = "INFO {stamp} [x.py:1] Engine {engine:03}: Avg prompt throughput: {value} tokens/s, Running: {running} reqs"


def write_steps(rng, stamp):
    """Yields lines of a job that mostly goes on; sometimes it evaluates, repeats or misses steps, or begins anew."""
    number = second = 0
    for _ in range(400):
        event, passed = rng.random(), 1
        if event < 0.02:
            yield "validation loss at iteration"
        elif event < 0.04:
            passed = rng.choice((0, 2, 9))
        elif event < 0.05:
            number = 0
        number, second = number + passed, second + rng.choice((0, 1, 2, 40 if event > 0.98 else 1))
        clock = stamp.format(second // 3600, second // 60 % 60, second % 60)
        loss = rng.choice(("2.5", "1.5E-05", "-0.5", "nan", "12345678901234567.5"))
        yield STEP.format(stamp=clock, n=number, ms=rng.choice((f"{rng.random() * 900:.1f}", "0", "1e2")), loss=loss)


@pytest.mark.parametrize("stamp", ["", "[2026-11-22 {:02}:{:02}:{:02}] ", "[2026-11-22 {:02}:{:02}:{:02},500] "])
@pytest.mark.parametrize("seed", range(4))
def test_steps_are_read_together_as_one_by_one(stamp, seed, monkeypatch):
    one, rows = catalogue().formats["megatron"], list(write_steps(random.Random(seed), stamp))
    assert series(one, rows, monkeypatch, 1) == series(one, rows, monkeypatch, 1 << 30)


@pytest.mark.parametrize("seed", range(4))
def test_states_of_servers_are_read_together_as_one_by_one(seed, monkeypatch):
    rng, rows = random.Random(seed), []
    for n in range(600):
        # Over the turn of a year, with dates that do not exist, numbers of many digits, and lines of something else.
        stamp = (
            f"{(12, 1)[n > 300]:02}-{(31, 1)[n > 300]:02} {n // 60 % 24:02}:{n % 60:02}:{rng.choice((0, 30, 61)):02}"
        )
        value = rng.choice(("1.5", "0.10", "007", "1e3", "123456789012345678", "5.25e-7"))
        rows.append(STATES.format(stamp=stamp, engine=rng.choice((0, 1, 12)), value=value, running=n))
        rows += rng.choice(([], [f"11-22 10:00:{n % 60:02} something"], [rng.choice(EVENT_LINES)] * (n % 9 == 0)))
    one = catalogue().formats["vllm"]
    assert series(one, rows, monkeypatch, 1) == series(one, rows, monkeypatch, 1 << 30)


@pytest.mark.parametrize(("id_", "pattern"), [("megatron", STEP), ("vllm", STATES)])
def test_lines_of_usual_shapes_are_not_looked_at_one_by_one(id_, pattern, monkeypatch):
    singly, read_line = [], text.TextReader._read_line
    monkeypatch.setattr(text.TextReader, "_read_line", lambda *each: (singly.append(each), read_line(*each)))
    values = {"ms": 5.5, "loss": 2.5, "engine": 0, "value": 1.5, "running": 3}
    rows = [pattern.format(stamp=f"2026-11-22 10:{n // 60:02}:{n % 60:02} ", n=n, **values) for n in range(600)]
    series(catalogue().formats[id_], rows, monkeypatch, 1)
    assert len(singly) < 10


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
