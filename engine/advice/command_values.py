"""The commands of a mitigation, filled in with the names of an incident and of the topology. Pure.

A name is filled in only where the topology leaves no choice; otherwise the placeholder stays.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from skewscope.engine.advice.driver_errors import find_error, order_commands
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Group, Node, Port, Topology
from skewscope.kb.command_template import fill_command
from skewscope.kb.command_tools import ENGINES
from skewscope.kb.model import Mitigation, MitigationCommand, StartValue

_rank_place = re.compile(r"(?:.+\.)?rank\d+")
"""A node that stands for the unknown machine of a rank, as drafts of a topology name it."""
_sonic_port = re.compile(r"Ethernet\d+")
_gpu_name = re.compile(r"(?P<node>.+)/gpu(?P<index>0|[1-9]\d{0,3})")
_rdma_device = re.compile(r"(mlx[45]|bnxt_re|irdma|erdma|rdmap|efa)_?[0-9a-z]*")
_interface = re.compile(r"(?:eth|en[opsx]|ib|bond|hsn)\w*\d[\w.-]*")
"""Names that Linux and its installers give to network interfaces."""
_word = re.compile(r"[a-z]+")
_pci_address = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def fill_commands(
    mitigation: Mitigation, incident: Incident, topology: Topology | None = None
) -> tuple[MitigationCommand, ...]:
    """Returns the commands of a mitigation with the names of an incident; a name that is not certain stays open.

    Those for other errors of a GPU's driver than the one that the incident saw come last.
    """
    values = placeholder_values(incident, topology or Topology())
    commands = fitting_commands(mitigation.commands, values)
    return tuple(
        fill_command(command, values | start_values(command, incident, topology or Topology()))
        for command in order_commands(commands, seen_error(incident))
    )


def fitting_commands(commands: Iterable[MitigationCommand], values: Mapping[str, str]) -> tuple[MitigationCommand, ...]:
    """Returns the commands whose kind of target is there: a switch is no node of a scheduler and runs no engine."""
    is_switch = "switch" in values and "node" not in values
    return tuple(one for one in commands if not (is_switch and (one.where == "node" or "{node}" in one.do)))


def start_values(command: MitigationCommand, incident: Incident, topology: Topology) -> dict[str, str]:
    """Returns the values to begin with that are known for an incident, by placeholder."""
    found = {one.placeholder: one.value or _computed_value(one, incident, topology) for one in command.start}
    return {name: value for name, value in found.items() if value}


def _computed_value(start: StartValue, incident: Incident, topology: Topology) -> str:
    """Returns the level from which the impact began as a whole number, for all replicas of the pool if it says so."""
    impact = incident.impact
    if impact.before is None or impact.level_unit != start.before or impact.before <= 0:
        return ""
    pools = [pool.replicas for pool in topology.pools if incident.name in pool.replicas]
    times = len(pools[0]) if start.per and pools else 1
    return str(math.ceil(round(impact.before * times, 6)))


def named_engines(incident: Incident) -> frozenset[str]:
    """Returns the serving engines that the names of an incident and of its evidence have in them."""
    texts = (incident.name, *(item.expr for item in incident.evidence))
    return frozenset(ENGINES) & {word for text in texts for word in _word.findall(text)}


def is_for_other_engine(engine: str, named: frozenset[str]) -> bool:
    """Returns whether something is for a serving engine, and others are named."""
    return bool(engine and named and engine not in named)


def seen_error(incident: Incident) -> int:
    """Returns the error of a GPU's driver (Xid) that an incident was decided by, 0 without one."""
    return find_error((item.expr, item.value) for item in incident.evidence if item.verdict == "yes")


def placeholder_values(incident: Incident, topology: Topology) -> dict[str, str]:
    """Returns what is known for the placeholders of `FILLED_PLACEHOLDERS`, unquoted."""
    values = {"incident": incident.id, **place_of_node(_entity_values(incident, topology), topology)}
    if not incident.is_symptom:
        values["condition"] = incident.condition
    node = topology.node.get(values.get("node", ""))
    if node is not None:
        values |= _node_values(node, values.get("gpu", ""))
    if "group" not in values and values.get("node"):
        values |= _only("group", (g.name for g in topology.groups_on.get(values["node"], ()) if _has_gpu(g, values)))
    pools = [pool for pool in topology.pools if values.get("group", "") in pool.replicas]
    if len(pools) == 1:
        values |= {"replica": values["group"], "pool": pools[0].name}
    return values


def place_of_node(values: Mapping[str, str], topology: Topology) -> dict[str, str]:
    """Returns the values with a `node` only where that is a machine: of a switch's port that at the other end."""
    node = values.get("node", "")
    if _is_stand_in(node, topology):
        return {name: value for name, value in values.items() if name != "node"}
    if node not in topology.switches:
        return dict(values)
    port = topology.port.get(f"{node}/{values.get('port', '')}")
    other = topology.port.get(port.peer) if port is not None else None
    if other is not None and other.node not in topology.switches:
        return dict(_port_values(other, other.id))
    own = {name: value for name, value in values.items() if name == "port"}
    named = {"switch_port": port.name} if port is not None and _sonic_port.fullmatch(port.name) else {}
    return {**own, **named, "switch": node}


def _is_stand_in(node: str, topology: Topology) -> bool:
    """Returns whether a node stands for the unknown machine of a rank or a replica, or for those of a job."""
    if _rank_place.fullmatch(node):
        return True
    known = topology.node.get(node)
    if known is None or known.gpus or known.ports or known.rack or known.aliases:
        return False
    groups = topology.groups_on.get(node, ())
    return any(one.members == (node,) and node in (one.name, f"{one.name}-nodes") for one in groups)


def _entity_values(incident: Incident, topology: Topology) -> Mapping[str, str]:
    kind, name = incident.kind, incident.name
    if kind == "rank":
        return _rank_values(name, topology)
    if kind in ("group", "replica"):
        return {kind: name, "group": name, **_group_node(name, topology)}
    if kind in ("port", "link"):
        return _port_values(topology.port.get(name), name)
    return _gpu_values(name) if kind == "gpu" else {kind: name} if kind in ("node", "pool") else {}


def _rank_values(name: str, topology: Topology) -> Mapping[str, str]:
    group, colon, member = name.rpartition(":")
    place = _gpu_values(member) or {"node": topology.node_of.get(member, member)}
    return {"rank": name, **({"group": group} if colon else {}), **place}


def _group_node(name: str, topology: Topology) -> Mapping[str, str]:
    found = topology.group.get(name)
    return _only("node", (topology.node_of[member] for member in found.members)) if found else {}


def _gpu_values(name: str) -> dict[str, str]:
    found = _gpu_name.fullmatch(name)
    return {"node": found["node"], "gpu": found["index"]} if found else {}


def _port_values(port: Port | None, name: str) -> Mapping[str, str]:
    if ">" in name:  # two ends: which one is meant is not known
        return {}
    if port is None:
        node, slash, short = name.partition("/")
        return {"node": node, "port": short, **_device_values(_own_devices(short))} if slash else {}
    values = {"node": port.node, "port": port.name, "switch": port.switch, "peer_node": port.peer_node}
    return values | _device_values(port.devices or _own_devices(port.name))


def _own_devices(name: str) -> tuple[str, ...]:
    """Returns the name of a port where it is that of a device, as Linux and its installers name them."""
    return (name,) if _rdma_device.fullmatch(name) or _interface.fullmatch(name) else ()


def _device_values(devices: Sequence[str]) -> dict[str, str]:
    """Returns the RDMA device and the network interface, each where there is one alone."""
    rdma = [device for device in devices if _rdma_device.fullmatch(device)]
    return _only("rdma_device", rdma) | _only("device", (device for device in devices if device not in rdma))


def _node_values(node: Node, gpu: str) -> Mapping[str, str]:
    pci = (id_ for id_, index in node.gpu_ids if str(index) == gpu and _pci_address.fullmatch(id_))
    return {"rack": node.rack, **_only("gpu_pci", pci)}


def _has_gpu(group: Group, values: Mapping[str, str]) -> bool:
    """Returns whether a group on the node has the GPU, where one is named."""
    node = values["node"]
    return "gpu" not in values or not {node, f"{node}/gpu{values['gpu']}"}.isdisjoint(group.members)


def _only(name: str, found: Iterable[str]) -> dict[str, str]:
    """Returns the name with its value if there is exactly one distinct value."""
    distinct = set(found)
    return {name: distinct.pop()} if len(distinct) == 1 else {}
