"""Owner marks: who made a change, written where the target keeps it, and where a change stands by its mark."""

import re
from dataclasses import dataclass

from skewscope.adapters.targets.common.base import TargetError
from skewscope.engine.actions.change import ABSENT, FOREIGN, OURS, Change, MemberState

OWNER = "skewscope"
ACTION_PATTERN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""Ids of actions: values of labels of Kubernetes, which have the strictest syntax of all marks."""
MAX_REASON = 120


@dataclass(frozen=True, slots=True)
class MarkedValue:
    """A value that a change sets, beside its mark."""

    mark: str
    """Id of the action that the mark names; '' for none."""
    now: str
    was: str
    """The value before the change."""
    wanted: str
    """The value that the change gives."""
    in_effect: bool | None = None
    """Whether the target acts by the wanted value already, or still; None where it does not tell."""


def check_action(change: Change) -> str:
    """Returns the id of the action, which is written into files, URLs and labels.

    Raises:
        TargetError: it has other characters than a mark may have.
    """
    if not ACTION_PATTERN.fullmatch(change.action):
        raise TargetError(f"{change.target}: {change.action!r:.80} is no id of an action")
    return change.action


def clean_reason(change: Change) -> str:
    """Returns the reason as one short line of printable ASCII, without characters that end a quoted text."""
    kept = "".join(c if " " <= c <= "~" and c not in "\"'\\`" else " " for c in change.reason)
    return " ".join(kept.split())[:MAX_REASON]


def compare_mark(value: MarkedValue, action: str) -> str:
    """Returns whether a change is ABSENT, OURS or FOREIGN.

    What is written but not in effect is absent: accepted is not done. What is unwritten but still in effect is ours.
    """
    if value.mark == action:
        if value.now != value.wanted:
            return FOREIGN
        return ABSENT if value.in_effect is False else OURS
    if value.mark or value.now != value.was:
        return FOREIGN
    return OURS if value.in_effect and value.wanted != value.was else ABSENT


def lower_whole_weight(member: MemberState, weight: float, share: float) -> int:
    """Returns the whole weight that is nearest to a share of a weight, at least 1.

    Raises:
        TargetError: no whole weight is lower.
    """
    lower = max(round(weight * share), 1)
    if not lower < weight:
        hint = "give each member a weight of 100, then it can be lowered, or drain it"
        raise TargetError(f"{member.member}: no whole weight is lower than {weight:g}; {hint}")
    return lower
