"""With which GPUs a GPU is compared: the load of an engine is its own, its clock is that of the node."""

import pytest

from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.engine.symptoms.gpu_peers import groups_by_member, peer_sets_of_gpu

NODE = Node("n0", gpus=4)
PAIRS = tuple(Group(name, "tensor-parallel", (f"n0/gpu{n}", f"n0/gpu{n + 1}")) for name, n in (("A", 0), ("B", 2)))


@pytest.mark.parametrize(
    ("pools", "role", "sets"),
    [
        ((Pool("m", ("A", "B")),), "utilisation", {("group", "A")}),
        ((Pool("m", ("A", "B")),), "capacity", {("group", "A"), ("node", "n0")}),
        ((), "utilisation", {("group", "A"), ("node", "n0")}),
    ],
    ids=["load of an engine", "clock", "load of a training job"],
)
def test_load_is_compared_within_an_engine_and_speed_within_a_node(pools, role, sets):
    topology = Topology((NODE,), PAIRS, pools)
    groups_of = groups_by_member(topology, with_nodes=False)
    assert peer_sets_of_gpu(topology, groups_of, "n0/gpu1", role) == sets
