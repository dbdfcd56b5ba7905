"""Series of the exporters for Gaudi, EFA, TPU and Slingshot, labelled as their makers publish them."""

import math

import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.mapping.entities import UnmappedError
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.runtime.replay import replay
from skewscope.engine.model.topology import Node, Port, Topology, canonical_gpu_id
from skewscope.kb.loader import catalogue

UUID = "01P0-HL2080A0-15-TNPS34-03-07-02"
NODE = Node(
    "n0",
    "",
    2,
    (),
    (
        Port("n0", "rdmap113s0", "east-west", None, (), ("rdmap113s0",)),
        Port("n0", "cxi2", "east-west", None, (), ("cxi2",)),
    ),
    gpu_ids=((canonical_gpu_id(UUID), 1),),
)
GAUDI = {"Serial": "AM12", "UUID": UUID, "device": "AM12", "instance": "n0:41611", "job": "gaudi"}
TPU = {
    "accelerator_id": "1234567890123456789-1",
    "make": "cloud-tpu",
    "model": "tpu7x",
    "tpu_topology": "2x2x2",
    "instance": "n0:2112",
}
CHIP = {**TPU, "container": "vllm-worker", "namespace": "serving", "pod": "llm-0"}
CXI = {"interface": "cxi2", "instance": "n0:8001", "job": "omnistat"}
CLASS = {**CXI, "traffic_class": "2"}
EFA = {"device": "rdmap113s0", "port": "1", "instance": "n0:9100"}


@pytest.mark.parametrize(
    ("metric", "labels", "series"),
    [
        ("habanalabs_utilization", GAUDI, ("gpu.util", "n0/gpu1", 1)),
        ("habanalabs_clock_soc_mhz", GAUDI, ("gpu.sm_clock", "n0/gpu1", 1)),
        ("habanalabs_temperature_onchip", GAUDI, ("gpu.temperature", "n0/gpu1", 1)),
        ("habanalabs_power_mW", GAUDI, ("gpu.power", "n0/gpu1", 0.001)),
        ("habanalabs_pcie_replay_count", GAUDI, ("gpu.pcie_replay", "n0/gpu1", 1)),
        ("node_amazonefa_rx_bytes", EFA, ("port.rx_bytes", "n0/rdmap113s0", 1)),
        ("node_amazonefa_tx_bytes_total", EFA, ("port.tx_bytes", "n0/rdmap113s0", 1)),
        ("node_amazonefa_rx_pkts", EFA, ("port.rx_packets", "n0/rdmap113s0", 1)),
        ("node_amazonefa_tx_pkts", EFA, ("port.tx_packets", "n0/rdmap113s0", 1)),
        ("duty_cycle_node", TPU, ("gpu.util", "n0/gpu1", 1)),
        ("duty_cycle", CHIP, ("gpu.util", "n0/gpu1", 1)),
        ("tensorcore_utilization", CHIP, ("gpu.tensor_active", "n0/gpu1", 0.01)),
        ("memory_bandwidth_utilization_node", TPU, ("gpu.dram_active", "n0/gpu1", 0.01)),
        ("memory_used", CHIP, ("gpu.fb_used", "n0/gpu1", 2**-20)),
        ("omnistat_network_cxi_rx_ok_octets", CXI, ("port.rx_bytes", "n0/cxi2", 1)),
        ("omnistat_network_cxi_tx_ok_octets", CXI, ("port.tx_bytes", "n0/cxi2", 1)),
        ("omnistat_network_cxi_pkts_sent_by_tc", CLASS, ("port.tx_packets", "n0/cxi2", 1)),
        ("omnistat_network_cxi_pause_recv", CLASS, ("port.rx_global_pause", "n0/cxi2", 1)),
        ("omnistat_network_cxi_discard_cntr", CLASS, ("port.rx_discards", "n0/cxi2", 1)),
        ("omnistat_network_cxi_pcs_corrected_cw", CXI, ("port.rx_corrected_bits", "n0/cxi2", 1)),
    ],
)
def test_a_metric_of_another_maker_is_a_series_of_the_catalogue(metric, labels, series):
    names = MetricResolver(catalogue(), Topology((NODE,)))
    (found,) = names.resolve(metric, labels, {})
    assert (found.key.signal, found.key.entity, found.scale) == series


def test_a_general_name_of_another_exporter_is_no_chip():
    names = MetricResolver(catalogue(), Topology((NODE,)))
    with pytest.raises(UnmappedError, match="no signal of the catalogue has these labels"):
        names.resolve("memory_used", {"instance": "n0:9000", "accelerator_id": "7"}, {})


def page(name, labels, value):
    written = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return [f"{name}{{{written}}} {value(k)} {1_700_000_000 + 15 * k}" for k in range(60)]


def diagnose(tmp_path, lines):
    (tmp_path / "page.om").write_text("\n".join([*lines, "# EOF\n"]))
    outcome = replay(draft_recording([tmp_path / "page.om"], None, None).recording)
    return [(one.kind, one.name) for one in outcome.snapshots[-1].incidents if one.explained_by is None]


@pytest.mark.parametrize("slow", [None, 5])
def test_a_chip_whose_cores_do_less_while_it_is_busy_is_found(tmp_path, slow):
    lines = []
    for n in range(8):
        labels = {"accelerator_id": f"1234567890123456789-{n}", "make": "cloud-tpu", "instance": "tpu-0:2112"}
        lines += page("duty_cycle_node", labels, lambda k, n=n: 95 + math.sin(n + k))
        lines += page(
            "tensorcore_utilization_node", labels, lambda k, n=n: (10 if n == slow and k > 30 else 60) + math.sin(n + k)
        )
    lines.sort(key=lambda line: line.partition("{")[0])
    assert diagnose(tmp_path, lines) == ([] if slow is None else [("gpu", "tpu-0/gpu5")])


@pytest.mark.parametrize("lossy", [None, 2])
def test_a_slingshot_port_that_drops_is_found(tmp_path, lossy):
    lines = []
    for n in range(4):
        labels = {"interface": f"cxi{n}", "instance": "n0:8001"}
        lines += page("omnistat_network_cxi_rx_ok_octets", labels, lambda k, n=n: int(15e9 * k + 1e7 * math.sin(n + k)))
        lines += page(
            "omnistat_network_cxi_pkts_recv_by_tc", {**labels, "traffic_class": "0"}, lambda k: 15 * 2_000_000 * k
        )
        lines += page(
            "omnistat_network_cxi_discard_cntr",
            {**labels, "traffic_class": "0"},
            lambda k, n=n: 90_000 * max(k - 30, 0) if n == lossy else 0,
        )
    assert diagnose(tmp_path, sorted(lines, key=lambda line: line.partition("{")[0])) == (
        [] if lossy is None else [("port", "n0/cxi2")]
    )
