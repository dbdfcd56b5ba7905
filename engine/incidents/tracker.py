"""From what is found to incidents, in one step per tick: alerts and findings, lifecycle, attribution, advice."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from skewscope.engine.advice.advice import (
    Conclusion,
    ContextFact,
    FactBuilder,
    FiringDiagnosis,
    PolicyEvaluator,
    Program,
    quantise,
    rank_advice,
)
from skewscope.engine.attribution.alternatives import COMPARISON_INTERVAL_S, AlternativeFinder, count_judgeable
from skewscope.engine.attribution.cause_graph import CauseGraph
from skewscope.engine.attribution.explanation import Explainer
from skewscope.engine.attribution.symptom_explanation import SymptomExplainer
from skewscope.engine.incidents.alert_incidents import AlertIncidents
from skewscope.engine.incidents.alerts import Alert, AlertTracker, DerivedDiagnosis, EvidenceSnapshot, RuleInfo
from skewscope.engine.incidents.confidence import Calibration
from skewscope.engine.incidents.diagnosis import DiagnosisState
from skewscope.engine.incidents.finding_incidents import FindingIncidents
from skewscope.engine.incidents.lifecycle import MAX_OPENED, IncidentLifecycle, SampleTimes
from skewscope.engine.incidents.result_cache import KeyedCache, ResultCache
from skewscope.engine.incidents.senders import RoundJoin, SenderFinder
from skewscope.engine.incidents.state import (
    IncidentRelations,
    IncidentState,
    IncidentTiming,
    final_explanation,
    find_root,
    to_incident,
)
from skewscope.engine.incidents.symptom import SymptomState
from skewscope.engine.model.finding import Finding, FindingBatch, FindingKey
from skewscope.engine.model.incident import Advice, Explanation, Incident, IncidentChange
from skewscope.engine.model.locality import Entity, LocalityIndex, NeighbourIndex
from skewscope.engine.model.topology import GonePlaces, Topology
from skewscope.engine.model.verdict import RuleVerdict
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.places import PlaceTokens
from skewscope.engine.symptoms.roles import CHANGING_POOL
from skewscope.kb.model import Catalogue


class IncidentTracker:
    """All incidents of a run, updated with the verdicts of each tick."""

    def __init__(
        self,
        rules: Mapping[str, RuleInfo],
        catalogue: Catalogue,
        topology: Topology,
        policies: PolicyEvaluator | None = None,
        timing: IncidentTiming | None = None,
        join: RoundJoin | None = None,
        *,
        cells: JudgedCells | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        self.catalogue = catalogue
        self.timing = timing or IncidentTiming()
        self.locality = LocalityIndex(topology)
        self.locality.prepare()
        self.alerts = AlertTracker(rules, self.timing.tick_s)
        self.senders = SenderFinder(catalogue.signals, self.locality, join)
        self._witnessed: dict[str, tuple[EvidenceSnapshot, Entity]] = {}
        """The evidence and entity by which the witnesses of open incidents were found..."""
        self._witnessed_revision = -1
        """...as of which revision..."""
        self._lone = False
        """...and whether another witness may yet agree on one."""
        self.policies = policies or PolicyEvaluator(Program())
        causes = CauseGraph(catalogue)
        self._neighbours = NeighbourIndex(self.locality)
        self._lifecycle = IncidentLifecycle(self.timing)
        self._by_alerts = AlertIncidents(self._lifecycle, self.alerts, self.locality, self._count_judgeable)
        tokens, known = PlaceTokens(self.locality), calibration or Calibration()
        self._by_findings = FindingIncidents(self._lifecycle, catalogue, self.senders, tokens, known, cells)
        self._symptom_explainer = SymptomExplainer(tokens, causes)
        self._alternatives = AlternativeFinder(catalogue, causes, self._neighbours, self.alerts)
        self._explainer = Explainer(causes, self.locality, self.timing)
        self._advice: Mapping[tuple[str, str], tuple[Advice, ...]] = {}
        self._context: tuple[ContextFact, ...] = ()
        self._policy_input: tuple[object, ...] = ()
        self._revision = 0
        """Counts whatever may change the incidents that are listed, or their advice."""
        self._evaluated_revision = -1
        """That of the last evaluation of policies."""
        self._facts = FactBuilder(self.locality)
        self._places = ResultCache[tuple[dict[str, str], dict[str, str]]]()
        self._cache = KeyedCache[str, Incident]()
        self._listed, self._ordered = ResultCache[tuple[Incident, ...]](), ResultCache[tuple[Incident, ...]]()
        self._last_epoch: tuple[object, ...] = ()
        self._firing: list[DiagnosisState] = []
        """The incidents of the last reconciliation whose primary alert fires."""
        self._uncompared = 0
        """How many of them wait for the next tick to be compared."""
        self._t, self._is_settled = -math.inf, False
        """End of the last tick; whether its incidents rest on the same as those of the tick before."""
        self._outcome: tuple[object, ...] = ()
        """What they rest on."""
        self._gone = GonePlaces()
        """What has ended: nothing is told of it."""
        self._masked: dict[str, tuple[RuleVerdict, RuleVerdict]] = {}
        """By rule: its last verdict, and the same without what has ended."""
        self._is_prepared = False
        """Whether the neighbours of all entities that are judged have been looked up."""

    def take_over(self, before: "IncidentTracker", is_known: Callable[[Entity], bool]) -> None:
        """Goes on with the alerts and incidents of another tracker, except those on entities that there are no more."""
        self.alerts.take_over(before.alerts, is_known)
        self._lifecycle.take_over(before._lifecycle, is_known)  # noqa: SLF001 - one of its own kind
        self._by_alerts.take_over(before._by_alerts, is_known)  # noqa: SLF001
        self._by_findings.take_over(before._by_findings)  # noqa: SLF001
        self._context, self._t = before._context, before._t  # noqa: SLF001
        self._revision, self._evaluated_revision = before._revision, before._evaluated_revision  # noqa: SLF001
        self._gone = before._gone  # noqa: SLF001

    def retire(self, t: float, gone: GonePlaces) -> None:
        """Ends the incidents at places that have ended, and tells nothing of them while they are among these."""
        if gone == self._gone:
            return
        self._gone = gone
        self._masked.clear()
        self._revision += 1
        self.alerts.drop_places(gone)
        self._lifecycle.end_places(t, gone.has)
        self._by_findings.forget_owners()

    def _mask(self, verdict: RuleVerdict) -> RuleVerdict:
        """Returns a verdict without what has ended; the same object for the same one, which changes nothing."""
        known = self._masked.get(verdict.rule)
        if known is None or known[0] is not verdict:
            known = self._masked[verdict.rule] = verdict, verdict.without(self._gone)
        known[1].forget_evidence()
        return known[1]

    def set_context(self, context: Iterable[ContextFact]) -> None:
        """Replace the facts that are known from outside; they count from the next tick on."""
        self._context = tuple(sorted(set(context)))

    def follow_samples(self, t: float, sampling: SampleTimes) -> None:
        """Takes in when the samples of all series come, as of the tick that ends at `t`."""
        self._lifecycle.follow_samples(t, sampling)
        self._explainer.explain_s = self._lifecycle.explain_s

    def step(self, t: float, batches: Iterable[FindingBatch]) -> tuple[IncidentChange, ...]:
        """Returns the changes that the findings as of the end of one tick cause.

        Those of rules stay in columns: only what fires, or has just ended, becomes an object.
        """
        self._t = t
        self._lifecycle.begin_tick()
        verdicts, others = [], []
        for batch in batches:
            if isinstance(batch, RuleVerdict):
                verdicts.append(self._mask(batch) if self._gone else batch)
            else:
                others.append(batch)
        self._step_alerts(t, verdicts)
        self._revision += self._lifecycle.expire_recent(t)
        found = (one for batch in others for one in batch if not (self._gone and self._gone.has(one.place)))
        self._by_findings.step(t, _keep_worst(found))
        self._explain_symptoms(t)
        self._compare_symptoms(t)
        return self._lifecycle.take_changes()

    def _step_alerts(self, t: float, verdicts: Iterable[RuleVerdict]) -> None:
        self.alerts.update(t, verdicts)
        if not (self.alerts.active or self._by_alerts.recent):
            if self.alerts.changed or not self._is_prepared:
                self._is_prepared = not self._neighbours.prepare(
                    (verdict.kind, verdict.names) for verdict in self.alerts.current_verdicts()
                )
            return
        held = max((self._lifecycle.hold_s(one) for one in self._by_alerts.recent.values()), default=0.0)
        self.alerts.drop(t - max(self.timing.grouping_s, self._lifecycle.explain_s, held))
        revision = self._revision
        self._reconcile(t)
        self._find_witnesses()
        # Policies match the confidence that the incidents now have. What they derive changes incidents in this tick,
        # and the confidence that policies match in the next one.
        if self._evaluate_policies(t):
            self._reconcile(t)
        if self._revision != revision:
            self._assign_advice()
        before, self._outcome = self._outcome, (self.alerts.version, self._last_epoch, self._policy_input)
        self._is_settled = before == self._outcome

    def next_change(self) -> float:
        """Returns the time in seconds before which the same verdicts and findings change nothing; it may be past."""
        waits = self._t if self._lifecycle.room <= 0 else math.inf
        compared = min(map(self._next_comparison, self._by_findings.recent.values()), default=math.inf)
        return min(self._next_change_of_alerts(), self._by_findings.next_change(), compared, waits)

    def _next_change_of_alerts(self) -> float:
        if not (self.alerts.active or self._by_alerts.recent):
            return math.inf
        # Policies match the confidence of the tick before: the one after a change may change more.
        return min((end for end in self._ends() if end >= self._t), default=math.inf) if self._is_settled else -math.inf

    def _ends(self) -> Iterator[float]:
        """Yields the times in seconds at which an alert or incident becomes too old for something, also past ones."""
        timing, states = self.timing, self._lifecycle.states
        for alert in self.alerts.active.values():
            held = self._by_alerts.hold_s(alert)
            yield from (alert.cleared_at + age for age in (timing.grouping_s, self._lifecycle.explain_s, held))
        for one in self._by_alerts.recent.values():
            yield self._lifecycle.settles_at(one)
            if one.needs_comparison:
                yield max(one.compared_at + COMPARISON_INTERVAL_S, self._t)
            root = find_root(one, states)
            for ended in (one.resolved_at, root.resolved_at if root else None):
                if ended is not None:
                    again = self._lifecycle.cool_down_s(one)
                    lingers = (self._explainer.linger_s(root), self._explainer.drain_s(root)) if root else ()
                    yield from (ended + age for age in (self._lifecycle.explain_s, *lingers, again))

    # --- lifecycle and attribution

    def _reconcile(self, t: float) -> None:
        """Update the incidents, their alternatives and explanations, if their input has changed."""
        before, epoch, waits = self._last_epoch, self._epoch(t), self._by_alerts.waiting > 0
        if epoch == before and not (waits or self._uncompared):
            return
        self._revision += 1
        # Comparisons alone change neither which incidents there are nor what explains them.
        is_same = epoch[:-1] == before[:-1] and not waits
        if not is_same:
            self._firing = self._by_alerts.reconcile(t)
        due = [one for one in self._firing if _is_comparison_due(t, one)]
        self._uncompared = max(len(due) - MAX_OPENED, 0)
        self._alternatives.compare(t, due[:MAX_OPENED])
        if not is_same:
            self._explain(t)
        recent = self._by_alerts.recent.values()
        self._alternatives.weigh([one for one in recent if one.is_open and _is_likely_root(one)])
        effects = (one for one in recent if one.is_open and one.explanation and not one.merged_into)
        self._alternatives.weigh_effects(effects, self._lifecycle.states)
        self._last_epoch = self._epoch(t)

    def _epoch(self, t: float) -> tuple[object, ...]:
        """Returns everything that decides the incidents, comparisons last; while it stays, they stay."""
        recent = self._by_alerts.recent
        fading = tuple(sorted(key for key, alert in self.alerts.active.items() if self._by_alerts.is_fading(t, alert)))
        explain_s = self._lifecycle.explain_s
        explaining = tuple(sorted(one.id for one in recent.values() if one.resolved_age(t) <= explain_s))
        lingering = tuple(sorted(self._explainer.find_lingering(t, recent.values(), self._lifecycle.states)))
        due = tuple(sorted(one.id for one in recent.values() if one.is_open and _is_comparison_due(t, one)))
        messages = tuple((one.id, one.ranked_count) for one in self._by_findings.messages())
        changes = tuple(one.id for one in self._by_findings.pool_changes())
        settling = tuple(sorted(one.id for one in recent.values() if t >= self._lifecycle.settles_at(one)))
        waiting = self._by_alerts.waiting, settling
        return self.alerts.version, self._context, waiting, fading, explaining, lingering, messages, changes, due

    def _count_judgeable(self, condition: str, domain: str, kind: str) -> int:
        verdicts = (verdict for _, verdict in self.alerts.verdicts_of(condition))
        return count_judgeable(self._neighbours, verdicts, domain, kind)

    def _explain(self, t: float) -> None:
        recent = self._by_alerts.recent
        others = self._by_findings.messages(), self._by_findings.pool_changes()
        found = self._explainer.explain(t, recent.values(), self._lifecycle.states, *others)
        changed = [recent[id_] for id_, new in found.items() if recent[id_].explanation != new]
        for incident in sorted(changed, key=lambda one: one.sort_key):
            self._lifecycle.explain(t, incident, found[incident.id])

    def _explain_symptoms(self, t: float) -> None:
        """Explains the symptoms that no diagnosis explains yet, up to the tick in which they resolve."""
        recent = self._by_findings.recent.values()
        for one in self._by_findings.list_outlasting(self._lifecycle.states):
            self._lifecycle.explain(t, one, None)
        left = [one for one in recent if one.explanation is None and one.resolved_age(t) <= 0]
        if not left:
            return
        self._symptom_explainer.update(self._revision, self._by_alerts.recent.values(), self._lifecycle.states)
        changes = self._by_findings.pool_changes()
        for one in left:
            if root := self._symptom_explainer.find(one):
                self._lifecycle.explain(t, one, Explanation(root, "caused"))
            elif change := self._symptom_explainer.find_change(one, changes):
                self._lifecycle.explain(t, one, Explanation(change, "coincident"))

    def _compare_symptoms(self, t: float) -> None:
        """Weighs the causes of new symptoms by their rules, until the windows of these have seen what began."""
        due = [one for one in self._by_findings.recent.values() if self._next_comparison(one) <= t]
        if due:
            self._by_findings.compare(t, self._alternatives.weigh_causes(due[:MAX_OPENED]))

    def _next_comparison(self, one: SymptomState) -> float:
        if not one.is_open or one.explanation or one.compared_at >= one.opened_at + self.timing.explain_s:
            return math.inf
        return one.compared_at + COMPARISON_INTERVAL_S

    # --- advice

    def _evaluate_policies(self, t: float) -> bool:
        """Update the advice and the derived alerts; returns whether alerts changed."""
        if self._revision == self._evaluated_revision:
            return False
        self._evaluated_revision = self._revision
        numbers: list[tuple[Alert, float, int]] = []
        for alert in self.alerts.list_firing():
            incident = self._by_alerts.incident_of.get(alert.key)
            if incident is not None:  # else it waits to open
                moves = incident.moves if incident.moves and incident.primary_entity == alert.entity else 0
                numbers.append((alert, quantise(incident.confidence), moves))
        version = self.alerts.version
        policy_input = (version, self._context, numbers)
        if policy_input == self._policy_input:
            return False
        self._policy_input = policy_input
        self._revision += 1
        self._evaluated_revision = self._revision
        diagnoses = [FiringDiagnosis(*each) for each in numbers]
        conclusions = self.policies.evaluate(self._facts.build(diagnoses, self._context))
        self.alerts.derive(t, _derived_diagnoses(conclusions))
        shown, works = self._places.get(self.alerts.version, self._describe_places)
        suited = [one for one in conclusions if one.suits(works.get(one.entity, ""))]
        self._advice = rank_advice(suited, self.catalogue, shown)
        return self.alerts.version != version

    def _describe_places(self) -> tuple[dict[str, str], dict[str, str]]:
        """Returns by the key of the entity of each alert its name as it is shown, and its kind of work."""
        entities = {alert.entity for alert in self.alerts.active.values()}
        shown = {entity.key: self.locality.display_name(entity)[1] for entity in entities}
        return shown, {entity.key: self.locality.work_of(entity) for entity in entities}

    def _assign_advice(self) -> None:
        """Set the mitigations of the incidents whose primary alert fires; the others keep theirs."""
        for incident in self._by_alerts.recent.values():
            alert = self.alerts.active.get((incident.condition, incident.primary_entity))
            if incident.is_open and not incident.merged_into and alert is not None and alert.firing_rules:
                incident.mitigations = self._advice.get((incident.condition, incident.primary_entity.key), ())

    def _find_witnesses(self) -> None:
        """Finds the witnesses of open incidents: of new evidence, and again while another one may still agree."""
        if self._revision == self._witnessed_revision and not self._lone:
            return
        found: dict[str, tuple[EvidenceSnapshot, Entity]] = {}
        self._lone = False
        for one in self._by_alerts.recent.values():
            if not one.is_open:
                continue
            basis = found[one.id] = one.peak_evidence, one.primary_entity
            may_grow = len(one.witnesses) < 2 and self.senders.is_joined(one.peak_evidence.info)
            if may_grow or self._witnessed.get(one.id) != basis:
                witnesses = self.senders.find_witnesses(*basis)
                self._revision += witnesses != one.witnesses
                one.witnesses, one.is_hearsay = witnesses, self.senders.is_hearsay(witnesses, one.primary_entity)
            self._lone |= may_grow
        self._witnessed, self._witnessed_revision = found, self._revision

    # --- results

    def list_incidents(self, input_hash: str = "") -> tuple[Incident, ...]:
        """Returns every incident that ever fired, oldest first; `input_hash` identifies the input.

        What has not changed since the last call is the same object: each incident, and the tuple of all.
        """
        versions = self._revision, self._lifecycle.version, self._by_findings.version
        found = self._listed.get((versions, input_hash), lambda: tuple(self._list_incidents(input_hash)))
        # Tuples compare the identities of their items first.
        return self._ordered.get(found, lambda: tuple(order_for_contract(found, input_hash)))

    def _list_incidents(self, input_hash: str) -> Iterator[Incident]:
        states = self._lifecycle.states
        roots = {one.id: final_explanation(one, states) for one in states.values() if one.explanation}
        explained: dict[str, list[IncidentState]] = {}
        for id_, root in roots.items():
            if root is not None:
                explained.setdefault(root.id, []).append(states[id_])
        self._cache.forget_all_but(states.keys())
        for one in states.values():
            root, parts = roots.get(one.id), explained.get(one.id, ())
            if one.condition == CHANGING_POOL and not parts:
                continue  # a rollout that brings nothing about is none
            places = tuple((part.condition, part.primary_entity, part.members) for part in parts)
            began = None
            if parts:  # almost all have none
                effects = (part for part in parts if self._is_effect(roots[part.id]))
                began = one.begin_with(effects, self._lifecycle.explain_s)
            relations = IncidentRelations(root, parts, began)
            build = partial(to_incident, one, self.locality, self.catalogue, relations, input_hash)
            yield self._cache.get(one.id, (input_hash, root, places, began, one.content), build)

    @staticmethod
    def _is_effect(link: Explanation | None) -> bool:
        return link is not None and link.relation in ("caused", "merged")

    def forget(self, before: float) -> None:
        """Drop the incidents that resolved before a time, except those that still explain others."""
        self._lifecycle.forget(before)
        self._revision += 1


def order_for_contract(incidents: Iterable[Incident], input_hash: str) -> list[Incident]:
    """Returns incidents as they are printed: by opening time, then condition, then entity."""

    def order(one: Incident) -> tuple[float, str, str, str, str]:
        return round(one.opened_at, 3), one.condition, one.name, one.kind, one.id

    given = (one if one.input_hash == input_hash else replace(one, input_hash=input_hash) for one in incidents)
    return sorted(given, key=order)


def _is_comparison_due(t: float, incident: DiagnosisState) -> bool:
    return incident.needs_comparison and t - incident.compared_at >= COMPARISON_INTERVAL_S


def _is_likely_root(incident: DiagnosisState) -> bool:
    """Whether an incident has no cause; coincident ones remain alternatives to their root."""
    return incident.explanation is None or incident.explanation.relation == "coincident"


def _derived_diagnoses(conclusions: Iterable[Conclusion]) -> list[DerivedDiagnosis]:
    return [DerivedDiagnosis(c.diagnosis, c.subject, c.entity, c.policy, c.hash) for c in conclusions if c.diagnosis]


def _keep_worst(findings: Iterable[Finding]) -> dict[FindingKey, Finding]:
    """Returns the findings by their keys; of several series of a signal at a place, the worst counts, else the last."""
    kept: dict[FindingKey, Finding] = {}
    for one in findings:
        if one.key not in kept or one.size >= kept[one.key].size:
            kept[one.key] = one
    return kept
