import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skewscope.engine.model.topology import Topology
from skewscope.engine.model.topology_file import parse_speed, parse_topology
from skewscope.kb import yamlfile
from skewscope.kb.problems import InputError
from tests.support.telemetry import CLUSTER, cluster


def test_a_cluster_is_read_whole():
    read = cluster()
    assert list(read.node) == ["n0", "n1"]
    assert read.node["n0"].gpus == 2
    assert read.node["n0"].sees == ("north-south", "east-west")
    assert read.port["n1/ew/0"].peer == "n0/ew"
    assert read.port["n0/ew"].speed == 50e9
    assert read.node_of == {"n0": "n0", "n1": "n1", "n0/gpu0": "n0", "n0/gpu1": "n0", "n1/gpu0": "n1", "n1/gpu1": "n1"}


def test_addresses_are_kept_in_the_form_that_packets_give():
    assert cluster().port_of_address["fd00::1"].id == "n0/ew"


def test_gpus_may_be_listed():
    groups = "groups: [{name: g, kind: data-parallel, members: [a/gpu2]}]"
    text = f"version: 1\nnodes: [{{name: a, gpus: [H200, H200, H200]}}]\n{groups}"
    assert cluster(text).node["a"].gpus == 3


def test_a_gpu_is_no_fault_where_their_number_is_not_told():
    text = "version: 1\nnodes: [{name: a}]\ngroups: [{name: g, kind: data-parallel, members: [a/gpu7]}]"
    assert cluster(text).node_of == {"a/gpu7": "a"}


@pytest.mark.parametrize(
    ("text", "bytes_per_second"),
    [
        ("200 Mbit/s", 25e6),
        ("1 Gbit/s", 125e6),
        ("400Gb/s", 50e9),
        ("25 GB/s", 25e9),
        ("100Gbps", 12.5e9),
        ("1.5 GBps", 1.5e9),
        ("800 b/s", 100),
        ("64 kB/s", 64e3),
        ("1 Tbit/s", 125e9),
        ("400", None),
        ("400 Gb", None),
        ("fast", None),
        ("-1 Gb/s", None),
        ("0 Gb/s", None),
        ("400 gb/s", None),
    ],
)
def test_a_speed_is_bytes_per_second(text, bytes_per_second):
    assert parse_speed(text) == bytes_per_second


def faults(text):
    read, problems = parse_topology(yamlfile.parse(text, "t.yaml"))
    assert read == Topology() or not problems
    return [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "members: [n0, n1]",
            "members: [n0, nn1]",
            "t.yaml:16: groups[0].members[1]: found an unknown node 'nn1', expected a node of this file (n0, n1). Did",
        ),
        ("front_end: n1", "front_end: n2", "found an unknown node 'n2'"),
        ("members: [n1/gpu1]", "members: [n1/gpu2]", "expected a GPU from gpu0 to gpu1"),
        ("members: [n1/gpu1]", "members: [n2/gpu1]", "found an unknown node 'n2'"),
        ("members: [n1/gpu1]", "members: [n1/1]", "expected a node, or node/gpuN"),
        ("members: [n1/gpu1]", "members: []", "found an empty list"),
        ("members: [n0, n1]", "members: [n0, n0]", "'n0' for the second time"),
        ("replicas: [A, B]", "replicas: [A, BB]", "found an unknown group 'BB'"),
        ("peer: n0/ew}", "peer: n0/ns}", "expected a port that names this one as its peer"),
        ("peer: n0/ew}", "peer: n0/eww}", "Did you mean 'n0/ew'?"),
        ("peer: n0/ew}", "peer: n1/ew/0}", "found the port itself"),
        (
            "addresses: [10.1.0.2]",
            "addresses: [10.0.0.1]",
            "expected an address that no other port has. Line 7 has it first.",
        ),
        ("addresses: [10.1.0.2]", "addresses: [10.1.0.2/24]", "Leave out the prefix length."),
        ("addresses: [10.1.0.2]", "addresses: [10.1.0.256]", "expected an IPv4 or IPv6 address"),
        ("addresses: [10.1.0.2]", "addresses: 10.1.0.2", "found text, expected a list"),
        ("devices: [eth0]", "devices: [eth1]", "expected a device that no other port of this node has"),
        ("name: n1\n", "name: n0\n", "'n0' for the second time"),
        ("name: n1\n", "name: 1\n", "Put it in quotes."),
        ("name: n1\n", "name: n/1\n", "expected a name without '/'"),
        ("name: B", "name: A", "'A' for the second time"),
        ("name: B", "name: 'B:1'", "expected a name without ':'"),
        ("kind: data-parallel", "kind: data-paralel", "Did you mean 'data-parallel'?"),
        ("network: north-south", "network: north", "expected one of north-south, east-west"),
        ("speed: 200 Mbit/s", "speed: 200", "expected a speed such as"),
        (
            "gpus: 2\n    dpu",
            "gpu: 2\n    dpu",
            "found an unknown field 'gpu', expected one of aliases, dpu, fleet, gpus",
        ),
        ("gpus: 2\n    dpu", "gpus: -1\n    dpu", "expected a whole number from 0"),
        ("gpus: 2\n    dpu", "gpus: true\n    dpu", "expected a whole number from 0"),
        ("version: 1", "version: 2", "It was written for a newer Skewscope."),
        ("version: 1", "note: x", "expected the field 'version'"),
        ("nodes:", "nods:", "Did you mean 'nodes'?"),
    ],
)
def test_a_fault_is_told_with_its_line(old, new, told):
    assert CLUSTER.count(old) >= 1
    found = faults(CLUSTER.replace(old, new, 1).strip())
    assert any(told in text for text in found), found
    assert all(text.startswith("t.yaml:") for text in found)


def test_all_faults_are_told_at_once_and_nothing_is_half_loaded():
    text = CLUSTER.replace("n0, n1]", "n0, x1]").replace("[A, B]", "[A, X]").replace("10.1.0.2", "10.1")
    read, problems = parse_topology(yamlfile.parse(text))
    assert len(problems) == 3
    assert read == Topology()


def test_many_unknown_names_are_told_in_little_time():
    nodes = "".join(f"- {{name: node-{n}}}\n" for n in range(2000))
    members = ", ".join(f"nod-{n}" for n in range(2000))
    found = faults(f"version: 1\nnodes:\n{nodes}groups: [{{name: g, kind: data-parallel, members: [{members}]}}]")
    assert len(found) == 2000


@pytest.mark.parametrize(
    "text", ["", "[]", "7", "nodes: {a: 1}", "version: 1\nnodes: [null, [], 5]", "version: [1]\nnodes: []"]
)
def test_another_shape_is_a_fault_and_no_crash(text):
    assert faults(text)


def test_an_empty_cluster_is_none_of_our_business():
    assert faults("version: 1\nnodes: []") == []


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["n0", "n0/gpu0", "A"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["version", "nodes", "groups", "pools", "name", "ports", "members", "gpus", "dpu", "peer"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(values, st.sampled_from(["nodes", "groups", "pools", "version"]))
def test_whatever_is_written_there_is_a_fault_and_no_crash(value, field):
    try:
        document = yamlfile.parse(yaml.safe_dump({"version": 1, "nodes": [], field: value}))
    except InputError:
        return
    parse_topology(document)


def test_the_clusters_of_real_recordings_are_read(shared):
    for path in sorted(shared.glob("recordings/*/topology.yaml")):
        read, problems = parse_topology(yamlfile.read(path))
        assert not problems
        assert len(read.nodes) == 8
        assert read.port["n0/ew"].speed == 125e6
