"""Gateway API inference extension and llm-d on Kubernetes: a label of a pod, which its pool or a filter selects by.

With `label` one of the pool's selector, the pod leaves the pool; with another label, a `label-selector-filter` of the
endpoint picker has to refuse its value. Requests under way go on in both cases. The owner mark is an annotation.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from skewscope.adapters.config.fields import read_number
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call
from skewscope.adapters.targets.common.kubernetes_api import (
    API_FIELDS,
    LABEL_PATTERN,
    NAME_PATTERN,
    PREFIX,
    VERSION_THEN,
    KubernetesApi,
    check_names,
    is_ready,
    mapping_of,
    metadata_of,
    object_name,
    read_api,
    render_dry_run,
    render_patch,
)
from skewscope.adapters.targets.common.marks import (
    ACTION_PATTERN,
    MarkedValue,
    check_action,
    clean_reason,
    compare_mark,
)
from skewscope.adapters.targets.common.probe import ProbeSettings, measure_probe
from skewscope.adapters.targets.common.settings import (
    COMMON_FIELDS,
    PROBE_FIELDS,
    NamedTarget,
    TargetSettings,
    read_common,
    read_probe,
)
from skewscope.engine.actions.change import DRAIN, FOREIGN, Change, ChangeSupport, MemberState, TargetState
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

LABEL, VALUE = f"{PREFIX}state", "drained"
MARK = PREFIX + DRAIN
DEFAULT_PORT = 8000
NOTE = "where a ReplicaSet selects by the same label, it starts a pod in place of the one that left"


@dataclass(frozen=True, slots=True)
class GatewayApiSettings:
    """Settings of the pods of one pool."""

    common: TargetSettings
    api: KubernetesApi
    namespace: str
    label: str = LABEL
    value: str = VALUE
    """Value of the label of a pod that is taken out."""
    port: int = DEFAULT_PORT
    """Port of a pod that is probed."""
    probe: ProbeSettings | None = None


def read(fields: FieldReader, at: FieldPath, name: str) -> GatewayApiSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    optional = (*COMMON_FIELDS, *API_FIELDS, *PROBE_FIELDS, "label", "value", "port")
    fields.check_keys(at, ("kind", "url", "namespace", "members"), optional)
    common = read_common(fields, at, name)
    check_names(fields, (*at, "members"), common.members, "the name of a pod")
    namespace = fields.required_text((*at, "namespace"))
    label, value = fields.text((*at, "label")) or LABEL, fields.text((*at, "value")) or VALUE
    checks = (
        ("namespace", namespace, NAME_PATTERN, "the name of a namespace"),
        ("label", label, LABEL_PATTERN, "the key of a label"),
        ("value", value, ACTION_PATTERN, "the value of a label"),
    )
    for key, text, pattern, expected in checks:
        if text and not pattern.fullmatch(text):
            fields.add_problem((*at, key), f"{text!r:.80}", expected)
    port = int(read_number(fields, (*at, "port"), DEFAULT_PORT, (1, 65535)))
    api = read_api(fields, at, common.timeout)
    return GatewayApiSettings(common, api, namespace, label, value, port, read_probe(fields, at))


def build(settings: GatewayApiSettings) -> "GatewayApiTarget":
    """Creates the target."""
    return GatewayApiTarget(settings)


@dataclass
class GatewayApiTarget(NamedTarget):
    """The pods of one pool."""

    settings: GatewayApiSettings
    support: Mapping[str, ChangeSupport] = field(default_factory=lambda: {DRAIN: ChangeSupport(note=NOTE)})

    async def read_state(self) -> TargetState:
        """Returns the pods with the value of the label."""
        try:
            async with asyncio.timeout(self.settings.common.timeout):
                pods = await self.settings.api.read_objects(self._path(), self.members.values())
        except TimeoutError:
            raise TargetError(f"{self.name}: no state within {self.settings.common.timeout:g} s") from None
        return TargetState({name: self._make_member(pod) for name, pod in pods.items()})

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the patch that labels a pod."""
        if change.kind not in self.support:
            raise TargetError(f"{self.name}: an inference pool cannot {change.kind}")
        pod, action = state.member(change.member), check_action(change)
        if pod is None:
            raise TargetError(f"{self.name}: the namespace {self.settings.namespace} has no pod {change.member!r:.80}")
        if pod.owner == action:
            return ()
        mark = json.dumps({"action": action, "reason": clean_reason(change), "expires": change.expires}, sort_keys=True)
        return (self._patch(pod, self.settings.value, mark),)

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns the patch that restores the label and removes the mark."""
        pod = state.member(change.member)
        if pod is None or change.kind not in self.support or pod.owner != change.action:
            return ()
        ours = pod.detail("label") == self.settings.value
        return (self._patch(pod, (before if ours else pod).detail("label"), None),)

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state with our label and mark; its version is not known yet."""
        after = {"label": self.settings.value, "version": VERSION_THEN}
        return state.with_member(change.member, after, serving=False, owner=change.action)

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns where a change stands: by the mark and the label."""
        pod = state.member(change.member)
        if pod is None or change.kind not in self.support:
            return FOREIGN
        value = MarkedValue(pod.owner, pod.detail("label"), before.detail("label"), self.settings.value)
        return compare_mark(value, change.action)

    async def make_call(self, call: Call) -> None:
        """Makes one call at the API server."""
        await self.settings.api.make_call(call)

    def render_dry_run(self, call: Call) -> Call | None:
        """Returns a call that the server checks without carrying it out."""
        return render_dry_run(call)

    async def read_work(self) -> Mapping[str, float]:
        """Returns nothing: the API server knows no requests."""
        return {}

    async def probe(self, member: str) -> float | None:
        """Returns the seconds of a probe of a pod at its address; None without `probe` in the config."""
        if self.settings.probe is None:
            return None
        pod = (await self.read_state()).member(member)
        address = pod.detail("address") if pod else ""
        if not address or not all(c in "0123456789abcdef.:" for c in address):
            raise TargetError(f"{self.name}: the pod {member!r:.80} has no address")
        host = f"[{address}]" if ":" in address else address
        return await measure_probe(self.settings.probe, f"http://{host}:{self.settings.port}", FetchOptions())

    def _path(self) -> str:
        return f"/api/v1/namespaces/{quote(self.settings.namespace, safe='')}/pods"

    def _patch(self, pod: MemberState, label: str, mark: str | None) -> Call:
        values: dict[str, Any] = {
            "metadata": {"labels": {self.settings.label: label or None}, "annotations": {MARK: mark}}
        }
        url = f"{self.settings.api.url}{self._path()}/{quote(pod.member, safe='')}"
        return render_patch(url, pod.detail("version"), values)

    def _make_member(self, pod: Mapping[str, Any]) -> MemberState:
        meta = metadata_of(pod)
        label = str(mapping_of(meta, "labels").get(self.settings.label, ""))
        details = {
            "address": str(mapping_of(pod, "status").get("podIP", "")),
            "label": label,
            "version": str(meta.get("resourceVersion", "")),
        }
        serving = label != self.settings.value and is_ready(pod) and not meta.get("deletionTimestamp")
        owner = read_mark(mapping_of(meta, "annotations").get(MARK))
        return MemberState(object_name(pod), serving, None, owner, tuple(sorted(details.items())))


def read_mark(text: Any) -> str:
    """Returns the id of the action of an owner mark; '' for none, and the text itself where it cannot be read."""
    if text is None:
        return ""
    try:
        return str(json.loads(text)["action"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"unreadable: {text!r:.60}"
