"""The causal graph: what brings what about, never in a circle."""

from itertools import pairwise
from types import MappingProxyType

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.kb import graph
from skewscope.kb.builders import link_conditions
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Catalogue, CausalLink, Condition

EDGES = [
    ("fabric-loss", "tp-straggler"),
    ("fabric-loss", "pp-bubble"),
    ("fabric-loss", "burst-admission-backlog"),
    ("fabric-congestion", "tp-straggler"),
    ("fabric-congestion", "pp-bubble"),
    ("tp-straggler", "burst-admission-backlog"),
    ("pp-bubble", "burst-admission-backlog"),
    ("cross-node-load-skew", "burst-admission-backlog"),
    ("ingress-loss", "burst-admission-backlog"),
]


def condition(id_: str, effects: tuple[str, ...] = (), causes: tuple[str, ...] = ()) -> Condition:
    return Condition(
        *(id_, id_, (), "fabric", (), (), (), "cause", "", (), ()),
        *(tuple(CausalLink(other, f"{other} leads here") for other in causes),),
        *(tuple(CausalLink(other, f"leads to {other}") for other in effects),),
        *((), (), (), (), "D", "sandbox"),
    )


def knowing(*conditions: Condition) -> Catalogue:
    nothing: MappingProxyType[str, object] = MappingProxyType({})
    return Catalogue(link_conditions({one.id: one for one in conditions}), nothing, nothing, nothing)


@pytest.mark.parametrize(("cause", "effect"), EDGES)
def test_the_catalogue_knows_what_a_fault_brings_about(cause, effect):
    assert any((one, other) == (cause, effect) for one, other, _ in graph.edges(catalogue()))


def test_the_catalogue_has_no_circle():
    assert graph.cycles(catalogue()) == ()
    assert nx.is_directed_acyclic_graph(graph.causal_graph(catalogue()))


def test_a_backlog_is_never_the_cause_of_loss():
    """Prompts are too few bytes to overflow a port; and what is told as its effect would be hidden under it."""
    assert not {"ingress-loss", "fabric-loss"} & set(graph.descendants(catalogue(), "burst-admission-backlog"))


def test_every_edge_says_why_and_what_it_rests_on():
    known = catalogue().conditions
    for one in known.values():
        for link in (*one.causes, *one.effects):
            assert len(link.why) > 20
            assert link.basis


def test_an_edge_is_there_once_whichever_end_tells_of_it():
    at_the_cause = knowing(condition("a", effects=("b",)), condition("b"))
    at_the_effect = knowing(condition("a"), condition("b", causes=("a",)))
    assert [edge[:2] for edge in graph.edges(at_the_cause)] == [("a", "b")]
    assert [edge[:2] for edge in graph.edges(at_the_effect)] == [("a", "b")]


def test_an_edge_to_nowhere_is_no_edge():
    assert graph.edges(knowing(condition("a", effects=("x",), causes=("y",)))) == ()


def test_roots_and_effects_are_found_over_any_number_of_steps():
    chain = knowing(*(condition(a, effects=(b,)) for a, b in zip("abcd", "bcde", strict=True)), condition("e"))
    assert graph.ancestors(chain, "d") == ("a", "b", "c")
    assert graph.descendants(chain, "b") == ("c", "d", "e")
    assert graph.ancestors(chain, "a") == ()


def test_a_condition_that_nothing_is_known_of_is_a_node_too():
    assert list(graph.causal_graph(knowing(condition("a"), condition("b")))) == ["a", "b"]


@pytest.mark.parametrize(
    ("edges", "circles"),
    [
        ("ab bc", ()),
        ("ab ba", (("a", "b"),)),
        ("bc ca ab", (("a", "b", "c"),)),
        ("ab bc cb", (("b", "c"),)),
        ("ab ba cd dc", (("a", "b"), ("c", "d"))),
    ],
)
def test_a_circle_is_told_once_from_its_smallest_member(edges, circles):
    assert graph.cycles(made_of(edges.split())) == circles


def made_of(edges: list[str]) -> Catalogue:
    names = sorted(set("".join(edges)))
    return knowing(*(condition(n, effects=tuple(sorted({b for a, b in edges if a == n}))) for n in names))


@given(st.lists(st.tuples(*[st.sampled_from("abcdef")] * 2).filter(lambda e: e[0] != e[1]).map("".join), max_size=14))
def test_circles_are_found_exactly_where_there_are_some(edges):
    known = made_of(edges)
    found = graph.cycles(known)
    assert bool(found) != nx.is_directed_acyclic_graph(graph.causal_graph(known))
    pairs = {edge[:2] for edge in graph.edges(known)}
    for circle in found:
        assert set(zip(circle, (*circle[1:], circle[0]), strict=True)) <= pairs


def test_a_chain_of_thousands_is_walked_without_overrunning_the_stack():
    names = [f"c{n:05}" for n in range(3000)]
    chain = [condition(a, effects=(b,)) for a, b in pairwise(names)]
    assert graph.cycles(knowing(*chain, condition(names[-1]))) == ()
