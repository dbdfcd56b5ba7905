"""A file from which a topology is inferred is read once."""

import pickle
from pathlib import Path

import pytest

from skewscope.adapters.inputs import text
from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.recording import load
from skewscope.kb.loader import catalogue

STATISTICS = (
    "INFO 11-22 10:00:{second:02} [loggers.py:273] Engine 000: Avg prompt throughput: 12.3 tokens/s, Avg generation "
    "throughput: {rate:.1f} tokens/s, Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: 31.0%\n"
)
KERNEL = "[Sun Nov 22 10:04:{second:02} 2026] NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.\n"


@pytest.fixture
def readings(monkeypatch):
    """Returns the files that were read, one entry for each time."""
    names, read_line = [], text.TextReader.series

    def series(self):
        names.append(Path(self.file).name)
        return read_line(self)

    monkeypatch.setattr(text.TextReader, "series", series)
    return names


def lines(form, rate=500.0):
    return "".join(form.format(second=second, rate=rate) for second in range(0, 60, 10))


def newest_rate(recording):
    data = load(recording, catalogue(), workers=1)
    places = [n for n, key in enumerate(data.table.keys) if key.signal == "serve.gen_throughput"]
    return float(data.block.value[data.block.series == places[0]][-1])


@pytest.mark.parametrize(("name", "form"), [("vllm.log", STATISTICS), ("node.log", KERNEL)])
def test_a_long_file_is_not_read_twice(tmp_path, readings, name, form):
    (tmp_path / name).write_text(lines(form))
    drafted = draft_recording([tmp_path / name])
    data = load(drafted.recording, catalogue(), workers=1)
    assert len(data.samples)
    assert readings == [name]


def test_what_was_left_out_is_said_though_it_was_left_out_before(tmp_path, readings):
    (tmp_path / "vllm.log").write_text("user@host:~$ cat vllm.log\n" + lines(STATISTICS))
    data = load(draft_recording([tmp_path / "vllm.log"]).recording, catalogue(), workers=1)
    assert any("left out 1 line that a shell wrote" in warning for warning in data.warnings)
    assert len(readings) == 1


def test_a_file_that_changed_in_between_is_read_again(tmp_path, readings):
    (tmp_path / "vllm.log").write_text(lines(STATISTICS))
    recording = draft_recording([tmp_path / "vllm.log"]).recording
    (tmp_path / "vllm.log").write_text(lines(STATISTICS, 9000.5))
    assert newest_rate(recording) == 9000.5
    assert len(readings) == 2


def test_series_are_not_sent_to_other_processes(tmp_path):
    (tmp_path / "vllm.log").write_text(lines(STATISTICS))
    recording = draft_recording([tmp_path / "vllm.log"]).recording
    assert recording.inputs[0] in recording.kept
    assert recording.inputs[0] not in pickle.loads(pickle.dumps(recording.kept))


def test_more_than_fits_is_not_kept(tmp_path, monkeypatch, readings):
    monkeypatch.setattr("skewscope.adapters.inputs.kept_series.MAX_KEPT", 10)
    (tmp_path / "vllm.log").write_text(lines(STATISTICS))
    assert newest_rate(draft_recording([tmp_path / "vllm.log"]).recording) == 500.0
    assert len(readings) == 2
