"""Compares a member that was taken out with peers in use, by probes."""

from collections.abc import Iterable
from statistics import median

from skewscope.adapters.targets.common.base import Target, TargetError

MAX_PEERS = 2
SLOWER, SLACK = 1.3, 0.05
"""A member may take 1.3 times as long as its peers and 50 ms more: judgement; single requests vary by about as much."""


async def probe_member(target: Target, member: str, peers: Iterable[str]) -> bool | None:
    """Returns whether a member answers as quickly as its peers; None where it cannot be probed or has no peer in use.

    A member that gives no answer is slower than its peers.
    """
    times: list[float] = []
    for peer in sorted(peers)[:MAX_PEERS]:
        try:
            found = await target.probe(peer)
        except TargetError:
            continue
        if found is None:
            return None
        times.append(found)
    if not times:
        return None
    try:
        mine = await target.probe(member)
    except TargetError:
        return False
    return None if mine is None else mine <= SLOWER * median(times) + SLACK
