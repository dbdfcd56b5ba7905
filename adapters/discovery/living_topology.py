"""A topology that lives: what labels show at present, with names that stay, merged with what is declared.

Entities begin with their first series and end with their last one (`sighting_log`). What has ended stays in the
topology for `KEPT_S`, marked as gone, so that windows and pasts go on where the work does: a pod that follows another
one at the same GPUs is the same replica. All of it follows from the sightings: a restart finds the same names again.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skewscope.adapters.discovery.draft import GroupDraft, NodeDraft, TopologyDraft
from skewscope.adapters.discovery.drawn_topology import build_topology, has_member, merge_into, sort_topology
from skewscope.adapters.discovery.hosts import HOST_LABELS, bare_host, is_address
from skewscope.adapters.discovery.inference import infer_topology
from skewscope.adapters.discovery.inferred_groups import POD_LABELS
from skewscope.adapters.discovery.sighting_log import LivingSighting
from skewscope.adapters.discovery.workload_slots import SlotNumbers, describe_place, workload_of
from skewscope.adapters.mapping.entities import UUID_LABELS
from skewscope.engine.model.topology import GonePlaces, Group, Node, Pool, Topology

KEPT_S = 540.0
"""Seconds for which what has ended stays: with the time until that is noticed less than ten minutes."""
PLACED_PERIODS = 1.2
"""Periods for which a pod waits for a GPU that names it: within one every target is read once..."""
MAX_WAIT_S = 5.0
"""...looked at again after so many seconds at most, as the period may not be known yet."""
BEGAN, ENDED, MOVED, RENAMED = "began", "ended", "moved", "renamed"


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """A change of what there is."""

    t: float
    """Seconds since 1970."""
    what: str
    """BEGAN, ENDED, MOVED (another pod has its place) or RENAMED."""
    kind: str
    """node or group."""
    name: str
    detail: str = ""
    """The pod of a group, or another name; '' for none."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.what}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True, slots=True)
class DrawnTopology:
    """What there is at a time."""

    topology: Topology
    """With what has ended a short time ago."""
    gone: GonePlaces
    changes: tuple[TopologyChange, ...]
    """Since the last one."""
    next_due: float
    """Time in seconds since 1970 at which another one differs, though nothing new is seen."""


@dataclass
class LivingTopology:
    """What there is, and what there was a short time ago."""

    declared: Topology = field(default_factory=Topology)
    _living: Topology = field(default_factory=Topology)
    """What lives, and is not declared."""
    _ended_groups: dict[str, tuple[Group, str, float]] = field(default_factory=dict)
    """Groups that ended, each with its pool, and when."""
    _ended_nodes: dict[str, tuple[Node, float]] = field(default_factory=dict)
    _cards: dict[str, str] = field(default_factory=dict)
    """The node on which each GPU was seen last, by UUID."""
    _placed: dict[str, GroupDraft] = field(default_factory=dict)
    """The groups of pods that are still there and had GPUs, under the names of their pods."""
    _numbers: SlotNumbers = field(default_factory=SlotNumbers)

    def draw(self, t: float, seen: Sequence[LivingSighting], period: float) -> DrawnTopology:
        """Returns what there is at `t`.

        Args:
            t: seconds since 1970.
            seen: the sightings that live.
            period: usual seconds between two times of a sighting.
        """
        pods = _times_of_pods(seen)
        waits = {pod: end for pod, one in pods.items() if (end := self._wait_of(pod, one, period)) > t}
        draft = infer_topology(one.sighting.as_series() for one in seen if one.serving_pod not in waits)
        self._name_groups(draft, pods)
        found = self._keep_gpus(merge_into(self.declared, build_topology(draft)))
        changes = [*self._follow_nodes(t, found, seen), *self._follow_groups(t, found)]
        self._living = found
        ends = [end + KEPT_S for _, _, end in self._ended_groups.values()]
        ends += [end + KEPT_S for _, end in self._ended_nodes.values()]
        whole, gone = self._with_ended(found)
        return DrawnTopology(
            whole,
            gone,
            tuple(changes),
            min([*ends, *(min(end, t + MAX_WAIT_S) for end in waits.values() if math.isfinite(end))], default=math.inf),
        )

    # --- names that stay

    def _wait_of(self, pod: str, times: "_PodTimes", period: float) -> float:
        """Returns until when a pod waits for a GPU that names it; one that had a place is not placed anew without."""
        if times.has_gpus:
            return -math.inf
        return math.inf if pod in self._placed else times.begun + PLACED_PERIODS * period

    def _name_groups(self, draft: TopologyDraft, pods: "Mapping[str, _PodTimes]") -> None:
        """Gives the groups of a draft names that stay, and adds those of pods that had a place and are still there."""
        self._numbers.keep(pods.keys())
        drawn = {_pod_of(group): group for group in draft.groups}
        kept = [group for pod, group in self._placed.items() if pod in pods and pod not in drawn]
        newest_first = sorted((*draft.groups, *kept), key=lambda one: (-pods.get(_pod_of(one), ALWAYS).begun, one.name))
        made: dict[str, GroupDraft] = {}
        for group in newest_first:
            pod = _pod_of(group)
            name = self._slot_name(group, pod, draft) if pod else group.name
            if name in made:
                times, follower = pods.get(pod, ALWAYS), pods.get(_pod_of(made[name]), ALWAYS)
                if not times.is_fresh or (follower.has_gpus and not times.has_gpus):
                    continue  # the pod before
                name = next(n for k in range(2, len(newest_first) + 2) if (n := f"{name}#{k}") not in made)
            made[name] = (
                self._stand_in(group, name, draft) if pod and is_address(group.front_end) else replace(group, name=name)
            )
        self._placed = {
            pod: group
            for group in newest_first
            if (pod := _pod_of(group)) and (pod in self._placed or pods.get(pod, ALWAYS).has_gpus)
        }
        draft.groups = [made[name] for name in sorted(made)]

    def _slot_name(self, group: GroupDraft, pod: str, draft: TopologyDraft) -> str:
        rest = group.name.removeprefix(pod)
        workload = workload_of(pod)
        if not workload:
            return group.name
        if is_address(group.front_end):
            return f"{workload}-{self._numbers.number(workload, pod)}{rest}"
        node = draft.nodes.get(group.front_end)
        return f"{workload}@{describe_place(group.members, node.gpus if node else 0)}{rest}"

    def _stand_in(self, group: GroupDraft, name: str, draft: TopologyDraft) -> GroupDraft:
        """Returns a group whose node is known by the address of its pod only: a node of its own name stands for it."""
        draft.nodes.pop(group.front_end, None)
        draft.nodes[name] = NodeDraft(name)
        return replace(group, name=name, members=(name,), front_end=name)

    def _keep_gpus(self, found: Topology) -> Topology:
        """Returns a topology in which no node has lost a GPU: one that falls off its bus is missing, not gone."""
        before = self._living.node
        nodes = (
            replace(node, gpus=max(node.gpus, before[node.name].gpus)) if node.name in before else node
            for node in found.nodes
        )
        return replace(found, nodes=tuple(nodes))

    # --- beginnings and ends

    def _follow_nodes(self, t: float, found: Topology, seen: Iterable[LivingSighting]) -> list[TopologyChange]:
        changes = []
        cards = _nodes_of_cards(seen)
        for name in found.node.keys() - self._living.node.keys() - self.declared.node.keys():
            self._ended_nodes.pop(name, None)
            before = {self._cards.get(uuid, name) for uuid, node in cards.items() if node == name} - {name}
            what, detail = (RENAMED, f"was {min(before)}") if before else (BEGAN, "")
            changes.append(TopologyChange(t, what, "node", name, detail))
        for name in self._living.node.keys() - found.node.keys() - self.declared.node.keys():
            self._ended_nodes[name] = self._living.node[name], t
            changes.append(TopologyChange(t, ENDED, "node", name))
        self._ended_nodes = {k: v for k, v in self._ended_nodes.items() if t < v[1] + KEPT_S}
        self._cards = {**{u: n for u, n in self._cards.items() if n in self._ended_nodes}, **cards}
        return sorted(changes, key=str)

    def _follow_groups(self, t: float, found: Topology) -> list[TopologyChange]:
        changes = []
        left = self._living.group.keys() - found.group.keys() - self.declared.group.keys()
        names = {engine: name for name in left if (engine := self._living.group[name].engine)}
        for name, group in found.group.items():
            self._ended_groups.pop(name, None)
            before, pod = self._living.group.get(name), _pod_of(group)
            if before is not None:
                if _pod_of(before) != pod:
                    changes.append(TopologyChange(t, MOVED, "group", name, f"{_pod_of(before)} to {pod}"))
            elif group.engine in names:
                changes.append(TopologyChange(t, RENAMED, "group", name, f"was {names[group.engine]}"))
            elif name not in self.declared.group:
                changes.append(TopologyChange(t, BEGAN, "group", name, pod))
        return sorted([*changes, *self._end_groups(t, left, found)], key=str)

    def _end_groups(self, t: float, left: Iterable[str], found: Topology) -> Iterator[TopologyChange]:
        """Keeps groups that have ended, yields that they have, and forgets those that ended long ago.

        What has another name now has not ended: two groups of one engine would leave open of which its series are.
        """
        pools = {replica: pool.name for pool in self._living.pools for replica in pool.replicas}
        engines = {group.engine for group in found.groups if group.engine}
        for name in left:
            group = self._living.group[name]
            self._ended_groups[name] = group, pools.get(name, ""), t
            if group.engine not in engines:
                yield TopologyChange(t, ENDED, "group", name, _pod_of(group))
        self._ended_groups = {
            name: one
            for name, one in self._ended_groups.items()
            if t < one[2] + KEPT_S and one[0].engine not in engines
        }

    def _with_ended(self, found: Topology) -> tuple[Topology, GonePlaces]:
        """Returns a topology with what has ended a short time ago, and what that is."""
        nodes = {name: node for name, (node, _) in self._ended_nodes.items() if name not in found.node}
        every = {**found.node, **nodes}
        groups = {
            name: group
            for name, (group, _, _) in self._ended_groups.items()
            if name not in found.group and all(has_member(every, member) for member in group.members)
        }
        replicas = {pool.name: list(pool.replicas) for pool in found.pools}
        for name in groups:
            if pool := self._ended_groups[name][1]:
                replicas.setdefault(pool, []).append(name)
        teams = {pool.name: pool.team for pool in found.pools}
        whole = Topology(
            (*found.nodes, *nodes.values()),
            (*found.groups, *groups.values()),
            tuple(Pool(name, tuple(names), teams.get(name, "")) for name, names in replicas.items()),
        )
        return sort_topology(whole, self.declared), GonePlaces(frozenset(nodes), frozenset(groups))


@dataclass(frozen=True, slots=True)
class _PodTimes:
    """What the sightings say of a pod that serves."""

    begun: float = -math.inf
    is_fresh: bool = True
    """Whether its last page is there."""
    has_gpus: bool = True
    """Whether a GPU names it."""


ALWAYS = _PodTimes()


def _times_of_pods(seen: Iterable[LivingSighting]) -> dict[str, _PodTimes]:
    """Returns what the sightings say of each pod that serves, or that a GPU names."""
    engines: dict[str, list[LivingSighting]] = {}
    claims: set[str] = set()
    for one in seen:
        if one.serving_pod:
            engines.setdefault(one.serving_pod, []).append(one)
        elif "gpu" in one.sighting.kinds:
            labels = dict(one.sighting.labels)
            claims |= {labels[label] for label in POD_LABELS if label in labels}
    found = {pod: _PodTimes(is_fresh=False) for pod in claims}
    for pod, some in engines.items():
        found[pod] = _PodTimes(min(one.begun for one in some), any(one.is_fresh for one in some), pod in claims)
    return found


def _nodes_of_cards(seen: Iterable[LivingSighting]) -> dict[str, str]:
    """Returns the host of each GPU by its UUID, as its labels name it."""
    found = {}
    for one in seen:
        labels = dict(one.sighting.labels)
        uuid = next((labels[label] for label in UUID_LABELS if label in labels), "")
        host = next((labels[label] for label in HOST_LABELS if label in labels), "")
        if uuid and host:
            found[uuid] = bare_host(host)
    return found


def _pod_of(group: Group | GroupDraft) -> str:
    return dict(group.engine).get("pod", "")
