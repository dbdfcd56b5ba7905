"""Approvals by persons: how many a proposal needs, and what one more makes of it. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from skewscope.engine.actions.action import APPROVED, Action


def add_approval(action: Action, who: str, why: str, persons: int, t: float) -> Action:
    """Returns a proposal after one more person has approved it: approved once enough have.

    Args:
        action: a proposal, which this person has not approved yet.
        who: the person.
        why: the reason.
        persons: how many different persons have to approve it.
        t: the present time.
    """
    approvers = (*action.approvers, who)
    if len(approvers) >= persons:
        named = ", ".join(approvers)
        said = f"approved by {who}: {why}"
        return action.move(t, APPROVED, said, approved_by=named, approved_at=t, approvers=approvers)
    waiting = replace(action, approvers=approvers, waiting=describe_persons(persons, approvers))
    return waiting.note(t, f"approved by {who}, {len(approvers)} of {persons}: {why}")


def describe_persons(persons: int, approvers: Sequence[str] = ()) -> str:
    """Returns which approvals are missing for which the policy is not enough; '' where it is."""
    if persons <= 0:
        return ""
    if approvers:
        return f"{len(approvers)} of {persons} approvals, by {', '.join(approvers)}"
    return "a person has to approve it" if persons == 1 else f"{persons} different persons have to approve it"
