"""Lines of kernels: real ones of NVIDIA's driver, those of mlx5 as its source words them, and what is no line."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.kernel_events import normalise_pci_address, parse_events
from skewscope.adapters.sources.kernel_log import KernelLogSettings, KernelLogSource, KmsgReader, read
from skewscope.engine.model.topology import Node, Port, Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.loader import catalogue
from skewscope.kb.yamlfile import parse
from tests.adapters.controller.clocks import FakeClock

PORTS = (Port("n0", "ew0", "east-west", None, (), ("ens1np0",)), Port("n0", "ew1", "east-west", None, (), ("ens2np0",)))
TOPOLOGY = Topology((Node("n0", gpus=8, ports=PORTS), Node("n1", gpus=1)))
WORLD = SourceContext(TOPOLOGY, MetricResolver(catalogue(), TOPOLOGY), FakeClock())
GPUS = tuple(f"0000:{bus}:00.0" for bus in ("1b", "43", "52", "61", "9b", "c3", "d1", "df"))


def log(path, **more):
    return KernelLogSource(
        KernelLogSettings("k", str(path), 1.0, **{"node": "n0", "gpus": GPUS, "from_start": True} | more), WORLD
    )


def told(batch):
    keys = [batch.columns.keys[n] for n in batch.numbers] if batch else []
    values = zip(keys, batch.value.tolist() if batch else [], strict=True)
    return {(key.signal, key.entity): value for key, value in values if not key.signal.startswith("event.")}


def test_an_xid_of_a_real_log_is_of_the_gpu_at_its_address(shared):
    path = shared / "fixtures/leptonai-gpud/dmesg-with-xid-119.log"
    codes = set(re.findall(r"Xid \(PCI:0000:9b:00\): (\d+),", path.read_text()))
    assert codes == {"119"}
    found = told(log(path).read(1000.0))
    assert found == {("gpu.xid", f"n0/gpu{n}"): 119.0 if n == 4 else 0.0 for n in range(8)}


@pytest.mark.parametrize("name", ["dmesg.decode.iso.log", "kmsg.2.peermem.log"])
def test_lines_that_tell_nothing_are_nothing(shared, name):
    lines = (shared / "fixtures/leptonai-gpud" / name).read_text().splitlines()
    assert lines
    assert [event for line in lines for event in parse_events(line)] == []


XID = "NVRM: Xid (PCI:0000:9B:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("before", "host"),
    [
        ("3,1234,5678,-;", ""),
        ("[12345.678901] ", ""),
        ("[Sun Feb 23 16:24:18 2025] ", ""),
        ("kern  :err   : 2025-01-21T04:41:44,285060+00:00 ", ""),
        ("Feb 23 16:24:18 n7.cluster kernel: ", "n7.cluster"),
        ("2025-02-23T16:24:18+0100 n7 kernel: ", "n7"),
    ],
)
def test_an_xid_is_known_in_every_way_of_writing_a_line(before, host):
    (event,) = parse_events(before + XID)
    assert (event.metric, event.value, event.host, event.pci) == ("kernel_gpu_xid", 79.0, host, "0000:9b:00.0")


def test_what_happens_is_counted_from_nought_and_a_state_is_the_newest(tmp_path):
    path = tmp_path / "kern.log"
    path.write_text("")
    source = log(path, gpus=(), ports=((normalise_pci_address("0000:08:00.1"), "ew1"),), from_start=False)
    lines = (
        "mlx5_core 0000:3b:00.0 ens1np0: Link up",
        "mlx5_core 0000:3b:00.0 ens1np0: Link down",
        "mlx5_core 0000:08:00.1: Port module event: module 1, Cable unplugged",
        "mlx5_core 0000:08:00.1: mlx5_pme_event: Port module event[error]: module 1, Cable error, High Temperature",
        "mlx5_core 0000:08:00.1: Port module event[error]: module 1, Cable error, Bus stuck(I2C or data shorted)",
        "mlx5_core 0000:08:00.1: poll_health:840:(pid 0): device's health compromised - reached miss count",
        "Out of memory: Killed process 123 (python3) total-vm:1kB",
        "mlx5_core 0000:08:00.0: Port module event: module 1, Cable unplugged",
    )
    assert source.read(1.0) is None
    with path.open("a") as file:
        file.write("".join(f"[1.0] {line}\n" for line in (*lines, lines[1], "half of a li")))
    expected = {
        ("port.carrier", "n0/ew0"): 0.0,
        ("port.link_down_events", "n0/ew0"): 2.0,
        ("port.module_unplug", "n0/ew1"): 1.0,
        ("port.module_high_temp", "n0/ew1"): 1.0,
        ("port.module_bus_stuck", "n0/ew1"): 1.0,
        ("port.health_errors", "n0/ew1"): 1.0,
        ("host.oom_kill", "n0"): 1.0,
    }
    assert told(source.read(2.0)) == expected
    again = source.read(3.0)
    assert told(again) == expected
    assert set(again.time.tolist()) == {3.0}
    assert "0000:08:00.0" in source._trouble()


def test_logs_of_many_nodes_name_their_hosts(tmp_path):
    path = tmp_path / "all.log"
    path.write_text(
        f"Feb 23 16:24:18 n1 kernel: {XID}\nFeb 23 16:24:19 n0 kernel: {XID}\nFeb 23 16:24:19 x kernel: {XID}\n"
    )
    source = log(path, node="", gpus=())
    assert told(source.read(1.0)) == {("gpu.xid", "n1/gpu0"): 79.0}
    assert len(source.unmapped) == 2


@given(st.text())
def test_any_text_is_a_line(text):
    for event in parse_events(text + "NVRM: Xid mlx5_core " + text):
        assert event.metric


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="/dev/kmsg may not be read here")
def test_the_kernels_own_buffer_is_read_to_its_end_without_waiting():
    kmsg = KmsgReader(from_start=True)
    try:
        assert all(isinstance(line, str) for line in kmsg.lines())
        assert list(kmsg.lines()) == []
    except OSError as error:
        pytest.skip(f"/dev/kmsg: {error.strerror}")
    finally:
        kmsg.close()


def test_settings_are_read_with_all_their_faults():
    text = "{kind: kernel-log, path: kern.log, node: n0, gpus: ['00000000:9B:00.0'], ports: {'08:00.0': ew0}}"
    found = read(FieldReader(parse(text, "/etc/c.yaml")), (), "k")
    assert (found.path, found.gpus, found.ports) == ("/etc/kern.log", ("0000:9b:00.0",), (("0000:08:00.0", "ew0"),))
    faulty = FieldReader(parse("{kind: kernel-log, gpus: [x], y: 1}", "c.yaml"))
    read(faulty, (), "k")
    assert sorted(problem.field for problem in faulty.problems) == ["", "node", "y"]
    assert Path(read(FieldReader(parse("{kind: kernel-log, node: n}", "c.yaml")), (), "k").path) == Path("/dev/kmsg")
