"""The part of the topology that a port's reducer needs: its addresses, its peers and its groups."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import I64

PIPELINES = frozenset({"pipeline-parallel"})
"""Kinds of group whose members send in turn, each after its input has come."""
BARRIERS = frozenset({"tensor-parallel", "data-parallel", "expert-parallel", "context-parallel", "sequence-parallel"})
"""Kinds of group whose members all send in each round, and wait for all others before the next."""

TRANSFERS = frozenset({"prefill-decode"})
"""Kinds of group whose members send caches to one another, at any time."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A parallel group from the port of one of its members."""

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
    """What the reducer of one port needs."""

    port: str
    """`node/port`."""
    node: str
    network: str
    own: frozenset[int]
    """Address keys of the port."""
    peers: Mapping[int, str]
    """`node/port` by address key, for every other port of the network."""
    groups: tuple[GroupView, ...] = field(default=())


def members_of(group: GroupView, keys: NDArray[np.uint64]) -> I64:
    """Returns [key] the member with each address key, -1 for a foreign address."""
    known = np.array(sorted(group.keys), np.uint64)
    place = np.array([group.keys[k] for k in sorted(group.keys)], np.int64)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.asarray(np.where(known[at] == keys, place[at], -1))
