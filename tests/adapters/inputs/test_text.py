"""Texts that formats of the catalogue read, messages that its events recognise, and their answers."""

import io
import os

import pytest
from click.testing import CliRunner

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.messages import known_events
from skewscope.adapters.inputs.text import read_series, recognise
from skewscope.adapters.inputs.text_times import LineTimes
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, NothingKnownError
from skewscope.tui.cli.main import cli

FORMATS = list(catalogue().formats.values())
EVENTS = list(catalogue().events.values())
VLLM = (
    "INFO 09-14 08:00:{second:02} [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
    "throughput: 700.0 tokens/s, Running: 34 reqs, Waiting: {waiting} reqs, GPU KV cache usage: {use:.1f}%, Prefix "
    "cache hit rate: 0.0%\n"
)


def answer(tmp_path, text, name="a.log"):
    """Returns the result of a diagnosis of one file."""
    file = tmp_path / name
    file.write_text(text)
    return replay(draft_recording([file]).recording)


@pytest.mark.parametrize("one", FORMATS, ids=[one.id for one in FORMATS])
def test_the_samples_of_a_format_are_read_from_a_file(one):
    for sample in one.samples:
        text = sample.lines.encode() + b"\n"
        if not sample.gives:
            continue
        assert recognise(text, "x")
        found = read_series(io.BytesIO(text), "x.txt", {"format": one.id})
        wanted = {given["signal"] for given in sample.gives if not given["signal"].startswith("step ")}
        assert {f"skewscope_{name.replace('.', '_')}" for name in wanted} <= {series.metric for series in found}


def names_its_place(event):
    """Returns whether a message says by itself of which GPU it speaks, as those that only formats place do not."""
    labels = {what.label for what in event.fields.values()}
    return event.entity != "gpu" or bool(labels & {"gpu", "pci_bus_id"})


@pytest.mark.parametrize("event", [pytest.param(one, id=one.id) for one in EVENTS if names_its_place(one)])
def test_an_event_is_found_among_other_lines_and_reported_with_its_words(event, tmp_path):
    line = event.samples[0]
    outcome = answer(tmp_path, f"some line\n2026-11-22 10:00:00 {line}\nanother line\n")
    (incident,) = [one for one in outcome.incidents if one.condition == (event.symptom or "reported-event")]
    assert any(line[:60] in item.name for item in incident.evidence)
    if event.signs:
        assert {sign.condition for sign in event.signs} & set(incident.candidates)


def test_no_message_is_found_in_its_look_alikes():
    for event in EVENTS:
        for line in event.others:
            assert event.id not in [found.event.id for found in known_events().find(line)]


def test_a_message_counts_in_a_log_whose_numbers_another_reader_reads(tmp_path):
    text = "".join(VLLM.format(second=second, waiting=0, use=40.0) for second in range(0, 60, 10))
    message = "INFO 09-14 08:00:35 NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.\n"
    outcome = answer(tmp_path, text + message)
    assert "serve.kv_usage" in outcome.signals
    assert [one.condition for one in outcome.incidents] == ["reported-event"]


def test_three_lines_that_are_bad_from_the_first_on_are_a_finding(tmp_path):
    text = "".join(VLLM.format(second=second, waiting=40, use=99.0) for second in (0, 10, 20))
    (incident,) = answer(tmp_path, text).incidents
    assert (incident.condition, incident.state) == ("kv-capacity-preemption-thrash", "firing")


def test_what_becomes_bad_just_before_the_end_is_none_yet(tmp_path):
    lines = [VLLM.format(second=second, waiting=0, use=50.0) for second in range(0, 50, 10)]
    lines.append(VLLM.format(second=50, waiting=40, use=99.0))
    assert not [one for one in answer(tmp_path, "".join(lines)).incidents if one.condition.startswith("kv-")]


def test_too_little_is_no_all_clear(tmp_path):
    short = answer(tmp_path, "link mlx5_0/1 state ACTIVE\n", "n0.txt")
    assert not short.incidents
    text = "NIC statistics:\n     rx_packets_phy: 1\n     rx_bytes_phy: 7\n"
    counters = answer(tmp_path, text, "n0-eth0-20261122T100000.txt")
    assert (counters.incidents, counters.is_enough) == ((), False)
    long = "".join(VLLM.format(second=n % 60, waiting=0, use=40.0 + n % 3) for n in range(0, 60, 2))
    assert answer(tmp_path, long, "b.log").is_enough


def test_a_file_without_any_time_has_its_own(tmp_path):
    file = tmp_path / "n0.txt"
    file.write_text("link mlx5_0/1 state DOWN\n")
    os.utime(file, (1_790_000_000, 1_790_000_000))
    outcome = replay(draft_recording([file]).recording)
    assert outcome.snapshots[-1].start == 1_790_000_000
    assert any("no line has a time" in text for text in outcome.warnings)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("[Sun Nov 22 10:04:18 2026] NVRM", 1_795_341_858),
        ("Nov 22 10:04:18 n0 kernel:", 1_795_341_858),
        ("I1122 10:04:18.123 1 x.cc:1] y", 1_795_341_858),
        ("2026-11-22T10:04:18Z x", 1_795_341_858),
        ("1795341858.5 x", 1_795_341_858),
        ("nothing", 5),
        ("port 1795341858", 5),
    ],
)
def test_times_in_many_forms(text, seconds):
    assert int(LineTimes({"year": "2026"}, "x", 5.0).read(text)) == seconds


def test_an_unknown_format_is_refused_with_the_list_of_them():
    with pytest.raises(InputError, match="kb list formats"):
        read_series(io.BytesIO(b"x\n"), "x", {"format": "no-such"})


def test_one_reading_that_shows_a_gpu_held_down_by_heat_is_a_finding(tmp_path):
    report = "Timestamp : Sun Nov 22 10:00:20 2026\n" + "".join(
        f"GPU 00000000:0{number}:00.0\n    Clocks Event Reasons\n        Idle : Not Active\n"
        f"        SW Thermal Slowdown : {'Active' if number == 2 else 'Not Active'}\n"
        for number in (1, 2)
    )
    (incident,) = answer(tmp_path, report, "n0.txt").incidents
    assert (incident.condition, incident.name) == ("lost-clock", "n0/gpu1")


@pytest.mark.parametrize(
    ("states", "down"),
    [("AAAD", ["n0/mlx5_3"]), ("AAAA", []), ("ADDD", []), ("AD", []), ("DDDD", [])],
    ids=["one of four", "none", "one in use", "too few", "all"],
)
def test_a_port_that_is_down_among_others_that_are_up_is_a_finding_and_unused_ones_are_none(tmp_path, states, down):
    words = {"A": "ACTIVE", "D": "DOWN"}
    text = "".join(f"link mlx5_{n}/1 state {words[state]}\n" for n, state in enumerate(states))
    found = answer(tmp_path, text, "n0.txt").incidents
    assert [(one.condition, one.name) for one in found] == [("link-down", name) for name in down]


def test_a_text_that_has_nothing_to_judge_is_read_and_said_to_be_too_little(tmp_path):
    file = tmp_path / "nccl.log"
    file.write_text("node-a:100:200 [0] NCCL INFO Using network IB\n")
    with pytest.raises(NothingKnownError, match="too little to judge"):
        draft_recording([file])
    done = CliRunner().invoke(cli, ["diagnose", str(file), "--no-progress"])
    assert (done.exit_code, done.stdout) == (3, "")
    assert "1 lines of log of nccl" in done.stderr
