"""What begins together in one place is one fault with several signs, and not several faults.

Two independent faults that begin in one place within seconds are far rarer than a fault that also stirs a rule for
another one: hosts of large clusters fail once in months. So of the roots that the causal graph leaves, those that
begin (or begin as the other ends: an aftermath) at about the same time in the same place are one incident. The surest
is its root; the others are told under it and compete with it.
"""

from collections.abc import Collection, Iterator, Mapping

from skewscope.engine.nearness import Stand, Suspect, contained, nearness, stand_of
from skewscope.engine.places import Places
from skewscope.rules.kinds import GROUP_LIKE

TOGETHER_S = 20.0
"""Beginnings this near to each other are one: rules look through windows of 5 to 20 s."""
BEFORE_END_S, AFTER_S = 15.0, 20.0
"""What begins as another ends is its aftermath: so long before its rule has seen that it ended, or so long after."""
SAME_GROUP = 2


def coincide(roots: Collection[Suspect], places: Places) -> dict[str, str]:
    """For each root that is a sign of a surer one, that one's id."""
    found: dict[str, str] = {}
    at: dict[str, list[Stand]] = {}
    for suspect in sorted(roots, key=_surest_first):
        here = stand_of(suspect, places)
        surer = next((other for other in _beside(here, at) if _one(other, here)), None)
        if surer:
            found[suspect.id] = surer.suspect.id
            continue
        for token in here.tokens:
            at.setdefault(token, []).append(here)
    return found


def _surest_first(suspect: Suspect) -> tuple[object, ...]:
    return -suspect.sure, suspect.order()


def _beside(here: Stand, at: Mapping[str, list[Stand]]) -> Iterator[Stand]:
    """The surer ones that share anything with this one, surest first."""
    near = {other.suspect.id: other for token in here.tokens for other in at.get(token, ())}
    yield from sorted(near.values(), key=lambda other: _surest_first(other.suspect))


def _one(surer: Stand, other: Stand) -> bool:
    a, b = surer.suspect, other.suspect
    return a.condition != b.condition and _together(a, b) and _in_one_place(surer, other)


def _together(a: Suspect, b: Suspect) -> bool:
    return abs(a.since - b.since) <= TOGETHER_S or -BEFORE_END_S <= b.since - a.until <= AFTER_S


def _in_one_place(one: Stand, other: Stand) -> bool:
    """On one node, in one group, in the pool and in it; or a sibling replica's load, which follows its siblings'."""
    if nearness(one, other) >= SAME_GROUP or contained(one, other):
        return True
    load = other.suspect.entities[0].kind in GROUP_LIKE
    return load and not one.place.pools.isdisjoint(other.place.pools)
