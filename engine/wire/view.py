"""What a port's reducer is told of the topology: its own addresses, who its peers are, and which groups it serves."""

from collections.abc import Mapping
from dataclasses import dataclass, field

PIPELINES = frozenset({"pipeline-parallel"})
"""Kinds of group whose members send in turn, each after its input has come."""
BARRIERS = frozenset({"tensor-parallel", "data-parallel", "expert-parallel", "context-parallel", "sequence-parallel"})
"""Kinds of group whose members all send in each round, and wait for all others before the next."""

TRANSFERS = frozenset({"prefill-decode"})
"""Kinds of group whose members hand over caches, whenever there is one."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A parallel group as one of its members' ports sees it."""

    name: str
    kind: str
    own: int
    """Place of this port's node among `nodes`."""
    nodes: tuple[str, ...]
    """Nodes of the members in rank order, each once."""
    keys: Mapping[int, int]
    """Place in `nodes` by address key."""


@dataclass(frozen=True, slots=True)
class PortView:
    """One port, as its reducer needs to know it."""

    port: str
    """`node/port`."""
    node: str
    network: str
    own: frozenset[int]
    """Address keys of the port."""
    peers: Mapping[int, str]
    """`node/port` by address key, for every other port of the network."""
    groups: tuple[GroupView, ...] = field(default=())
