"""Maps the labels of a series to an entity of the topology."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from ipaddress import ip_address
from typing import TypeVar

from skewscope.engine.model.topology import Group, Node, Topology, canonical_gpu_id

T = TypeVar("T")

NODE_LABELS = ("nodename", "hostname", "Hostname", "host", "exported_instance", "instance")
DEVICE_LABELS = ("device", "interface", "hca", "netdev", "ifname", "dev", "device_name", "ifName", "ifDescr")
GPU_LABELS = ("gpu", "gpu_id", "gpu_index", "minor_number", "accelerator_id")
UUID_LABELS = ("uuid", "UUID", "GPU_UUID")
"""Labels that distinguish GPUs but give no index."""
GPU_ID_LABELS = (*UUID_LABELS, "pci_bus_id", "pciBusId", "pci")
"""Labels with a UUID or PCI address, which a topology may know."""
GPU_PATTERN = re.compile(r"(?:gpu|nvidia|\d{4,20}-)?(\d{1,4})", re.IGNORECASE)
"""An index, also behind the number of its host, as a chip of a cloud's TPU has it."""
MAX_INDEX_DIGITS = 5
"""Digits of the index of a rank in its group."""

# The catalogue's words for what is measured, and the kind of entity that represents it.
ENTITY_KINDS = {
    **dict.fromkeys(
        ("port", "rdma_port", "pcie_port", "priority", "function", "representor", "lane", "queue", "flow"), "port"
    ),
    **dict.fromkeys(("node", "dpu", "dpu_soc"), "node"),
    "gpu": "gpu",
    "engine": "replica",
    "replica": "replica",
    "rank": "rank",
    "group": "group",
    "request-pool": "pool",
    "pool": "pool",
    "peer": "peer",
    "link": "link",
}


DECIDES = " decides"
"""The end of a reason that names the label or field which would tell the entities apart."""


class UnmappedError(LookupError):
    """The labels match no entity of the topology; the text says why."""


@dataclass
class LabelReader:
    """The labels of one series; `used` are those that identify the entity."""

    labels: Mapping[str, str]
    used: set[str] = field(default_factory=set)

    def read(self, label: str) -> str:
        """Returns a label's value, '' where it is missing, and marks it as used."""
        value = self.labels.get(label, "")
        if value:
            self.used.add(label)
        return value


class EntityResolver:
    """Finds entities of one topology by labels."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    def resolve(self, word: str, labels: Mapping[str, str]) -> tuple[str, str, set[str]]:
        """Returns kind and name of the entity, and the labels that identify it.

        Raises:
            UnmappedError: there is none.
        """
        kind = ENTITY_KINDS.get(word, "")
        if not kind:
            raise UnmappedError(f"signals of a {word} have no place in a topology")
        place = LabelReader(labels)
        return kind, finders[kind](self, place), place.used

    def node(self, place: LabelReader) -> Node:
        """Returns the node of a series."""
        if name := place.read("node"):
            if node := self._find_node(name):
                return node
            raise UnmappedError("its node is not in the topology")
        seen = False
        for label in NODE_LABELS:
            if name := place.labels.get(label, ""):
                seen = True
                if node := self._find_node(name):
                    place.used.add(label)
                    return node
        raise UnmappedError("its host is not in the topology" if seen else "no label says which node it is from")

    def port(self, place: LabelReader) -> str:
        """Returns `node/port` of a series, by the port's name or by a device."""
        named = place.read("port")
        if named in self.topology.port:
            return named
        node = self.node(place)
        if named and f"{node.name}/{named}" in self.topology.port:
            return f"{node.name}/{named}"
        devices = [device for label in DEVICE_LABELS if (device := place.read(label))]
        host = self._qualifying_host(node, place)
        for device in devices:
            # A device without a port stands for its first port.
            bare = (device,) if named in ("", "1") or not named.isdecimal() else ()
            for name in (f"{device}:{named}", f"{device}/{named}", *bare) if named else (device,):
                if port := self.topology.port_of_device.get((node.name, host + name)):
                    return port.id
        if devices:
            raise UnmappedError("its device belongs to no port of the topology")
        raise UnmappedError("its port is not in the topology" if named else "no label says which port it is of")

    def gpu(self, place: LabelReader) -> str:
        """Returns `node/gpuN` of a series."""
        if place.labels.get("GPU_I_ID"):
            raise UnmappedError("it is of a part of a GPU (MIG)")
        node = self.node(place)
        text = next((value for label in GPU_LABELS if (value := place.read(label))), "")
        known = self._gpu_by_id.get(node.name, {})
        given = [canonical_gpu_id(value) for label in GPU_ID_LABELS if (value := place.labels.get(label, ""))]
        found = next((known[each] for each in given if each in known), None)
        if found is not None:
            # An index depends on the order in which a tool lists the GPUs; a UUID or an address does not.
            place.used.update(GPU_LABELS)
            return f"{node.name}/gpu{found}"
        if known and given and not text:
            raise UnmappedError("its UUID or PCI address is of no GPU of the topology")
        if not text and node.gpus == 1 and any(label in place.labels for label in UUID_LABELS):
            text = "0"
        match = GPU_PATTERN.fullmatch(text)
        if not match:
            raise UnmappedError("no label says which GPU it is of")
        number = int(match[1])
        if node.gpus and number >= node.gpus:
            raise UnmappedError("its GPU is not in the topology")
        return f"{node.name}/gpu{number}"

    def replica(self, place: LabelReader) -> str:
        """Returns the replica of a serving engine, by name or by the front end's node."""
        for label in ("replica", "group"):
            if (name := place.labels.get(label, "")) in self.topology.group:
                place.used.add(label)
                return name
        if any(group.engine for group in self.topology.groups) and (found := self._replica_by_engine(place)):
            return found
        node = self.node(place)
        candidates = self._replicas_by_node.get(node.name, ())
        plain = [group for group in candidates if not group.engine]
        if not candidates:
            raise UnmappedError("its node is the front end of no group")
        if not plain:
            names = ", ".join(sorted({label for group in candidates for label, _ in group.engine}))
            raise UnmappedError(f"no group's `engine` in the topology has its labels ({names})")
        rivals = [group for group in plain[1:] if not set(group.members) & set(plain[0].members)]
        if rivals:
            raise UnmappedError(
                f"it may be of group {plain[0].name} or {rivals[0].name}: `engine: {{instance: ...}}` of a group in "
                "the topology, or a label `replica`, decides"
            )
        return plain[0].name

    def workload(self, labels: Mapping[str, str]) -> str:
        """Returns the replica that a series from outside is about: that of the pod, or of the address, it names.

        Raises:
            UnmappedError: there is none, or there are several.
        """
        pod = labels.get("exported_pod") or labels.get("pod", "")
        found = self._replica_by_engine(LabelReader({**labels, "pod": pod}))
        if not found:
            raise UnmappedError("its pod or address is of no engine of the topology")
        return found

    def _replica_by_engine(self, place: LabelReader) -> str:
        """Returns the one group whose declared engine has the labels of a series; '' for none.

        Raises:
            UnmappedError: there are several.
        """
        found = [g for g in self.topology.groups if g.engine and has_engine_labels(g.engine, place.labels)]
        most = [group for group in found if len(group.engine) == max(len(each.engine) for each in found)]
        if len(most) > 1:
            raise UnmappedError(f"it may be of group {most[0].name} or {most[1].name}: their `engine` labels both hold")
        if most:
            place.used.update(label for label, _ in most[0].engine)
        return most[0].name if most else ""

    def rank(self, place: LabelReader) -> str:
        """Returns `group:member` of a series."""
        group = self._find_group(place)
        member = place.read("rank") or place.read("member")
        is_index = member.isdecimal()
        if is_index and not group and not _named_host(place):
            group = self._implied_group(place)
        if is_index and group:
            return self._rank_at(group, member, place)
        names = [member] if member and not is_index else self._members_here(place)
        groups = [group] if group else self.topology.groups
        # A GPU that is a member has precedence over its node.
        for name in names:
            found = _filter_by_communicator([each for each in groups if name in each.members], place)
            if len(found) > 1:
                raise UnmappedError("it could be a member of several groups")
            if found:
                return f"{found[0].name}:{name}"
        if is_index and (implied := self._implied_group(place)):
            return self._rank_at(implied, member, place)
        raise UnmappedError("it is a member of no group")

    def _members_here(self, place: LabelReader) -> list[str]:
        """Returns what a series may be a member as: the GPU that it names, else its node."""
        node = self.node(place).name
        gpu = _gpu_index(place.read)
        return [node] if gpu is None else [f"{node}/gpu{gpu}", node]

    def _implied_group(self, place: LabelReader) -> Group | None:
        """Returns the group of a series that names none: its communicator's, else the only one, if of as many ranks."""
        if named := self.topology.group.get(place.labels.get("comm_name", "")):
            return named
        sole = self.topology.groups[0] if len(self.topology.groups) == 1 else None
        return sole if sole and place.labels.get("nranks", str(len(sole.members))) == str(len(sole.members)) else None

    def _rank_at(self, group: Group, index: str, place: LabelReader) -> str:
        """Returns `group:member` of the rank of a group."""
        if len(index) > MAX_INDEX_DIGITS or int(index) >= len(group.members):
            raise UnmappedError("it is a member of no group")
        size = place.labels.get("nranks", "")
        # A topology that is inferred of a larger group may lack its last members.
        if size.isdecimal() and len(size) < MAX_INDEX_DIGITS and int(size) not in (len(group.members), 0):
            raise UnmappedError(f"its group has another number of ranks: `members` in the topology{DECIDES}")
        member = group.members[int(index)]
        self._check_place(member, place)
        return f"{group.name}:{member}"

    def _check_place(self, member: str, place: LabelReader) -> None:
        """Raises UnmappedError where a series of a rank names another node, or another GPU, than the rank's member."""
        # An index depends on the order of members, which may not be that of the ranks.
        given = _named_host(place)
        node = self._find_node(given) if given else None
        if node and node.name != self.topology.node_of[member]:
            raise UnmappedError(f"its rank and its node disagree: the order of `members` in the topology{DECIDES}")
        gpu = _gpu_index(lambda label: place.labels.get(label, ""))
        if node and gpu is not None and "/" in member and member != f"{node.name}/gpu{gpu}":
            raise UnmappedError(f"its rank and its GPU disagree: the order of `members` in the topology{DECIDES}")

    def group(self, place: LabelReader) -> str:
        """Returns the group that the labels name."""
        group = self._find_group(place)
        if group is None:
            raise UnmappedError("no label says which group it is of")
        return group.name

    def pool(self, place: LabelReader) -> str:
        """Returns the pool that the labels name."""
        known = {pool.name for pool in self.topology.pools}
        for label in ("pool", "inference_pool", "name"):
            if (name := place.labels.get(label, "")) in known:
                place.used.add(label)
                return name
        raise UnmappedError("no label names a pool of the topology")

    def peer(self, place: LabelReader) -> str:
        """Returns `node/port>node/port`, the observer first; `node/port>node` for a peer known only by its node."""
        observer = self.port(place)
        name = place.read("peer")
        if other := self.topology.port.get(name) or self.topology.port_of_address.get(_canonical_address(name)):
            return f"{observer}>{other.id}"
        if node := self._find_node(name) if name else None:
            return f"{observer}>{node.name}"
        raise UnmappedError("its peer is not in the topology" if name else "no label says which peer it is of")

    def link(self, place: LabelReader) -> str:
        """Returns the port at the end of the link, which represents it."""
        for label in ("link", "switch", "port"):
            name = place.labels.get(label, "")
            port = name if name in self.topology.port else self._port_by_switch.get(name, "")
            if port:
                place.used.add(label)
                return port
        return self.port(place)

    def _find_node(self, name: str) -> Node | None:
        """Finds a node by name, address, `host:port` or a longer form of its name."""
        known = self._node_by_name
        host = name[: name.rindex(":")] if re.search(r":\d{1,5}$", name) and name.count(":") == 1 else name
        host = host[1:].partition("]")[0] if host.startswith("[") else host
        if found := known.get(name) or known.get(host):
            return found
        if port := self.topology.port_of_address.get(_canonical_address(host)):
            return known[port.node]
        if address := _canonical_address(host):
            return known.get(address)
        short = host.partition(".")[0]
        full, found = self._node_by_short_name.get(short, ("", None))
        # One of the two must be the short form: two different full names are two nodes.
        return found if found and short in (host, full) else None

    def _find_group(self, place: LabelReader) -> Group | None:
        name = place.read("group") or place.read("replica")
        if name and name not in self.topology.group:
            raise UnmappedError("its group is not in the topology")
        return self.topology.group.get(name)

    def _qualifying_host(self, node: Node, place: LabelReader) -> str:
        """Returns `host/` where devices of that host of the node are listed as `host/device`, else ''."""
        qualified = self._qualifying_hosts.get(node.name)
        if not qualified:
            return ""
        given = (place.labels.get(label, "") for label in ("node", *NODE_LABELS))
        names = [value.rpartition(":")[0] or value for value in given if value]
        hosts = [host for name in names for host in (name, name.partition(".")[0])]
        return next((f"{host}/" for host in hosts if host in qualified), "")

    @cached_property
    def _qualifying_hosts(self) -> Mapping[str, frozenset[str]]:
        """Hosts of each node, by their names, whose devices are listed as `host/device`."""
        found: dict[str, set[str]] = {}
        for node in self.topology.nodes:
            hosts = {node.name, *node.aliases}
            for port in node.ports:
                named = {device.partition("/")[0] for device in port.devices if "/" in device} & hosts
                if named:
                    found.setdefault(node.name, set()).update(named)
        return {name: frozenset(hosts) for name, hosts in found.items()}

    @cached_property
    def _node_by_name(self) -> Mapping[str, Node]:
        """Nodes by name, and by their other names and addresses."""
        others = {_canonical_address(alias) or alias: node for node in self.topology.nodes for alias in node.aliases}
        return {**others, **self.topology.node}

    @cached_property
    def _gpu_by_id(self) -> Mapping[str, Mapping[str, int]]:
        """The index of each GPU by its UUID or PCI address, by node."""
        return {node.name: dict(node.gpu_ids) for node in self.topology.nodes if node.gpu_ids}

    @cached_property
    def _node_by_short_name(self) -> Mapping[str, tuple[str, Node]]:
        """Full names and nodes by the first part of their names, where that is unique."""
        names = [
            (n, node) for node in self.topology.nodes for n in (node.name, *node.aliases) if not _canonical_address(n)
        ]
        return _unique_pairs((name.partition(".")[0], (name, node)) for name, node in names)

    @cached_property
    def _port_by_switch(self) -> Mapping[str, str]:
        """Ports by their switch, where the switch has one port only."""
        return _unique_pairs((port.switch, port.id) for port in self.topology.port.values() if port.switch)

    @cached_property
    def _replicas_by_node(self) -> Mapping[str, tuple[Group, ...]]:
        """The groups that a node may serve: replicas of pools where there are any, else groups; in order."""
        pooled = {name for pool in self.topology.pools for name in pool.replicas}
        served: dict[str, list[Group]] = {}
        for group in self.topology.groups:
            fronts = [group.front_end] if group.front_end else map(self.topology.node_of.__getitem__, group.members)
            for node in dict.fromkeys(fronts):
                served.setdefault(node, []).append(group)
        return {
            node: tuple([group for group in groups if group.name in pooled] or groups)
            for node, groups in served.items()
        }


def has_engine_labels(engine: Iterable[tuple[str, str]], labels: Mapping[str, str]) -> bool:
    """Returns whether a series has all labels by which an engine is declared; `*` in a value stands for any text."""
    return all(
        fnmatchcase(labels.get(name, "").rpartition("//")[2], value.rpartition("//")[2].replace("[", "[[]"))
        for name, value in engine
    )


def _named_host(place: LabelReader) -> str:
    """Returns the host that a series names by the first label of those that may; '' where none does."""
    return next((name for label in ("node", *NODE_LABELS) if (name := place.labels.get(label, ""))), "")


def _gpu_index(read: Callable[[str], str]) -> int | None:
    """Returns the index of the GPU that a series names; None where it names none."""
    match = GPU_PATTERN.fullmatch(next((value for label in GPU_LABELS if (value := read(label))), ""))
    return int(match[1]) if match else None


def _filter_by_communicator(groups: list[Group], place: LabelReader) -> list[Group]:
    """Filters several groups by a communicator's labels: its name, else its number of ranks."""
    if len(groups) < 2:
        return groups
    named = [group for group in groups if group.name == place.labels.get("comm_name")]
    size = place.labels.get("nranks")
    return named or [group for group in groups if str(len(group.members)) == size] or groups


finders: dict[str, Callable[[EntityResolver, LabelReader], str]] = {
    "port": EntityResolver.port,
    "node": lambda entities, place: entities.node(place).name,
    "gpu": EntityResolver.gpu,
    "replica": EntityResolver.replica,
    "rank": EntityResolver.rank,
    "group": EntityResolver.group,
    "pool": EntityResolver.pool,
    "peer": EntityResolver.peer,
    "link": EntityResolver.link,
}


def _canonical_address(text: str) -> str:
    """Returns the canonical form of an address, '' for other texts."""
    try:
        return str(ip_address(text))
    except ValueError:
        return ""


def _unique_pairs(pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Returns the pairs whose first part is unique."""
    pairs = list(pairs)
    times = Counter(name for name, _ in pairs)
    return {name: value for name, value in pairs if times[name] == 1}
