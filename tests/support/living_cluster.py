"""A made-up serving cluster of labels: pods come and go, nodes are renamed, addresses are used again."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

PERIOD = 15.0
MODEL = "org/model-70b"
Labels = dict[str, str]


@dataclass
class Pod:
    name: str
    node: str
    gpus: tuple[int, ...]
    address: str
    ready: float = 0.0
    is_down: bool = False
    """Whether its page does not answer, while it is listed."""
    namespace: str = "serving"


@dataclass
class LivingCluster:
    """Pods of two GPUs each on nodes of four; each target is read every 15 s, at a time of its own."""

    pods: dict[str, Pod] = field(default_factory=dict)
    cards: dict[str, list[str]] = field(default_factory=dict)
    """UUIDs of the GPUs of each node."""
    exporters: dict[str, str] = field(default_factory=dict)
    """Address of the exporter of each node."""
    has_up: bool = True
    names_gpus: bool = True
    """Whether GPU metrics name the pods that use them."""
    _next: int = 10

    def add_node(self, name: str, address: str = "") -> None:
        self.cards[name] = [f"GPU-{name}-{n}" for n in range(4)]
        self._next += 1
        self.exporters[name] = address or f"10.1.0.{self._next}"

    def rename(self, old: str, new: str) -> None:
        self.cards[new], self.exporters[new] = self.cards.pop(old), self.exporters.pop(old)
        for pod in self.pods.values():
            pod.node = new if pod.node == old else pod.node

    def add(self, name: str, node: str, gpus: tuple[int, ...], ready: float = 0.0, address: str = "") -> Pod:
        self._next += 1
        pod = self.pods[name] = Pod(name, node, gpus, address or f"10.2.0.{self._next}", ready)
        return pod

    def pages(self, t: float) -> Iterator[tuple[Labels, list[tuple[str, Labels, float]]]]:
        """Yields labels of a target and its series, `up` among them, of each target that is read at a second."""
        for pod in self.pods.values():
            target = {
                "job": f"{pod.namespace}/vllm",
                "namespace": pod.namespace,
                "pod": pod.name,
                "container": "vllm",
                "instance": f"{pod.address}:8000",
            }
            if pod.ready <= t and is_due(target["instance"], t):
                yield target, [*self._up(float(not pod.is_down)), *([] if pod.is_down else engine_series(t))]
        for node, cards in self.cards.items():
            target = {
                "job": "dcgm",
                "namespace": "gpu-operator",
                "pod": f"dcgm-{node}",
                "instance": self.exporters[node],
            }
            if is_due(target["instance"], t):
                series = [each for n, uuid in enumerate(cards) for each in self._gpu_series(node, n, uuid)]
                yield target, [*self._up(1.0), *series]

    def _up(self, value: float) -> list[tuple[str, Labels, float]]:
        return [("up", {}, value)] if self.has_up else []

    def _gpu_series(self, node: str, number: int, uuid: str) -> Iterator[tuple[str, Labels, float]]:
        labels = {"gpu": str(number), "UUID": uuid, "Hostname": node}
        user = next((pod for pod in self.pods.values() if pod.node == node and number in pod.gpus), None)
        if user is not None and self.names_gpus:
            labels |= {"pod": user.name, "namespace": user.namespace, "container": "vllm"}
        yield "DCGM_FI_DEV_GPU_TEMP", labels, 50.0 + number
        yield "DCGM_FI_DEV_SM_CLOCK", labels, 1980.0


def engine_series(t: float) -> list[tuple[str, Labels, float]]:
    labels = {"model_name": MODEL, "engine": "0"}
    return [
        ("vllm:num_requests_running", labels, 8.0),
        ("vllm:num_requests_waiting", labels, 0.0),
        ("vllm:generation_tokens_total", labels, 500.0 * t),
    ]


def is_due(instance: str, t: float) -> bool:
    return int(t) % int(PERIOD) == zlib.crc32(instance.encode()) % int(PERIOD)


def as_stored(target: Labels, labels: Labels) -> Labels:
    """Returns the labels that a Prometheus server gives a series."""
    return {**{f"exported_{k}" if k in target else k: v for k, v in labels.items()}, **target}
