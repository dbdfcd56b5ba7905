"""A topology printed and read back, whole and as one node needs it."""

import pytest

from skewscope.adapters.formats import topology_text
from skewscope.adapters.formats.topology_text import format_topology, subset_for_node
from skewscope.adapters.inputs.recording import demo_path, open_recording
from skewscope.adapters.simulator.fleet import FleetPlan, build_fleet
from skewscope.engine.model.topology import Node, Topology, merge_topologies
from skewscope.engine.model.topology_file import parse_valid_topology
from skewscope.kb.yamlfile import parse

FLEETS = {
    "the demo": lambda: open_recording(demo_path()).topology,
    "simulated": lambda: build_fleet(FleetPlan(nodes=64)).topology,
}


def test_sites_are_printed_and_read_back():
    made = merge_topologies([Topology((Node("a0"),)), Topology((Node("b0", fleet="b"),))])
    assert parse_valid_topology(parse(format_topology(made), "t.yaml")).nodes == made.nodes


@pytest.mark.parametrize("fleet", FLEETS)
def test_what_is_printed_reads_back(fleet):
    made = FLEETS[fleet]()
    assert parse_valid_topology(parse(format_topology(made))) == made


@pytest.mark.parametrize("fleet", FLEETS)
def test_a_node_is_told_of_those_that_it_works_with(fleet, monkeypatch):
    made = FLEETS[fleet]()
    assert subset_for_node(made, made.nodes[0].name) is made
    monkeypatch.setattr(topology_text, "SMALL_FLEET", 1)
    for node in made.nodes[:20]:
        own = subset_for_node(made, node.name)
        assert parse_valid_topology(parse(format_topology(own))) == own
        assert own.node[node.name].ports[0].addresses == node.ports[0].addresses
        for group in made.groups:
            members = {made.node_of[member] for member in group.members} | {group.front_end}
            assert (own.group.get(group.name) == group) == (node.name in members)
    if fleet == "simulated":
        assert len(own.nodes) < len(made.nodes) / 2
    assert subset_for_node(made, "a stranger") is made


def test_a_digest_tells_topologies_apart_and_is_the_same_in_each_process():
    made = Topology((Node("a0"),))
    assert topology_text.digest_topology(made) == topology_text.digest_topology(Topology((Node("a0"),)))
    assert topology_text.digest_topology(made) != topology_text.digest_topology(Topology((Node("a1"),)))
