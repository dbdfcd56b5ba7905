"""Who is next to an entity, kind by kind, by the topology alone: what a fleet's size does not make dearer."""

from collections.abc import Iterable, Iterator

from skewscope.engine.places import GROUP_LIKE, NODE_BOUND, Entity, Places
from skewscope.engine.topology import Topology


def neighbours(entity: Entity, kind: str, places: Places) -> list[str]:
    """Names of the entities of a kind on the entity's node or in its groups, the pools of these, and itself; sorted.

    Where both kinds sit on a node it must be the same one: another member that is late does not make this link bad.
    """
    place, topology = places.of(entity), places.topology
    nodes = {name.removeprefix("node:") for name in place.nodes}
    groups = {name.removeprefix("group:") for name in place.groups}
    pools = {name.removeprefix("pool:") for name in place.pools}
    wanted = place.own | place.nodes
    if entity.kind not in NODE_BOUND or kind not in NODE_BOUND:
        wanted |= place.groups | place.pools
        nodes |= {topology.node_of[m] for g in groups if g in topology.group for m in topology.group[g].members}
    named = pools if kind == "pool" else _named(kind, nodes, groups, topology)
    found = {name for name in named if _shares(Entity(kind, name), wanted, places)}
    return sorted(found | ({entity.name} if entity.kind == kind else set()))


def _shares(entity: Entity, wanted: frozenset[str], places: Places) -> bool:
    place = places.of(entity)
    return not wanted.isdisjoint(place.own | place.nodes | place.groups)


def _named(kind: str, nodes: Iterable[str], groups: Iterable[str], topology: Topology) -> Iterator[str]:
    """Entities of a kind on some nodes or in some groups. Links and peers are no members of anything that is listed."""
    if kind in GROUP_LIKE:
        yield from groups
    elif kind == "rank":
        yield from (f"{g}:{m}" for g in groups if g in topology.group for m in topology.group[g].members)
    elif kind == "node":
        yield from nodes
    known = [topology.node[name] for name in nodes if name in topology.node]
    if kind == "gpu":
        yield from (f"{node.name}/gpu{n}" for node in known for n in range(node.gpus))
    elif kind == "port":
        yield from (port.id for node in known for port in node.ports)
