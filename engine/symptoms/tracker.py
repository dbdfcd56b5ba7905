"""Symptoms as incidents: deviations of one place and time are one symptom, named after the one that says most.

Its candidates are the probabilities of the conditions given what is seen (`causes`).
"""

import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from skewscope.engine.attribution.likely_causes import Candidate, CauseModel
from skewscope.engine.incidents.confidence import HEARSAY_CONFIDENCE
from skewscope.engine.incidents.result_cache import IncidentCache
from skewscope.engine.incidents.senders import SenderFinder
from skewscope.engine.incidents.state import MAX_OPENED, DiagnosedPlace, incident_id
from skewscope.engine.model.incident import (
    SYMPTOM,
    Advice,
    Explanation,
    Incident,
    IncidentChange,
    IncidentEvidence,
    extend_history,
)
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.symptoms.detector import SymptomDetector
from skewscope.engine.symptoms.deviation import LESS, PAST, PEERS, SHARES, TOTAL, Deviation, DeviationKey
from skewscope.engine.symptoms.places import ExplainingPlaces, PlaceTokens
from skewscope.engine.symptoms.progress import PART_SIGNAL, STEP_SIGNAL
from skewscope.engine.symptoms.samples import SampleSource
from skewscope.engine.symptoms.state import OpenSymptoms, SymptomState
from skewscope.engine.symptoms.summaries import summarise
from skewscope.kb.model import Catalogue

LEVELS = frozenset({"up", "down"})
"""Directions of deviations that may follow one another in one series."""
CLEAR_S = 10.0
"""A symptom ends when nothing of it has held for so many seconds."""
COOL_DOWN_S = 30.0
"""A symptom that appears again at its place within this time is the same one; another one there is told by itself."""
EXPLAIN_S = 60.0
"""A diagnosis explains symptoms at its place that begin up to so many seconds after it has resolved."""
STAGE_KIND = "data-parallel"
"""The members of such a group are one stage of several pipelines."""
INDEXED_PER_TICK = 5000
MAX_EVIDENCE = 12
MAX_ALSO = 32
ADVISED_PROBABILITY = 0.3
"""Mitigations of candidates from this probability on are advised."""
CONFIDENCE = 0.9
"""That something is really wrong. Fitted on the simulated corpus at medium severity, seed 7, where all of 100 symptoms
that no diagnosis explained were right: 0.9 is the one-sided lower bound, at 95 %, of the smallest class, 31 of 31
symptoms of signals that follow the load (0.05 ** (1 / 31))."""
TOTAL_CONFIDENCE = 0.5
"""...where all that is known are sums since counters began: they may be of a fault that is over (judgement)."""


@dataclass
class SymptomTracker:
    """All symptoms of a run."""

    state: SampleSource
    catalogue: Catalogue
    locality: LocalityIndex
    detector: SymptomDetector = field(init=False)
    senders: SenderFinder | None = None
    """Finds on whose telemetry a symptom rests; None: that is not known."""
    symptoms: dict[str, SymptomState] = field(default_factory=dict)
    """By id, in the order of their opening."""

    def __post_init__(self) -> None:
        self.detector = SymptomDetector(self.state, self.locality.topology)
        self._causes = CauseModel(self.catalogue)
        self._owner: dict[DeviationKey, str] = {}
        """Id of the symptom of each deviation that holds."""
        self._reachable = OpenSymptoms()
        """Those that a deviation may become a part of."""
        self._changes: list[IncidentChange] = []
        self._tokens = PlaceTokens(self.locality)
        self._explaining = ExplainingPlaces(self._tokens)
        self._cache = IncidentCache()
        self._cells_at: dict[str, array[int]] = {}
        """The cells by the names of the nodes that they lie on; '' for none."""
        self._cells_seen = 0
        self._t = -math.inf
        self._may_open = MAX_OPENED
        """How many symptoms may open in this tick."""
        self._unread_until = -math.inf
        """Time until which samples wait for the turn of their cells."""

    def step(
        self, t: float, diagnoses: Iterable[DiagnosedPlace], *, sampled: bool = True
    ) -> tuple[IncidentChange, ...]:
        """Updates the symptoms after the tick that ends at `t`; returns the changes.

        Args:
            t: end of the tick, seconds since 1970.
            diagnoses: the incidents of the rules that may explain symptoms.
            sampled: whether samples came in the tick.
        """
        # Where cells take turns, the samples of a tick are read until each had its turn.
        if sampled and self.detector.cells.turns > 1:
            self._unread_until = t + self.detector.cells.turns
        self._t = t
        self.detector.step(t)
        return self._follow(t, diagnoses)

    def conclude(self, t: float, diagnoses: Iterable[DiagnosedPlace]) -> tuple[IncidentChange, ...]:
        """Ends the data at the tick that was processed last, `t`; returns the changes."""
        self.detector.conclude()
        return self._follow(t, diagnoses)

    def _follow(self, t: float, diagnoses: Iterable[DiagnosedPlace]) -> tuple[IncidentChange, ...]:
        """Brings the symptoms in line with the deviations that hold at a time; returns the changes."""
        self._index_cells(INDEXED_PER_TICK)
        self._reachable.forget_before(t - COOL_DOWN_S)
        deviations = self.detector.deviations
        stages = self._find_late_stages(deviations.values())
        is_known = not stages and deviations.keys() <= self._owner.keys()
        # The order decides which symptom a new one becomes a part of.
        ranked = deviations.values() if is_known else sorted(deviations.values(), key=lambda one: one.rank)
        self._may_open = MAX_OPENED
        changed = {self._assign(t, deviation, stages.get(deviation.place, frozenset())) for deviation in ranked}
        for key in self._owner.keys() - deviations.keys():
            id_ = self._owner.pop(key)
            self.symptoms[id_].active.discard(key)
            changed.add(id_)
        self._explaining.update(tuple(diagnoses))
        for one in self._reachable.list_open():
            one.ended_at = math.inf if one.active else min(one.ended_at, t)
            if one.active:
                if one.is_hearsay or one.id in changed:
                    self._update(t, one)
            elif t - one.ended_at >= CLEAR_S:
                one.resolved_at = t
                self._record(t, one, "resolved")
            if one.explanation is None:
                self._explain(t, one)
        changes, self._changes = tuple(self._changes), []
        return changes

    def next_change(self) -> float:
        """Returns the time in seconds before which a step without samples would change nothing."""
        cleared = min((one.ended_at + CLEAR_S for one in self._reachable.list_open()), default=math.inf)
        is_due = self._t < self._unread_until or self._may_open <= 0
        return min(cleared, self.detector.steps.next_stop, self._t if is_due else math.inf)

    def take_over(self, symptoms: Mapping[str, SymptomState], owners: Mapping[DeviationKey, str], t: float) -> None:
        """Goes on with symptoms of another tracker, the owners of the deviations that hold, and its time."""
        self.symptoms, self._owner, self._t = dict(symptoms), dict(owners), t
        for one in self.symptoms.values():
            self._reachable.add(one)

    def _record(self, t: float, one: SymptomState, what: str) -> None:
        one.history = extend_history(one.history, t, what)
        self._changes.append(IncidentChange(t, one.id, what))

    # --- deviations of one place

    def _find_late_stages(self, deviations: Iterable[Deviation]) -> Mapping[Entity, frozenset[str]]:
        """Returns tokens of stages of pipelines of which every member is late among its own pipeline, by late place."""
        late: dict[str, set[Entity]] = {}
        for one in deviations:
            if one.form == PEERS and one.direction == "up" and one.signal.id == PART_SIGNAL:
                for node in self.locality.nodes_of(one.place.kind, one.place.name):
                    late.setdefault(node, set()).add(one.place)
        found: dict[Entity, frozenset[str]] = {}
        for group in self.locality.topology.groups if len(late) > 1 else ():
            places = [late.get(self.locality.topology.node_of[member], set()) for member in group.members]
            if group.kind == STAGE_KIND and len(places) > 1 and all(places):
                found |= {place: frozenset({f"group:{group.name}"}) for place in set().union(*places)}
        return found

    def _assign(self, t: float, deviation: Deviation, stage: Collection[str]) -> str:
        """Makes a deviation a part of a symptom; a new one where none is open at its place, or in its late stage.

        Returns the id of the symptom, '' if it stays as it is, or has to wait for the next tick to open.
        """
        key = deviation.key
        if key in self._owner:
            one = self.symptoms[self._owner[key]]
            self._reachable.extend(one, stage)
            if one.deviations.get(key) == deviation and key in one.active:
                return ""
        else:
            tokens = self._tokens.of(deviation.place) | {*stage}
            if deviation.form in (SHARES, LESS):
                name, topology = deviation.place.name, self.locality.topology
                # One hash of a switch places the flows of all its bundles; what they lead to is lost to all of one.
                tokens |= {f"node:{topology.port[name].node}" if deviation.form == SHARES else topology.links_of(name)}
            near = self._near(t, tokens, deviation)
            found = near or self._pool_symptom(deviation)
            if found is None and self._may_open <= 0:
                return ""
            one = found or self._begin(t, deviation, tokens)
            if near is one:
                self._reachable.extend(one, tokens)
            if one.resolved_at is not None:
                one.resolved_at = None
                self._record(t, one, "found again")
            self._owner[key] = one.id
        before = one.deviations.get(key, deviation)
        one.deviations[key] = _keep_worse(before, deviation)
        if one.deviations[key].direction != before.direction:
            one.ranked_count = -1
        one.active.add(key)
        return one.id

    def _near(self, t: float, tokens: Collection[str], deviation: Deviation) -> SymptomState | None:
        fitting = (one for one in self._reachable.find_near(tokens) if self._may_include(t, one, deviation))
        return min(fitting, key=lambda one: one.resolved_at is not None, default=None)

    def _may_include(self, t: float, one: SymptomState, deviation: Deviation) -> bool:
        """Returns whether a deviation may be part of a symptom: of one that has just ended only if it is the same."""
        if one.resolved_at is None:
            return True
        is_same = deviation.symptom == one.primary.symptom or deviation.key in one.deviations
        return is_same and t - one.resolved_at <= COOL_DOWN_S

    def _pool_symptom(self, deviation: Deviation) -> SymptomState | None:
        """Returns the open symptom of a pool of which a replica's deviation from its past is a part."""
        if deviation.form != PAST or deviation.place.kind != "replica":
            return None
        pools = self.locality.location_of(deviation.place).pools
        of_pools = (one for one in self._reachable.find_near(pools) if f"pool:{one.primary.place.name}" in pools)
        found = (one for one in of_pools if one.resolved_at is None and one.primary.place.kind == "pool")
        alike = (one for one in found if one.primary.form == PAST and one.primary.symptom == deviation.symptom)
        return next(alike, None)

    def _begin(self, t: float, deviation: Deviation, tokens: Iterable[str]) -> SymptomState:
        name = incident_id(self._symptom_of(deviation), deviation.place, t)
        one = self.symptoms[name] = SymptomState(name, t, deviation, set(tokens), {}, set())
        self._reachable.add(one)
        self._may_open -= 1
        self._record(t, one, "opened")
        return one

    def _update(self, t: float, one: SymptomState) -> None:
        best = min((one.deviations[key] for key in one.active), key=lambda one: one.rank)
        is_part = (one.primary.place.kind, best.place.kind) == ("pool", "replica")
        if best.rank[:2] < one.primary.rank[:2] and not is_part:
            if best.place != one.primary.place:
                self._record(t, one, f"located at {self.locality.display_name(best.place)[1]}")
            one.primary = best
        elif one.primary.key in one.deviations:
            one.primary = max(one.primary, one.deviations[one.primary.key], key=lambda each: each.size)
        # A step that came after all was late: it no longer speaks for what stops a job for good.
        passed = [key for key, each in one.deviations.items() if key not in one.active and each.direction == "stops"]
        for key in passed:
            if one.deviations[key].signal.id in (STEP_SIGNAL, PART_SIGNAL):
                del one.deviations[key]
                one.ranked_count = -1
        if one.primary.key not in one.deviations:
            one.primary = best
        if one.is_hearsay or one.ranked_count != len(one.deviations):
            self._find_witnesses(one)
        if one.ranked_count != len(one.deviations):
            self._rank_causes(one)

    def _find_witnesses(self, one: SymptomState) -> None:
        if self.senders is not None:
            worst = sorted(one.deviations.values(), key=lambda each: each.rank)[:MAX_EVIDENCE]
            places = ((each.signal.id, each.place) for each in (one.primary, *worst))
            one.witnesses = self.senders.find_reporters(places)
            one.is_hearsay = self.senders.is_hearsay(one.witnesses, one.primary.place)

    def _rank_causes(self, one: SymptomState) -> None:
        cells = self.detector.cells
        tokens = one.tokens | self._replica_tokens(one.tokens)
        here = self._cells_near(tokens)
        delivered = {cells.signals[n].id for n in here if not math.isnan(cells.time[n])}
        one.ranked_count = len(one.deviations)
        groups = (self.locality.topology.group.get(token.removeprefix("group:")) for token in tokens)
        kinds = {group.kind for group in groups if group is not None}
        machines = {
            node
            for each in one.deviations.values()
            if each.form == PEERS and each.signal.id == PART_SIGNAL
            for node in self.locality.nodes_of(each.place.kind, each.place.name)
        }
        one.candidates = self._causes.rank(tuple(one.deviations.values()), delivered, kinds, len(machines))
        one.decides = self._causes.decisive_signal(one.candidates)

    # --- places

    def _replica_tokens(self, tokens: Collection[str]) -> set[str]:
        """Returns the tokens of the replicas of pools, whose telemetry is that of their pool."""
        return {*self.locality.replicas_of(token for token in tokens if token.startswith("pool:"))}

    def _cells_near(self, tokens: Collection[str]) -> Iterator[int]:
        """Yields the cells whose places share a token with some others."""
        self._index_cells(len(self.detector.cells))
        # A place that shares a group lies on a node of the group, or is no place of one node.
        parts = (token.partition(":") for token in tokens)
        nodes = {""}.union(*(self._nodes_of(kind, name) for kind, _, name in parts))
        places = self.detector.cells.places
        # By the identity of a place: there are many cells of each.
        is_near: dict[int, bool] = {}
        for node in sorted(nodes):
            for cell in self._cells_at.get(node, ()):
                found = is_near.get(id(places[cell]))
                if found is None:
                    found = is_near[id(places[cell])] = not self._tokens.of(places[cell]).isdisjoint(tokens)
                if found:
                    yield cell

    def _nodes_of(self, kind: str, name: str) -> Collection[str]:
        is_group = kind == "group"
        return self.locality.nodes_of_group(name) if is_group else self.locality.nodes_of(kind, name)

    def _index_cells(self, count: int) -> None:
        """Index so many more cells, so that the first symptom does not wait for all of a large fleet."""
        places, end = self.detector.cells.places, min(self._cells_seen + count, len(self.detector.cells))
        for n in range(self._cells_seen, end):
            for node in self.locality.nodes_of(places[n].kind, places[n].name) or ("",):
                self._cells_at.setdefault(node, array("i")).append(n)
        self._cells_seen = end

    # --- diagnoses

    def _explain(self, t: float, one: SymptomState) -> None:
        diagnosis = self._explaining.find(one.tokens, ended_after=one.opened_at - EXPLAIN_S)
        if diagnosis:
            one.explanation = Explanation(diagnosis, "caused")
            self._record(t, one, f"explained by {diagnosis}")

    def _symptom_of(self, deviation: Deviation) -> str:
        """Returns the id of the symptom that a deviation shows in its form."""
        entry = self.catalogue.symptoms.get(deviation.symptom)
        return entry.instead.get(deviation.form, entry.id) if entry else deviation.symptom

    # --- results

    def list_incidents(self, known: Mapping[str, Incident], input_hash: str = "") -> list[Incident]:
        """Returns all symptoms as incidents, the same objects as long as nothing of them changes.

        Args:
            known: the diagnoses by id, which may have roots of their own.
            input_hash: identifies the input.
        """
        return [self._list_incident(one, known, input_hash) for one in self.symptoms.values()]

    def forget(self, before: float) -> None:
        """Drops the symptoms that resolved before a time."""
        kept = {n: one for n, one in self.symptoms.items() if one.resolved_at is None or one.resolved_at >= before}
        self.symptoms = kept
        self._cache.forget_all_but(kept.keys())

    def _list_incident(self, one: SymptomState, known: Mapping[str, Incident], input_hash: str) -> Incident:
        explanation = one.explanation
        if explanation is not None:
            root = known.get(explanation.id)
            explanation = Explanation(_root_id(root), explanation.relation) if root else None
        content = input_hash, explanation, one.content
        return self._cache.get(one.id, content, partial(self._to_incident, one, explanation, input_hash))

    def _to_incident(self, one: SymptomState, explanation: Explanation | None, input_hash: str) -> Incident:
        kind, name = self.locality.display_name(one.primary.place)
        symptom = self._symptom_of(one.primary)
        entry = self.catalogue.symptoms.get(symptom)
        deviations = sorted(one.deviations.values(), key=lambda one: one.rank)
        places = sorted({deviation.place for deviation in deviations} - {one.primary.place})
        top = one.candidates[0] if one.candidates else None
        return Incident(
            id=one.id,
            condition=symptom,
            kind=kind,
            name=name,
            state="firing" if one.resolved_at is None else "resolved",
            opened_at=one.opened_at,
            resolved_at=one.resolved_at,
            severity=entry.severity if entry else "info",
            confidence=_confidence(one),
            coverage=_coverage(top),
            impact=one.primary.impact(),
            blast_radius=self.locality.blast_radius({*places, one.primary.place}),
            rule="",
            rule_hash="",
            also=tuple(sorted({self.locality.display_name(place)[1] for place in places} - {name})[:MAX_ALSO]),
            evidence=tuple(each.as_evidence() for each in deviations[:MAX_EVIDENCE]),
            against=tuple(_normal(signal) for signal in (top.normal if top else ())),
            unseen=top.unseen if top else (),
            candidates=tuple(each.condition for each in one.candidates),
            probabilities=tuple(each.probability for each in one.candidates),
            decides=one.decides,
            summary=summarise(one.primary, entry, name),
            explained_by=explanation,
            mitigations=self._advice(one) if explanation is None else (),
            input_hash=input_hash,
            history=one.history,
            category=SYMPTOM,
            witnesses=one.witnesses,
        )

    def _advice(self, one: SymptomState) -> tuple[Advice, ...]:
        found: dict[str, Advice] = {}
        for candidate in one.candidates:
            if candidate.probability < ADVISED_PROBABILITY:
                continue
            condition = self.catalogue.conditions[candidate.condition]
            for name in condition.mitigations:
                actor = self.catalogue.mitigations[name].actor
                found.setdefault(name, Advice(name, actor, f"if it is {condition.name}"))
        return tuple(found.values())


def _keep_worse(before: Deviation, now: Deviation) -> Deviation:
    """Returns the larger one of two deviations of one series; a level that returns may be on the other side at last."""
    are_levels = before.direction in LEVELS and now.direction in LEVELS
    return before if are_levels and before.size > now.size else now


def _confidence(one: SymptomState) -> float:
    if one.is_hearsay:
        return HEARSAY_CONFIDENCE
    return TOTAL_CONFIDENCE if all(each.form == TOTAL for each in one.deviations.values()) else CONFIDENCE


def _root_id(diagnosis: Incident) -> str:
    return diagnosis.explained_by.id if diagnosis.explained_by else diagnosis.id


def _normal(signal: str) -> IncidentEvidence:
    return IncidentEvidence(f"{signal} is normal", "yes", 1.0, None, "", signal)


def _coverage(top: Candidate | None) -> float:
    if top is None:
        return 0.0
    seen, unseen = len(top.explained) + len(top.normal), len(top.unseen)
    return seen / (seen + unseen)
