"""Labels of alerts by which they are routed and grouped: what runs at the place of an incident, and whose it is."""

from collections.abc import Mapping

from skewscope.adapters.notify import incident_text
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Group, Topology

WORKLOAD_LABELS = {"pod": ("pod",), "namespace": ("namespace",), "model": ("model_name", "model")}
"""Labels of alerts, and the labels of serving engines that they are taken from."""


def place_labels(one: Incident, topology: Topology) -> Mapping[str, str]:
    """Returns pod, namespace, model, pool, team and place of an incident, '' for what is not known."""
    group = _group_of(one, topology)
    pools = [pool for pool in topology.pools if (group and group.name in pool.replicas) or pool.name == one.name]
    engine = dict(group.engine) if group else {}
    found = {
        label: next((engine[name] for name in names if engine.get(name)), "")
        for label, names in WORKLOAD_LABELS.items()
    }
    found["pool"] = pools[0].name if len(pools) == 1 else ""
    found["team"] = (group.team if group else "") or (pools[0].team if len(pools) == 1 else "")
    found["place"] = group_key(one, topology)
    return found


def group_key(one: Incident, topology: Topology) -> str:
    """Returns what is the same for all that one fault shows: messages with one key are one page.

    It is the replica or group that a GPU belongs to, else the node, else the entity itself.
    """
    group = _group_of(one, topology)
    return group.name if group else incident_text.node_of(one, topology) or one.name


def _group_of(one: Incident, topology: Topology) -> Group | None:
    """Returns the replica or group that an incident is of, or the only one of a GPU."""
    if own := topology.group.get(one.name.partition(":")[0]):
        return own
    if one.kind != "gpu":
        return None
    found = [group for group in topology.groups if one.name in group.members]
    return found[0] if len(found) == 1 else None
