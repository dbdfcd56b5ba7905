"""Whether a member is slower than its peers, and whether its pool got better, by readings that it does not make. Pure.

A witness is a probe, a request of the controller's own, or the router, by its own counts. Neither rests on what the
member says of itself, nor on what the diagnosis was made from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from skewscope.engine.actions.witnesses import PROBE, ROUTER

SLOWER = {PROBE: 1.3, ROUTER: 2.0}
"""How many times as long as its peers a member may take. Judgement: single requests vary by about that much, and the
mean of some seconds at a router by more."""
SLACK = 0.05
"""Seconds that it may take longer in any case."""
LEAST_SECONDS, LEAST_ANSWERS, LEAST_IN_FLIGHT = 8.0, 10.0, 3.0
"""What the mean time at a router is computed from at least: so many seconds, and answers or requests that wait."""
SLOW_SHARE = 0.5
"""Share of the lost time that a pool has to get back."""


@dataclass(frozen=True, slots=True)
class MemberComparison:
    """The times of a member and of its peers, as one witness measured them."""

    witness: str
    """PROBE or ROUTER."""
    t: float
    member: float
    """Seconds; infinite where it gave no answer."""
    peers: float
    """Seconds: the median of the peers."""

    @property
    def limit(self) -> float:
        """Seconds from which the member counts as slower."""
        return SLOWER[self.witness] * self.peers + SLACK

    @property
    def is_slower(self) -> bool:
        """Whether the member is slower than its peers."""
        return self.member > self.limit

    def contradicts(self, loss: float) -> bool:
        """Returns whether these times contradict a diagnosis by which the member lost a share of its work.

        A loss of 0 was not measured. One that would not show in these times is not contradicted by them.
        """
        is_visible = loss == 0.0 or self.peers > self.limit * max(1.0 - loss, 0.0)
        return not self.is_slower and is_visible

    def describe(self) -> str:
        """Returns the times in words that follow a colon or stand alone."""
        who = "a probe" if self.witness == PROBE else "the router"
        if self.member == float("inf"):
            return f"{who} gets no answer of it, and one of its peers after {self.peers:.2f} s"
        what = "slower than" if self.is_slower else "as quick as"
        return f"{who} finds it {what} its peers ({self.member:.2f} s, theirs {self.peers:.2f} s)"


@dataclass(frozen=True, slots=True)
class MemberLoad:
    """What a router counts of one member."""

    done: float
    """Requests that have ended so far."""
    in_flight: float
    """Requests that are under way."""


LoadSample = tuple[float, Mapping[str, MemberLoad]]
"""Seconds since 1970, and the load of each member then."""


def compare_times(witness: str, t: float, member: Sequence[float], peers: Sequence[float]) -> MemberComparison | None:
    """Returns the comparison of measured times in seconds; None without any of the member or of its peers."""
    return MemberComparison(witness, t, median(member), median(peers)) if member and peers else None


def estimate_times(samples: Sequence[LoadSample]) -> dict[str, float]:
    """Returns the mean seconds of a request at each member, by Little's law: requests under way by answers a second.

    Members of which too little is known are left out; a member that answers nothing is taken to answer once.
    """
    if len(samples) < 2 or samples[-1][0] - samples[0][0] < LEAST_SECONDS:
        return {}
    (start, first), (end, last) = samples[0], samples[-1]
    found: dict[str, float] = {}
    for name in last.keys() & first.keys():
        done = last[name].done - first[name].done
        waiting = fmean(loads[name].in_flight for _, loads in samples if name in loads)
        if done >= LEAST_ANSWERS or (done >= 0.0 and waiting >= LEAST_IN_FLIGHT):
            found[name] = waiting * (end - start) / max(done, 1.0)
    return found


def estimate_pool_time(samples: Sequence[LoadSample]) -> float | None:
    """Returns the mean seconds of a request at all members of a router; None where too little is known."""
    merged = [
        (t, {"": MemberLoad(sum(o.done for o in loads.values()), sum(o.in_flight for o in loads.values()))})
        for t, loads in samples
    ]
    return estimate_times(merged).get("")


def has_recovered(before: float, peers: float, after: float) -> bool:
    """Returns whether the mean time of a pool came back to that of the member's peers, by half or more.

    Args:
        before: seconds during the fault.
        peers: seconds that the member's peers took then.
        after: seconds with the change in place.
    """
    return before > peers * SLOWER[PROBE] and before - after >= SLOW_SHARE * (before - peers)
