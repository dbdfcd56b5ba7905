"""Commands with the names of an incident and of its topology."""

import re
from dataclasses import replace

import pytest

from skewscope.engine.advice.command_values import fill_commands, placeholder_values
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.kb.command_template import placeholders
from skewscope.kb.loader import catalogue
from tests.tui.samples import ROOT

PORTS = (
    Port("n1", "ew0", "east-west", devices=("eth2", "mlx5_0"), switch="leaf0", peer="n2/ew0"),
    Port("n1", "ew1", "east-west", devices=("eth3", "eth4")),
)
TOPOLOGY = Topology(
    (
        Node("n1", rack="r1", gpus=2, ports=PORTS, gpu_ids=(("gpu-aa", 0), ("0000:3b:00.0", 1))),
        Node("n2", rack="r1", gpus=2, ports=(Port("n2", "ew0", "east-west"),)),
        Node("n3"),
        Node("n4"),
    ),
    (
        Group("tp0", "tensor-parallel", ("n1/gpu0", "n1/gpu1")),
        Group("tp1", "tensor-parallel", ("n2", "n3")),
        Group("dp0", "data-parallel", ("n2", "n3")),
    ),
    (Pool("chat", ("tp0", "tp1")),),
)
REPLICA = {"group": "tp0", "replica": "tp0", "pool": "chat"}


def values(kind, name, topology=TOPOLOGY):
    """Returns what is known of an incident's entity, without what is the incident's own."""
    found = placeholder_values(replace(ROOT, kind=kind, name=name), topology)
    assert found.pop("incident") == ROOT.id
    assert found.pop("condition") == ROOT.condition
    return {name: value for name, value in found.items() if value}


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("node", "n1", {"node": "n1", "rack": "r1", **REPLICA}),
        ("node", "n2", {"node": "n2", "rack": "r1"}),  # in two groups: which one is not said
        ("node", "n4", {"node": "n4"}),
        ("gpu", "n1/gpu1", {"node": "n1", "gpu": "1", "gpu_pci": "0000:3b:00.0", "rack": "r1", **REPLICA}),
        ("gpu", "n1/gpu0", {"node": "n1", "gpu": "0", "rack": "r1", **REPLICA}),
        ("rank", "tp0:n1/gpu0", {"rank": "tp0:n1/gpu0", "node": "n1", "gpu": "0", "rack": "r1", **REPLICA}),
        ("rank", "dp0:n3", {"rank": "dp0:n3", "node": "n3", "group": "dp0"}),
        ("replica", "tp0", {"node": "n1", "rack": "r1", **REPLICA}),
        ("replica", "tp1", {"group": "tp1", "replica": "tp1", "pool": "chat"}),  # on two nodes
        ("group", "dp0", {"group": "dp0"}),
        ("group", "gone", {"group": "gone"}),
        ("pool", "chat", {"pool": "chat"}),
        ("fleet", "fleet", {}),
        ("link", "n1/ew0>n2/ew0", {}),
    ],
)
def test_names_are_filled_in_where_the_topology_leaves_no_choice(kind, name, expected):
    assert values(kind, name) == expected


def test_a_port_has_its_devices_its_switch_and_its_other_end():
    assert values("port", "n1/ew0") == {
        "node": "n1",
        "port": "ew0",
        "device": "eth2",
        "rdma_device": "mlx5_0",
        "switch": "leaf0",
        "peer_node": "n2",
        "rack": "r1",
        **REPLICA,
    }
    assert "device" not in values("port", "n1/ew1")  # two interfaces: which one is not said


def test_without_a_topology_only_the_entity_is_known():
    assert values("gpu", "n9/gpu4", Topology()) == {"node": "n9", "gpu": "4"}
    assert values("port", "n9/ew", Topology()) == {"node": "n9", "port": "ew"}


def test_a_symptom_has_no_condition():
    symptom = replace(ROOT, category="symptom", kind="node", name="n1")
    assert "condition" not in placeholder_values(symptom, TOPOLOGY)


def test_the_advice_to_quarantine_a_node_names_the_node():
    known = catalogue().mitigations["quarantine-node"]
    drain, requeue, *_ = fill_commands(known, replace(ROOT, kind="gpu", name="n1/gpu0"), TOPOLOGY)
    assert drain.do == f"scontrol update NodeName=n1 State=DRAIN Reason='{ROOT.id}'"
    assert drain.undo == "scontrol update NodeName=n1 State=RESUME"
    assert requeue.do == "scontrol requeue JOB"
    assert requeue.basis == known.commands[1].basis
    assert drain.where == "on a login machine"


def test_a_command_says_on_which_machine_it_is_run():
    at_port = replace(ROOT, kind="port", name="n1/ew0")
    places = [one.where for one in fill_commands(catalogue().mitigations["isolate-link"], at_port, TOPOLOGY)]
    assert places == ["on switch leaf0", "on a login machine", "on node n1"]
    places = [one.where for one in fill_commands(catalogue().mitigations["isolate-link"], replace(ROOT, kind="fleet"))]
    assert places == ["on switch SWITCH", "on a login machine", "on node NODE"]


@pytest.mark.parametrize(
    ("kind", "name", "known_names"),
    [
        ("gpu", "n1/gpu1", ("node", "gpu")),
        ("port", "n1/ew0", ("node", "device", "rdma_device", "peer_node")),
        ("replica", "tp0", ("node",)),
        ("pool", "chat", ()),
    ],
)
def test_the_commands_of_every_mitigation_are_filled_in_for_every_kind_of_entity(kind, name, known_names):
    incident = replace(ROOT, kind=kind, name=name)
    for known in catalogue().mitigations.values():
        filled = fill_commands(known, incident, TOPOLOGY)
        assert [one.tool for one in filled] == [one.tool for one in known.commands]
        for before, after in zip(known.commands, filled, strict=True):
            wanted = {name.upper() for name in placeholders(before.do) if name in known_names}
            assert not wanted & set(re.findall(r"\w+", after.do)), known.id


def test_a_node_with_a_hostile_name_is_quoted_or_left_open():
    known = catalogue().mitigations["quarantine-node"]
    hostile = fill_commands(known, replace(ROOT, kind="node", name="n1; reboot"), None)
    assert "NodeName='n1; reboot' State" in hostile[0].do
    every = fill_commands(known, replace(ROOT, kind="node", name="ALL"), None)
    assert "NodeName=NODE State" in every[0].do
