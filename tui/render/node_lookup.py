"""The nodes of an entity or incident, for scopes and heat maps. Pure."""

from dataclasses import dataclass, field

from skewscope.engine.model.incident import Incident
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.model.topology import Topology


@dataclass
class NodeLookup:
    """Looks up the nodes of entities in a topology."""

    topology: Topology
    _places: LocalityIndex = field(init=False)
    _cache: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = LocalityIndex(self.topology)

    def nodes_of(self, kind: str, name: str) -> frozenset[str]:
        """Returns the names of the nodes of an entity."""
        if (kind, name) not in self._cache:
            self._cache[kind, name] = self._find_nodes(kind, name)
        return self._cache[kind, name]

    def _find_nodes(self, kind: str, name: str) -> frozenset[str]:
        topology = self.topology
        if kind == "fleet":
            return frozenset(topology.node)
        if kind == "pool":
            replicas = next((pool.replicas for pool in topology.pools if pool.name == name), ())
            return frozenset().union(*(self.nodes_of("group", replica) for replica in replicas))
        if kind in ("group", "replica"):
            group = topology.group.get(name)
            return frozenset(topology.node_of[m] for m in group.members) if group else frozenset()
        if kind == "rank" and ":" not in name:
            return frozenset([topology.node_of.get(name, name)])
        if kind == "link":
            ends = name.replace("--", ">").split(">")
            return frozenset(node for end in ends for node in self.nodes_of("port", end))
        return frozenset(n.removeprefix("node:") for n in self._places.location_of(Entity(kind, name)).nodes)

    def nodes_of_incident(self, incident: Incident) -> frozenset[str]:
        """Returns the nodes of an incident, including its further members."""
        return frozenset().union(*(self.nodes_of(incident.kind, name) for name in (incident.name, *incident.also)))


@dataclass(frozen=True, slots=True)
class NodeScope:
    """The nodes to which all screens are restricted."""

    name: str = ""
    nodes: frozenset[str] = frozenset()

    def contains(self, nodes: frozenset[str]) -> bool:
        """Returns whether something on these nodes is in scope."""
        return not self.name or bool(self.nodes & nodes)
