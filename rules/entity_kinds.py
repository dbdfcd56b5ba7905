"""The kinds of entity, which of them contain which, and the kind on which each signal is reported."""

from collections.abc import Mapping

SCOPES = ("node", "port", "gpu", "rank", "group", "replica", "pool", "link", "fleet")
"""Kinds that a rule may judge."""

KINDS = (*SCOPES, "peer")

# From small to large, first the nearest: a value of any of these is also a value of everything inside it.
CONTAINERS: Mapping[str, tuple[str, ...]] = {
    "peer": ("port", "node", "fleet"),
    "port": ("node", "fleet"),
    "gpu": ("node", "fleet"),
    "rank": ("group", "node", "replica", "pool", "fleet"),
    "group": ("replica", "pool", "fleet"),
    "replica": ("group", "pool", "fleet"),
    "node": ("fleet",),
    "link": ("fleet",),
    "pool": ("fleet",),
    "fleet": (),
}

# If a signal's entity is finer than the topology, selectors distinguish its series.
SIGNAL_KINDS: Mapping[str, str] = {
    **{kind: kind for kind in KINDS},
    "rdma_port": "port",
    "priority": "port",
    "lane": "port",
    "queue": "port",
    "flow": "port",
    "function": "port",
    "representor": "port",
    "pcie_port": "port",
    "dpu": "node",
    "dpu_soc": "node",
    "engine": "replica",
    "request-pool": "pool",
}

PEER_DEFAULTS: Mapping[str, str] = {
    "rank": "group",
    "gpu": "node",
    "port": "network",
    "node": "all",
    "replica": "pool",
    "group": "kind",
    "pool": "all",
    "link": "all",
    "peer": "port",
    "fleet": "all",
}

PEER_CHOICES: Mapping[str, tuple[str, ...]] = {
    "rank": ("group", "node", "kind", "all"),
    "gpu": ("node", "all"),
    "port": ("network", "node", "switch", "all"),
    "node": ("all", "rack"),
    "replica": ("pool", "kind", "all"),
    "group": ("kind", "pool", "all"),
    "pool": ("all",),
    "link": ("all",),
    "peer": ("port",),
    "fleet": ("all",),
}
"""What peers may share. A rule about ranks, nodes or GPUs may also name a kind of group: its members are peers."""

GROUP_LIKE = ("group", "replica")
GROUP_KINDS = ("tensor-parallel", "pipeline-parallel", "data-parallel", "expert-parallel", "prefill-decode")
NETWORKS = ("north-south", "east-west")


def kind_of(entity: str) -> str:
    """Returns the kind of the topology on which a signal with this `entity` is reported, or '' if there is none."""
    return SIGNAL_KINDS.get(entity, "")


def contains(upper: str, lower: str) -> bool:
    """Returns whether every `lower` lies in one `upper`."""
    return upper in CONTAINERS[lower]
