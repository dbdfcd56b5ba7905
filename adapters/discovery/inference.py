"""Infers a topology from the metrics and labels of telemetry: nodes, GPUs, ports, groups, replicas and pools.

Values are not read. What follows from a convention rather than from a label is an assumption with its basis; a node, a
GPU or a port that no series names does not exist for the inference.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from skewscope.adapters.discovery.draft import CERTAIN, GUESS, LIKELY, Assumption, NodeDraft, TopologyDraft
from skewscope.adapters.discovery.hosts import HOST_BOUND, HostNames
from skewscope.adapters.discovery.inferred_groups import GroupFinder
from skewscope.adapters.discovery.inferred_ports import PortLabels, draft_ports
from skewscope.adapters.discovery.observed_series import ObservedSeries
from skewscope.adapters.mapping.entities import GPU_ID_LABELS, GPU_LABELS, GPU_PATTERN
from skewscope.engine.model.topology_file import MAX_GPUS, NODE_WITHOUT

DIRECT_KINDS = HOST_BOUND - {"replica", "rank"}
"""Kinds whose series say that a node exists; hosts of ranks and engines are settled with their groups."""


@dataclass
class NodeLabels:
    """What the series of one node say of it."""

    gpus: set[int] = field(default_factory=set)
    uuids: set[str] = field(default_factory=set)
    """UUIDs, or else PCI addresses, of series without an index."""
    ports: PortLabels = field(default_factory=PortLabels)


def infer_topology(series: Iterable[ObservedSeries]) -> TopologyDraft:
    """Returns a draft of the cluster that the series come from, with what was assumed."""
    found = list(series)
    hosts = HostNames(found)
    nodes: dict[str, NodeLabels] = defaultdict(NodeLabels)
    groups = GroupFinder(node_of_pod=hosts.node_of_pod)
    for one in found:
        node = hosts.find_node(one.labels)
        if node and (one.kinds & DIRECT_KINDS or one.metric == "node_uname_info"):
            _add_series(nodes[node], one)
        _add_to_groups(groups, one, node, hosts)
    counts = {name: len(labels.uuids) or max(labels.gpus, default=-1) + 1 for name, labels in nodes.items()}
    draft = TopologyDraft()
    draft.groups = groups.draft_groups(counts)
    members = {member.rpartition("/gpu")[0] or member for group in draft.groups for member in group.members}
    names = {*nodes, *members, *(group.front_end for group in draft.groups if group.front_end)}
    ports, assumed = draft_ports({name: nodes[name].ports for name in sorted(names) if name in nodes})
    aliases = hosts.aliases
    draft.add(
        NodeDraft(
            name,
            gpus=_count_gpus(name, nodes, draft),
            ports=ports.get(name, ()),
            aliases=tuple(aliases.get(name, ())),
            gpu_ids=tuple(sorted(nodes[name].uuids)) if name in nodes and not nodes[name].gpus else (),
        )
        for name in sorted(names)
        if not set(name) & set(NODE_WITHOUT)
    )
    draft.assumptions = [*_node_assumptions(hosts, draft), *assumed, *sorted(set(groups.assumptions))]
    return draft


def _add_series(node: NodeLabels, one: ObservedSeries) -> None:
    if "gpu" in one.kinds and not one.labels.get("GPU_I_ID"):
        text = next((one.labels[label] for label in GPU_LABELS if one.labels.get(label)), "")
        uuid = next((one.labels[label] for label in GPU_ID_LABELS if one.labels.get(label)), "")
        match = GPU_PATTERN.fullmatch(text)
        if match and int(match[1]) < MAX_GPUS:
            node.gpus.add(int(match[1]))
        elif uuid and len(node.uuids) < MAX_GPUS:
            node.uuids.add(uuid)
    if one.kinds & {"port", "peer", "link"}:
        node.ports.add(one.labels)


def _add_to_groups(groups: GroupFinder, one: ObservedSeries, node: str, hosts: HostNames) -> None:
    if "replica" in one.kinds:
        groups.add_engine(one.metric, one.labels, hosts.find_node({**one.labels, "instance": ""}))
    if one.kinds & {"rank", "group"}:
        groups.add_rank(one.labels, node)
    elif one.kinds & {"port", "peer"}:
        groups.add_host(one.labels, node)
    if "gpu" in one.kinds and node:
        text = next((one.labels[label] for label in GPU_LABELS if one.labels.get(label)), "")
        if match := GPU_PATTERN.fullmatch(text):
            groups.add_gpu(one.labels, f"{node}/gpu{int(match[1])}")


MAX_DIGITS = 10
"""Of the number of a GPU in a member's name; a longer one is none."""


def _count_gpus(name: str, nodes: dict[str, NodeLabels], draft: TopologyDraft) -> int:
    """Returns the number of GPUs of a node: those that series or members of groups name."""
    own = nodes.get(name, NodeLabels())
    members = (member.rpartition("/gpu") for group in draft.groups for member in group.members)
    numbers = (number for node, mark, number in members if mark and node == name and number.isdecimal())
    named = [int(number) for number in numbers if len(number) < MAX_DIGITS]
    return max(len(own.uuids) if not own.gpus else 0, *(n + 1 for n in (*own.gpus, *named, -1)))


def _node_assumptions(hosts: HostNames, draft: TopologyDraft) -> Iterator[Assumption]:
    """Yields from which labels the nodes and their GPUs are."""
    for label, names in sorted(hosts.labels_used.items()):
        certainty = LIKELY if label == "instance" else CERTAIN
        some = names & draft.nodes.keys()
        if some:
            yield Assumption(f"{_count(len(some), 'node')}", f"the label `{label}`", certainty)
    renamed = sum(bool(node.aliases) for node in draft.nodes.values())
    if renamed:
        yield Assumption(f"further names of {_count(renamed, 'node')}", "hosts on the same series", LIKELY)
    gpus = sum(node.gpus for node in draft.nodes.values())
    if gpus:
        by_uuid = sum(len(node.gpu_ids) for node in draft.nodes.values())
        yield Assumption(f"{_count(gpus - by_uuid, 'GPU')}", "the highest index on each node", LIKELY)
        if by_uuid:
            yield Assumption(f"the order of {_count(by_uuid, 'GPU')}", "their UUIDs or PCI addresses", GUESS)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
