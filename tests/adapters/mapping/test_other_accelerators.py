"""Series of the exporters for Gaudi and EFA, labelled as their makers publish them."""

import pytest

from skewscope.adapters.mapping.names import MetricResolver
from skewscope.engine.model.topology import Node, Port, Topology, canonical_gpu_id
from skewscope.kb.loader import catalogue

UUID = "01P0-HL2080A0-15-TNPS34-03-07-02"
NODE = Node(
    "n0",
    "",
    2,
    (),
    (Port("n0", "rdmap113s0", "east-west", None, (), ("rdmap113s0",)),),
    gpu_ids=((canonical_gpu_id(UUID), 1),),
)
GAUDI = {"Serial": "AM12", "UUID": UUID, "device": "AM12", "instance": "n0:41611", "job": "gaudi"}
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
    ],
)
def test_a_metric_of_another_maker_is_a_series_of_the_catalogue(metric, labels, series):
    names = MetricResolver(catalogue(), Topology((NODE,)))
    (found,) = names.resolve(metric, labels, {})
    assert (found.key.signal, found.key.entity, found.scale) == series
