"""Replays that judge while other processes read: the same result as reading first, whatever is wrong with inputs."""

import os
import random
import signal
import subprocess
import sys
import time
from multiprocessing import active_children
from pathlib import Path

import pytest

from skewscope.adapters.inputs import concurrent
from skewscope.adapters.inputs.recording import open_recording
from skewscope.adapters.runtime import read_ahead
from skewscope.adapters.runtime import replay as replay_module
from skewscope.adapters.runtime.replay import replay
from skewscope.engine.wire.packets import ACK, PSH
from skewscope.kb.problems import InputError
from tests.support import packet_bytes as p
from tests.support.traffic import Shape, mesh

pytestmark = pytest.mark.slow

NODES = 4
ROUNDS = 300
READERS = """
import time
from pathlib import Path
from skewscope.adapters.inputs import concurrent
from skewscope.adapters.inputs.recording import open_recording
from skewscope.kb.loader import catalogue

concurrent.MIN_CONCURRENT_BYTES = 0
with concurrent.ConcurrentInputs(open_recording(Path({folder!r})), catalogue(), 2) as inputs:
    print(*(stream._process.pid for stream in inputs._streams), flush=True)
    time.sleep(600)
"""


def write_capture(path: Path, port: int, sends: list) -> None:
    """Writes what one port sees of a mesh; the second half of it has losses."""
    numbers: dict[tuple[int, int], int] = {}
    records = []
    for send in sorted(sends, key=lambda one: one.time):
        if port not in (send.sender, send.receiver):
            continue
        ends = send.sender, send.receiver
        number = numbers[ends] = numbers.get(ends, -1) + 1
        source, target = (f"10.9.0.{end + 1}" for end in ends)
        again = 1 + (number > ROUNDS / 2 and number % 7 == 0)
        for copy in range(again):
            header = p.tcp(4000, 4000, seq=number * 512, flags=ACK | PSH, payload=bytes(512))
            when = send.time + copy * 2e-3 + (50e-6 if send.receiver == port else 0)
            packet = p.ethernet(p.ipv4(source, target, p.TCP, header), p.IPV4)
            records.append(p.Record(packet, time_ns=int(when * 1e9)))
            if copy < again - 1:
                continue
            answer = p.tcp(4000, 4000, seq=0, ack=(number + 1) * 512, flags=ACK)
            back = p.ethernet(p.ipv4(target, source, p.TCP, answer), p.IPV4)
            records.append(p.Record(back, time_ns=int((when + 1e-4) * 1e9)))
    path.write_bytes(p.packed(p.pcap(sorted(records, key=lambda one: one.time_ns), snaplen=68), ".zst"))


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of half a minute: captures of four nodes, one of which is late, and a metric."""
    folder = tmp_path_factory.mktemp("captured")
    sends = list(mesh(Shape(late={2: 30e-3}, segments=1, compute=90e-3), ROUNDS))
    topology, inputs = ["version: 1", "nodes:"], ["version: 1", "topology: topology.yaml", "inputs:"]
    for n in range(NODES):
        write_capture(folder / f"n{n}.pcap.zst", n, sends)
        port = f"{{name: ew, network: east-west, speed: 1 Gbit/s, addresses: [10.9.0.{n + 1}]}}"
        topology.append(f"- {{name: n{n}, ports: [{port}]}}")
        inputs.append(f"- {{kind: pcap, path: n{n}.pcap.zst, labels: {{node: n{n}, port: ew}}}}")
    members = ", ".join(f"n{n}" for n in range(NODES))
    topology += ["groups:", f"- {{name: G, kind: tensor-parallel, members: [{members}]}}"]
    start = int(sends[0].time)
    lines = [f'skewscope_host_cpu_clock{{node="n{n}"}} 2{t % 7}00 {start + t}' for t in range(30) for n in range(NODES)]
    (folder / "metrics.om").write_text("\n".join([*lines, "# EOF", ""]))
    inputs.append("- {kind: openmetrics, path: metrics.om}")
    (folder / "topology.yaml").write_text("\n".join([*topology, ""]))
    (folder / "recording.yaml").write_text("\n".join([*inputs, ""]))
    return folder


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets processes read however small the inputs are, and wherever the test runs."""
    monkeypatch.setattr(concurrent, "MIN_CONCURRENT_BYTES", 0)
    monkeypatch.setattr(concurrent, "BYTES_PER_READER", 1)
    monkeypatch.setattr(concurrent, "can_copy_process", lambda: True)


@pytest.fixture
def never_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where the inputs are read before they are judged."""
    monkeypatch.setattr(replay_module, "load", lambda *_: pytest.fail("the inputs were read first"))


def copied(source: Path, folder: Path) -> Path:
    folder.mkdir()
    for file in source.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("workers", [2, 4])
def test_judging_while_reading_changes_nothing_of_the_result(captured, monkeypatch, workers):
    before = replay(captured)
    assert before.incidents
    assert "wire.rtt_before_loss" in before.signals
    monkeypatch.setattr(replay_module, "load", lambda *_: pytest.fail("the inputs were read first"))
    assert replay(captured, workers=workers) == before
    assert not active_children()


@pytest.mark.usefixtures("anywhere")
def test_the_order_of_the_inputs_changes_nothing(captured, tmp_path, monkeypatch):
    before = replay(captured)
    folder = copied(captured, tmp_path / "r")
    head, listed = (folder / "recording.yaml").read_text().split("inputs:\n")
    lines = listed.splitlines()
    random.Random(4).shuffle(lines)
    (folder / "recording.yaml").write_text(f"{head}inputs:\n" + "\n".join([*lines, ""]))
    monkeypatch.setattr(replay_module, "load", lambda *_: pytest.fail("the inputs were read first"))
    assert replay(folder, workers=3) == before


@pytest.mark.usefixtures("anywhere")
def test_series_that_come_late_are_judged_from_the_beginning(captured, monkeypatch):
    before = replay(captured)
    begun = []
    first = read_ahead.ReadAheadSamples.__init__

    def begin(self, inputs, whole, table):
        first(self, inputs, whole, table)
        if not begun:
            self.series_count -= 1  # as if one came later
        begun.append(len(table.keys))

    monkeypatch.setattr(read_ahead.ReadAheadSamples, "__init__", begin)
    monkeypatch.setattr(replay_module, "load", lambda *_: pytest.fail("the inputs were read first"))
    assert replay(captured, workers=2) == before
    assert len(begun) == 2


@pytest.mark.usefixtures("anywhere", "never_before")
def test_progress_grows_to_the_end(captured):
    told: list[tuple[str, float]] = []
    replay(captured, workers=2, progress=lambda what, share: told.append((what, share)))
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert told[-1] == ("done", 1.0)
    assert {"read inputs", "diagnosing"} <= {what for what, _ in told}


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("break_file", ["n1.pcap.zst", "metrics.om"])
@pytest.mark.parametrize("partial", [False, True])
def test_a_broken_input_gives_the_same_error_or_warning(captured, tmp_path, break_file, partial):
    folder = copied(captured, tmp_path / "r")
    content = (folder / break_file).read_bytes()
    (folder / break_file).write_bytes(content[: len(content) * 2 // 3])
    if partial:
        text = (folder / "recording.yaml").read_text()
        (folder / "recording.yaml").write_text(
            text.replace(f"path: {break_file}", f"path: {break_file}, partial: true")
        )
        before = replay(folder)
        assert any(break_file in warning for warning in before.warnings)
        assert replay(folder, workers=2) == before
    else:
        with pytest.raises(InputError) as first:
            replay(folder)
        with pytest.raises(InputError) as second:
            replay(folder, workers=2)
        assert second.value.problems == first.value.problems
    assert not active_children()


@pytest.mark.usefixtures("anywhere", "never_before")
def test_a_reader_that_is_killed_is_an_error_and_leaves_no_process(captured, monkeypatch):
    read = concurrent.read_in_step

    def read_one(recording, known, sources):
        yield next(read(recording, known, sources))
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(concurrent, "read_in_step", read_one)
    with pytest.raises(InputError, match="the reader process died"):
        replay(captured, workers=2)
    assert not active_children()


@pytest.mark.usefixtures("anywhere", "never_before")
def test_an_interrupt_leaves_no_process(captured):
    def interrupt(what, _share):
        if what == "diagnosing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(captured, workers=3, progress=interrupt)
    assert not active_children()


def test_readers_end_with_a_process_that_is_killed(captured):
    script = READERS.format(folder=str(captured))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        readers = [int(word) for word in parent.stdout.readline().split()]
        parent.kill()
    assert len(readers) == 3  # one for the metrics
    end = time.monotonic() + 30
    while any(map(is_running, readers)):
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_one_core_or_one_worker_reads_first(captured, monkeypatch):
    recording = open_recording(captured)
    monkeypatch.setattr(concurrent, "MIN_CONCURRENT_BYTES", 0)
    monkeypatch.setattr(concurrent, "can_copy_process", lambda: True)
    monkeypatch.setattr(concurrent, "count_cores", lambda: 1)
    assert concurrent.choose_readers(recording, None) == 0
    assert concurrent.choose_readers(recording, 1) == 0
    monkeypatch.setattr(concurrent, "count_cores", lambda: 2)
    assert concurrent.choose_readers(recording, None) == 1
    monkeypatch.setattr(concurrent, "can_copy_process", lambda: False)
    assert concurrent.choose_readers(recording, None) == 0


@pytest.mark.usefixtures("anywhere")
def test_an_input_that_is_large_is_read_by_this_process(captured, monkeypatch):
    before = replay(captured)
    monkeypatch.setattr(concurrent, "MAX_WHOLE_BYTES", 0)
    monkeypatch.setattr(replay_module, "load", lambda *_: pytest.fail("the inputs were read first"))
    told = []
    assert replay(captured, workers=2, progress=lambda what, _: told.append(what)) == before
    assert "read metrics.om" in told
