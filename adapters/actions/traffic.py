"""Whether the work that a target gives to its members follows a change."""

from collections.abc import Mapping
from statistics import fmean

from skewscope.engine.actions.change import BLOCK, DEWEIGHT, DRAIN, EVICT, Change

LEAST_WORK = 10.0
"""Units of work that the other members have to get before anything is told."""
STRAY_SHARE = 0.05
"""Share of the others' work that a member without new work may still get: retries, sticky sessions, late readings."""


def check_traffic(change: Change, start: Mapping[str, float], now: Mapping[str, float]) -> bool | None:
    """Returns whether work follows a change; None where too little work was given out, or none is counted.

    Args:
        change: the change.
        start: units of work given to each member when the change took effect.
        now: units given to each so far.
    """
    if change.kind not in (DEWEIGHT, DRAIN, BLOCK, EVICT):
        return None
    # A member that counts from zero again was restarted.
    given = {name: max(now[name] - start.get(name, 0.0), 0.0) for name in now}
    others = [units for name, units in given.items() if name != change.member and name in start]
    if not others or sum(others) < LEAST_WORK:
        return None
    # A router may forget the counters of a member that it was told to remove.
    mine = given.get(change.member, 0.0)
    allowed = (1.5 * change.share if change.kind == DEWEIGHT else 0.0) + STRAY_SHARE
    return mine <= max(allowed * fmean(others), 1.0)
