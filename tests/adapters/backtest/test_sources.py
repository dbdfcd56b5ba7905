"""Inputs that follow one another are judged while others are read; the outcome is that of reading all of them first."""

import json

import numpy as np
import pytest

from skewscope.adapters.backtest import sources
from skewscope.adapters.backtest.backtest import BacktestOptions, run_backtest
from skewscope.adapters.backtest.rule_set import load_rule_set
from skewscope.adapters.backtest.telemetry import TelemetrySpan, open_telemetry
from skewscope.adapters.inputs.successive import NotSuccessiveError
from skewscope.kb.loader import catalogue

RULE = "intra-node-gpu-skew-of-a-gpu"
BEGIN, SECONDS, GPUS = 1_780_000_000, 120, 4
SIGNALS = {"gpu.sm_clock": 1700.0, "gpu.util": 90.0, "gpu.power": 500.0}


def write_recording(folder, edges, *, more=""):
    """Writes a recording with a table for each stretch between two edges, in seconds; the last has one `more` signal.

    One GPU becomes slow after 40 s, and recovers after 80 s.
    """
    folder.mkdir()
    rng = np.random.default_rng(1)
    nodes = [{"name": f"n{n}", "gpus": GPUS} for n in range(3)]
    (folder / "topology.yaml").write_text(json.dumps({"version": 1, "nodes": nodes}))
    inputs = []
    for number, (begin, end) in enumerate(edges):
        last = number == len(edges) - 1
        signals = {**SIGNALS, **({more: 1.0} if more and last else {})}
        lines = ["time,signal,node,gpu,value"]
        for t in range(begin, end):
            for node in range(3):
                for gpu in range(GPUS):
                    slow = node == 1 and gpu == 2 and 40 <= t < 80
                    for name, usual in signals.items():
                        value = usual * (0.5 if slow and name != "gpu.util" else 1 + 0.01 * rng.random())
                        lines.append(f"{BEGIN + t},{name},n{node},{gpu},{value:.3f}")
        (folder / f"{number}.csv").write_text("\n".join(lines) + "\n")
        inputs.append({"kind": "csv", "path": f"{number}.csv"})
    text = {"version": 1, "topology": "topology.yaml", "inputs": inputs}
    (folder / "recording.yaml").write_text(json.dumps(text))
    return folder


@pytest.fixture
def asked(monkeypatch):
    """Recordings of any size may be judged input after input; collects how each was read."""
    found = []
    monkeypatch.setattr(sources, "MIN_SUCCESSIVE_BYTES", 0)
    for source in (sources.WholeTelemetry, sources.SuccessiveTelemetry):
        monkeypatch.setattr(source, "summary", noting(found, source.__name__, source.summary))
    return found


def noting(found, name, summary):
    def note(self):
        found.append(name)
        return summary(self)

    return note


def outcome(folder, options=None, span=None):
    opened = open_telemetry(str(folder), span or TelemetrySpan(), folder, lambda _stage, _share: None)
    one = run_backtest([opened], [load_rule_set(RULE, catalogue())], options or BacktestOptions(workers=1))
    (found,) = one.recordings
    return (found.start, found.end, found.samples), [each.as_line() for each in found.incidents[0]]


def told_at_once(folder, monkeypatch, span=None):
    with monkeypatch.context() as patch:
        patch.setattr(sources, "MIN_SUCCESSIVE_BYTES", 1 << 40)
        return outcome(folder, span=span)


@pytest.mark.parametrize("workers", [1, 2])
def test_inputs_one_after_another_tell_what_all_at_once_tell(tmp_path, asked, monkeypatch, workers):
    folder = write_recording(tmp_path / "r", [(0, 45), (45, 60), (75, SECONDS)])
    found = outcome(folder, BacktestOptions(workers))
    assert found == told_at_once(folder, monkeypatch)
    assert asked == ["SuccessiveTelemetry", "WholeTelemetry"]
    assert len(found[1]) == 1


def test_a_span_clips_inputs_that_are_read_one_after_another(tmp_path, asked, monkeypatch):
    folder = write_recording(tmp_path / "r", [(0, 30), (30, 60), (60, 100), (100, SECONDS)])
    span = TelemetrySpan(BEGIN + 35.5, BEGIN + 70.0)
    found = outcome(folder, span=span)
    assert found == told_at_once(folder, monkeypatch, span)
    assert asked[0] == "SuccessiveTelemetry"
    assert len(found[1]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("edges", "more"),
    [
        ([(0, 60), (50, SECONDS)], ""),
        ([(60, SECONDS), (0, 60)], ""),
        ([(0, 60), (60, SECONDS)], "gpu.sm_active"),
    ],
    ids=["they overlap", "the later is first", "a series is new"],
)
def test_inputs_that_do_not_follow_one_another_are_read_first(tmp_path, asked, monkeypatch, edges, more, workers):
    folder = write_recording(tmp_path / "r", edges, more=more)
    found = outcome(folder, BacktestOptions(workers))
    assert asked == ["WholeTelemetry"]
    assert found == told_at_once(folder, monkeypatch)
    assert len(found[1]) == 1


def test_an_input_with_a_fault_is_told_by_those_who_read_all(tmp_path):
    folder = write_recording(tmp_path / "r", [(0, 60), (60, SECONDS)])
    (folder / "0.csv").write_text("time,value\n")
    opened = open_telemetry(str(folder), TelemetrySpan(), folder, lambda _stage, _share: None)
    with pytest.raises(NotSuccessiveError):
        sources.SuccessiveTelemetry(opened.recording, 1).open(lambda _what, _share: None)
