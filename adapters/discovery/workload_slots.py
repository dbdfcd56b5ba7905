"""Names that stay where pods do not: the slot of a workload, out of a pod's name and the GPUs that it uses.

A pod of a StatefulSet or of an indexed job keeps its number. One of a Deployment is the workload at its GPUs: the pod
that comes after it at the same GPUs does the same work. Without GPUs and node it has the lowest number that is free.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import count

SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of random suffixes in Kubernetes (apimachinery, util/rand): no vowels, none that look alike."""
WITH_NUMBER = re.compile(r".+-\d{1,4}")
"""A pod of a StatefulSet or of a LeaderWorkerSet."""
OF_REPLICA_SET = re.compile(rf"(?P<workload>.+)-[{SAFE}]{{1,10}}-[{SAFE}]{{5}}")
"""A pod of a Deployment: the hash of its ReplicaSet, and a random suffix."""
WITH_SUFFIX = re.compile(rf"(?P<workload>.+)-[{SAFE}]{{5}}")
"""A pod of a Job or of a DaemonSet; that of an indexed job has its index before the suffix."""


def workload_of(pod: str) -> str:
    """Returns the workload of a pod; '' for a pod whose own name stays."""
    if WITH_NUMBER.fullmatch(pod):
        return ""
    found = OF_REPLICA_SET.fullmatch(pod) or WITH_SUFFIX.fullmatch(pod)
    return found["workload"] if found else ""


def describe_place(members: Sequence[str], gpus: int) -> str:
    """Returns the place of a slot as a part of its name: `node`, `node.gpu0-3` or `node.gpu0+2`.

    Args:
        members: GPUs of one node as `node/gpuN`, or the node.
        gpus: number of GPUs of the node.
    """
    node, mark, _ = members[0].rpartition("/gpu")
    numbers = sorted(
        int(member.rpartition("/gpu")[2]) for member in members if mark and member.startswith(f"{node}/gpu")
    )
    if not numbers or numbers == list(range(gpus)):
        return node if mark else members[0]
    is_run = numbers == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 1
    text = f"{numbers[0]}-{numbers[-1]}" if is_run else "+".join(map(str, numbers))
    return f"{node}.gpu{text}"


@dataclass
class SlotNumbers:
    """Numbers of the pods of workloads of which no label names the place."""

    _pods: dict[str, dict[str, int]] = field(default_factory=dict)
    """By workload: the number of each pod."""

    def number(self, workload: str, pod: str) -> int:
        """Returns the number of a pod: its own, or else the lowest that is free."""
        taken = self._pods.setdefault(workload, {})
        if pod not in taken:
            used = set(taken.values())
            taken[pod] = next(n for n in count() if n not in used)
        return taken[pod]

    def keep(self, pods: Collection[str]) -> None:
        """Frees the numbers of all other pods."""
        self._pods = {
            workload: {pod: number for pod, number in taken.items() if pod in pods}
            for workload, taken in self._pods.items()
        }
