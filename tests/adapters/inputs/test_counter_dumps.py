import io

import pytest

from skewscope.adapters.inputs import ethtool_statistics, infiniband_counters
from skewscope.adapters.inputs.counter_dumps import parse_dump_name, parse_time_line
from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.adapters.mapping.names import ethtool_metric
from skewscope.adapters.runtime.replay import replay
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from tests.support.artefacts import ETHTOOL, INFINIBAND, START
from tests.support.telemetry import record


def read(module, text, name="n0-eth0.txt", **labels):
    return module.read_series(io.BytesIO(text.encode()), name, labels)


def loaded(folder, kind, text, name):
    path = record(folder, [{"kind": kind, "path": name, "labels": {"node": "n0"}}], {name: text})
    found = load(open_recording(path), catalogue())
    block = found.block
    return {
        found.table.keys[n]: [
            (float(t) - START, float(v))
            for t, v in zip(block.time[block.series == n], block.value[block.series == n], strict=True)
        ]
        for n in sorted(set(block.series.tolist()))
    }


def test_dumps_of_ethtool_are_counters_of_the_port_at_the_times_before_them(tmp_path):
    found = loaded(tmp_path, "ethtool-statistics", ETHTOOL, "eth1.txt")
    assert found[SeriesKey("port.rx_bytes", "port", "n0/ew")] == [(0, 1000), (10, 251000)]
    assert found[SeriesKey("prio.rx_pause", "port", "n0/ew", "p3")] == [(0, 4), (10, 9)]


def test_dumps_of_infiniband_are_counters_of_the_port_in_the_units_of_the_catalogue(tmp_path):
    found = loaded(tmp_path, "infiniband-counters", INFINIBAND, "n0.txt")
    assert found[SeriesKey("port.rx_bytes", "port", "n0/ew")] == [(0, 4000), (10.5, 8000)]
    assert found[SeriesKey("rdma.out_of_sequence", "port", "n0/ew")] == [(0, 3)]
    assert found[SeriesKey("port.state", "port", "n0/ew")] == [(0, 4)]
    assert found[SeriesKey("port.speed", "port", "n0/ew")] == [(0, 400e9)]


def test_times_may_stand_after_the_dumps():
    dump = "NIC statistics:\n     rx_packets: {}\n"
    text = f"{dump.format(1)}1795341600\n{dump.format(2)}1795341610\n"
    (one,) = read(ethtool_statistics, text)
    assert ((one.times - START).tolist(), one.values.tolist()) == ([0, 10], [1, 2])


def test_several_devices_are_told_apart_by_the_command_or_a_title():
    text = """\
=== 2026-11-22 10:00:00 ===
$ ethtool -S ens1f0np0
NIC statistics:
     rx_packets: 1
ens1f1np1:
NIC statistics:
     rx_packets: 2
"""
    found = {dict(one.labels)["device"]: one.values.tolist() for one in read(ethtool_statistics, text, "n0.txt")}
    assert found == {"ens1f0np0": [1], "ens1f1np1": [2]}


def test_one_dump_has_the_time_of_its_file():
    (one,) = read(ethtool_statistics, "NIC statistics:\n     rx_packets: 1\n", "n7-eth2-20261122T100005.txt")
    assert (dict(one.labels), one.times.tolist()) == ({"node": "n7", "device": "eth2"}, [START + 5])


def test_perfquery_and_ibstat_are_read():
    text = """\
1795341600
perfquery -x mlx5_0
# Port extended counters: Lid 12 port 1 (CapMask: 0x5A00)
PortSelect:......................1
CounterSelect:...................0x0000
PortXmitData:....................1000
1795341610
CA 'mlx5_0'
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
"""
    found = {one.metric: one.values.tolist() for one in read(infiniband_counters, text, "n0.txt")}
    assert found == {
        "skewscope_port_tx_bytes": [4000],
        "skewscope_port_state": [4],
        "skewscope_port_speed": [400e9],
    }


@pytest.mark.parametrize(
    ("text", "name", "device", "values"),
    [
        ("NIC statistics:\n     rx: 1\n", "eth0.txt", "eth0", [1]),
        ("1795341600\nNIC statistics:\n     rx: 1\n", "dump.txt", "nic", [1]),
        ("NIC statistics:\n     rx: 1\nNIC statistics:\n     rx: 2\n", "dump.txt", "nic", [1, 2]),
        ("NIC statistics:\n     rx: 1\n1795341600\nNIC statistics:\n     rx: 2\n", "eth0.txt", "eth0", [2]),
    ],
)
def test_a_dump_without_time_or_device_is_read_and_says_what_is_taken(text, name, device, values):
    (series,) = read(ethtool_statistics, text, name)
    assert (dict(series.labels)["device"], series.values.tolist()) == (device, values)
    assert (series.times[1:] - series.times[:-1]).tolist() == [1.0] * (len(values) - 1)
    assert ("no line has a time" in series.note) == ("1795341600" not in text)
    assert ("'nic' is taken" in series.note) == (device == "nic")
    assert ("1 s is taken" in series.note) == (len(values) > 1)


def test_a_counter_twice_in_one_reading_is_an_error():
    with pytest.raises(InputError, match=r"eth0\.txt:4: found a second tx in one reading"):
        read(ethtool_statistics, "NIC statistics:\n     rx: 1\n     tx: 1\n     tx: 2\n", "eth0.txt")


@pytest.mark.parametrize(
    ("line", "time"),
    [
        ("1795341600", 0),
        ("1795341600.25", 0.25),
        ("1795341600250000000", 0.25),
        ("Sun Nov 22 10:00:00 UTC 2026", 0),
        ("Sun 22 Nov 2026 10:00:00 AM UTC", 0),
        ("Sun Nov 22 12:00:01 AM UTC 2026", 1 - 36000),
        ("--- 2026-11-22T11:00:00+01:00 ---", 0),
        ("2026-11-22 10:00:00.5", 0.5),
        ("     rx_bytes: 1795341600", None),
        ("Sun Feb 30 10:00:00 UTC 2026", None),
        ("rx at 2026-11-22 10:00:00", None),
        ("", None),
    ],
)
def test_a_line_that_is_a_time_is_one(line, time):
    found = parse_time_line(line, 0.0)
    assert found is None if time is None else found - START == pytest.approx(time)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("n0-eth0-1795341600.txt", ("n0", "eth0", START)),
        ("a/ethtool_ens1f0np0_20261122T100000.txt.zst", ("", "ens1f0np0", START)),
        ("node-7.mlx5_0.2026-11-22T10-00-00.log", ("node-7", "mlx5_0", START)),
        ("counters-mlx5_bond_0-1795341600250.txt", ("", "mlx5_bond_0", START + 0.25)),
        ("dgx01_ethtool_eth0.txt", ("dgx01", "eth0", None)),
        ("ethtool.txt", ("", "", None)),
    ],
)
def test_a_files_name_says_node_device_and_time(name, found):
    assert tuple(parse_dump_name(name)) == found


def test_a_real_dump_of_ethtool_is_read_whole(shared):
    text = (shared / "fixtures/prometheus-node_exporter/ethtool/eth0/statistics").read_text()
    found = {one.metric: one.values.tolist() for one in read(ethtool_statistics, f"1795341600\n{text}")}
    assert found["node_ethtool_received_packets"] == [1260062]
    # What was dropped and what was missed, by names that the catalogue does not have.
    assert found["node_network_receive_drop_total"] == [12028 + 401]
    # Two names that become one metric.
    assert found["node_ethtool_duplicate_metric"] == [1]


def test_a_real_tree_of_sysfs_is_read_as_its_files_say(shared):
    root = shared / "fixtures/leptonai-gpud/sys-class-infiniband-h100.0"
    lines = [
        f"/sys/class/infiniband/{file.relative_to(root)}:{line}"
        for file in sorted(root.glob("mlx5_0/ports/1/**/*"))
        if file.is_file()
        for line in file.read_text().splitlines()
    ]
    found = {one.metric: one.values.tolist() for one in read(infiniband_counters, "1795341600\n" + "\n".join(lines))}
    words = int((root / "mlx5_0/ports/1/counters/port_xmit_data").read_text())
    assert found["skewscope_port_tx_bytes"] == [4.0 * words]
    assert found["skewscope_port_state"] == [4]


QUEUES = {
    "bnxt": ("[0]: rx_discards: 3\n     [1]: rx_discards: 4", "node_ethtool_received_discards"),
    "ena": ("queue_0_rx_cnt: 7\n     queue_1_rx_cnt: 9", "node_ethtool_received_cnt"),
}


@pytest.mark.parametrize(("lines", "metric"), QUEUES.values(), ids=QUEUES)
def test_counters_of_queues_are_those_of_their_device(lines, metric):
    found = read(ethtool_statistics, f"NIC statistics:\n     {lines}\n")
    assert {one.metric for one in found} == {metric}
    assert sorted(dict(one.labels)["queue"] for one in found) == ["0", "1"]
    known = {ethtool_metric(name) for one in catalogue().signals.values() for name in one.sources.get("ethtool", ())}
    assert metric in known


def test_counters_of_an_unknown_driver_are_taken_by_their_words_and_summed_over_their_parts():
    text = """NIC statistics:
     rx_drops_no_pbuf: 0
     rxq0: rx_pkts: 100
     rxq1: rx_pkts: 50
     rxq0: rx_drops_no_frags: 7
     rxq1: rx_drops_no_frags: 5
     on_die_temperature: 54
"""
    found = {one.metric: (one.labels, one.values.tolist()) for one in read(ethtool_statistics, text)}
    place = (("device", "eth0"), ("node", "n0"))
    assert found["node_network_receive_packets_total"] == (place, [150])
    assert found["node_network_receive_drop_total"] == (place, [12])
    assert "node_ethtool_on_die_temperature" in found


PAUSES = {
    "ice": "rx_priority_3_xoff.nic",
    "ixgbe": "rx_pb_3_pxoff",
    "bnxt_en": "rx_pfc_ena_frames_pri3",
    "cxgb4": "rx_ppp_3",
    "mlx4_en": "rx_pause_prio_3",
    "mlx5_core": "rx_prio3_pause",
}


@pytest.mark.parametrize("driver", PAUSES)
@pytest.mark.parametrize(("frames", "wanted"), [(4_210_380, {"resource-pressure"}), (40, set())])
def test_pause_frames_of_a_priority_are_found_in_two_readings_whatever_the_driver(tmp_path, driver, frames, wanted):
    def dump(second, count):
        head = f"2026-11-16T09:12:{second:02}+00:00\nNIC statistics:\n"
        return f"{head}     rx_packets: {1000 + second}\n     {PAUSES[driver]}: {88_213_004 + count}\n"

    path = tmp_path / "n0-eth0.txt"
    path.write_text(dump(4, 0) + dump(24, frames))
    found = replay(draft_recording([path]).recording).incidents
    assert {one.condition for one in found} == wanted
    assert {one.name for one in found} <= {"n0/eth0"}
