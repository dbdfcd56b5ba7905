"""Where an entity is: what it shares with others, what it is called, how many a fault on it hits."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skewscope.engine.model.arrays import Index
from skewscope.engine.model.incident import BlastRadius
from skewscope.engine.model.topology import Entity, Topology
from skewscope.rules.entity_kinds import GROUP_LIKE

__all__ = ["NODE_BOUND", "Entity", "EntityLocation", "LocalityIndex", "NeighbourIndex"]

NODE_BOUND = ("gpu", "rank", "port", "link", "peer", "node")
"""Kinds that sit on one node (a link on two)."""
MAX_NAME_LISTS = 64
"""Lists of names that are indexed at a time."""


@dataclass(frozen=True, slots=True)
class EntityLocation:
    """What an entity is, lies on and belongs to, as tokens like `node:n2` or `pool:lab`."""

    self_tokens: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    """Switches and racks: shared by many that have nothing else to do with each other."""

    @property
    def domains(self) -> frozenset[str]:
        """What can fail as a whole."""
        return self.groups | self.paths

    def shared_domains(self, kind: str) -> frozenset[str]:
        """The domains of an entity of a kind; replicas share their pool's arrivals, and GPUs their host."""
        own = self.pools if kind == "replica" else self.nodes if kind == "gpu" else frozenset()
        return self.domains | own


class LocalityIndex:
    """The topology asked from the entities' side."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._locations: dict[Entity, EntityLocation] = {}
        self._facts: dict[Entity, Mapping[str, str | int]] = {}
        self._works: dict[Entity, str] = {}

    def prepare(self) -> None:
        """Lays out what the first fault would otherwise wait for: for a large fleet that takes a while."""
        for table in ("_ranks", "_groups_at", "_pools", "_rails", "_sizes", "_replicas"):
            getattr(self, table)

    def location_of(self, entity: Entity) -> EntityLocation:
        """The place of an entity; one that the topology does not know is only itself."""
        place = self._locations.get(entity)
        if place is None:
            place = self._locations[entity] = self._locate(entity)
        return place

    def merged_location(self, entities: Sequence[Entity]) -> EntityLocation:
        """The places of several entities as one."""
        if len(entities) == 1:
            return self.location_of(entities[0])
        places = [self.location_of(entity) for entity in entities]
        return EntityLocation(
            *(frozenset().union(*(getattr(p, name) for p in places)) for name in EntityLocation.__slots__)
        )

    def _locate(self, entity: Entity) -> EntityLocation:
        if entity.kind in GROUP_LIKE:
            return self._locate_group(entity)
        if entity.kind == "pool":
            own = frozenset([f"pool:{entity.name}"])
            return EntityLocation(self_tokens=own, pools=own)
        nodes = frozenset(self.nodes_of(entity.kind, entity.name))
        groups = frozenset(f"group:{g}" for g in self._groups(entity, nodes))
        return EntityLocation(
            self_tokens=frozenset([f"{entity.kind}:{entity.name}"]),
            nodes=frozenset(f"node:{n}" for n in nodes),
            groups=groups,
            pools=self._pools_of(groups),
            paths=self._paths(entity, nodes),
        )

    def _locate_group(self, entity: Entity) -> EntityLocation:
        own = frozenset([f"group:{entity.name}"])
        nodes = self._members.get(entity.name, frozenset())
        paths = frozenset(p for n in nodes for p in self._node_paths.get(n, ()))
        return EntityLocation(self_tokens=own, groups=own, pools=self._pools_of(own), paths=paths)

    def _pools_of(self, groups: Iterable[str]) -> frozenset[str]:
        return frozenset(p for g in groups for p in self._pools.get(g.removeprefix("group:"), ()))

    def nodes_of(self, kind: str, name: str) -> Collection[str]:
        """Names of the nodes that an entity lies on."""
        if kind == "rank":
            member = self._rank(name)[1]
            return (self.topology.node_of.get(member, member),)
        if kind in ("port", "link", "peer"):
            return {self._node_of_port(end) for end in name.split(">")} if ">" in name else (self._node_of_port(name),)
        if kind == "gpu":
            return (name.rsplit("/", 1)[0],)
        return (name,) if kind == "node" else ()

    def nodes_of_group(self, name: str) -> Collection[str]:
        """Names of the nodes of a group's members, and of its front end; none of a group that there is not."""
        group = self.topology.group.get(name)
        return self._members[name] | {group.front_end} if group else ()

    def _node_of_port(self, name: str) -> str:
        port = self.topology.port.get(name)
        return port.node if port else name.split("/", 1)[0]

    def _groups(self, entity: Entity, nodes: frozenset[str]) -> frozenset[str]:
        if entity.kind == "rank":
            return frozenset([self._rank(entity.name)[0]])
        names = {entity.name, *nodes} if entity.kind == "gpu" else nodes
        found = {g for name in names for g in self._groups_at.get(name, ())}
        if entity.kind != "gpu":
            return frozenset(found)
        # A GPU is not in the groups of its node's other GPUs, wherever their front end is.
        return frozenset(g for g in found if {entity.name, *nodes} & {*self.topology.group[g].members})

    def _paths(self, entity: Entity, nodes: frozenset[str]) -> frozenset[str]:
        ports = [self.topology.port.get(end) for end in entity.name.split(">")]
        if entity.kind in ("port", "link", "peer") and any(p and p.switch for p in ports):
            return frozenset(f"switch:{p.switch}" for p in ports if p and p.switch)
        return frozenset(path for n in nodes for path in self._node_paths.get(n, ()))

    @cached_property
    def _ranks(self) -> dict[str, tuple[str, str]]:
        return {f"{g.name}:{m}": (g.name, m) for g in self.topology.groups for m in g.members}

    def _rank(self, name: str) -> tuple[str, str]:
        """Group and member of a rank."""
        found = self._ranks.get(name)
        if found:
            return found
        group, _, member = name.partition(":")
        return group, member

    @cached_property
    def _members(self) -> dict[str, frozenset[str]]:
        """Names of the nodes of each group."""
        node_of = self.topology.node_of
        return {g.name: frozenset(node_of[m] for m in g.members) for g in self.topology.groups}

    @cached_property
    def _groups_at(self) -> dict[str, list[str]]:
        """Groups by node and by member; a front end counts."""
        found: dict[str, set[str]] = {}
        for group in self.topology.groups:
            ends = [group.front_end] if group.front_end else []
            for name in (*self._members[group.name], *group.members, *ends):
                found.setdefault(name, set()).add(group.name)
        return {name: sorted(groups) for name, groups in found.items()}

    @cached_property
    def _pools(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for pool in self.topology.pools:
            for replica in pool.replicas:
                found.setdefault(replica, []).append(f"pool:{pool.name}")
        return found

    @cached_property
    def _node_paths(self) -> dict[str, frozenset[str]]:
        return {
            node.name: frozenset(
                [f"switch:{p.switch}" for p in node.ports if p.switch] + ([f"rack:{node.rack}"] if node.rack else [])
            )
            for node in self.topology.nodes
        }

    @cached_property
    def _rails(self) -> dict[str, int]:
        """Ports of each node into the compute network."""
        nodes = self.topology.nodes
        return {node.name: sum(port.network == "east-west" for port in node.ports) for node in nodes}

    @cached_property
    def _sizes(self) -> dict[tuple[str, bool], int]:
        """How many nodes, or groups, lie in each domain; of a node, how many GPUs."""
        sizes = {(f"node:{node.name}", False): node.gpus for node in self.topology.nodes}
        for group in self.topology.groups:
            sizes[f"group:{group.name}", False] = len(group.members)
            for path in self._locate(Entity("group", group.name)).paths:
                sizes[path, True] = sizes.get((path, True), 0) + 1
        for pool in self.topology.pools:
            sizes[f"pool:{pool.name}", True] = len(pool.replicas)
        for paths in self._node_paths.values():
            for path in paths:
                sizes[path, False] = sizes.get((path, False), 0) + 1
        return sizes

    def domain_size(self, domain: str, kind: str) -> int:
        """How many entities of a kind a domain could show a fault on, in whole nodes or groups; 0 when not known.

        Of a node only its GPUs count.
        """
        return self._sizes.get((domain, kind in GROUP_LIKE), 0)

    def nodes_in(self, domain: str) -> Collection[str]:
        """Names of the nodes in a group, or behind a switch or in a rack."""
        what, _, name = domain.partition(":")
        return self._members.get(name, ()) if what == "group" else self._nodes_at.get(domain, ())

    @cached_property
    def _nodes_at(self) -> dict[str, list[str]]:
        """Nodes by switch and rack."""
        found: dict[str, list[str]] = {}
        for node, paths in self._node_paths.items():
            for path in paths:
                found.setdefault(path, []).append(node)
        return found

    def flow_ports(self, entity: Entity) -> frozenset[str]:
        """The ports at which a flow through this entity shows: its own and, where known, the other one."""
        if entity.kind not in ("port", "link", "peer"):
            return frozenset()
        names = entity.name.split(">")
        ports = [self.topology.port.get(name) for name in names]
        return frozenset([*names, *(p.peer for p in ports if p and p.peer)])

    def display_name(self, entity: Entity) -> tuple[str, str]:
        """Kind and name as people see them: a rank is called by its member."""
        if entity.kind == "rank":
            return "rank", self._rank(entity.name)[1]
        return "link" if entity.kind == "peer" else entity.kind, entity.name

    def blast_radius(self, entities: Iterable[Entity]) -> BlastRadius:
        """How many are hit: a group waits for its slowest member, so a member hits the group and all of its nodes."""
        nodes: set[str] = set()
        groups: set[str] = set()
        for entity in sorted(entities):
            place = self.location_of(entity)
            nodes |= {n.removeprefix("node:") for n in place.nodes}
            groups |= {g.removeprefix("group:") for g in place.groups} | set(self._groups_within(entity))
        hit = [g for g in groups if g in self.topology.group]
        for group in hit:
            nodes |= self._members[group]
        return BlastRadius(len(nodes), len(hit), sum(1 for g in hit if g in self._pools))

    def _groups_within(self, entity: Entity) -> list[str]:
        """The groups in a pool or in the fleet."""
        if entity.kind == "fleet":
            return [g.name for g in self.topology.groups]
        return list(self._replicas.get(f"pool:{entity.name}", ())) if entity.kind == "pool" else []

    @cached_property
    def _replicas(self) -> dict[str, tuple[str, ...]]:
        return {f"pool:{pool.name}": pool.replicas for pool in self.topology.pools}

    def replicas_of(self, pools: Iterable[str]) -> frozenset[str]:
        """The replicas of some pools; all of them tokens."""
        return frozenset(f"group:{replica}" for pool in pools for replica in self._replicas.get(pool, ()))

    def topology_facts(self, entity: Entity) -> Mapping[str, str | int]:
        """What policies may ask of the place: the properties of a `topology` fact."""
        if entity not in self._facts:
            self._facts[entity] = self._build_facts(entity)
        return self._facts[entity]

    def work_of(self, entity: Entity) -> str:
        """What an entity works on as far as the topology tells: inference, training, or '' for both and for unknown."""
        if entity not in self._works:
            self._works[entity] = self._find_work(entity)
        return self._works[entity]

    def _find_work(self, entity: Entity) -> str:
        place = self.location_of(entity)
        names = {g.removeprefix("group:") for g in place.groups}
        groups = [self.topology.group[g] for g in sorted(names) if g in self.topology.group]
        serves = [group.name in self.topology.serving_groups for group in groups]
        if place.pools and all(serves):
            return "inference"
        if any(serves) or place.pools:
            # Groups within a replica, such as its tensor-parallel ones, serve as well; others train.
            told = list(zip(groups, serves, strict=True))
            behind = {node for group, serving in told if serving for node in self._members[group.name]}
            within = all(self._members[group.name] <= behind for group, serving in told if not serving)
            return "inference" if within else ""
        # Only training has replicas that average gradients and no door for requests.
        return "training" if any(g.kind == "data-parallel" for g in groups) else ""

    def _build_facts(self, entity: Entity) -> Mapping[str, str | int]:
        place = self.location_of(entity)
        names = sorted(g.removeprefix("group:") for g in place.groups)
        groups = [self.topology.group[g] for g in names if g in self.topology.group]
        mine = {g.name for g in groups}
        ends = {g.front_end for g in groups}
        members = min((len(g.members) for g in groups), default=0)
        on = {n.removeprefix("node:") for n in place.nodes} or {n for g in mine for n in self._members[g]}
        return {
            "parallelism": groups[0].kind if groups else "none",
            "members": members,
            "nodes": self.blast_radius([entity]).nodes,
            "siblings": len({r for p in place.pools for r in self._replicas.get(p, ())} - mine),
            "rails": min((self._rails.get(name, 0) for name in on), default=0),
            "front_end": "yes" if {n.removeprefix("node:") for n in place.nodes} & ends else "no",
        }


class NeighbourIndex:
    """Entities by node or token, so that a search near a location does not scan the fleet."""

    def __init__(self, locality: LocalityIndex) -> None:
        self.locality = locality
        self._indexes: dict[tuple[str, int], tuple[tuple[str, ...], Mapping[str, Sequence[int]]]] = {}

    def find_near(self, kind: str, names: tuple[str, ...], tokens: Collection[str]) -> Index:
        """Returns the sorted indices in `names` of the entities of a kind that have one of the tokens."""
        index = self.index_of(kind, names)
        if kind not in NODE_BOUND:
            return np.array(sorted({i for token in tokens for i in index.get(token, ())}), np.intp)
        # An entity that shares a group lies on a node of the group, or on its front end.
        nodes = {node for token in tokens for node in self._nodes_of(token)}
        around = sorted({i for node in nodes for i in index.get(node, ())})
        wanted = frozenset(tokens)
        return np.array([i for i in around if wanted & self.tokens(Entity(kind, names[i]))], np.intp)

    def prepare(self, lists: Iterable[tuple[str, tuple[str, ...]]]) -> bool:
        """Index one more of the (kind, names) in a tick without alerts; returns whether there was one.

        The first fault then does not wait for it.
        """
        return not self.is_full and any(self.add_names(kind, names) for kind, names in lists)

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

    def index_of(self, kind: str, names: tuple[str, ...]) -> Mapping[str, Sequence[int]]:
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
