"""A command that takes longer or more memory than it may ends with the bound, whatever it is doing."""

import resource
import signal
import threading

import pytest
from click.testing import CliRunner

from skewscope.adapters.runtime import watchdog
from skewscope.adapters.runtime.watchdog import OverBoundError, bound_memory, bound_work, used_memory
from skewscope.adapters.view.builder import ViewHistory
from skewscope.tui.cli import main
from skewscope.tui.console import launcher


def write_recording(folder):
    (folder / "a.om").write_text('DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="n0"} 50 1\n# EOF\n')
    (folder / "topology.yaml").write_text("version: 1\nnodes: [{name: n0, gpus: 8}]\n")
    listed = "inputs: [{kind: openmetrics, path: a.om}]"
    (folder / "recording.yaml").write_text(f"version: 1\ntopology: topology.yaml\n{listed}\n")
    (folder / "labels.json").write_text('{"start": 0, "labels": []}')


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


def test_work_that_waits_for_a_busy_machine_is_not_ended(monkeypatch):
    monkeypatch.setattr(watchdog, "PERIOD_S", 0.01)
    looks = iter([0.0, *[100.0] * 20, *[400.0] * 1000])
    monkeypatch.setattr(watchdog.time, "monotonic", lambda: next(looks))
    monkeypatch.setenv("SKEWSCOPE_MAX_SECONDS", "60")
    with pytest.raises(OverBoundError), bound_work("file"):
        wait_forever()
    assert next(looks) == 400.0


def test_a_replay_may_take_longer(monkeypatch):
    monkeypatch.setenv("SKEWSCOPE_MAX_SECONDS", "60")
    with bound_work("file", 10) as seconds:
        assert seconds == 600


def test_more_memory_than_is_allowed_is_ended_with_the_bound(monkeypatch):
    monkeypatch.setattr(watchdog, "PERIOD_S", 0.01)
    monkeypatch.setenv("SKEWSCOPE_MAX_MEMORY_MIB", "1")
    assert used_memory() > 1 << 20
    expected = "found more than 1 MiB of memory, expected at most 1"
    with pytest.raises(OverBoundError, match=expected), bound_work("file"):
        wait_forever()


def test_memory_that_was_taken_before_does_not_count(monkeypatch):
    monkeypatch.setattr(watchdog, "PERIOD_S", 0.01)
    monkeypatch.setenv("SKEWSCOPE_MAX_MEMORY_MIB", "1800")
    looks = iter([7 << 30, *[8 << 30] * 20, *[9 << 30] * 1000])
    monkeypatch.setattr(watchdog, "used_memory", lambda: next(looks))
    with pytest.raises(OverBoundError, match="more than 1800 MiB of memory"), bound_work("file"):
        wait_forever()
    assert next(looks) == 9 << 30


def test_nothing_is_watched_after_the_work():
    before = signal.getsignal(signal.SIGALRM)
    with bound_work("file") as seconds:
        assert seconds > 0
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)) == (before, (0.0, 0.0))


def test_a_single_call_that_nothing_interrupts_gets_no_more_memory_than_the_bound(monkeypatch):
    monkeypatch.setenv("SKEWSCOPE_MAX_MEMORY_MIB", "1000")
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(OverBoundError, match="more than 1000 MiB of memory"), bound_work("file"):
        bytearray(3 << 30)
    with bound_work("file"):
        bytearray(100 << 20)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_bound_within_another_leaves_it_in_force(monkeypatch):
    monkeypatch.setattr(watchdog, "PERIOD_S", 0.01)

    def work():
        with bound_work("inner"):
            pass
        monkeypatch.setenv("SKEWSCOPE_MAX_MEMORY_MIB", "1")
        wait_forever()

    with pytest.raises(OverBoundError, match="outer: found more than 1 MiB"), bound_memory("outer"):
        work()


def test_a_thread_checks_memory_as_it_reports_progress(monkeypatch, tmp_path):
    write_recording(tmp_path)
    failed, told = [], []

    def read():
        try:
            launcher._read_recording(tmp_path, ViewHistory(), lambda what, share: told.append(what))
        except OverBoundError as error:
            failed.append(str(error))

    monkeypatch.setenv("SKEWSCOPE_MAX_MEMORY_MIB", "1")
    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert failed
    assert "more than 1 MiB of memory" in failed[0]


@pytest.mark.parametrize(
    "command", [["replay"], ["diagnose"], ["report"], ["watch", "--plain"], ["explain", "x", "--replay"], ["assess"]]
)
def test_every_command_that_reads_telemetry_ends_in_time(monkeypatch, tmp_path, command):
    write_recording(tmp_path)
    monkeypatch.setattr(watchdog, "PERIOD_S", 0.01)
    monkeypatch.setenv("SKEWSCOPE_MAX_MEMORY_MIB", "1")
    monkeypatch.setattr("skewscope.adapters.runtime.replay.load", lambda *_: wait_forever())
    done = CliRunner().invoke(main.cli, [*command, str(tmp_path)])
    assert (done.exit_code, done.exception is None or isinstance(done.exception, SystemExit)) == (2, True)
    assert "MiB of memory, expected at most 1" in done.output


def test_a_topology_is_drafted_in_bounded_time(monkeypatch, tmp_path):
    (tmp_path / "conf").write_text("SwitchName=a Nodes=n1")
    monkeypatch.setattr(watchdog, "PERIOD_S", 0.01)
    monkeypatch.setenv("SKEWSCOPE_MAX_MEMORY_MIB", "1")
    monkeypatch.setattr("skewscope.adapters.discovery.slurm.parse_nodes", lambda *_: wait_forever())
    done = CliRunner().invoke(main.cli, ["topology", "discover", "--slurm", str(tmp_path / "conf")])
    assert (done.exit_code, "MiB of memory, expected at most 1" in done.output) == (2, True)


def test_a_lack_of_memory_is_a_line_and_no_traceback(monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("skewscope.adapters.inputs.recording.open_recording", fail)
    done = CliRunner().invoke(main.cli, ["replay", "x"])
    assert (done.exit_code, "MiB of memory" in done.output) == (2, True)
