"""The topology of a fleet: nodes, ports, links, parallel groups, pools. Parsed by `engine.model.topology_file`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

FLEET = "fleet"
"""The name of a fleet, where there is only one."""
ON_NODE = ("node", "port", "gpu", "link", "peer")
"""Kinds of entities whose names begin with their node; a peer's is that of its observer."""
OF_GROUP = ("rank", "group", "replica")
"""Kinds of entities whose names begin with a group."""
TEXT_GONE = "gone: its place is no longer there"
"""How the history says that an incident ended with its place."""


class Entity(NamedTuple):
    """An entity as the series name it: a rank is `group:member`. A tuple, as it is a key almost everywhere."""

    kind: str
    name: str

    @property
    def key(self) -> str:
        """The one text that stands for it among the facts."""
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Port:
    """A network port of a node."""

    node: str
    name: str
    network: str
    """north-south or east-west."""
    speed: float | None = None
    """Bytes per second."""
    addresses: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    switch: str = ""
    peer: str = ""
    """`node/port` at the other end, where it is known."""

    @property
    def id(self) -> str:
        """`node/port`; the port's own name may hold slashes."""
        return f"{self.node}/{self.name}"

    @property
    def peer_node(self) -> str:
        """The node at the other end, or ''."""
        return self.peer.split("/", 1)[0]


@dataclass(frozen=True, slots=True)
class Node:
    """A server with its DPU."""

    name: str
    rack: str = ""
    gpus: int = 0
    sees: tuple[str, ...] = ()
    """Networks that the node's DPU sees."""
    ports: tuple[Port, ...] = ()
    fleet: str = FLEET
    """Nodes of different fleets are never compared with one another."""
    aliases: tuple[str, ...] = ()
    """Other host names and addresses of the node and its DPU."""
    gpu_ids: tuple[tuple[str, int], ...] = ()
    """UUIDs and PCI addresses of GPUs in canonical form, each with the index of its GPU."""
    hardware: str = ""
    """What it is made of, such as `8xH100`: nodes with the same text are as fast; '' for unknown."""
    needed_by: tuple[str, ...] = ()
    """Groups and pools that need it without having a member on it: it is their router or their file server."""


@dataclass(frozen=True, slots=True)
class Group:
    """A parallel group. Members are in rank order: a node's name, or `node/gpuN`."""

    name: str
    kind: str
    members: tuple[str, ...]
    front_end: str = ""
    engine: tuple[tuple[str, str], ...] = ()
    """Labels and values by which the series of its serving engine are told apart from those of others."""
    team: str = ""
    """Who owns it; '' for the team of its pool."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Replicas (named groups) that share a load balancer."""

    name: str
    replicas: tuple[str, ...]
    team: str = ""
    """Who owns it."""


@dataclass(frozen=True)
class Topology:
    """The cluster as it was described. Every name in it is known to exist."""

    nodes: tuple[Node, ...] = ()
    groups: tuple[Group, ...] = ()
    pools: tuple[Pool, ...] = ()

    @cached_property
    def node(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def racks(self) -> Mapping[str, frozenset[str]]:
        """The nodes of each rack, by its name; nodes without one are in ''."""
        found: dict[str, set[str]] = {}
        for node in self.nodes:
            found.setdefault(node.rack, set()).add(node.name)
        return {rack: frozenset(names) for rack, names in found.items()}

    @cached_property
    def teams(self) -> Mapping[str, frozenset[str]]:
        """The groups of each team, by its name; those without one are in ''."""
        of_pool = {replica: pool.team for pool in self.pools for replica in pool.replicas}
        found: dict[str, set[str]] = {}
        for group in self.groups:
            found.setdefault(group.team or of_pool.get(group.name, ""), set()).add(group.name)
        return {team: frozenset(names) for team, names in found.items()}

    def find_teams(self, groups: Iterable[str]) -> frozenset[str]:
        """Returns the teams that own any of some groups."""
        wanted = set(groups)
        return frozenset(team for team, names in self.teams.items() if team and names & wanted)

    @cached_property
    def group(self) -> Mapping[str, Group]:
        """Groups by name."""
        return {group.name: group for group in self.groups}

    @cached_property
    def serving_groups(self) -> frozenset[str]:
        """Names of the groups that serve requests."""
        replicas = {name for pool in self.pools for name in pool.replicas}
        return frozenset(
            group.name
            for group in self.groups
            if group.front_end or group.engine or group.kind == "prefill-decode" or group.name in replicas
        )

    @cached_property
    def port(self) -> Mapping[str, Port]:
        """Ports by `node/port`."""
        return {port.id: port for node in self.nodes for port in node.ports}

    def links_of(self, name: str) -> str:
        """Returns what names the parallel links of `node/port`: the nodes at both ends; or the name itself."""
        port = self.port.get(name)
        return f"{port.node} {port.peer_node}" if port is not None and port.peer else name

    @cached_property
    def port_of_address(self) -> Mapping[str, Port]:
        """Ports by address, as written in canonical form."""
        return {address: port for port in self.port.values() for address in port.addresses}

    @cached_property
    def port_of_device(self) -> Mapping[tuple[str, str], Port]:
        """Ports by (node, device name)."""
        return {(port.node, device): port for port in self.port.values() for device in port.devices}

    @cached_property
    def node_of(self) -> Mapping[str, str]:
        """The node of each member of any group: the member itself, or the part before `/gpuN`."""
        return {m: m if m in self.node else m.rsplit("/", 1)[0] for g in self.groups for m in g.members}

    @cached_property
    def work_of(self) -> Mapping[str, tuple[str, ...]]:
        """Returns, by member of groups, what tells its work from that of others: kinds and pools of its groups."""
        pools = {replica: pool.name for pool in self.pools for replica in pool.replicas}
        found: dict[str, set[str]] = {}
        for group in self.groups:
            for member in group.members:
                found.setdefault(member, set()).add(f"{group.kind} {pools.get(group.name, '')}".rstrip())
        return {member: tuple(sorted(work)) for member, work in found.items()}

    @cached_property
    def switches(self) -> frozenset[str]:
        """Nodes that only forward: they have links to others, no GPU, no DPU, no member, and nothing needs them."""
        named = {port.switch for port in self.port.values()} - {""}
        linked = named | {node.name for node in self.nodes if any(port.peer for port in node.ports)}
        computes = {node.name for node in self.nodes if node.gpus or node.sees or node.needed_by}
        return frozenset(linked - computes - self.groups_concerning.keys()) & self.node.keys()

    @cached_property
    def groups_on(self) -> Mapping[str, tuple[Group, ...]]:
        """The groups with a member on each node, by its name."""
        found: dict[str, dict[str, Group]] = {}
        for group in self.groups:
            for member in group.members:
                found.setdefault(self.node_of[member], {})[group.name] = group
        return {node: tuple(groups.values()) for node, groups in found.items()}

    @cached_property
    def groups_concerning(self) -> Mapping[str, tuple[Group, ...]]:
        """The groups with a member or their front end on each node, by its name, in the order of the topology."""
        found: dict[str, list[Group]] = {}
        for group in self.groups:
            for node in {group.front_end, *(self.node_of[member] for member in group.members)} - {""}:
                found.setdefault(node, []).append(group)
        return {node: tuple(groups) for node, groups in found.items()}

    @cached_property
    def groups_needing(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the groups that stand still without each node: those it concerns, and those it is needed by."""
        pools = {pool.name: pool.replicas for pool in self.pools}
        found = {name: [group.name for group in groups] for name, groups in self.groups_concerning.items()}
        for node in self.nodes:
            for name in node.needed_by:
                found.setdefault(node.name, []).extend(pools.get(name, (name,)))
        return {node: tuple(dict.fromkeys(names)) for node, names in found.items()}


def canonical_gpu_id(text: str) -> str:
    """Returns a UUID or PCI address in one form: lower case, a PCI domain of four digits."""
    short = text.strip().lower()
    domain, colon, rest = short.partition(":")
    return f"{domain[-4:].rjust(4, '0')}:{rest}" if colon and rest.count(":") == 1 else short


def merge_topologies(topologies: Iterable[Topology]) -> Topology:
    """Several topologies as one; where their fleets have different names they are strangers to each other."""
    found = list(topologies)
    return Topology(
        tuple(node for each in found for node in each.nodes),
        tuple(group for each in found for group in each.groups),
        tuple(pool for each in found for pool in each.pools),
    )


@dataclass(frozen=True, slots=True)
class GonePlaces:
    """Nodes and groups that have ended, by name."""

    nodes: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.groups)

    def without(self, others: "GonePlaces") -> "GonePlaces":
        """Returns the places that are not among others."""
        return GonePlaces(self.nodes - others.nodes, self.groups - others.groups)

    def has(self, entity: Entity) -> bool:
        """Returns whether an entity has ended: it, its group, or a node on which it lies."""
        if entity.kind in ON_NODE:
            ends = entity.name.replace(">", "--").split("--")
            return any(end.partition("/")[0] in self.nodes for end in ends)
        if entity.kind not in OF_GROUP:
            return False
        group, _, member = entity.name.partition(":")
        return group in self.groups or member.rpartition("/gpu")[0] in self.nodes or member in self.nodes
