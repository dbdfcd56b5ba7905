"""What a node carries besides members counts: front ends, routers, file servers, other jobs of a requeue."""

from dataclasses import replace

import pytest

from skewscope.engine.actions.action import ActionScope
from skewscope.engine.actions.change import Change, MemberState, TargetState
from skewscope.engine.actions.limits import ActionLimits, Surroundings, find_blocks, list_lost_replicas
from skewscope.engine.actions.planning import (
    TargetOffer,
    find_dependent_replicas,
    find_replicas,
    list_options,
    widen_scope,
)
from skewscope.engine.model.incident import Advice
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.engine.model.topology_file import parse_topology
from skewscope.kb import yamlfile
from skewscope.kb.loader import catalogue
from tests.support.acting_world import SimulatedFault, build_incident
from tests.support.actions import T0, build_action
from tests.support.memory_target import MemoryTarget

REPLICAS = ("r0", "r1", "r2")
TOPOLOGY = Topology(
    (
        Node("fe0", ports=(Port("fe0", "ns", "north-south", 1e9),)),
        Node("router", needed_by=("chat",)),
        Node("files", needed_by=("r1",)),
        Node("spare"),
        *(Node(f"n{n}", gpus=8) for n in range(3)),
    ),
    tuple(Group(f"r{n}", "tensor-parallel", (f"n{n}",), "fe0") for n in range(3)),
    (Pool("chat", REPLICAS),),
)
CLUSTER = MemoryTarget("cluster", {node.name: node.name for node in TOPOLOGY.nodes})


@pytest.mark.parametrize(
    ("node", "lost"), [("fe0", REPLICAS), ("router", REPLICAS), ("files", ("r1",)), ("n1", ("r1",)), ("spare", ())]
)
def test_a_drain_counts_for_all_that_need_the_node(node, lost):
    base = build_incident(SimulatedFault("r2", T0, T0 + 60, 0.2), T0 + 20)
    advice = (Advice("quarantine-node", "scheduler", "why"),)
    incident = replace(base, condition="gpu-hard-fault", kind="node", name=node, mitigations=advice)
    offer = TargetOffer("cluster", CLUSTER.members, CLUSTER.support)
    option = list_options(incident, [offer], TOPOLOGY, catalogue())[0]
    assert option.scope.groups == lost
    action = build_action(change=Change(option.kind, "cluster", node, "a-1"), scope=option.scope)
    assert list_lost_replicas(action) == frozenset(lost)
    around = Surroundings(TOPOLOGY, dict.fromkeys(REPLICAS, True))
    limits = ActionLimits(share_of_nodes=1.0, share_of_groups=1.0, share_of_replicas=1.0, minimum_healthy={"chat": 3})
    blocks = find_blocks(action, [], limits, around, T0)
    left = f"{3 - len(lost)} replicas of chat would be left in use, 3 have to be"
    assert blocks == ((left,) if lost else ())


def test_a_fault_of_a_node_makes_those_ill_that_need_it_and_one_of_its_gpus_does_not():
    assert find_dependent_replicas("fe0", TOPOLOGY) == set(REPLICAS)
    assert find_dependent_replicas("fe0/ns", TOPOLOGY) == set(REPLICAS)
    assert find_dependent_replicas("router", TOPOLOGY) == set(REPLICAS)
    assert find_dependent_replicas("n1/gpu3", TOPOLOGY) == find_replicas("n1/gpu3", TOPOLOGY) == {"r1"}
    assert find_dependent_replicas("r1", TOPOLOGY) == {"r1"}


def test_a_requeue_touches_the_other_nodes_of_its_jobs():
    jobs = {"g0": "7,8", "g1": "8,9", "g2": "", "g3": "9"}
    state = TargetState({name: MemberState(name, True, details=(("jobs", each),)) for name, each in jobs.items()})
    members = {"n0": "g0", "n1": "g1", "n2": "g2", "n3": "g3"}
    scope = ActionScope("n0", "node", ("n0",), ("A",))
    requeue = Change("requeue", "batch", "g0", "a-1")
    assert widen_scope(scope, requeue, members, state).nodes == ("n0", "n1")
    assert widen_scope(scope, replace(requeue, kind="drain"), members, state) == scope
    assert widen_scope(scope, replace(requeue, member="g2"), members, state) == scope


def test_names_of_needed_by_have_to_be_known():
    text = "version: 1\nnodes: [{name: n0, needed_by: [chatt]}]\n"
    text += "groups: [{name: A, kind: tensor-parallel, members: [n0]}]\n"
    _, (problem,) = parse_topology(yamlfile.parse(text + "pools: [{name: chat, replicas: [A]}]\n", "t.yaml"))
    assert problem.found == "an unknown name 'chatt'"
    assert "chat" in problem.hint
