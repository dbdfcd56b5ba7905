"""A draft of a topology, merged from several sources."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

CERTAIN, LIKELY, GUESS = "certain", "likely", "a guess"


@dataclass(frozen=True, slots=True, order=True)
class Assumption:
    """Something that was inferred, from what, and how sure it is."""

    what: str
    basis: str
    """Labels or names from which it follows."""
    certainty: str = LIKELY
    """CERTAIN, LIKELY or GUESS."""

    def __str__(self) -> str:
        return f"{self.what}: from {self.basis} ({self.certainty})"


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
    aliases: tuple[str, ...] = ()
    """Further host names and addresses."""
    gpu_ids: tuple[str, ...] = ()
    """UUID of each GPU in the order of their indices, where no label gives an index."""


@dataclass(frozen=True, slots=True)
class GroupDraft:
    """Nodes that work together; members in the order of their ranks."""

    name: str
    kind: str
    guess: str
    """What is a guess; '' for nothing."""
    members: tuple[str, ...]
    pool: str = ""
    front_end: str = ""
    engine: tuple[tuple[str, str], ...] = ()
    """Labels by which the series of its serving engine are told apart, sorted."""
    namespace: str = ""
    """The namespace in which it serves, where a label says it."""


@dataclass
class TopologyDraft:
    """A cluster."""

    nodes: dict[str, NodeDraft] = field(default_factory=dict)
    groups: list[GroupDraft] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What was omitted, and why."""
    assumptions: list[Assumption] = field(default_factory=list)

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
        aliases=known.aliases or more.aliases,
        gpu_ids=known.gpu_ids or more.gpu_ids,
    )
