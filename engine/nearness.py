"""How near two things that fire are to each other, by the topology."""

import math
from dataclasses import dataclass
from typing import Any

from skewscope.engine.places import Entity, Place, Places


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something that fires, or did a moment ago."""

    id: str
    condition: str
    entities: tuple[Entity, ...]
    """The one it is told on first."""
    since: float
    score: float
    sure: float = 0.0
    """Log-odds of the condition by its own evidence."""
    until: float = math.inf
    """When it resolved."""

    def order(self) -> tuple[Any, ...]:
        """Sorts the likeliest root first: earlier, then louder, then by name."""
        return self.since, -self.score, self.condition, self.entities, self.id


@dataclass(frozen=True, slots=True)
class Stand:
    """A suspect and where it is, worked out once."""

    suspect: Suspect
    place: Place
    fleet: bool
    tokens: frozenset[str]
    """All that it lies on or belongs to."""


def stand_of(suspect: Suspect, places: Places) -> Stand:
    """A suspect's place."""
    place = places.around(suspect.entities)
    fleet = any(entity.kind == "fleet" for entity in suspect.entities)
    return Stand(suspect, place, fleet, place.own | place.nodes | place.domains | place.pools)


def closeness(cause: Suspect, effect: Suspect, places: Places) -> int:
    """How near a cause is to an effect: 4 same entity, 3 same node, 2 same group, 1 further but connected, 0 not."""
    return nearness(stand_of(cause, places), stand_of(effect, places))


def nearness(cause: Stand, effect: Stand) -> int:
    """`closeness` of two whose places are worked out."""
    whose, here, there = cause.suspect.entities, cause.place, effect.place
    if whose[0] == effect.suspect.entities[0]:
        return 4
    if not here.nodes.isdisjoint(there.nodes):
        return 3
    if not here.groups.isdisjoint(there.groups):
        return 2
    # A switch or rack carries a fault that lies on the path itself, or that shows on several who share it.
    carrying = len(whose) > 1 or whose[0].kind in ("port", "link", "peer")
    carried = carrying and not here.paths.isdisjoint(there.paths)
    return int(contained(cause, effect) or cause.fleet or effect.fleet or carried)


def contained(one: Stand, other: Stand) -> bool:
    """Whether one is a pool and the other in it. Siblings in a pool do not hurt each other; the pool and they do."""
    return not one.place.own.isdisjoint(other.place.pools) or not one.place.pools.isdisjoint(other.place.own)
