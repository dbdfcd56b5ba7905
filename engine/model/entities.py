"""The topology as numbers: each entity of a kind has an index, and containment is an array of indices."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.sets import F64, EntitySets, Index, build_sets
from skewscope.engine.model.topology import FLEET, Group, Topology
from skewscope.rules.entity_kinds import CONTAINERS, KINDS
from skewscope.rules.expression import Peers
from skewscope.rules.model import EntityFilter

INITIAL_PEER_CAPACITY = 64


class EntityIndex:
    """Names and numbers of all entities of a topology. Peers (`a/p>b/q`) and links may be added as they are seen."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.names: dict[str, list[str]] = {kind: _NAMES_BY_KIND[kind](topology) for kind in KINDS}
        self.numbers: dict[str, dict[str, int]] = {
            kind: {name: n for n, name in enumerate(names)} for kind, names in self.names.items()
        }
        self.version = 0
        """Grows when the number of places of a kind does: arrays of that kind must be made longer."""
        self._capacity = {kind: len(names) for kind, names in self.names.items()}
        self._container_indexes: dict[tuple[str, str], Index] = {}
        self._part_sets: dict[tuple[str, str], EntitySets] = {}
        self._peer_sets: dict[Peers, EntitySets] = {}
        self._shared_names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def count(self, kind: str) -> int:
        """Length of an array with one value for each entity of a kind, with room for those not yet seen."""
        return self._capacity[kind]

    def known_count(self, kind: str) -> int:
        """How many entities of a kind there are."""
        return len(self.names[kind])

    def get_or_add(self, kind: str, name: str) -> int:
        """The number of an entity, a new one for a peer or link that was not known; -1 for any other stranger."""
        found = self.numbers[kind].get(name)
        if found is None:
            found = self._append(kind, name) if kind in {"peer", "link"} and self._is_valid(kind, name) else -1
        return found

    def _is_valid(self, kind: str, name: str) -> bool:
        return kind == "link" or name.partition(">")[0] in self.numbers["port"]

    def _append(self, kind: str, name: str) -> int:
        number = self.numbers[kind][name] = len(self.names[kind])
        self.names[kind].append(name)
        if len(self.names[kind]) > self._capacity[kind]:
            self._capacity[kind] = max(INITIAL_PEER_CAPACITY, 2 * self._capacity[kind])
            self.version += 1
        self._invalidate(kind)
        return number

    def _invalidate(self, kind: str) -> None:
        self._container_indexes = {pair: found for pair, found in self._container_indexes.items() if kind not in pair}
        self._part_sets = {pair: found for pair, found in self._part_sets.items() if kind not in pair}
        self._peer_sets = {peers: found for peers, found in self._peer_sets.items() if peers.kind != kind}

    def container_index(self, lower: str, upper: str) -> Index:
        """For each `lower`, the number of the `upper` it lies in, or -1."""
        if (lower, upper) not in self._container_indexes:
            found = np.full(self.count(lower), -1, np.intp)
            names, numbers = self.names[lower], self.numbers[upper]
            found[: len(names)] = [numbers.get(name, -1) for name in self._containers(lower, upper)]
            self._container_indexes[lower, upper] = found
        return self._container_indexes[lower, upper]

    def _containers(self, lower: str, upper: str) -> Iterable[str]:
        names = self.names[lower]
        if upper == "fleet" and len(self.names["fleet"]) == 1:
            return self.names["fleet"] * len(names)
        direct = self._direct_containers.get((lower, upper))
        if direct:
            return [direct(name) for name in names]
        through = next(
            mid for mid in CONTAINERS[lower] if (lower, mid) in self._direct_containers and upper in CONTAINERS[mid]
        )
        step = self._direct_containers[lower, through]
        known = dict(zip(self.names[through], self._containers(through, upper), strict=True))
        return [known.get(step(name), "") for name in names]

    @cached_property
    def _direct_containers(self) -> Mapping[tuple[str, str], Callable[[str], str]]:
        topology = self.topology
        pool_of = {replica: pool.name for pool in reversed(topology.pools) for replica in pool.replicas}
        replicas_of = {pool.name: pool.replicas for pool in topology.pools}

        def fleet_of_group(name: str) -> str:
            members = topology.group[name].members if name in topology.group else ()
            return next((topology.node[topology.node_of[member]].fleet for member in members), "")

        def fleet_of_port(name: str) -> str:
            return topology.node[topology.port[name].node].fleet if name in topology.port else ""

        return {
            ("peer", "port"): lambda name: name.partition(">")[0],
            ("node", "fleet"): lambda name: topology.node[name].fleet,
            ("group", "fleet"): fleet_of_group,
            ("pool", "fleet"): lambda name: fleet_of_group(next(iter(replicas_of[name]), "")),
            ("link", "fleet"): lambda name: fleet_of_port(name.partition("--")[0]),
            ("port", "node"): lambda name: topology.port[name].node,
            ("gpu", "node"): lambda name: name.rsplit("/", 1)[0],
            ("rank", "group"): self.group_of_rank.__getitem__,
            ("rank", "node"): lambda name: topology.node_of.get(self.member_of_rank[name], ""),
            ("group", "replica"): lambda name: name,
            ("replica", "group"): lambda name: name,
            ("replica", "pool"): lambda name: pool_of.get(name, ""),
        }

    @cached_property
    def group_of_rank(self) -> Mapping[str, str]:
        """Group names by rank (`group:member`)."""
        return {f"{group.name}:{m}": group.name for group in self.topology.groups for m in group.members}

    @cached_property
    def member_of_rank(self) -> Mapping[str, str]:
        """Members (a node or `node/gpuN`) by rank."""
        return {f"{group.name}:{m}": m for group in self.topology.groups for m in group.members}

    def part_sets(self, part: str, whole: str) -> EntitySets:
        """For each `whole`, its parts: what lies in it, or else what lies on its nodes."""
        if (part, whole) not in self._part_sets:
            self._part_sets[part, whole] = self._build_part_sets(part, whole)
        return self._part_sets[part, whole]

    def _build_part_sets(self, part: str, whole: str) -> EntitySets:
        if whole in CONTAINERS[part]:
            return build_sets(_invert(self.container_index(part, whole)), self.count(whole))
        on_node = self._on_node(part)
        if part == "gpu" and whole in {"rank", "group", "replica", "pool"}:
            found = [self._gpus(members, on_node) for members in self._members(whole)]
        else:
            found = [sorted({n for node in nodes for n in on_node.get(node, ())}) for nodes in self._nodes(whole)]
        return build_sets(found, self.count(whole))

    def _on_node(self, part: str) -> Mapping[int, Sequence[int]]:
        if part == "node":
            return {n: [n] for n in range(self.count("node"))}
        if "node" in CONTAINERS[part]:
            return _invert(self.container_index(part, "node"))
        found: dict[int, list[int]] = defaultdict(list)
        for number, nodes in enumerate(self._nodes(part)):
            for node in nodes:
                found[node].append(number)
        return found

    def _nodes(self, kind: str) -> list[list[int]]:
        """The nodes of each entity of a kind."""
        if kind == "node":
            return [[n] for n in range(self.count("node"))]
        if kind == "link":
            return [[] for _ in range(self.count("link"))]
        if "node" in CONTAINERS[kind]:
            return [[n] if n >= 0 else [] for n in self.container_index(kind, "node").tolist()]
        node_of, numbers = self.topology.node_of, self.numbers["node"]
        return [sorted({numbers[node_of[m]] for m in members}) for members in self._members(kind)]

    def _members(self, kind: str) -> list[tuple[str, ...]]:
        """The members of each rank, group, replica or pool: nodes or `node/gpuN`."""
        topology = self.topology
        if kind == "rank":
            return [(self.member_of_rank[name],) for name in self.names["rank"]]
        if kind == "pool":
            replicas = [[topology.group[r] for r in p.replicas if r in topology.group] for p in topology.pools]
            return [tuple(m for group in groups for m in group.members) for groups in replicas]
        return [topology.group[name].members if name in topology.group else () for name in self.names[kind]]

    def _gpus(self, members: Iterable[str], on_node: Mapping[int, Sequence[int]]) -> list[int]:
        gpus, nodes = self.numbers["gpu"], self.numbers["node"]
        found: set[int] = set()
        for member in members:
            found.update([gpus[member]] if member in gpus else on_node.get(nodes.get(member, -1), ()))
        return sorted(found)

    def sole_relative(self, kind: str, number: int, wanted: str) -> int:
        """The one entity of kind `wanted` in this one or that this one is in; -1 where there are none or several."""
        if kind in KINDS and wanted in CONTAINERS[kind]:
            return int(self.container_index(kind, wanted)[number])
        found = [b.members[b.owners == number] for b in self.part_sets(wanted, kind).buckets]
        inside = [int(n) for rows in found for row in rows for n in row if n >= 0]
        return inside[0] if len(inside) == 1 else -1

    def peer_sets(self, peers: Peers) -> EntitySets:
        """Classes of entities that are compared with one another."""
        if peers not in self._peer_sets:
            mask = self.mask_where(peers.kind, EntityFilter(peers.groups, peers.networks))
            labels = self._labels(peers)
            fleets = self._fleets(peers.kind)
            classes: dict[object, list[int]] = defaultdict(list)
            for n in range(len(self.names[peers.kind])):
                if mask[n] and labels[n] not in {None, "", -1}:
                    classes[fleets[n], labels[n]].append(n)
            self._peer_sets[peers] = build_sets(list(classes.values()), len(classes))
        return self._peer_sets[peers]

    def _fleets(self, kind: str) -> Sequence[int]:
        """The fleet of each entity, by number."""
        found: list[int] = (
            np.arange(self.count(kind)) if kind == "fleet" else self.container_index(kind, "fleet")
        ).tolist()
        return found

    def _labels(self, peers: Peers) -> Sequence[object]:
        """What each entity shares with its peers."""
        kind, by, topology = peers.kind, peers.by, self.topology
        names = self.names[kind]
        if by == "all":
            return ["all"] * len(names)
        if by in CONTAINERS[kind]:
            return list(self.container_index(kind, by))
        if by in {"network", "switch"}:
            return [getattr(topology.port[name], by) for name in names]
        if by == "rack":
            return [topology.node[name].rack for name in names]
        if by == "kind":
            groups = (self.group_of_rank.get(name, name) for name in names)
            return [topology.group[g].kind if g in topology.group else "" for g in groups]
        return self._in_group_of(kind, by)

    def _in_group_of(self, kind: str, group_kind: str) -> list[object]:
        """The first group of a kind to which each rank, node or gpu belongs."""
        member_of: dict[str, str] = {}
        hosts: dict[str, str] = {}
        for group in self.topology.groups:
            for member in group.members if group.kind == group_kind else ():
                member_of.setdefault(member, group.name)
                hosts.setdefault(self.topology.node_of[member], group.name)
        members = self.member_of_rank if kind == "rank" else {}
        found = [members.get(name, name) for name in self.names[kind]]
        # A node belongs where one of its GPUs does, a GPU only where itself or its whole node does.
        return [member_of.get(m) or member_of.get(m.rsplit("/", 1)[0]) or hosts.get(m) for m in found]

    def mask_where(self, kind: str, where: EntityFilter) -> NDArray[np.bool_]:
        """Which entities of a kind a restriction leaves."""
        mask = np.zeros(self.count(kind), bool)
        mask[: len(self.names[kind])] = True
        if where.networks and kind == "port":
            mask &= self.in_networks(where.networks)
        if where.groups or where.nodes or where.front_end:
            mask &= self._in_groups(kind, where)
        return mask

    def names_where(self, kind: str, where: EntityFilter) -> tuple[str, ...]:
        """The names of those that a restriction leaves: the same object whenever the same are asked for."""
        names = tuple(
            self.names[kind][n] for n in np.flatnonzero(self.mask_where(kind, where)[: len(self.names[kind])])
        )
        return self._shared_names.setdefault(names, names)

    def in_networks(self, networks: Iterable[str]) -> NDArray[np.bool_]:
        """Which ports are of these networks."""
        wanted = frozenset(networks)
        return np.array([self.topology.port[name].network in wanted for name in self.names["port"]], bool)

    def _matches_group(self, group: Group, where: EntityFilter) -> bool:
        if where.groups and group.kind not in where.groups:
            return False
        if where.front_end == "own" and group.name not in self._own_front_ends:
            return False
        if where.front_end == "none" and group.name in self.numbers["replica"]:
            return False
        return where.nodes in (0, len(self._nodes_of(group)))

    def _nodes_of(self, group: Group) -> frozenset[str]:
        return frozenset(self.topology.node_of[member] for member in group.members)

    @cached_property
    def _own_front_ends(self) -> frozenset[str]:
        """Groups whose front end is not that of a group on other nodes."""
        behind: dict[str, list[Group]] = defaultdict(list)
        for group in self.topology.groups:
            behind[group.front_end].append(group)
        behind.pop("", None)
        return frozenset(
            group.name for groups in behind.values() if _is_nested(map(self._nodes_of, groups)) for group in groups
        )

    def _in_groups(self, kind: str, where: EntityFilter) -> NDArray[np.bool_]:
        good = np.array([self._matches_group(self.topology.group[name], where) for name in self.names["group"]], bool)
        if kind == "group":
            return good
        mask = np.zeros(self.count(kind), bool)
        if kind in {"rank", "replica"}:
            up = self.container_index(kind, "group")
            return (up >= 0) & good[up] if len(good) else mask
        for bucket in self.part_sets(kind, "group").buckets:
            hit = bucket.members[good[bucket.owners]]
            mask[hit[hit >= 0]] = True
        return mask

    @cached_property
    def speed(self) -> F64:
        """Speed of each port in bytes per second; NaN where it is not known."""
        ports = self.topology.port
        return np.array([ports[name].speed or np.nan for name in self.names["port"]], np.float64)

    def size(self, kind: str) -> F64:
        """Number of members of each group or replica, of replicas of each pool."""
        if kind == "pool":
            return np.array([len(pool.replicas) for pool in self.topology.pools], np.float64)
        return np.array([len(members) or np.nan for members in self._members(kind)], np.float64)

    def front_end_index(self, kind: str) -> Index:
        """The number of the front-end node of each group or replica, or -1."""
        groups, nodes = self.topology.group, self.numbers["node"]
        found = [groups[name].front_end if name in groups else "" for name in self.names[kind]]
        return np.array([nodes.get(name, -1) for name in found], np.intp)


def _is_nested(sets: Iterable[frozenset[str]]) -> bool:
    """Whether all lie in the largest."""
    found = list(sets)
    return max(found, key=len) >= frozenset().union(*found)


def _invert(up: Index) -> Mapping[int, Sequence[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for lower, upper in enumerate(up.tolist()):
        if upper >= 0:
            found[upper].append(lower)
    return dict(sorted(found.items()))


def _links(topology: Topology) -> list[str]:
    """Cables that the topology names: both ends in alphabetical order, joined by two hyphens."""
    pairs = {tuple(sorted((port.id, port.peer))) for port in topology.port.values() if port.peer}
    return ["--".join(pair) for pair in sorted(pairs)]


def _replicas(topology: Topology) -> list[str]:
    """Groups that a pool names, or that have a front end of their own."""
    named = [replica for pool in topology.pools for replica in pool.replicas]
    fronted = [group.name for group in topology.groups if group.front_end]
    return list(dict.fromkeys([*named, *fronted]))


_NAMES_BY_KIND: Mapping[str, Callable[[Topology], list[str]]] = {
    "node": lambda t: [node.name for node in t.nodes],
    "port": lambda t: list(t.port),
    "gpu": lambda t: [f"{node.name}/gpu{n}" for node in t.nodes for n in range(node.gpus)],
    "rank": lambda t: [f"{group.name}:{member}" for group in t.groups for member in group.members],
    "group": lambda t: [group.name for group in t.groups],
    "replica": _replicas,
    "pool": lambda t: [pool.name for pool in t.pools],
    "link": _links,
    "fleet": lambda t: list(dict.fromkeys(node.fleet for node in t.nodes)) or [FLEET],
    "peer": lambda _: [],
}
