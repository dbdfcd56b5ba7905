"""How near two things that fire are to each other, by the topology."""

import math
from dataclasses import dataclass
from typing import Any

from skewscope.engine.model.locality import Entity, EntityLocation, LocalityIndex


@dataclass(frozen=True, slots=True)
class AttributionCandidate:
    """Something that fires, or did a moment ago."""

    id: str
    condition: str
    entities: tuple[Entity, ...]
    """The one it is told on first."""
    since: float
    score: float
    log_odds: float = 0.0
    """Log-odds of the condition by its own evidence."""
    until: float = math.inf
    """When it resolved."""

    def sort_key(self) -> tuple[Any, ...]:
        """Sorts the likeliest root first: earlier, then louder, then by name."""
        return self.since, -self.score, self.condition, self.entities, self.id


@dataclass(frozen=True, slots=True)
class LocatedCandidate:
    """A suspect and where it is, worked out once."""

    candidate: AttributionCandidate
    location: EntityLocation
    is_fleet: bool
    tokens: frozenset[str]
    """All that it lies on or belongs to."""


def locate_candidate(suspect: AttributionCandidate, places: LocalityIndex) -> LocatedCandidate:
    """A suspect's place."""
    place = places.merged_location(suspect.entities)
    fleet = any(entity.kind == "fleet" for entity in suspect.entities)
    return LocatedCandidate(suspect, place, fleet, place.self_tokens | place.nodes | place.domains | place.pools)


def closeness(cause: AttributionCandidate, effect: AttributionCandidate, places: LocalityIndex) -> int:
    """How near a cause is to an effect: 4 same entity, 3 same node, 2 same group, 1 further but connected, 0 not."""
    return located_closeness(locate_candidate(cause, places), locate_candidate(effect, places))


def located_closeness(cause: LocatedCandidate, effect: LocatedCandidate) -> int:
    """`closeness` of two whose places are worked out."""
    whose, here, there = cause.candidate.entities, cause.location, effect.location
    if whose[0] == effect.candidate.entities[0]:
        return 4
    if not here.nodes.isdisjoint(there.nodes):
        return 3
    if not here.groups.isdisjoint(there.groups):
        return 2
    # A switch or rack carries a fault that lies on the path itself, or that shows on several who share it.
    carrying = len(whose) > 1 or whose[0].kind in ("port", "link", "peer")
    carried = carrying and not here.paths.isdisjoint(there.paths)
    return int(is_contained(cause, effect) or cause.is_fleet or effect.is_fleet or carried)


def is_contained(one: LocatedCandidate, other: LocatedCandidate) -> bool:
    """Whether one is a pool and the other in it. Siblings in a pool do not hurt each other; the pool and they do."""
    return not one.location.self_tokens.isdisjoint(other.location.pools) or not one.location.pools.isdisjoint(
        other.location.self_tokens
    )
