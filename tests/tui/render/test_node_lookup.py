"""The nodes of entities and incidents."""

from dataclasses import replace

import pytest

from skewscope.engine.model.topology import Group, Pool, Topology
from skewscope.tui.render.node_lookup import NodeLookup, NodeScope
from tests.tui.samples import CHILD, ROOT, TOPOLOGY

WHERE = NodeLookup(replace(TOPOLOGY, pools=(Pool("p", ("A",)),)))


@pytest.mark.parametrize(
    ("kind", "name", "nodes"),
    [
        ("rank", "A:n2", {"n2"}),
        ("rank", "n2", {"n2"}),
        ("port", "n3/ew", {"n3"}),
        ("gpu", "n1/gpu4", {"n1"}),
        ("group", "A", {"n0", "n1", "n2", "n3"}),
        ("pool", "p", {"n0", "n1", "n2", "n3"}),
        ("peer", "n0/ew>n1/ew", {"n0", "n1"}),
        ("link", "n0/ew--n1/ew", {"n0", "n1"}),
        ("fleet", "fleet", set(TOPOLOGY.node)),
        ("group", "unheard of", set()),
    ],
)
def test_on_which_nodes_something_lies(kind, name, nodes):
    assert WHERE.nodes_of(kind, name) == nodes


def test_a_scope_contains_overlapping_nodes():
    scope = NodeScope("node n2", frozenset(["n2"]))
    assert scope.contains(WHERE.nodes_of_incident(ROOT))
    assert not scope.contains(WHERE.nodes_of_incident(replace(CHILD, name="B")))
    assert NodeScope().contains(frozenset())
    gpus = NodeLookup(Topology(TOPOLOGY.nodes, (Group("G", "tensor-parallel", ("n0/gpu0", "n1/gpu0")),)))
    assert gpus.nodes_of("rank", "n1/gpu0") == {"n1"}
