"""Which alerts are one incident: those of one condition that are grouped; it moves and merges as they come and go."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from skewscope.engine.incidents.alerts import Alert, AlertKey, AlertTracker
from skewscope.engine.incidents.diagnosis import DiagnosisState
from skewscope.engine.incidents.grouping import Grouping, group_alerts, primary_entity_of
from skewscope.engine.incidents.lifecycle import IncidentLifecycle
from skewscope.engine.incidents.result_cache import ResultCache
from skewscope.engine.model.incident import SEVERITIES
from skewscope.engine.model.locality import NODE_BOUND, Entity, LocalityIndex
from skewscope.rules.entity_kinds import GROUP_LIKE

MIN_ROTATING_MOVES = 2
"""Moves from which on a fault counts as one that rotates through its group; one may be chance."""

ConditionCounter = Callable[[str, str, str], int]
"""Returns on how many nodes of a domain a condition can be judged, by condition, domain and kind of entity."""
SiblingKey = tuple[str, str, str]
"""A condition, a kind of entity and a group, as a token."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Alerts by condition and primary entity, in order."""

    alerts: Mapping[AlertKey, Sequence[Alert]]
    steady: dict[AlertKey, DiagnosisState] = field(default_factory=dict)
    """The incidents that stay as they are while their clusters do, and no incident moves or is merged."""


class AlertIncidents:
    """The incidents of alerts, kept in step with them."""

    def __init__(
        self,
        lifecycle: IncidentLifecycle,
        alerts: AlertTracker,
        locality: LocalityIndex,
        count_judgeable: ConditionCounter,
    ) -> None:
        self.lifecycle, self.alerts, self.locality = lifecycle, alerts, locality
        self.timing = lifecycle.timing
        self.incident_of: dict[AlertKey, DiagnosisState] = {}
        """The incident of each alert of the last `reconcile`."""
        self._count_judgeable = count_judgeable
        self.waiting = 0
        """How many incidents wait for the next tick to open."""
        self._has_moved = False
        """Whether an incident has moved, or become a part of another one, in this reconciliation."""
        self._by_primary_entity: dict[AlertKey, list[DiagnosisState]] = {}
        self._rotating: dict[str, list[DiagnosisState]] = {}
        """The open incidents that rotate through their groups, by condition."""
        self._begun: dict[SiblingKey, list[DiagnosisState]] = {}
        self._ended: dict[SiblingKey, list[DiagnosisState]] = {}
        """Recent incidents that may continue another one and that may be continued, by condition, kind and group; also
        some that are so no longer."""
        self._explained: dict[str, list[DiagnosisState]] = {}
        """Recent incidents by the id of what explains each."""
        self._groupings: dict[str, dict[Entity, Grouping]] = {}
        self._clusters = ResultCache[Clusters]()

    @property
    def recent(self) -> dict[str, DiagnosisState]:
        """The diagnoses that are open, or resolved so recently that they may fire again or explain others."""
        return self.lifecycle.recent(DiagnosisState)

    def reconcile(self, t: float) -> list[DiagnosisState]:
        """Open, update, merge, move and resolve incidents; returns those whose primary alert fires.

        As many open as there is room for in one tick, in the order of their conditions and entities.
        """
        self._rotating = self._find_rotating()
        clusters = self._clusters.get(self._cluster_basis(t), partial(self._cluster_alerts, t))
        self._index_recent(t)
        self.incident_of = {}
        self.waiting = 0
        self._has_moved = False
        visited: set[str] = set()
        firing = []
        for key, alerts in clusters.alerts.items():
            steady = clusters.steady.get(key)
            incidents = [steady] if steady is not None else self._reconcile_cluster(t, key, alerts)
            if not incidents:
                continue
            visited.update(one.id for one in incidents)
            self.incident_of.update((alert.key, incidents[0]) for alert in alerts)
            if self.alerts.active[key].firing_rules:
                firing.append(incidents[0])
            if len(incidents) == 1 and incidents[0].is_settled and incidents[0].cleared_at == math.inf:
                clusters.steady[key] = incidents[0]
        left = (one for one in self.recent.values() if one.is_open and one.id not in visited)
        for incident in sorted(left, key=lambda one: one.sort_key):
            self._resolve(t, incident)
        if self._has_moved:
            clusters.steady.clear()
        return firing

    def take_over(self, before: "AlertIncidents", is_known: Callable[[Entity], bool]) -> None:
        """Goes on with the groupings of another one, except those of entities that there are no more."""
        self._groupings = {
            condition: {e: one for e, one in some.items() if is_known(e) and is_known(one.primary_entity)}
            for condition, some in before._groupings.items()  # noqa: SLF001 - one of its own kind
        }

    def is_fading(self, t: float, alert: Alert) -> bool:
        """Whether an alert has cleared so recently that its group stays together."""
        return not alert.firing_rules and t - alert.cleared_at <= max(self.timing.grouping_s, self.hold_s(alert))

    def hold_s(self, alert: Alert) -> float:
        """Returns for how many seconds the incident of an alert stays open once that has cleared."""
        incident = self.incident_of.get(alert.key)
        return 0.0 if incident is None else self.lifecycle.hold_s(incident)

    # --- indexes of recent incidents, made anew for each reconciliation

    def _find_rotating(self) -> dict[str, list[DiagnosisState]]:
        found: dict[str, list[DiagnosisState]] = {}
        for one in self.recent.values():
            if one.moves >= MIN_ROTATING_MOVES and one.is_open:
                found.setdefault(one.condition, []).append(one)
        return found

    def _index_recent(self, t: float) -> None:
        self._by_primary_entity, self._begun, self._ended, self._explained = {}, {}, {}, {}
        for one in self.recent.values():
            if one.explanation is not None:
                self._explained.setdefault(one.explanation.id, []).append(one)
            self._by_primary_entity.setdefault((one.condition, one.primary_entity), []).append(one)
            if not one.is_open:
                self._add_sibling(self._ended, one)
            elif t - one.since <= self.timing.hand_over_s + self.lifecycle.hold_s(one):
                self._add_sibling(self._begun, one)

    def _add_sibling(self, index: dict[SiblingKey, list[DiagnosisState]], one: DiagnosisState) -> None:
        for key in self._sibling_keys(one.condition, one.primary_entity):
            index.setdefault(key, []).append(one)

    def _sibling_keys(self, condition: str, entity: Entity) -> Iterator[SiblingKey]:
        """Yields what two incidents share that may be one which has moved from one member of a group to another."""
        if entity.kind in NODE_BOUND:
            for group in self.locality.location_of(entity).groups:
                yield condition, entity.kind, group

    # --- clusters of alerts

    def _cluster_basis(self, t: float) -> tuple[object, ...]:
        """Returns all by which alerts are clustered: while it stays, incidents that wait to open need no other ones."""
        fading = frozenset(key for key, alert in self.alerts.active.items() if self.is_fading(t, alert))
        rotating = tuple((c, one.primary_entity) for c, some in self._rotating.items() for one in some)
        return self.alerts.version, fading, rotating

    def _cluster_alerts(self, t: float) -> Clusters:
        by_condition: dict[str, list[Alert]] = {}
        for alert in self.alerts.list_active():
            if alert.firing_rules or self.is_fading(t, alert):
                by_condition.setdefault(alert.condition, []).append(alert)
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
        return Clusters({key: clusters[key] for key in sorted(clusters)})

    def _newest_when_rotating(self, condition: str, alerts: Sequence[Alert]) -> Mapping[Entity, Entity]:
        """Returns the primary entity of members of groups through which a condition rotates: the newest one."""
        groups = {
            group: one.primary_entity.kind
            for one in self._rotating.get(condition, ())
            for group in self.locality.location_of(one.primary_entity).groups
        }
        members: dict[str, list[Alert]] = {}
        for alert in alerts if groups else ():
            for group in self.locality.location_of(alert.entity).groups & groups.keys():
                members.setdefault(group, []).append(alert)
        found: dict[Entity, Entity] = {}
        for group, kind in sorted(groups.items()):
            within = [a for a in members.get(group, ()) if a.entity.kind == kind]
            firing = [a for a in within if a.firing_rules]
            if firing:
                newest = max(firing, key=lambda a: (a.since, a.entity)).entity
                found |= {a.entity: newest for a in within}
        return found

    def _reconcile_cluster(self, t: float, key: AlertKey, alerts: Sequence[Alert]) -> list[DiagnosisState]:
        """Returns the open incidents of one cluster: the first continues, the others are merged into it."""
        firing = any(alert.firing_rules for alert in alerts)
        known = [one for alert in alerts for one in self._by_primary_entity.get(alert.key, ())]
        # Of replicas none brings about what the others have: the first one that was a root goes on.
        is_of_pool = key[1].kind in GROUP_LIKE
        open_ = sorted(
            (one for one in known if one.is_open),
            key=lambda one: (
                one.moves < MIN_ROTATING_MOVES,
                one.explanation is not None if is_of_pool else one.primary_entity != key[1],
                one.sort_key,
            ),
        )
        if not open_ and not firing:
            return []
        if not open_ and self.lifecycle.room <= 0:
            self.waiting += 1
            return []
        incident = open_[0] if open_ else self._open(t, self.alerts.active[key])
        for other in open_[1:]:
            self._merge(t, other, incident)
        incident.merged_into = ""
        incident.cleared_at = math.inf if firing else max(alert.cleared_at for alert in alerts)
        incident.is_settled |= firing and t >= self.lifecycle.settles_at(incident)
        own = self.alerts.active.get((incident.condition, incident.primary_entity))
        stays = is_of_pool and own is not None and own in alerts and bool(own.firing_rules)
        self._update(t, incident, own if own and stays else self.alerts.active[key], alerts)
        if t - incident.cleared_at >= self.lifecycle.hold_s(incident):
            self._resolve(t, incident)
        return [incident, *open_[1:]]

    # --- open, update, merge, resolve

    def _open(self, t: float, alert: Alert) -> DiagnosisState:
        """Returns the incident of an alert: one that resolved a short time ago, or a new one."""
        resolved = [
            one
            for one in self._by_primary_entity.get(alert.key, ())
            if one.resolved_age(t) <= self.lifecycle.cool_down_s(one)
        ]
        if resolved:
            incident = max(resolved, key=lambda one: one.sort_key)
            self.lifecycle.reopen(t, incident)
            self._add_sibling(self._begun, incident)
            return incident
        moved = [
            one
            for key in self._sibling_keys(*alert.key)
            for one in self._ended.get(key, ())
            if not one.merged_into and self._is_continuation(one, alert)
        ]
        if moved:
            incident = max(moved, key=lambda one: one.sort_key)
            incident.resolved_at = None
            incident.moves += 1
            self._move(t, incident, alert.entity)
            return incident
        incident = DiagnosisState(
            *(alert.condition, alert.entity, t, alert.since),
            peak_evidence=alert.peak_evidence,
            is_settled=False,
            sampled_at=min(alert.since, self.lifecycle.newest),
        )
        incident.add_history(alert.since, "evidence held")
        self.lifecycle.open(t, incident)
        self._add_sibling(self._begun, incident)
        return incident

    def _update(self, t: float, incident: DiagnosisState, primary: Alert, alerts: Sequence[Alert]) -> None:
        moved = incident.primary_entity != primary.entity
        if moved:
            last = self.alerts.active.get((incident.condition, incident.primary_entity))
            ended = incident.moves >= MIN_ROTATING_MOVES or last is None or not last.firing_rules
            incident.moves += ended and self._are_siblings(incident, incident.condition, primary.entity)
            self._change_primary(t, incident, primary.entity)
        entities = {alert.entity for alert in alerts}
        if not entities <= incident.members:
            incident.members |= entities
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

    def _merge(self, t: float, other: DiagnosisState, incident: DiagnosisState) -> None:
        """Make one incident a part of another one; it stays listed, explained by it."""
        self._has_moved = True
        if other.merged_into != incident.id:
            other.merged_into = incident.id
            self.lifecycle.record_change(t, other, f"part of {incident.id}")
        alert = self.alerts.active.get((other.condition, other.primary_entity))
        if alert is None or not alert.firing_rules:
            self._resolve(t, other)

    def _resolve(self, t: float, incident: DiagnosisState) -> None:
        is_whole = incident.is_open and not incident.merged_into
        follower = self._find_successor(t, incident) if is_whole else None
        successor = follower or (self._find_sharer(incident) if is_whole else None)
        if successor:
            incident.moves += follower is not None
            self._move(t, incident, successor.primary_entity)
            incident.members |= successor.members
            self._merge(t, successor, incident)
        elif incident.is_open:
            self.lifecycle.resolve(t, incident)
            self._add_sibling(self._ended, incident)

    # --- moves between members of a group

    def _find_successor(self, t: float, incident: DiagnosisState) -> DiagnosisState | None:
        """Returns the incident on another member of the group that began as this one ends."""
        begun = (
            one
            for key in self._sibling_keys(incident.condition, incident.primary_entity)
            for one in self._begun.get(key, ())
            if one.is_open and not one.merged_into and one.sort_key > incident.sort_key
        )
        successors = [
            one
            for one in begun
            if t - one.since <= self.timing.hand_over_s + self.lifecycle.hold_s(incident)
            and self._are_siblings(incident, one.condition, one.primary_entity)
        ]
        return min(successors, key=lambda one: one.sort_key, default=None)

    def _find_sharer(self, incident: DiagnosisState) -> DiagnosisState | None:
        """Returns the first open incident of the same condition that this one, a root, explains: it is one fault.

        So too much load of a pool is one incident while it lasts, whichever replica it shows on.
        """
        if incident.explanation is not None:
            return None
        sharers = (
            one
            for one in self._explained.get(incident.id, ())
            if one.is_open and one.condition == incident.condition and not one.merged_into
        )
        return min(sharers, key=lambda one: one.sort_key, default=None)

    def _is_continuation(self, incident: DiagnosisState, alert: Alert) -> bool:
        """Whether an alert continues an incident that has just ended on another member of its group."""
        resolved_at = incident.resolved_at
        ended = resolved_at is not None and abs(alert.since - resolved_at) <= self.timing.hand_over_s
        return ended and self._are_siblings(incident, alert.condition, alert.entity)

    def _are_siblings(self, incident: DiagnosisState, condition: str, entity: Entity) -> bool:
        own = incident.primary_entity
        alike = incident.condition == condition and own.kind == entity.kind and own != entity
        if not alike or entity.kind not in NODE_BOUND:
            return False
        return not self.locality.location_of(own).groups.isdisjoint(self.locality.location_of(entity).groups)

    def _move(self, t: float, incident: DiagnosisState, to: Entity) -> None:
        self._by_primary_entity[incident.condition, incident.primary_entity].remove(incident)
        self._by_primary_entity.setdefault((incident.condition, to), []).append(incident)
        self._change_primary(t, incident, to)

    def _change_primary(self, t: float, incident: DiagnosisState, to: Entity) -> None:
        self._has_moved = True
        old, new = (self.locality.display_name(entity)[1] for entity in (incident.primary_entity, to))
        self.lifecycle.record_change(t, incident, f"moved from {old} to {new}")
        # The alternatives at the new place are others.
        incident.primary_entity, incident.comparison_count = to, 0
        self._add_sibling(self._begun, incident)
        incident.compared_at, incident.needs_comparison = -math.inf, True
