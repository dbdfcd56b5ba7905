import io
import math

import pytest
import yaml

from skewscope.adapters.formats.openmetrics import ExpositionReader
from skewscope.adapters.mapping.entities import UnmappedError
from skewscope.adapters.mapping.names import PACKET_RANK, MetricResolver, SeriesRegistry
from skewscope.adapters.mapping.scales import implied_scale
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.topology import Group, Node, Topology
from skewscope.kb import loader
from tests.support.telemetry import CLUSTER, catalogue, cluster

NAMES = MetricResolver(catalogue(), cluster())


def mapped(metric, labels, static=None):
    return [
        (m.key.signal, m.key.kind, m.key.entity, m.key.selector, m.scale)
        for m in NAMES.resolve(metric, labels, static or {})
    ]


@pytest.mark.parametrize(
    ("metric", "labels", "series"),
    [
        ("node_netstat_Tcp_RetransSegs", {"node": "n0"}, ("host.retrans", "node", "n0", "", 1)),
        ("node_netstat_Tcp_RetransSegs_total", {"node": "n0"}, ("host.retrans", "node", "n0", "", 1)),
        (
            "node_cpu_seconds",
            {"node": "n0", "cpu": "3", "mode": "idle"},
            ("host.cpu", "node", "n0", "cpu3,mode=idle", 1),
        ),
        ("node_cpu_scaling_frequency_hz", {"node": "n0"}, ("host.clock", "node", "n0", "", 1e-6)),
        ("skewscope_host_retrans", {"node": "n0"}, ("host.retrans", "node", "n0", "", 1)),
        # Where it is from: by address, with a port, by the long form of a name, by what an exporter calls it.
        ("skewscope_host_retrans", {"instance": "10.0.0.1:9100"}, ("host.retrans", "node", "n0", "", 1)),
        ("skewscope_host_retrans", {"instance": "[fd00:0::1]:9100"}, ("host.retrans", "node", "n0", "", 1)),
        ("skewscope_host_retrans", {"instance": "n1.cluster.local:9100"}, ("host.retrans", "node", "n1", "", 1)),
        ("skewscope_host_retrans", {"Hostname": "3f2e", "instance": "n1"}, ("host.retrans", "node", "n1", "", 1)),
        # Ports, by name and by device; what ethtool calls a key.
        (
            "node_ethtool_received_bytes_phy",
            {"node": "n0", "device": "eth1"},
            ("port.rx_bytes", "port", "n0/ew", "", 1),
        ),
        ("skewscope_port_rx_bytes", {"port": "n1/ew/0"}, ("port.rx_bytes", "port", "n1/ew/0", "", 1)),
        ("skewscope_port_rx_bytes", {"node": "n1", "port": "ew/0"}, ("port.rx_bytes", "port", "n1/ew/0", "", 1)),
        (
            "node_infiniband_port_data_received_bytes_total",
            {"node": "n0", "device": "mlx5_0", "port": "1"},
            ("port.rx_bytes", "port", "n0/ew", "", 1),
        ),
        (
            "node_infiniband_rate_bytes_per_second",
            {"node": "n0", "device": "eth0"},
            ("port.speed", "port", "n0/ns", "", 8),
        ),
        (
            "node_ethtool_received_prio3_pause",
            {"node": "n0", "device": "eth1"},
            ("prio.rx_pause", "port", "n0/ew", "p3", 1),
        ),
        (
            "skewscope_prio_rx_pause",
            {"node": "n0", "port": "ew", "priority": "3"},
            ("prio.rx_pause", "port", "n0/ew", "p3", 1),
        ),
        (
            "node_ethtool_received_err_lane_2_phy",
            {"node": "n0", "device": "eth1"},
            ("port.lane_errors", "port", "n0/ew", "lane2", 1),
        ),
        (
            "skewscope_wire_loss",
            {"node": "n0", "port": "ew", "direction": "tx"},
            ("wire.loss", "port", "n0/ew", "tx", 1),
        ),
        ("skewscope_wire_loss", {"node": "n0", "port": "ew", "group": "A"}, ("wire.loss", "port", "n0/ew", "A", 1)),
        # GPUs.
        (
            "DCGM_FI_DEV_GPU_UTIL",
            {
                "Hostname": "n0",
                "gpu": "1",
                "UUID": "GPU-1",
                "modelName": "H200",
                "device": "nvidia1",
                "DCGM_FI_DRIVER_VERSION": "590",
                "pod": "x-1",
            },
            ("gpu.util", "gpu", "n0/gpu1", "", 1),
        ),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", {"hostname": "n0", "gpu": "1"}, ("gpu.util", "gpu", "n0/gpu1", "", 1)),
        ("nvidia_smi_utilization_gpu_ratio", {"node": "n0", "gpu": "0"}, ("gpu.util", "gpu", "n0/gpu0", "", 100)),
        ("gpu_busy", {"node": "n0", "gpu_id": "0", "kind": "gfx"}, ("gpu.util", "gpu", "n0/gpu0", "", 1)),
        # Serving: the group whose front end the node is.
        (
            "vllm:num_requests_running",
            {"node": "n0", "engine": "0", "model_name": "m", "job": "vllm"},
            ("serve.running", "replica", "A", "0,job=vllm,model_name=m", 1),
        ),
        (
            "vllm:num_requests_running",
            {"instance": "n1:8000", "engine": "1"},
            ("serve.running", "replica", "B", "1,instance=n1:8000", 1),
        ),
        ("skewscope_serve_running", {"replica": "B"}, ("serve.running", "replica", "B", "", 1)),
        (
            "vllm:time_to_first_token_seconds_bucket",
            {"node": "n0", "engine": "0", "le": "0.50"},
            ("serve.ttft", "replica", "A", "0,bucket:0.5", 1),
        ),
        (
            "vllm:time_to_first_token_seconds_bucket",
            {"node": "n0", "le": "+Inf"},
            ("serve.ttft", "replica", "A", "bucket:+Inf", 1),
        ),
        ("vllm:time_to_first_token_seconds_count", {"node": "n0"}, ("serve.ttft", "replica", "A", "count", 1)),
        # A bound is in the unit of the sum; a count has none.
        (
            "nv_inference_first_response_histogram_ms_bucket",
            {"node": "n0", "le": "250"},
            ("serve.ttft", "replica", "A", "bucket:0.25", 1),
        ),
        ("nv_inference_first_response_histogram_ms_sum", {"node": "n0"}, ("serve.ttft", "replica", "A", "sum", 0.001)),
        ("nv_inference_first_response_histogram_ms_count", {"node": "n0"}, ("serve.ttft", "replica", "A", "count", 1)),
        # One name, a counter and a histogram.
        ("tgi_request_generated_tokens", {"node": "n0"}, ("serve.tokens", "replica", "A", "", 1)),
        ("tgi_request_generated_tokens_sum", {"node": "n0"}, ("serve.length", "replica", "A", "sum", 1)),
        # Ranks, groups, pools, peers, links.
        ("nccl_bus_bandwidth_gbs", {"node": "n0", "gpu": "1"}, ("nccl.busbw", "rank", "B:n0/gpu1", "", 1)),
        (
            "nccl_bus_bandwidth_gbs",
            {"node": "n1", "gpu": "1", "group": "C"},
            ("nccl.busbw", "rank", "C:n1/gpu1", "", 1),
        ),
        ("nccl_bus_bandwidth_gbs", {"node": "n0", "group": "A"}, ("nccl.busbw", "rank", "A:n0", "", 1)),
        ("nccl_bus_bandwidth_gbs", {"rank": "n1", "group": "A"}, ("nccl.busbw", "rank", "A:n1", "", 1)),
        ("nccl_bus_bandwidth_gbs", {"rank": "2", "group": "B"}, ("nccl.busbw", "rank", "B:n1/gpu0", "", 1)),
        (
            "nccl_bus_bandwidth_gbs",
            {"node": "n1", "comm_name": "tp,0"},
            ("nccl.busbw", "rank", "A:n1", "comm_name=tp%2C0", 1),
        ),
        ("skewscope_wire_round_rate", {"group": "A"}, ("wire.round_rate", "group", "A", "", 1)),
        ("inference_pool_per_pod_queue_size", {"name": "chat"}, ("pool.queue", "pool", "chat", "", 1)),
        (
            "skewscope_wire_peer_bytes",
            {"node": "n0", "port": "ew", "peer": "10.1.0.2", "direction": "rx"},
            ("wire.peer_bytes", "peer", "n0/ew>n1/ew/0", "rx", 1),
        ),
        (
            "skewscope_wire_peer_bytes",
            {"node": "n0", "port": "ew", "peer": "n1/ew/0"},
            ("wire.peer_bytes", "peer", "n0/ew>n1/ew/0", "", 1),
        ),
        (
            "nvswitch_interface_dot3_in_pause_frames",
            {"switch": "leaf1:swp2"},
            ("switch.pause", "link", "n1/ew/0", "", 1),
        ),
    ],
)
def test_a_metric_is_a_series_of_the_catalogue(metric, labels, series):
    assert mapped(metric, labels) == [series]


@pytest.mark.parametrize(
    ("metric", "labels", "reason"),
    [
        ("go_goroutines", {"node": "n0"}, "no signal of the catalogue has this name"),
        ("rx_bytes_phy", {"node": "n0", "device": "eth1"}, "no signal of the catalogue has this name"),
        ("gpu_busy", {"node": "n0", "gpu": "0", "kind": "copy"}, "no signal of the catalogue has these labels"),
        ("vllm:time_to_first_token_seconds", {"node": "n0"}, "no signal of the catalogue has this name"),
        ("vllm:time_to_first_token_seconds_bucket", {"node": "n0"}, "its label le is no number"),
        ("vllm:time_to_first_token_seconds_bucket", {"node": "n0", "le": "NaN"}, "its label le is no number"),
        ("skewscope_host_retrans", {}, "no label says which node it is from"),
        ("skewscope_host_retrans", {"node": "n9", "instance": "n0"}, "its node is not in the topology"),
        ("skewscope_host_retrans", {"instance": "10.9.9.9:9100"}, "its host is not in the topology"),
        (
            "node_ethtool_received_bytes_phy",
            {"node": "n0", "device": "lo"},
            "its device belongs to no port of the topology",
        ),
        ("node_ethtool_received_bytes_phy", {"node": "n0"}, "no label says which port it is of"),
        ("skewscope_port_rx_bytes", {"node": "n0", "port": "we"}, "its port is not in the topology"),
        ("DCGM_FI_DEV_GPU_UTIL", {"node": "n0", "gpu": "2"}, "its GPU is not in the topology"),
        ("DCGM_FI_DEV_GPU_UTIL", {"node": "n0", "gpu": "1", "GPU_I_ID": "3"}, "it is of a part of a GPU (MIG)"),
        ("nvidia_smi_utilization_gpu_ratio", {"node": "n0", "uuid": "1-2"}, "no label says which GPU it is of"),
        ("nccl_bus_bandwidth_gbs", {"node": "n0", "group": "Z"}, "its group is not in the topology"),
        ("nccl_bus_bandwidth_gbs", {"node": "n0", "group": "C"}, "it is a member of no group"),
        ("nccl_bus_bandwidth_gbs", {"node": "n0", "gpu": "7", "group": "C"}, "it is a member of no group"),
        ("nccl_bus_bandwidth_gbs", {"rank": "9", "group": "B"}, "it is a member of no group"),
        ("skewscope_wire_round_rate", {"node": "n0"}, "no label says which group it is of"),
        ("inference_pool_per_pod_queue_size", {"name": "other"}, "no label names a pool of the topology"),
        (
            "skewscope_wire_peer_bytes",
            {"node": "n0", "port": "ew", "peer": "1.2.3.4"},
            "its peer is not in the topology",
        ),
    ],
)
def test_what_has_no_place_is_told_why(metric, labels, reason):
    with pytest.raises(UnmappedError) as told:
        NAMES.resolve(metric, labels, {})
    assert str(told.value) == reason


def test_a_node_that_is_no_front_end_serves_nobody():
    names = MetricResolver(catalogue(), cluster().__class__(cluster().nodes, cluster().groups[:1], ()))
    with pytest.raises(UnmappedError, match="the front end of no group"):
        names.resolve("vllm:num_requests_running", {"node": "n1"}, {})


def test_a_name_that_two_signals_claim_serves_both():
    labels = {"node": "n0", "device": "eth1"}
    found = mapped("node_infiniband_out_of_buffer_drops_total", labels)
    assert [signal for signal, *_ in found] == ["port.out_of_buffer", "rdma.out_of_buffer"]


def test_labels_of_the_input_win_and_tell_no_series_apart():
    static = {"node": "n1", "site": "north"}
    assert mapped("node_netstat_Tcp_RetransSegs", {"node": "n0"}, static) == [("host.retrans", "node", "n1", "", 1)]


def test_names_of_one_signal_rank_in_the_catalogues_order_after_packets():
    ranks = [
        NAMES.resolve(metric, {"node": "n0", "device": "eth1"}, {})[0].rank
        for metric in (
            "skewscope_port_rx_bytes",
            "node_ethtool_received_bytes_phy",
            "node_infiniband_port_data_received_bytes_total",
        )
    ]
    assert [PACKET_RANK, *ranks] == sorted({PACKET_RANK, *ranks})


def test_what_nobody_could_place_is_counted_in_bounds(monkeypatch):
    monkeypatch.setattr("skewscope.adapters.mapping.names.MAX_UNMAPPED", 2)
    intake = SeriesRegistry()
    known = NAMES.target_lookup({"node": "n0"}, intake)
    for metric in ("go_a", "go_a", "go_b", "go_c", "go_d", "x_created"):
        assert known(metric, ()) == []
    reason = "no signal of the catalogue has this name"
    assert intake.unmapped == {("go_a", reason): 2, ("go_b", reason): 1, ("...", "further metrics"): 2}


def test_one_series_by_two_names_has_two_numbers_until_it_is_settled():
    intake = SeriesRegistry()
    key = SeriesKey("wire.loss", "port", "n0/ew")
    assert [intake.number(key), intake.register(key, 1), intake.number(key)] == [0, 1, 0]
    assert intake.keys == [key, key]


@pytest.mark.parametrize(
    ("name", "unit", "scale"),
    [
        ("a_seconds", "s", 1),
        ("a_ms", "s", 1e-3),
        ("a_us_total", "s", 1e-6),
        ("a_microseconds", "us", 1),
        ("a_seconds_total", "ms", 1e3),
        ("a_bytes", "MiBy", 2**-20),
        ("a_bytes_per_second", "bit/s", 8),
        ("a_ratio", "%", 100),
        ("a_hz", "MHz", 1e-6),
        ("a_watts", "W", 1),
        ("a_histogram_ms", "s", 1e-3),
        ("a_ms_histogram", "s", 1e-3),
        ("a_total", "By", 1),
        ("a_bytes", "s", 1),
        ("a_seconds", "{token}", 1),
        ("ms", "s", 1),
    ],
)
def test_a_name_that_ends_on_a_unit_implies_its_scale(name, unit, scale):
    assert math.isclose(implied_scale(name, unit), scale)


def test_scales_that_the_facts_tell_are_those_that_the_names_imply(shared):
    facts = yaml.safe_load((shared / "facts/signals.yaml").read_text())["signals"]
    told = [
        (implied_scale(name, each["unit"]), scale)
        for each in facts
        for exporter, scale in each.get("scale", {}).items()
        for name in each["sources"].get(exporter, [])
        if implied_scale(name, each["unit"]) != 1
    ]
    assert len(told) >= 3
    assert all(math.isclose(a, b) for a, b in told)


def test_a_gpu_that_is_told_by_its_uuid_is_known_from_a_series_with_both_whatever_their_order():
    intake = SeriesRegistry()
    reader = ExpositionReader(NAMES.target_lookup({"node": "n0"}, intake))
    page = b'nvidia_smi_utilization_gpu_ratio{uuid="a-1"} 0.5\nnvidia_smi_gpu_info{index="1",uuid="a-1"} 1\n'
    block = reader.read(io.BytesIO(page), "page", 1.0)
    assert [(intake.keys[n].entity, v) for n, v in zip(block.series, block.value, strict=True)] == [("n0/gpu1", 50.0)]


def test_the_only_gpu_of_a_node_needs_no_number():
    alone = cluster("version: 1\nnodes:\n  - {name: n0, gpus: 1}\n")
    (found,) = MetricResolver(catalogue(), alone).resolve("gpu_gfx_activity", {"node": "n0", "GPU_UUID": "66"}, {})
    assert found.key.entity == "n0/gpu0"


def test_labels_that_yield_stand_behind_those_of_a_series():
    intake = SeriesRegistry()
    known = NAMES.target_lookup({"node": "n0"}, intake, yielding=True)
    known("node_netstat_Tcp_RetransSegs", (("node", "n1"),))
    known("node_netstat_Tcp_RetransSegs", ())
    assert [key.entity for key in intake.keys] == ["n1", "n0"]


def test_a_rank_of_several_groups_is_told_by_its_communicator():
    text = CLUSTER + "  - {name: chat 2, replicas: [C]}\n"
    more = text.replace("groups:\n", "groups:\n  - {name: D, kind: data-parallel, members: [n0, n1]}\n")
    names = MetricResolver(catalogue(), cluster(more.replace("members: [n1/gpu1]", "members: [n0, n1, n1/gpu1]")))
    with pytest.raises(UnmappedError, match="several groups"):
        names.resolve("nccl_bus_bandwidth_gbs", {"node": "n0"}, {})
    (named,) = names.resolve("nccl_bus_bandwidth_gbs", {"node": "n0", "comm_name": "D"}, {})
    (sized,) = names.resolve("nccl_bus_bandwidth_gbs", {"node": "n0", "nranks": "3"}, {})
    assert (named.key.entity, sized.key.entity) == ("D:n0", "C:n0")


def test_a_device_without_a_port_is_its_first():
    labels = {"node": "n0", "device": "eth1"}
    assert mapped("node_infiniband_port_data_received_bytes_total", {**labels, "port": "1"})
    with pytest.raises(UnmappedError, match="belongs to no port"):
        mapped("node_infiniband_port_data_received_bytes_total", {**labels, "port": "2"})


ENGINES = MetricResolver(
    loader.catalogue(),
    Topology(
        (Node("n0", aliases=("10.0.0.5",), gpus=2),),
        (Group("r0", "tensor-parallel", ("n0/gpu0", "n0/gpu1"), front_end="n0", engine=(("pod", "llm-0"),)),),
    ),
)
MEMORY = "DCGM_FI_DEV_FB_USED"
WAITING_REASON = "kube_pod_container_status_waiting_reason"


@pytest.mark.parametrize(
    ("metric", "labels", "found"),
    [
        (MEMORY, {"Hostname": "n0", "gpu": "1", "exported_pod": "llm-0"}, ["n0/gpu1", "r0"]),
        (MEMORY, {"Hostname": "n0", "gpu": "1", "pod": "llm-0"}, ["n0/gpu1", "r0"]),
        (MEMORY, {"Hostname": "n0", "gpu": "1", "pod": "dcgm-x", "exported_pod": "other"}, ["n0/gpu1"]),
        (MEMORY, {"Hostname": "n0", "gpu": "1"}, ["n0/gpu1"]),
        ("up", {"job": "vllm", "pod": "llm-0", "instance": "10.1.0.3:8000"}, ["r0"]),
        (WAITING_REASON, {"pod": "llm-0", "namespace": "a", "reason": "CrashLoopBackOff"}, ["r0"]),
        ("kube_pod_container_status_restarts_total", {"pod": "kube-state", "exported_pod": "llm-0"}, ["r0"]),
    ],
)
def test_other_exporters_name_engines_by_their_pods(metric, labels, found):
    assert [one.key.entity for one in ENGINES.resolve(metric, labels, {})] == found


@pytest.mark.parametrize(
    ("metric", "labels"),
    [
        ("up", {"job": "node", "instance": "10.0.0.5:9100"}),
        (WAITING_REASON, {"pod": "llm-0", "reason": "ContainerCreating"}),
        (WAITING_REASON, {"pod": "other", "reason": "CrashLoopBackOff"}),
    ],
)
def test_what_they_say_of_others_is_not_used(metric, labels):
    with pytest.raises(UnmappedError):
        ENGINES.resolve(metric, labels, {})


def test_each_gpu_of_an_engine_is_a_series_of_its_own():
    rows = ({"Hostname": "n0", "gpu": str(n), "exported_pod": "llm-0", "instance": "e:9400"} for n in range(2))
    assert len({ENGINES.resolve(MEMORY, row, {})[1].key for row in rows}) == 2


def test_parts_of_a_histogram_may_have_names_of_their_own():
    names = MetricResolver(loader.catalogue(), Topology())
    time, count = "nv_inference_request_duration_us", "nv_inference_request_success"
    origins = [(each, each.signal, each.part) for name in (time, count) for each in names.origins(name)]
    parts = [(each.scale, part) for each, signal, part in origins if signal == "serve.e2e"]
    assert parts == [(1e-6, "sum"), (1.0, "count")]
    assert ("serve.success", "") in {(signal, part) for _, signal, part in origins}
    assert len({each.rank for each, signal, _ in origins if signal == "serve.e2e"}) == 1


def test_keys_of_ethtool_are_known_with_and_without_the_words_of_node_exporter():
    names = MetricResolver(loader.catalogue(), Topology())
    found = {names.find_signals(f"node_ethtool_{key}") for key in ("tx_prio3_pause", "transmitted_prio3_pause")}
    assert found == {frozenset({"prio.tx_pause"})}


def test_a_name_that_adds_to_others_is_a_series_beside_theirs():
    resolver = MetricResolver(loader.catalogue(), Topology())
    first, plus = (resolver.origins(f"sglang:num_decode_{part}_queue_reqs")[0] for part in ("prealloc", "transfer"))
    assert (plus.signal, plus.rank, plus.part) == (first.signal, first.rank, "")
    assert plus.token == "num_decode_transfer_queue_reqs"
