"""Changes that are rendered for a person and never made: devlink, mlnx_qos, mlxconfig, NCCL's environment.

A person records the output of the tool (or names the file of the environment) for each member; the state and the undo
are computed from it. After a person has run what is rendered, the output is recorded again, and shows the change. There
are no owner marks: a change is ours while the value is the very one that it gives.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from skewscope.adapters.config.fields import read_path
from skewscope.adapters.runtime.blocking_calls import FILES
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call
from skewscope.adapters.targets.common.nic_tools import DIALECTS
from skewscope.adapters.targets.common.settings import COMMON_FIELDS, NamedTarget, TargetSettings, read_common
from skewscope.adapters.targets.common.transports import read_file
from skewscope.engine.actions.change import ABSENT, FOREIGN, OURS, Change, ChangeSupport, MemberState, TargetState
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

MAX_OUTPUT = 1 << 16
"""Maximum characters of a recorded output."""


@dataclass(frozen=True, slots=True)
class RenderedSettings:
    """Settings of the members of one tool."""

    common: TargetSettings
    tool: str
    outputs: tuple[tuple[str, str], ...] = ()
    """Files with the recorded outputs, by member."""
    parameters: tuple[tuple[str, str], ...] = ()
    """What a change sets, such as the rate of a limit; sorted by name."""


def read(fields: FieldReader, at: FieldPath, name: str) -> RenderedSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "tool", "members", "outputs", "parameters"), COMMON_FIELDS)
    common = read_common(fields, at, name)
    tool = fields.required_text((*at, "tool"), choice=DIALECTS)
    outputs = fields.value_at((*at, "outputs"))
    if not isinstance(outputs, dict):
        fields.add_problem((*at, "outputs"), "no mapping", "the file with the recorded output of each member")
        outputs = {}
    for entity, member in common.members:
        if tool and not DIALECTS[tool].member_pattern.fullmatch(member):
            fields.add_problem((*at, "members", entity), f"{member!r:.80}", DIALECTS[tool].member_hint)
        if member not in outputs:
            fields.add_problem((*at, "outputs"), f"no file for {member!r:.80}", "one for each member")
    paths = tuple(sorted((str(key), read_path(fields, (*at, "outputs", key))) for key in outputs))
    return RenderedSettings(common, tool, paths, read_parameters(fields, (*at, "parameters"), tool))


def read_parameters(fields: FieldReader, at: FieldPath, tool: str) -> tuple[tuple[str, str], ...]:
    """Parses what a change sets, and lets the tool's dialect check it."""
    if fields.value_at(at) is None or tool not in DIALECTS:
        return ()
    dialect = DIALECTS[tool]
    fields.check_keys(at, dialect.parameters)
    values = {name: fields.value_at((*at, name)) for name in sorted(dialect.parameters)}
    if None in values.values():
        return ()
    found = tuple((name, str(value)) for name, value in values.items())
    change = Change(dialect.kind, "", "", "", parameters=found)
    try:
        dialect.find_key(change)
        dialect.change_value(change, dialect.sample)
    except TargetError as error:
        what, _, wanted = str(error).partition(" expected ")
        fields.add_problem(at, what.rstrip(",:"), wanted or "parameters of a change")
    return found


def build(settings: RenderedSettings) -> "RenderedTarget":
    """Creates the target."""
    return RenderedTarget(settings)


@dataclass
class RenderedTarget(NamedTarget):
    """The members of one tool."""

    settings: RenderedSettings
    support: Mapping[str, ChangeSupport] = field(init=False)

    def __post_init__(self) -> None:
        self.dialect = DIALECTS[self.settings.tool]
        self.support = {self.dialect.kind: ChangeSupport(note=self.dialect.note, runs=False)}

    async def read_state(self) -> TargetState:
        """Returns the values in the recorded outputs."""
        outputs = dict(self.settings.outputs)
        found: dict[str, MemberState] = {}
        texts: dict[str, str] = {}
        for member in self.members.values():
            text = await FILES.run(read_file, outputs[member])
            if len(text) > MAX_OUTPUT:
                raise TargetError(f"{outputs[member]}: more than {MAX_OUTPUT} characters")
            values = {f"value.{key}": value for key, value in self.dialect.parse(text, member).items()}
            found[member] = MemberState(member, details=tuple(sorted(values.items())))
            texts[member] = text
        # Not among the details, which are stored and shown: a file of variables may hold secrets.
        return TargetState(found, text=json.dumps(texts))

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns what a person runs or writes."""
        if change.kind not in self.support:
            raise TargetError(f"{self.name}: {self.settings.tool} cannot {change.kind}")
        member, change = state.member(change.member), self._complete(change)
        if member is None:
            raise TargetError(f"{self.name}: no member {change.member!r:.80}")
        value = self._value(change, member)
        wanted = self.dialect.change_value(change, value)
        return () if value == wanted else (self._render(change, wanted, state),)

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns what a person runs or writes to restore the former value."""
        if state.member(change.member) is None or self.find_standing(change, before, state) != OURS:
            return ()
        change = self._complete(change)
        return (self._render(change, self._value(change, before), state),)

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state with the new value; the recorded output stays, from which texts are rendered."""
        member, full = state.member(change.member), self._complete(change)
        if member is None:
            return state
        value = self.dialect.change_value(full, self._value(full, member))
        return state.with_member(change.member, {f"value.{self.dialect.find_key(full)}": value})

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns where a change stands, by the value in the newest recorded output."""
        member, change = state.member(change.member), self._complete(change)
        if member is None or change.kind not in self.support:
            return FOREIGN
        now, was = self._value(change, member), self._value(change, before)
        if now == was:
            return ABSENT
        return OURS if now == self.dialect.change_value(change, was) else FOREIGN

    async def make_call(self, call: Call) -> NoReturn:
        """Refuses every call.

        Raises:
            TargetError: always.
        """
        raise TargetError(f"{self.name}: is rendered for a person and never run: {call.describe()}")

    async def read_work(self) -> Mapping[str, float]:
        """Returns nothing."""
        return {}

    async def probe(self, member: str) -> float | None:  # noqa: ARG002 - of the protocol
        """Returns None."""
        return None

    def _complete(self, change: Change) -> Change:
        """Returns a change with the parameters of the config, as far as it has none of its own."""
        return replace(
            change, parameters=tuple(sorted({**dict(self.settings.parameters), **dict(change.parameters)}.items()))
        )

    def _value(self, change: Change, member: MemberState) -> str:
        key = f"value.{self.dialect.find_key(change)}"
        if key not in dict(member.details):
            raise TargetError(f"{self.name}: the output of {member.member} has no {key.removeprefix('value.')}")
        return member.detail(key)

    def _render(self, change: Change, value: str, state: TargetState) -> Call:
        source = dict(self.settings.outputs)[change.member], json.loads(state.text)[change.member]
        return self.dialect.render(change, value, source)
