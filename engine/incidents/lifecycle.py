"""Incidents: what fires becomes cases that open, move, fold, are explained, resolve and come back.

Pure: times come with the verdicts. The order in which verdicts are given changes nothing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from skewscope.engine.advice.advice import ContextFact, build_facts, rank_advice
from skewscope.engine.advice.matcher import PolicyEvaluator
from skewscope.engine.advice.policy import Program
from skewscope.engine.attribution.alternatives import AlternativeFinder
from skewscope.engine.attribution.causes import (
    CauseGraph,
    Grouping,
    attribute_candidates,
    group_alerts,
    primary_entity_of,
)
from skewscope.engine.attribution.closeness import AttributionCandidate
from skewscope.engine.attribution.coincidence import find_coincident
from skewscope.engine.attribution.neighbourhood import NeighbourIndex
from skewscope.engine.incidents.state import IncidentState, entities_of, find_final_root, to_incident
from skewscope.engine.judge.alerts import Alert, AlertKey, AlertTracker, RuleInfo
from skewscope.engine.model.incident import SEVERITIES, Advice, BlastRadius, Incident
from skewscope.engine.model.locality import NODE_BOUND, Entity, LocalityIndex
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.verdict import RuleVerdict
from skewscope.kb.model import Catalogue


@dataclass(frozen=True, slots=True)
class IncidentTiming:
    """How long things stay related after they end, in seconds of data time."""

    grouping_s: float = 10.0
    """Those that a silent leader stood for go on under it this long, then speak for themselves."""
    explain_s: float = 20.0
    """A resolved root explains this long: an effect's window is often longer than its cause's."""
    linger_s: float = 60.0
    """What it explained already it goes on to explain this long: a queue that it left has to be worked off."""
    cool_down_s: float = 30.0
    """What fires again within this time is the same incident, one flap more."""
    hand_over_s: float = 15.0
    """What ends on one member of a group as it begins on another has moved: it follows the work, not the machine."""


COMPARISON_INTERVAL_S = 5.0
"""Seconds for which it stands what else an incident could be, however much louder it becomes."""
MIN_ROTATING_MOVES = 2
"""Moves from which on something goes round: once may be chance."""


@dataclass(frozen=True, slots=True, order=True)
class IncidentChange:
    """Something that happened to an incident."""

    t: float
    id: str
    what: str


class IncidentTracker:
    """All incidents of a run, fed with the verdicts of each tick."""

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
        self._cause_graph = CauseGraph(catalogue)
        self._neighbours = NeighbourIndex(self.locality)
        self._alternatives = AlternativeFinder(catalogue, self._cause_graph, self._neighbours, self.alerts)
        self._states: dict[str, IncidentState] = {}
        self._recent: dict[str, IncidentState] = {}
        """Cases that are open or resolved so recently that they still matter."""
        self._coincident_ids: frozenset[str] = frozenset()
        """Ids of those that a surer one at the same place is told instead of."""
        self._by_primary_entity: dict[AlertKey, list[IncidentState]] = {}
        self._groupings: dict[str, dict[Entity, Grouping]] = {}
        self._advice: Mapping[tuple[str, str], tuple[Advice, ...]] = {}
        self._context: tuple[ContextFact, ...] = ()
        self._policy_input: tuple[object, ...] = ()
        self._last_epoch: tuple[object, ...] = ()
        self._changes: list[IncidentChange] = []
        self._to_compare: list[IncidentState] = []
        """Those to be held against what else they could be."""

    def set_context(self, context: Iterable[ContextFact]) -> None:
        """Take what is known from outside, all of it; it counts from the next tick on."""
        self._context = tuple(sorted(set(context)))

    def step(self, t: float, verdicts: Iterable[RuleVerdict]) -> tuple[IncidentChange, ...]:
        """What changed by the verdicts of one tick."""
        self._changes = []
        self.alerts.update(t, verdicts)
        if not (self.alerts.active or self._recent):
            self._neighbours.prepare(self.alerts.current_verdicts())
        else:
            self._evaluate_policies(t)
            self.alerts.drop(t - max(self.timing.grouping_s, self.timing.explain_s))
            if self._epoch(t) != self._last_epoch:
                self._reconcile(t)
                self._last_epoch = self._epoch(t)
            self._recent = {
                c.id: c
                for c in self._recent.values()
                if c.is_open or self._seconds_since_resolved(t, c) <= self._retention_s
            }
        return tuple(self._changes)

    @property
    def _retention_s(self) -> float:
        return max(self.timing.cool_down_s, self.timing.explain_s)

    def _seconds_since_resolved(self, t: float, case: IncidentState) -> float:
        return 0.0 if case.resolved_at is None else t - case.resolved_at

    def _epoch(self, t: float) -> tuple[object, ...]:
        """All that decides how things are related; nothing needs thinking about again while it stays."""
        fading = tuple(sorted(track.key for track in self.alerts.active.values() if self._is_fading(t, track)))
        explaining = tuple(
            sorted(c.id for c in self._recent.values() if self._seconds_since_resolved(t, c) <= self.timing.explain_s)
        )
        due = tuple(sorted(c.id for c in self._recent.values() if c.is_open and self._is_due(t, c)))
        return self.alerts.version, self._context, fading, explaining, tuple(sorted(self._find_lingering(t))), due

    def _is_due(self, t: float, case: IncidentState) -> bool:
        return case.needs_comparison and t - case.compared_at >= COMPARISON_INTERVAL_S

    def _is_fading(self, t: float, track: Alert) -> bool:
        return not track.firing_rules and t - track.cleared_at <= self.timing.grouping_s

    def _evaluate_policies(self, t: float) -> None:
        moves = {(c.condition, c.primary_entity): c.moves for c in self._recent.values() if c.is_open and c.moves}
        now = (self.alerts.version, self._context, moves)
        if now == self._policy_input:
            return
        measured = [
            track for _, track in sorted(self.alerts.active.items()) if track.firing_rules & self.alerts.rules.keys()
        ]
        said = self.policies.evaluate(build_facts(measured, self.locality, self._context, moves))
        self.alerts.derive(t, said)
        shown = {entity.key: self.locality.display_name(entity)[1] for _, entity in self.alerts.active}
        self._advice = rank_advice(said, self.catalogue, shown)
        self._policy_input = (self.alerts.version, self._context, moves)

    def _reconcile(self, t: float) -> None:
        clusters = self._cluster_alerts(t)
        self._by_primary_entity = _index_by_primary_entity(self._recent.values())
        self._to_compare = []
        visited = {
            case.id for key, tracks in sorted(clusters.items()) for case in self._reconcile_cluster(t, key, tracks)
        }
        self._alternatives.compare(t, self._to_compare)
        for case in sorted(self._recent.values(), key=lambda c: c.sort_key):
            if case.is_open and case.id not in visited:
                self._resolve(t, case)
        self._attribute(t)
        told = {c.id for c in self._recent.values() if c.explained_by is None} | self._coincident_ids
        self._alternatives.weigh([c for c in self._recent.values() if c.is_open and c.id in told])

    def _cluster_alerts(self, t: float) -> dict[AlertKey, list[Alert]]:
        """Tracks by condition and the entity that stands for them."""
        alike: dict[str, list[Alert]] = {}
        for key, track in sorted(self.alerts.active.items()):
            if track.firing_rules or self._is_fading(t, track):
                alike.setdefault(key[0], []).append(track)
        self._groupings = {
            c: group_alerts(tracks, self.locality, self._groupings.get(c, {}), partial(self._count_judgeable, c))
            for c, tracks in alike.items()
        }
        clusters: dict[AlertKey, list[Alert]] = {}
        for condition, tracks in alike.items():
            newest = self._newest_when_rotating(condition, tracks)
            for track in tracks:
                leader = newest.get(track.entity) or primary_entity_of(track.entity, self._groupings[condition])
                clusters.setdefault((condition, leader), []).append(track)
        return clusters

    def _count_judgeable(self, condition: str, domain: str, kind: str) -> int:
        """On how many nodes of a domain a condition can be judged."""
        return self._neighbours.count_judgeable(
            (verdict for _, verdict in self.alerts.verdicts_of(condition)), domain, kind
        )

    def _newest_when_rotating(self, condition: str, tracks: Sequence[Alert]) -> Mapping[Entity, Entity]:
        """Where a condition goes round a group, the member that it came to last stands for all of that group."""
        moving = [
            c for c in self._recent.values() if c.is_open and c.condition == condition and c.moves >= MIN_ROTATING_MOVES
        ]
        groups = {
            group: c.primary_entity.kind for c in moving for group in self.locality.location_of(c.primary_entity).groups
        }
        found: dict[Entity, Entity] = {}
        for group, kind in sorted(groups.items()):
            within = [
                t for t in tracks if t.entity.kind == kind and group in self.locality.location_of(t.entity).groups
            ]
            firing = [t for t in within if t.firing_rules]
            if firing:
                newest = max(firing, key=lambda t: (t.since, t.entity)).entity
                found |= {t.entity: newest for t in within}
        return found

    def _reconcile_cluster(self, t: float, key: AlertKey, tracks: Sequence[Alert]) -> list[IncidentState]:
        """The open cases of one cluster, after each has become what it should be: one goes on, others merge into it."""
        firing = any(track.firing_rules for track in tracks)
        led = [case for track in tracks for case in self._by_primary_entity.get(track.key, ())]
        mine = sorted(
            (c for c in led if c.is_open),
            key=lambda c: (c.moves < MIN_ROTATING_MOVES, c.primary_entity != key[1], c.sort_key),
        )
        if not mine and not firing:
            return []
        case = mine[0] if mine else self._open(t, self.alerts.active[key])
        for other in mine[1:]:
            self._merge(t, other, case)
        case.merged_into = ""
        self._update(t, case, self.alerts.active[key], tracks)
        if not firing:
            self._resolve(t, case)
        return [case, *mine[1:]]

    def _open(self, t: float, track: Alert) -> IncidentState:
        """A case for a track: the one that resolved a moment ago, or a new one."""
        recent = [
            c
            for c in self._by_primary_entity.get(track.key, ())
            if self._seconds_since_resolved(t, c) <= self.timing.cool_down_s
        ]
        if recent:
            case = max(recent, key=lambda c: c.sort_key)
            case.resolved_at = None
            case.flaps += 1
            self._record_change(t, case, "fired again")
            return case
        gone = [c for c in self._recent.values() if not c.merged_into and self._is_continuation(c, track)]
        if gone:
            case = max(gone, key=lambda c: c.sort_key)
            case.resolved_at = None
            self._move(t, case, track.entity)
            return case
        case = IncidentState(track.condition, track.entity, t, track.since, track.peak_evidence)
        self._states[case.id] = self._recent[case.id] = case
        case.add_history(track.since, "evidence held")
        self._record_change(t, case, "opened")
        return case

    def _merge(self, t: float, other: IncidentState, case: IncidentState) -> None:
        """One that turned out to be part of another stays told, explained by it."""
        if other.merged_into != case.id:
            other.merged_into = case.id
            self._record_change(t, other, f"part of {case.id}")
        track = self.alerts.active.get((other.condition, other.primary_entity))
        if track is None or not track.firing_rules:
            self._resolve(t, other)

    def _update(self, t: float, case: IncidentState, leader: Alert, tracks: Sequence[Alert]) -> None:
        moved = case.primary_entity != leader.entity
        if moved:
            last = self.alerts.active.get((case.condition, case.primary_entity))
            over = case.moves >= MIN_ROTATING_MOVES or last is None or not last.firing_rules
            case.moves += over and self._are_siblings(case, case.condition, leader.entity)
            self._record_move(t, case, leader.entity)
        case.members |= {track.entity for track in tracks}
        case.since = min(case.since, leader.since)
        case.agreeing_rules = max(case.agreeing_rules, len(leader.evidence_by_rule) - 1)
        if leader.firing_rules:
            # While only others fire under it, what the leader said last stands.
            case.mitigations = self._advice.get((case.condition, case.primary_entity.key), ())
            louder = (
                case.peak_evidence
                if not moved and case.peak_evidence.rank_key() <= leader.peak_evidence.rank_key()
                else leader.peak_evidence
            )
            case.needs_comparison |= louder is not case.peak_evidence
            case.peak_evidence = louder
            if self._is_due(t, case):
                self._to_compare.append(case)
        severity = max(track.severity for track in tracks)
        if severity > case.severity:
            case.severity = severity
            case.add_history(t, SEVERITIES[severity])

    def _resolve(self, t: float, case: IncidentState) -> None:
        heir = self._find_successor(t, case) if case.is_open and not case.merged_into else None
        if heir:
            self._move(t, case, heir.primary_entity)
            case.members |= heir.members
            self._merge(t, heir, case)
        elif case.is_open:
            case.resolved_at = t
            self._record_change(t, case, "resolved")

    # --- what moves

    def _find_successor(self, t: float, case: IncidentState) -> IncidentState | None:
        """The incident of another member that began as this one ends."""
        began = [c for c in self._recent.values() if c.is_open and not c.merged_into and c.sort_key > case.sort_key]
        near = [c for c in began if t - c.since <= self.timing.hand_over_s]
        heirs = [c for c in near if self._are_siblings(case, c.condition, c.primary_entity)]
        return min(heirs, key=lambda c: c.sort_key, default=None)

    def _is_continuation(self, case: IncidentState, track: Alert) -> bool:
        """Whether what begins now is an incident that has just ended on another member of its group."""
        ended = case.resolved_at is not None and abs(track.since - case.resolved_at) <= self.timing.hand_over_s
        return ended and self._are_siblings(case, track.condition, track.entity)

    def _are_siblings(self, case: IncidentState, condition: str, entity: Entity) -> bool:
        alike = (
            case.condition == condition and case.primary_entity.kind == entity.kind and case.primary_entity != entity
        )
        if not alike or entity.kind not in NODE_BOUND:
            return False
        return not self.locality.location_of(case.primary_entity).groups.isdisjoint(
            self.locality.location_of(entity).groups
        )

    def _move(self, t: float, case: IncidentState, to: Entity) -> None:
        self._by_primary_entity[case.condition, case.primary_entity].remove(case)
        self._by_primary_entity.setdefault((case.condition, to), []).append(case)
        case.moves += 1
        self._record_move(t, case, to)

    def _record_move(self, t: float, case: IncidentState, to: Entity) -> None:
        self._record_change(
            t,
            case,
            f"moved from {self.locality.display_name(case.primary_entity)[1]} to {self.locality.display_name(to)[1]}",
        )
        # What else it could be there is another question.
        case.primary_entity, case.comparison_count, case.compared_at, case.needs_comparison = to, 0, -math.inf, True

    def _attribute(self, t: float) -> None:
        """Lay the causal graph over what fires, and over what resolved a moment ago."""
        near = [
            c
            for c in self._recent.values()
            if not c.merged_into and self._seconds_since_resolved(t, c) <= self.timing.explain_s
        ]
        suspects = [_to_candidate(case) for case in near]
        roots = self._find_lingering(t) | attribute_candidates(suspects, self._cause_graph, self.locality)
        settled = {c.id for c in near if not c.is_open and c.explained_by}
        signs = find_coincident([s for s in suspects if s.id not in roots and s.id not in settled], self.locality)
        self._coincident_ids = frozenset(signs)
        roots |= signs
        for case in sorted(self._recent.values(), key=lambda c: c.sort_key):
            if case.merged_into:
                self._set_root(t, case, case.merged_into)
            elif case.is_open or case.id in roots or self._is_cyclic(case, roots):
                # What is over keeps its explanation, though the root be long over too.
                self._set_root(t, case, roots.get(case.id))

    def _find_lingering(self, t: float) -> dict[str, str]:
        """What began under that which explained it, and goes on although that is over."""
        found = {}
        for case in self._recent.values():
            root = self._states.get(case.explained_by or "") if case.is_open and not case.merged_into else None
            if root is None or root.resolved_at is None or case.since > root.resolved_at:
                continue
            if self._seconds_since_resolved(t, root) <= self.timing.linger_s:
                found[case.id] = root.id
        return found

    def _is_cyclic(self, case: IncidentState, roots: Mapping[str, str]) -> bool:
        """Whether what explained a case is now explained by it."""
        above, seen = case.explained_by, {case.id}
        while above is not None and above in self._states and above not in seen:
            seen.add(above)
            above = roots.get(above, self._states[above].explained_by)
        return above == case.id

    def _set_root(self, t: float, case: IncidentState, root: str | None) -> None:
        if case.explained_by != root:
            case.explained_by = root
            self._record_change(t, case, f"explained by {root}" if root else "a root again")

    def _record_change(self, t: float, case: IncidentState, what: str) -> None:
        case.add_history(t, what)
        self._changes.append(IncidentChange(t, case.id, what))

    def list_incidents(self) -> list[Incident]:
        """Every incident that ever fired, oldest first."""
        roots = {case.id: find_final_root(case, self._states) for case in self._states.values()}
        under: dict[str, list[IncidentState]] = {}
        for case in self._states.values():
            under.setdefault(roots[case.id] or case.id, []).append(case)
        ordered = sorted(self._states.values(), key=lambda c: c.sort_key)
        return [self._to_incident(c, roots[c.id], under.get(c.id, [c])) for c in ordered]

    def _to_incident(self, case: IncidentState, root: str | None, under: Sequence[IncidentState]) -> Incident:
        others = {other.condition for other in under} - {case.condition}
        return to_incident(case, self.locality, root, self._blast_radius(case, under), others)

    def _blast_radius(self, case: IncidentState, under: Iterable[IncidentState]) -> BlastRadius:
        """A root hits whatever it explains, too."""
        return self.locality.blast_radius(entities_of([case, *under]))

    def list_pending(self) -> list[Incident]:
        """What holds but not yet for long enough to fire. To be asked right after `step`."""
        found: dict[AlertKey, IncidentState] = {}
        for key, since, voice in self.alerts.iter_pending():
            track = self.alerts.active.get(key)
            if (track is None or not track.firing_rules) and key not in found:
                found[key] = IncidentState(*key, since, since, voice)
        cases = sorted(found.values(), key=lambda c: (c.opened_at, c.condition, c.primary_entity))
        return [
            replace(
                to_incident(c, self.locality, None, self.locality.blast_radius([c.primary_entity])), state="pending"
            )
            for c in cases
        ]

    def forget(self, before: float) -> None:
        """Drop incidents that resolved before a time, but for those that still explain others."""
        kept = {c.id for c in self._states.values() if c.is_open or self._last_active_at(c) >= before} | set(
            self._recent
        )
        kept |= {c.explained_by for c in self._recent.values() if c.explained_by in self._states}
        roots = {id_: find_final_root(self._states[id_], self._states) for id_ in kept}
        self._states = {c.id: c for c in self._states.values() if c.id in kept or c.id in roots.values()}
        for case in self._states.values():
            if case.explained_by not in self._states:
                case.explained_by = roots.get(case.id)  # what stood between the two is gone

    def _last_active_at(self, case: IncidentState) -> float:
        return case.opened_at if case.resolved_at is None else case.resolved_at


def _to_candidate(case: IncidentState) -> AttributionCandidate:
    whose = (case.primary_entity, *sorted(case.members - {case.primary_entity}))
    until = math.inf if case.resolved_at is None else case.resolved_at
    return AttributionCandidate(
        case.id, case.condition, whose, case.since, case.peak_evidence.score, case.log_odds, until
    )


def _index_by_primary_entity(cases: Iterable[IncidentState]) -> dict[AlertKey, list[IncidentState]]:
    found: dict[AlertKey, list[IncidentState]] = {}
    for case in cases:
        found.setdefault((case.condition, case.primary_entity), []).append(case)
    return found


def list_for_contract(incidents: IncidentTracker, input_hash: str) -> list[Incident]:
    """All incidents as they are printed: by opening time, then condition, then entity."""

    def order(one: Incident) -> tuple[float, str, str, str, str]:
        return round(one.opened_at, 3), one.condition, one.name, one.kind, one.id

    return sorted((replace(one, input_hash=input_hash) for one in incidents.list_incidents()), key=order)
