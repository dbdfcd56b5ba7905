"""The causal graph of the catalogue, laid over the topology: which of several faults are roots.

A cause explains every effect that it can reach, through any number of steps. The smallest set of roots that explains
all faults is then exactly one root for each source of the graph, so it is computed and not approximated.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from skewscope.engine.attribution.locality import (
    AttributionCandidate,
    LocatedCandidate,
    closeness,
    locate_candidate,
)
from skewscope.engine.model.locality import LocalityIndex
from skewscope.kb.model import Catalogue, CausalLink

if TYPE_CHECKING:
    from networkx import DiGraph  # 0.2 s to import, and seldom needed

CAUSE_BEFORE_S = 10.0
"""An effect may be detected this long before its cause: their rules have different windows."""
ANY_TOKEN, FLEET_TOKEN = "any", "fleet"
MAX_CAUSAL_STEPS = 3
"""Links of the causal graph from one observed condition to another."""


class CauseGraph:
    """The causal graph of the catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._effects_of: dict[str, set[str]] = {}
        self._sibling_links: set[tuple[str, str]] = set()
        for condition in catalogue.conditions.values():
            for link in condition.effects:
                self._add(condition.id, link.condition, link)
            for link in condition.causes:
                self._add(link.condition, condition.id, link)
        self._reachable: dict[str, frozenset[str]] = {}
        self._direct_causes: dict[str, frozenset[str]] = {}

    def _add(self, cause: str, effect: str, link: CausalLink) -> None:
        self._effects_of.setdefault(cause, set()).add(effect)
        if link.siblings:
            self._sibling_links.add((cause, effect))

    def effects(self, condition: str) -> frozenset[str]:
        """Returns the effects of a condition, direct ones and those through conditions that were not observed."""
        if condition not in self._reachable:
            found: set[str] = set()
            frontier = {condition}
            for _ in range(MAX_CAUSAL_STEPS):
                frontier = {e for c in frontier for e in self._effects_of.get(c, ())} - found
                found |= frontier
            self._reachable[condition] = frozenset(found - {condition})
        return self._reachable[condition]

    def reaches_siblings(self, cause: str, effect: str) -> bool:
        """Whether a cause on one replica of a pool has this effect on the other replicas."""
        return (cause, effect) in self._sibling_links

    def direct_causes(self, condition: str) -> frozenset[str]:
        """Returns the direct causes of a condition."""
        if condition not in self._direct_causes:
            self._direct_causes[condition] = frozenset(
                cause for cause, effects in self._effects_of.items() if condition in effects
            )
        return self._direct_causes[condition]


def attribute_candidates(
    candidates: Collection[AttributionCandidate], causes: CauseGraph, locality: LocalityIndex
) -> dict[str, str]:
    """Returns the id of the root that explains each candidate; roots are omitted."""
    if len({c.condition for c in candidates}) < 2:
        return {}
    located = {c.id: locate_candidate(c, locality) for c in sorted(candidates, key=AttributionCandidate.sort_key)}
    edges = list(_causal_edges(located.values(), causes))
    return _assign_roots(located, edges) if edges else {}


def _causal_edges(located: Collection[LocatedCandidate], causes: CauseGraph) -> Iterator[tuple[str, str]]:
    """Yields every (cause, effect) that the catalogue, the topology and the times allow."""
    at: dict[tuple[str, str], list[LocatedCandidate]] = {}
    for one in located:
        for token in (*one.tokens, ANY_TOKEN, *([FLEET_TOKEN] if one.is_fleet else [])):
            at.setdefault((one.candidate.condition, token), []).append(one)
    present = {one.candidate.condition for one in located}
    for cause in located:
        tokens = (*cause.tokens, ANY_TOKEN if cause.is_fleet else FLEET_TOKEN)
        effects = sorted(causes.effects(cause.candidate.condition) & present)
        near = {e.candidate.id: e for c in effects for t in tokens for e in at.get((c, t), ())}
        for effect in near.values():
            early = effect.candidate.since < cause.candidate.since - CAUSE_BEFORE_S
            if not early and (closeness(cause, effect) or _reaches_sibling(cause, effect, causes)):
                yield cause.candidate.id, effect.candidate.id


def _reaches_sibling(cause: LocatedCandidate, effect: LocatedCandidate, causes: CauseGraph) -> bool:
    reaches = causes.reaches_siblings(cause.candidate.condition, effect.candidate.condition)
    return reaches and not cause.location.pools.isdisjoint(effect.location.pools)


def _assign_roots(located: Mapping[str, LocatedCandidate], edges: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Returns for each candidate that is no root the closest root that reaches it."""
    import networkx as nx  # noqa: PLC0415  0.2 s to import, and seldom needed

    graph: DiGraph[str] = nx.DiGraph()
    graph.add_edges_from(edges)
    components = nx.condensation(graph)
    roots: dict[str, list[LocatedCandidate]] = {}
    for component in components:
        if components.in_degree(component) == 0:
            members = (located[i] for i in components.nodes[component]["members"])
            root = min(members, key=lambda one: one.candidate.sort_key())
            for reached in nx.descendants(graph, root.candidate.id):
                roots.setdefault(reached, []).append(root)
    return {
        i: min(found, key=lambda r: (-closeness(r, located[i]), r.candidate.sort_key())).candidate.id
        for i, found in sorted(roots.items())
    }
