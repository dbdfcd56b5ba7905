"""Which sender reports an entity by default: the node it lies on, or the front end of a group."""

from skewscope.engine.model.topology import OF_GROUP, ON_NODE, Topology


def node_of_entity(entity: str) -> str:
    """Returns the node with which the name of a port, GPU, link or peer begins."""
    return entity.partition(">")[0].partition("--")[0].partition("/")[0]


def front_node(group: str, topology: Topology) -> str:
    """Returns the node of a group's front end; '' where none is declared."""
    known = topology.group.get(group)
    return topology.node_of.get(known.front_end, known.front_end) if known else ""


def natural_sender(kind: str, entity: str, topology: Topology) -> str:
    """Returns the sender that reports an entity where none is declared: a node, or the entity where it is none."""
    if kind in ON_NODE:
        return node_of_entity(entity)
    group, _, member = entity.partition(":")
    if kind == "rank":
        return topology.node_of.get(member, member)
    known = topology.group.get(group) if kind in OF_GROUP else None
    if known is None:
        return entity
    nodes = {topology.node_of[name] for name in known.members}
    return front_node(group, topology) or (nodes.pop() if len(nodes) == 1 else entity)
