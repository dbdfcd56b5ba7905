"""A draft of a topology as a topology, and one that is merged with what is declared."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from skewscope.adapters.discovery.draft import GroupDraft, NodeDraft, TopologyDraft
from skewscope.adapters.mapping.entities import EntityResolver
from skewscope.adapters.mapping.senders import find_labelled_node
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology, canonical_gpu_id
from skewscope.engine.model.topology_file import GROUP_WITHOUT, NODE_WITHOUT


def build_topology(draft: TopologyDraft) -> Topology:
    """Returns the topology of a draft, without what has no valid name or names what is not there."""
    nodes = {name: _build_node(node) for name, node in draft.nodes.items() if not set(name) & set(NODE_WITHOUT)}
    groups = {one.name: one for one in draft.groups if _is_valid(one, nodes)}
    pools: dict[str, list[str]] = defaultdict(list)
    for name, one in groups.items():
        if one.pool:
            pools[one.pool].append(name)
    return sort_topology(
        Topology(
            tuple(nodes.values()),
            tuple(Group(one.name, one.kind, one.members, one.front_end, one.engine) for one in groups.values()),
            tuple(Pool(name, tuple(replicas)) for name, replicas in pools.items()),
        )
    )


def sort_topology(topology: Topology, first: Topology | None = None) -> Topology:
    """Returns a topology in an order that depends on names only; what another one has comes first, in its order."""
    head = first or Topology()
    names = [one.name for one in head.nodes] + [one.name for one in head.groups] + [one.name for one in head.pools]
    ranks = {name: n for n, name in enumerate(names)}

    def key(one: Node | Group | Pool) -> tuple[int, str]:
        return ranks.get(one.name, len(ranks)), one.name

    declared = {pool.name: pool.replicas for pool in head.pools}
    pools = (
        replace(pool, replicas=(*own, *sorted(set(pool.replicas) - set(own))))
        for pool in topology.pools
        for own in (declared.get(pool.name, ()),)
    )
    return Topology(
        tuple(sorted(topology.nodes, key=key)), tuple(sorted(topology.groups, key=key)), tuple(sorted(pools, key=key))
    )


def _build_node(node: NodeDraft) -> Node:
    ports = tuple(
        Port(node.name, one.name, one.network, one.speed or None, one.addresses, one.devices, one.switch)
        for one in node.ports
    )
    ids = tuple((canonical_gpu_id(text), n) for n, text in enumerate(node.gpu_ids))
    return Node(node.name, node.rack or node.switch, node.gpus, (), ports, aliases=node.aliases, gpu_ids=ids)


def _is_valid(group: GroupDraft, nodes: Mapping[str, Node]) -> bool:
    return (
        bool(group.members)
        and not set(group.name) & set(GROUP_WITHOUT)
        and all(has_member(nodes, member) for member in group.members)
        and (not group.front_end or group.front_end in nodes)
    )


def has_member(nodes: Mapping[str, Node], member: str) -> bool:
    """Returns whether there is a node, or a GPU of one, of a name."""
    node, mark, number = member.rpartition("/gpu")
    if not mark:
        return member in nodes
    return node in nodes and number.isdecimal() and int(number) < nodes[node].gpus


def merge_into(declared: Topology, found: Topology) -> Topology:
    """Returns what is declared, and what was found besides: what both have is as it is declared."""
    if not declared.nodes:
        return found
    resolver = EntityResolver(declared)
    names = {
        node.name: next(
            (known for host in (node.name, *node.aliases) if (known := find_labelled_node(resolver, {"host": host}))),
            node.name,
        )
        for node in found.nodes
    }
    nodes = {
        **{node.name: node for node in found.nodes if names[node.name] == node.name and node.name not in declared.node},
        **declared.node,
    }
    renamed = [_rename(group, names) for group in found.groups]
    groups = {
        group.name: group
        for group in renamed
        if not _is_declared(group, declared) and all(has_member(nodes, member) for member in group.members)
    }
    pools = {one.name: one for one in declared.pools}
    for pool in found.pools:
        before = pools.get(pool.name, Pool(pool.name, ()))
        more = tuple(replica for replica in pool.replicas if replica in groups)
        if more:
            pools[pool.name] = replace(before, replicas=(*before.replicas, *more))
    whole = Topology(tuple(nodes.values()), (*declared.groups, *groups.values()), tuple(pools.values()))
    return sort_topology(whole, declared)


def _rename(group: Group, names: Mapping[str, str]) -> Group:
    members = []
    for member in group.members:
        node, mark, number = member.rpartition("/gpu")
        members.append(f"{names.get(node, node)}/gpu{number}" if mark else names.get(member, member))
    return replace(group, members=tuple(members), front_end=names.get(group.front_end, group.front_end))


def _is_declared(group: Group, declared: Topology) -> bool:
    """Returns whether a group that was found is one that is declared: of its name, its engine, or its front end."""
    if group.name in declared.group:
        return True
    if not (group.engine or group.front_end):
        return False
    labels = {**dict(group.engine), "node": group.front_end}
    try:
        EntityResolver(declared).resolve("replica", labels)
    except LookupError:
        return False
    return True
