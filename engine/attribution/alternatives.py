"""The alternatives of an incident that none explains: look-alikes, incidents nearby, what nobody could judge."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.attribution.cause_graph import MAX_CAUSAL_STEPS, CauseGraph
from skewscope.engine.attribution.posterior import BOTH_THERE
from skewscope.engine.incidents.alerts import AlertTracker, EvidenceSpec, RuleInfo
from skewscope.engine.incidents.confidence import GAIN, prior_log_odds, weigh_evidence
from skewscope.engine.incidents.diagnosis import DiagnosisState
from skewscope.engine.incidents.state import IncidentState, find_root
from skewscope.engine.incidents.symptom import SymptomState
from skewscope.engine.model.arrays import Index, sort_unique
from skewscope.engine.model.locality import NODE_BOUND, Entity, NeighbourIndex
from skewscope.engine.model.verdict import UNKNOWN, YES, RuleVerdict
from skewscope.kb.model import Catalogue
from skewscope.rules.entity_kinds import GROUP_LIKE

NO_EVIDENCE = -GAIN / 2
"""Log-odds that a rule adds that is known nearby and whose items are all no."""
COMPARISON_INTERVAL_S = 5.0
"""Seconds for which a comparison is valid, even if the evidence grows."""
MAX_LOCATIONS = 16
"""Maximum number of other locations per candidate."""
PATH_KINDS = frozenset({"port", "link", "peer"})
"""Kinds of entities that show effects of faults elsewhere on their paths."""
NearbyVerdict = tuple[RuleInfo, RuleVerdict, Index]
"""A rule, its verdict of this tick, and the indices of the entities nearby."""
EntityLogOdds = tuple[Index, NDArray[np.float64]]
"""Sorted indices of entities of a rule, and `[entity]` float64 log-odds that it adds to its condition on each."""


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

    def compare(self, t: float, incidents: Sequence[DiagnosisState]) -> None:
        """Set the alternatives and candidates of incidents, by the verdicts of this tick.

        Alternatives are look-alikes, with their log-odds by their own rules. Candidates are look-alikes and causes
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
            found = {name: (self._prior(name) + _best_log_odds(near[name], odds), test) for name, test in tests.items()}
            incident.alternatives = {**incident.alternatives, **found}
            self._set_candidates(incident, near)
            incident.comparison_count += 1
            incident.compared_at, incident.needs_comparison = t, incident.comparison_count == 1

    def weigh_causes(self, symptoms: Sequence[SymptomState]) -> dict[str, dict[str, float]]:
        """Returns by id of a symptom the log-odds that its causes lose by the verdicts of this tick, by condition.

        A rule that is judged at the place and does not hold speaks against its condition. What it sees of it counts
        for nothing here: the findings have it already.
        """
        nearby = [
            {
                name: judged
                for name, entries in self._verdicts_near(one, [cause.condition for cause in one.causes]).items()
                if (judged := [entry for entry in entries if len(entry[2])])
            }
            for one in symptoms
        ]
        odds = _log_odds_by_rule(entry for near in nearby for entries in near.values() for entry in entries)
        return {
            one.id: {name: lost for name, entries in near.items() if (lost := min(_best_log_odds(entries, odds), 0.0))}
            for one, near in zip(symptoms, nearby, strict=True)
        }

    def _set_candidates(self, incident: DiagnosisState, near: Mapping[str, Sequence[NearbyVerdict]]) -> None:
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
        # Nothing is seen of them: their rules add no evidence.
        incident.candidates = {name: self._prior(name) for name in names}
        incident.candidate_locations = tuple(locations.items())

    def _prior(self, condition: str) -> float:
        known = self.catalogue.conditions.get(condition)
        return prior_log_odds(known.prevalence if known else "")

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
        self, incident: DiagnosisState, near: Mapping[str, Sequence[NearbyVerdict]]
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

    def _unknown_locations(self, incident: DiagnosisState, near: Sequence[NearbyVerdict]) -> tuple[str, ...]:
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

    def _lookalikes_near(self, incident: DiagnosisState) -> dict[str, list[NearbyVerdict]]:
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

    def weigh(self, roots: Sequence[DiagnosisState]) -> None:
        """Add the other roots in the same place to the alternatives."""
        if len({incident.condition for incident in roots}) < 2:
            return
        at: dict[str, dict[str, list[DiagnosisState]]] = {}
        for incident in roots:
            for token in self._neighbours.tokens(incident.primary_entity):
                at.setdefault(token, {}).setdefault(incident.condition, []).append(incident)
        for incident in roots:
            by_condition = [at[token].items() for token in self._neighbours.tokens(incident.primary_entity)]
            others = [some for each in by_condition for condition, some in each if condition != incident.condition]
            for _, other in sorted({other.id: other for some in others for other in some}.items()):
                _add_alternative(incident, other)

    @staticmethod
    def weigh_effects(diagnoses: Iterable[DiagnosisState], states: Mapping[str, IncidentState]) -> None:
        """Keep look-alikes among the candidates of what explains them: which of the two was first is not seen.

        No effect is surer than what explains it.
        """
        for effect in diagnoses:
            root = find_root(effect, states)
            if isinstance(root, DiagnosisState) and effect.condition in root.alternatives:
                odds = min(effect.log_odds, root.log_odds) + BOTH_THERE
                if odds > root.alike_effects.get(effect.condition, -math.inf):
                    root.alike_effects = {**root.alike_effects, effect.condition: odds}


def _add_alternative(incident: DiagnosisState, other: DiagnosisState) -> None:
    odds = other.log_odds + BOTH_THERE
    before, test = incident.alternatives.get(other.condition, (-math.inf, ""))
    if odds > before or not test:
        found = max(before, odds), test or _separating_measurement(incident, other)
        incident.alternatives = {**incident.alternatives, other.condition: found}


def _log_odds_by_rule(near: Iterable[NearbyVerdict]) -> dict[str, EntityLogOdds]:
    """Returns by rule what it adds to its condition on all entities near any incident; evaluates each rule once."""
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
        weights = weigh_evidence(info.weights, info.against, batch.evidence, info.required)
        # The calibration was fitted where a rule holds; elsewhere its evidence alone counts. What fires has an incident
        # of its own, which competes as that unless another one explains it.
        holds = verdict.state[at] == YES
        odds = np.where(holds, info.calibration.rule_log_odds(rule, weights), weights)
        odds = np.where(verdict.firing[at], 0.0, odds)
        found[rule] = at, np.where(batch.applies, odds, NO_EVIDENCE)
    return found


def _best_log_odds(near: Sequence[NearbyVerdict], odds: Mapping[str, EntityLogOdds]) -> float:
    """Returns the most that rules add to a condition on the entities nearby; 0 for one without a rule."""
    best = NO_EVIDENCE if near else 0.0
    for info, _, at in near:
        indices, known = odds[info.rule]
        best = max(best, float(known[np.searchsorted(indices, at)].max(initial=NO_EVIDENCE)))
    return best


def _separating_measurement(incident: DiagnosisState, other: DiagnosisState) -> str:
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


def _evidence_items(incident: DiagnosisState) -> Iterator[tuple[EvidenceSpec, int]]:
    return zip(incident.peak_evidence.info.items, incident.peak_evidence.verdicts, strict=True)
