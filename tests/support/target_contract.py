"""What every target has to fulfil, run against a real server or one that answers like it."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

from skewscope.adapters.actions.carry_out import make_change, undo_change
from skewscope.adapters.targets.common.base import Target
from skewscope.adapters.targets.common.calls import describe_calls
from skewscope.engine.actions.change import ABSENT, OURS, Change, MemberState

DEADLINE = 10.0
"""Seconds until a state that was accepted has to be there."""


async def wait_for_standing(target: Target, change: Change, before: MemberState, wanted: str) -> MemberState | None:
    """Returns the member once the change has the wanted standing; fails after a deadline."""
    standing = ""
    for _ in range(int(DEADLINE / 0.1)):
        state = await target.read_state()
        standing = target.find_standing(change, before, state)
        if standing == wanted:
            return state.member(change.member)
        await asyncio.sleep(0.1)
    raise AssertionError(f"{change.kind} of {change.member}: {standing}, not {wanted}")


async def _wait_for_member(target: Target, wanted: MemberState) -> None:
    """Waits until a member is as it was: some targets give it work again a moment after they accepted that."""
    found = None
    for _ in range(int(DEADLINE / 0.1)):
        found = (await target.read_state()).member(wanted.member)
        assert found is not None
        if (found.serving, found.weight, found.owner) == (wanted.serving, wanted.weight, wanted.owner):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{found}, not {wanted}")


def _without_version(calls: tuple[str, ...]) -> list[str]:
    """Returns calls without the version of an object, which only its server can tell."""
    return [re.sub(r'"resourceVersion": "[^"]*"', "", call) for call in calls]


async def run_cycle(
    target: Target, change: Change, check_changed: Callable[[], Awaitable[None]] | None = None
) -> tuple[str, ...]:
    """Makes and undoes a change, each twice, and checks the state in between; returns the described calls.

    `check_changed` may look at the traffic while the change is in place.
    """
    start = await target.read_state()
    before = start.member(change.member)
    assert before is not None
    assert target.find_standing(change, before, start) == ABSENT
    planned = target.render_change(change, start)
    previewed = target.render_undo(change, before, target.predict(change, start))
    assert await target.read_state() == start, "rendering has changed something"

    assert await make_change(target, change, before) == planned
    await wait_for_standing(target, change, before, OURS)
    assert await make_change(target, change, before) == (), "it was made twice"
    if check_changed is not None:
        await check_changed()

    undone = await undo_change(target, change, before)
    assert undone, "nothing was undone"
    assert _without_version(describe_calls(undone)) == _without_version(describe_calls(previewed))
    await wait_for_standing(target, change, before, ABSENT)
    await _wait_for_member(target, before)
    assert await undo_change(target, change, before) == (), "it was undone twice"
    # What another action would have made is not undone by this one.
    other = replace(change, action=f"{change.action}-other")
    assert await undo_change(target, other, before) == ()
    return describe_calls(planned)
