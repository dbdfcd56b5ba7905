"""Formats the causal graph for other programs: DOT, Mermaid, JSON."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from skewscope.kb.graph import edges
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem, join_names, suggest_name


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Some conditions with the links between them."""

    nodes: tuple[tuple[str, str, str], ...]
    """Id, name and group of each condition."""
    causes: tuple[tuple[str, str, str], ...]
    """Cause, effect, and how the cause leads to the effect."""
    lookalikes: tuple[tuple[str, str, str], ...]
    """Two look-alikes and the test that separates them; each pair once."""


def select_subgraph(catalogue: Catalogue, around: str = "", steps: int = 1, *, lookalikes: bool = False) -> Subgraph:
    """Returns the whole graph, or the part within some steps of one condition.

    Raises:
        InputError: there is no such condition.
    """
    known = catalogue.conditions
    if around and around not in known:
        hint = suggest_name(around, known)
        raise InputError([Problem("kb", 0, "condition", repr(around), f"one of {join_names(sorted(known), 6)}", hint)])
    causes = edges(catalogue)
    alike = _lookalike_pairs(catalogue) if lookalikes else ()
    held = _reachable_within(around, steps, (*causes, *alike)) if around else set(known)
    return Subgraph(
        tuple((c.id, c.name, c.group) for c in known.values() if c.id in held),
        tuple(edge for edge in causes if held.issuperset(edge[:2])),
        tuple(pair for pair in alike if held.issuperset(pair[:2])),
    )


def _lookalike_pairs(catalogue: Catalogue) -> tuple[tuple[str, str, str], ...]:
    found: dict[tuple[str, str], str] = {}
    for c in catalogue.conditions.values():
        for look in c.lookalikes:
            if look.condition in catalogue.conditions:
                found.setdefault((min(c.id, look.condition), max(c.id, look.condition)), look.separate_by)
    return tuple((a, b, test) for (a, b), test in sorted(found.items()))


def _reachable_within(start: str, steps: int, links: Iterable[tuple[str, str, str]]) -> set[str]:
    beside: dict[str, set[str]] = {}
    for a, b, _ in links:
        beside.setdefault(a, set()).add(b)
        beside.setdefault(b, set()).add(a)
    held = edge = {start}
    for _ in range(steps):
        edge = set().union(*(beside.get(id_, set()) for id_ in edge)) - held
        held = held | edge
    return held


def to_dot(graph: Subgraph) -> str:
    """Formats for Graphviz: arrows from cause to effect, dashed lines between look-alikes, a colour per group.

    No clusters: with edges that must not move nodes, Graphviz 2.43 looks for a layout of those for ever.
    """
    out = ["digraph skewscope {", '  rankdir="LR";', '  node [shape="box", style="rounded", fontname="sans-serif"];']
    for id_, name, group in graph.nodes:
        colour = GROUP_COLOURS.get(group, "#666666")
        out.append(f"  {_quote(id_)} [label={_quote(name)}, color={_quote(colour)}, tooltip={_quote(group)}];")
    out += [f"  {_quote(a)} -> {_quote(b)} [tooltip={_quote(why)}];" for a, b, why in graph.causes]
    alike = 'dir="none", style="dashed", constraint="false"'
    out += [f"  {_quote(a)} -> {_quote(b)} [{alike}, tooltip={_quote(test)}];" for a, b, test in graph.lookalikes]
    return "\n".join([*out, "}", ""])


GROUP_COLOURS: Mapping[str, str] = {
    "north-south": "#0072b2",
    "pcie": "#d55e00",
    "east-west": "#009e73",
    "fabric": "#56b4e9",
    "host": "#8c6d31",
    "gpu": "#cc3311",
    "engine": "#882255",
    "training": "#aa7700",
    "storage": "#666666",
    "telemetry": "#999933",
}
"""A colour for each group, after Okabe and Ito's for the colour-blind; names stand beside, so colour is never alone."""


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def to_mermaid(graph: Subgraph) -> str:
    """Formats for Mermaid, which many sites and code hosts draw."""
    number = {id_: f"n{n}" for n, (id_, _, _) in enumerate(graph.nodes)}
    out = ["flowchart LR"]
    for group in sorted({group for _, _, group in graph.nodes}):
        out.append(f"  subgraph {group}")
        out += [f'    {number[id_]}["{_escape_mermaid(name)}"]' for id_, name, of in graph.nodes if of == group]
        out.append("  end")
    out += [f"  {number[a]} --> {number[b]}" for a, b, _ in graph.causes]
    out += [f"  {number[a]} -.- {number[b]}" for a, b, _ in graph.lookalikes]
    return "\n".join([*out, ""])


def _escape_mermaid(text: str) -> str:
    """Escapes a text for Mermaid, which reads `#name;` as a character."""
    return "".join(c if c.isalnum() or c in " -/,.()" else f"#{ord(c)};" for c in text)


def to_json(graph: Subgraph) -> str:
    """Formats for programs: nodes and edges as lists of objects."""
    found = {
        "nodes": [{"id": id_, "name": name, "group": group} for id_, name, group in graph.nodes],
        "causes": [{"cause": a, "effect": b, "why": why} for a, b, why in graph.causes],
        "lookalikes": [{"conditions": [a, b], "separate_by": test} for a, b, test in graph.lookalikes],
    }
    return json.dumps(found, ensure_ascii=False, indent=2) + "\n"


FORMATS: Mapping[str, Callable[[Subgraph], str]] = {"dot": to_dot, "mermaid": to_mermaid, "json": to_json}
