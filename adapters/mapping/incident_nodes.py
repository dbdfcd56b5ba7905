"""Which nodes an incident is on."""

from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology


def endpoint_names(name: str) -> list[str]:
    """The nodes, or switches, that a name tells: `n0/ew`, `n0/gpu1`, `n0/ew--n1/ew`, `n0>n1`."""
    return [end.split("/", maxsplit=1)[0] for end in name.replace(">", "--").split("--")]


def nodes_of(name: str, topology: Topology) -> set[str]:
    """The nodes of an entity: those of all its members where it is a group."""
    group = topology.group.get(name)
    if group is not None:
        front = {group.front_end} if group.front_end else set()
        return {topology.node_of[member] for member in group.members} | front
    return {end for end in endpoint_names(name) if end in topology.node}


def entity_names(one: Incident) -> tuple[str, ...]:
    """Everything that an incident is on."""
    return one.name, *one.also
