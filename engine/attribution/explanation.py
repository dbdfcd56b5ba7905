"""Decides for every incident whether another one explains it, and in which relation: the only place that does.

The relations, the first that holds:

- `merged`: it is part of another incident of the same condition, which has taken it in (`alert_incidents`);
- `caused`: the causal graph of the catalogue, laid over the topology, leads from the other one to it (`cause_graph`);
  or a message that is a sign of another condition was written before, and that one leads to it;
- `lingering`: the incident that explained it has resolved, and its own effect, such as a queue, still clears;
- `coincident`: it began with, or as an aftermath of, a more certain incident in the same place. Two independent faults
  that begin in one place within seconds are far rarer than one fault that triggers the rules of two conditions.

An incident keeps its explanation when it resolves.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.attribution.shared_load import LoadDiagnosis, find_shared_load
from skewscope.engine.incidents.diagnosis import DiagnosisState
from skewscope.engine.incidents.state import CAUSE_BEFORE_S, IncidentState, IncidentTiming, find_root
from skewscope.engine.incidents.symptom import SymptomState
from skewscope.engine.model.incident import Explanation
from skewscope.engine.model.locality import Entity, EntityLocation, LocalityIndex
from skewscope.engine.model.parameters import RESTART_S, TENFOLD
from skewscope.rules.entity_kinds import GROUP_LIKE


@dataclass(frozen=True, slots=True)
class AttributionCandidate:
    """A fault that fires or has just resolved: a possible cause or effect."""

    id: str
    condition: str
    entities: tuple[Entity, ...]
    """The primary entity first."""
    since: float
    score: float
    log_odds: float = 0.0
    """Log-odds of the condition by its own evidence."""
    until: float = math.inf
    """When its evidence ceased."""
    is_of_work: bool = True
    """Whether it is a condition of work, which the load of others may bring about, not of telemetry alone."""

    def sort_key(self) -> tuple[Any, ...]:
        """Sorts the likeliest root first: by earlier start, higher score, names."""
        return self.since, -self.score, self.condition, self.entities, self.id


@dataclass(frozen=True, slots=True)
class LocatedCandidate:
    """A candidate with its location."""

    candidate: AttributionCandidate
    location: EntityLocation
    is_fleet: bool
    near: frozenset[str]
    """Itself, its nodes and groups: who shares one of them with it is a member of its group at least."""

    @property
    def kind(self) -> str:
        """The kind of its primary entity."""
        return self.candidate.entities[0].kind

    @property
    def is_carrying(self) -> bool:
        """Whether a switch or rack carries it: it lies on the path itself, or affects several entities behind it."""
        return len(self.candidate.entities) > 1 or self.kind in ("port", "link", "peer")

    @property
    def whole_pools(self) -> frozenset[str]:
        """The pools that it is of as a whole."""
        return self.location.self_tokens & self.location.pools


def locate_candidate(candidate: AttributionCandidate, locality: LocalityIndex) -> LocatedCandidate:
    """Returns a candidate with its location."""
    location = locality.merged_location(candidate.entities)
    is_fleet = any(entity.kind == "fleet" for entity in candidate.entities)
    near = location.self_tokens | location.nodes | location.groups
    return LocatedCandidate(candidate, location, is_fleet, near)


def closeness(cause: LocatedCandidate, effect: LocatedCandidate) -> int:
    """Returns 4 for the same entity, 3 same node, 2 same group, 1 connected otherwise, 0 not connected."""
    entities, here, there = cause.candidate.entities, cause.location, effect.location
    if entities[0] == effect.candidate.entities[0]:
        return 4
    if not here.nodes.isdisjoint(there.nodes):
        return 3
    if not here.groups.isdisjoint(there.groups):
        return 2
    carried = cause.is_carrying and not here.paths.isdisjoint(there.paths)
    return int(is_contained(cause, effect) or cause.is_fleet or effect.is_fleet or carried)


def is_contained(one: LocatedCandidate, other: LocatedCandidate) -> bool:
    """Whether one is a pool and the other is in it; replicas of a pool do not affect each other."""
    return not one.location.self_tokens.isdisjoint(other.location.pools) or not one.location.pools.isdisjoint(
        other.location.self_tokens
    )


if TYPE_CHECKING:
    from networkx import DiGraph  # 0.2 s to import, and seldom needed

ANY_PLACE, FLEET_PLACE = "any", "fleet"


def attribute_candidates(
    candidates: Collection[AttributionCandidate],
    causes: CauseGraph,
    locality: LocalityIndex,
    before_s: float = CAUSE_BEFORE_S,
) -> dict[str, str]:
    """Returns the id of the root that explains each candidate; roots are omitted.

    An effect may be detected `before_s` seconds before its cause.
    """
    if len({c.condition for c in candidates}) < 2:
        return {}
    located = {c.id: locate_candidate(c, locality) for c in sorted(candidates, key=AttributionCandidate.sort_key)}
    edges = list(_causal_edges(located.values(), causes, before_s))
    return _assign_roots(located, edges) if edges else {}


def _causal_edges(
    located: Collection[LocatedCandidate], causes: CauseGraph, before_s: float
) -> Iterator[tuple[str, str]]:
    """Yields every (cause, effect) that the catalogue, the topology and the times allow."""
    at: dict[tuple[str, str], list[LocatedCandidate]] = {}
    for one in located:
        places = one.near | _within(one.location.pools) | one.location.paths
        for place in (*places, ANY_PLACE, *([FLEET_PLACE] if one.is_fleet else [])):
            at.setdefault((one.candidate.condition, place), []).append(one)
    present = {one.candidate.condition for one in located}
    for cause in located:
        for condition in sorted(causes.effects(cause.candidate.condition) & present):
            to_siblings = causes.reaches_siblings(cause.candidate.condition, condition)
            reached = _list_reached(cause, to_siblings=to_siblings)
            near = {effect.candidate.id: effect for place in reached for effect in at.get((condition, place), ())}
            for effect in near.values():
                early = effect.candidate.since < cause.candidate.since - before_s
                if not early and (closeness(cause, effect) or _reaches_sibling(cause, effect, causes)):
                    yield cause.candidate.id, effect.candidate.id


def _list_reached(cause: LocatedCandidate, *, to_siblings: bool) -> Iterator[str]:
    """Yields where the effects of a cause may be; siblings are what is in the same pools."""
    location = cause.location
    yield from cause.near | location.pools
    yield from _within(location.pools if to_siblings else cause.whole_pools)
    yield from location.paths if cause.is_carrying else ()
    yield ANY_PLACE if cause.is_fleet else FLEET_PLACE


def _within(pools: Iterable[str]) -> frozenset[str]:
    """Returns the places of whatever is in some pools, apart from those of the pools as a whole."""
    return frozenset(f"within {pool}" for pool in pools)


def _reaches_sibling(cause: LocatedCandidate, effect: LocatedCandidate, causes: CauseGraph) -> bool:
    reaches = causes.reaches_siblings(cause.candidate.condition, effect.candidate.condition)
    return reaches and not cause.location.pools.isdisjoint(effect.location.pools)


def _assign_roots(located: Mapping[str, LocatedCandidate], edges: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Returns for each candidate that is no root the closest root that reaches it."""
    import networkx as nx  # noqa: PLC0415  0.2 s to import, and seldom needed

    graph: DiGraph[str] = nx.DiGraph()
    graph.add_edges_from(edges)
    components = nx.condensation(graph)
    roots: dict[str, list[LocatedCandidate]] = {}
    for component in components:
        if components.in_degree(component) == 0:
            members = (located[i] for i in components.nodes[component]["members"])
            root = min(members, key=lambda one: one.candidate.sort_key())
            for reached in nx.descendants(graph, root.candidate.id):
                roots.setdefault(reached, []).append(root)
    return {
        i: min(found, key=lambda r: (-closeness(r, located[i]), r.candidate.sort_key())).candidate.id
        for i, found in sorted(roots.items())
    }


SIMULTANEOUS_S = 20.0
"""Incidents that begin within this time are simultaneous: the windows of rules are 5 to 20 s long."""
BEFORE_END_S, AFTER_END_S = 15.0, 20.0
"""An incident that begins this long before or after the end of another one is its aftermath."""
COLD_START = "weights-cold-start"
"""What new replicas of a pool go through; its effects show while a pool changes."""
LIKELY = 0.3
"""Probability from which on what a message is a sign of may explain a diagnosis (judgement: one of three)."""


class Explainer:
    """Explains incidents by other incidents."""

    def __init__(self, causes: CauseGraph, locality: LocalityIndex, timing: IncidentTiming) -> None:
        self.causes, self.locality, self.timing = causes, locality, timing
        self.explain_s = timing.explain_s
        """Seconds for which a resolved root explains; no shorter than the windows of the rules of its effects."""

    def explain(
        self,
        t: float,
        recent: Collection[DiagnosisState],
        states: Mapping[str, IncidentState],
        messages: Collection[SymptomState] = (),
        changes: Collection[SymptomState] = (),
    ) -> dict[str, Explanation | None]:
        """Returns the explanations of recent incidents by id, None for a root; omits those that keep theirs.

        Args:
            t: the end of the tick.
            recent: incidents that are open or have just resolved.
            states: all incidents by id, including those that `recent` names as explanations.
            messages: symptoms that began with a message, and that nothing explains.
            changes: pools that gain or lose replicas.
        """
        candidates, settled = self._candidates(t, recent)
        roots = {one.id: Explanation(one.merged_into, "merged") for one in recent if one.merged_into}
        roots |= self.find_lingering(t, recent, states)
        caused = attribute_candidates(candidates, self.causes, self.locality, max(CAUSE_BEFORE_S, self.late_s))
        roots |= _related("caused", caused)
        left = [one for one in recent if one.is_open and one.id not in roots]
        roots |= _related("caused", self._find_announced(left, messages) if messages else {})
        roots |= _related("coincident", self._find_passing(left, changes) if changes else {})
        for id_, first in find_shared_load(self._list_load(recent), self.locality).items():
            if id_ not in roots and not _leads_to(first, id_, roots):
                roots[id_] = Explanation(first, "coincident")
        unexplained = [c for c in candidates if c.id not in roots and c.id not in settled]
        roots |= _related("coincident", find_coincident(unexplained, self.locality, self.late_s))
        return {
            one.id: roots.get(one.id)
            for one in recent
            if one.is_open or one.id in roots or _is_cyclic(one, roots, states)
        }

    def _find_announced(
        self, diagnoses: Collection[DiagnosisState], messages: Collection[SymptomState]
    ) -> Mapping[str, str]:
        """Returns by diagnosis the first message before it, at its place, of what brings such a condition about."""
        at: dict[str, list[DiagnosisState]] = {}
        for one in diagnoses:
            for place in self._locate(one).near:
                at.setdefault(place, []).append(one)
        found: dict[str, str] = {}
        for message in sorted(messages, key=lambda each: (each.since, each.id)):
            signs = [name for name, share in message.posterior.probabilities.items() if share >= LIKELY]
            effects = {effect for sign in signs for effect in self.causes.effects(sign)}.difference(signs)
            for one in (one for place in self._locate(message).near for one in at.get(place, ())):
                if one.condition in effects and message.since <= one.since:
                    found.setdefault(one.id, message.id)
        return found

    def _find_passing(
        self, diagnoses: Collection[DiagnosisState], changes: Collection[SymptomState]
    ) -> Mapping[str, str]:
        """Returns by diagnosis the change of its pool that brings such a condition about until it is over.

        What begins once the last replica that came has warmed up is no effect of it.
        """
        effects = self.causes.passing_effects(COLD_START)
        by_pool: dict[str, list[DiagnosisState]] = {}
        for one in (one for one in diagnoses if one.condition in effects):
            for pool in self._locate(one).location.pools:
                by_pool.setdefault(pool, []).append(one)
        found: dict[str, str] = {}
        for change in changes:
            latest = max(finding.since for finding in change.findings.values())
            for one in (one for pool in self._locate(change).whole_pools for one in by_pool.get(pool, ())):
                begins_with_it = -self.explain_s <= one.since - latest <= RESTART_S + self.explain_s
                if begins_with_it or (one.explanation and one.explanation.id == change.id):
                    found[one.id] = change.id
        return found

    def _list_load(self, recent: Iterable[DiagnosisState]) -> Iterator[LoadDiagnosis]:
        """Yields the open diagnoses of what load brings about."""
        for one in recent:
            if one.is_open and not one.merged_into and self.causes.is_of_load(one.condition):
                link = one.explanation
                lingers = link is not None and link.relation == "lingering"
                yield LoadDiagnosis(
                    one.opened_at, one.id, one.condition, one.primary_entity, is_root=link is None, lingers=lingers
                )

    def _locate(self, one: IncidentState) -> LocatedCandidate:
        candidate = AttributionCandidate(one.id, one.condition, _entities_of(one), one.since, 0.0)
        return locate_candidate(candidate, self.locality)

    @property
    def late_s(self) -> float:
        """Seconds by which a root may be seen after its effect, and what it left after its end.

        Where samples are further apart than windows, rules are that much later than others.
        """
        return self.explain_s if self.explain_s > self.timing.explain_s else 0.0

    def linger_s(self, root: IncidentState) -> float:
        """Returns for how many seconds a root that resolves keeps what it explains.

        A backlog drains in twice the time in which it grew where two thirds of the capacity are used (judgement).
        """
        return max(self.timing.linger_s, 2.0 * _duration(root))

    def drain_s(self, root: IncidentState) -> float:
        """Returns for how many seconds a root that resolves keeps a backlog that does not grow any more.

        It has drained by then where nine tenths of the capacity are used (judgement).
        """
        return max(self.timing.linger_s, TENFOLD * _duration(root))

    def _lingers(self, t: float, incident: DiagnosisState, root: IncidentState) -> bool:
        """Whether an incident may still be what its resolved root has left.

        What grows on another engine once the root is over is no effect of it.
        """
        assert root.resolved_at is not None
        grows = incident.peak_evidence.t > root.resolved_at + self.explain_s
        if grows and _are_siblings(incident.primary_entity, root.primary_entity):
            return False
        drains = self.causes.is_of_load(incident.condition) and not grows
        return root.resolved_age(t) <= (self.drain_s(root) if drains else self.linger_s(root))

    def find_lingering(
        self, t: float, recent: Iterable[DiagnosisState], states: Mapping[str, IncidentState]
    ) -> dict[str, Explanation]:
        """Returns the open incidents whose root has resolved a short time ago, with that root.

        It is the root of all: what lies between the two may pass sooner, even while the root is open.
        """
        found = {}
        for incident in recent:
            if incident.explanation is None or incident.resolved_at is not None or incident.merged_into:
                continue
            root, direct = find_root(incident, states), states.get(incident.explanation.id)
            is_over = incident.explanation.relation == "lingering" or (direct is not None and not direct.is_open)
            if root is not None and root.is_open and is_over:
                found[incident.id] = Explanation(root.id, "lingering")
                continue
            if root is None or root.resolved_at is None or incident.since > root.resolved_at + self.late_s:
                continue
            if _is_part_of(root, incident, states):
                continue
            if self._lingers(t, incident, root):
                found[incident.id] = Explanation(root.id, "lingering")
        return found

    def _candidates(
        self, t: float, recent: Iterable[DiagnosisState]
    ) -> tuple[list[AttributionCandidate], frozenset[str]]:
        """Returns the possible causes and effects, and the ids of those that resolved with an explanation."""
        active = [one for one in recent if not one.merged_into and one.resolved_age(t) <= self.explain_s]
        settled = frozenset(one.id for one in active if not one.is_open and one.explanation)
        return [_to_candidate(one, self.causes) for one in active], settled


CandidatesByTime = dict[tuple[float, float], AttributionCandidate]
"""The most certain candidate at a place by begin and end: others of the same times explain nothing that it does not."""


def find_coincident(
    candidates: Collection[AttributionCandidate], locality: LocalityIndex, late_s: float = 0.0
) -> dict[str, str]:
    """Returns for each candidate that is coincident with a more certain one the id of that one.

    Rules may be `late_s` seconds later than others.
    """
    if len({candidate.condition for candidate in candidates}) < 2:
        return {}
    found: dict[str, str] = {}
    at: dict[str, dict[str, CandidatesByTime]] = {}
    for candidate in sorted(candidates, key=_certainty_key):
        here = locate_candidate(candidate, locality)
        surer = (other for other in _surer_nearby(here, at) if _is_simultaneous(other, candidate, late_s))
        if first := min(surer, key=_certainty_key, default=None):
            found[candidate.id] = first.id
            continue
        for place in here.near | _within(here.location.pools):
            by_time = at.setdefault(place, {}).setdefault(candidate.condition, {})
            by_time.setdefault((candidate.since, candidate.until), candidate)
    return found | _find_aftermaths([one for one in candidates if one.id not in found], late_s)


def _find_aftermaths(roots: Iterable[AttributionCandidate], late_s: float) -> dict[str, str]:
    """Returns for each root that began as another one ended on the same entity the first such one, however sure it is.

    What works again has a backlog, and shows what a slow or a full one does.
    """
    found: dict[str, str] = {}
    on: dict[Entity, list[AttributionCandidate]] = {}
    for one in sorted(roots, key=AttributionCandidate.sort_key):
        before = on.setdefault(one.entities[0], [])
        others = (each for each in before if each.condition != one.condition)
        first = next((each for each in others if _is_aftermath(each, one, late_s)), None)
        if first is None:
            before.append(one)
        else:
            found[one.id] = first.id
    return found


def _leads_to(id_: str, other: str, roots: Mapping[str, Explanation]) -> bool:
    """Whether an incident is explained by another one, by any number of steps."""
    seen: set[str] = set()
    while id_ in roots and id_ not in seen:
        seen.add(id_)
        id_ = roots[id_].id
        if id_ == other:
            return True
    return False


def _duration(root: IncidentState) -> float:
    return 0.0 if root.resolved_at is None else root.resolved_at - root.opened_at


def _related(relation: str, roots: Mapping[str, str]) -> dict[str, Explanation]:
    return {id_: Explanation(root, relation) for id_, root in roots.items()}


def _entities_of(incident: IncidentState) -> tuple[Entity, ...]:
    return incident.primary_entity, *sorted(incident.members - {incident.primary_entity})


def _to_candidate(incident: DiagnosisState, causes: CauseGraph) -> AttributionCandidate:
    entities = _entities_of(incident)
    until = min(incident.cleared_at, math.inf if incident.resolved_at is None else incident.resolved_at)
    score = incident.peak_evidence.score
    is_of_work = not causes.is_of_telemetry(incident.condition)
    return AttributionCandidate(
        *(incident.id, incident.condition, entities, incident.since, score, incident.log_odds, until, is_of_work)
    )


def _is_cyclic(incident: DiagnosisState, roots: Mapping[str, Explanation], states: Mapping[str, IncidentState]) -> bool:
    """Whether the incident that explained this one is now explained by it."""
    link, seen = incident.explanation, {incident.id}
    while link is not None and link.id in states and link.id not in seen:
        seen.add(link.id)
        link = roots.get(link.id, states[link.id].explanation)
    return link is not None and link.id == incident.id


def _is_part_of(one: IncidentState, other: IncidentState, states: Mapping[str, IncidentState]) -> bool:
    """Whether an incident was merged into another one, by any number of steps."""
    seen: set[str] = set()
    while one.merged_into in states and one.id not in seen:
        seen.add(one.id)
        one = states[one.merged_into]
    return bool(seen) and one.id == other.id


def _certainty_key(candidate: AttributionCandidate) -> tuple[object, ...]:
    return -candidate.log_odds, candidate.sort_key()


def _surer_nearby(
    here: LocatedCandidate, at: Mapping[str, Mapping[str, CandidatesByTime]]
) -> Iterator[AttributionCandidate]:
    """Yields the more certain candidates of other conditions that may be the same fault by their place.

    They are on one node, in one group, a pool and its replica, or the load of replicas of one pool.
    """
    is_load = here.kind in GROUP_LIKE and here.candidate.is_of_work
    pools = here.location.pools if is_load else here.whole_pools
    for place in here.near | here.location.pools | _within(pools):
        for condition, by_time in at.get(place, {}).items():
            if condition != here.candidate.condition:
                yield from by_time.values()


def _is_simultaneous(a: AttributionCandidate, b: AttributionCandidate, late_s: float) -> bool:
    if abs(a.since - b.since) <= max(SIMULTANEOUS_S, late_s):
        return True
    return not _are_siblings(a.entities[0], b.entities[0]) and _is_aftermath(a, b, late_s)


def _are_siblings(one: Entity, other: Entity) -> bool:
    """Whether two are engines of their own: what ends on one leaves nothing that begins on the other."""
    return one.name != other.name and {one.kind, other.kind} <= {*GROUP_LIKE}


def _is_aftermath(ended: AttributionCandidate, other: AttributionCandidate, late_s: float) -> bool:
    """Whether a candidate began as another one ended."""
    return -max(BEFORE_END_S, late_s) <= other.since - ended.until <= max(AFTER_END_S, late_s)
