"""A small catalogue, a small cluster, and recordings of them, for tests of readers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.topology_file import parse_topology
from skewscope.kb.model import Catalogue, Signal
from skewscope.kb.yamlfile import parse

CLUSTER = """
version: 1
nodes:
  - name: n0
    gpus: 2
    dpu: {sees: [north-south, east-west]}
    ports:
      - {name: ns, network: north-south, speed: 200 Mbit/s, addresses: [10.0.0.1], devices: [eth0]}
      - {name: ew, network: east-west, speed: 400Gb/s, addresses: ["fd00:0:0::0001"], devices: [eth1, "mlx5_0:1"],
         switch: "leaf1:swp1", peer: n1/ew/0}
  - name: n1
    gpus: 2
    ports:
      - {name: ew/0, network: east-west, speed: 400Gb/s, addresses: [10.1.0.2], devices: [eth1], switch: "leaf1:swp2",
         peer: n0/ew}
groups:
  - {name: A, kind: tensor-parallel, members: [n0, n1], front_end: n0}
  - {name: B, kind: data-parallel, members: [n0/gpu0, n0/gpu1, n1/gpu0], front_end: n1}
  - {name: C, kind: expert-parallel, members: [n1/gpu1]}
pools:
  - {name: chat, replicas: [A, B]}
"""


def cluster(text: str = CLUSTER) -> Topology:
    """Returns the topology of a text."""
    read, problems = parse_topology(parse(text, "topology.yaml"))
    assert not problems
    return read


def signal(name: str, kind: str, entity: str, unit: str = "1", scale: Any = None, **sources: str) -> Signal:
    """Returns a signal; each source is one text of names."""
    given = {exporter: tuple(names.split()) for exporter, names in sources.items()}
    return Signal(name, name, unit, kind, entity, ("east-west",), "direct", given, scale or {})


SIGNALS = (
    signal("host.cpu", "counter", "node", "s", node_exporter="node_cpu_seconds_total"),
    signal("host.retrans", "counter", "node", node_exporter="node_netstat_Tcp_RetransSegs"),
    signal("host.clock", "gauge", "node", "MHz", node_exporter="node_cpu_scaling_frequency_hz"),
    signal(
        "port.rx_bytes",
        "counter",
        "port",
        "By",
        ethtool="rx_bytes_phy",
        sysfs_ib="counters/port_rcv_data",
        node_exporter_ib="node_infiniband_port_data_received_bytes_total",
    ),
    signal("port.speed", "gauge", "port", "bit/s", node_exporter_ib="node_infiniband_rate_bytes_per_second"),
    signal("prio.rx_pause", "counter", "priority", ethtool="rx_prio<P>_pause"),
    signal("port.lane_errors", "counter", "lane", ethtool="rx_err_lane_<N>_phy"),
    signal("rdma.out_of_buffer", "counter", "rdma_port", node_exporter_ib="node_infiniband_out_of_buffer_drops_total"),
    signal("port.out_of_buffer", "counter", "function", node_exporter_ib="node_infiniband_out_of_buffer_drops_total"),
    signal(
        "gpu.util",
        "gauge",
        "gpu",
        "%",
        {"nvidia_smi_exporter": 100.0},
        dcgm="DCGM_FI_DEV_GPU_UTIL DCGM_FI_DEV_GPU_UTIL_RATIO",
        nvidia_smi_exporter="nvidia_smi_utilization_gpu_ratio",
        amd_dme='gpu_gfx_activity gpu_busy{kind="gfx"}',
    ),
    signal("serve.running", "gauge", "engine", vllm="vllm:num_requests_running"),
    signal(
        "serve.tokens", "counter", "engine", vllm="vllm:generation_tokens_total", tgi="tgi_request_generated_tokens"
    ),
    signal("serve.length", "histogram", "engine", tgi="tgi_request_generated_tokens"),
    signal(
        "serve.ttft",
        "histogram",
        "engine",
        "s",
        {"triton": 0.001},
        vllm="vllm:time_to_first_token_seconds",
        triton="nv_inference_first_response_histogram_ms",
    ),
    signal("nccl.busbw", "gauge", "rank", nccl_inspector="nccl_bus_bandwidth_gbs"),
    signal("wire.peer_bytes", "counter", "peer", skewscope_agent="skewscope_wire_peer_bytes"),
    signal("wire.round_rate", "gauge", "group", "1/s"),
    signal("wire.loss", "gauge", "port"),
    signal("pool.queue", "gauge", "request-pool", gie="inference_pool_per_pod_queue_size"),
    signal("switch.pause", "counter", "link", cumulus_otlp="nvswitch_interface_dot3_in_pause_frames"),
)


def catalogue(signals: tuple[Signal, ...] = SIGNALS) -> Catalogue:
    """Returns a catalogue of signals only."""
    return Catalogue({}, {each.id: each for each in signals}, {}, {})


def record(folder: Path, inputs: list[dict[str, Any]], files: dict[str, str | bytes], **more: Any) -> Path:
    """Writes a recording folder with these inputs and files."""
    folder.mkdir(parents=True, exist_ok=True)
    described = {"version": 1, "topology": "topology.yaml", "inputs": inputs, **more}
    content = {"topology.yaml": CLUSTER, "recording.yaml": yaml.safe_dump(described, sort_keys=False), **files}
    for name, data in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


def without_instance(key: SeriesKey) -> SeriesKey:
    """Returns a series without the address that tells its engine from others."""
    parts = (part for part in key.selector.split(",") if not part.startswith("instance="))
    return replace(key, selector=",".join(parts))
