"""A topology out of what schedulers print: read back by the reader of topologies, and honest about its guesses."""

import io
import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.discovery import kubernetes, ports, slurm
from skewscope.adapters.discovery.draft import GroupDraft, NodeDraft, TopologyDraft
from skewscope.adapters.discovery.render import count_marks, render_topology
from skewscope.engine.model.topology_file import parse_topology
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import parse
from skewscope.tui.cli.main import cli

CONF = """# a tree
SwitchName=leaf1 Nodes=n[00-02,07]
SwitchName=leaf2 Nodes=m1,m[2-3] # the rest
SwitchName=spine Switches=leaf[1-2]
"""
SHOWN = """SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[00-02,07]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=m[1-3]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=m[1-3],n[00-02,07] Switches=leaf[1-2]
"""
NODES = """NodeName=n00 Arch=x86_64 CoresPerSocket=56
   CPUAlloc=0 CPUTot=112 CPULoad=0.10
   Gres=gpu:h100:8(S:0-1)
   NodeAddr=10.0.0.1 NodeHostName=n00 Version=24.05
   OS=Linux 5.15 #1 SMP
NodeName=login Arch=x86_64
   Gres=(null)
   NodeAddr=login NodeHostName=login
"""
PAGE = """node_uname_info{machine="x86_64",nodename="n00",sysname="Linux"} 1
node_network_speed_bytes{device="lo"} 1
node_network_speed_bytes{device="eno1"} 1.25e+09
node_network_address_info{address="10.0.0.1",device="eno1",netmask="24",scope="global"} 1
node_network_speed_bytes{device="eth1"} 5e+10
node_infiniband_rate_bytes_per_second{device="mlx5_0",port="1"} 5e+10
"""


def stream(text):
    return io.BytesIO(text.encode())


def read_back(drawn):
    text = render_topology(drawn)
    found, problems = parse_topology(parse(text, "topology.yaml"))
    assert not problems, text
    return found, text


def drawn(*nodes, groups=()):
    made = TopologyDraft()
    for some in nodes:
        made.add(some)
    made.groups += groups
    return made


@pytest.mark.parametrize("text", [CONF, SHOWN])
def test_slurms_switches_are_the_places_of_its_nodes(text):
    found, written_ = read_back(drawn(slurm.parse_nodes(stream(text), "t")))
    assert {node.name: node.rack for node in found.nodes} == {
        **dict.fromkeys(("n00", "n01", "n02", "n07"), "leaf1"),
        **dict.fromkeys(("m1", "m2", "m3"), "leaf2"),
    }
    assert count_marks(written_) == 7 * 4 + 1  # rack, GPUs, DPU, ports; and the groups


def test_slurms_nodes_have_gpus_and_addresses_and_more_is_added_from_elsewhere():
    both = drawn(slurm.parse_nodes(stream(NODES), "t"), slurm.parse_nodes(stream(CONF), "t"))
    both.add([ports.draft_node(ports.parse_page(stream(PAGE), "x"), both.nodes["n00"])])
    found, text = read_back(both)
    node = found.node["n00"]
    assert (node.gpus, node.rack) == (8, "leaf1")
    told = {port.name: (port.network, port.speed, port.addresses, port.switch) for port in node.ports}
    assert told == {
        "eno1": ("north-south", 1.25e9, ("10.0.0.1",), ""),
        "eth1": ("north-south", 5e10, (), ""),
        "mlx5_0": ("east-west", 5e10, (), "leaf1"),
    }
    assert "network: north-south\n        speed: 10 Gbit/s" in text  # known by its address: no guess
    assert "login" in found.node


def test_a_real_page_of_node_exporter_gives_ports(shared):
    page = (shared / "fixtures/prometheus-node_exporter/e2e-output.txt").read_text()
    found, _ = read_back(drawn([ports.draft_node(ports.parse_page(stream(page), "n1"))]))
    speeds = {port.name: port.speed for port in found.nodes[0].ports}
    assert speeds == {"eth0": 1.25e8, "i40iw0": 1.25e9, "mlx4_0": 5e9, "mlx4_0-2": 5e9}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3],x", ["n1", "n2", "n3", "x"]),
        ("n[008-010]", ["n008", "n009", "n010"]),
        ("r[1-2]n[1,3]-a", ["r1n1-a", "r1n3-a", "r2n1-a", "r2n3-a"]),
        ("", []),
    ],
)
def test_lists_of_hosts_are_spread(text, names):
    assert slurm.expand_hosts(text) == names


@pytest.mark.parametrize(
    "text", ["n[1-", "n]1", "n[a]", "n[3-1]", "n[1-999999]", "n[0-999]x[0-999]", "n[[1]]", "[0]" * 9 + "["]
)
def test_what_is_no_list_of_hosts_is_told_with_its_line(text):
    with pytest.raises(InputError) as told:
        slurm.parse_nodes(stream(f"SwitchName=a Nodes=n1\nSwitchName=b Nodes={text}"), "t.conf")
    assert str(told.value).startswith("t.conf:2")


def node(name, gpus=8, **labels):
    status = {
        "capacity": {"nvidia.com/gpu": str(gpus)},
        "addresses": [{"type": "InternalIP", "address": f"10.0.0.{name[1:]}"}],
    }
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def pod(on, gpus=8, args=(), **labels):
    container = {"args": list(args), "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    spec = {"nodeName": on, "containers": [container]}
    return {"kind": "Pod", "metadata": {"name": "p", "namespace": "ai", "labels": labels}, "spec": spec}


def leader(on, group, worker, args=()):
    prefix = "leaderworkerset.sigs.k8s.io/"
    labels = {f"{prefix}name": "chat", f"{prefix}group-index": str(group), f"{prefix}worker-index": str(worker)}
    return pod(on, args=args, **labels)


def of(*items):
    return kubernetes.parse_cluster(stream(json.dumps({"items": items})), "k.json")


def test_kubernetes_tells_nodes_and_pods_that_work_together():
    tp = ("--tensor-parallel-size", "16")
    nodes, groups, remarks = of(
        node("n1", **{"topology.kubernetes.io/rack": "r1"}),
        node("n2"),
        node("n3"),
        node("n4"),
        leader("n2", 0, 1, tp),
        leader("n1", 0, 0, tp),
        leader("n3", 1, 0),
        leader("n4", 1, 1),
        pod("n1", gpus=0, app="other"),
    )
    found, text = read_back(drawn(nodes, groups=groups))
    assert [(g.name, g.kind, g.members[0], len(g.members)) for g in found.groups] == [
        ("ai.chat.0", "tensor-parallel", "n1/gpu0", 16),
        ("ai.chat.1", "data-parallel", "n3/gpu0", 16),
    ]
    assert found.pools[0].replicas == ("ai.chat.0", "ai.chat.1")
    assert found.node["n1"].rack == "r1"
    assert found.node["n2"].ports[0].addresses == ("10.0.0.2",)
    assert text.count("FILL IN: its kind") == 1
    assert remarks == []


def test_trainers_and_jobs_are_groups_in_the_order_of_their_ranks():
    def kubeflow(on, kind, index):
        prefix = "training.kubeflow.org/"
        return pod(
            on, **{f"{prefix}job-name": "t", f"{prefix}replica-type": kind, f"{prefix}replica-index": str(index)}
        )

    def indexed(on, index):
        return pod(
            on, gpus=1, **{"batch.kubernetes.io/job-completion-index": str(index), "batch.kubernetes.io/job-name": "j"}
        )

    nodes = [node(f"n{n}", gpus=2) for n in range(3)]
    _, groups, remarks = of(
        *nodes,
        kubeflow("n1", "worker", 0),
        kubeflow("n2", "master", 0),
        kubeflow("n0", "worker", 1),
        indexed("n1", 1),
        indexed("n0", 0),
    )
    assert [(group.name, group.members) for group in groups] == [("ai.j", ("n0", "n1")), ("ai.t", ("n2", "n1", "n0"))]
    _, groups, remarks = of(*nodes, indexed("n1", 0), indexed("n1", 1))
    assert groups == []
    assert "share a node" in remarks[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "k.json:1: found the end of the file"),
        ("[]", "k.json:1: found '[]', expected '{'"),
        ("{}", "k.json: found no list of nodes and pods (no items)"),
        ('{"items": 3}', "k.json: found no list of nodes and pods"),
        ('{"items": [{"kind": "Node"}]}', "k.json: found no list of nodes and pods (KeyError)"),
        ('{"items": ' + "[" * 100_000, "k.json:1: found values nested too deeply"),
        ('{"items": [3]}', "k.json: found no list of nodes and pods"),
        (json.dumps({"items": [node("n0", gpus=10**12)]}), "k.json: found no list of nodes and pods (ValueError)"),
    ],
)
def test_what_kubectl_does_not_print_is_told_with_the_command_that_does(text, told):
    with pytest.raises(InputError) as caught:
        kubernetes.parse_cluster(stream(text), "k.json")
    assert str(caught.value).startswith(told)
    assert "kubectl get nodes,pods -A -o json" in str(caught.value) or "Copy the file again" in str(caught.value)


def test_a_pod_that_waits_for_a_node_does_not_hide_the_one_that_it_replaces():
    later = leader("n1", 0, 0)
    del later["spec"]["nodeName"]
    _, groups, _ = of(node("n1"), node("n2"), leader("n1", 0, 0), leader("n2", 0, 1), later)
    assert len(groups[0].members) == 16


@pytest.mark.slow
def test_more_lines_or_parts_than_are_read_are_refused_with_the_bound(monkeypatch):
    monkeypatch.setenv("SKEWSCOPE_MAX_LINES", "3")
    for read in (slurm.parse_nodes, ports.parse_page):
        with pytest.raises(InputError, match=r"found more than 3 lines, expected at most 3.*SKEWSCOPE_MAX_LINES=6"):
            read(stream("\n" * 5), "f")
    monkeypatch.setenv("SKEWSCOPE_MAX_PARTS", "2000000")
    empty = '{"items": [{"kind": "Node", "x": [' + "[]," * 2_000_000 + "[]]}]}"
    with pytest.raises(InputError, match=r"k\.json: found \d+ parts of JSON.*SKEWSCOPE_MAX_PARTS"):
        kubernetes.parse_cluster(stream(empty), "k.json")
    monkeypatch.setenv("SKEWSCOPE_MAX_OBJECTS", "2")
    with pytest.raises(InputError, match="found more than 2 objects of a cluster"):
        of(node("n0"), node("n1"), node("n2"))
    with pytest.raises(ValueError, match="more than 100000 hosts"):
        slurm.expand_hosts("a," * 200_000)


@given(st.text(max_size=12), st.text(max_size=8), st.text(max_size=12))
def test_whatever_things_are_called_the_text_is_read_back(name, rack, group):
    made = drawn([NodeDraft(name, rack, 2)], [NodeDraft("n0", switch=rack)])
    made.groups.append(GroupDraft(group, "data-parallel", name, (name, "n0")))
    made.remarks.append(name + "\n" + rack)
    text = render_topology(made)
    _, problems = parse_topology(parse(text, "topology.yaml"))
    # A name that no topology takes is told by its reader; the text is sound YAML in any case.
    assert all("characters" in p.expected or "text" in p.expected or "name" in p.expected for p in problems), text


def test_the_command_writes_what_is_found_and_counts_what_is_not(tmp_path):
    conf, page = tmp_path / "topology.conf", tmp_path / "n00.prom"
    conf.write_text(CONF)
    page.write_text(PAGE)
    ran = CliRunner().invoke(cli, ["topology", "discover", "--slurm", str(conf), "--ports", str(page)])
    assert ran.exit_code == 0
    found, problems = parse_topology(parse(ran.stdout, "topology.yaml"))
    assert not problems
    assert len(found.nodes) == 7
    assert "places to complete" in ran.stderr
    assert CliRunner().invoke(cli, ["topology", "discover"]).exit_code == 2
    gone = CliRunner().invoke(cli, ["topology", "discover", "--slurm", str(tmp_path / "no")])
    assert gone.exit_code == 2
    assert "no: found No such file or directory, expected a file that can be read" in gone.stderr
    given = CliRunner().invoke(cli, ["topology", "discover", "--slurm", "-"], input=CONF)
    assert (given.exit_code, given.stdout.count("- name: ")) == (0, 7)
