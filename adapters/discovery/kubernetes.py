"""Parses `kubectl get nodes,pods -A -o json`: nodes, their GPUs and addresses, and pods that work together.

Groups come from the labels that LeaderWorkerSet, Kubeflow's trainer and indexed jobs put on their pods. No label gives
the parallelism of a group: only its command line does.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from skewscope.adapters.discovery.draft import GroupDraft, NodeDraft
from skewscope.kb.problems import InputError, Problem

MAX_MEMBERS = 100_000
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915")
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


def parse_cluster(text: str, file: str) -> tuple[list[NodeDraft], list[GroupDraft], list[str]]:
    """Returns nodes, groups, and remarks on what was omitted.

    Raises:
        InputError: the text is not kubectl's output.
    """
    try:
        items = json.loads(text)["items"]
        kinds: dict[str, list[Any]] = defaultdict(list)
        for item in items:
            kinds[str(item["kind"])].append(item)
        nodes = [_parse_node(item) for item in kinds["Node"]]
        groups, remarks = _parse_groups(kinds["Pod"], {node.name: node for node in nodes})
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        found = f"no list of nodes and pods ({type(error).__name__})"
        hint = "Write it with: kubectl get nodes,pods -A -o json"
        raise InputError([Problem(file, 0, "", found, "what kubectl prints as JSON", hint)]) from None
    return nodes, groups, remarks


def _parse_node(item: Mapping[str, Any]) -> NodeDraft:
    labels, status = item["metadata"].get("labels") or {}, item.get("status") or {}
    capacity = status.get("capacity") or {}
    gpus = next((int(capacity[name]) for name in GPU_RESOURCES if name in capacity), 0)
    addresses = tuple(
        str(one["address"]) for one in status.get("addresses") or () if one["type"] in ("InternalIP", "ExternalIP")
    )
    rack = next((str(labels[name]) for name in RACK_LABELS if labels.get(name)), "")
    return NodeDraft(str(item["metadata"]["name"]), rack, gpus, addresses)


def _parse_groups(
    pods: Iterable[Mapping[str, Any]], nodes: Mapping[str, NodeDraft]
) -> tuple[list[GroupDraft], list[str]]:
    found: dict[PodRank, Mapping[str, Any]] = {}
    for pod in pods:
        place = _parse_pod_rank(pod)
        if place and pod.get("spec", {}).get("nodeName") in nodes and len(found) < MAX_MEMBERS:
            found[place] = pod
    by_group: dict[str, list[PodRank]] = defaultdict(list)
    for place in sorted(found):
        by_group[place.group].append(place)
    groups, remarks = [], []
    for name, places in by_group.items():
        members = [member for place in places for member in _pod_members(found[place], nodes)]
        if len(set(members)) < len(members):
            remarks.append(f"{name}: several of its pods share a node, and the GPUs of each are unknown")
        elif len(members) < 2:
            remarks.append(f"{name}: a single member is not a group")
        else:
            groups.append(_build_group(name, members, found[places[0]], places[0].pool))
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


def _pod_members(pod: Mapping[str, Any], nodes: Mapping[str, NodeDraft]) -> list[str]:
    """Returns the members of a pod: its GPUs if it has all of its node's, otherwise the node."""
    node = nodes[pod["spec"]["nodeName"]]
    asked = 0
    for container in pod["spec"].get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        asked += sum(int(limits[name]) for name in GPU_RESOURCES if name in limits)
    return [f"{node.name}/gpu{n}" for n in range(node.gpus)] if node.gpus and asked == node.gpus else [node.name]


def _build_group(name: str, members: list[str], pod: Mapping[str, Any], pool: str) -> GroupDraft:
    words = [
        str(w) for c in pod["spec"].get("containers") or () for w in (c.get("command") or []) + (c.get("args") or [])
    ]
    line = " ".join(words)[:100_000]
    degrees = {kind: int(match[1]) for kind, pattern in PARALLELISM_OPTIONS if (match := pattern.search(line))}
    whole = next((kind for kind, degree in degrees.items() if degree == len(members)), "")
    if whole and sum(degree > 1 for degree in degrees.values()) == 1:
        return GroupDraft(name, whole, "", tuple(members), pool)
    reported = ", ".join(f"{kind} {degree}" for kind, degree in degrees.items()) or "nothing"
    guess = (
        f"its kind: the command line says {reported} of {len(members)} members; divide it where it has several kinds"
    )
    return GroupDraft(name, "data-parallel", guess, tuple(members), pool)
