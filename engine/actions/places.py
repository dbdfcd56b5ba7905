"""Limits of places: a pool, a rack or a team may allow less than the limits of all, which hold beside them. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from skewscope.engine.actions.action import Action
from skewscope.engine.model.topology import Topology

HOUR = 3600.0
POOL, RACK, TEAM = PLACE_KINDS = ("pool", "rack", "team")
Replicas = Callable[[Action], frozenset[str]]
"""Returns the replicas that a change touches."""


@dataclass(frozen=True, slots=True)
class PlaceLimit:
    """What one place allows; None for what it does not limit."""

    kind: str
    """One of PLACE_KINDS."""
    name: str
    at_once: int | None = None
    per_hour: int | None = None
    share: float | None = None
    """Share of the replicas of a pool, the nodes of a rack, or the groups of a team; one is always allowed."""

    def __str__(self) -> str:
        return f"the {self.kind} {self.name}"


def list_groups(action: Action) -> frozenset[str]:
    """Returns the groups that an action touches: its replica, or those on its node."""
    own = {action.scope.entity} if action.scope.kind == "replica" else set()
    return frozenset(action.scope.groups) | own


def find_parts(limit: PlaceLimit, topology: Topology) -> frozenset[str]:
    """Returns what a place consists of: replicas of a pool, nodes of a rack, groups of a team."""
    if limit.kind == RACK:
        return topology.racks.get(limit.name, frozenset())
    if limit.kind == TEAM:
        return topology.teams.get(limit.name, frozenset())
    return frozenset(name for pool in topology.pools if pool.name == limit.name for name in pool.replicas)


@dataclass(frozen=True)
class PlaceCheck:
    """Checks the limits of places for one action."""

    limits: Sequence[PlaceLimit]
    topology: Topology
    list_replicas: Replicas

    def find_overlap(self, action: Action, limit: PlaceLimit) -> frozenset[str]:
        """Returns what an action touches of a place: replicas of a pool, nodes of a rack, groups of a team."""
        if limit.kind == RACK:
            mine = frozenset(action.scope.nodes)
        else:
            mine = list_groups(action) if limit.kind == TEAM else self.list_replicas(action)
        return mine & find_parts(limit, self.topology)

    def find_counts(self, action: Action, known: Sequence[Action], t: float) -> Iterator[str]:
        """Yields where too many changes are in place in a place of an action, or were begun there within an hour."""
        for limit in self.limits:
            if not self.find_overlap(action, limit):
                continue
            here = [each for each in known if self.find_overlap(each, limit)]
            in_place = sum(each.is_in_place for each in here)
            if limit.at_once is not None and in_place >= limit.at_once:
                yield f"{in_place} changes are in place in {limit}, {limit.at_once} are allowed"
            begun = sum(each.started_at is not None and t - HOUR < each.started_at <= t for each in here)
            if limit.per_hour is not None and begun >= limit.per_hour:
                yield f"{begun} changes within an hour in {limit}, {limit.per_hour} are allowed"

    def find_shares(self, action: Action, holding: Sequence[Action]) -> Iterator[str]:
        """Yields where too large a share of a place of an action would be touched."""
        for limit in self.limits:
            mine = self.find_overlap(action, limit)
            if limit.share is None or not mine:
                continue
            touched = mine.union(*(self.find_overlap(each, limit) for each in holding))
            total = len(find_parts(limit, self.topology))
            allowed = max(int(limit.share * total + 1e-9), len(mine))
            if len(touched) > allowed:
                yield f"{len(touched)} of {total} in {limit} would be changed, {allowed} may be"
