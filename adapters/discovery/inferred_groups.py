"""Parallel groups out of labels of ranks, and replicas out of labels of serving engines."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from skewscope.adapters.discovery.draft import CERTAIN, GUESS, LIKELY, Assumption, GroupDraft
from skewscope.adapters.discovery.hosts import bare_host
from skewscope.adapters.discovery.rank_members import (
    RankLabels,
    RankMembers,
    RankNames,
    place_ranks,
    unseen_assumptions,
)
from skewscope.engine.model.topology_file import GROUP_WITHOUT, NODE_WITHOUT

GROUP_LABELS = ("group", "comm_name", "replica")
POD_LABELS = ("pod", "exported_pod")
INDEX_LABELS = {"engine": "engine", "dp_rank": "dp"}
"""Labels with the index of an engine, or of a data-parallel rank, in its server; each with a word for names."""
ENGINE_LABELS = ("pod", "instance", "container", "service", "job", "model_name", *INDEX_LABELS)
"""Labels that may tell serving engines apart, the strongest first."""
PLACE_LABELS = ("pod", "instance", "node")
"""Labels that tell servers apart, each of which counts its engines from 0."""
OF_NO_ENGINE = ("skewscope", "dynamo")
"""First parts of names that are those of no engine: canonical names, and those of a frame around engines."""


Labels = tuple[tuple[str, str], ...]


class EngineIdentity(NamedTuple):
    """One serving engine: what its series have in common."""

    node: str
    labels: Labels
    """Those of its labels that tell engines apart, the strongest first."""
    prefix: str
    """Which kind of engine: the first part of its metrics' names."""
    is_whole: bool = False
    """Whether it is a server of several engines as a whole."""
    space: str = ""
    """The namespace that it runs in."""


@dataclass
class GroupFinder:
    """Collects series of ranks, groups and engines, and drafts groups of them."""

    ranks: dict[str, RankLabels] = field(default_factory=lambda: defaultdict(RankLabels))
    engines: dict[EngineIdentity, set[Labels]] = field(default_factory=lambda: defaultdict(set))
    """Models and indices that series of each place that serves name together."""
    node_of_pod: Mapping[str, str] = field(default_factory=dict)
    gpus_of_pod: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """GPUs (`node/gpuN`) by the pod that uses them."""
    assumptions: list[Assumption] = field(default_factory=list)

    def add_rank(self, labels: Mapping[str, str], node: str) -> None:
        """Adds a series of a rank or a group."""
        name = next((labels[label] for label in GROUP_LABELS if labels.get(label)), "")
        if name or labels.get("rank"):
            self.ranks[name or "job"].add(labels, node)

    def add_host(self, labels: Mapping[str, str], node: str) -> None:
        """Adds a series of a port that says for which group it was measured."""
        if (name := labels.get("group")) and node:
            self.ranks[name].hosts.add(node)

    def add_engine(self, metric: str, labels: Mapping[str, str], node: str) -> None:
        """Adds a series of a serving engine; `node` is its host where a label other than `instance` says it."""
        if name := labels.get("replica") or labels.get("group"):
            self.ranks[name].nodes.setdefault("", node)
            return
        pod, instance = labels.get("pod", ""), labels.get("instance", "")
        place = [("pod", pod), ("instance", instance)]
        if not pod and not instance.rpartition(":")[2].isdecimal():
            # A host alone does not tell its engines apart.
            place += [(label, labels.get(label, "")) for label in ("container", "service", "job", "node")]
        own = tuple((label, value) for label, value in place if value)
        prefix, space = metric.partition(":")[0].partition("_")[0], labels.get("namespace", "")
        seen = self.engines[EngineIdentity(node, own, prefix, space=space)]
        seen.add(tuple((label, labels[label]) for label in ("model_name", *INDEX_LABELS) if labels.get(label)))

    def add_gpu(self, labels: Mapping[str, str], gpu: str) -> None:
        """Adds a series of a GPU that says which pod uses it."""
        for label in POD_LABELS:
            if pod := labels.get(label):
                self.gpus_of_pod[pod].add(gpu)

    def draft_groups(self, gpus: Mapping[str, int]) -> list[GroupDraft]:
        """Returns all groups; `gpus` is the number of GPUs of each node."""
        names = RankNames(self.ranks, gpus)
        placed = {name: place_ranks(name, labels, names) for name, labels in sorted(self.ranks.items())}
        groups = [self._rank_group(name, ranks, gpus) for name, ranks in placed.items()]
        self.assumptions += [
            *unseen_assumptions(placed),
            *(each for one in placed.values() for each in one.assumptions),
        ]
        found = [group for group in groups if group.members]
        named = {group.name for group in found}
        engines = [group for group in self._engine_groups(gpus) if group.name not in named]
        return [group for group in (*found, *engines) if not set(group.name) & set(GROUP_WITHOUT)]

    def _rank_group(self, name: str, ranks: RankMembers, gpus: Mapping[str, int]) -> GroupDraft:
        labels, members = self.ranks[name], ranks.members
        served = "" in labels.nodes
        front = labels.nodes.get("", "")
        if labels.hosts and not members:
            members = sorted(labels.hosts)
            self.assumptions.append(Assumption("the order of ranks", "names of hosts with the label `group`", GUESS))
        elif served and not members:
            members = [front or self._stand_in(name)]
        elif not served and not members:
            members = self._job_members(name, gpus)
        kind = labels.kind or ("tensor-parallel" if served else "data-parallel")
        if members:
            basis = "the label `parallelism`" if labels.kind else "nothing: no label says it"
            self.assumptions.append(Assumption(f"{kind} groups", basis, CERTAIN if labels.kind else GUESS))
        front = front or (members[0].partition("/")[0] if served and members else "")
        return GroupDraft(name, kind, "" if labels.kind else "its kind", tuple(members), "", front)

    def _job_members(self, name: str, gpus: Mapping[str, int]) -> list[str]:
        """Returns the members of a job whose series name no rank: all nodes with GPUs, else one that stands for it."""
        members = sorted(node for node, number in gpus.items() if number)
        if members:
            self.assumptions.append(Assumption(f"all nodes with GPUs work for {name}", "no label of a rank", GUESS))
        return members or [self._stand_in(name)]

    def _stand_in(self, name: str) -> str:
        """Returns the name of a node that stands for those of a group, which no label names."""
        self.assumptions.append(Assumption(f"a node that stands for all of {name}", "no label of a node", GUESS))
        return _valid_name(f"{name}-nodes")

    def _engine_groups(self, gpus: Mapping[str, int]) -> list[GroupDraft]:
        """Returns a group for each serving engine, in pools of those that serve the same model."""
        by_node: dict[str, list[EngineIdentity]] = defaultdict(list)
        for engine in sorted({self._place_engine(each) for each in _split_engines(self.engines)}):
            by_node[engine.node].append(engine)
        groups: list[GroupDraft] = []
        for node, some in sorted(by_node.items()):
            telling = _telling_labels(some)
            groups += filter(None, (self._engine_group(engine, telling, len(some), gpus) for engine in some if node))
        groups = _drop_shared_labels(_name_pools(groups))
        if groups:
            used = sorted({label for group in groups for label, _ in group.engine}) or ["the host of the engine"]
            self.assumptions.append(Assumption(_count(len(groups), "replica"), ", ".join(used), LIKELY))
            self.assumptions.append(
                Assumption("replicas of one model share their requests (a pool)", "the label `model_name`", LIKELY)
            )
        return groups

    def _place_engine(self, engine: EngineIdentity) -> EngineIdentity:
        """Returns an engine with its node: a label, its pod's node, that of its pod's GPUs, or the scraped host."""
        labels = dict(engine.labels)
        pod = labels.get("pod", "")
        of_gpus = sorted(gpu.partition("/")[0] for gpu in self.gpus_of_pod.get(pod, ()))
        node = engine.node or self.node_of_pod.get(pod, "") or next(iter(of_gpus), "")
        return engine._replace(node=node or bare_host(labels.get("instance", "")))

    def _engine_group(
        self, engine: EngineIdentity, telling: list[str], beside: int, gpus: Mapping[str, int]
    ) -> GroupDraft | None:
        """Returns the group of an engine; `beside` counts the engines of its node."""
        labels = dict(engine.labels)
        own = tuple((label, labels[label]) for label in telling if label in labels)
        if engine.is_whole or labels.keys() & INDEX_LABELS.keys() & set(telling):
            telling = [*telling, *(label for label in PLACE_LABELS if label not in telling)]
        members = self._engine_members(labels, engine.node, gpus, alone=beside == 1)
        if set(engine.node) & set(NODE_WITHOUT):
            return None
        # Where a node has one engine, the node is enough; otherwise its labels decide.
        deciding = tuple(sorted((label, labels[label]) for label in telling if label in labels))
        decides = deciding if beside > 1 or labels.get("pod") else ()
        name = _engine_name(engine, own if beside > 1 else ())
        pool = "" if engine.is_whole else _valid_name(labels.get("model_name") or "engines")
        return GroupDraft(name, "tensor-parallel", "its kind", members, pool, engine.node, decides, engine.space)

    def _engine_members(
        self, labels: Mapping[str, str], node: str, gpus: Mapping[str, int], *, alone: bool
    ) -> tuple[str, ...]:
        """Returns the GPUs of an engine's pod, or of its node where it is the only engine there, or the node."""
        if own := self.gpus_of_pod.get(labels.get("pod", "")):
            return tuple(sorted(own, key=lambda gpu: (gpu.partition("/")[0], len(gpu), gpu)))
        if alone and gpus.get(node):
            return tuple(f"{node}/gpu{n}" for n in range(gpus[node]))
        return (node,) if node else ()


def _split_engines(found: Mapping[EngineIdentity, set[Labels]]) -> list[EngineIdentity]:
    """Returns the engines of all places that serve.

    An `instance` that several nodes share is that of an aggregator and is left out. A place with several models or
    indices has an engine for each; what is reported of all engines of a server together has a place of its own.
    """
    nodes: dict[str, set[str]] = defaultdict(set)
    for engine in found:
        nodes[dict(engine.labels).get("instance", "")].add(engine.node)
    merged: dict[EngineIdentity, set[Labels]] = defaultdict(set)
    for engine, more in found.items():
        own = [pair for pair in engine.labels if pair[0] != "instance" or len(nodes[pair[1]]) < 2]
        merged[engine._replace(labels=tuple(own))] |= more
    _merge_canonical(merged)
    return [part for engine, given in merged.items() for part in _split_engine(engine, given)]


def _split_engine(engine: EngineIdentity, given: set[Labels]) -> Iterator[EngineIdentity]:
    """Yields the engines of one place."""
    models = sorted({labels[:1] for labels in given if dict(labels).get("model_name")})
    indices = sorted({tuple(pair for pair in labels if pair[0] in INDEX_LABELS) for labels in given})
    several = len(set(indices) - {()}) > 1
    for model in models or [()]:
        for index in indices if several else [()]:
            yield engine._replace(labels=(*engine.labels, *model, *index), is_whole=several and not index)


def _merge_canonical(engines: dict[EngineIdentity, set[Labels]]) -> None:
    """Adds what was read under the names of no engine to the engine of the same place."""
    of_place = {engine[:2]: engine for engine in sorted(engines) if engine.prefix not in OF_NO_ENGINE}
    for engine in [each for each in engines if each.prefix in OF_NO_ENGINE and each[:2] in of_place]:
        engines[of_place[engine[:2]]] |= engines.pop(engine)


def _name_pools(groups: list[GroupDraft]) -> list[GroupDraft]:
    """Returns the groups, those of one model in pools by namespace: others share no requests with them."""
    spaces: dict[str, set[str]] = defaultdict(set)
    for group in groups:
        spaces[group.pool].add(group.namespace)
    return [
        replace(group, pool=_valid_name("/".join(filter(None, (group.namespace, group.pool)))))
        if group.pool and len(spaces[group.pool]) > 1
        else group
        for group in groups
    ]


def _drop_shared_labels(groups: list[GroupDraft]) -> list[GroupDraft]:
    """Returns the groups, without labels of engines that those of several hosts share: they would tell none apart."""
    shared = Counter(group.engine for group in groups)
    return [replace(group, engine=()) if shared[group.engine] > 1 else group for group in groups]


def _telling_labels(engines: list[EngineIdentity]) -> list[str]:
    """Returns the fewest labels, strongest first, that tell the engines of one node apart."""
    telling: list[str] = []
    for label in ENGINE_LABELS:
        values = [dict(engine.labels).get(label, "") for engine in engines]
        if (label == "pod" and any(values)) or len(set(values)) > 1:
            telling.append(label)
        keys = {tuple(dict(engine.labels).get(name, "") for name in telling) for engine in engines}
        if telling and len(keys) == len(engines):
            break
    return telling


def _engine_name(engine: EngineIdentity, own: tuple[tuple[str, str], ...]) -> str:
    """Returns a name of a replica: its pod, or its engine, node and what tells it from others there."""
    labels = dict(own)
    if pod := dict(engine.labels).get("pod"):
        rest = [INDEX_LABELS.get(label, "") + value for label, value in own if label != "pod"]
    else:
        port = labels.pop("instance", "").rpartition(":")[2]
        rest = [port, *(INDEX_LABELS.get(label, "") + value for label, value in labels.items())]
    # The canonical names are those of no engine: what read its log or its results has them.
    head = pod or (engine.node if engine.prefix == OF_NO_ENGINE[0] else f"{engine.prefix}-{engine.node}")
    name = "-".join(filter(None, (head, *rest)))
    return _valid_name(name.replace("/", "-").replace(" ", "-"))


def _valid_name(text: str) -> str:
    """Returns a text without the characters that names of groups and pools must not have."""
    return "".join(c if c not in GROUP_WITHOUT and c.isprintable() else "-" for c in text)[:200]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
