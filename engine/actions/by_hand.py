"""Changes that a person runs: their actions wait for the person's word, or for what the target reports. Pure.

`applying` and `undoing` mean that a person has to do something. Neither a late person nor a stale report is a failure
of the target, so nothing here ends as failed, and nothing that ends here is counted by the breaker.
"""

from dataclasses import replace

from skewscope.engine.actions.action import APPLIED, APPLYING, EXPIRED, OVERRIDDEN, UNDOING, UNDONE, Action
from skewscope.engine.actions.change import ABSENT, FOREIGN, OURS
from skewscope.engine.actions.lifecycle import Timing

POLL = 5.0
"""Seconds between two looks at what a target reports."""
RUN, TAKE_BACK = "a person runs its calls", "a person takes it back"


def awaits_person(action: Action) -> bool:
    """Returns whether an action goes on when a person says that something was done."""
    return action.plan.by_hand and action.state in (APPLYING, UNDOING)


def await_run(action: Action, standing: str, obstacle: str, timing: Timing, t: float) -> Action:
    """Returns an action whose calls a person has to run.

    Args:
        action: an action that is being applied.
        standing: ABSENT, OURS or FOREIGN, as the target reports it; it may be late, or never be told.
        obstacle: why it must not be made any more, such as that its incident is over; '' for nothing.
        timing: the times that are allowed.
        t: the present time.
    """
    if standing == FOREIGN:
        return action.move(t, OVERRIDDEN, "somebody else changed the member", ending="changed by somebody else")
    if standing == OURS:
        return action.move(t, APPLIED, "the target reports it", applied_at=t, seen_in_state=True)
    if obstacle:
        return action.move(t, EXPIRED, obstacle, ending=f"{obstacle}; nobody said that its calls were run")
    if t - (action.started_at or t) > timing.approval_within:
        return action.move(t, EXPIRED, "nobody ran it in time", ending="nobody ran it in time")
    return _wait(action, RUN, t)


def await_undo(action: Action, standing: str, t: float) -> Action:
    """Returns an action that a person has to take back, by what the target reports.

    Where the change rests on a person's word, only a person's word ends it: the target may never have reported it.
    """
    if standing == FOREIGN:
        return action.move(t, OVERRIDDEN, "somebody else changed the member; it stays as it is", stuck=False)
    if standing == ABSENT and action.called_at is None:
        what = "nothing was run" if action.applied_at is None else "the former state is back"
        return action.move(t, UNDONE, what, stuck=False)
    return _wait(replace(action, stuck=True), f"{TAKE_BACK}: {action.plan.undo}", t)


def confirm(action: Action, who: str, why: str, t: float) -> Action:
    """Returns an action of which a person says that its calls, or those of its undo, were run."""
    if action.state == UNDOING:
        return action.move(t, UNDONE, f"taken back, says {who}: {why}", stuck=False)
    said = f"run, says {who}: {why}"
    return action.move(t, APPLIED, said, called_at=t, applied_at=t, seen_in_state=True)


def read_standing(action: Action, standing: str) -> str:
    """Returns where a change in place stands: what a person said counts until the target reports something else."""
    return OURS if standing == ABSENT and action.plan.by_hand and action.called_at is not None else standing


def _wait(action: Action, why: str, t: float) -> Action:
    waiting = replace(action, waiting=why, next_try=t + POLL)
    return waiting if action.waiting == why else waiting.note(t, f"waits: {why}")
