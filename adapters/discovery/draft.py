"""A draft of a topology, merged from several sources."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class PortDraft:
    """A network port."""

    name: str
    network: str
    guess: str = ""
    """Why its network is a guess; '' if it is known."""
    speed: float = 0.0
    """Bytes per second; 0 if unknown."""
    addresses: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    switch: str = ""


@dataclass(frozen=True, slots=True)
class NodeDraft:
    """A node."""

    name: str
    rack: str = ""
    gpus: int = 0
    addresses: tuple[str, ...] = ()
    switch: str = ""
    """Its leaf switch, if only that is known."""
    ports: tuple[PortDraft, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupDraft:
    """Nodes that work together; members in the order of their ranks."""

    name: str
    kind: str
    guess: str
    """What is a guess; '' for nothing."""
    members: tuple[str, ...]
    pool: str = ""


@dataclass
class TopologyDraft:
    """A cluster."""

    nodes: dict[str, NodeDraft] = field(default_factory=dict)
    groups: list[GroupDraft] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What was omitted, and why."""

    def add(self, nodes: Iterable[NodeDraft]) -> None:
        """Merges nodes; the first value of a field counts."""
        for node in nodes:
            known = self.nodes.get(node.name)
            self.nodes[node.name] = node if known is None else _merge_nodes(known, node)


def _merge_nodes(known: NodeDraft, more: NodeDraft) -> NodeDraft:
    return replace(
        known,
        rack=known.rack or more.rack,
        gpus=known.gpus or more.gpus,
        addresses=known.addresses or more.addresses,
        switch=known.switch or more.switch,
        ports=known.ports or more.ports,
    )
