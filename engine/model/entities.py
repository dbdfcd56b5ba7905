"""The topology as numbers: each entity of a kind has an index, and sets of entities are matrices of indices.

A function is computed within each set for all sets at once.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, MAX_NARROW, Index, append_value
from skewscope.engine.model.topology import FLEET, Group, Topology
from skewscope.rules.entity_kinds import CONTAINERS, KINDS
from skewscope.rules.expression import Peers
from skewscope.rules.model import EntityFilter


@dataclass(frozen=True)
class SetBucket:
    """Sets of similar size: row i of `members` are the indices in set `owners[i]`, -1 where there are no more."""

    owners: Index
    members: Index

    @cached_property
    def _is_full(self) -> bool:
        return bool((self.members >= 0).all())

    @cached_property
    def _begin(self) -> int:
        """Index of the first member if the members are consecutive and complete, else -1."""
        flat = self.members.ravel()
        straight = len(flat) > 0 and bool((flat == np.arange(flat[0], flat[0] + len(flat))).all())
        return int(flat[0]) if straight and self._is_full else -1

    @cached_property
    def is_narrow(self) -> bool:
        """Whether no set has more than `MAX_NARROW` members."""
        return bool(self.members.shape[1] <= MAX_NARROW)

    @cached_property
    def _transposed(self) -> Index:
        """The members, [widest, sets]."""
        return np.ascontiguousarray(self.members.T)

    @cached_property
    def _distinct_rows(self) -> tuple["SetBucket", Index] | None:
        """Of sets in a row that are the same the first one, and which of these each is; None where few are."""
        new = np.append(True, (self.members[1:] != self.members[:-1]).any(axis=1))
        first = np.flatnonzero(new)
        few = 2 * len(first) <= len(self.members)
        return (SetBucket(first, self.members[first]), np.cumsum(new) - 1) if few else None

    def gather(self, values: F64) -> F64:
        """[sets, widest] values of the members, not to be written to; NaN where there is none."""
        if self._begin >= 0:
            found = values[self._begin : self._begin + self.members.size].reshape(self.members.shape)
            return np.asfortranarray(found) if self.is_narrow else found
        values = values if self._is_full else append_value(np.asarray(values, np.float64), np.nan)
        return values[self._transposed].T if self.is_narrow else values[self.members]

    def reduce(self, values: F64, reduce: Callable[[F64], F64]) -> F64:
        """One value for each set, in the order of `owners`."""
        if self._distinct_rows is None:
            return reduce(self.gather(values))
        distinct, which = self._distinct_rows
        return distinct.reduce(values, reduce)[which]

    def scatter(self, found: F64, out: F64) -> None:
        """Writes [sets, widest] values to where the members are."""
        if self._begin >= 0:
            out[self._begin : self._begin + self.members.size].reshape(self.members.shape)[:] = found
        elif self.is_narrow:
            out[self._transposed] = found.T
        else:
            out[self.members] = found


def _flatten(matrix: Index) -> Index:
    """Returns the matrix as one row, in the order of its memory."""
    return matrix.ravel(order="F" if matrix.shape[1] <= MAX_NARROW else "C")


def _unflatten(flat: F64, shape: tuple[int, int]) -> F64:
    """Returns the matrix that `_flatten` made one row of."""
    return flat.reshape(shape, order="F" if shape[1] <= MAX_NARROW else "C")


@dataclass(frozen=True)
class SetSelection:
    """Some sets: what is computed for these needs the values of `members` alone."""

    members: Index
    """Of all buckets one after another, as `_flatten` orders them; any member where a row has no more."""
    rows: tuple[tuple[Index, Index, Index, NDArray[np.bool_]], ...]
    """For each bucket: its results, their rows and columns, and a [rows, widest] mask of absent members."""
    size: int
    """How many results there are."""

    def _matrices(self, values: F64) -> Iterator[F64]:
        begin = 0
        for _, _, _, absent in self.rows:
            matrix = _unflatten(values[begin : begin + absent.size], absent.shape)
            begin += absent.size
            yield np.where(absent, np.nan, matrix) if absent.any() else matrix

    def reduce(self, values: F64, reduce: Callable[[F64], F64]) -> F64:
        """One value for each set, from those of `members`; NaN for an empty one."""
        out = np.full(self.size, np.nan)
        for (at, row, _, _), matrix in zip(self.rows, self._matrices(values), strict=True):
            out[at] = reduce(matrix)[row]
        return out

    def map_members(self, values: F64, within: Callable[[F64], F64]) -> F64:
        """Returns [result] one value for each requested member; NaN for an entity in no set."""
        out = np.full(self.size, np.nan)
        for (at, row, column, _), matrix in zip(self.rows, self._matrices(values), strict=True):
            out[at] = within(matrix)[row, column]
        return out


@dataclass(frozen=True)
class EntitySets:
    """Sets of entities, bucketed by size: a set of ten thousand does not make the small ones wide."""

    owners: int
    """How many sets there may be."""
    buckets: tuple[SetBucket, ...]

    def reduce(self, values: F64, reduce: Callable[[F64], F64]) -> F64:
        """One value for each set; NaN for an empty one."""
        out = np.full(self.owners, np.nan)
        for bucket in self.buckets:
            out[bucket.owners] = bucket.reduce(values, reduce)
        return out

    def map_members(self, values: F64, within: Callable[[F64], F64]) -> F64:
        """Returns [entity] one value for each member, computed within its set; NaN for an entity in no set."""
        out = np.full(len(values) + 1, np.nan)
        for bucket in self.buckets:
            bucket.scatter(within(bucket.gather(values)), out)
        return out[:-1]

    def prepare(self, members: int = 0) -> None:
        """Compute in advance what selections need, by owner or, if given, by so many members."""
        if members:
            self._by_member(members)
        elif self.owners:
            self.select_owners(np.zeros(1, np.intp))

    def select_owners(self, owners: Index) -> SetSelection:
        """The sets of some owners."""
        bucket, row = self._by_owner
        return self._select(bucket[owners], row[owners], np.zeros(len(owners), np.intp))

    def select_containing(self, members: Index, count: int) -> SetSelection:
        """The sets that some of `count` entities are members of."""
        bucket, row, column = self._by_member(count)
        return self._select(bucket[members], row[members], column[members])

    def _select(self, bucket: Index, row: Index, column: Index) -> SetSelection:
        found, members = [], [np.empty(0, np.intp)]
        for number, one in enumerate(self.buckets):
            at = np.flatnonzero(bucket == number)
            if len(at):
                rows, place = np.unique(row[at], return_inverse=True)
                matrix = one.members[rows]
                found.append((at, place, column[at], matrix < 0))
                members.append(_flatten(np.maximum(matrix, 0)))
        return SetSelection(np.concatenate(members), tuple(found), len(bucket))

    @cached_property
    def _by_owner(self) -> tuple[Index, Index]:
        """The bucket and row of each owner's set; -1 where it has none."""
        bucket, row = np.full((2, self.owners), -1, np.intp)
        for number, one in enumerate(self.buckets):
            bucket[one.owners], row[one.owners] = number, np.arange(len(one.owners))
        return bucket, row

    @cached_property
    def _members(self) -> dict[int, tuple[Index, Index, Index]]:
        return {}

    def _by_member(self, count: int) -> tuple[Index, Index, Index]:
        """Returns [entity] bucket, row and column of each entity; -1 for an entity in no set."""
        if count not in self._members:
            bucket, row, column = np.full((3, count + 1), -1, np.intp)
            for number, one in enumerate(self.buckets):
                rows, columns = np.indices(one.members.shape)
                bucket[one.members], row[one.members], column[one.members] = number, rows, columns
            self._members[count] = bucket[:-1], row[:-1], column[:-1]
        return self._members[count]


def build_sets(members: Mapping[int, Sequence[int]] | Sequence[Sequence[int]], owners: int) -> EntitySets:
    """Sets by the indices of their members, given by owner."""
    items = members.items() if isinstance(members, Mapping) else enumerate(members)
    by_width: dict[int, list[tuple[int, Sequence[int]]]] = {}
    for owner, found in items:
        if found:
            by_width.setdefault((len(found) - 1).bit_length(), []).append((owner, found))
    return EntitySets(owners, tuple(_build_bucket(rows) for _, rows in sorted(by_width.items())))


def _build_bucket(rows: list[tuple[int, Sequence[int]]]) -> SetBucket:
    width = max(len(found) for _, found in rows)
    matrix = np.full((len(rows), width), -1, np.intp)
    for n, (_, found) in enumerate(rows):
        matrix[n, : len(found)] = found
    return SetBucket(np.array([owner for owner, _ in rows], np.intp), matrix)


# --- subsets of entities


@dataclass
class EntitySubset:
    """Some entities of a kind, with the values found for them and the related entities these depend on."""

    indices: Index
    values: dict[int, Any] = field(default_factory=dict)
    """By the number of the expression."""
    _related: dict[Hashable, "EntitySubset"] = field(default_factory=dict)
    _selections: dict[Hashable, SetSelection] = field(default_factory=dict)

    def related_subset(self, key: Hashable, at: Callable[[], Index]) -> "EntitySubset":
        """The entities of another kind that these are judged by."""
        if key not in self._related:
            self._related[key] = EntitySubset(at())
        return self._related[key]

    def select_sets(self, key: Hashable, pick: Callable[[], SetSelection]) -> SetSelection:
        """The sets that these belong to, or own."""
        if key not in self._selections:
            self._selections[key] = pick()
        return self._selections[key]


ArgumentFunction = Callable[[int, EntitySubset], Any]
"""Returns the n-th argument's values of some entities of its kind."""


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
            index = self.container_index(kind, by)
            # GPUs of one node that belong to groups of different kinds or pools do not do the same.
            work = topology.work_of if (kind, by) == ("gpu", "node") else {}
            return list(zip(index.tolist(), map(work.get, names), strict=False)) if work else list(index)
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
