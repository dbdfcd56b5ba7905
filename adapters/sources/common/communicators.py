"""Matches NCCL communicators to groups of the topology by the hosts and GPUs of their ranks.

A communicator gets a new identity at each start of a job. Known are its size and, rank by rank, a host and perhaps a
GPU. It is matched to a group if that group alone agrees with all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from skewscope.adapters.mapping.names import MetricResolver
from skewscope.engine.model.topology import Group, Topology

MAX_COMMUNICATORS = 100_000


class CommunicatorRank(NamedTuple):
    """One rank as NCCL reports it."""

    communicator: str
    size: int
    rank: int
    host: str
    gpu: int | None = None
    """GPU number on the host, if reported."""


@dataclass
class CommunicatorMatcher:
    """Communicators seen so far."""

    topology: Topology
    names: MetricResolver
    _candidate_groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Candidate groups by communicator."""

    def find_member(self, reported: CommunicatorRank) -> tuple[str, str]:
        """Returns group and member of a rank; both '' while ambiguous."""
        node = self.names.find_node(reported.host)
        if not node:
            return "", ""
        known = self._candidate_groups.get(reported.communicator)
        groups = self.topology.groups if known is None else [self.topology.group[name] for name in known]
        fitting = {group.name: member for group in groups if (member := self._matching_member(group, reported, node))}
        if len(self._candidate_groups) >= MAX_COMMUNICATORS:
            self._candidate_groups.clear()
        self._candidate_groups[reported.communicator] = tuple(fitting)
        return next(iter(fitting.items())) if len(fitting) == 1 else ("", "")

    def _matching_member(self, group: Group, reported: CommunicatorRank, node: str) -> str:
        """Returns the member of a group that the rank matches; '' for none."""
        if len(group.members) != reported.size or not 0 <= reported.rank < reported.size:
            return ""
        if reported.gpu is not None and (named := f"{node}/gpu{reported.gpu}") in group.members:
            return named
        member = group.members[reported.rank]
        if reported.gpu is not None and "/" in member and member not in self.topology.node:
            return ""
        return member if self.topology.node_of[member] == node else ""

    def find_memberships(self, host: str, gpu: int) -> Iterator[tuple[str, str]]:
        """Yields each group that a GPU or its host is a member of, and that member."""
        node = self.names.find_node(host)
        for group in self.topology.groups if node else ():
            found = next((name for name in (f"{node}/gpu{gpu}", node) if name in group.members), "")
            if found:
                yield group.name, found


def rank_labels(group: str, member: str, **more: str) -> tuple[tuple[str, str], ...]:
    """Returns the labels of a rank's series."""
    return (("group", group), ("rank", member), *more.items())
