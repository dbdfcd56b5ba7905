"""The causal graph as text for other programs."""

import json
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.kb.graph import causal_graph, edges
from skewscope.kb.graph_formats import Subgraph, select_subgraph, to_dot, to_json, to_mermaid
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError

CATALOGUE = catalogue()


def test_the_whole_graph_has_every_condition_and_every_edge_once():
    found = select_subgraph(CATALOGUE)
    assert [id_ for id_, _, _ in found.nodes] == list(CATALOGUE.conditions)
    assert found.causes == edges(CATALOGUE)
    assert found.lookalikes == ()


def test_look_alikes_are_told_once_a_pair():
    pairs = [frozenset(pair[:2]) for pair in select_subgraph(CATALOGUE, lookalikes=True).lookalikes]
    assert pairs
    assert len(set(pairs)) == len(pairs)


def test_around_a_condition_is_what_it_links_to_and_no_more():
    graph = causal_graph(CATALOGUE)
    beside = {"tp-straggler", *graph.predecessors("tp-straggler"), *graph.successors("tp-straggler")}
    near, far = select_subgraph(CATALOGUE, "tp-straggler"), select_subgraph(CATALOGUE, "tp-straggler", 2)
    assert {id_ for id_, _, _ in near.nodes} == beside
    assert beside < {id_ for id_, _, _ in far.nodes}


def test_a_condition_that_there_is_not_is_told_with_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'tp-straggler'"):
        select_subgraph(CATALOGUE, "tp-stragler")


def test_json_says_what_the_graph_says():
    found = json.loads(to_json(select_subgraph(CATALOGUE, lookalikes=True)))
    assert len(found["nodes"]) == len(CATALOGUE.conditions)
    assert {(e["cause"], e["effect"]) for e in found["causes"]} == {(a, b) for a, b, _ in edges(CATALOGUE)}
    assert all(len(pair["conditions"]) == 2 and pair["separate_by"] for pair in found["lookalikes"])


def test_mermaid_names_every_node_before_it_links_it():
    text = to_mermaid(select_subgraph(CATALOGUE))
    known = re.findall(r"^    (n\d+)\[", text, re.MULTILINE)
    assert len(known) == len(CATALOGUE.conditions)
    assert set(re.findall(r"n\d+(?= -->)|(?<=--> )n\d+", text)) <= set(known)
    assert text.startswith("flowchart LR\n")


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_name_breaks_out_of_its_quotes(name, why):
    name, why = name.replace("\n", " "), why.replace("\n", " ")
    graph = Subgraph((("a", name, "fabric"), ("b", "b", "fabric")), (("a", "b", why),), ())
    strings = re.sub(r'"(?:[^"\\]|\\.)*"', "", to_dot(graph), flags=re.DOTALL)
    assert '"' not in strings
    assert re.search(r'^    n0\["[^"<>]*"\]$', to_mermaid(graph), re.MULTILINE)


def test_graphviz_reads_it():
    if not shutil.which("dot"):
        pytest.skip("Graphviz is not installed")
    for graph in (select_subgraph(CATALOGUE, lookalikes=True), Subgraph((("a", 'q"\\', "x"),), (), ())):
        command = ["dot", "-Tcanon"]
        done = subprocess.run(command, input=to_dot(graph), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
