"""Joins incidents of several shards that are one fault: what shares a place begins together, or has its cause there.

An engine sees one shard. A spine that loses packets shows in each shard behind it; this module finds, from the
incidents of all of them and the whole topology, which are one. It depends on these alone, so that it says the same
again after a restart.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.attribution.explanation import SIMULTANEOUS_S
from skewscope.engine.incidents.state import CAUSE_BEFORE_S
from skewscope.engine.model.incident import BlastRadius, Explanation, Incident
from skewscope.engine.model.topology import Node, Topology

MIN_SHARDS = 3
"""So many shards behind one place are one fault; fewer are if they are all that is behind it."""
LINGER_S = 60.0
"""Seconds that a resolved root keeps the others."""
MAX_ALSO = 256
"""Names of other entities that a root lists."""


@dataclass(frozen=True)
class SharedPlaces:
    """Racks and switches, also those behind the first switch, from the side of nodes and shards."""

    topology: Topology
    shard_of: Mapping[str, str]
    """The name of each node's shard."""
    _of_node: dict[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def _uplinks(self) -> Mapping[str, frozenset[str]]:
        """By the name of a switch that is a node: the switches that its ports lead to."""
        switches = {node.name for node in self.topology.nodes if self._is_switch(node)}
        return {
            name: frozenset(p.peer_node for p in self.topology.node[name].ports if p.peer_node in switches)
            for name in switches
        }

    @cached_property
    def _members(self) -> frozenset[str]:
        return frozenset(self.topology.node_of.values())

    def _is_switch(self, node: Node) -> bool:
        return not node.gpus and node.name not in self._members and any(port.peer for port in node.ports)

    def of_node(self, name: str) -> frozenset[str]:
        """Returns the places of a node: `rack:NAME` and `switch:NAME`; of a switch also itself."""
        if name not in self._of_node:
            self._of_node[name] = frozenset(self._find(name))
        return self._of_node[name]

    def _find(self, name: str) -> Iterator[str]:
        node = self.topology.node.get(name)
        if node is None:
            return
        if node.rack:
            yield f"rack:{node.rack}"
        first = {port.switch for port in node.ports if port.switch}
        first |= {port.peer_node for port in node.ports if port.peer_node in self._uplinks}
        first |= {name} if name in self._uplinks else set()
        for switch in first:
            yield f"switch:{switch}"
            yield from (f"switch:{above}" for above in self._uplinks.get(switch, ()))

    @cached_property
    def behind(self) -> Mapping[str, frozenset[str]]:
        """The shards behind each place."""
        found: dict[str, set[str]] = {}
        for node in self.topology.nodes:
            if node.name not in self._uplinks:
                for place in self.of_node(node.name):
                    found.setdefault(place, set()).add(self.shard_of[node.name])
        return {place: frozenset(shards) for place, shards in found.items()}

    def nodes_of(self, one: Incident) -> frozenset[str]:
        """Returns the nodes of the entities of an incident."""
        return frozenset(node for name in (one.name, *one.also) for node in self._nodes_at(name))

    def _nodes_at(self, name: str) -> Collection[str]:
        if name in self.topology.node:
            return (name,)
        group = self.topology.group.get(name)
        if group is not None:
            return [self.topology.node_of[member] for member in group.members]
        ends = name.replace(">", "--").split("--")
        found = [end.split("/", 1)[0] for end in ends]
        return [node for node in found if node in self.topology.node]


@dataclass(frozen=True)
class _Place:
    """An incident with what it is at."""

    incident: Incident
    shard: str
    nodes: frozenset[str]
    places: frozenset[str]

    @property
    def order(self) -> tuple[float, float, str]:
        """Sorts the likeliest root first."""
        return self.incident.opened_at, -self.incident.confidence, self.incident.id


def join_incidents(
    t: float,
    by_shard: Mapping[str, Sequence[Incident]],
    places: SharedPlaces,
    causes: CauseGraph,
    blind: Collection[str] = (),
) -> dict[str, Explanation]:
    """Returns what explains the roots of shards by roots of others, by id.

    Args:
        t: the present time, seconds since 1970.
        by_shard: the incidents of each shard.
        places: the whole topology.
        causes: the causal graph of the catalogue.
        blind: shards of which nothing is known at present.
    """
    roots = [
        _Place(one, shard, nodes, frozenset(p for node in nodes for p in places.of_node(node)))
        for shard, incidents in by_shard.items()
        for one in incidents
        if one.explained_by is None and one.state != "pending"
        for nodes in [places.nodes_of(one)]
    ]
    if len({one.shard for one in roots}) < 2:
        return {}
    found: dict[str, Explanation] = {}
    by_condition: dict[str, list[_Place]] = {}
    for one in sorted(roots, key=lambda one: one.order):
        by_condition.setdefault(one.incident.condition, []).append(one)
    for alike in by_condition.values():
        for cluster in _clusters(alike, places, frozenset(blind)):
            root = _choose_root(t, cluster)
            found |= {one.incident.id: Explanation(root.incident.id, "merged") for one in cluster if one is not root}
    found |= _find_causes(t, [one for one in roots if one.incident.id not in found], causes)
    return _final(found)


def _clusters(alike: Sequence[_Place], places: SharedPlaces, blind: frozenset[str]) -> Iterator[list[_Place]]:
    """Yields incidents of one condition that begin together at a place that their shards share; each once."""
    left = list(alike)
    while len(left) > 1:
        first = left[0]
        near = [one for one in left if one.incident.opened_at - first.incident.opened_at <= SIMULTANEOUS_S]
        counts = Counter(place for one in near for place in one.places)
        options = []
        for place in sorted(first.places):
            hit = frozenset(one.shard for one in near if place in one.places)
            behind = places.behind.get(place, hit) - blind
            if len(hit) >= MIN_SHARDS or (len(hit) > 1 and hit >= behind):
                options.append((-counts[place], len(behind), place))
        if options:
            place = min(options)[2]
            cluster = [one for one in near if place in one.places]
            yield cluster
            left = [one for one in left if one not in cluster]
        else:
            left.pop(0)


def _choose_root(t: float, cluster: Sequence[_Place]) -> _Place:
    """Returns the first that still fires or has just resolved; the first of all where none does."""
    live = [one for one in cluster if _is_live(t, one.incident)]
    return min(live or cluster, key=lambda one: one.order)


def _is_live(t: float, one: Incident) -> bool:
    return one.resolved_at is None or t - one.resolved_at <= LINGER_S


def _find_causes(t: float, roots: Sequence[_Place], causes: CauseGraph) -> dict[str, Explanation]:
    """Returns the roots whose cause is an incident of another shard on a switch or rack that they hang on."""
    at: dict[str, list[_Place]] = {}
    for one in roots:
        for node in one.nodes:
            at.setdefault(f"switch:{node}", []).append(one)
    found: dict[str, Explanation] = {}
    for effect in roots:
        near = {one.incident.id: one for place in effect.places for one in at.get(place, ())}
        options = [one for one in near.values() if _may_cause(t, one, effect, causes)]
        if options:
            found[effect.incident.id] = Explanation(min(options, key=lambda one: one.order).incident.id, "caused")
    return found


def _may_cause(t: float, cause: _Place, effect: _Place, causes: CauseGraph) -> bool:
    if cause.shard == effect.shard or effect.incident.condition not in causes.effects(cause.incident.condition):
        return False
    early = effect.incident.opened_at < cause.incident.opened_at - CAUSE_BEFORE_S
    resolved = cause.incident.resolved_at
    over = resolved is not None and effect.incident.opened_at > resolved
    return not early and not over and (_is_live(t, cause.incident) or effect.incident.resolved_at is not None)


def _final(found: Mapping[str, Explanation]) -> dict[str, Explanation]:
    """Returns the explanations with the root at the end of each chain; a circle has none."""
    final: dict[str, Explanation] = {}
    for id_, link in found.items():
        seen, relation, root = {id_}, link.relation, link.id
        while root in found and root not in seen:
            seen.add(root)
            relation = found[root].relation if relation == "merged" else relation
            root = found[root].id
        if root not in found:
            final[id_] = Explanation(root, relation)
    return final


def apply_explanations(incidents: Iterable[Incident], found: Mapping[str, Explanation]) -> list[Incident]:
    """Returns incidents with the explanations of `join_incidents`; roots list and count what they explain."""
    known = list(incidents)
    if not found:
        return known
    explained: dict[str, list[Incident]] = {}
    made = []
    for one in known:
        link = found.get(one.id)
        inner = found.get(one.root_id)
        if link is not None:
            one = replace(one, explained_by=link, mitigations=())  # noqa: PLW2901 - the same incident
            explained.setdefault(link.id, []).append(one)
        elif inner is not None and one.explained_by is not None:
            # What a shard folded under its root follows it to the root of the fleet.
            one = replace(one, explained_by=Explanation(inner.id, one.explained_by.relation))  # noqa: PLW2901
        made.append(one)
    return [_with_parts(one, explained[one.id]) if one.id in explained else one for one in made]


def _with_parts(root: Incident, parts: Sequence[Incident]) -> Incident:
    radii = [root.blast_radius, *(one.blast_radius for one in parts)]
    # Shards have no nodes and groups in common.
    radius = BlastRadius(*(sum(getattr(one, name) for one in radii) for name in ("nodes", "groups", "replicas")))
    alike = {name for one in parts if one.kind == root.kind for name in (one.name, *one.also)}
    also = tuple(sorted({*root.also, *alike} - {root.name})[:MAX_ALSO])
    return replace(root, blast_radius=radius, also=also)
