"""Makes and undoes one change at a target: read, render, call, and again where the state changed meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable

from skewscope.adapters.targets.common.base import BusyError, ConflictError, Target, TargetError
from skewscope.adapters.targets.common.calls import Call
from skewscope.engine.actions.change import FOREIGN, OURS, Change, MemberState, TargetState

MAX_TRIES = 4
"""Times that a change is rendered anew after a conflict, or after a refusal for now."""
BUSY_WAIT = 1.0
"""Seconds to the second try after a refusal for now; doubled for each further one."""


Admit = Callable[[], Awaitable[None]]
"""Called before calls are made; raises TargetError where they must not be made any more."""


class ForeignStateError(TargetError):
    """Somebody else changed the member: their change stays as it is."""


async def admit_always() -> None:
    """Admits calls."""


async def read_member(target: Target, member: str) -> tuple[MemberState, TargetState]:
    """Returns the state of one member, and that of all.

    Raises:
        TargetError: the target does not answer, or has no such member.
    """
    state = await target.read_state()
    return find_member(target, member, state), state


def find_member(target: Target, member: str, state: TargetState) -> MemberState:
    """Returns the state of one member in that of all.

    Raises:
        TargetError: the target has no such member.
    """
    found = state.member(member)
    if found is None:
        raise TargetError(f"{target.name}: no member {member!r}")
    return found


async def make_change(
    target: Target, change: Change, before: MemberState, admit: Admit = admit_always, *, was_called: bool = True
) -> tuple[Call, ...]:
    """Makes a change unless it is made already; returns the calls.

    Args:
        target: the target.
        change: the change.
        before: the member before it.
        admit: is called before the calls, each time that they are rendered.
        was_called: whether calls of this change may have been made before: if not, what looks like it is not ours.

    Raises:
        ForeignStateError: the member is in a state that is neither the former one nor ours.
        TargetError: the target refused, did not answer, or changed under each try.
    """
    made = was_called

    async def note_calls() -> None:
        nonlocal made
        await admit()
        made = True

    def render(state: TargetState) -> tuple[Call, ...]:
        standing = target.find_standing(change, before, state)
        if standing == FOREIGN or (standing == OURS and not made):
            raise ForeignStateError(f"{target.name}: {change.member} was changed by somebody else")
        return () if standing == OURS else target.render_change(change, state)

    return await _call_until_consistent(target, render, note_calls)


async def undo_change(
    target: Target, change: Change, before: MemberState, admit: Admit = admit_always
) -> tuple[Call, ...]:
    """Undoes what is left of a change; returns the calls, none where somebody else undid or replaced it.

    Raises:
        TargetError: the target refused, did not answer, or changed under each try.
    """
    return await _call_until_consistent(target, lambda state: target.render_undo(change, before, state), admit)


async def _call_until_consistent(
    target: Target,
    render: Callable[[TargetState], tuple[Call, ...]],
    admit: Admit,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> tuple[Call, ...]:
    wait = BUSY_WAIT
    for tries_left in reversed(range(MAX_TRIES)):
        calls = render(await target.read_state())
        if calls:
            await admit()
        try:
            for call in calls:
                await target.make_call(call)
        except ConflictError:
            if not tries_left:
                raise
        except BusyError:
            if not tries_left:
                raise
            await sleep(wait)
            wait *= 2
        else:
            return calls
    raise AssertionError
