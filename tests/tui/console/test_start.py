from dataclasses import replace

import pytest

from skewscope.engine.model.topology import Group, Pool, Topology
from skewscope.kb.problems import InputError
from skewscope.tui.console import launcher
from skewscope.tui.render.node_lookup import NodeLookup, NodeScope
from tests.tui.samples import CHILD, ROOT, TOPOLOGY


def test_themes_have_short_names_and_a_misspelt_one_is_told():
    assert launcher.resolve_theme("light") == "textual-light"
    assert launcher.resolve_theme("high-contrast") == "high-contrast"
    assert launcher.resolve_theme("") == ""
    with pytest.raises(InputError, match="light"):
        launcher.resolve_theme("ligth")


def test_settings_and_memory_are_where_this_person_keeps_them(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    assert launcher.settings_folder() == tmp_path / "c" / "skewscope"
    assert launcher.state_folder() == tmp_path / "s" / "skewscope"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert launcher.settings_folder().name == "skewscope"
    assert launcher.operator_name()


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


def test_a_scope_holds_what_touches_it():
    scope = NodeScope("node n2", frozenset(["n2"]))
    assert scope.contains(WHERE.nodes_of_incident(ROOT))
    assert not scope.contains(WHERE.nodes_of_incident(replace(CHILD, name="B")))
    assert NodeScope().contains(frozenset())
    gpus = NodeLookup(Topology(TOPOLOGY.nodes, (Group("G", "tensor-parallel", ("n0/gpu0", "n1/gpu0")),)))
    assert gpus.nodes_of("rank", "n1/gpu0") == {"n1"}
