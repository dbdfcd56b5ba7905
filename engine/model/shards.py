"""Cuts a topology into shards: sets of nodes of limited size between which little crosses.

Groups and pools stay whole, because their members are compared with one another. What shares racks, switches and links
stays together as far as the sizes allow. A cut that knows the one before it moves only what it must.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skewscope.engine.model.topology import Node, Topology

SHARD_NAME = "shard{:04d}"


@dataclass(frozen=True, slots=True)
class ShardSizes:
    """Numbers of nodes in a shard."""

    least: int = 64
    """A smaller shard is joined with another one of its fleet, unless they are too many together."""
    aim: int = 1000
    """New shards grow up to this size."""
    most: int = 5000
    """A larger shard is cut, unless one group or pool alone is larger."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """Nodes that must stay together: those of groups and pools that share nodes; or one node."""

    nodes: tuple[str, ...]
    """In the order of the topology."""
    fleet: str
    places: frozenset[str]
    """Racks, switches and nodes at the other ends of links."""


def cut_topology(topology: Topology, sizes: ShardSizes, before: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the name of each node's shard, by the name of the node.

    Args:
        topology: the whole fleet.
        sizes: limits on the number of nodes.
        before: the result for an earlier topology.
    """
    cut = _Cut(sizes, before or {})
    for unit in _find_units(topology):
        cut.place_known(unit)
    cut.place_new()
    cut.split_large()
    cut.join_small()
    # In the order of the topology, so that equal cuts print alike.
    return {node.name: cut.shard_of[node.name] for node in topology.nodes}


def shard_topologies(topology: Topology, shard_of: Mapping[str, str]) -> dict[str, Topology]:
    """Returns the topology of each shard, by its name; a link that leaves a shard has no peer there.

    Args:
        topology: the whole fleet.
        shard_of: the name of each node's shard.
    """
    names = sorted(set(shard_of.values()))
    if len(names) == 1:
        return {names[0]: topology}
    nodes: dict[str, list[Node]] = {name: [] for name in names}
    for node in topology.nodes:
        nodes[shard_of[node.name]].append(_without_foreign_peers(node, shard_of))
    of_group = {g.name: shard_of[topology.node_of[g.members[0]]] for g in topology.groups}
    return {
        name: Topology(
            tuple(nodes[name]),
            tuple(group for group in topology.groups if of_group[group.name] == name),
            tuple(pool for pool in topology.pools if of_group[pool.replicas[0]] == name),
        )
        for name in names
    }


def _without_foreign_peers(node: Node, shard_of: Mapping[str, str]) -> Node:
    own = shard_of[node.name]
    if all(shard_of.get(port.peer_node, own) == own for port in node.ports):
        return node
    ports = (replace(p, peer="") if shard_of.get(p.peer_node, own) != own else p for p in node.ports)
    return replace(node, ports=tuple(ports))


# --- units


class _Sets:
    """Disjoint sets of numbers (R. E. Tarjan, 1975)."""

    def __init__(self, size: int) -> None:
        self.parent = list(range(size))

    def find(self, n: int) -> int:
        while self.parent[n] != n:
            self.parent[n] = n = self.parent[self.parent[n]]
        return n

    def join(self, numbers: Iterable[int]) -> None:
        roots = {self.find(n) for n in numbers}
        first = min(roots, default=0)
        for root in roots:
            self.parent[root] = first

    def members(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for n in range(len(self.parent)):
            found.setdefault(self.find(n), []).append(n)
        return found


def _find_units(topology: Topology) -> list[_Unit]:
    """Returns the units in the order of their first nodes."""
    number = {node.name: n for n, node in enumerate(topology.nodes)}
    sets = _Sets(len(topology.nodes))
    members: dict[str, list[int]] = {}
    for group in topology.groups:
        ends = [group.front_end] if group.front_end else []
        members[group.name] = [number[topology.node_of[m]] for m in group.members] + [number[end] for end in ends]
        sets.join(members[group.name])
    for pool in topology.pools:
        sets.join(n for replica in pool.replicas for n in members[replica])
    return [_build_unit([topology.nodes[n] for n in numbers]) for numbers in sets.members().values()]


def _build_unit(nodes: Sequence[Node]) -> _Unit:
    places = frozenset(place for node in nodes for place in _places_of(node))
    return _Unit(tuple(node.name for node in nodes), nodes[0].fleet, places)


def _places_of(node: Node) -> Iterator[str]:
    """Yields what a node shares with its neighbours; a switch that is a node itself is a place, too."""
    yield f"switch:{node.name}"
    if node.rack:
        yield f"rack:{node.rack}"
    for port in node.ports:
        if port.switch:
            yield f"switch:{port.switch}"
        if port.peer:
            yield f"switch:{port.peer_node}"


# --- the cut


@dataclass
class _Cut:
    """The shards so far."""

    sizes: ShardSizes
    before: Mapping[str, str]
    shard_of: dict[str, str] = field(default_factory=dict)
    _units: dict[str, list[_Unit]] = field(default_factory=dict)
    """By the name of their shard."""
    _count: dict[str, int] = field(default_factory=dict)
    """Nodes of each shard."""
    _at: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By place: how many nodes of each shard have it."""
    _new: list[_Unit] = field(default_factory=list)
    _last_number: int = 0

    def __post_init__(self) -> None:
        # A name is not given again while something may remember the shard that had it.
        self._last_number = max((_number_of(name) for name in self.before.values()), default=0)

    def place_known(self, unit: _Unit) -> None:
        """Leaves a unit where most of its nodes were; one that is new waits."""
        votes = Counter(self.before[node] for node in unit.nodes if node in self.before)
        if not votes:
            self._new.append(unit)
            return
        self._add(unit, min(votes, key=lambda name: (-votes[name], name)))

    def place_new(self) -> None:
        """Gives new units to shards that they share places with, and makes shards of the others."""
        rest = []
        for unit in self._new:
            shard = self._nearest(unit, self.sizes.most)
            if shard:
                self._add(unit, shard)
            else:
                rest.append(unit)
        self._open_shards(rest)

    def split_large(self) -> None:
        """Cuts shards that grew too large: their first part keeps the name."""
        for name in [name for name, count in self._count.items() if count > self.sizes.most]:
            units = self._units[name]
            if len(units) < 2:
                continue
            parts = _pack(units, self.sizes)
            kept = max(parts, key=_size)
            for part in parts:
                if part is not kept:
                    self._remove(part, name)
                    self._open(part)

    def join_small(self) -> None:
        """Joins shards that are too small with their nearest neighbours, the smallest first."""
        while any(self._join_small(name) for name in sorted(self._count, key=lambda one: (self._count[one], one))):
            pass

    def _join_small(self, name: str) -> bool:
        """Joins a shard with another one where it is too small and they have room; returns whether it did."""
        count, units = self._count[name], list(self._units[name])
        if count >= self.sizes.least:
            return False
        whole = _join_units(units)
        room = self.sizes.most - count
        alike = [other for other in self._count if other != name and self._fleet_of(other) == whole.fleet]
        others = [other for other in alike if self._count[other] <= room]
        if not others:
            return False
        self._remove(units, name)
        shared = self._shared(whole)
        best = min(others, key=lambda other: (-shared[other], self._count[other], other))
        for unit in units:
            self._add(unit, best)
        return True

    def _open_shards(self, units: Sequence[_Unit]) -> None:
        by_fleet: dict[str, list[_Unit]] = {}
        for unit in units:
            by_fleet.setdefault(unit.fleet, []).append(unit)
        for some in by_fleet.values():
            for part in _pack(some, self.sizes):
                self._open(part)

    def _open(self, units: Iterable[_Unit]) -> None:
        self._last_number += 1
        for unit in units:
            self._add(unit, SHARD_NAME.format(self._last_number))

    def _add(self, unit: _Unit, shard: str) -> None:
        self._units.setdefault(shard, []).append(unit)
        self._count[shard] = self._count.get(shard, 0) + len(unit.nodes)
        self.shard_of |= dict.fromkeys(unit.nodes, shard)
        for place in unit.places:
            self._at[place][shard] += len(unit.nodes)

    def _remove(self, units: Iterable[_Unit], shard: str) -> None:
        for unit in units:
            self._units[shard].remove(unit)
            self._count[shard] -= len(unit.nodes)
            for place in unit.places:
                self._at[place][shard] -= len(unit.nodes)
        if not self._units[shard]:
            del self._units[shard], self._count[shard]

    def _shared(self, unit: _Unit) -> Counter[str]:
        """Returns how much a unit shares with each shard; a place that is small itself says more."""
        found: Counter[str] = Counter()
        for place in sorted(unit.places):
            counts = self._at.get(place, Counter())
            total = sum(counts.values())
            for shard, count in counts.items():
                found[shard] += count * 1000 // max(total * total, 1) + (count > 0)
        return found

    def _nearest(self, unit: _Unit, most: int) -> str:
        """Returns the shard with room that shares most with a unit; '' where none shares anything."""
        shared = self._shared(unit)
        near = [s for s in shared if shared[s] and self._count.get(s, most) + len(unit.nodes) <= most]
        return min((s for s in near if self._fleet_of(s) == unit.fleet), key=lambda s: (-shared[s], s), default="")

    def _fleet_of(self, shard: str) -> str:
        return self._units[shard][0].fleet


def _number_of(name: str) -> int:
    digits = name.removeprefix("shard")
    return int(digits) if digits.isdecimal() else 0


def _size(units: Iterable[_Unit]) -> int:
    return sum(len(unit.nodes) for unit in units)


def _join_units(units: Sequence[_Unit]) -> _Unit:
    places = frozenset().union(*(unit.places for unit in units))
    return _Unit(tuple(node for unit in units for node in unit.nodes), units[0].fleet, places)


def _pack(units: Sequence[_Unit], sizes: ShardSizes) -> list[list[_Unit]]:
    """Returns parts of units of one fleet, each up to the size aimed at; a last one too small joins its neighbour."""
    parts: list[list[_Unit]] = []
    for block in _blocks(units, sizes.aim):
        if parts and _size(parts[-1]) + _size(block) <= sizes.aim:
            parts[-1] += block
        else:
            parts.append(list(block))
    if len(parts) > 1 and _size(parts[-1]) < sizes.least and _size(parts[-1]) + _size(parts[-2]) <= sizes.most:
        last = parts.pop()
        parts[-1] += last
    return parts


def _blocks(units: Sequence[_Unit], most: int) -> list[list[_Unit]]:
    """Returns units joined by shared places, the smallest places first, while they are few enough together."""
    at: dict[str, list[int]] = {}
    for n, unit in enumerate(units):
        for place in unit.places:
            at.setdefault(place, []).append(n)
    sets, size = _Sets(len(units)), [len(unit.nodes) for unit in units]
    for _, numbers in sorted(at.items(), key=lambda item: (sum(len(units[n].nodes) for n in item[1]), item[0])):
        roots = {sets.find(n) for n in numbers}
        total = sum(size[root] for root in roots)
        if total <= most:
            sets.join(roots)
            size[min(roots)] = total
    return [[units[n] for n in numbers] for numbers in sets.members().values()]
