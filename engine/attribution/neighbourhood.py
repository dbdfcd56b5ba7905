"""Which entities are near somewhere: found by way of the nodes, so that nobody looks at a whole fleet for a few."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from skewscope.engine.model.locality import NODE_BOUND, Entity, LocalityIndex
from skewscope.engine.model.sets import Index
from skewscope.engine.model.verdict import UNKNOWN, RuleVerdict

MAX_NAME_LISTS = 64
"""So many lists of names are known at a time."""


class NeighbourIndex:
    """Entities by the tokens of where they are."""

    def __init__(self, places: LocalityIndex) -> None:
        self.locality = places
        self._indexes: dict[tuple[str, int], tuple[tuple[str, ...], Mapping[str, Sequence[int]]]] = {}

    def find_near(self, kind: str, names: tuple[str, ...], tokens: Collection[str]) -> Index:
        """The places in `names`, in order, of the entities of a kind that have one of these tokens."""
        index = self._index_of(kind, names)
        if kind not in NODE_BOUND:
            return np.array(sorted({i for token in tokens for i in index.get(token, ())}), np.intp)
        # Whoever shares a group lies on a node of it, or on its front end.
        nodes = {node for token in tokens for node in self._nodes_of(token)}
        around = sorted({i for node in nodes for i in index.get(node, ())})
        wanted = frozenset(tokens)
        return np.array([i for i in around if wanted & self.tokens(Entity(kind, names[i]))], np.intp)

    def count_judgeable(self, verdicts: Iterable[RuleVerdict], domain: str, kind: str) -> int:
        """On how many nodes of a group, switch or rack any of some rules about a kind can tell of anything.

        Counted as `Places.size` counts; of GPUs in a node, and of groups, it is all that there are.
        """
        whole = self.locality.domain_size(domain, kind)
        rules = [verdict for verdict in verdicts if verdict.kind == kind]
        blind = rules and all((verdict.state == UNKNOWN).any() for verdict in rules)
        if kind not in NODE_BOUND or domain.startswith("node:") or not blind:
            return whole
        known: set[str] = set()
        for verdict in rules:
            index = self._index_of(verdict.kind, verdict.names)
            nodes = self.locality.nodes_in(domain)
            known |= {node for node in nodes if (verdict.state[list(index.get(node, ()))] != UNKNOWN).any()}
        return min(whole, len(known))

    def prepare(self, verdicts: Iterable[RuleVerdict]) -> None:
        """Learns where one more rule's entities lie, in a tick that has time for it: no fault has to wait for that."""
        for verdict in verdicts:
            if self.is_full or self.add_names(verdict.kind, verdict.names):
                return

    def tokens(self, entity: Entity) -> frozenset[str]:
        """The entity, its nodes and its groups: who shares one of them is next to it."""
        place = self.locality.location_of(entity)
        return place.self_tokens | place.nodes | place.groups

    def _nodes_of(self, token: str) -> Collection[str]:
        what, _, name = token.partition(":")
        if what == "node":
            return (name,)
        return self.locality.nodes_of_group(name) if what == "group" else ()

    @property
    def is_full(self) -> bool:
        """Whether one more list would have the others forgotten."""
        return len(self._indexes) >= MAX_NAME_LISTS

    def add_names(self, kind: str, names: tuple[str, ...]) -> bool:
        """Makes a list of names known, which takes a while for a whole fleet; whether it was not."""
        known = self._indexes.get((kind, id(names)))
        if known is not None and known[0] is names:
            return False
        if self.is_full:
            self._indexes.clear()
        self._indexes[kind, id(names)] = names, self._build_index(kind, names)
        return True

    def _index_of(self, kind: str, names: tuple[str, ...]) -> Mapping[str, Sequence[int]]:
        """Entities by node where they lie on one, else by token."""
        self.add_names(kind, names)
        return self._indexes[kind, id(names)][1]

    def _build_index(self, kind: str, names: Sequence[str]) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = {}
        for i, name in enumerate(names):
            where = self.locality.nodes_of(kind, name) if kind in NODE_BOUND else self.tokens(Entity(kind, name))
            for one in where:
                found.setdefault(one, []).append(i)
        return found
