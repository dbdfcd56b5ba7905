"""Each collector over a tree of files: what is there is told in the signal's unit, what is missing is left out."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.agent.collectors import net, proc
from skewscope.adapters.agent.collectors.counter_names import device_entities
from skewscope.adapters.agent.collectors.ethtool import EthtoolCollector, EthtoolIoctl
from skewscope.adapters.agent.collectors.hwmon import HwmonCollector
from skewscope.adapters.agent.collectors.infiniband import RdmaCollector
from skewscope.adapters.agent.collectors.kernel_files import KernelFiles, ReadFailures
from skewscope.adapters.agent.collectors.net import NetdevCollector
from skewscope.adapters.agent.collectors.proc import ProcCollector
from tests.support.agent_trees import ground, known, on_node, on_port, tree, unpacked

PORTS = {"p0": "n0/ew", "mlx5_0": "n0/ew", "pf0hpf": "n0/ew"}


class Driver:
    """A driver that counts what it is told to."""

    def __init__(self, **numbers: dict[str, int]) -> None:
        self.devices = numbers
        self.asked = 0

    def count(self, device: str) -> int:
        if device not in self.devices:
            raise OSError(19, "No such device")
        return len(self.devices[device])

    def names(self, device: str, count: int) -> Sequence[str]:
        self.asked += 1
        return list(self.devices[device])[:count]

    def numbers(self, device: str, count: int) -> np.ndarray:
        return np.array(list(self.devices[device].values()), np.uint64)[:count]


def test_every_signal_that_a_collector_names_is_one_of_the_catalogue():
    named = {signal for signal, _ in net.FILE_SIGNALS.values()} | set(proc.STACK_SIGNALS.values())
    named |= {f"host.{name}" for name in (*proc.PRESSURE_SIGNALS.values(), *proc.SOFTNET_FIELDS)}
    named |= {"dpu.arm_cpu", "dpu.temperature", "port.module_temperature", "host.cpu", "host.cpu_util", "host.oom_kill"}
    named |= {f"dpu.{name}" for name in ("psi_cpu", "psi_io", "psi_mem", "softnet_dropped", "softnet_squeezed")}
    named |= {"agent.sample_age", "agent.observed_share", "host.up", "port.health_errors"}
    assert named <= set(known().signals)


def test_a_network_device_is_told_in_bits_and_what_its_driver_does_not_know_is_left_out(tmp_path):
    base = "sys/class/net/p0"
    root = tree(tmp_path, {f"{base}/statistics/rx_bytes": 5, f"{base}/speed": 200000, f"{base}/carrier": 1})
    found = dict(NetdevCollector(ground(root, PORTS)).read(0))
    assert found == {on_port("port.rx_netdev_bytes"): 5, on_port("port.speed"): 200e9, on_port("port.carrier"): 1}
    tree(tmp_path, {f"{base}/speed": -1})
    assert on_port("port.speed") not in dict(NetdevCollector(ground(root, PORTS)).read(0))


@pytest.mark.parametrize("device", ["pf0hpf", "pf0vf3", "en3f0pf0sf1", "eth5"])
def test_the_slow_path_of_a_representor_is_not_taken_for_a_port(tmp_path, device):
    files = {f"sys/class/net/{device}/statistics/rx_bytes": 5}
    if device == "eth5":
        files[f"sys/class/net/{device}/phys_port_name"] = "c1pf0vf0"
    assert not list(NetdevCollector(ground(tree(tmp_path, files), {device: "n0/ew"})).read(0))


def test_several_devices_of_a_port_are_told_apart(tmp_path):
    root = tree(tmp_path, {f"sys/class/net/p{n}/statistics/rx_bytes": n for n in (0, 1)})
    found = dict(NetdevCollector(ground(root, {"p0": "n0/ew", "p1": "n0/ew"})).read(0))
    assert found == {on_port("port.rx_netdev_bytes", f"device=p{n}"): n for n in (0, 1)}


def test_a_device_that_goes_and_comes_again_is_read_again(tmp_path):
    path = tree(tmp_path, {"sys/class/net/p0/carrier": 1}) / "sys/class/net/p0/carrier"
    reader = NetdevCollector(ground(tmp_path, PORTS))
    assert dict(reader.read(0)) == {on_port("port.carrier"): 1}
    path.write_text("")
    assert not dict(reader.read(1))
    path.write_text("0\n")
    assert dict(reader.read(2)) == {on_port("port.carrier"): 0}


def test_what_may_not_be_read_is_said_once_counted_and_no_fault(tmp_path, caplog, monkeypatch):
    def forbidden(path, flags):
        raise PermissionError(13, "Permission denied")

    troubles = ReadFailures()
    files = KernelFiles(tree(tmp_path, {"one": 1}), troubles)
    monkeypatch.setattr(os, "open", forbidden)
    assert [files.number("one") for _ in range(3)] == [None] * 3
    assert troubles.counts == {"one": 3}
    assert caplog.text.count("cannot read one") == 1


@given(st.text(max_size=40))
def test_a_file_that_holds_no_number_is_none(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("files")
    (folder / "one").write_text(text, encoding="utf-8", errors="replace")
    found = KernelFiles(folder, ReadFailures()).number("one")
    assert found is None or found == float(int(text.strip().encode(errors="replace").decode()))


def hca(**more: object) -> dict[str, object]:
    base = "sys/class/infiniband/mlx5_0/ports/1"
    return {f"{base}/{name.replace('__', '/')}": value for name, value in more.items()}


def test_words_of_an_rdma_port_become_bytes(tmp_path):
    files = hca(counters__port_rcv_data=10, rate="400 Gb/sec (4X NDR)", state="4: ACTIVE", phys_state="5: LinkUp")
    files |= hca(counters__port_xmit_wait="N/A (no PMA)", counters__multicast_rcv_packets=7)
    found = dict(RdmaCollector(ground(tree(tmp_path, files), PORTS)).read(0))
    assert found == {on_port("port.rx_bytes"): 40, on_port("port.speed"): 400e9, on_port("port.state"): 4}


def test_an_rdma_port_is_found_by_its_network_device(tmp_path):
    files = hca(counters__port_rcv_packets=3, gid_attrs__ndevs__0="p0")
    assert dict(RdmaCollector(ground(tree(tmp_path, files), {"p0": "n0/ew"})).read(0)) == {
        on_port("port.rx_packets"): 3
    }
    assert not dict(RdmaCollector(ground(tmp_path, {"p1": "n0/ew"})).read(0))


def test_hardware_counters_are_read_no_more_often_than_they_are_renewed(tmp_path):
    files = hca(hw_counters__out_of_sequence=9, hw_counters__lifespan=2500, counters__port_rcv_packets=3)
    reader = RdmaCollector(ground(tree(tmp_path, files), PORTS))
    told = [on_port("rdma.out_of_sequence") in dict(reader.read(float(t))) for t in range(7)]
    assert told == [True, False, False, True, False, False, True]
    assert on_port("port.rx_packets") in dict(reader.read(7))


UPLINK = {
    "rx_bytes_phy": 1000,
    "rx_prio3_pause": 4,
    "rx_err_lane_2_phy": 6,
    "rx_pause_ctrl_phy": 8,
    "rx_global_pause": 7,
    "rx0_packets": 99,
    "vport_rx_bytes": 5,
}


def test_statistics_of_a_driver_become_signals_each_from_its_best_name(tmp_path):
    root = tree(tmp_path, {"sys/class/net/p0/mtu": 1})
    found = dict(EthtoolCollector(ground(root, PORTS), Driver(p0=UPLINK)).read(0))
    assert found == {
        on_port("port.rx_bytes"): 1000,
        on_port("prio.rx_pause", "p3"): 4,
        on_port("port.raw_errors_lane", "lane2"): 6,
        on_port("port.rx_global_pause"): 7,
    }


def test_of_a_representor_only_what_counts_all_of_its_traffic_is_told_as_its_driver_says(tmp_path):
    root = tree(tmp_path, {"sys/class/net/pf0hpf/mtu": 1})
    driver = Driver(pf0hpf={"rx_bytes": 1, "vport_rx_bytes": 70, "vport_tx_bytes": 80})
    found = dict(EthtoolCollector(ground(root, PORTS), driver).read(0))
    mark = "device=pf0hpf"
    assert found == {on_port("rep.rx_bytes", mark): 70, on_port("rep.tx_bytes", mark): 80}


def test_names_of_statistics_are_asked_for_again_only_when_their_number_changes(tmp_path):
    driver = Driver(p0=dict(UPLINK))
    reader = EthtoolCollector(ground(tree(tmp_path, {"sys/class/net/p0/mtu": 1}), PORTS), driver)
    for _ in range(3):
        dict(reader.read(0))
    assert driver.asked == 1
    driver.devices["p0"] = {"tx_bytes_phy": 3, **UPLINK}
    found = dict(reader.read(0))
    assert (driver.asked, found[on_port("port.tx_bytes")], found[on_port("port.rx_bytes")]) == (2, 3, 1000)


def test_a_device_without_a_driver_hurts_no_other(tmp_path):
    root = tree(tmp_path, {"sys/class/net/p0/mtu": 1, "sys/class/net/p1/mtu": 1})
    reader = EthtoolCollector(ground(root, {"p1": "n0/b", "p0": "n0/ew"}), Driver(p0=UPLINK))
    assert dict(reader.read(0))[on_port("port.rx_bytes")] == 1000


@pytest.mark.skipif(not Path("/sys/class/net").is_dir(), reason="no network devices of Linux here")
def test_the_kernel_of_this_machine_is_asked_as_it_wants():
    kernel = EthtoolIoctl()
    try:
        for device in (path.name for path in Path("/sys/class/net").iterdir()):
            count = kernel.count(device)
            if count:
                assert len(kernel.names(device, count)) == len(kernel.numbers(device, count)) == count
                assert all(kernel.names(device, count))
        with pytest.raises(OSError, match="No such device"):
            kernel.count("none-such")
    finally:
        kernel.close()


STAT = "cpu  {} 0 100 {} 0 0 0 0 0 0\ncpu0 50 0 50 400 7 0 0 0 0 0"


def test_on_a_dpu_the_machine_is_the_dpu_and_never_the_host(tmp_path):
    files = {
        "proc/stat": STAT.format(100, 800),
        "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000",
        "proc/net/softnet_stat": "00000010 00000002 00000003",
        "proc/net/snmp": "Tcp: InSegs\nTcp: 5",
        "proc/vmstat": "oom_kill 3",
    }
    machine = ProcCollector(ground(tree(tmp_path, files), {}))
    assert not [key for key, _ in machine.read(0) if key.signal.startswith("host.")]
    tree(tmp_path, {"proc/stat": STAT.format(130, 870)})
    assert dict(machine.read(1)) == {
        on_node("dpu.arm_cpu"): pytest.approx(0.3),
        on_node("dpu.psi_cpu"): 1.5,
        on_node("dpu.softnet_dropped", "cpu0"): 2,
        on_node("dpu.softnet_squeezed", "cpu0"): 3,
    }


def test_temperatures_of_the_chip_and_of_each_module(tmp_path):
    base = "sys/class/hwmon/hwmon0"
    files = {f"{base}/temp1_input": 61000, f"{base}/temp1_label": "asic", f"{base}/temp3_input": 70500}
    files |= {f"{base}/temp2_input": 44000, f"{base}/temp2_label": "Module0", f"{base}/device/net/p0/mtu": 1}
    root = tree(tmp_path, files)
    assert dict(HwmonCollector(ground(root, PORTS)).read(0)) == {
        on_node("dpu.temperature"): 70.5,
        on_port("port.module_temperature"): 44,
    }
    assert on_node("dpu.temperature") not in dict(HwmonCollector(ground(root, PORTS, "host")).read(0))


@given(st.dictionaries(st.sampled_from(["p0", "p1", "p2", "p3"]), st.sampled_from(["n0/a", "n0/b"])))
def test_no_two_devices_have_one_place(ports):
    found = [place for _, place in device_entities("n0", ports)]
    assert len(set(found)) == len(found) == len(ports)


# Real trees.


def test_the_tree_of_a_host_with_nine_adapters_is_read_as_its_files_say(shared, tmp_path):
    root = shared / "fixtures/leptonai-gpud/sys-class-infiniband-h100.0"
    (tmp_path / "sys/class").mkdir(parents=True)
    (tmp_path / "sys/class/infiniband").symlink_to(root)
    ports = {hca.name: f"n0/{hca.name}" for hca in root.iterdir() if hca.is_dir()}
    found = dict(RdmaCollector(ground(tmp_path, ports)).read(0))
    for name, port in ports.items():
        base = root / name / "ports/1"

        def raw(file: str, base: Path = base) -> float:
            return float((base / file).read_text())

        assert found[on_port("port.rx_bytes", port=port)] == 4 * raw("counters/port_rcv_data")
        assert found[on_port("port.rx_packets", port=port)] == raw("counters/port_rcv_packets")
        assert found[on_port("port.xmit_wait", port=port)] == raw("counters/port_xmit_wait")
        assert found[on_port("rdma.out_of_sequence", port=port)] == raw("hw_counters/out_of_sequence")
        assert found[on_port("rdma.rx_write_requests", port=port)] == raw("hw_counters/rx_write_requests")
        assert found[on_port("port.speed", port=port)] == float((base / "rate").read_text().split()[0]) * 1e9
        # This host's function may not ask for congestion counters: they are missing, not nought.
        assert on_port("cc.np_cnp_sent", port=port) not in found


def test_trees_of_a_testsuite_are_read_as_their_files_say(shared, tmp_path):
    archive = shared / "fixtures/prometheus-procfs/fixtures.ttar"
    root = unpacked(archive, tmp_path, "fixtures/sys/class/") / "fixtures"
    found = dict(RdmaCollector(ground(root, {"mlx5_0": "n0/ew", "mlx4_0:2": "n0/ns"})).read(0))
    base = root / "sys/class/infiniband"
    assert found[on_port("rdma.duplicate_request")] == 41
    assert found[on_port("port.rx_bytes")] == 4 * int((base / "mlx5_0/ports/1/counters/port_rcv_data").read_text())
    stuck = on_port("port.xmit_wait", port="n0/ns")
    assert found[stuck] == int((base / "mlx4_0/ports/2/counters/port_xmit_wait").read_text())
    device = "eth0"
    told = dict(NetdevCollector(ground(root, {device: "n0/ew"})).read(0))
    net = root / "sys/class/net" / device
    assert told[on_port("port.carrier_down_changes")] == int((net / "carrier_down_count").read_text())
    assert told[on_port("port.speed")] == int((net / "speed").read_text()) * 1e6


def statistics(path: Path) -> dict[str, int]:
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return {name.strip(): int(value) for name, _, value in lines if value.strip().isdecimal()}


def test_statistics_of_a_real_adapter_are_read_as_its_text_says(shared, tmp_path):
    real = statistics(shared / "fixtures/isc-ethq/mlx5_core_ConnectX4Lx_ethtool-S.txt")
    root = tree(tmp_path, {"sys/class/net/p0/mtu": 1})
    found = dict(EthtoolCollector(ground(root, PORTS), Driver(p0=real)).read(0))
    assert found[on_port("port.rx_bytes")] == real["rx_bytes_phy"]
    assert found[on_port("port.rx_out_of_buffer")] == real["rx_out_of_buffer"]
    assert found[on_port("prio.rx_bytes", "p0")] == real["rx_prio0_bytes"]
    assert found[on_port("vport.rx_rdma_bytes")] == real["rx_vport_rdma_unicast_bytes"]
    # Its priorities were not paused, so there are no such counters.
    assert not [key for key in found if key.signal == "prio.rx_pause"]
    assert len(real) > 700
    assert len(found) < 80


def test_the_stack_of_a_real_host_is_read_as_its_files_say(shared, tmp_path):
    (tmp_path / "proc").symlink_to(shared / "fixtures/prometheus-node_exporter/proc")
    found = dict(ProcCollector(ground(tmp_path, {}, "host")).read(0))
    page = (shared / "fixtures/prometheus-node_exporter/e2e-output.txt").read_text().splitlines()
    told = dict(line.rsplit(" ", 1) for line in page if not line.startswith("#"))
    for ours, theirs in (
        (on_node("host.psi_cpu"), "node_pressure_cpu_waiting_seconds_total"),
        (on_node("host.psi_io"), "node_pressure_io_waiting_seconds_total"),
        (on_node("host.psi_irq"), "node_pressure_irq_stalled_seconds_total"),
        (on_node("host.tcp_in_segs"), "node_netstat_Tcp_InSegs"),
        (on_node("flow.tcp_retrans"), "node_netstat_Tcp_RetransSegs"),
        (on_node("host.tcp_timeouts"), "node_netstat_TcpExt_TCPTimeouts"),
        (on_node("host.oom_kill"), "node_vmstat_oom_kill"),
        (on_node("host.softnet_dropped", "cpu1"), 'node_softnet_dropped_total{cpu="1"}'),
        (on_node("host.softnet_squeezed", "cpu2"), 'node_softnet_times_squeezed_total{cpu="2"}'),
        (on_node("host.cpu", "cpu0,mode=idle"), 'node_cpu_seconds_total{cpu="0",mode="idle"}'),
    ):
        if theirs in told:
            assert found[ours] == pytest.approx(float(told[theirs])), theirs
        else:
            assert theirs.startswith(("node_netstat_TcpExt", "node_vmstat"))
