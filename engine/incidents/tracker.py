"""From verdicts to incidents, in one step per tick: alerts, lifecycle, attribution, advice."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from skewscope.engine.advice.advice import (
    Conclusion,
    ContextFact,
    FiringDiagnosis,
    PolicyEvaluator,
    Program,
    build_facts,
    quantise,
    rank_advice,
)
from skewscope.engine.attribution.explanation import (
    COMPARISON_INTERVAL_S,
    AlternativeFinder,
    CauseGraph,
    Explainer,
    count_judgeable,
    final_explanation,
)
from skewscope.engine.incidents.alerts import Alert, AlertKey, AlertTracker, DerivedDiagnosis, RuleInfo
from skewscope.engine.incidents.state import (
    Grouping,
    IncidentState,
    IncidentTiming,
    entities_of,
    group_alerts,
    primary_entity_of,
    to_incident,
)
from skewscope.engine.model.incident import SEVERITIES, Advice, Explanation, Incident, IncidentChange
from skewscope.engine.model.locality import NODE_BOUND, Entity, LocalityIndex, NeighbourIndex
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.verdict import RuleVerdict
from skewscope.kb.model import Catalogue

MIN_ROTATING_MOVES = 2
"""Moves from which on a fault counts as one that rotates through its group; one may be chance."""

ConditionCounter = Callable[[str, str, str], int]
"""Returns on how many nodes of a domain a condition can be judged, by condition, domain and kind of entity."""


class IncidentLifecycle:
    """The states of all incidents, kept in step with the alerts."""

    def __init__(
        self,
        alerts: AlertTracker,
        locality: LocalityIndex,
        timing: IncidentTiming,
        count_judgeable: ConditionCounter,
    ) -> None:
        self.alerts, self.locality, self.timing = alerts, locality, timing
        self.states: dict[str, IncidentState] = {}
        """All incidents by id."""
        self.recent: dict[str, IncidentState] = {}
        """Incidents that are open, or resolved so recently that they may fire again or explain others."""
        self.incident_of: dict[AlertKey, IncidentState] = {}
        """The incident of each alert of the last `reconcile`."""
        self._count_judgeable = count_judgeable
        self._by_primary_entity: dict[AlertKey, list[IncidentState]] = {}
        self._groupings: dict[str, dict[Entity, Grouping]] = {}
        self._changes: list[IncidentChange] = []

    def take_changes(self) -> tuple[IncidentChange, ...]:
        """Returns the changes since the last call, in order."""
        changes, self._changes = tuple(self._changes), []
        return changes

    def record_change(self, t: float, incident: IncidentState, what: str) -> None:
        """Add an event to an incident's history and to the changes."""
        incident.add_history(t, what)
        self._changes.append(IncidentChange(t, incident.id, what))

    def reconcile(self, t: float) -> list[IncidentState]:
        """Open, update, merge, move and resolve incidents; returns those whose primary alert fires."""
        clusters = self._cluster_alerts(t)
        self._by_primary_entity = _index_by_primary_entity(self.recent.values())
        self.incident_of = {}
        visited: set[str] = set()
        firing = []
        for key, alerts in sorted(clusters.items()):
            incidents = self._reconcile_cluster(t, key, alerts)
            visited |= {one.id for one in incidents}
            self.incident_of |= {alert.key: incidents[0] for alert in alerts if incidents}
            if incidents and self.alerts.active[key].firing_rules:
                firing.append(incidents[0])
        for incident in sorted(self.recent.values(), key=lambda one: one.sort_key):
            if incident.is_open and incident.id not in visited:
                self._resolve(t, incident)
        return firing

    def expire_recent(self, t: float) -> None:
        """Drop the incidents from `recent` that resolved too long ago to fire again or to explain."""
        retention = max(self.timing.cool_down_s, self.timing.explain_s)
        self.recent = {one.id: one for one in self.recent.values() if one.is_open or one.resolved_age(t) <= retention}

    def take_over(self, before: "IncidentLifecycle", is_known: Callable[[Entity], bool]) -> None:
        """Goes on with the incidents of another lifecycle, except those on entities that there are no more."""
        found = (_at_known_entities(one, is_known) for one in before.states.values())
        self.states = {one.id: one for one in found if one is not None}
        self.recent = {id_: self.states[id_] for id_ in before.recent if id_ in self.states}
        self._groupings = {
            condition: {e: one for e, one in some.items() if is_known(e) and is_known(one.primary_entity)}
            for condition, some in before._groupings.items()  # noqa: SLF001 - one of its own kind
        }

    def is_fading(self, t: float, alert: Alert) -> bool:
        """Whether an alert has cleared so recently that its group stays together."""
        return not alert.firing_rules and t - alert.cleared_at <= self.timing.grouping_s

    # --- clusters of alerts

    def _cluster_alerts(self, t: float) -> dict[AlertKey, list[Alert]]:
        """Returns alerts by condition and primary entity."""
        by_condition: dict[str, list[Alert]] = {}
        for key, alert in sorted(self.alerts.active.items()):
            if alert.firing_rules or self.is_fading(t, alert):
                by_condition.setdefault(key[0], []).append(alert)
        self._groupings = {
            c: group_alerts(alerts, self.locality, self._groupings.get(c, {}), partial(self._count_judgeable, c))
            for c, alerts in by_condition.items()
        }
        clusters: dict[AlertKey, list[Alert]] = {}
        for condition, alerts in by_condition.items():
            newest = self._newest_when_rotating(condition, alerts)
            for alert in alerts:
                primary = newest.get(alert.entity) or primary_entity_of(alert.entity, self._groupings[condition])
                clusters.setdefault((condition, primary), []).append(alert)
        return clusters

    def _newest_when_rotating(self, condition: str, alerts: Sequence[Alert]) -> Mapping[Entity, Entity]:
        """Returns the primary entity of members of groups through which a condition rotates: the newest one."""
        rotating = [
            one
            for one in self.recent.values()
            if one.is_open and one.condition == condition and one.moves >= MIN_ROTATING_MOVES
        ]
        groups = {
            group: one.primary_entity.kind
            for one in rotating
            for group in self.locality.location_of(one.primary_entity).groups
        }
        found: dict[Entity, Entity] = {}
        for group, kind in sorted(groups.items()):
            within = [
                a for a in alerts if a.entity.kind == kind and group in self.locality.location_of(a.entity).groups
            ]
            firing = [a for a in within if a.firing_rules]
            if firing:
                newest = max(firing, key=lambda a: (a.since, a.entity)).entity
                found |= {a.entity: newest for a in within}
        return found

    def _reconcile_cluster(self, t: float, key: AlertKey, alerts: Sequence[Alert]) -> list[IncidentState]:
        """Returns the open incidents of one cluster: the first continues, the others are merged into it."""
        firing = any(alert.firing_rules for alert in alerts)
        known = [one for alert in alerts for one in self._by_primary_entity.get(alert.key, ())]
        open_ = sorted(
            (one for one in known if one.is_open),
            key=lambda one: (one.moves < MIN_ROTATING_MOVES, one.primary_entity != key[1], one.sort_key),
        )
        if not open_ and not firing:
            return []
        incident = open_[0] if open_ else self._open(t, self.alerts.active[key])
        for other in open_[1:]:
            self._merge(t, other, incident)
        incident.merged_into = ""
        self._update(t, incident, self.alerts.active[key], alerts)
        if not firing:
            self._resolve(t, incident)
        return [incident, *open_[1:]]

    # --- open, update, merge, resolve

    def _open(self, t: float, alert: Alert) -> IncidentState:
        """Returns the incident of an alert: one that resolved a short time ago, or a new one."""
        resolved = [
            one for one in self._by_primary_entity.get(alert.key, ()) if one.resolved_age(t) <= self.timing.cool_down_s
        ]
        if resolved:
            incident = max(resolved, key=lambda one: one.sort_key)
            incident.resolved_at = None
            incident.flaps += 1
            self.record_change(t, incident, "fired again")
            return incident
        moved = [one for one in self.recent.values() if not one.merged_into and self._is_continuation(one, alert)]
        if moved:
            incident = max(moved, key=lambda one: one.sort_key)
            incident.resolved_at = None
            self._move(t, incident, alert.entity)
            return incident
        incident = IncidentState(alert.condition, alert.entity, t, alert.since, alert.peak_evidence)
        self.states[incident.id] = self.recent[incident.id] = incident
        incident.add_history(alert.since, "evidence held")
        self.record_change(t, incident, "opened")
        return incident

    def _update(self, t: float, incident: IncidentState, primary: Alert, alerts: Sequence[Alert]) -> None:
        moved = incident.primary_entity != primary.entity
        if moved:
            last = self.alerts.active.get((incident.condition, incident.primary_entity))
            ended = incident.moves >= MIN_ROTATING_MOVES or last is None or not last.firing_rules
            incident.moves += ended and self._are_siblings(incident, incident.condition, primary.entity)
            self._change_primary(t, incident, primary.entity)
        incident.members |= {alert.entity for alert in alerts}
        incident.since = min(incident.since, primary.since)
        incident.agreeing_rules = max(incident.agreeing_rules, primary.agreeing_rules)
        if primary.firing_rules:
            # While only other members fire, the last evidence of the primary entity stays.
            stronger = moved or incident.peak_evidence.rank_key() > primary.peak_evidence.rank_key()
            peak = primary.peak_evidence if stronger else incident.peak_evidence
            incident.needs_comparison |= peak is not incident.peak_evidence
            incident.peak_evidence = peak
        severity = max(alert.severity for alert in alerts)
        if severity > incident.severity:
            incident.severity = severity
            incident.add_history(t, SEVERITIES[severity])

    def _merge(self, t: float, other: IncidentState, incident: IncidentState) -> None:
        """Make one incident a part of another one; it stays listed, explained by it."""
        if other.merged_into != incident.id:
            other.merged_into = incident.id
            self.record_change(t, other, f"part of {incident.id}")
        alert = self.alerts.active.get((other.condition, other.primary_entity))
        if alert is None or not alert.firing_rules:
            self._resolve(t, other)

    def _resolve(self, t: float, incident: IncidentState) -> None:
        successor = self._find_successor(t, incident) if incident.is_open and not incident.merged_into else None
        if successor:
            self._move(t, incident, successor.primary_entity)
            incident.members |= successor.members
            self._merge(t, successor, incident)
        elif incident.is_open:
            incident.resolved_at = t
            self.record_change(t, incident, "resolved")

    # --- moves between members of a group

    def _find_successor(self, t: float, incident: IncidentState) -> IncidentState | None:
        """Returns the incident on another member of the group that began as this one ends."""
        newer = [
            one
            for one in self.recent.values()
            if one.is_open and not one.merged_into and one.sort_key > incident.sort_key
        ]
        begun = [one for one in newer if t - one.since <= self.timing.hand_over_s]
        successors = [one for one in begun if self._are_siblings(incident, one.condition, one.primary_entity)]
        return min(successors, key=lambda one: one.sort_key, default=None)

    def _is_continuation(self, incident: IncidentState, alert: Alert) -> bool:
        """Whether an alert continues an incident that has just ended on another member of its group."""
        resolved_at = incident.resolved_at
        ended = resolved_at is not None and abs(alert.since - resolved_at) <= self.timing.hand_over_s
        return ended and self._are_siblings(incident, alert.condition, alert.entity)

    def _are_siblings(self, incident: IncidentState, condition: str, entity: Entity) -> bool:
        own = incident.primary_entity
        alike = incident.condition == condition and own.kind == entity.kind and own != entity
        if not alike or entity.kind not in NODE_BOUND:
            return False
        return not self.locality.location_of(own).groups.isdisjoint(self.locality.location_of(entity).groups)

    def _move(self, t: float, incident: IncidentState, to: Entity) -> None:
        self._by_primary_entity[incident.condition, incident.primary_entity].remove(incident)
        self._by_primary_entity.setdefault((incident.condition, to), []).append(incident)
        incident.moves += 1
        self._change_primary(t, incident, to)

    def _change_primary(self, t: float, incident: IncidentState, to: Entity) -> None:
        old, new = (self.locality.display_name(entity)[1] for entity in (incident.primary_entity, to))
        self.record_change(t, incident, f"moved from {old} to {new}")
        # The alternatives at the new place are others.
        incident.primary_entity, incident.comparison_count = to, 0
        incident.compared_at, incident.needs_comparison = -math.inf, True


def _at_known_entities(one: IncidentState, is_known: Callable[[Entity], bool]) -> IncidentState | None:
    """Returns an incident without the entities that there are no more; None where none is left."""
    members = {entity for entity in one.members if is_known(entity)}
    is_there = is_known(one.primary_entity)
    if is_there and len(members) == len(one.members):
        return one
    if not (is_there or members):
        return None
    return replace(one, members=members, primary_entity=one.primary_entity if is_there else min(members))


def _index_by_primary_entity(incidents: Iterable[IncidentState]) -> dict[AlertKey, list[IncidentState]]:
    found: dict[AlertKey, list[IncidentState]] = {}
    for one in incidents:
        found.setdefault((one.condition, one.primary_entity), []).append(one)
    return found


class IncidentTracker:
    """All incidents of a run, updated with the verdicts of each tick."""

    def __init__(
        self,
        rules: Mapping[str, RuleInfo],
        catalogue: Catalogue,
        topology: Topology,
        policies: PolicyEvaluator | None = None,
        timing: IncidentTiming | None = None,
    ) -> None:
        self.catalogue = catalogue
        self.locality = LocalityIndex(topology)
        self.locality.prepare()
        self.alerts = AlertTracker(rules)
        self.policies = policies or PolicyEvaluator(Program())
        self.timing = timing or IncidentTiming()
        causes = CauseGraph(catalogue)
        self._neighbours = NeighbourIndex(self.locality)
        self._lifecycle = IncidentLifecycle(self.alerts, self.locality, self.timing, self._count_judgeable)
        self._alternatives = AlternativeFinder(catalogue, causes, self._neighbours, self.alerts)
        self._explainer = Explainer(causes, self.locality, self.timing)
        self._advice: Mapping[tuple[str, str], tuple[Advice, ...]] = {}
        self._context: tuple[ContextFact, ...] = ()
        self._policy_input: tuple[object, ...] = ()
        self._last_epoch: tuple[object, ...] = ()
        self._t, self._is_settled = -math.inf, False
        """End of the last tick; whether its incidents rest on the same as those of the tick before."""
        self._outcome: tuple[object, ...] = ()
        """What they rest on."""
        self._is_prepared = False
        """Whether the neighbours of all entities that are judged have been looked up."""

    def take_over(self, before: "IncidentTracker", is_known: Callable[[Entity], bool]) -> None:
        """Goes on with the alerts and incidents of another tracker, except those on entities that there are no more."""
        self.alerts.take_over(before.alerts, is_known)
        self._lifecycle.take_over(before._lifecycle, is_known)  # noqa: SLF001 - one of its own kind
        self._context, self._t = before._context, before._t  # noqa: SLF001

    def set_context(self, context: Iterable[ContextFact]) -> None:
        """Replace the facts that are known from outside; they count from the next tick on."""
        self._context = tuple(sorted(set(context)))

    def step(self, t: float, verdicts: Iterable[RuleVerdict]) -> tuple[IncidentChange, ...]:
        """Returns the changes that the verdicts of one tick cause."""
        self._t = t
        self.alerts.update(t, verdicts)
        if not (self.alerts.active or self._lifecycle.recent):
            if self.alerts.changed or not self._is_prepared:
                self._is_prepared = not self._neighbours.prepare(
                    (verdict.kind, verdict.names) for verdict in self.alerts.current_verdicts()
                )
            return ()
        self.alerts.drop(t - max(self.timing.grouping_s, self.timing.explain_s))
        self._reconcile(t)
        # Policies match the confidence that the incidents now have. What they derive changes incidents in this tick,
        # and the confidence that policies match in the next one.
        if self._evaluate_policies(t):
            self._reconcile(t)
        self._assign_advice()
        self._lifecycle.expire_recent(t)
        before, self._outcome = self._outcome, (self.alerts.version, self._last_epoch, self._policy_input)
        self._is_settled = before == self._outcome
        return self._lifecycle.take_changes()

    def next_change(self) -> float:
        """Returns the time in seconds before which the same verdicts change nothing: in the past if they may now."""
        if not (self.alerts.active or self._lifecycle.recent):
            return math.inf
        # Policies match the confidence of the tick before: the one after a change may change more.
        return min((end for end in self._ends() if end >= self._t), default=math.inf) if self._is_settled else -math.inf

    def _ends(self) -> Iterator[float]:
        """Yields the times in seconds at which an alert or incident becomes too old for something, also past ones."""
        timing, states = self.timing, self._lifecycle.states
        for alert in self.alerts.active.values():
            yield from (alert.cleared_at + age for age in (timing.grouping_s, timing.explain_s))
        for one in self._lifecycle.recent.values():
            if one.needs_comparison:
                yield max(one.compared_at + COMPARISON_INTERVAL_S, self._t)
            root = states.get(one.explanation.id) if one.explanation else None
            for ended in (one.resolved_at, root.resolved_at if root else None):
                if ended is not None:
                    yield from (ended + age for age in (timing.explain_s, timing.linger_s, timing.cool_down_s))

    # --- lifecycle and attribution

    def _reconcile(self, t: float) -> None:
        """Update the incidents, their alternatives and explanations, if their input has changed."""
        if self._epoch(t) == self._last_epoch:
            return
        firing = self._lifecycle.reconcile(t)
        self._alternatives.compare(t, [one for one in firing if _is_comparison_due(t, one)])
        self._explain(t)
        recent = self._lifecycle.recent.values()
        self._alternatives.weigh([one for one in recent if one.is_open and _is_likely_root(one)])
        self._last_epoch = self._epoch(t)

    def _epoch(self, t: float) -> tuple[object, ...]:
        """Returns everything that decides the incidents; while it stays, they stay."""
        recent = self._lifecycle.recent
        fading = tuple(sorted(key for key, alert in self.alerts.active.items() if self._lifecycle.is_fading(t, alert)))
        explaining = tuple(sorted(one.id for one in recent.values() if one.resolved_age(t) <= self.timing.explain_s))
        lingering = tuple(sorted(self._explainer.find_lingering(t, recent.values(), self._lifecycle.states)))
        due = tuple(sorted(one.id for one in recent.values() if one.is_open and _is_comparison_due(t, one)))
        return self.alerts.version, self._context, fading, explaining, lingering, due

    def _count_judgeable(self, condition: str, domain: str, kind: str) -> int:
        verdicts = (verdict for _, verdict in self.alerts.verdicts_of(condition))
        return count_judgeable(self._neighbours, verdicts, domain, kind)

    def _explain(self, t: float) -> None:
        recent = self._lifecycle.recent
        found = self._explainer.explain(t, recent.values(), self._lifecycle.states)
        for incident in sorted(recent.values(), key=lambda one: one.sort_key):
            if incident.id in found:
                self._set_explanation(t, incident, found[incident.id])

    def _set_explanation(self, t: float, incident: IncidentState, new: Explanation | None) -> None:
        old, incident.explanation = incident.explanation, new
        if (old and old.id) != (new and new.id):
            self._lifecycle.record_change(t, incident, f"explained by {new.id}" if new else "a root again")

    # --- advice

    def _evaluate_policies(self, t: float) -> bool:
        """Update the advice and the derived alerts; returns whether alerts changed."""
        firing = [
            alert for _, alert in sorted(self.alerts.active.items()) if alert.firing_rules & self.alerts.rules.keys()
        ]
        diagnoses = []
        for alert in firing:
            incident = self._lifecycle.incident_of[alert.key]
            moves = incident.moves if incident.primary_entity == alert.entity else 0
            diagnoses.append(FiringDiagnosis(alert, quantise(incident.confidence), moves))
        numbers = [(one.alert.key, one.confidence, one.moves) for one in diagnoses]
        version = self.alerts.version
        policy_input = (version, self._context, numbers)
        if policy_input == self._policy_input:
            return False
        self._policy_input = policy_input
        conclusions = self.policies.evaluate(build_facts(diagnoses, self.locality, self._context))
        self.alerts.derive(t, _derived_diagnoses(conclusions))
        shown = {entity.key: self.locality.display_name(entity)[1] for _, entity in self.alerts.active}
        works = {entity.key: self.locality.work_of(entity) for _, entity in self.alerts.active}
        suited = [one for one in conclusions if one.suits(works.get(one.entity, ""))]
        self._advice = rank_advice(suited, self.catalogue, shown)
        return self.alerts.version != version

    def _assign_advice(self) -> None:
        """Set the mitigations of the incidents whose primary alert fires; the others keep theirs."""
        for incident in self._lifecycle.recent.values():
            alert = self.alerts.active.get((incident.condition, incident.primary_entity))
            if incident.is_open and not incident.merged_into and alert is not None and alert.firing_rules:
                incident.mitigations = self._advice.get((incident.condition, incident.primary_entity.key), ())

    # --- results

    def list_incidents(self) -> list[Incident]:
        """Returns every incident that ever fired, oldest first."""
        states = self._lifecycle.states
        roots = {one.id: final_explanation(one, states) for one in states.values()}
        explained: dict[str, list[IncidentState]] = {}
        for one in states.values():
            root = roots[one.id]
            explained.setdefault(root.id if root else one.id, []).append(one)
        ordered = sorted(states.values(), key=lambda one: one.sort_key)
        return [self._to_incident(one, roots[one.id], explained.get(one.id, [one])) for one in ordered]

    def _to_incident(
        self, incident: IncidentState, root: Explanation | None, explained: Sequence[IncidentState]
    ) -> Incident:
        """Returns an incident; the blast radius of a root includes what it explains."""
        others = {other.condition for other in explained} - {incident.condition}
        blast_radius = self.locality.blast_radius(entities_of([incident, *explained]))
        return to_incident(incident, self.locality, root, blast_radius, others)

    def recent_places(self) -> list[tuple[str, float | None, tuple[Entity, ...]]]:
        """Returns (id of the root, when it resolved, entities) of each incident that is open or resolved recently."""
        states = self._lifecycle.states
        found = []
        for one in sorted(self._lifecycle.recent.values(), key=lambda each: each.sort_key):
            root = final_explanation(one, states)
            found.append(
                (root.id if root else one.id, one.resolved_at, tuple(sorted({one.primary_entity, *one.members})))
            )
        return found

    def list_pending(self) -> list[Incident]:
        """Returns what holds but has not held long enough to fire. Call it after `step`, before the next tick."""
        found: dict[AlertKey, IncidentState] = {}
        for key, since, evidence in self.alerts.iter_pending():
            alert = self.alerts.active.get(key)
            if (alert is None or not alert.firing_rules) and key not in found:
                found[key] = IncidentState(*key, since, since, evidence)
        ordered = sorted(found.values(), key=lambda one: (one.opened_at, one.condition, one.primary_entity))
        return [
            replace(
                to_incident(one, self.locality, None, self.locality.blast_radius([one.primary_entity])),
                state="pending",
            )
            for one in ordered
        ]

    def forget(self, before: float) -> None:
        """Drop the incidents that resolved before a time, except those that still explain others."""
        states, recent = self._lifecycle.states, self._lifecycle.recent
        kept = {one.id for one in states.values() if one.is_open or _last_active_at(one) >= before} | set(recent)
        kept |= {one.explanation.id for one in recent.values() if one.explanation and one.explanation.id in states}
        roots = {id_: final_explanation(states[id_], states) for id_ in kept}
        named = kept | {root.id for root in roots.values() if root}
        self._lifecycle.states = {id_: one for id_, one in states.items() if id_ in named}
        for one in self._lifecycle.states.values():
            if one.explanation and one.explanation.id not in named:
                one.explanation = roots.get(one.id)  # the incident between the two is dropped


def order_for_contract(incidents: Iterable[Incident], input_hash: str) -> list[Incident]:
    """Returns incidents as they are printed: by opening time, then condition, then entity."""

    def order(one: Incident) -> tuple[float, str, str, str, str]:
        return round(one.opened_at, 3), one.condition, one.name, one.kind, one.id

    return sorted((replace(one, input_hash=input_hash) for one in incidents), key=order)


def _is_comparison_due(t: float, incident: IncidentState) -> bool:
    return incident.needs_comparison and t - incident.compared_at >= COMPARISON_INTERVAL_S


def _is_likely_root(incident: IncidentState) -> bool:
    """Whether an incident has no cause; coincident ones remain alternatives to their root."""
    return incident.explanation is None or incident.explanation.relation == "coincident"


def _derived_diagnoses(conclusions: Iterable[Conclusion]) -> list[DerivedDiagnosis]:
    return [DerivedDiagnosis(c.diagnosis, c.subject, c.entity, c.policy, c.hash) for c in conclusions if c.diagnosis]


def _last_active_at(incident: IncidentState) -> float:
    return incident.opened_at if incident.resolved_at is None else incident.resolved_at
