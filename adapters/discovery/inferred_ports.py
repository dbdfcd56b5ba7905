"""Ports out of the device labels of series.

An RDMA device and its network interface are one port; the labels of two devices on one series say so, otherwise their
order does where a node has equally many of both.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from skewscope.adapters.discovery.draft import CERTAIN, GUESS, LIKELY, Assumption, PortDraft
from skewscope.adapters.discovery.ports import VIRTUAL_DEVICE
from skewscope.adapters.mapping.entities import DEVICE_LABELS
from skewscope.engine.model.topology_file import NAME_WITHOUT

RDMA_DEVICE = re.compile(r"(?:mlx[45]|bnxt_re|irdma|ionic|rocep|efa|hfi1|qedr|erdma|rdmap|ibp|mana|cxgb)_?\w*(?::\d+)?")
FRONT_INTERFACE = re.compile(r"(?:eth0|eno\d+\w*|em\d+|ens[1-9]\w*|mgmt\d*)")
RAIL_INTERFACE = re.compile(r"(?:ib\d+|ibs\w+|rail\d+|gpu\d+rdma\d+|rdma\d+)")
NUMBER = re.compile(r"(\d+)")
NETWORK_GUESS = "its network is taken from its name"
MAX_DEVICES = 256
"""Devices of one node."""


@dataclass
class PortLabels:
    """What the series of one node say of its ports."""

    names: set[str] = field(default_factory=set)
    """Values of the label `port` that are names."""
    devices: set[str] = field(default_factory=set)
    pairs: set[tuple[str, str]] = field(default_factory=set)
    """Two devices on one series."""

    def add(self, labels: Mapping[str, str]) -> None:
        """Adds the labels of a series."""
        named = labels.get("port", "")
        found = [labels[label] for label in DEVICE_LABELS if labels.get(label)]
        found = [device for device in found if not VIRTUAL_DEVICE.match(device)]
        if named and not named.isdecimal() and not found:
            self.names.add(named)
        if named.isdecimal() and named.lstrip("0") not in ("", "1"):
            found = [f"{device}:{named}" for device in found]
        if len(self.devices) < MAX_DEVICES:
            self.devices.update(found)
            if len(found) > 1 and found[0] != found[1]:
                self.pairs.add((found[0], found[1]))


Uses = dict[tuple[str, str, str], int]
"""Number of ports by what was assumed of them, from what, and how sure it is."""


def draft_ports(found: Mapping[str, PortLabels]) -> tuple[dict[str, tuple[PortDraft, ...]], list[Assumption]]:
    """Returns the ports of each node, and what was assumed of them."""
    ports = {}
    used: Uses = defaultdict(int)
    for node, labels in found.items():
        drafts = _join_ports(list(_named_ports(labels)), list(_device_ports(labels, used)), used)
        ports[node] = tuple(draft for draft in drafts if not set(draft.name) & set(NAME_WITHOUT))
        for draft in ports[node]:
            used[f"{draft.network} ports", "names of ports, interfaces and RDMA devices", LIKELY] += 1
    assumed = [Assumption(f"{count} {what}", basis, sure) for (what, basis, sure), count in sorted(used.items())]
    return ports, assumed


def _named_ports(labels: PortLabels) -> Iterator[PortDraft]:
    """Yields the ports that the label `port` names."""
    for name in sorted(labels.names, key=_natural_key):
        is_front = name in ("ns", "front") or bool(FRONT_INTERFACE.fullmatch(name))
        yield PortDraft(name, "north-south" if is_front else "east-west", NETWORK_GUESS)


def _device_ports(labels: PortLabels, used: Uses) -> Iterator[PortDraft]:
    """Yields the ports that devices name."""
    rdma = sorted((d for d in labels.devices if RDMA_DEVICE.fullmatch(d)), key=_natural_key)
    plain = sorted((d for d in labels.devices if not RDMA_DEVICE.fullmatch(d)), key=_natural_key)
    partner = _pair_devices(rdma, plain, labels.pairs, used)
    for device in rdma:
        interface = partner.get(device, "")
        is_front = bool(FRONT_INTERFACE.fullmatch(interface)) and len(rdma) > 1
        devices = tuple(filter(None, (device, interface)))
        network = "north-south" if is_front else "east-west"
        yield PortDraft(interface or device.replace(":", "-"), network, NETWORK_GUESS, devices=devices)
    for interface in plain:
        if interface not in partner.values():
            network = "east-west" if RAIL_INTERFACE.fullmatch(interface) else "north-south"
            yield PortDraft(interface, network, NETWORK_GUESS, devices=(interface,))


def _join_ports(named: list[PortDraft], devices: list[PortDraft], used: Uses) -> list[PortDraft]:
    """Returns the ports of a node; named ports take the devices of equally many others, network by network."""
    joined = []
    for network in ("north-south", "east-west"):
        own = [port for port in named if port.network == network]
        others = [port for port in devices if port.network == network]
        if own and len(own) == len(others):
            used["ports and their devices", "the order of their names", GUESS] += len(own)
            others = [replace(port, devices=other.devices) for port, other in zip(own, others, strict=True)]
            own = []
        joined += [*own, *others]
    return joined


def _pair_devices(rdma: list[str], plain: list[str], pairs: set[tuple[str, str]], used: Uses) -> dict[str, str]:
    """Returns the interface of each RDMA device."""
    known = {(a if a in rdma else b): (b if a in rdma else a) for a, b in pairs if (a in rdma) != (b in rdma)}
    if known:
        used["RDMA devices and their interfaces", "series with labels of both", CERTAIN] += len(known)
        return known
    rails = [name for name in plain if RAIL_INTERFACE.fullmatch(name)]
    for some in (plain, rails):
        if len(some) == len(rdma) > 0:
            used["RDMA devices and their interfaces", "the order of their names", GUESS] += len(rdma)
            return dict(zip(rdma, some, strict=True))
    return {}


def _natural_key(text: str) -> tuple[tuple[int, str], ...]:
    """Returns a key by which numbers in a name sort as numbers."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in NUMBER.split(text[:200]) if part)
