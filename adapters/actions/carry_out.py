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


class ForeignStateError(TargetError):
    """Somebody else changed the member: their change stays as it is."""


async def read_member(target: Target, member: str) -> tuple[MemberState, TargetState]:
    """Returns the state of one member, and that of all.

    Raises:
        TargetError: the target does not answer, or has no such member.
    """
    state = await target.read_state()
    found = state.member(member)
    if found is None:
        raise TargetError(f"{target.name}: no member {member!r}")
    return found, state


async def make_change(target: Target, change: Change, before: MemberState) -> tuple[Call, ...]:
    """Makes a change unless it is made already; returns the calls.

    Raises:
        ForeignStateError: the member is in a state that is neither the former one nor ours.
        TargetError: the target refused, did not answer, or changed under each try.
    """

    def render(state: TargetState) -> tuple[Call, ...]:
        standing = target.find_standing(change, before, state)
        if standing == FOREIGN:
            raise ForeignStateError(f"{target.name}: {change.member} was changed by somebody else")
        return () if standing == OURS else target.render_change(change, state)

    return await _call_until_consistent(target, render)


async def undo_change(target: Target, change: Change, before: MemberState) -> tuple[Call, ...]:
    """Undoes what is left of a change; returns the calls, none where somebody else undid or replaced it.

    Raises:
        TargetError: the target refused, did not answer, or changed under each try.
    """
    return await _call_until_consistent(target, lambda state: target.render_undo(change, before, state))


async def _call_until_consistent(
    target: Target,
    render: Callable[[TargetState], tuple[Call, ...]],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> tuple[Call, ...]:
    wait = BUSY_WAIT
    for tries_left in reversed(range(MAX_TRIES)):
        calls = render(await target.read_state())
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
