"""Who is near somewhere is found by way of the nodes, and is who has one of the tokens."""

import pytest

from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.locality import Entity, LocalityIndex, NeighbourIndex
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology

NODES = tuple(Node(f"n{n}", ports=(Port(f"n{n}", "ew", "east-west", 5e10),)) for n in range(6))
TOPOLOGY = Topology(
    NODES,
    (
        Group("g", "tensor-parallel", ("n0", "n1"), "n5"),
        Group("h", "expert-parallel", ("n1/gpu3", "n2/gpu0"), "n1"),
    ),
    (Pool("lab", ("g", "h")),),
)
ENTITIES = EntityIndex(TOPOLOGY)


@pytest.mark.parametrize("kind", ["gpu", "port", "rank", "node", "group", "pool"])
@pytest.mark.parametrize(
    "at", [("gpu", "n1/gpu3"), ("rank", "h:n2/gpu0"), ("node", "n5"), ("group", "g"), ("port", "n3/ew")]
)
def test_near_is_who_shares_a_token(kind, at):
    neighbours = NeighbourIndex(LocalityIndex(TOPOLOGY))
    tokens = neighbours.tokens(Entity(*at))
    names = tuple(ENTITIES.names[kind])
    near = [i for i, name in enumerate(names) if tokens & neighbours.tokens(Entity(kind, name))]
    assert neighbours.find_near(kind, names, tokens).tolist() == near


def test_a_list_of_names_is_learnt_once_and_as_many_as_there_is_room_for(monkeypatch):
    monkeypatch.setattr("skewscope.engine.model.locality.MAX_NAME_LISTS", 2)
    neighbours = NeighbourIndex(LocalityIndex(TOPOLOGY))
    nodes, ranks = tuple(ENTITIES.names["node"]), tuple(ENTITIES.names["rank"])
    assert [neighbours.add_names(*of) for of in (("node", nodes), ("node", nodes))] == [True, False]
    assert not neighbours.is_full
    neighbours.add_names("rank", ranks)
    assert neighbours.is_full
    neighbours.add_names("group", tuple(ENTITIES.names["group"]))
    assert neighbours.add_names("node", nodes)
