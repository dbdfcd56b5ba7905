"""Kubernetes: taints, cordons and evictions of nodes, through the API server.

The owner mark is a label, an annotation with the reason, and the value of the taint, all under the prefix
`skewscope.io/` and the kind of the change. A node that somebody else cordoned or tainted stays as it is. An eviction
taints the node first, so that no pod comes back to it; it honours disruption budgets, and applies to the very pods that
were read. Its undo removes the taint and moves no pod. Written for any server from 1.22 on.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call, HttpCall
from skewscope.adapters.targets.common.kubernetes_api import (
    API_FIELDS,
    NAME_PATTERN,
    PREFIX,
    VERSION_THEN,
    KubernetesApi,
    check_names,
    check_object_name,
    is_ready,
    items_of,
    mapping_of,
    metadata_of,
    object_name,
    read_api,
    render_dry_run,
    render_patch,
)
from skewscope.adapters.targets.common.marks import MarkedValue, check_action, clean_reason, compare_mark
from skewscope.adapters.targets.common.settings import COMMON_FIELDS, NamedTarget, TargetSettings, read_common
from skewscope.engine.actions.change import (
    ABSENT,
    DEWEIGHT,
    DRAIN,
    EVICT,
    FOREIGN,
    OURS,
    Change,
    ChangeSupport,
    MemberState,
    TargetState,
)
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

TAINT, CORDON = "taint", "cordon"
RUNNING, ENDING = "running", "ending"
EFFECTS = {DEWEIGHT: "PreferNoSchedule", DRAIN: "NoSchedule", EVICT: "NoSchedule"}
KEEPS_AWAY = ("NoSchedule", "NoExecute")
"""Effects of taints with which a node gets no new pods but those that tolerate it."""
ACCELERATOR_TAINTS = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "google.com/tpu", "aws.amazon.com/neuron")
"""Keys of taints that reserve nodes for pods with accelerators, as providers and device plug-ins set them."""
SYSTEM_PREFIX = "node.kubernetes.io/"
"""Keys of taints by which Kubernetes itself takes a node out, as while it is cordoned or not ready."""
MIN_POOL = 3
"""Nodes from which on a taint that more than half of them have is one of the pool, and not of a single node."""
EVICTION_VERSIONS = ("policy/v1", "policy/v1beta1")
MAX_NAMESPACES = 100
MAX_EVICTIONS = 500
"""Maximum pods of one eviction."""
DEWEIGHT_NOTE = "Kubernetes has no weights: the scheduler avoids the node while it has room elsewhere"
EVICT_NOTE = (
    "taints the node, then ends its pods; their controllers start others elsewhere, which may wait for room; the undo "
    "removes the taint, it moves no pod back"
)


@dataclass(frozen=True, slots=True)
class EvictionSettings:
    """Which pods may be evicted."""

    namespaces: tuple[str, ...] = ()
    """Empty: no eviction is ever made."""
    selector: str = ""
    """Label selector; '' for all pods of the namespaces."""
    version: str = EVICTION_VERSIONS[0]


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """Settings of one cluster."""

    common: TargetSettings
    api: KubernetesApi
    drain_by: str = TAINT
    eviction: EvictionSettings = field(default_factory=EvictionSettings)
    tolerated: tuple[str, ...] = ACCELERATOR_TAINTS
    """Keys of taints that the workloads tolerate: a node with them is in use."""


def read(fields: FieldReader, at: FieldPath, name: str) -> KubernetesSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "url", "members"), (*COMMON_FIELDS, *API_FIELDS, "drain", "evict", "tolerates"))
    common = read_common(fields, at, name)
    check_names(fields, (*at, "members"), common.members, "the name of a node")
    api = read_api(fields, at, common.timeout)
    drain = fields.text((*at, "drain"), choice=(TAINT, CORDON)) or TAINT
    tolerated = (*ACCELERATOR_TAINTS, *fields.texts((*at, "tolerates")))
    return KubernetesSettings(common, api, drain, read_eviction(fields, (*at, "evict")), tolerated)


def read_eviction(fields: FieldReader, at: FieldPath) -> EvictionSettings:
    """Parses `evict: {namespaces: [...], selector: ..., version: ...}`; without it nothing is evicted."""
    if fields.value_at(at) is None:
        return EvictionSettings()
    fields.check_keys(at, ("namespaces",), ("selector", "version"))
    namespaces = fields.texts((*at, "namespaces"))
    for item, namespace in zip(fields.item_paths((*at, "namespaces"), MAX_NAMESPACES), namespaces, strict=False):
        if not NAME_PATTERN.fullmatch(namespace):
            fields.add_problem(item, f"{namespace!r:.80}", "the name of a namespace")
    version = fields.text((*at, "version"), choice=EVICTION_VERSIONS) or EVICTION_VERSIONS[0]
    return EvictionSettings(namespaces, fields.text((*at, "selector")), version)


def build(settings: KubernetesSettings) -> "KubernetesTarget":
    """Creates the target."""
    return KubernetesTarget(settings)


@dataclass
class KubernetesTarget(NamedTarget):
    """The nodes of one cluster."""

    settings: KubernetesSettings
    support: Mapping[str, ChangeSupport] = field(init=False)

    def __post_init__(self) -> None:
        self.support = {DEWEIGHT: ChangeSupport(note=DEWEIGHT_NOTE), DRAIN: ChangeSupport()}
        if self.settings.eviction.namespaces:
            self.support = {**self.support, EVICT: ChangeSupport(note=EVICT_NOTE)}

    async def read_state(self) -> TargetState:
        """Returns the nodes with their taints, and the pods that may be evicted."""
        try:
            async with asyncio.timeout(self.settings.common.timeout):
                nodes = await self.settings.api.read_objects("/api/v1/nodes", self.members.values())
                pods = await self._read_pods()
        except TimeoutError:
            raise TargetError(f"{self.name}: no state within {self.settings.common.timeout:g} s") from None
        usual = find_usual_taints(nodes.values(), self.settings.tolerated)
        return TargetState({name: make_member(node, pods.get(name, []), usual) for name, node in nodes.items()})

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the patch that taints or cordons a node; before evictions, the patch that keeps their pods away."""
        if change.kind not in self.support:
            raise TargetError(f"{self.name}: cannot {change.kind} a node" + self._hint(change))
        node, action = self._find(change, state), check_action(change)
        evictions = self._render_evictions(node) if change.kind == EVICT else ()
        if node.detail(f"mark.{change.kind}") == action:
            return evictions
        mark = json.dumps({"action": action, "reason": clean_reason(change), "expires": change.expires}, sort_keys=True)
        return (self._patch(change, node, self._wanted(change), (action, mark)), *evictions)

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns the patch that takes our taint, cordon and marks back; evicted pods stay where they are."""
        node = state.member(change.member)
        if node is None or node.detail(f"mark.{change.kind}") != change.action:
            return ()
        value = before.detail(self._field(change))
        if node.detail(self._field(change)) != self._wanted(change):
            # Somebody else changed it since: only our mark goes.
            value = node.detail(self._field(change))
        return (self._patch(change, node, value, (None, None)),)

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state with our mark and taint, or cordoned; its version is not known yet."""
        after = {f"mark.{change.kind}": change.action, self._field(change): self._wanted(change)}
        after |= {"version": VERSION_THEN, **({"pods": "[]"} if change.kind == EVICT else {})}
        return state.with_member(change.member, after, owner=change.action)

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns where a change stands: by mark and taint or cordon, and whether evicted pods are gone."""
        node = state.member(change.member)
        if node is None or change.kind not in self.support:
            return FOREIGN
        name = self._field(change)
        mark = node.detail(f"mark.{change.kind}")
        value = MarkedValue(mark, node.detail(name), before.detail(name), self._wanted(change))
        standing = compare_mark(value, change.action)
        waits = change.kind == EVICT and list_pods(node) & list_pods(before)
        return ABSENT if standing == OURS and waits else standing

    async def make_call(self, call: Call) -> None:
        """Makes one call at the API server."""
        await self.settings.api.make_call(call)

    def render_dry_run(self, call: Call) -> Call | None:
        """Returns a call that the server checks without carrying it out."""
        return render_dry_run(call)

    async def read_work(self) -> Mapping[str, float]:
        """Returns nothing: Kubernetes does not count what it gave to a node."""
        return {}

    async def probe(self, member: str) -> float | None:  # noqa: ARG002 - of the protocol
        """Returns None: work cannot be given to a node past its scheduler."""
        return None

    def _find(self, change: Change, state: TargetState) -> MemberState:
        node = state.member(change.member)
        if node is None:
            raise TargetError(f"{self.name}: the cluster has no node {change.member!r:.80}")
        return node

    def _hint(self, change: Change) -> str:
        return ": `evict` in the config names the namespaces whose pods may be evicted" if change.kind == EVICT else ""

    def _field(self, change: Change) -> str:
        """Returns the detail of a node that a change sets."""
        cordons = change.kind == DRAIN and self.settings.drain_by == CORDON
        return "unschedulable" if cordons else f"taint.{change.kind}"

    def _wanted(self, change: Change) -> str:
        return "true" if self._field(change) == "unschedulable" else f"{change.action}:{EFFECTS[change.kind]}"

    def _patch(self, change: Change, node: MemberState, value: str, marks: tuple[str | None, str | None]) -> HttpCall:
        """Returns the patch that gives a node a value and the marks as label and annotation; None removes a mark."""
        key = PREFIX + change.kind
        values: dict[str, Any] = {"metadata": {"labels": {key: marks[0]}, "annotations": {key: marks[1]}}}
        if self._field(change) == "unschedulable":
            values["spec"] = {"unschedulable": True if value else None}
        else:
            others = [taint for taint in json.loads(node.detail("taints", "[]")) if taint.get("key") != key]
            held, _, effect = value.rpartition(":")
            ours = [{"key": key, "value": held, "effect": effect}] if value else []
            values["spec"] = {"taints": others + ours or None}
        url = f"{self.settings.api.url}/api/v1/nodes/{quote(node.member, safe='')}"
        return render_patch(url, node.detail("version"), values)

    def _render_evictions(self, node: MemberState) -> tuple[Call, ...]:
        pods = json.loads(node.detail("pods", "[]"))
        if len(pods) > MAX_EVICTIONS:
            raise TargetError(f"{node.member}: {len(pods)} pods to evict, expected at most {MAX_EVICTIONS}")
        return tuple(self._evict(*names) for *names, state in pods if state == RUNNING)

    def _evict(self, namespace: str, name: str, uid: str) -> HttpCall:
        body = {
            "apiVersion": self.settings.eviction.version,
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/eviction"
        # 404: the pod has ended meanwhile.
        return HttpCall("POST", self.settings.api.url + path, json.dumps(body), statuses=(201, 404))

    async def _read_pods(self) -> dict[str, list[tuple[str, str, str, str]]]:
        """Returns the pods that may be evicted, by node."""
        found: dict[str, list[tuple[str, str, str, str]]] = {}
        query = {"labelSelector": self.settings.eviction.selector} if self.settings.eviction.selector else {}
        for namespace in self.settings.eviction.namespaces:
            path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
            for pod in await self.settings.api.list_objects(path, query, 200):
                if is_evictable(pod):
                    meta, node = metadata_of(pod), str(mapping_of(pod, "spec").get("nodeName", ""))
                    state = ENDING if meta.get("deletionTimestamp") else RUNNING
                    pods = found.setdefault(node, [])
                    pods.append((namespace, check_object_name(pod), str(meta.get("uid", "")), state))
        return found


def list_pods(node: MemberState) -> set[str]:
    """Returns the ids of the pods of a node that may be evicted."""
    return {uid for _, _, uid, _ in json.loads(node.detail("pods", "[]"))}


def is_evictable(pod: Mapping[str, Any]) -> bool:
    """Returns whether a pod runs and is neither of a daemon set nor of the node itself, as `kubectl drain` decides."""
    meta = metadata_of(pod)
    owners = [each.get("kind") for each in items_of(meta, "ownerReferences")]
    mirrors = "kubernetes.io/config.mirror" in mapping_of(meta, "annotations")
    ended = mapping_of(pod, "status").get("phase") in ("Succeeded", "Failed")
    return not mirrors and not ended and "DaemonSet" not in owners and "Node" not in owners


def find_usual_taints(nodes: Collection[Mapping[str, Any]], tolerated: Iterable[str]) -> frozenset[str]:
    """Returns the keys of taints with which nodes are in use: tolerated ones, and those that most nodes have.

    Pods that run on such nodes tolerate them. What Kubernetes or an action has set is never one of them.
    """
    keys = ({_taint_key(taint) for taint in items_of(mapping_of(node, "spec"), "taints")} for node in nodes)
    counts = Counter(key for some in keys for key in some)
    shared = {key for key, count in counts.items() if len(nodes) >= MIN_POOL and 2 * count > len(nodes)}
    return frozenset({*tolerated, *(key for key in shared if not key.startswith((SYSTEM_PREFIX, PREFIX)))})


def _taint_key(taint: Mapping[str, Any]) -> str:
    return str(taint.get("key", ""))


def make_member(
    node: Mapping[str, Any], pods: list[tuple[str, str, str, str]], usual: frozenset[str] = frozenset()
) -> MemberState:
    """Returns the state of a node from its object; `usual` are keys of taints with which it is in use."""
    meta, spec = metadata_of(node), mapping_of(node, "spec")
    taints, labels = items_of(spec, "taints"), mapping_of(meta, "labels")
    unschedulable = spec.get("unschedulable") is True
    keeping = [each for each in taints if each.get("effect") in KEEPS_AWAY and _taint_key(each) not in usual]
    serving = not unschedulable and is_ready(node) and not keeping
    details = {
        "pods": json.dumps(sorted(pods)),
        "taints": json.dumps(taints, sort_keys=True),
        "unschedulable": "true" if unschedulable else "",
        "version": str(meta.get("resourceVersion", "")),
    }
    for kind in EFFECTS:
        details[f"mark.{kind}"] = str(labels.get(PREFIX + kind, ""))
        ours = [
            f"{each.get('value', '')}:{each.get('effect', '')}" for each in taints if each.get("key") == PREFIX + kind
        ]
        details[f"taint.{kind}"] = ",".join(ours)
    owner = details[f"mark.{EVICT}"] or details[f"mark.{DRAIN}"] or details[f"mark.{DEWEIGHT}"]
    return MemberState(object_name(node), serving, None, owner, tuple(sorted(details.items())))
