"""Why nothing is planned for an incident, beside its own state: what was done, and what is known since. Pure."""

from collections.abc import Iterable, Iterator

from skewscope.engine.actions.action import OVERRIDDEN, UNDONE, Action
from skewscope.engine.actions.lifecycle import PROBES

NOT_HELD = "its evidence does not hold at present"
NOT_JUDGED = "it is left from before the controller started, and was not judged since"


def list_past_obstacles(past: Iterable[Action], *, is_judged: bool, held_since: float) -> tuple[str, ...]:
    """Returns why nothing is planned for an incident, one sentence each; empty where nothing stands against it.

    What a person refused, undid or changed otherwise is not tried again for the same incident. What the target forgot
    is no decision of anybody.

    Args:
        past: all actions for the incident.
        is_judged: whether the incident was judged since the controller started.
        held_since: since when its evidence holds without a break, seconds since 1970.
    """
    return tuple(_past_obstacles(past, is_judged=is_judged, held_since=held_since))


def _past_obstacles(past: Iterable[Action], *, is_judged: bool, held_since: float) -> Iterator[str]:
    if not is_judged:
        yield NOT_JUDGED
    for action in past:
        if action.is_live:
            waits = f", waits: {action.waiting}" if action.waiting else ""
            yield f"{action.id} is {action.state} for it ({action.title}{waits})"
        elif action.ended_by:
            yield f"{action.ended_by} decided otherwise: {action.id} ({action.title}) is {action.state}"
        elif action.state == OVERRIDDEN and not action.forgotten:
            yield f"somebody else changed {action.change.member} at {action.change.target} during {action.id}"
        elif was_found_well(action) and held_since <= (action.ended_at or 0.0):
            yield f"probes found {action.change.member} well ({action.id}), and its fault was not seen since"


def was_found_well(action: Action) -> bool:
    """Returns whether an action was undone since probes found its member as quick as its peers."""
    return action.state == UNDONE and action.good_probes >= PROBES
