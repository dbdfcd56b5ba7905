"""Lines of a text that say nothing but a time are passed over; what follows them has their time all the same."""

import io

import pytest

from skewscope.adapters.formats import log_lines
from skewscope.adapters.inputs import text
from skewscope.adapters.inputs.recording import input_readers

XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus."
STATISTICS = (
    "INFO 11-22 10:0{n}:00 [x.py:1] Avg prompt throughput: {n}.0 tokens/s, Avg generation throughput: 1.0 tokens/s"
)
STEP = "iteration {n}/ 100 | elapsed time per iteration (ms): {ms}.0 | global batch size: 128 |"


def read(kind, lines, monkeypatch, block=1 << 20):
    """Returns the times and values of the series of a text, by metric."""
    monkeypatch.setattr(log_lines, "BLOCK", block)
    monkeypatch.setattr(text, "HEAD_BYTES", 1 << 16)
    found = input_readers()[kind].read_series(io.BytesIO("\n".join(lines).encode()), "a-2026-11-22.log", {})
    return {one.metric: (one.times.tolist(), one.values.tolist()) for one in found}


@pytest.mark.parametrize("lines", [1, 2000])
def test_a_message_has_the_time_of_the_newest_line_before_it(monkeypatch, lines):
    filler = [f"2026-11-22 10:00:{n % 60:02} something else" for n in range(lines)]
    whole = ["2026-11-22 09:00:00 begin", *filler, "2026-11-22 11:00:00 last", "without a time", XID, *filler]
    ((times, _),) = (
        each for name, each in read("text", whole, monkeypatch).items() if "xid" in name or "event" in name
    )
    assert times == [1795345200.0]


@pytest.mark.parametrize("block", [200, 1 << 20])
def test_blocks_of_any_size_give_the_same(monkeypatch, block):
    lines = [STATISTICS.format(n=n) for n in range(9) for _ in (0, 1)]
    lines = [part for n, line in enumerate(lines) for part in (line, f"10.0.0.1 GET /{n}", "")]
    assert read("vllm-log", lines, monkeypatch, block) == read("vllm-log", lines, monkeypatch)


def test_a_step_without_a_date_takes_that_of_a_line_before(monkeypatch):
    lines = []
    for n in range(1, 9):
        lines += [f"[2026-11-22 10:0{n}:00] checkpoint of something", "nothing", STEP.format(n=n, ms=60_000)]
    times, values = read("megatron-log", lines, monkeypatch)["skewscope_step_duration"]
    assert times == [1795341600.0 + 60 * n for n in range(2, 9)]
    assert set(values) == {60.0}


def test_lines_of_another_form_are_not_tried_in_full():
    pattern = text.LineReader(text.catalogue().formats["megatron"], text.catalogue().signals)
    other = next(one.pattern for one in pattern._lines if "(s)" in one.line.pattern)
    assert "(s):" in other.others
    assert other.search(STEP.format(n=1, ms=5)) is None
