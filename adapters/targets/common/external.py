"""Targets that a program or a web service of the user drives, by the contract of docs/acting-hooks.md.

A hook gets one JSON object and gives one: `state`, `plan`, `apply`, `verify`, `undo`. It keeps the owner mark of each
kind of change itself and reports it in `owners`.
"""

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from skewscope.adapters.targets.common.base import BusyError, ConflictError, TargetError
from skewscope.adapters.targets.common.calls import Call, CommandCall, HttpCall
from skewscope.adapters.targets.common.marks import check_action, clean_reason
from skewscope.adapters.targets.common.settings import COMMON_FIELDS, NamedTarget, TargetSettings, read_common
from skewscope.adapters.targets.common.transports import show
from skewscope.engine.actions.change import (
    ABSENT,
    CHANGE_KINDS,
    FOREIGN,
    OURS,
    Change,
    ChangeSupport,
    MemberState,
    TargetState,
)
from skewscope.engine.actions.comparison import MemberLoad
from skewscope.kb.field_reader import FieldReader, is_finite_number
from skewscope.kb.yamlfile import FieldPath

VERSION = 1
STATE, PLAN, APPLY, VERIFY, UNDO = VERBS = ("state", "plan", "apply", "verify", "undo")
EXTERNAL_FIELDS = (*COMMON_FIELDS, "changes", "irreversible")
VERIFY_PAUSE = 0.25
"""Seconds between two questions whether a change is done."""
MAX_TEXT = 200


class ExternalTransport(Protocol):
    """How a hook is called."""

    def render(self, body: str) -> Call:
        """Returns the call that sends a body."""
        ...

    async def send(self, call: Call) -> str:
        """Makes a call and returns the answer.

        Raises:
            TargetError: there is none.
        """
        ...


@dataclass(frozen=True, slots=True)
class ExternalSettings:
    """Settings that all hooks share."""

    common: TargetSettings
    changes: tuple[str, ...] = ()
    """Kinds of changes that the hook carries out."""
    irreversible: tuple[str, ...] = ()
    """Those of them without an undo."""


def read_external(fields: FieldReader, at: FieldPath, name: str) -> ExternalSettings:
    """Parses the fields of every hook."""
    changes = fields.texts((*at, "changes"), choice=CHANGE_KINDS)
    irreversible = fields.texts((*at, "irreversible"), choice=changes or CHANGE_KINDS)
    return ExternalSettings(read_common(fields, at, name), changes, irreversible)


@dataclass
class ExternalTarget(NamedTarget):
    """A target behind a hook."""

    settings: ExternalSettings
    transport: ExternalTransport
    support: Mapping[str, ChangeSupport] = field(init=False)

    def __post_init__(self) -> None:
        last = self.settings.irreversible
        self.support = {kind: ChangeSupport(kind not in last) for kind in self.settings.changes}

    async def read_state(self) -> TargetState:
        """Returns what the hook answers to `state`."""
        return parse_state(await self._read(), self.name)

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the calls `apply` and `verify`."""
        if change.kind not in self.support:
            raise TargetError(f"{self.name}: the hook declares no {change.kind}")
        member = state.member(change.member)
        if member is None:
            raise TargetError(f"{self.name}: the hook has no member {change.member!r:.80}")
        if member.detail(f"mark.{change.kind}") == check_action(change):
            return ()
        return (self._render(APPLY, change, member=member), self._render(VERIFY, change, wanted="made"))

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns the calls `undo` and `verify`; none where the hook does not report our mark."""
        if self.find_standing(change, before, state) != OURS or not self.support[change.kind].reversible:
            return ()
        return (self._render(UNDO, change, before=before), self._render(VERIFY, change, wanted="undone"))

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state with our mark."""
        return state.with_member(change.member, {f"mark.{change.kind}": change.action}, owner=change.action)

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:  # noqa: ARG002 - protocol
        """Returns where a change stands, by the owner mark that the hook reports."""
        member = state.member(change.member)
        if member is None or change.kind not in self.support:
            return FOREIGN
        mark = member.detail(f"mark.{change.kind}")
        return OURS if mark == change.action else FOREIGN if mark else ABSENT

    async def make_call(self, call: Call) -> None:
        """Makes one call; asks `verify` again until it is done or the timeout has passed."""
        verb = parse_body(call).get("verb")
        if verb not in (PLAN, APPLY, VERIFY, UNDO):
            raise TargetError(f"{self.name}: a call with the verb {verb!r:.40}")
        if verb != VERIFY:
            await self._send(call)
            return
        try:
            async with asyncio.timeout(self.settings.common.timeout):
                while (await self._send(call)).get("done") is False:  # noqa: ASYNC110 - it is another program's
                    await asyncio.sleep(VERIFY_PAUSE)
        except TimeoutError:
            raise BusyError(f"{self.name}: accepted, but not done within {self.settings.common.timeout:g} s") from None

    def render_dry_run(self, call: Call) -> Call | None:
        """Returns the call `plan` for a call `apply`; None for others."""
        body = parse_body(call)
        return self.transport.render(_write({**body, "verb": PLAN})) if body.get("verb") == APPLY else None

    async def read_work(self) -> Mapping[str, float]:
        """Returns the field `work` of the members, where the hook gives it."""
        members = (await self._read())["members"]
        return {
            name: float(each["work"])
            for name, each in members.items()
            if isinstance(each, dict) and is_finite_number(each.get("work")) and each["work"] >= 0
        }

    async def read_load(self) -> Mapping[str, MemberLoad]:
        """Returns the fields `work` and `in_flight` of the members, where the hook gives both."""
        found: dict[str, MemberLoad] = {}
        for name, each in (await self._read())["members"].items():
            values: dict[str, Any] = each if isinstance(each, dict) else {}
            work, under_way = (values.get(key, math.nan) for key in ("work", "in_flight"))
            if is_finite_number(work) and is_finite_number(under_way) and 0 <= under_way <= work:
                found[name] = MemberLoad(float(work - under_way), float(under_way))
        return found

    async def probe(self, member: str) -> float | None:  # noqa: ARG002 - of the protocol
        """Returns None: hooks have no probes."""
        return None

    async def _read(self) -> dict[str, Any]:
        body = {"version": VERSION, "verb": STATE, "target": self.name, "members": sorted(self.members.values())}
        answer = await self._send(self.transport.render(_write(body)))
        if not isinstance(answer.get("members"), dict):
            raise TargetError(f"{self.name}: an answer to `state` without `members`")
        return answer

    def _render(self, verb: str, change: Change, **more: Any) -> Call:
        about = {**asdict(change), "reason": clean_reason(change), "parameters": dict(change.parameters)}
        states = {key: _show_member(each) if isinstance(each, MemberState) else each for key, each in more.items()}
        body = {"version": VERSION, "verb": verb, "target": self.name, "change": about, **states}
        return self.transport.render(_write(body))

    async def _send(self, call: Call) -> dict[str, Any]:
        text = await self.transport.send(call)
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise TargetError(f"{self.name}: an answer that is no JSON object: {show(text)}")
        if answer.get("error"):
            kind = BusyError if answer.get("busy") is True else TargetError
            kind = ConflictError if answer.get("conflict") is True else kind
            raise kind(f"{self.name}: {show(str(answer['error']))}")
        return answer


def parse_body(call: Call) -> dict[str, Any]:
    """Returns the JSON object that a call sends; empty where it sends none."""
    text = call.body if isinstance(call, HttpCall) else call.stdin if isinstance(call, CommandCall) else ""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def parse_state(answer: Mapping[str, Any], name: str) -> TargetState:
    """Returns the state in an answer to `state`.

    Raises:
        TargetError: a member has a field of a wrong type.
    """
    return TargetState({str(key): _parse_member(str(key), each, name) for key, each in answer["members"].items()})


def _parse_member(member: str, values: Any, name: str) -> MemberState:
    values = values if isinstance(values, dict) else {"serving": 0}
    serving, weight = values.get("serving"), values.get("weight")
    owners, details = values.get("owners") or {}, values.get("details") or {}
    good = (serving is None or isinstance(serving, bool)) and (
        weight is None or (is_finite_number(weight) and weight >= 0)
    )
    texts = [*owners.values(), *details.values()] if isinstance(owners, dict) and isinstance(details, dict) else [0]
    if not good or not all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts):
        raise TargetError(f"{name}: the member {member!r:.80} has a field of a wrong type")
    marks = {f"mark.{kind}": owners[kind] for kind in CHANGE_KINDS if owners.get(kind)}
    owner = next((owners[kind] for kind in reversed(CHANGE_KINDS) if owners.get(kind)), "")
    found = {**{f"hook.{key}": text for key, text in details.items()}, **marks}
    return MemberState(member, serving, weight, owner, tuple(sorted(found.items())))


def _show_member(member: MemberState) -> dict[str, Any]:
    """Returns a member in the form in which the hook reported it."""
    pairs = dict(member.details)
    return {
        "member": member.member,
        "serving": member.serving,
        "weight": member.weight,
        "owners": {key.removeprefix("mark."): text for key, text in pairs.items() if key.startswith("mark.")},
        "details": {key.removeprefix("hook."): text for key, text in pairs.items() if key.startswith("hook.")},
    }


def _write(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True) + "\n"
