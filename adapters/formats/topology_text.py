"""Writer of topology files, and the part of a topology that one node needs."""

import hashlib
from collections.abc import Collection
from dataclasses import asdict, replace
from typing import Any

import yaml

from skewscope.engine.model.topology import FLEET, Node, Topology

SMALL_FLEET = 512
"""Up to this number of nodes, every node gets the whole topology."""


def format_topology(topology: Topology) -> str:
    """Returns the text of a topology's file."""
    whole = {
        "version": 1,
        "nodes": [_node_to_dict(node) for node in topology.nodes],
        "groups": [
            {"name": group.name, "kind": group.kind, "members": list(group.members)}
            | ({"front_end": group.front_end} if group.front_end else {})
            | ({"engine": dict(group.engine)} if group.engine else {})
            | ({"team": group.team} if group.team else {})
            for group in topology.groups
        ],
        "pools": [
            {"name": pool.name, "replicas": list(pool.replicas)} | ({"team": pool.team} if pool.team else {})
            for pool in topology.pools
        ],
    }
    return str(yaml.dump(whole, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True))


def digest_topology(topology: Topology) -> str:
    """Returns a text of 32 characters that differs for another topology, much sooner than its file's text."""
    return hashlib.sha256(repr(topology).encode()).hexdigest()[:32]


def _node_to_dict(node: Node) -> dict[str, Any]:
    ports = []
    for port in node.ports:
        made = {k: v for k, v in asdict(port).items() if k not in {"node", "speed"} and v}
        made |= {k: list(made[k]) for k in ("addresses", "devices") if k in made}
        ports.append(made | {"speed": f"{port.speed / 125e6:g} Gbit/s"} if port.speed else made)
    head: dict[str, Any] = {"name": node.name} | ({"aliases": list(node.aliases)} if node.aliases else {})
    head |= {"rack": node.rack} if node.rack else {}
    head |= {"fleet": node.fleet} if node.fleet != FLEET else {}
    head |= {"hardware": node.hardware} if node.hardware else {}
    head |= {"needed_by": list(node.needed_by)} if node.needed_by else {}
    return head | {"gpus": _gpus_to_list(node) or node.gpus, "dpu": {"sees": list(node.sees)}, "ports": ports}


def _gpus_to_list(node: Node) -> list[dict[str, str]]:
    """Returns an item for each GPU of a node whose GPUs have UUIDs or PCI addresses; [] for others."""
    made: list[dict[str, str]] = [{} for _ in range(node.gpus)] if node.gpu_ids else []
    for text, index in node.gpu_ids:
        made[index]["pci" if ":" in text else "uuid"] = text
    return made


def subset_for_node(topology: Topology, node: str) -> Topology:
    """Returns the part that a node needs to name its peers: its groups, their members, front ends and pools.

    A small fleet, and one without the node, is returned whole.
    """
    if len(topology.nodes) <= SMALL_FLEET or node not in topology.node:
        return topology
    node_of = topology.node_of
    own = topology.groups_concerning.get(node, ())
    names = {node, *(node_of[member] for g in own for member in g.members), *(g.front_end for g in own)}
    ends = {port.peer for port in topology.node[node].ports if port.peer}
    names |= {topology.port[end].node for end in ends if end in topology.port}
    groups = {g.name for g in own}
    pools = (replace(pool, replicas=tuple(r for r in pool.replicas if r in groups)) for pool in topology.pools)
    nodes = tuple(_drop_foreign_peers(one, names, topology) for one in topology.nodes if one.name in names)
    return Topology(nodes, own, tuple(pool for pool in pools if pool.replicas))


def _drop_foreign_peers(node: Node, names: Collection[str], topology: Topology) -> Node:
    """Returns a node without the links to ports of nodes outside `names`."""
    ports = (
        port if not port.peer or topology.port[port.peer].node in names else replace(port, peer="")
        for port in node.ports
    )
    return replace(node, ports=tuple(ports))
