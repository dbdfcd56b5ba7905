"""How long a member is held out whose fault comes and goes, as a circuit breaker does. Pure.

Each return of the fault doubles the time for which the member has to be well before it is used again; each while in
which it stayed well takes one step back. So a member that is slow for twenty seconds and well for twenty is out after
its first return, and one that was slow yesterday is used as soon as it is well.
"""

from collections.abc import Iterable

from skewscope.engine.actions.action import UNDONE, Action
from skewscope.engine.actions.lifecycle import TIME_OVER

WELL_PER_STEP = 1800.0
"""Seconds in use and well that take back one return. Judgement: half of the time for which a change may be in place."""
MAX_LEVEL = 6


def ended_well(action: Action) -> bool:
    """Returns whether a change was undone since its member seemed well again."""
    return (
        action.state == UNDONE and action.verified_at is not None and not action.ended_by and action.ending != TIME_OVER
    )


def is_return(action: Action, other: Action) -> bool:
    """Returns whether an action is for the return of the fault of another one, which had ended since all was well."""
    place, condition = action.scope.entity, action.reason.condition
    same = (other.scope.entity, other.reason.condition) == (place, condition) and other.id != action.id
    return same and ended_well(other) and (other.ended_at or 0.0) <= action.created


def find_level(action: Action, others: Iterable[Action]) -> int:
    """Returns how often the fault of an action came back, less one for each WELL_PER_STEP without it.

    The time for which its member has to be well is doubled so many times.
    """
    earlier = sorted((other for other in others if is_return(action, other)), key=lambda one: one.created)
    level, ended = 0, None
    for each in (*earlier, action):
        if ended is not None:
            level = max(level - int((each.created - ended) / WELL_PER_STEP), 0)
        if each is not action:
            level, ended = level + 1, each.ended_at or each.created
    return min(level, MAX_LEVEL)
