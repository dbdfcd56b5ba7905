"""With whom a GPU is compared: its groups, and the GPUs of its node that do the same work."""

from collections.abc import Mapping

from skewscope.engine.model.finding import WORK_ROLES
from skewscope.engine.model.topology import Topology

MAX_SET_SIZE = 512
"""computing: larger sets are not compared."""


def groups_by_member(topology: Topology, *, with_nodes: bool = True) -> Mapping[str, tuple[str, ...]]:
    """Returns the names of the groups of each member, and `with_nodes` of each node that a member lies on."""
    found: dict[str, set[str]] = {}
    for group in topology.groups:
        if len(group.members) > MAX_SET_SIZE:
            continue
        for member in group.members:
            found.setdefault(member, set()).add(group.name)
            if with_nodes:
                found.setdefault(topology.node_of[member], set()).add(group.name)
    return {name: tuple(sorted(groups)) for name, groups in found.items()}


def peer_sets_of_gpu(
    topology: Topology, groups_of: Mapping[str, tuple[str, ...]], name: str, role: str
) -> set[tuple[str, str]]:
    """Returns (kind, name) of the groups of a GPU, and of the GPUs of its node that do the same for all that is known.

    Load is compared within groups alone: without one, the GPUs of a node may each do something else, and each engine
    serves its own requests.
    """
    node = name.rsplit("/", 1)[0]
    names = {group for member in (name, node) for group in groups_of.get(member, ())}
    groups = {("group", group) for group in names}
    work = topology.work_of
    if role in WORK_ROLES and (not groups or not names.isdisjoint(topology.serving_groups)):
        return groups
    size = topology.node[node].gpus if node in topology.node else 0
    is_alike = len({work.get(f"{node}/gpu{n}") for n in range(size)}) < 2
    return groups | {("node", node) if is_alike else ("gpus", f"{node} {' '.join(work.get(name, ()))}")}
