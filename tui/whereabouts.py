"""On which nodes something lies: what a scope is compared with. Pure."""

from dataclasses import dataclass, field

from skewscope.engine.incident import Incident
from skewscope.engine.places import Entity, Places
from skewscope.engine.topology import Topology


@dataclass
class Whereabouts:
    """The topology asked for the nodes of anything that has a name in it."""

    topology: Topology
    _places: Places = field(init=False)
    _known: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = Places(self.topology)

    def nodes(self, kind: str, name: str) -> frozenset[str]:
        """Names of the nodes of an entity, as series or incidents name it."""
        if (kind, name) not in self._known:
            self._known[kind, name] = self._found(kind, name)
        return self._known[kind, name]

    def _found(self, kind: str, name: str) -> frozenset[str]:
        topology = self.topology
        if kind == "fleet":
            return frozenset(topology.node)
        if kind == "pool":
            replicas = next((pool.replicas for pool in topology.pools if pool.name == name), ())
            return frozenset().union(*(self.nodes("group", replica) for replica in replicas))
        if kind in ("group", "replica"):
            group = topology.group.get(name)
            return frozenset(topology.node_of[m] for m in group.members) if group else frozenset()
        if kind == "rank" and ":" not in name:
            return frozenset([topology.node_of.get(name, name)])
        if kind == "link":
            ends = name.replace("--", ">").split(">")
            return frozenset(node for end in ends for node in self.nodes("port", end))
        return frozenset(n.removeprefix("node:") for n in self._places.of(Entity(kind, name)).nodes)

    def of(self, incident: Incident) -> frozenset[str]:
        """The nodes that an incident is on, with all other members that it hits."""
        return frozenset().union(*(self.nodes(incident.kind, name) for name in (incident.name, *incident.also)))


@dataclass(frozen=True, slots=True)
class Scope:
    """What all screens are narrowed to."""

    name: str = ""
    nodes: frozenset[str] = frozenset()

    def holds(self, nodes: frozenset[str]) -> bool:
        """Whether something on these nodes is shown."""
        return not self.name or bool(self.nodes & nodes)
