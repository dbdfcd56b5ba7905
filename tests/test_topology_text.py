"""A topology printed and read back, whole and as one node needs it."""

import pytest

from skewscope.adapters import topology_text
from skewscope.adapters.recording import demo_path, open_recording
from skewscope.adapters.simulator.fleet import Plan, build
from skewscope.adapters.topology_text import around, text_of
from skewscope.engine.topology_file import sound
from skewscope.kb.yamlfile import parse

FLEETS = {
    "the demo": lambda: open_recording(demo_path()).topology,
    "simulated": lambda: build(Plan(nodes=64)).topology,
}


@pytest.mark.parametrize("fleet", FLEETS)
def test_what_is_printed_reads_back(fleet):
    made = FLEETS[fleet]()
    assert sound(parse(text_of(made))) == made


@pytest.mark.parametrize("fleet", FLEETS)
def test_a_node_is_told_of_those_that_it_works_with(fleet, monkeypatch):
    made = FLEETS[fleet]()
    assert around(made, made.nodes[0].name) is made
    monkeypatch.setattr(topology_text, "SMALL", 1)
    for node in made.nodes[:20]:
        own = around(made, node.name)
        assert sound(parse(text_of(own))) == own
        assert own.node[node.name].ports[0].addresses == node.ports[0].addresses
        for group in made.groups:
            members = {made.node_of[member] for member in group.members} | {group.front_end}
            assert (own.group.get(group.name) == group) == (node.name in members)
    if fleet == "simulated":
        assert len(own.nodes) < len(made.nodes) / 2
    assert around(made, "a stranger") is made
