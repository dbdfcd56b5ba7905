"""llm-d without Kubernetes: a label of an endpoint in the file of the plug-in `file-discovery`.

The router has to watch the file (`watchFile: true`), and to refuse the label by a `label-selector-filter` with
`matchExpressions: [{key: skewscope.io/state, operator: NotIn, values: [drained]}]`. The router does not tell what it
read, so the file tells the state, and what follows shows in traffic. Written against the documented format; the file is
at most 1 MiB there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skewscope.adapters.config.fields import read_path
from skewscope.adapters.runtime.blocking_calls import FILES
from skewscope.adapters.sources.common.http_client import FetchOptions
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call, FileCall
from skewscope.adapters.targets.common.kubernetes_api import LABEL_PATTERN, PREFIX
from skewscope.adapters.targets.common.marks import (
    ACTION_PATTERN,
    MarkedValue,
    check_action,
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
from skewscope.adapters.targets.common.transports import read_file, replace_file
from skewscope.adapters.targets.common.yaml_edit import REMOVED, edit_yaml, parse_yaml
from skewscope.engine.actions.change import DRAIN, FOREIGN, Change, ChangeSupport, MemberState, TargetState
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

LABEL, VALUE = f"{PREFIX}state", "drained"
MARK = PREFIX + DRAIN
"""Label with the id of the action."""
NOTE = "the router takes it out only with a filter that refuses the label"


@dataclass(frozen=True, slots=True)
class LlmDSettings:
    """Settings of one endpoints file."""

    common: TargetSettings
    file: str
    label: str = LABEL
    value: str = VALUE
    """Value of the label of an endpoint that is taken out."""
    probe: ProbeSettings | None = None


def read(fields: FieldReader, at: FieldPath, name: str) -> LlmDSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "file", "members"), (*COMMON_FIELDS, *PROBE_FIELDS, "label", "value"))
    label, value = fields.text((*at, "label")) or LABEL, fields.text((*at, "value")) or VALUE
    if not LABEL_PATTERN.fullmatch(label) or label == MARK:
        fields.add_problem((*at, "label"), f"{label!r:.80}", "the key of a label of its own")
    if not ACTION_PATTERN.fullmatch(value):
        fields.add_problem((*at, "value"), f"{value!r:.80}", "the value of a label")
    common = read_common(fields, at, name)
    return LlmDSettings(common, read_path(fields, (*at, "file")), label, value, read_probe(fields, at))


def build(settings: LlmDSettings) -> "LlmDTarget":
    """Creates the target."""
    return LlmDTarget(settings)


@dataclass
class LlmDTarget(NamedTarget):
    """The endpoints of one file."""

    settings: LlmDSettings
    support: Mapping[str, ChangeSupport] = field(default_factory=lambda: {DRAIN: ChangeSupport(note=NOTE)})

    async def read_state(self) -> TargetState:
        """Returns the endpoints of the file; the router itself does not tell them."""
        return self._parse(await FILES.run(read_file, self.settings.file))

    def _parse(self, text: str) -> TargetState:
        endpoints = list_labelled_endpoints(text, self.settings.file)
        return TargetState({name: self._make_member(name, each) for name, (_, each) in endpoints.items()}, text=text)

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the file with the label that the filter refuses."""
        if change.kind not in self.support:
            raise TargetError(f"{self.name}: llm-d cannot {change.kind}")
        member, action = state.member(change.member), check_action(change)
        if member is None:
            raise TargetError(f"{self.name}: {self.settings.file} has no endpoint {change.member!r:.80}")
        return () if member.owner == action else self._write(state, change.member, self.settings.value, action)

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns the file with the former label; only without our mark where somebody else changed the label."""
        member = state.member(change.member)
        if member is None or change.kind not in self.support or member.owner != change.action:
            return ()
        ours = member.detail("label") == self.settings.value
        return self._write(state, change.member, (before if ours else member).detail("label"), "")

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the endpoints of the file that the change writes."""
        calls = self.render_change(change, state)
        return self._parse(calls[-1].after) if calls and isinstance(calls[-1], FileCall) else state

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns where a change stands: by the labels in the file."""
        member = state.member(change.member)
        if member is None or change.kind not in self.support:
            return FOREIGN
        value = MarkedValue(member.owner, member.detail("label"), before.detail("label"), self.settings.value)
        return compare_mark(value, change.action)

    async def make_call(self, call: Call) -> None:
        """Replaces the file."""
        if not isinstance(call, FileCall) or call.path != self.settings.file:
            raise TargetError(f"{self.name}: a call that is no change of {self.settings.file}")
        await FILES.run(replace_file, call)

    async def read_work(self) -> Mapping[str, float]:
        """Returns nothing: the file knows no requests."""
        return {}

    async def probe(self, member: str) -> float | None:
        """Returns the seconds of a probe of an endpoint at its address; None without `probe` in the config."""
        if self.settings.probe is None:
            return None
        found = (await self.read_state()).member(member)
        if found is None:
            raise TargetError(f"{self.name}: no endpoint {member!r:.80}")
        return await measure_probe(self.settings.probe, f"http://{found.detail('address')}", FetchOptions())

    def _write(self, state: TargetState, name: str, label: str, mark: str) -> tuple[Call, ...]:
        at, endpoint = list_labelled_endpoints(state.text, self.settings.file)[name]
        old = endpoint.get("labels") or {}
        new = {key: text for key, text in old.items() if key not in (self.settings.label, MARK)}
        new |= {key: text for key, text in ((self.settings.label, label), (MARK, mark)) if text}
        edits: list[tuple[FieldPath, Any]]
        if not new or not old:
            edits = [((*at, "labels"), new or REMOVED)]
        else:
            edits = [((*at, "labels", key), new.get(key, REMOVED)) for key in (self.settings.label, MARK)]
        return (FileCall(self.settings.file, state.text, edit_yaml(state.text, self.settings.file, edits)),)

    def _make_member(self, name: str, endpoint: Mapping[str, Any]) -> MemberState:
        labels = endpoint.get("labels") or {}
        label = str(labels.get(self.settings.label, ""))
        details = (("address", f"{endpoint['address']}:{endpoint['port']}"), ("label", label))
        return MemberState(name, label != self.settings.value, None, str(labels.get(MARK, "")), details)


def list_labelled_endpoints(text: str, file: str) -> dict[str, tuple[FieldPath, Mapping[str, Any]]]:
    """Returns place and fields of each endpoint by its name, from the text of an endpoints file.

    Raises:
        TargetError: it is no such file, or names an endpoint twice.
    """
    data = parse_yaml(text, file)
    items = data.get("endpoints") if isinstance(data, dict) else None
    found: dict[str, tuple[FieldPath, Mapping[str, Any]]] = {}
    for n, each in enumerate(items if isinstance(items, list) else ()):
        good = isinstance(each, dict) and isinstance(each.get("name"), str) and {"address", "port"} <= each.keys()
        if not good or not isinstance(each.get("labels") or {}, dict) or each["name"] in found:
            raise TargetError(f"{file}: endpoints[{n}]: expected name (once), address, port, and labels as a mapping")
        found[each["name"]] = (("endpoints", n), each)
    if not found:
        raise TargetError(f"{file}: no list `endpoints`")
    return found
