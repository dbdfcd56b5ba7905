"""Nodes and entities of an incident."""

from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology


def endpoint_names(name: str) -> list[str]:
    """Returns the nodes or switches in an entity's name: `n0/ew`, `n0/gpu1`, `n0/ew--n1/ew`, `n0>n1`."""
    return [end.split("/", maxsplit=1)[0] for end in name.replace(">", "--").split("--")]


def nodes_of(name: str, topology: Topology) -> set[str]:
    """Returns the nodes of an entity; those of all members for a group."""
    group = topology.group.get(name)
    if group is not None:
        front = {group.front_end} if group.front_end else set()
        return {topology.node_of[member] for member in group.members} | front
    return {end for end in endpoint_names(name) if end in topology.node}


def entity_names(one: Incident) -> tuple[str, ...]:
    """Returns the names of all entities of an incident."""
    return one.name, *one.also
