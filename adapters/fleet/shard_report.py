"""What a shard says of itself: plain values, which Ray carries to the controller of the fleet."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from skewscope.adapters.view.snapshot import SourceState
from skewscope.engine.model.incident import Incident, IncidentChange


class ShardTick(NamedTuple):
    """The changes of one tick of a shard."""

    number: int
    """Counts from 1 in a life of the shard, and never again."""
    t: float
    """End of the tick, seconds since 1970."""
    changes: tuple[IncidentChange, ...]


@dataclass(frozen=True, slots=True)
class ShardCounts:
    """Numbers of samples and series of a shard."""

    samples: int = 0
    """Of the last tick."""
    series: int = 0
    late: int = 0
    """Samples that arrived too late, so far."""
    superseded: int = 0
    """Samples that newer ones superseded, so far."""


@dataclass(frozen=True, slots=True)
class ShardReport:
    """The state of a shard after its last tick, and what has changed since it was last heard."""

    shard: str
    life: str
    """Another one where the shard has lost what it knew."""
    t: float
    """End of the last tick; -inf before the first."""
    ticks: tuple[ShardTick, ...]
    """Ticks with changes that nobody has acknowledged yet, oldest first."""
    last_number: int
    """Number of the last tick."""
    incidents: tuple[Incident, ...]
    sources: tuple[SourceState, ...]
    missing: tuple[str, ...]
    node_coverage: Mapping[str, float]
    counts: ShardCounts
    troubles: tuple[str, ...] = ()
    url: str = ""
    """Where its agents send rows; '' for nowhere."""
    agents: tuple[tuple[str, str, float], ...] = ()
    """Node, version and last row of each agent."""
    engine_coverage: Mapping[str, float] = field(default_factory=dict)
    """For each group with a serving engine, 1 where its telemetry arrives and 0 where not."""
    uncertain: frozenset[str] = frozenset()
    """Ids of firing incidents whose rule cannot be judged at present."""
