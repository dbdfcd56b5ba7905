"""A small API server with the semantics of a real one, for the calls that targets make.

Versions of objects, merge patches, dry runs, pages of lists, disruption budgets, and the texts of refusals follow what
a Kubernetes 1.20 server answers to the same calls (`kube_recording.py` replays such answers), and the taint of a cordon
what its controllers do.
"""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.loopback import Asked, Says, Server

TOKEN = "test-token-of-16-chars"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
CHANGED = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass
class KubeApi:
    """Nodes and pods, by name and by namespace and name."""

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    budgets: dict[str, int] = field(default_factory=dict)
    """Pods of a namespace that may still be evicted; no entry: any number."""
    calls: list[tuple[str, str]] = field(default_factory=list)
    meddle: Callable[["KubeApi"], None] | None = None
    """What somebody else does once, before the next change."""
    version: int = 100

    def add_node(self, name: str, **spec: Any) -> dict[str, Any]:
        """Adds a node that is ready."""
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.nodes[name] = {"kind": "Node", "metadata": {"name": name}, "spec": spec, "status": ready}
        return self.touch(self.nodes[name])

    def add_pod(self, name: str, node: str = "", namespace: str = "llm", **meta: Any) -> dict[str, Any]:
        """Adds a pod that runs."""
        status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
        metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}-{self.version}", **meta}
        pod = {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}, "status": status}
        self.pods[namespace, name] = pod
        return self.touch(pod)

    def touch(self, found: dict[str, Any]) -> dict[str, Any]:
        """Gives an object a new version, as each change does."""
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        return found

    def serve(self) -> Server:
        """Returns a server with these objects."""
        return Server(self.answer)

    def answer(self, asked: Asked) -> Says:
        """Returns the answer to a request."""
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return refuse(401, "Unauthorized")
        parts = urlsplit(asked.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.calls.append((asked.method, asked.path))
        if asked.method != "GET" and self.meddle is not None:
            meddle, self.meddle = self.meddle, None
            meddle(self)
        words = [unquote(word) for word in parts.path.strip("/").split("/")]
        match words:
            case ["api", "v1", "nodes"] if asked.method == "GET":
                return self._list(self.nodes, query)
            case ["api", "v1", "nodes", name]:
                return self._answer_object(self.nodes, name, asked, query)
            case ["api", "v1", "namespaces", space, "pods"] if asked.method == "GET":
                return self._list({key: pod for key, pod in self.pods.items() if key[0] == space}, query)
            case ["api", "v1", "namespaces", space, "pods", name, "eviction"] if asked.method == "POST":
                return self._evict(space, name, asked.json, query)
            case ["api", "v1", "namespaces", space, "pods", name]:
                return self._answer_object(self.pods, (space, name), asked, query)
        return refuse(404, "the server could not find the requested resource")

    def _list(self, objects: dict[Any, Any], query: dict[str, str]) -> Says:
        begin, limit = int(query.get("continue", 0)), int(query.get("limit", 500))
        wanted = dict(pair.split("=") for pair in query.get("labelSelector", "").split(",") if pair)
        found = [
            each for _, each in sorted(objects.items()) if wanted.items() <= each["metadata"].get("labels", {}).items()
        ]
        meta = {"continue": str(begin + limit)} if begin + limit < len(found) else {}
        answer = say({"kind": "List", "metadata": meta, "items": found[begin : begin + limit]})
        for key, each in list(objects.items()):
            if "deletionTimestamp" in each["metadata"]:
                self.pods.pop(key, None)
        return answer

    def _answer_object(self, objects: dict[Any, Any], key: Any, asked: Asked, query: dict[str, str]) -> Says:
        if key not in objects:
            return refuse(404, f'"{key}" not found')
        if asked.method == "GET":
            return say(objects[key])
        if asked.method != "PATCH" or asked.headers["content-type"] != "application/merge-patch+json":
            return refuse(415, "the body of the request was in an unknown format")
        patch = asked.json
        version = patch.get("metadata", {}).pop("resourceVersion", None)
        if version not in (None, objects[key]["metadata"]["resourceVersion"]):
            return refuse(409, f'Operation cannot be fulfilled on "{key}": {CHANGED}')
        made = merge(copy.deepcopy(objects[key]), patch)
        for taint in made["spec"].get("taints", ()):
            if taint["effect"] not in EFFECTS:
                return refuse(422, f'Unsupported value: "{taint["effect"]}"')
        if made["kind"] == "Node":
            follow_cordon(made)
        if query.get("dryRun") == "All":
            return say(made)
        objects[key] = self.touch(made)
        return say(made)

    def _evict(self, space: str, name: str, body: dict[str, Any], query: dict[str, str]) -> Says:
        pod = self.pods.get((space, name))
        if pod is None:
            return refuse(404, f'pods "{name}" not found')
        if body["kind"] != "Eviction" or body["metadata"] != {"name": name, "namespace": space}:
            return refuse(400, "name in URL does not match name in Eviction object")
        uid = body.get("deleteOptions", {}).get("preconditions", {}).get("uid")
        if uid not in (None, pod["metadata"]["uid"]):
            found = f"the UID in the precondition ({uid}) does not match the UID in record ({pod['metadata']['uid']})"
            return refuse(409, f'Operation cannot be fulfilled on Pod "{name}": {found}')
        if self.budgets.get(space, 1) < 1:
            return refuse(429, BUDGET)
        if query.get("dryRun") != "All":
            if space in self.budgets:
                self.budgets[space] -= 1
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self.touch(pod)
        return say({"kind": "Status", "status": "Success"}, 201)


def merge(value: Any, patch: Any) -> Any:
    """Returns a value with a merge patch applied (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    found = value if isinstance(value, dict) else {}
    for key, each in patch.items():
        if each is None:
            found.pop(key, None)
        else:
            found[key] = merge(found.get(key), each)
    return found


def follow_cordon(node: dict[str, Any]) -> None:
    """Adds or removes the taint that the server itself keeps for a cordon."""
    taints = [each for each in node["spec"].get("taints", ()) if each["key"] != UNSCHEDULABLE["key"]]
    if node["spec"].get("unschedulable"):
        taints.append(dict(UNSCHEDULABLE))
    node["spec"]["taints"] = taints
    if not taints:
        del node["spec"]["taints"]


def say(content: Any, status: int = 200) -> Says:
    """Returns an answer with a JSON object."""
    return Says(status, json.dumps(content).encode(), {"Content-Type": "application/json"})


def refuse(status: int, message: str) -> Says:
    """Returns a Status object of a failure."""
    return say({"kind": "Status", "status": "Failure", "message": message, "code": status}, status)
