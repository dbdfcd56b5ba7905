"""Which group of the topology a communicator of NCCL is, by who its ranks are.

A communicator has an identity that is new at each start of a job. What is known of it are its size and, rank by rank,
a host and perhaps a GPU: the group that agrees with all of that, and alone does, is meant.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from skewscope.adapters.names import Names
from skewscope.engine.topology import Group, Topology

MOST_COMMUNICATORS = 100_000


class Rank(NamedTuple):
    """One rank as NCCL tells it."""

    communicator: str
    size: int
    rank: int
    host: str
    gpu: int | None = None
    """Its number on the host, where it is told."""


@dataclass
class Communicators:
    """Those that were heard of."""

    topology: Topology
    names: Names
    _groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Groups that a communicator may be."""

    def member(self, told: Rank) -> tuple[str, str]:
        """Group and member that a rank is; both '' where nobody can say."""
        node = self.names.node(told.host)
        if not node:
            return "", ""
        known = self._groups.get(told.communicator)
        groups = self.topology.groups if known is None else [self.topology.group[name] for name in known]
        fitting = {group.name: member for group in groups if (member := self._fits(group, told, node))}
        if len(self._groups) >= MOST_COMMUNICATORS:
            self._groups.clear()
        self._groups[told.communicator] = tuple(fitting)
        return next(iter(fitting.items())) if len(fitting) == 1 else ("", "")

    def _fits(self, group: Group, told: Rank, node: str) -> str:
        """The member that a rank would be of a group; '' when it can be none."""
        if len(group.members) != told.size or not 0 <= told.rank < told.size:
            return ""
        if told.gpu is not None and (named := f"{node}/gpu{told.gpu}") in group.members:
            return named
        member = group.members[told.rank]
        if told.gpu is not None and "/" in member and member not in self.topology.node:
            return ""
        return member if self.topology.node_of[member] == node else ""

    def everywhere(self, host: str, gpu: int) -> Iterator[tuple[str, str]]:
        """Each group that a GPU of a host, or the host, is a member of, and that member."""
        node = self.names.node(host)
        for group in self.topology.groups if node else ():
            found = next((name for name in (f"{node}/gpu{gpu}", node) if name in group.members), "")
            if found:
                yield group.name, found


def labels(group: str, member: str, **more: str) -> tuple[tuple[str, str], ...]:
    """The labels of a rank's series."""
    return (("group", group), ("rank", member), *more.items())
