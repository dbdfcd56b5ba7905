from dataclasses import replace

import pytest

from skewscope.engine.topology import Group, Pool, Topology
from skewscope.kb.problems import InputError
from skewscope.tui import start
from skewscope.tui.whereabouts import Scope, Whereabouts
from tests.tui.samples import CHILD, ROOT, TOPOLOGY


def test_themes_have_short_names_and_a_misspelt_one_is_told():
    assert start.theme_of("light") == "textual-light"
    assert start.theme_of("high-contrast") == "high-contrast"
    assert start.theme_of("") == ""
    with pytest.raises(InputError, match="light"):
        start.theme_of("ligth")


def test_settings_and_memory_are_where_this_person_keeps_them(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    assert start.settings() == tmp_path / "c" / "skewscope"
    assert start.memory() == tmp_path / "s" / "skewscope"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert start.settings().name == "skewscope"
    assert start.who()


WHERE = Whereabouts(replace(TOPOLOGY, pools=(Pool("p", ("A",)),)))


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
    assert WHERE.nodes(kind, name) == nodes


def test_a_scope_holds_what_touches_it():
    scope = Scope("node n2", frozenset(["n2"]))
    assert scope.holds(WHERE.of(ROOT))
    assert not scope.holds(WHERE.of(replace(CHILD, name="B")))
    assert Scope().holds(frozenset())
    gpus = Whereabouts(Topology(TOPOLOGY.nodes, (Group("G", "tensor-parallel", ("n0/gpu0", "n1/gpu0")),)))
    assert gpus.nodes("rank", "n1/gpu0") == {"n1"}
