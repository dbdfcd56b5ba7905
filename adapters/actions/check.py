"""Checks a target by hand: reads its state and renders each change of its members, without making any.

Where the target has a dry run of its own, such as `dryRun=All` of Kubernetes, its answer is part of the check.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from skewscope.adapters.targets.common.base import Target, TargetError
from skewscope.adapters.targets.common.calls import Call, describe_calls
from skewscope.engine.actions.change import DEWEIGHT, Change, MemberState, TargetState

ACTION = "check"
"""Owner mark in the calls that are rendered; none of them is made."""
SHARE = 0.1
"""Share of its weight that a member keeps in the deweight that is rendered."""
MAX_MEMBERS = 20
MAX_TIME = 120.0
"""Seconds for the whole check."""
STATE, WORK, RENDER, DRY_RUN, LIMIT = "state", "work", "render", "dry run", "limit"


@runtime_checkable
class DryRunTarget(Protocol):
    """A target that checks a call without carrying it out."""

    def render_dry_run(self, call: Call) -> Call | None:
        """Returns the call that only checks; None where there is none for this call."""
        ...


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One result of a check."""

    step: str
    """`state`, `work`, `render`, `dry run`, or `limit` where the check ends early."""
    ok: bool
    text: str
    """What was found, the calls, or the error."""
    member: str = ""
    kind: str = ""
    """Kind of the change; '' for none."""


async def check_target(
    target: Target, members: Iterable[str] = (), parameters: tuple[tuple[str, str], ...] = ()
) -> list[CheckLine]:
    """Returns what a target answers and what would be called, for each supported change of each member.

    Only calls that read, and dry runs, are made. An error is a line, not an exception.

    Args:
        target: the target.
        members: its own names of the members to check; all of the config by default, up to MAX_MEMBERS.
        parameters: parameters of the changes, such as the rate of a limit.
    """
    lines: list[CheckLine] = []
    try:
        async with asyncio.timeout(MAX_TIME):
            await _check(target, tuple(members), parameters, lines)
    except TimeoutError:
        lines.append(CheckLine(LIMIT, False, f"no end within {MAX_TIME:g} s"))
    return lines


async def _check(
    target: Target, members: tuple[str, ...], parameters: tuple[tuple[str, str], ...], lines: list[CheckLine]
) -> None:
    try:
        state = await target.read_state()
    except TargetError as error:
        lines.append(CheckLine(STATE, False, str(error)))
        return
    lines.append(await _check_work(target))
    wanted = members or tuple(dict.fromkeys(target.members.values()))
    for name in wanted[:MAX_MEMBERS]:
        member = state.member(name)
        if member is None:
            lines.append(CheckLine(STATE, False, "the target has no such member", name))
            continue
        lines.append(CheckLine(STATE, True, describe_member(member), name))
        for kind in target.support:
            change = Change(kind, target.name, name, ACTION, "a check by hand", parameters=parameters)
            change = replace(change, share=SHARE) if kind == DEWEIGHT else change
            lines += await _check_change(target, change, state)
    if len(wanted) > MAX_MEMBERS:
        lines.append(CheckLine(LIMIT, True, f"{MAX_MEMBERS} of {len(wanted)} members are checked; name others"))


async def _check_work(target: Target) -> CheckLine:
    try:
        work = await target.read_work()
    except TargetError as error:
        return CheckLine(WORK, False, str(error))
    told = ", ".join(f"{name}: {count:g}" for name, count in sorted(work.items())[:MAX_MEMBERS])
    return CheckLine(WORK, True, told or "the target counts no work; changes are verified by telemetry")


async def _check_change(target: Target, change: Change, state: TargetState) -> list[CheckLine]:
    try:
        calls = target.render_change(change, state)
    except TargetError as error:
        return [CheckLine(RENDER, False, str(error), change.member, change.kind)]
    support = target.support[change.kind]
    notes = [support.note] * bool(support.note) + ["this has no undo"] * (not support.reversible)
    text = "\n".join((*describe_calls(calls), *notes)) if calls else "nothing to do"
    lines = [CheckLine(RENDER, True, text, change.member, change.kind)]
    dry_calls = [target.render_dry_run(call) for call in calls] if isinstance(target, DryRunTarget) else []
    for dry in dry_calls:
        if dry is None:
            continue
        try:
            await target.make_call(dry)
        except TargetError as error:
            lines.append(CheckLine(DRY_RUN, False, str(error), change.member, change.kind))
        else:
            lines.append(CheckLine(DRY_RUN, True, "accepted", change.member, change.kind))
    return lines


def describe_member(member: MemberState) -> str:
    """Returns the state of a member in one line."""
    serving = {True: "given work", False: "given no work", None: "unknown whether it is given work"}[member.serving]
    weight = "" if member.weight is None else f", weight {member.weight:g}"
    return serving + weight + (f", owner {member.owner}" if member.owner else "")
