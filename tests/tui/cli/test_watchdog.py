"""A command that takes longer or more memory than it may ends with the bound, whatever it is doing."""

import signal

import pytest
from click.testing import CliRunner

from skewscope.tui.cli import main, watchdog
from skewscope.tui.cli.watchdog import OverBoundError, bound_work, used_memory


def wait_forever():
    while True:
        signal.pause()


def test_work_without_end_is_ended_with_the_bound(monkeypatch):
    monkeypatch.setattr(watchdog, "PERIOD_S", 0.01)
    monkeypatch.setattr(watchdog.time, "monotonic", iter(range(0, 10_000, 100)).__next__)
    monkeypatch.setenv("SKEWSCOPE_MAX_SECONDS", "60")
    expected = r"file: found more than 60 seconds of work.*SKEWSCOPE_MAX_SECONDS=120"
    with pytest.raises(OverBoundError, match=expected), bound_work("file"):
        wait_forever()


def test_more_memory_than_is_allowed_is_ended_with_the_bound(monkeypatch):
    monkeypatch.setattr(watchdog, "PERIOD_S", 0.01)
    monkeypatch.setenv("SKEWSCOPE_MAX_MEMORY_MIB", "1")
    assert used_memory() > 1 << 20
    expected = "found more than 1 MiB of memory, expected at most 1"
    with pytest.raises(OverBoundError, match=expected), bound_work("file"):
        wait_forever()


def test_nothing_is_watched_after_the_work():
    before = signal.getsignal(signal.SIGALRM)
    with bound_work("file") as seconds:
        assert seconds > 0
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)) == (before, (0.0, 0.0))


@pytest.mark.parametrize(
    "command", [["replay"], ["diagnose"], ["report"], ["watch", "--plain"], ["explain", "x", "--replay"]]
)
def test_every_command_that_reads_telemetry_ends_in_time(monkeypatch, tmp_path, command):
    (tmp_path / "a.om").write_text('DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="n0"} 50 1\n# EOF\n')
    (tmp_path / "topology.yaml").write_text("version: 1\nnodes: [{name: n0, gpus: 8}]\n")
    listed = "inputs: [{kind: openmetrics, path: a.om}]"
    (tmp_path / "recording.yaml").write_text(f"version: 1\ntopology: topology.yaml\n{listed}\n")
    monkeypatch.setattr(watchdog, "PERIOD_S", 0.01)
    monkeypatch.setenv("SKEWSCOPE_MAX_MEMORY_MIB", "1")
    monkeypatch.setattr("skewscope.adapters.runtime.replay.load", lambda *_: wait_forever())
    done = CliRunner().invoke(main.cli, [*command, str(tmp_path)])
    assert (done.exit_code, done.exception is None or isinstance(done.exception, SystemExit)) == (2, True)
    assert "MiB of memory, expected at most 1" in done.output


def test_a_lack_of_memory_is_a_line_and_no_traceback(monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("skewscope.adapters.inputs.recording.open_recording", fail)
    done = CliRunner().invoke(main.cli, ["replay", "x"])
    assert (done.exit_code, "not enough memory" in done.output) == (2, True)
