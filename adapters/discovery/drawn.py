"""What was found of a cluster, from several places, before it is written."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class DrawnPort:
    """A network port."""

    name: str
    network: str
    guess: str = ""
    """Why its network is only a guess; '' where it is known."""
    speed: float = 0.0
    """Bytes per second; 0 where nobody said."""
    addresses: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    switch: str = ""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node."""

    name: str
    rack: str = ""
    gpus: int = 0
    addresses: tuple[str, ...] = ()
    switch: str = ""
    """The leaf that it hangs on, where only that is known."""
    ports: tuple[DrawnPort, ...] = ()


@dataclass(frozen=True, slots=True)
class DrawnGroup:
    """Nodes that work together; members in the order of their ranks."""

    name: str
    kind: str
    guess: str
    """What is a guess in it; '' for nothing."""
    members: tuple[str, ...]
    pool: str = ""


@dataclass
class Drawn:
    """A cluster."""

    nodes: dict[str, DrawnNode] = field(default_factory=dict)
    groups: list[DrawnGroup] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What was left out, and why."""

    def add(self, nodes: Iterable[DrawnNode]) -> None:
        """Takes nodes in; what is told of one first counts."""
        for node in nodes:
            known = self.nodes.get(node.name)
            self.nodes[node.name] = node if known is None else _merged(known, node)


def _merged(known: DrawnNode, more: DrawnNode) -> DrawnNode:
    return replace(
        known,
        rack=known.rack or more.rack,
        gpus=known.gpus or more.gpus,
        addresses=known.addresses or more.addresses,
        switch=known.switch or more.switch,
        ports=known.ports or more.ports,
    )
