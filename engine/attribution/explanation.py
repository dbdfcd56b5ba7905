"""Decides for every incident whether another one explains it, and in which relation: the only place that does.

The relations, the first that holds:

- `merged`: it is part of another incident of the same condition, which has taken it in (the lifecycle merges them);
- `caused`: the causal graph of the catalogue, laid over the topology, leads from the other one to it (`causes`);
- `lingering`: the incident that explained it has resolved, and its own effect, such as a queue, still clears;
- `coincident`: it began with, or as an aftermath of, a more certain incident in the same place. Two independent faults
  that begin in one place within seconds are far rarer than one fault that triggers the rules of two conditions.

An incident keeps its explanation when it resolves.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

from skewscope.engine.attribution.causes import CauseGraph, attribute_candidates
from skewscope.engine.attribution.locality import (
    AttributionCandidate,
    LocatedCandidate,
    closeness,
    is_contained,
    locate_candidate,
)
from skewscope.engine.incidents.state import IncidentState, IncidentTiming
from skewscope.engine.model.incident import Explanation
from skewscope.engine.model.locality import LocalityIndex
from skewscope.rules.entity_kinds import GROUP_LIKE

SIMULTANEOUS_S = 20.0
"""Incidents that begin within this time are simultaneous: the windows of rules are 5 to 20 s long."""
BEFORE_END_S, AFTER_END_S = 15.0, 20.0
"""An incident that begins this long before or after the end of another one is its aftermath."""
SAME_GROUP = 2
"""Closeness of two members of one group."""


class Explainer:
    """Explains incidents by other incidents."""

    def __init__(self, causes: CauseGraph, locality: LocalityIndex, timing: IncidentTiming) -> None:
        self.causes, self.locality, self.timing = causes, locality, timing

    def explain(
        self, t: float, recent: Collection[IncidentState], states: Mapping[str, IncidentState]
    ) -> dict[str, Explanation | None]:
        """Returns the explanations of recent incidents by id, None for a root; omits those that keep theirs.

        Args:
            t: the end of the tick.
            recent: incidents that are open or have just resolved.
            states: all incidents by id, including those that `recent` names as explanations.
        """
        candidates, settled = self._candidates(t, recent)
        roots = self.find_lingering(t, recent, states)
        roots |= _related("caused", attribute_candidates(candidates, self.causes, self.locality))
        unexplained = [c for c in candidates if c.id not in roots and c.id not in settled]
        roots |= _related("coincident", find_coincident(unexplained, self.locality))
        found: dict[str, Explanation | None] = {}
        for incident in recent:
            if incident.merged_into:
                found[incident.id] = Explanation(incident.merged_into, "merged")
            elif incident.is_open or incident.id in roots or _is_cyclic(incident, roots, states):
                found[incident.id] = roots.get(incident.id)
        return found

    def find_lingering(
        self, t: float, recent: Iterable[IncidentState], states: Mapping[str, IncidentState]
    ) -> dict[str, Explanation]:
        """Returns the open incidents whose root has resolved a short time ago, with that root."""
        found = {}
        for incident in recent:
            explanation = incident.explanation if incident.is_open and not incident.merged_into else None
            root = states.get(explanation.id) if explanation else None
            if root is None or root.resolved_at is None or incident.since > root.resolved_at:
                continue
            if root.resolved_age(t) <= self.timing.linger_s:
                found[incident.id] = Explanation(root.id, "lingering")
        return found

    def _candidates(
        self, t: float, recent: Iterable[IncidentState]
    ) -> tuple[list[AttributionCandidate], frozenset[str]]:
        """Returns the possible causes and effects, and the ids of those that resolved with an explanation."""
        active = [one for one in recent if not one.merged_into and one.resolved_age(t) <= self.timing.explain_s]
        settled = frozenset(one.id for one in active if not one.is_open and one.explanation)
        return [_to_candidate(one) for one in active], settled


def final_explanation(incident: IncidentState, states: Mapping[str, IncidentState]) -> Explanation | None:
    """Returns the root at the end of a chain of explanations, None for a root.

    The relation is that of the first link that is no merge: part of an incident that something causes is caused by it.
    """
    seen = {incident.id}
    link, root, relation = incident.explanation, "", ""
    while link is not None and link.id in states and link.id not in seen:
        seen.add(link.id)
        root, relation = link.id, link.relation if relation in ("", "merged") else relation
        link = states[link.id].explanation
    return Explanation(root, relation) if root else None


def find_coincident(candidates: Collection[AttributionCandidate], locality: LocalityIndex) -> dict[str, str]:
    """Returns for each candidate that is coincident with a more certain one the id of that one."""
    found: dict[str, str] = {}
    at: dict[str, list[LocatedCandidate]] = {}
    for candidate in sorted(candidates, key=_certainty_key):
        here = locate_candidate(candidate, locality)
        surer = next((other for other in _surer_nearby(here, at) if _is_same_fault(other, here)), None)
        if surer:
            found[candidate.id] = surer.candidate.id
            continue
        for token in here.tokens:
            at.setdefault(token, []).append(here)
    return found


def _related(relation: str, roots: Mapping[str, str]) -> dict[str, Explanation]:
    return {id_: Explanation(root, relation) for id_, root in roots.items()}


def _to_candidate(incident: IncidentState) -> AttributionCandidate:
    entities = (incident.primary_entity, *sorted(incident.members - {incident.primary_entity}))
    until = math.inf if incident.resolved_at is None else incident.resolved_at
    score = incident.peak_evidence.score
    return AttributionCandidate(
        incident.id, incident.condition, entities, incident.since, score, incident.log_odds, until
    )


def _is_cyclic(incident: IncidentState, roots: Mapping[str, Explanation], states: Mapping[str, IncidentState]) -> bool:
    """Whether the incident that explained this one is now explained by it."""
    link, seen = incident.explanation, {incident.id}
    while link is not None and link.id in states and link.id not in seen:
        seen.add(link.id)
        link = roots.get(link.id, states[link.id].explanation)
    return link is not None and link.id == incident.id


def _certainty_key(candidate: AttributionCandidate) -> tuple[object, ...]:
    return -candidate.log_odds, candidate.sort_key()


def _surer_nearby(here: LocatedCandidate, at: Mapping[str, list[LocatedCandidate]]) -> Iterator[LocatedCandidate]:
    """Yields the more certain candidates that share a token with this one, most certain first."""
    near = {other.candidate.id: other for token in here.tokens for other in at.get(token, ())}
    yield from sorted(near.values(), key=lambda other: _certainty_key(other.candidate))


def _is_same_fault(surer: LocatedCandidate, other: LocatedCandidate) -> bool:
    a, b = surer.candidate, other.candidate
    return a.condition != b.condition and _is_simultaneous(a, b) and _is_colocated(surer, other)


def _is_simultaneous(a: AttributionCandidate, b: AttributionCandidate) -> bool:
    return abs(a.since - b.since) <= SIMULTANEOUS_S or -BEFORE_END_S <= b.since - a.until <= AFTER_END_S


def _is_colocated(one: LocatedCandidate, other: LocatedCandidate) -> bool:
    """Whether both are on one node, in one group, pool and its replica, or the load of replicas of one pool."""
    if closeness(one, other) >= SAME_GROUP or is_contained(one, other):
        return True
    is_load = other.candidate.entities[0].kind in GROUP_LIKE
    return is_load and not one.location.pools.isdisjoint(other.location.pools)
