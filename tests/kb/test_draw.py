"""The causal graph drawn: every edge from left to right, no box on another, every node a link."""

import re
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewscope.kb import graph_svg
from skewscope.kb.graph import edges
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Catalogue, CausalLink

SVG = "{http://www.w3.org/2000/svg}"
CATALOGUE = catalogue()
EDGES = edges(CATALOGUE)


def read(text: str) -> ET.Element:
    return ET.fromstring(text)


def boxes(root: ET.Element) -> dict[str, tuple[float, float, float, float]]:
    found = {}
    for node in root.iter(f"{SVG}a"):
        rect = node.find(f"{SVG}rect")
        found[node.get("data-id")] = tuple(float(rect.get(name)) for name in ("x", "y", "width", "height"))
    return found


def drawn_edges(root: ET.Element) -> list[tuple[str, str]]:
    return [(e.get("data-from"), e.get("data-to")) for e in root.iter(f"{SVG}path") if e.get("class") == "edge"]


def test_every_edge_of_the_catalogue_is_drawn_once_with_its_reason():
    root = read(graph_svg.draw_graph(CATALOGUE))
    assert Counter(drawn_edges(root)) == Counter((a, b) for a, b, _ in EDGES)
    reasons = " ".join(title.text for title in root.iter(f"{SVG}title"))
    assert all(why in reasons for _, _, why in EDGES)


def test_causes_stand_to_the_left_of_effects():
    at = boxes(read(graph_svg.draw_graph(CATALOGUE)))
    assert all(at[a][0] + at[a][2] < at[b][0] for a, b, _ in EDGES)


def test_no_box_lies_on_another_and_all_are_inside_the_picture():
    root = read(graph_svg.draw_graph(CATALOGUE))
    width, height = (float(root.get(name)) for name in ("width", "height"))
    at = sorted(boxes(root).values())
    for n, (x, y, w, h) in enumerate(at):
        assert x + w <= width
        assert y + h <= height
        assert not any(abs(x - u) < w and y < v + g and v < y + h for u, v, _, g in at[n + 1 :])


@pytest.mark.parametrize("suffix", ["html", "md"])
def test_a_node_leads_to_its_page(suffix):
    root = read(graph_svg.draw_graph(CATALOGUE, suffix))
    assert {a.get("href") for a in root.iter(f"{SVG}a")} == {
        f"conditions/{id_}.{suffix}" for edge in EDGES for id_ in edge[:2]
    }


def test_a_neighbourhood_is_one_condition_with_what_leads_to_it_and_from_it():
    root = read(graph_svg.draw_neighbourhood(CATALOGUE, "tp-straggler"))
    assert set(drawn_edges(root)) == {(a, b) for a, b, _ in EDGES if "tp-straggler" in (a, b)}
    here = [node.get("data-id") for node in root.iter(f"{SVG}a") if "here" in node.get("class").split()]
    assert here == ["tp-straggler"]
    assert "tp-straggler.html" in {a.get("href") for a in root.iter(f"{SVG}a")}


def test_the_same_catalogue_gives_the_same_picture():
    assert graph_svg.draw_graph(CATALOGUE) == graph_svg.draw_graph(CATALOGUE)


def test_order_by_barycentres_crosses_less_than_by_name():
    def crossings(columns: list[list[str]]) -> int:
        place = {node: (n, k / len(column)) for n, column in enumerate(columns) for k, node in enumerate(column)}
        spans = [(place[a], place[b]) for a, b, _ in EDGES]
        return sum(
            a[0] == c[0] and b[0] == d[0] and (a[1] - c[1]) * (b[1] - d[1]) < 0
            for n, (a, b) in enumerate(spans)
            for c, d in spans[n + 1 :]
        )

    layers = graph_svg._assign_layers(EDGES)
    assert crossings(graph_svg._order_layers([list(column) for column in layers], EDGES)) < crossings(layers) / 2


def test_nothing_to_draw_is_an_empty_picture():
    lone = replace(CATALOGUE.conditions["tp-straggler"], causes=(), effects=())
    assert drawn_edges(read(graph_svg.draw_graph(Catalogue({"tp-straggler": lone}, {}, {}, {})))) == []


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], max_codepoint=0xFFFD), min_size=1, max_size=60))
def test_no_name_breaks_out_of_the_picture(name):
    if not name.strip():
        return
    one, two = (CATALOGUE.conditions[id_] for id_ in ("fabric-loss", "tp-straggler"))
    first = replace(one, name=name, causes=(), effects=(CausalLink("tp-straggler", name),))
    second = replace(two, causes=(), effects=())
    root = read(graph_svg.draw_graph(Catalogue({first.id: first, second.id: second}, {}, {}, {})))
    assert {re.sub(r"\{.*\}", "", e.tag) for e in root.iter()} <= {
        *("svg", "title", "style", "defs", "marker", "path", "a", "rect", "text", "tspan", "g")
    }
    assert drawn_edges(root) == [("fabric-loss", "tp-straggler")]
