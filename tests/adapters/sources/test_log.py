"""Logs that grow: their messages as events, at their places, through rotation."""

import pytest

from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.sources import SourceContext, source_kinds
from skewscope.adapters.sources.kernel_log import KernelLogSettings, KernelLogSource
from skewscope.adapters.sources.log import LogSettings, LogSource, read
from skewscope.engine.model.topology import Group, Node, Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.loader import catalogue
from skewscope.kb.yamlfile import parse
from tests.adapters.controller.clocks import FakeClock

TOPOLOGY = Topology((Node("n0", gpus=8), Node("n1", gpus=1)), (Group("job", "data-parallel", ("n0", "n1")),))
WORLD = SourceContext(TOPOLOGY, MetricResolver(catalogue(), TOPOLOGY), FakeClock())
XID_79 = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=python3, GPU has fallen off the bus."
XID_31 = "NVRM: Xid (PCI:0000:9b:00): 31, pid=1, name=python3, MMU Fault"
OOM = "Out of memory: Killed process 123 (python3) total-vm:1kB"


def log(path, labels=(), **more):
    return LogSource(LogSettings("app", str(path), 1.0, labels, **more), WORLD)


def counts(batch):
    """Returns the newest count by signal and entity."""
    keys = [batch.columns.keys[n] for n in batch.numbers] if batch else []
    values = batch.value.tolist() if batch else []
    return {(key.signal, key.entity): value for key, value in zip(keys, values, strict=True)}


def test_messages_are_counted_when_they_come_and_not_between(tmp_path):
    path = tmp_path / "syslog"
    path.write_text("")
    source = log(path, (("node", "n0"),))
    assert source.read(1.0) is None
    with path.open("a") as file:
        file.write(f"{OOM}\n{OOM}\nan ordinary line\n")
    assert counts(source.read(2.0)) == {("event.out_of_memory_kill", "n0"): 1.0}
    assert source.read(3.0) is None
    with path.open("a") as file:
        file.write(f"{OOM}\n")
    assert counts(source.read(4.0)) == {("event.out_of_memory_kill", "n0"): 3.0}


def test_a_log_that_is_rotated_is_followed(tmp_path):
    path = tmp_path / "syslog"
    path.write_text("")
    source = log(path, (("node", "n0"),))
    source.read(1.0)
    path.rename(tmp_path / "syslog.1")
    path.write_text(f"{OOM}\n")
    assert counts(source.read(2.0)) == {("event.out_of_memory_kill", "n0"): 1.0}


JOURNAL = '{{"__REALTIME_TIMESTAMP":"1795341858000000","_HOSTNAME":"{host}","MESSAGE":"{text}"}}'


def test_lines_of_several_hosts_are_each_of_their_own(tmp_path):
    path = tmp_path / "all.json"
    lines = [JOURNAL.format(host=host, text=OOM) for host in ("n0", "n1", "stranger")]
    path.write_text("\n".join(lines) + "\n")
    source = log(path, from_start=True)
    assert counts(source.read(1.0)) == {("event.out_of_memory_kill", name): 1.0 for name in ("n0", "n1")}
    assert "node=stranger" in source._trouble()


def test_a_log_of_one_node_says_nothing_of_another(tmp_path):
    path = tmp_path / "syslog"
    path.write_text(f"error: Nodes n1 not responding\n{OOM}\n")
    source = log(path, (("node", "n0"),), from_start=True)
    assert counts(source.read(1.0)) == {("event.out_of_memory_kill", "n0"): 1.0}


def test_what_means_nothing_by_itself_is_not_delivered(tmp_path):
    path = tmp_path / "syslog"
    path.write_text(f"{XID_31}\npcieport 0000:e0:01.1: AER: Corrected error received: 0000:e1:00.0\n")
    assert log(path, (("node", "n0"),), from_start=True).read(1.0) is None


def test_the_kernel_log_places_messages_at_gpus_by_their_addresses(tmp_path):
    path = tmp_path / "kern.log"
    path.write_text(f"3,1234,5678,-;{XID_79}\n3,1235,5679,-;{OOM}\n")
    settings = KernelLogSettings("k", str(path), 1.0, node="n0", gpus=("0000:1b:00.0", "0000:9b:00.0"), from_start=True)
    found = counts(KernelLogSource(settings, WORLD).read(1.0))
    assert found["event.nvidia_xid_79", "n0/gpu1"] == 1.0
    assert found["event.out_of_memory_kill", "n0"] == 1.0


def test_the_kind_is_known_and_its_settings_are_checked():
    assert "log" in source_kinds()
    found = read(FieldReader(parse("{kind: log, path: vllm.log, labels: {instance: a}}", "/etc/c.yaml")), (), "l")
    assert (found.path, found.labels) == ("/etc/vllm.log", (("instance", "a"),))
    faulty = FieldReader(parse("{kind: log, y: 1}", "c.yaml"))
    read(faulty, (), "l")
    assert {problem.field for problem in faulty.problems} >= {"y"} or len(faulty.problems) == 2


@pytest.mark.parametrize("text", ["", "\x00" * 100, "{" * 5000, '{"MESSAGE": [1, 2]}', "[" * 100_000])
def test_any_text_is_a_log(text, tmp_path):
    path = tmp_path / "x.log"
    path.write_text(text + "\n")
    assert log(path, from_start=True).read(1.0) is None


STALL = "nfs: server 10.0.0.{server} not responding, still trying\n"
ANSWERS = "nfs: server 10.0.0.{server} OK\n"
SOCKET = "n0:1:1 [0] NCCL INFO Using network Socket\n"
COMMUNICATOR = "n0:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes {nodes} localRanks 8 localRank 0 MNNVL 0\n"


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        pytest.param([STALL.format(server=1), ANSWERS.format(server=1)], 0.0, id="it answers again"),
        pytest.param([STALL.format(server=1), ANSWERS.format(server=2)], 1.0, id="another one answers"),
        pytest.param(
            [STALL.format(server=1), ANSWERS.format(server=1), STALL.format(server=1)], 1.0, id="and stalls again"
        ),
        pytest.param([SOCKET, COMMUNICATOR.format(nodes=1)], 0.0, id="NCCL within a node"),
        pytest.param(
            [SOCKET, COMMUNICATOR.format(nodes=1), COMMUNICATOR.format(nodes=2)], 1.0, id="over several as well"
        ),
        pytest.param(
            [COMMUNICATOR.format(nodes=2), SOCKET, COMMUNICATOR.format(nodes=1)], 1.0, id="over several first"
        ),
    ],
)
def test_a_message_that_another_one_says_means_nothing_counts_no_more(tmp_path, parts, wanted):
    path = tmp_path / "syslog"
    path.write_text("")
    source = log(path, (("node", "n0"),))
    source.read(1.0)
    newest = None
    for second, part in enumerate(parts, 2):
        with path.open("a") as file:
            file.write(part)
        newest = next(iter(counts(source.read(float(second))).values()), newest)
    assert newest == wanted
