"""The causal graph of the catalogue: an edge from each cause to each effect."""

from typing import TYPE_CHECKING

from skewscope.kb.model import Catalogue

if TYPE_CHECKING:
    from networkx import DiGraph  # 0.2 s to import; needed only for a graph


def edges(catalogue: Catalogue) -> tuple[tuple[str, str, str], ...]:
    """Returns every (cause, effect, why) of the conditions, in order, each once."""
    known = catalogue.conditions
    found: dict[tuple[str, str], str] = {}
    for c in known.values():
        for link in c.effects:
            if link.condition in known:
                found.setdefault((c.id, link.condition), link.why)
        for link in c.causes:
            if link.condition in known:
                found.setdefault((link.condition, c.id), link.why)
    return tuple((cause, effect, why) for (cause, effect), why in sorted(found.items()))


def causal_graph(catalogue: Catalogue) -> "DiGraph[str]":
    """Returns the causal graph; every condition is a node, every edge has its `why`."""
    from networkx import DiGraph  # noqa: PLC0415

    graph: DiGraph[str] = DiGraph()
    graph.add_nodes_from(sorted(catalogue.conditions))
    for cause, effect, why in edges(catalogue):
        graph.add_edge(cause, effect, why=why)
    return graph


def ancestors(catalogue: Catalogue, condition: str) -> tuple[str, ...]:
    """Returns all direct and indirect causes of a condition."""
    import networkx as nx  # noqa: PLC0415

    return tuple(sorted(nx.ancestors(causal_graph(catalogue), condition)))


def descendants(catalogue: Catalogue, condition: str) -> tuple[str, ...]:
    """Returns all direct and indirect effects of a condition."""
    import networkx as nx  # noqa: PLC0415

    return tuple(sorted(nx.descendants(causal_graph(catalogue), condition)))


def cycles(catalogue: Catalogue) -> tuple[tuple[str, ...], ...]:
    """Returns one cycle of each strongly connected component; each begins with its smallest id.

    Without networkx, so that a catalogue can be loaded where it is not there.
    """
    after: dict[str, list[str]] = {id_: [] for id_ in sorted(catalogue.conditions)}
    for cause, effect, _ in edges(catalogue):
        after[cause].append(effect)
    found: set[tuple[str, ...]] = set()
    done: set[str] = set()
    for start in after:
        _collect_cycles(start, after, done, found)
    return tuple(sorted(found))


def _collect_cycles(start: str, after: dict[str, list[str]], done: set[str], found: set[tuple[str, ...]]) -> None:
    """Searches depth first without recursion; an edge back into the path closes a cycle."""
    path: list[str] = []
    stack: list[tuple[str, bool]] = [(start, True)]
    while stack:
        node, entering = stack.pop()
        if not entering:
            done.add(path.pop())
        elif node in path:
            found.add(_rotate_to_smallest(tuple(path[path.index(node) :])))
        elif node not in done:
            path.append(node)
            stack.append((node, False))
            stack += [(effect, True) for effect in reversed(after[node])]


def _rotate_to_smallest(circle: tuple[str, ...]) -> tuple[str, ...]:
    first = circle.index(min(circle))
    return circle[first:] + circle[:first]
