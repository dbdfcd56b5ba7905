"""The causal graph as text that other programs draw: DOT, Mermaid, JSON."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from skewscope.kb.graph import edges
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem, listed, nearest


@dataclass(frozen=True, slots=True)
class Part:
    """Some conditions with what links them."""

    nodes: tuple[tuple[str, str, str], ...]
    """Id, name and group of each condition."""
    causes: tuple[tuple[str, str, str], ...]
    """Cause, effect, and how the one brings about the other."""
    alike: tuple[tuple[str, str, str], ...]
    """Two that look the same, and the test that separates them; each pair once."""


def part(catalogue: Catalogue, around: str = "", steps: int = 1, *, lookalikes: bool = False) -> Part:
    """The whole graph, or what lies within some steps around one condition; look-alikes where they are wanted.

    Raises:
        InputError: there is no such condition.
    """
    known = catalogue.conditions
    if around and around not in known:
        hint = nearest(around, known)
        raise InputError([Problem("kb", 0, "condition", repr(around), f"one of {listed(sorted(known), 6)}", hint)])
    causes = edges(catalogue)
    alike = _pairs(catalogue) if lookalikes else ()
    held = _within(around, steps, (*causes, *alike)) if around else set(known)
    return Part(
        tuple((c.id, c.name, c.group) for c in known.values() if c.id in held),
        tuple(edge for edge in causes if held.issuperset(edge[:2])),
        tuple(pair for pair in alike if held.issuperset(pair[:2])),
    )


def _pairs(catalogue: Catalogue) -> tuple[tuple[str, str, str], ...]:
    found: dict[tuple[str, str], str] = {}
    for c in catalogue.conditions.values():
        for look in c.lookalikes:
            if look.condition in catalogue.conditions:
                found.setdefault((min(c.id, look.condition), max(c.id, look.condition)), look.separate_by)
    return tuple((a, b, test) for (a, b), test in sorted(found.items()))


def _within(start: str, steps: int, links: Iterable[tuple[str, str, str]]) -> set[str]:
    beside: dict[str, set[str]] = {}
    for a, b, _ in links:
        beside.setdefault(a, set()).add(b)
        beside.setdefault(b, set()).add(a)
    held = edge = {start}
    for _ in range(steps):
        edge = set().union(*(beside.get(id_, set()) for id_ in edge)) - held
        held = held | edge
    return held


def dot(graph: Part) -> str:
    """For Graphviz; an arrow from each cause to its effect, a dashed line between look-alikes, a colour for each group.

    No clusters: with edges that must not move nodes, Graphviz 2.43 looks for a layout of those for ever.
    """
    out = ["digraph skewscope {", '  rankdir="LR";', '  node [shape="box", style="rounded", fontname="sans-serif"];']
    for id_, name, group in graph.nodes:
        colour = GROUPS.get(group, "#666666")
        out.append(f"  {_quoted(id_)} [label={_quoted(name)}, color={_quoted(colour)}, tooltip={_quoted(group)}];")
    out += [f"  {_quoted(a)} -> {_quoted(b)} [tooltip={_quoted(why)}];" for a, b, why in graph.causes]
    alike = 'dir="none", style="dashed", constraint="false"'
    out += [f"  {_quoted(a)} -> {_quoted(b)} [{alike}, tooltip={_quoted(test)}];" for a, b, test in graph.alike]
    return "\n".join([*out, "}", ""])


GROUPS: Mapping[str, str] = {
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


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def mermaid(graph: Part) -> str:
    """For Mermaid, as many sites and code hosts draw it."""
    number = {id_: f"n{n}" for n, (id_, _, _) in enumerate(graph.nodes)}
    out = ["flowchart LR"]
    for group in sorted({group for _, _, group in graph.nodes}):
        out.append(f"  subgraph {group}")
        out += [f'    {number[id_]}["{_entities(name)}"]' for id_, name, of in graph.nodes if of == group]
        out.append("  end")
    out += [f"  {number[a]} --> {number[b]}" for a, b, _ in graph.causes]
    out += [f"  {number[a]} -.- {number[b]}" for a, b, _ in graph.alike]
    return "\n".join([*out, ""])


def _entities(text: str) -> str:
    """Mermaid reads `#name;` as a character, and a few characters as syntax."""
    return "".join(c if c.isalnum() or c in " -/,.()" else f"#{ord(c)};" for c in text)


def as_json(graph: Part) -> str:
    """For programs: nodes and edges as lists of objects."""
    found = {
        "nodes": [{"id": id_, "name": name, "group": group} for id_, name, group in graph.nodes],
        "causes": [{"cause": a, "effect": b, "why": why} for a, b, why in graph.causes],
        "lookalikes": [{"conditions": [a, b], "separate_by": test} for a, b, test in graph.alike],
    }
    return json.dumps(found, ensure_ascii=False, indent=2) + "\n"


FORMATS: Mapping[str, Callable[[Part], str]] = {"dot": dot, "mermaid": mermaid, "json": as_json}
