"""Settings of a fleet in shards: the section `fleet` of the controller's config."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skewscope.engine.model.shards import ShardSizes

LOCAL = "local"
"""Instead of an address: a Ray of its own, which ends with the controller."""


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """How a fleet is cut and where its shards run."""

    state: Path
    """Folder of the journals, which all machines of Ray share."""
    ray: str = "auto"
    """Address of Ray; `auto` for that of this machine."""
    sizes: ShardSizes = field(default_factory=ShardSizes)
    cpus: float = 1.0
    """Processors that Ray sets aside for each shard."""
    host: str = "127.0.0.1"
    """Address on which shards listen for rows."""
    sites: Mapping[str, str] = field(default_factory=dict)
    """By the `fleet` of nodes: the custom resource of Ray that the machines of this site have."""
