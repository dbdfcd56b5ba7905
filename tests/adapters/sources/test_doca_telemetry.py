"""A page as a DOCA Telemetry Service is believed to write one: made up, for no real one is known."""

import io

from skewscope.adapters.formats.openmetrics import ExpositionReader
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.adapters.sources.doca_telemetry import normalise_labels
from skewscope.engine.model.topology import Node, Port, Topology
from skewscope.kb.loader import catalogue

PAGE = b"""# TYPE port_xmit_wait counter
port_xmit_wait{device_name="mlx5_0",device_id="1",pod_name=""} 17
port_xmit_wait{device_name="mlx5_1",device_id="1",pod_name="trainer-0",source="dpu"} 21
hw_out_of_sequence{device_name="mlx5_0",device_id="1"} 3
outbound_pci_stalled_rd{device_name="p0",device_id="0"} 12
rx_prio3_pause{device_name="p0"} 5
hw_out_of_sequence{device_name="mlx5_9",device_id="1"} 4
"""


def test_a_page_of_dts_is_of_the_ports_that_its_devices_name():
    ports = (
        Port("n0", "ew0", "east-west", None, (), ("mlx5_0", "p0")),
        Port("n0", "ew1", "east-west", None, (), ("mlx5_1:1", "p1")),
    )
    intake = SeriesRegistry()
    known = MetricResolver(catalogue(), Topology((Node("n0", ports=ports),))).target_lookup({"node": "n0"}, intake)
    block = ExpositionReader(lambda metric, labels: known(metric, normalise_labels(labels))).read(
        io.BytesIO(PAGE), "page", 1.0
    )
    found = {
        (intake.keys[n].signal, intake.keys[n].entity, intake.keys[n].selector): v
        for n, v in zip(block.series.tolist(), block.value.tolist(), strict=True)
    }
    assert found == {
        ("port.xmit_wait", "n0/ew0", ""): 17.0,
        ("port.xmit_wait", "n0/ew1", ""): 21.0,
        ("rdma.out_of_sequence", "n0/ew0", ""): 3.0,
        ("pcie.stall_read", "n0/ew0", ""): 12.0,
        ("prio.rx_pause", "n0/ew0", "p3"): 5.0,
    }
    assert list(intake.unmapped) == [("hw_out_of_sequence", "its device belongs to no port of the topology")]
