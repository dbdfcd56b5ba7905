"""Decides for every incident whether another one explains it, and in which relation: the only place that does.

The relations, the first that holds:

- `merged`: it is part of another incident of the same condition, which has taken it in (the lifecycle merges them);
- `caused`: the causal graph of the catalogue, laid over the topology, leads from the other one to it (`causes`);
- `lingering`: the incident that explained it has resolved, and its own effect, such as a queue, still clears;
- `coincident`: it began with, or as an aftermath of, a more certain incident in the same place. Two independent faults
  that begin in one place within seconds are far rarer than one fault that triggers the rules of two conditions.

An incident keeps its explanation when it resolves.

The alternatives of an incident that none explains are look-alikes, incidents nearby and conditions that nobody could
judge.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.incidents.alerts import (
    GAIN,
    PRIOR,
    AlertTracker,
    EvidenceSpec,
    RuleInfo,
    evidence_log_odds_array,
    probability,
)
from skewscope.engine.incidents.state import IncidentState, IncidentTiming
from skewscope.engine.model.arrays import Index, sort_unique
from skewscope.engine.model.incident import Explanation
from skewscope.engine.model.locality import NODE_BOUND, Entity, EntityLocation, LocalityIndex, NeighbourIndex
from skewscope.engine.model.verdict import UNKNOWN, YES, RuleVerdict
from skewscope.kb.model import Catalogue, CausalLink
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
    """When it resolved."""

    def sort_key(self) -> tuple[Any, ...]:
        """Sorts the likeliest root first: by earlier start, higher score, names."""
        return self.since, -self.score, self.condition, self.entities, self.id


@dataclass(frozen=True, slots=True)
class LocatedCandidate:
    """A candidate with its location."""

    candidate: AttributionCandidate
    location: EntityLocation
    is_fleet: bool
    tokens: frozenset[str]
    """Everything that it lies on or belongs to."""


def locate_candidate(candidate: AttributionCandidate, locality: LocalityIndex) -> LocatedCandidate:
    """Returns a candidate with its location."""
    location = locality.merged_location(candidate.entities)
    is_fleet = any(entity.kind == "fleet" for entity in candidate.entities)
    tokens = location.self_tokens | location.nodes | location.domains | location.pools
    return LocatedCandidate(candidate, location, is_fleet, tokens)


def closeness(cause: LocatedCandidate, effect: LocatedCandidate) -> int:
    """Returns 4 for the same entity, 3 same node, 2 same group, 1 connected otherwise, 0 not connected."""
    entities, here, there = cause.candidate.entities, cause.location, effect.location
    if entities[0] == effect.candidate.entities[0]:
        return 4
    if not here.nodes.isdisjoint(there.nodes):
        return 3
    if not here.groups.isdisjoint(there.groups):
        return 2
    # A switch or rack carries a fault that lies on the path itself, or that affects several entities behind it.
    carrying = len(entities) > 1 or entities[0].kind in ("port", "link", "peer")
    carried = carrying and not here.paths.isdisjoint(there.paths)
    return int(is_contained(cause, effect) or cause.is_fleet or effect.is_fleet or carried)


def is_contained(one: LocatedCandidate, other: LocatedCandidate) -> bool:
    """Whether one is a pool and the other is in it; replicas of a pool do not affect each other."""
    return not one.location.self_tokens.isdisjoint(other.location.pools) or not one.location.pools.isdisjoint(
        other.location.self_tokens
    )


if TYPE_CHECKING:
    from networkx import DiGraph  # 0.2 s to import, and seldom needed

CAUSE_BEFORE_S = 10.0
"""An effect may be detected this long before its cause: their rules have different windows."""
ANY_TOKEN, FLEET_TOKEN = "any", "fleet"
MAX_CAUSAL_STEPS = 3
"""Links of the causal graph from one observed condition to another."""


class CauseGraph:
    """The causal graph of the catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._effects_of: dict[str, set[str]] = {}
        self._sibling_links: set[tuple[str, str]] = set()
        for condition in catalogue.conditions.values():
            for link in condition.effects:
                self._add(condition.id, link.condition, link)
            for link in condition.causes:
                self._add(link.condition, condition.id, link)
        self._reachable: dict[str, frozenset[str]] = {}
        self._direct_causes: dict[str, frozenset[str]] = {}

    def _add(self, cause: str, effect: str, link: CausalLink) -> None:
        self._effects_of.setdefault(cause, set()).add(effect)
        if link.siblings:
            self._sibling_links.add((cause, effect))

    def effects(self, condition: str) -> frozenset[str]:
        """Returns the effects of a condition, direct ones and those through conditions that were not observed."""
        if condition not in self._reachable:
            found: set[str] = set()
            frontier = {condition}
            for _ in range(MAX_CAUSAL_STEPS):
                frontier = {e for c in frontier for e in self._effects_of.get(c, ())} - found
                found |= frontier
            self._reachable[condition] = frozenset(found - {condition})
        return self._reachable[condition]

    def reaches_siblings(self, cause: str, effect: str) -> bool:
        """Whether a cause on one replica of a pool has this effect on the other replicas."""
        return (cause, effect) in self._sibling_links

    def direct_causes(self, condition: str) -> frozenset[str]:
        """Returns the direct causes of a condition."""
        if condition not in self._direct_causes:
            self._direct_causes[condition] = frozenset(
                cause for cause, effects in self._effects_of.items() if condition in effects
            )
        return self._direct_causes[condition]


def attribute_candidates(
    candidates: Collection[AttributionCandidate], causes: CauseGraph, locality: LocalityIndex
) -> dict[str, str]:
    """Returns the id of the root that explains each candidate; roots are omitted."""
    if len({c.condition for c in candidates}) < 2:
        return {}
    located = {c.id: locate_candidate(c, locality) for c in sorted(candidates, key=AttributionCandidate.sort_key)}
    edges = list(_causal_edges(located.values(), causes))
    return _assign_roots(located, edges) if edges else {}


def _causal_edges(located: Collection[LocatedCandidate], causes: CauseGraph) -> Iterator[tuple[str, str]]:
    """Yields every (cause, effect) that the catalogue, the topology and the times allow."""
    at: dict[tuple[str, str], list[LocatedCandidate]] = {}
    for one in located:
        for token in (*one.tokens, ANY_TOKEN, *([FLEET_TOKEN] if one.is_fleet else [])):
            at.setdefault((one.candidate.condition, token), []).append(one)
    present = {one.candidate.condition for one in located}
    for cause in located:
        tokens = (*cause.tokens, ANY_TOKEN if cause.is_fleet else FLEET_TOKEN)
        effects = sorted(causes.effects(cause.candidate.condition) & present)
        near = {e.candidate.id: e for c in effects for t in tokens for e in at.get((c, t), ())}
        for effect in near.values():
            early = effect.candidate.since < cause.candidate.since - CAUSE_BEFORE_S
            if not early and (closeness(cause, effect) or _reaches_sibling(cause, effect, causes)):
                yield cause.candidate.id, effect.candidate.id


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
            explanation = incident.explanation
            if explanation is None or incident.resolved_at is not None or incident.merged_into:
                continue
            root = states.get(explanation.id)
            if root is None or root.resolved_at is None or incident.since > root.resolved_at:
                continue
            if _is_part_of(root, incident, states):
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
    if len({candidate.condition for candidate in candidates}) < 2:
        return {}
    found: dict[str, str] = {}
    at: dict[str, dict[str, list[LocatedCandidate]]] = {}
    for candidate in sorted(candidates, key=_certainty_key):
        here = locate_candidate(candidate, locality)
        surer = next((other for other in _surer_nearby(here, at) if _is_same_fault(other, here)), None)
        if surer:
            found[candidate.id] = surer.candidate.id
            continue
        for token in here.tokens:
            at.setdefault(token, {}).setdefault(candidate.condition, []).append(here)
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
    here: LocatedCandidate, at: Mapping[str, Mapping[str, list[LocatedCandidate]]]
) -> Iterator[LocatedCandidate]:
    """Yields the more certain candidates of other conditions that share a token with this one, most certain first."""
    by_condition = [at[token].items() for token in here.tokens if token in at]
    others = [some for each in by_condition for condition, some in each if condition != here.candidate.condition]
    near = {other.candidate.id: other for some in others for other in some}
    yield from sorted(near.values(), key=lambda other: _certainty_key(other.candidate))


def _is_same_fault(surer: LocatedCandidate, other: LocatedCandidate) -> bool:
    a, b = surer.candidate, other.candidate
    return _is_simultaneous(a, b) and _is_colocated(surer, other)


def _is_simultaneous(a: AttributionCandidate, b: AttributionCandidate) -> bool:
    return abs(a.since - b.since) <= SIMULTANEOUS_S or -BEFORE_END_S <= b.since - a.until <= AFTER_END_S


def _is_colocated(one: LocatedCandidate, other: LocatedCandidate) -> bool:
    """Whether both are on one node, in one group, pool and its replica, or the load of replicas of one pool."""
    if closeness(one, other) >= SAME_GROUP or is_contained(one, other):
        return True
    is_load = other.candidate.entities[0].kind in GROUP_LIKE
    return is_load and not one.location.pools.isdisjoint(other.location.pools)


NO_EVIDENCE_LOG_ODDS = PRIOR - GAIN / 2
"""Log-odds of a condition whose rules are known nearby and whose items are all no."""
COMPARISON_INTERVAL_S = 5.0
"""Seconds for which a comparison is valid, even if the evidence grows."""
MAX_LOCATIONS = 16
"""Maximum number of other locations per candidate."""
PATH_KINDS = frozenset({"port", "link", "peer"})
"""Kinds of entities that show effects of faults elsewhere on their paths."""
NearbyVerdict = tuple[RuleInfo, RuleVerdict, Index]
"""A rule, its verdict of this tick, and the indices of the entities nearby."""
EntityLogOdds = tuple[Index, NDArray[np.float64]]
"""Sorted indices of entities of a rule, and `[entity]` float64 log-odds of its condition on each."""


def count_judgeable(neighbours: NeighbourIndex, verdicts: Iterable[RuleVerdict], domain: str, kind: str) -> int:
    """Returns on how many nodes of a group, switch or rack at least one of the verdicts is known.

    Counts as `LocalityIndex.domain_size`, which is returned for the GPUs of a node and for groups.
    """
    whole = neighbours.locality.domain_size(domain, kind)
    rules = [verdict for verdict in verdicts if verdict.kind == kind]
    has_unknown = rules and all((verdict.state == UNKNOWN).any() for verdict in rules)
    if kind not in NODE_BOUND or domain.startswith("node:") or not has_unknown:
        return whole
    known: set[str] = set()
    for verdict in rules:
        index = neighbours.index_of(verdict.kind, verdict.names)
        nodes = neighbours.locality.nodes_in(domain)
        known |= {node for node in nodes if (verdict.state[list(index.get(node, ()))] != UNKNOWN).any()}
    return min(whole, len(known))


class AlternativeFinder:
    """Compares incidents with their alternatives."""

    def __init__(
        self, catalogue: Catalogue, causes: CauseGraph, neighbours: NeighbourIndex, alerts: AlertTracker
    ) -> None:
        self.catalogue, self.cause_graph, self.alerts = catalogue, causes, alerts
        self.locality, self._neighbours = neighbours.locality, neighbours
        self._separating_tests: dict[str, dict[str, str]] = {}

    def compare(self, t: float, incidents: Sequence[IncidentState]) -> None:
        """Set the alternatives and candidates of incidents, by the verdicts of this tick.

        Alternatives are look-alikes, with their probability by their own rules. Candidates are look-alikes and causes
        whose rules lack telemetry here.
        """
        nearby = [self._lookalikes_near(incident) for incident in incidents]
        compared = [
            near[condition]
            for incident, near in zip(incidents, nearby, strict=True)
            for condition in self._separating_tests[incident.condition]
        ]
        odds = _log_odds_by_rule(entry for entries in compared for entry in entries)
        for incident, near in zip(incidents, nearby, strict=True):
            tests = self._separating_tests[incident.condition]
            found = {condition: (_best_probability(near[condition], odds), test) for condition, test in tests.items()}
            incident.alternatives = {**incident.alternatives, **found}
            self._set_candidates(incident, near)
            incident.comparison_count += 1
            incident.compared_at, incident.needs_comparison = t, incident.comparison_count == 1

    def _set_candidates(self, incident: IncidentState, near: Mapping[str, Sequence[NearbyVerdict]]) -> None:
        unjudged = self._candidates(incident, near)
        locations = {
            name: found for name, entries in unjudged.items() if (found := self._unknown_locations(incident, entries))
        }
        names: Iterable[str] = unjudged
        if incident.comparison_count == 1:
            # Other effects of a cause may appear later than the first: a new incident is compared a second time, and
            # the candidates of the first comparison remain.
            names = [*incident.candidates, *unjudged]
            locations = {**dict(incident.candidate_locations), **locations}
        incident.candidates = tuple(dict.fromkeys(names))
        incident.candidate_locations = tuple(locations.items())

    def _find_separating_tests(self, condition: str) -> dict[str, str]:
        """Returns the look-alikes of a condition with the separating test, from either entry of the catalogue."""
        conditions = self.catalogue.conditions
        tests = {
            id_: look.separate_by
            for id_, other in sorted(conditions.items())
            for look in other.lookalikes
            if look.condition == condition
        }
        known = conditions.get(condition)
        return tests | {look.condition: look.separate_by for look in (known.lookalikes if known else ())}

    def _candidates(
        self, incident: IncidentState, near: Mapping[str, Sequence[NearbyVerdict]]
    ) -> dict[str, Sequence[NearbyVerdict]]:
        """Returns the look-alikes and causes that cannot be judged nearby, and causes of those, the closest first."""
        found: dict[str, Sequence[NearbyVerdict]] = {}
        frontier = (
            self._verdicts_near(incident, near, wide=True)
            if incident.primary_entity.kind in (*PATH_KINDS, *GROUP_LIKE)
            else near
        )
        for _ in range(MAX_CAUSAL_STEPS):
            unjudged = {name: entries for name, entries in sorted(frontier.items()) if not self._is_judgeable(entries)}
            found |= unjudged
            causes = {cause for name in unjudged for cause in self.cause_graph.direct_causes(name)} - {
                *near,
                *found,
                incident.condition,
            }
            frontier = self._verdicts_near(incident, causes)
        return found

    def _is_judgeable(self, near: Sequence[NearbyVerdict]) -> bool:
        """Whether some rule judges the condition on all entities nearby, or there is no rule to lack telemetry."""
        unknown = [self.alerts.unknown_mask(verdict, at) for _, verdict, at in near if len(at)]
        return not unknown or not all(mask.any() for mask in unknown)

    def _unknown_locations(self, incident: IncidentState, near: Sequence[NearbyVerdict]) -> tuple[str, ...]:
        """Returns the names of the unjudged entities nearby, the incident's own first; () if it is the only one."""
        unknown = [
            Entity(v.kind, v.names[i]) for _, v, at in near for i in at[self.alerts.unknown_mask(v, at)].tolist()
        ]
        apart = [one for one in unknown if self._are_apart(incident.primary_entity, one)]
        names = sorted({self.locality.display_name(one)[1] for one in apart})[:MAX_LOCATIONS]
        here = [self.locality.display_name(incident.primary_entity)[1]] if len(apart) < len(unknown) else []
        return (*here, *names) if names else ()

    def _are_apart(self, one: Entity, other: Entity) -> bool:
        """Whether two share no node; groups and pools, if they share none and neither contains the other."""
        a, b = self.locality.location_of(one), self.locality.location_of(other)
        if {one.kind, other.kind} <= {*NODE_BOUND}:
            return (a.self_tokens | a.nodes).isdisjoint(b.self_tokens | b.nodes)
        inside = not (a.self_tokens.isdisjoint(b.pools) and b.self_tokens.isdisjoint(a.pools))
        return not inside and self._neighbours.tokens(one).isdisjoint(self._neighbours.tokens(other))

    def _lookalikes_near(self, incident: IncidentState) -> dict[str, list[NearbyVerdict]]:
        """Returns the verdicts near an incident for each look-alike and direct cause."""
        condition = incident.condition
        if condition not in self._separating_tests:
            self._separating_tests[condition] = self._find_separating_tests(condition)
        conditions = self._separating_tests[condition].keys() | self.cause_graph.direct_causes(condition)
        return self._verdicts_near(incident, conditions)

    def _verdicts_near(
        self, incident: IncidentState, conditions: Iterable[str], *, wide: bool = False
    ) -> dict[str, list[NearbyVerdict]]:
        """Returns by condition the verdicts of its rules, with the entities at or next to the incident.

        Two entities that lie on nodes must share a node: a late member does not make the link of another one faulty.
        A `wide` search includes other ports of the group, because they may lie on the same paths, and other replicas
        of the pool if the catalogue says that the condition reaches them.
        """
        entity = incident.primary_entity
        location, tokens = self.locality.location_of(entity), self._neighbours.tokens(entity)
        known: dict[tuple[str, int, bool], Index] = {}
        found: dict[str, list[NearbyVerdict]] = {name: [] for name in conditions}
        for name, entries in found.items():
            for info, verdict in self.alerts.verdicts_of(name):
                siblings = wide and {entity.kind, verdict.kind} <= {*GROUP_LIKE}
                siblings = siblings and self.cause_graph.reaches_siblings(name, incident.condition)
                key = verdict.kind, id(verdict.names), siblings
                if key not in known:
                    same_node = entity.kind in NODE_BOUND and verdict.kind in NODE_BOUND
                    same_node = same_node and not (wide and verdict.kind in PATH_KINDS)
                    near = location.self_tokens | location.nodes if same_node else tokens | location.pools
                    if siblings:
                        near |= self.locality.replicas_of(location.pools)
                    known[key] = self._neighbours.find_near(verdict.kind, verdict.names, near)
                entries.append((info, verdict, known[key]))
        return found

    def weigh(self, roots: Sequence[IncidentState]) -> None:
        """Set the probability of the likeliest other root in the same place, which lowers the confidence."""
        if len({incident.condition for incident in roots}) < 2:
            return
        at: dict[str, dict[str, list[IncidentState]]] = {}
        for incident in roots:
            for token in self._neighbours.tokens(incident.primary_entity):
                at.setdefault(token, {}).setdefault(incident.condition, []).append(incident)
        for incident in roots:
            by_condition = [at[token].items() for token in self._neighbours.tokens(incident.primary_entity)]
            others = [some for each in by_condition for condition, some in each if condition != incident.condition]
            for _, other in sorted({other.id: other for some in others for other in some}.items()):
                _add_alternative(incident, other)


def _add_alternative(incident: IncidentState, other: IncidentState) -> None:
    p = probability(other.log_odds)
    before, test = incident.alternatives.get(other.condition, (0.0, ""))
    if p > before or not test:
        found = max(before, p), test or _separating_measurement(incident, other)
        incident.alternatives = {**incident.alternatives, other.condition: found}
    incident.alternative_probability = max(incident.alternative_probability, p)


def _log_odds_by_rule(near: Iterable[NearbyVerdict]) -> dict[str, EntityLogOdds]:
    """Returns by rule the log-odds of its condition on all entities near any incident; evaluates each rule once."""
    by_rule: dict[str, list[NearbyVerdict]] = {}
    for entry in near:
        by_rule.setdefault(entry[0].rule, []).append(entry)
    found = {}
    for rule, entries in by_rule.items():
        info, verdict, _ = entries[0]
        at = sort_unique(np.concatenate([indices for _, _, indices in entries]))
        if not len(at):
            found[rule] = at, np.empty(0)
            continue
        batch = verdict.evidence_of(at, numbers=False)
        odds = evidence_log_odds_array(info.weights, info.against, batch.evidence, batch.coverage, info.required)
        # The calibration was fitted where the rule fires; elsewhere its evidence alone counts.
        holds = verdict.firing[at] | (verdict.state[at] == YES)
        odds = np.where(holds, info.calibration.rule_log_odds(rule, odds), odds)
        found[rule] = at, np.where(batch.applies, odds, NO_EVIDENCE_LOG_ODDS)
    return found


def _best_probability(near: Sequence[NearbyVerdict], odds: Mapping[str, EntityLogOdds]) -> float:
    """Returns the highest probability of a condition on the entities nearby; the prior's if it has no rule."""
    best = NO_EVIDENCE_LOG_ODDS if near else PRIOR
    for info, _, at in near:
        indices, known = odds[info.rule]
        best = max(best, float(known[np.searchsorted(indices, at)].max(initial=NO_EVIDENCE_LOG_ODDS)))
    return probability(best)


def _separating_measurement(incident: IncidentState, other: IncidentState) -> str:
    """Returns the measurement that would separate two incidents if the catalogue names none; '' if there is none.

    It is the heaviest item of either that is unknown. If none is, it is the heaviest yes of the other one that rests
    on signals which this one does not read: should it become no, the other one is excluded and this one remains.
    """
    missing = [i for one in (incident, other) for i, v in _evidence_items(one) if v == UNKNOWN and i.signals]
    read = {signal for item, _ in _evidence_items(incident) for signal in item.signals}
    own = [
        i for i, v in _evidence_items(other) if v == YES and not i.against and i.signals and read.isdisjoint(i.signals)
    ]
    heaviest = min(missing or own, key=lambda i: (-i.weight, i.name), default=None)
    return f"{', '.join(heaviest.signals)} ({heaviest.name})" if heaviest else ""


def _evidence_items(incident: IncidentState) -> Iterator[tuple[EvidenceSpec, int]]:
    return zip(incident.peak_evidence.info.items, incident.peak_evidence.verdicts, strict=True)
