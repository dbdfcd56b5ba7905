"""What begins together in one place is one fault with several signs, and not several faults.

Two independent faults that begin in one place within seconds are far rarer than a fault that also stirs a rule for
another one: hosts of large clusters fail once in months. So of the roots that the causal graph leaves, those that
begin (or begin as the other ends: an aftermath) at about the same time in the same place are one incident. The surest
is its root; the others are told under it and compete with it.
"""

from collections.abc import Collection, Iterator, Mapping

from skewscope.engine.attribution.closeness import (
    AttributionCandidate,
    LocatedCandidate,
    is_contained,
    locate_candidate,
    located_closeness,
)
from skewscope.engine.model.locality import LocalityIndex
from skewscope.rules.entity_kinds import GROUP_LIKE

SIMULTANEOUS_S = 20.0
"""Beginnings this near to each other are one: rules look through windows of 5 to 20 s."""
BEFORE_END_S, AFTER_END_S = 15.0, 20.0
"""What begins as another ends is its aftermath: so long before its rule has seen that it ended, or so long after."""
SAME_GROUP = 2


def find_coincident(roots: Collection[AttributionCandidate], places: LocalityIndex) -> dict[str, str]:
    """For each root that is a sign of a surer one, that one's id."""
    found: dict[str, str] = {}
    at: dict[str, list[LocatedCandidate]] = {}
    for suspect in sorted(roots, key=_certainty_key):
        here = locate_candidate(suspect, places)
        surer = next((other for other in _surer_nearby(here, at) if _is_same_fault(other, here)), None)
        if surer:
            found[suspect.id] = surer.candidate.id
            continue
        for token in here.tokens:
            at.setdefault(token, []).append(here)
    return found


def _certainty_key(suspect: AttributionCandidate) -> tuple[object, ...]:
    return -suspect.log_odds, suspect.sort_key()


def _surer_nearby(here: LocatedCandidate, at: Mapping[str, list[LocatedCandidate]]) -> Iterator[LocatedCandidate]:
    """The surer ones that share anything with this one, surest first."""
    near = {other.candidate.id: other for token in here.tokens for other in at.get(token, ())}
    yield from sorted(near.values(), key=lambda other: _certainty_key(other.candidate))


def _is_same_fault(surer: LocatedCandidate, other: LocatedCandidate) -> bool:
    a, b = surer.candidate, other.candidate
    return a.condition != b.condition and _is_simultaneous(a, b) and _is_colocated(surer, other)


def _is_simultaneous(a: AttributionCandidate, b: AttributionCandidate) -> bool:
    return abs(a.since - b.since) <= SIMULTANEOUS_S or -BEFORE_END_S <= b.since - a.until <= AFTER_END_S


def _is_colocated(one: LocatedCandidate, other: LocatedCandidate) -> bool:
    """On one node, in one group, in the pool and in it; or a sibling replica's load, which follows its siblings'."""
    if located_closeness(one, other) >= SAME_GROUP or is_contained(one, other):
        return True
    load = other.candidate.entities[0].kind in GROUP_LIKE
    return load and not one.location.pools.isdisjoint(other.location.pools)
