"""Names of hosts out of the labels of series: which label names the node, and which texts name the same host."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from skewscope.adapters.discovery.observed_series import ObservedSeries
from skewscope.adapters.mapping.entities import NODE_LABELS
from skewscope.engine.model.topology_file import NODE_WITHOUT

HOST_LABELS = ("node", *NODE_LABELS)
HOST_BOUND = frozenset(("node", "port", "gpu", "rank", "peer", "link", "replica"))
"""Kinds of entities that lie on a node."""
MAX_LINKS = 4
"""Steps from one name to the next that are followed."""


def bare_host(text: str) -> str:
    """Returns a host without scheme, port and brackets."""
    host = text.rpartition("//")[2].partition("/")[0]
    if host.startswith("["):
        return host[1:].partition("]")[0]
    head, colon, tail = host.rpartition(":")
    return head if colon and ":" not in head and tail.isdecimal() else host


def is_address(text: str) -> bool:
    """Returns whether a text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


class HostNames:
    """The nodes that the labels of some series name."""

    def __init__(self, series: Iterable[ObservedSeries]) -> None:
        self.labels_used: dict[str, set[str]] = defaultdict(set)
        """Nodes by the label that names them."""
        links: dict[str, set[str]] = defaultdict(set)
        self._first: dict[str, str] = {}
        """The label that names a host, by its name."""
        self.node_of_pod: dict[str, str] = {}
        for one in series:
            hosts = _hosts(one.labels)
            if one.metric == "kube_pod_info":
                self._add_pod(one.labels, links)
            elif hosts and (one.kinds & HOST_BOUND or one.metric == "node_uname_info"):
                (label, name), *others = hosts
                self._first.setdefault(name, label)
                for _, other in others:
                    if other != name:
                        links[other].add(name)
        self._canonical = _merge_names(links, self._first)
        for name, label in sorted(self._first.items()):
            if self._canonical.get(name, name) == name:
                self.labels_used[label].add(name)

    def _add_pod(self, labels: Mapping[str, str], links: dict[str, set[str]]) -> None:
        node, pod = labels.get("node", ""), labels.get("pod", "")
        if node and pod:
            self.node_of_pod[pod] = node
            if host := labels.get("host_ip", ""):
                links[host].add(node)

    @property
    def aliases(self) -> dict[str, list[str]]:
        """Further names and addresses of each node, sorted."""
        found: dict[str, list[str]] = defaultdict(list)
        for other, name in sorted(self._canonical.items()):
            if name in self._first and not _is_short_form(other, name):
                found[name].append(other)
        return found

    def find_node(self, labels: Mapping[str, str]) -> str:
        """Returns the node of a series; '' where no label names one."""
        for _, name in _hosts(labels)[:1]:
            found = self._canonical.get(name, name)
            return "" if set(found) & set(NODE_WITHOUT) else found
        return ""


def _hosts(labels: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns (label, host) of each label that names a host, the one that counts first."""
    found = [(label, bare_host(labels[label])) for label in HOST_LABELS if labels.get(label)]
    # The scrape target of a series with an instance of its own is an aggregator.
    return [pair for pair in found if pair[0] != "instance"] if labels.get("exported_instance") else found


def _merge_names(links: Mapping[str, set[str]], first: Mapping[str, str]) -> dict[str, str]:
    """Returns the node of each other name: the sole host that it stands beside, or the short form of itself."""
    sole = {other: next(iter(names)) for other, names in links.items() if len(names) == 1}
    canonical = {other: name for other, name in sole.items() if sole.get(name) != other or name < other}
    shorts: dict[str, set[str]] = defaultdict(set)
    for name in first:
        if not is_address(name):
            shorts[name.partition(".")[0]].add(name)
    for short, names in shorts.items():
        full = names - {short}
        if short in names and len(full) == 1:
            canonical.setdefault(full.pop(), short)
    return {other: _follow(canonical, name) for other, name in canonical.items()}


def _follow(canonical: Mapping[str, str], name: str) -> str:
    for _ in range(MAX_LINKS):
        name = canonical.get(name, name)
    return name


def _is_short_form(one: str, other: str) -> bool:
    """Returns whether one of two names is the first part of the other."""
    return one.partition(".")[0] == other or other.partition(".")[0] == one
