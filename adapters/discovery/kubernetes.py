"""Parses `kubectl get nodes,pods -A -o json`: nodes, their GPUs and addresses, and pods that work together.

Groups come from the labels that LeaderWorkerSet, Kubeflow's trainer and indexed jobs put on their pods. No label gives
the parallelism of a group: only its command line does.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

from skewscope.adapters.discovery.draft import GroupDraft, NodeDraft
from skewscope.adapters.formats.bounds import OBJECTS
from skewscope.adapters.formats.json_stream import iter_members
from skewscope.engine.model.topology_file import MAX_GPUS
from skewscope.kb.problems import InputError, Problem

MAX_MEMBERS = 100_000
HINT = "Write it with: kubectl get nodes,pods -A -o json"
GPU_RESOURCES = (
    *("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"),
    *("google.com/tpu", "habana.ai/gaudi"),
)
RACK_LABELS = ("topology.kubernetes.io/rack", "topology.k8s.io/rack", "rack", "topology.kubernetes.io/block")
DEGREE = r"[= ]+(\d{1,5})"
PARALLELISM_OPTIONS = (
    ("pipeline-parallel", re.compile(rf"--(?:pipeline-parallel-size|pp-size|pp_size|pp){DEGREE}")),
    ("tensor-parallel", re.compile(rf"--(?:tensor-parallel-size|tp-size|tp_size|tp){DEGREE}")),
    ("data-parallel", re.compile(rf"--(?:data-parallel-size|dp-size|dp_size|dp){DEGREE}")),
)


class PodRank(NamedTuple):
    """Position of a pod within its group."""

    group: str
    rank: int
    pool: str


class PodPlace(NamedTuple):
    """What is needed of a pod that works with others."""

    node: str
    gpus: int
    """GPUs that its containers ask for."""
    degrees: Mapping[str, int]
    """Kinds of parallelism that its command line gives, with their degrees."""


def parse_cluster(stream: BinaryIO, file: str) -> tuple[list[NodeDraft], list[GroupDraft], list[str]]:
    """Returns nodes, groups, and remarks on what was omitted. Memory is that of one object of the list.

    Raises:
        InputError: the text is not kubectl's output, or one of its objects is too large.
    """
    nodes: list[NodeDraft] = []
    pods: dict[tuple[PodRank, str], PodPlace] = {}
    count, most = 0, OBJECTS.limit()
    for count, item in enumerate(_iter_items(stream, file), 1):
        if count > most:
            raise InputError([OBJECTS.problem(file)])
        try:
            _add_item(item, nodes, pods)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise _no_cluster(file, type(error).__name__) from None
    if not count:
        raise _no_cluster(file, "no items")
    by_name = {node.name: node for node in nodes}
    groups, remarks = _build_groups({place: pod for (place, on), pod in pods.items() if on in by_name}, by_name)
    return nodes, groups, remarks


def _iter_items(stream: BinaryIO, file: str) -> Iterator[Any]:
    try:
        for name, item in iter_members(stream, file, ("items",)):
            if name == "items":
                yield item
    except InputError as error:
        raise InputError([replace(one, hint=one.hint or HINT) for one in error.problems]) from None


def _no_cluster(file: str, why: str) -> InputError:
    return InputError([Problem(file, 0, "", f"no list of nodes and pods ({why})", "what kubectl prints as JSON", HINT)])


def _add_item(item: Any, nodes: list[NodeDraft], pods: dict[tuple[PodRank, str], PodPlace]) -> None:
    """Adds an object of the list: a node, or a pod that works with others, by its node."""
    kind = item["kind"]
    if kind == "Node":
        nodes.append(_parse_node(item))
    elif kind == "Pod" and (place := _parse_pod_rank(item)) and len(pods) < MAX_MEMBERS:
        pod = _parse_pod(item)
        pods[place, pod.node] = pod


def _parse_node(item: Mapping[str, Any]) -> NodeDraft:
    labels, status = item["metadata"].get("labels") or {}, item.get("status") or {}
    capacity = status.get("capacity") or {}
    gpus = next((int(capacity[name]) for name in GPU_RESOURCES if name in capacity), 0)
    if not 0 <= gpus <= MAX_GPUS:
        raise ValueError(f"{gpus} GPUs")
    addresses = tuple(
        str(one["address"]) for one in status.get("addresses") or () if one["type"] in ("InternalIP", "ExternalIP")
    )
    rack = next((str(labels[name]) for name in RACK_LABELS if labels.get(name)), "")
    return NodeDraft(str(item["metadata"]["name"]), rack, gpus, addresses)


def _build_groups(
    pods: Mapping[PodRank, PodPlace], nodes: Mapping[str, NodeDraft]
) -> tuple[list[GroupDraft], list[str]]:
    by_group: dict[str, list[PodRank]] = defaultdict(list)
    for place in sorted(pods):
        by_group[place.group].append(place)
    groups, remarks = [], []
    for name, places in by_group.items():
        members = [member for place in places for member in _pod_members(pods[place], nodes[pods[place].node])]
        if len(set(members)) < len(members):
            remarks.append(f"{name}: several of its pods share a node, and the GPUs of each are unknown")
        elif len(members) < 2:
            remarks.append(f"{name}: a single member is not a group")
        else:
            groups.append(_build_group(name, members, pods[places[0]].degrees, places[0].pool))
    return groups, remarks


def _parse_pod_rank(pod: Mapping[str, Any]) -> PodRank | None:
    """Returns group and position of a pod by its labels; None without a group."""
    about = pod["metadata"]
    labels, space = about.get("labels") or {}, about.get("namespace", "default")
    with suppress(KeyError):
        name = labels["leaderworkerset.sigs.k8s.io/name"]
        number = labels["leaderworkerset.sigs.k8s.io/group-index"]
        rank = int(labels["leaderworkerset.sigs.k8s.io/worker-index"])
        return PodRank(f"{space}.{name}.{number}", rank, f"{space}.{name}")
    with suppress(KeyError):
        rank = int(labels["training.kubeflow.org/replica-index"])
        # The master has an index of its own: it comes before all workers.
        worker = labels.get("training.kubeflow.org/replica-type", "worker") != "master"
        return PodRank(f"{space}.{labels['training.kubeflow.org/job-name']}", rank + worker, "")
    with suppress(KeyError):
        rank = int(labels["batch.kubernetes.io/job-completion-index"])
        return PodRank(f"{space}.{labels['batch.kubernetes.io/job-name']}", rank, "")
    return None


def _parse_pod(pod: Mapping[str, Any]) -> PodPlace:
    spec = pod.get("spec", {})
    gpus = 0
    words: list[str] = []
    for container in spec.get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        gpus += sum(int(limits[name]) for name in GPU_RESOURCES if name in limits)
        words += map(str, (container.get("command") or []) + (container.get("args") or []))
    line = " ".join(words)[:100_000]
    degrees = {kind: int(match[1]) for kind, pattern in PARALLELISM_OPTIONS if (match := pattern.search(line))}
    return PodPlace(str(spec.get("nodeName", "")), gpus, degrees)


def _pod_members(pod: PodPlace, node: NodeDraft) -> list[str]:
    """Returns the members of a pod: its GPUs if it has all of its node's, otherwise the node."""
    return [f"{node.name}/gpu{n}" for n in range(node.gpus)] if node.gpus and pod.gpus == node.gpus else [node.name]


def _build_group(name: str, members: list[str], degrees: Mapping[str, int], pool: str) -> GroupDraft:
    whole = next((kind for kind, degree in degrees.items() if degree == len(members)), "")
    if whole and sum(degree > 1 for degree in degrees.values()) == 1:
        return GroupDraft(name, whole, "", tuple(members), pool)
    reported = ", ".join(f"{kind} {degree}" for kind, degree in degrees.items()) or "nothing"
    guess = (
        f"its kind: the command line says {reported} of {len(members)} members; divide it where it has several kinds"
    )
    return GroupDraft(name, "data-parallel", guess, tuple(members), pool)
