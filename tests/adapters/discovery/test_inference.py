"""A topology out of labels: what it holds, and that the labels lead back to it."""

import pytest

from skewscope.adapters.discovery.draft import GUESS
from skewscope.adapters.discovery.inference import infer_topology
from skewscope.adapters.discovery.nearest_metric import NearestMetric
from skewscope.adapters.discovery.observed_series import observe_series
from skewscope.adapters.discovery.render import render_draft
from skewscope.adapters.mapping.entities import UnmappedError
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.topology_file import parse_valid_topology
from skewscope.kb.loader import catalogue
from skewscope.kb.yamlfile import parse

CLOCK, WAITING, RECEIVED = "DCGM_FI_DEV_SM_CLOCK", "vllm:num_requests_waiting", "node_network_receive_bytes_total"
RDMA, STEP = "node_infiniband_port_data_received_bytes_total", "skewscope_step_duration"
PROMPTS = "vllm:prompt_tokens_total"


def infer(*series):
    draft = infer_topology(observe_series(series, MetricResolver(catalogue(), Topology())))
    return parse_valid_topology(parse(render_draft(draft))), draft


def entity(topology, metric, labels):
    return MetricResolver(catalogue(), topology).resolve(metric, labels, {})[0].key.entity


def test_a_gpu_node_has_the_gpus_up_to_the_highest_index():
    found, _ = infer(*((CLOCK, {"Hostname": "g1", "gpu": str(n), "instance": "10.0.0.1:9400"}) for n in (0, 3)))
    assert [(node.name, node.gpus, node.aliases) for node in found.nodes] == [("g1", 4, ("10.0.0.1",))]


def test_two_exporters_of_one_host_are_one_node():
    found, _ = infer(
        (CLOCK, {"Hostname": "g1", "gpu": "0", "instance": "10.0.0.1:9400"}),
        (RECEIVED, {"instance": "10.0.0.1:9100", "device": "eth0"}),
        (CLOCK, {"Hostname": "g2.example.com", "gpu": "0", "instance": "10.0.0.2:9400"}),
        (RECEIVED, {"instance": "g2:9100", "device": "eth0"}),
    )
    assert [node.name for node in found.nodes] == ["g1", "g2"]
    assert entity(found, RECEIVED, {"instance": "10.0.0.1:9100", "device": "eth0"}) == "g1/eth0"
    assert entity(found, CLOCK, {"Hostname": "g2.example.com", "gpu": "0"}) == "g2/gpu0"


def test_an_instance_of_many_hosts_is_an_aggregator():
    found, _ = infer(*((CLOCK, {"Hostname": host, "gpu": "0", "instance": "gateway:9000"}) for host in ("a", "b")))
    assert [(node.name, node.aliases) for node in found.nodes] == [("a", ()), ("b", ())]


def test_gpus_with_a_uuid_only_are_counted_and_found_again():
    found, draft = infer(*((CLOCK, {"Hostname": "a", "UUID": f"GPU-{text}"}) for text in ("bb", "aa")))
    assert found.nodes[0].gpus == 2
    assert entity(found, CLOCK, {"Hostname": "a", "UUID": "GPU-bb"}) == "a/gpu1"
    assert any(each.certainty == GUESS and "UUID" in each.basis for each in draft.assumptions)


def test_gpus_with_a_pci_address_only_are_numbered_by_it():
    labels = [{"node": "a", "pci_bus_id": f"00000000:{bus}:00.0"} for bus in ("9D", "1B")]
    found, _ = infer(*((CLOCK, each) for each in labels))
    assert [entity(found, CLOCK, each) for each in labels] == ["a/gpu1", "a/gpu0"]


def test_rdma_devices_and_interfaces_are_paired_in_their_order():
    devices = [(RDMA, {"instance": "a:9100", "device": f"mlx5_{n}", "port": "1"}) for n in (0, 1, 10)]
    found, _ = infer(*devices, *((RECEIVED, {"instance": "a:9100", "device": d}) for d in ("eth0", "ib0", "ib1", "lo")))
    ports = {port.name: (port.network, port.devices) for port in found.nodes[0].ports}
    assert ports == {
        "eth0": ("north-south", ("mlx5_0", "eth0")),
        "ib0": ("east-west", ("mlx5_1", "ib0")),
        "ib1": ("east-west", ("mlx5_10", "ib1")),
    }


def test_unequal_numbers_of_devices_are_not_paired():
    found, _ = infer(
        (RDMA, {"instance": "a:9100", "device": "mlx5_0", "port": "1"}),
        *((RECEIVED, {"instance": "a:9100", "device": name}) for name in ("eno1", "eno2", "ib0", "ib1")),
    )
    assert sorted((port.name, port.network[0]) for port in found.nodes[0].ports) == [
        *(("eno1", "n"), ("eno2", "n"), ("ib0", "e"), ("ib1", "e"), ("mlx5_0", "e")),
    ]


ENGINES = [
    ({"instance": "h:8000", "model_name": "m"}, {"instance": "h:8001", "model_name": "m"}),
    (
        {"pod": "llm-0", "node": "h", "instance": "10.1.0.1:8000"},
        {"pod": "llm-1", "node": "h", "instance": "10.1.0.2:8000"},
    ),
    ({"instance": "h", "container": "a"}, {"instance": "h", "container": "b"}),
    ({"instance": "h:8000", "model_name": "m"}, {"instance": "h:8000", "model_name": "n"}),
    ({"node": "h", "engine": "0"}, {"node": "h", "engine": "1"}),
]


@pytest.mark.parametrize("engines", ENGINES)
def test_two_engines_on_a_host_are_two_replicas(engines):
    found, _ = infer(*((WAITING, labels) for labels in engines), (CLOCK, {"Hostname": "h", "gpu": "7"}))
    assert len(found.groups) == 2
    assert len({entity(found, WAITING, labels) for labels in engines}) == 2
    assert {group.front_end for group in found.groups} == {"h"}


def _servers(index, *places):
    return [{**place, index: str(n), "model_name": "m"} for place in places for n in range(2)]


@pytest.mark.parametrize(
    ("engines", "names"),
    [
        (_servers("engine", {"instance": "server"}), ["vllm-server-engine0", "vllm-server-engine1"]),
        (_servers("dp_rank", {"instance": "h:8000"}), ["vllm-h-dp0", "vllm-h-dp1"]),
        (
            _servers("engine", {"instance": "a:8000"}, {"instance": "b:8000"}),
            [f"vllm-{host}-engine{n}" for host in "ab" for n in range(2)],
        ),
        (
            _servers("dp_rank", {"instance": "h:8000"}, {"instance": "h:8001"}),
            [f"vllm-h-{port}-dp{n}" for port in (8000, 8001) for n in range(2)],
        ),
        (_servers("dp_rank", {"node": "a"}, {"node": "b"}), [f"vllm-{host}-dp{n}" for host in "ab" for n in range(2)]),
    ],
)
def test_engines_and_ranks_of_servers_are_replicas_of_one_pool(engines, names):
    found, _ = infer(*((WAITING, labels) for labels in engines))
    assert [entity(found, WAITING, labels) for labels in engines] == names
    assert [set(pool.replicas) for pool in found.pools] == [set(names)]


def test_what_is_reported_of_all_ranks_of_a_server_together_is_no_rank():
    ranks = [{"instance": "h:8000", "dp_rank": str(n), "model_name": "m"} for n in range(2)]
    whole = {"instance": "h:8000", "model_name": "m"}
    found, _ = infer(*((WAITING, labels) for labels in ranks), (PROMPTS, whole))
    assert entity(found, PROMPTS, whole) == "vllm-h"
    assert [pool.replicas for pool in found.pools] == [("vllm-h-dp0", "vllm-h-dp1")]


def test_a_server_of_one_engine_keeps_its_name():
    found, _ = infer((WAITING, {"instance": "h:8000", "engine": "0", "model_name": "m"}))
    assert [group.name for group in found.groups] == ["vllm-h"]


def test_an_engine_of_another_port_is_of_no_replica():
    found, _ = infer(*((WAITING, {"instance": f"h:800{n}", "model_name": "m"}) for n in (0, 1)))
    with pytest.raises(UnmappedError):
        entity(found, WAITING, {"instance": "h:8002", "model_name": "m"})


def test_a_sole_engine_has_the_gpus_of_its_node_and_shares_the_pool_of_its_model():
    series = [(CLOCK, {"Hostname": h, "gpu": "1"}) for h in "ab"]
    found, _ = infer(*series, *((WAITING, {"instance": f"{h}:8000", "model_name": "org/m"}) for h in "ab"))
    assert [group.members for group in found.groups] == [("a/gpu0", "a/gpu1"), ("b/gpu0", "b/gpu1")]
    assert [(pool.name, len(pool.replicas)) for pool in found.pools] == [("org/m", 2)]


def test_a_pod_has_the_gpus_that_the_gpu_exporter_assigns_to_it():
    gpus = [(CLOCK, {"Hostname": "h", "gpu": str(n), "exported_pod": f"llm-{n // 2}"}) for n in range(4)]
    found, _ = infer(*gpus, *((WAITING, {"pod": f"llm-{n}", "instance": f"10.1.0.{n}:8000"}) for n in (0, 1)))
    assert {group.name: group.members for group in found.groups} == {
        "llm-0": ("h/gpu0", "h/gpu1"),
        "llm-1": ("h/gpu2", "h/gpu3"),
    }
    assert [node.name for node in found.nodes] == ["h"]


def test_a_job_whose_series_name_no_rank_has_the_nodes_with_gpus_else_one_that_stands_for_it():
    job = (STEP, {"group": "job"})
    gpus = [(CLOCK, {"Hostname": host, "gpu": "0"}) for host in ("n1", "n0")]
    assert infer(job)[0].groups[0].members == ("job-nodes",)
    assert infer(job, *gpus)[0].groups[0].members == ("n0", "n1")


def test_what_an_engine_has_under_canonical_names_is_no_second_engine():
    names = (WAITING, "skewscope_serve_gen_throughput")
    found, _ = infer(*((name, {"instance": "s0:8000", "model_name": "m"}) for name in names))
    assert [group.name for group in found.groups] == ["vllm-s0"]


def test_labels_that_engines_of_several_hosts_share_tell_none_apart():
    engines = [(WAITING, {"Hostname": host, "model_name": model}) for host in "ab" for model in ("m", "n")]
    found, _ = infer(*engines)
    assert [(group.front_end, group.engine) for group in found.groups] == [(host, ()) for host in "aabb"]


def test_what_a_frame_around_engines_reports_is_no_second_engine():
    frame = ("dynamo_component_gpu_cache_usage_percent", {"Hostname": "h"})
    found, _ = infer((WAITING, {"Hostname": "h", "model_name": "m"}), frame)
    assert [group.name for group in found.groups] == ["vllm-h"]


def test_ports_that_name_their_group_make_its_members():
    lag = [("skewscope_wire_own_pause", {"node": f"n{n}", "port": "ew", "group": "AB"[n // 2]}) for n in range(4)]
    found, _ = infer(*lag, ("skewscope_serve_waiting", {"replica": "A"}))
    assert [(g.name, g.kind, g.members, g.front_end) for g in found.groups] == [
        ("A", "tensor-parallel", ("n0", "n1"), "n0"),
        ("B", "data-parallel", ("n2", "n3"), ""),
    ]


def test_several_ranks_of_a_host_are_its_gpus():
    found, _ = infer(*((STEP, {"group": "job", "rank": str(n), "node": f"h{n // 2}"}) for n in range(4)))
    assert found.groups[0].members == ("h0/gpu0", "h0/gpu1", "h1/gpu0", "h1/gpu1")
    assert [node.gpus for node in found.nodes] == [2, 2]


@pytest.mark.parametrize("bad", ["a/b", 'x"y', "a: [", "# FILL IN: x", "\x1b[0m", "ü" * 300, "-", "a,b"])
def test_hostile_label_values_make_no_invalid_topology(bad):
    infer(
        (CLOCK, {"Hostname": bad, "gpu": "0", "UUID": bad}),
        (RECEIVED, {"instance": "n0:9100", "device": bad}),
        (WAITING, {"instance": "n0:8000", "model_name": bad, "pod": bad}),
        (STEP, {"group": bad, "rank": "0", "node": bad}),
        (STEP, {"group": "g", "rank": bad}),
    )


@pytest.mark.parametrize(("name", "near"), [("DCGM_SM_CLOCK", CLOCK), ("vllm:requests_waiting", WAITING), ("zzz", "")])
def test_the_nearest_known_metric(name, near):
    assert NearestMetric(catalogue()).find(name) == near


@pytest.mark.parametrize("odd", ["²", "٣", "9" * 5000, "-", "1²"])
@pytest.mark.parametrize(
    ("metric", "label"),
    [(RDMA, "device"), (RDMA, "port"), (CLOCK, "gpu"), (RECEIVED, "device"), (WAITING, "instance"), (STEP, "rank")],
)
def test_digits_of_other_scripts_and_very_long_numbers_are_names(metric, label, odd):
    labels = {"node": "n0", "device": "mlx5_0", "group": "job"}
    infer((metric, labels), (metric, {**labels, label: odd}), (metric, {**labels, label: f"mlx5_{odd}"}))


@pytest.mark.parametrize(
    "name", ["nvidia_smi_memory_total_bytes", "memory.total", "power.limit", "nvidia_smi_fan_speed"]
)
def test_what_says_nothing_of_a_fault_is_near_to_nothing(name):
    assert NearestMetric(catalogue()).find(name) == ""


def test_the_words_of_a_name_say_more_than_its_letters():
    assert NearestMetric(catalogue()).find("gpu_mem_used") == "skewscope_gpu_fb_used"


def test_replicas_of_one_model_in_two_namespaces_are_two_pools():
    found, _ = infer(
        *(
            (WAITING, {"pod": f"llm-{n}", "namespace": space, "instance": f"10.1.0.{n}:8000", "model_name": "m/x"})
            for n, space in enumerate(("serving", "serving", "staging"))
        )
    )
    assert [(pool.name, len(pool.replicas)) for pool in found.pools] == [("serving/m/x", 2), ("staging/m/x", 1)]


def test_the_pool_of_a_model_in_one_namespace_is_named_after_the_model():
    labels = [{"pod": f"llm-{n}", "namespace": "serving", "model_name": "m"} for n in range(2)]
    found, _ = infer(*((WAITING, one | {"instance": f"10.1.0.{n}:8000"}) for n, one in enumerate(labels)))
    assert [pool.name for pool in found.pools] == ["m"]
