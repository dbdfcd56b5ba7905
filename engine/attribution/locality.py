"""Topological distance: how close two faults are, and which entities are near a location."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skewscope.engine.model.locality import NODE_BOUND, Entity, EntityLocation, LocalityIndex
from skewscope.engine.model.sets import Index
from skewscope.engine.model.verdict import UNKNOWN, RuleVerdict

MAX_NAME_LISTS = 64
"""Lists of names that are indexed at a time."""


@dataclass(frozen=True, slots=True)
class AttributionCandidate:
    """A fault that fires or has just resolved: a possible cause or effect."""

    id: str
    condition: str
    entities: tuple[Entity, ...]
    """The primary entity first."""
    since: float
    score: float
    log_odds: float = 0.0
    """Log-odds of the condition by its own evidence."""
    until: float = math.inf
    """When it resolved."""

    def sort_key(self) -> tuple[Any, ...]:
        """Sorts the likeliest root first: by earlier start, higher score, names."""
        return self.since, -self.score, self.condition, self.entities, self.id


@dataclass(frozen=True, slots=True)
class LocatedCandidate:
    """A candidate with its location."""

    candidate: AttributionCandidate
    location: EntityLocation
    is_fleet: bool
    tokens: frozenset[str]
    """Everything that it lies on or belongs to."""


def locate_candidate(candidate: AttributionCandidate, locality: LocalityIndex) -> LocatedCandidate:
    """Returns a candidate with its location."""
    location = locality.merged_location(candidate.entities)
    is_fleet = any(entity.kind == "fleet" for entity in candidate.entities)
    tokens = location.self_tokens | location.nodes | location.domains | location.pools
    return LocatedCandidate(candidate, location, is_fleet, tokens)


def closeness(cause: LocatedCandidate, effect: LocatedCandidate) -> int:
    """Returns 4 for the same entity, 3 same node, 2 same group, 1 connected otherwise, 0 not connected."""
    entities, here, there = cause.candidate.entities, cause.location, effect.location
    if entities[0] == effect.candidate.entities[0]:
        return 4
    if not here.nodes.isdisjoint(there.nodes):
        return 3
    if not here.groups.isdisjoint(there.groups):
        return 2
    # A switch or rack carries a fault that lies on the path itself, or that affects several entities behind it.
    carrying = len(entities) > 1 or entities[0].kind in ("port", "link", "peer")
    carried = carrying and not here.paths.isdisjoint(there.paths)
    return int(is_contained(cause, effect) or cause.is_fleet or effect.is_fleet or carried)


def is_contained(one: LocatedCandidate, other: LocatedCandidate) -> bool:
    """Whether one is a pool and the other is in it; replicas of a pool do not affect each other."""
    return not one.location.self_tokens.isdisjoint(other.location.pools) or not one.location.pools.isdisjoint(
        other.location.self_tokens
    )


class NeighbourIndex:
    """Entities by node or token, so that a search near a location does not scan the fleet."""

    def __init__(self, locality: LocalityIndex) -> None:
        self.locality = locality
        self._indexes: dict[tuple[str, int], tuple[tuple[str, ...], Mapping[str, Sequence[int]]]] = {}

    def find_near(self, kind: str, names: tuple[str, ...], tokens: Collection[str]) -> Index:
        """Returns the sorted indices in `names` of the entities of a kind that have one of the tokens."""
        index = self._index_of(kind, names)
        if kind not in NODE_BOUND:
            return np.array(sorted({i for token in tokens for i in index.get(token, ())}), np.intp)
        # An entity that shares a group lies on a node of the group, or on its front end.
        nodes = {node for token in tokens for node in self._nodes_of(token)}
        around = sorted({i for node in nodes for i in index.get(node, ())})
        wanted = frozenset(tokens)
        return np.array([i for i in around if wanted & self.tokens(Entity(kind, names[i]))], np.intp)

    def count_judgeable(self, verdicts: Iterable[RuleVerdict], domain: str, kind: str) -> int:
        """Returns on how many nodes of a group, switch or rack at least one of the verdicts is known.

        Counts as `LocalityIndex.domain_size`, which is returned for the GPUs of a node and for groups.
        """
        whole = self.locality.domain_size(domain, kind)
        rules = [verdict for verdict in verdicts if verdict.kind == kind]
        has_unknown = rules and all((verdict.state == UNKNOWN).any() for verdict in rules)
        if kind not in NODE_BOUND or domain.startswith("node:") or not has_unknown:
            return whole
        known: set[str] = set()
        for verdict in rules:
            index = self._index_of(verdict.kind, verdict.names)
            nodes = self.locality.nodes_in(domain)
            known |= {node for node in nodes if (verdict.state[list(index.get(node, ()))] != UNKNOWN).any()}
        return min(whole, len(known))

    def prepare(self, verdicts: Iterable[RuleVerdict]) -> None:
        """Index one more list of names, in a tick without alerts: the first fault then does not wait for it."""
        for verdict in verdicts:
            if self.is_full or self.add_names(verdict.kind, verdict.names):
                return

    def tokens(self, entity: Entity) -> frozenset[str]:
        """Returns the entity, its nodes and its groups as tokens; neighbours share at least one."""
        location = self.locality.location_of(entity)
        return location.self_tokens | location.nodes | location.groups

    def _nodes_of(self, token: str) -> Collection[str]:
        kind, _, name = token.partition(":")
        if kind == "node":
            return (name,)
        return self.locality.nodes_of_group(name) if kind == "group" else ()

    @property
    def is_full(self) -> bool:
        """Whether one more list would drop the others."""
        return len(self._indexes) >= MAX_NAME_LISTS

    def add_names(self, kind: str, names: tuple[str, ...]) -> bool:
        """Index a list of names, which is slow for a large fleet. Returns whether it was new."""
        known = self._indexes.get((kind, id(names)))
        if known is not None and known[0] is names:
            return False
        if self.is_full:
            self._indexes.clear()
        self._indexes[kind, id(names)] = names, self._build_index(kind, names)
        return True

    def _index_of(self, kind: str, names: tuple[str, ...]) -> Mapping[str, Sequence[int]]:
        """Returns indices of entities by node for kinds that lie on a node, else by token."""
        self.add_names(kind, names)
        return self._indexes[kind, id(names)][1]

    def _build_index(self, kind: str, names: Sequence[str]) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = {}
        for i, name in enumerate(names):
            keys = self.locality.nodes_of(kind, name) if kind in NODE_BOUND else self.tokens(Entity(kind, name))
            for key in keys:
                found.setdefault(key, []).append(i)
        return found
