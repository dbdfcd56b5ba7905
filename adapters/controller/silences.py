"""Silences: suppress notifications for a while, such as during maintenance. Incidents are still found and stored.

A silence names conditions, entities, nodes, groups or racks; an incident must match each named matcher, with everything
that it affects: an incident that affects others too is not suppressed.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from skewscope.adapters.mapping.incident_nodes import entity_names, nodes_of
from skewscope.engine.model.incident import Incident, rfc3339
from skewscope.engine.model.topology import Topology

DAY = 86400.0
MAX_SHARE = 0.25
MAX_DAYS = 7.0
MIN_NODES = 1
"""Nodes that silences may always cover."""
MATCHERS = ("condition", "entity", "node", "group", "rack")

Match = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class SilenceLimits:
    """Limits above which a silence is too broad, and needs an admin."""

    max_share: float = MAX_SHARE
    """Maximum share of the fleet's nodes covered at any time."""
    max_days: float = MAX_DAYS
    """Maximum days of a silence."""


@dataclass(frozen=True, slots=True)
class Silence:
    """One silence."""

    id: str
    match: Match
    """(one of `MATCHERS`, names): all matchers must match, each by one of its names."""
    starts: float
    """Seconds since 1970."""
    ends: float | None
    """None for never."""
    owner: str
    comment: str
    ended: str = ""
    """Who ended it; '' for none."""

    def is_active(self, t: float) -> bool:
        """Returns whether it is active at a time."""
        return not self.ended and self.starts <= t and (self.ends is None or t < self.ends)

    def is_over(self, t: float) -> bool:
        """Returns whether it has ended."""
        return bool(self.ended) or (self.ends is not None and self.ends <= t)

    def overlaps(self, other: "Silence") -> bool:
        """Returns whether both are active at some time."""
        return self.starts < (other.ends or float("inf")) and other.starts < (self.ends or float("inf"))

    def as_json(self, now: float) -> dict[str, Any]:
        """Returns its JSON object."""
        state = "ended" if self.is_over(now) else "active" if self.is_active(now) else "waiting"
        return asdict(self) | {
            "match": {field: list(names) for field, names in self.match},
            "starts": rfc3339(self.starts),
            "ends": None if self.ends is None else rfc3339(self.ends),
            "state": state,
        }


@dataclass(frozen=True)
class SilenceMatcher:
    """A silence resolved against a topology."""

    silence: Silence
    topology: Topology
    names: Mapping[str, frozenset[str]]
    """Names of each matcher."""
    nodes: Mapping[str, frozenset[str]]
    """Nodes of each matcher of a place."""

    def matches(self, one: Incident) -> bool:
        """Returns whether an incident matches, regardless of time."""
        return all(self._matches_field(field, names, one) for field, names in self.names.items())

    def _matches_field(self, field: str, names: frozenset[str], one: Incident) -> bool:
        if field == "condition":
            return one.condition in names
        there = entity_names(one)
        if field == "entity":
            return names.issuperset(there)
        if field == "group":
            named = names.issuperset(there)
            return named or (one.name not in self.topology.group and self._is_inside(there, self.nodes[field]))
        return self._is_inside(there, self.nodes[field])

    def _is_inside(self, there: Iterable[str], nodes: frozenset[str]) -> bool:
        """Returns whether everything affected touches some nodes, and a whole group lies within them."""
        found = ((name, nodes_of(name, self.topology)) for name in there)
        return all(on <= nodes and bool(on) if name in self.topology.group else on & nodes for name, on in found)


def build_matcher(silence: Silence, topology: Topology) -> SilenceMatcher:
    """Resolves a silence against a topology."""
    names = {field: frozenset(some) for field, some in silence.match}
    places = {field: _nodes_of_names(field, some, topology) for field, some in names.items() if field != "condition"}
    return SilenceMatcher(silence, topology, names, places)


def _nodes_of_names(field: str, names: Iterable[str], topology: Topology) -> frozenset[str]:
    if field == "rack":
        return frozenset().union(*(topology.racks.get(name, frozenset()) for name in names))
    return frozenset().union(*(nodes_of(name, topology) for name in names))


def match_silences(
    silences: Iterable[Silence], incidents: Iterable[Incident], topology: Topology, t: float
) -> dict[str, str]:
    """Returns the name of the active silence of each firing incident that has one."""
    active = [build_matcher(silence, topology) for silence in silences if silence.is_active(t)]
    if not active:
        return {}
    firing = (one for one in incidents if one.state == "firing")
    pairs = ((one.id, next((each.silence.id for each in active if each.matches(one)), "")) for one in firing)
    return {incident: silence for incident, silence in pairs if silence}


# --- breadth


def covered_nodes(silence: Silence, topology: Topology) -> frozenset[str]:
    """Returns the nodes that it can affect."""
    nodes = frozenset(topology.node)
    for some in build_matcher(silence, topology).nodes.values():
        nodes &= some
    return nodes


def breadth_problems(
    new: Silence, others: Iterable[Silence], topology: Topology, limits: SilenceLimits = SilenceLimits()
) -> tuple[str, ...]:
    """Returns why a silence is too broad, alone or with others active at the same time; empty if it is not."""
    return tuple(_iter_breadth_problems(new, others, topology, limits))


def _iter_breadth_problems(
    new: Silence, others: Iterable[Silence], topology: Topology, limits: SilenceLimits
) -> Iterator[str]:
    if new.ends is None:
        yield "it has no end"
    elif new.ends - new.starts > limits.max_days * DAY:
        yield f"it lasts {(new.ends - new.starts) / DAY:.1f} days, more than {limits.max_days:g}"
    alone = covered_nodes(new, topology)
    beside = alone.union(*(covered_nodes(each, topology) for each in others if not each.ended and each.overlaps(new)))
    most = max(int(limits.max_share * len(topology.nodes)), MIN_NODES)
    if len(beside) > most:
        with_others = "" if beside == alone else f", with others that hold at the same time {len(beside)}"
        yield f"it covers {len(alone)} of {len(topology.nodes)} nodes{with_others}, more than {most}"


def end_silence(silence: Silence, by: str, t: float) -> Silence:
    """Returns the silence ended at a time; one that has not started is never active."""
    return replace(silence, ended=by, ends=max(min(t, silence.ends or t), min(silence.starts, t)))


def to_row(silence: Silence) -> tuple[Any, ...]:
    """Returns its row in the store."""
    match = json.dumps({field: list(names) for field, names in silence.match})
    return silence.id, match, silence.starts, silence.ends, silence.owner, silence.comment, silence.ended


def from_row(row: Sequence[Any]) -> Silence:
    """Returns the silence of a row."""
    id_, match, *rest = row
    return Silence(id_, tuple((field, tuple(names)) for field, names in json.loads(match).items()), *rest)
