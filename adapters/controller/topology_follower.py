"""The topology of a controller that discovers it: what sources deliver says who there is, at each tick."""

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from skewscope.adapters.discovery.living_topology import DrawnTopology, LivingTopology, TopologyChange
from skewscope.adapters.discovery.sighting_log import SightingLog
from skewscope.adapters.runtime.blocking_calls import WORK
from skewscope.adapters.sources.common.base import SourceBatch
from skewscope.engine.model.topology import Topology

MAX_CHANGES = 1000
"""Changes that are kept to be shown."""
SETTLED_S = 300.0
"""Seconds after the start within which an earlier incident may still find its place: five scrapes of a minute."""
MAX_SHARE = 0.1
"""Share of the time that may be spent on drawing topologies and building engines for them."""


@dataclass
class TopologyFollower:
    """Follows what sources deliver, and draws the topology anew when others live."""

    living: LivingTopology
    changes: deque[TopologyChange] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
    """The latest changes, oldest first."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of changes by what they are."""
    _log: SightingLog = field(default_factory=SightingLog)
    _drawn_for: bytes = b""
    """Which sightings lived when it was drawn last."""
    _begun: float = math.inf
    """When the first was seen."""
    _next_due: float = math.inf
    _resume_at: float = -math.inf
    """Before this uptime nothing is drawn: the last time took long."""

    @property
    def refusals(self) -> int:
        """Number of sightings above the limit, which are not seen."""
        return self._log.refused

    def take_in(self, t: float, handed: Mapping[str, Sequence[SourceBatch]]) -> None:
        """Takes in the batches of the tick that ends at `t`, by source."""
        self._log.take_in(handed)
        if math.isinf(self._begun) and len(self._log):
            self._begun = t

    def is_due(self, t: float, uptime: float) -> bool:
        """Returns whether the topology may be another one than it was.

        Args:
            t: end of the tick, seconds since 1970.
            uptime: seconds of the clock that nobody sets.
        """
        if uptime < self._resume_at:
            return False
        return t >= self._next_due or self._log.mark_living().tobytes() != self._drawn_for

    async def draw(self, t: float) -> DrawnTopology:
        """Returns what there is at `t`, in seconds since 1970."""
        seen = self._log.list_living()
        self._drawn_for = self._log.mark_living().tobytes()
        drawn = await WORK.run(self.living.draw, t, seen, self._log.usual_period)
        self._next_due = drawn.next_due
        self.changes.extend(drawn.changes)
        self.counts.update(change.what for change in drawn.changes)
        return drawn

    def is_settled(self, t: float) -> bool:
        """Returns whether all that lives has been seen by `t`, in seconds since 1970."""
        return t > self._begun + SETTLED_S

    def rest(self, uptime: float, seconds: float) -> None:
        """Draws nothing for a while, after it has taken so many seconds."""
        self._resume_at = uptime + seconds / MAX_SHARE


def is_same_for_engine(one: Topology, other: Topology) -> bool:
    """Returns whether two topologies differ in nothing but by which labels series are mapped to their entities."""
    return _without_labels(one) == _without_labels(other)


def _without_labels(topology: Topology) -> Topology:
    return Topology(
        tuple(replace(node, aliases=()) for node in topology.nodes),
        tuple(replace(group, engine=(("", ""),) if group.engine else ()) for group in topology.groups),
        topology.pools,
    )
