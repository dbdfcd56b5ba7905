"""The rule of who may report what, for every way in: agents, pages, pushes, queries and files.

A sender reports for its nodes, their GPUs and ports, their ranks, and for their own view of peers and links. A group as
a whole is reported by its front end, or by a sender that the configuration names. What a port measures of the rounds of
a group, and of a peer in them, counts only where both are members of it. A sender with the role `fleet` reports all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from skewscope.adapters.mapping.entities import EntityResolver, LabelReader, UnmappedError, has_engine_labels
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.senders import front_node, node_of_entity
from skewscope.engine.model.topology import Topology
from skewscope.engine.wire.join import INPUT_SIGNALS

FLEET = "fleet"
"""The role of a sender that reports for everything, as a configuration names it."""
OTHER_NODE = "of another node"
OTHER_MEMBER = "of another member of a group"
WHOLE_GROUP = "of a group or pool as a whole"
OTHER_GROUP = "of the rounds of a group without the node or its peer"
UNBOUND = "from a target that is bound to no node"
MAX_SENDERS = 100_000
"""Instances whose senders are remembered."""
REASONS = (OTHER_NODE, OTHER_MEMBER, WHOLE_GROUP, OTHER_GROUP, UNBOUND)


@dataclass(frozen=True, slots=True)
class Sender:
    """One who delivers series."""

    name: str
    nodes: frozenset[str] = frozenset()
    """Nodes for which it reports."""
    groups: frozenset[str] = frozenset()
    """Groups and pools that it reports as a whole, their members included."""
    is_fleet: bool = False
    """Whether it reports for everything."""

    @property
    def origin(self) -> str:
        """Its name as a witness: that of its node where it has one; two pages of a node are one witness."""
        return next(iter(self.nodes)) if len(self.nodes) == 1 and not self.is_fleet else self.name


@dataclass(frozen=True)
class SenderRule:
    """Decides what a sender may report. Pure: it depends on the topology only."""

    topology: Topology

    def find_objection(self, sender: Sender, key: SeriesKey) -> str:
        """Returns why a sender must not deliver a series, one of REASONS; '' where it may."""
        if sender.is_fleet:
            return ""
        if not (sender.nodes or sender.groups):
            return UNBOUND
        return self._object_to_entity(sender, key) or self._object_to_selector(sender, key)

    def _object_to_entity(self, sender: Sender, key: SeriesKey) -> str:
        name = key.entity
        if key.kind in ("node", "port", "gpu", "peer"):
            return "" if node_of_entity(name) in sender.nodes else OTHER_NODE
        if key.kind == "link":
            ends = {node_of_entity(end) for end in name.split("--")}
            return "" if ends & sender.nodes else OTHER_NODE
        group, _, member = name.partition(":")
        if group in sender.groups and (key.kind == "pool" or group in self.topology.group):
            return ""
        if key.kind == "rank" and group in self.topology.group:
            return "" if self.topology.node_of.get(member) in sender.nodes else OTHER_MEMBER
        is_front = key.kind in ("group", "replica") and self._is_front(sender, group, key.kind)
        return "" if is_front else WHOLE_GROUP

    def _is_front(self, sender: Sender, group: str, kind: str) -> bool:
        """Returns whether a sender sees a group's requests: its front end, or a member of a replica without one."""
        if front := front_node(group, self.topology):
            return front in sender.nodes
        return kind == "replica" and group in self.topology.serving_groups and self._is_member(sender, group)

    def _is_member(self, sender: Sender, group: str) -> bool:
        return any(self.topology.node_of[member] in sender.nodes for member in self.topology.group[group].members)

    def _object_to_selector(self, sender: Sender, key: SeriesKey) -> str:
        """Objects where a series is of the rounds of a group to which its port, or the peer, does not belong."""
        group = self.topology.group.get(key.selector)
        if group is None or key.signal not in INPUT_SIGNALS or group.name in sender.groups:
            return ""
        peer = key.entity.partition(">")[2]
        ends = {node_of_entity(key.entity), node_of_entity(peer) if peer else node_of_entity(key.entity)}
        members = {self.topology.node_of[member] for member in group.members}
        return "" if ends <= members else OTHER_GROUP


@dataclass(frozen=True)
class SenderLookup:
    """Finds who delivers a series of a source, by the labels of its target and of the series."""

    rule: SenderRule
    resolver: EntityResolver
    sender: Sender
    by_instance: bool = False
    """Whether the label `instance` of a series, where it is that of a node, names the sender: a server that collects
    pages sets it, and the page cannot."""
    senders: dict[str, Sender] = field(default_factory=dict)
    """Senders by the label `instance`."""

    def find(self, labels: Mapping[str, str]) -> Sender:
        """Returns who delivers a series with these labels."""
        instance = labels.get("instance", "") if self.by_instance else ""
        if not instance:
            return self.sender
        found = self.senders.get(instance)
        if found is None:
            node = find_labelled_node(self.resolver, {"instance": instance})
            found = Sender(node, frozenset((node,))) if node else self.sender
            if len(self.senders) < MAX_SENDERS:
                self.senders[instance] = found
        return found


def find_labelled_node(resolver: EntityResolver, labels: Mapping[str, str]) -> str:
    """Returns the node that labels name; '' for none."""
    try:
        return resolver.node(LabelReader(labels)).name
    except UnmappedError:
        return ""


def declare_sender(name: str, topology: Topology, labels: Mapping[str, str], reports_for: Iterable[str] = ()) -> Sender:
    """Returns the sender of a target: it reports for what its declared labels and `reports_for` name.

    Args:
        name: of the sender, as it is counted.
        topology: the fleet.
        labels: those that the configuration gives the target, and its address as `instance`.
        reports_for: names of nodes, groups and pools, or FLEET.
    """
    named = frozenset(reports_for)
    if FLEET in named:
        return Sender(name, is_fleet=True)
    node = find_labelled_node(EntityResolver(topology), labels)
    wholes = {*topology.group, *(pool.name for pool in topology.pools)}
    groups = {labels[label] for label in ("replica", "group", "pool") if labels.get(label) in wholes}
    groups |= {group.name for group in topology.groups if group.engine and has_engine_labels(group.engine, labels)}
    nodes = named & topology.node.keys() | ({node} if node else set())
    return Sender(name, frozenset(nodes), frozenset(groups | named & wholes))
