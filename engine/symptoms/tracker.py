"""Symptoms as incidents: deviations of one place and time are one symptom, named after the one that says most."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from skewscope.engine.incidents.state import incident_id
from skewscope.engine.model.incident import (
    SYMPTOM,
    Advice,
    BlastRadius,
    Explanation,
    Impact,
    Incident,
    IncidentChange,
    IncidentEvidence,
    rfc3339,
)
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.symptoms.causes import Candidate, CauseModel
from skewscope.engine.symptoms.cells import ROLES, SampleSource
from skewscope.engine.symptoms.detector import SymptomDetector
from skewscope.engine.symptoms.deviation import MOVING, PAST, PEERS, REPEATS, ZERO, Deviation, DeviationKey
from skewscope.kb.model import Catalogue

CLEAR_S = 10.0
"""A symptom ends when nothing of it has held for so many seconds."""
COOL_DOWN_S = 30.0
"""A symptom that appears again at its place within this time is the same one."""
EXPLAIN_S = 60.0
"""A diagnosis explains symptoms at its place that begin up to so many seconds after it has resolved."""
MAX_PORTS = 16
"""Ports of a node beyond which it is a switch: its ports fail one by one."""
MAX_EVIDENCE = 12
MAX_ALSO = 32
ADVISED_PROBABILITY = 0.3
"""Mitigations of candidates from this probability on are advised."""
CONFIDENCE = {PEERS: 0.8, ZERO: 0.8, REPEATS: 0.8, MOVING: 0.7, PAST: 0.7}
"""That something is really wrong, by form. Judgement, not calibrated; what follows the load is less sure."""
LOAD_CONFIDENCE = 0.5
LOAD_ROLES = frozenset({"wait", "latency", "queue", "pressure", "throughput", "utilisation", "workload", "spread"})
FORM_ORDER = (PEERS, ZERO, REPEATS, MOVING, PAST)


@dataclass
class SymptomState:
    """One symptom and what was found of it."""

    id: str
    opened_at: float
    primary: Deviation
    tokens: set[str]
    deviations: dict[DeviationKey, Deviation]
    """All that were ever found, as they last were."""
    active: set[DeviationKey]
    resolved_at: float | None = None
    ended_at: float = math.inf
    """When nothing of it held any more; infinite while something does."""
    candidates: tuple[Candidate, ...] = ()
    ranked_count: int = 0
    """Deviations from which the candidates were last worked out."""
    decides: str = ""
    explanation: Explanation | None = None
    history: list[tuple[float, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DiagnosedPlace:
    """Where a diagnosis is, and until when."""

    id: str
    resolved_at: float | None
    entities: tuple[Entity, ...]


@dataclass
class SymptomTracker:
    """All symptoms of a run."""

    state: SampleSource
    catalogue: Catalogue
    locality: LocalityIndex
    detector: SymptomDetector = field(init=False)
    symptoms: dict[str, SymptomState] = field(default_factory=dict)
    """By id, in the order of their opening."""

    def __post_init__(self) -> None:
        self.detector = SymptomDetector(self.state, self.locality.topology)
        self._causes = CauseModel(self.catalogue)
        self._owner: dict[DeviationKey, str] = {}
        """Id of the symptom of each deviation that holds."""
        self._changes: list[IncidentChange] = []
        self._tokens: dict[Entity, frozenset[str]] = {}
        self._cells_at: dict[str, list[int]] = {}
        """The cells of each token of a place."""
        self._cells_seen = 0

    def step(self, t: float, diagnoses: Sequence[DiagnosedPlace]) -> tuple[IncidentChange, ...]:
        """Updates the symptoms after the tick that ends at `t`; returns the changes.

        Args:
            t: end of the tick, seconds since 1970.
            diagnoses: the incidents of the rules that may explain symptoms.
        """
        self.detector.step(t)
        self._index_cells()
        deviations = self.detector.deviations
        touched = {self._assign(t, deviation).id for _, deviation in sorted(deviations.items(), key=_order)}
        for key in self._owner.keys() - deviations.keys():
            del self._owner[key]
        for one in self._open():
            one.active &= deviations.keys()
            one.ended_at = math.inf if one.active else min(one.ended_at, t)
            if one.active:
                self._update(t, one, one.id in touched)
            elif t - one.ended_at >= CLEAR_S:
                one.resolved_at = t
                self._record(t, one, "resolved")
            self._explain(t, one, diagnoses)
        changes, self._changes = tuple(self._changes), []
        return changes

    def next_change(self) -> float:
        """Returns the time in seconds before which a step without samples would change nothing."""
        return min((one.ended_at + CLEAR_S for one in self._open()), default=math.inf)

    def _open(self) -> list[SymptomState]:
        return [one for one in self.symptoms.values() if one.resolved_at is None]

    def _record(self, t: float, one: SymptomState, what: str) -> None:
        one.history.append((t, what))
        self._changes.append(IncidentChange(t, one.id, what))

    # --- deviations of one place

    def _assign(self, t: float, deviation: Deviation) -> SymptomState:
        """Returns the symptom of a deviation; a new one where none is open at its place."""
        key = deviation.key
        if key in self._owner:
            one = self.symptoms[self._owner[key]]
        else:
            tokens = self._tokens_of(deviation.place)
            one = self._near(t, tokens) or self._begin(t, deviation, tokens)
            one.tokens |= tokens
            if one.resolved_at is not None:
                one.resolved_at = None
                self._record(t, one, "found again")
            self._owner[key] = one.id
        one.deviations[key] = deviation
        one.active.add(key)
        return one

    def _near(self, t: float, tokens: Collection[str]) -> SymptomState | None:
        for one in self.symptoms.values():
            is_recent = one.resolved_at is None or t - one.resolved_at <= COOL_DOWN_S
            if is_recent and not one.tokens.isdisjoint(tokens):
                return one
        return None

    def _begin(self, t: float, deviation: Deviation, tokens: Iterable[str]) -> SymptomState:
        name = incident_id(self._symptom_of(deviation), deviation.place, t)
        one = self.symptoms[name] = SymptomState(name, t, deviation, set(tokens), {}, set())
        self._record(t, one, "opened")
        return one

    def _update(self, t: float, one: SymptomState, is_touched: bool) -> None:
        best = min((one.deviations[key] for key in one.active), key=_rank)
        if _rank(best)[:2] < _rank(one.primary)[:2]:
            if best.place != one.primary.place:
                self._record(t, one, f"located at {self.locality.display_name(best.place)[1]}")
            one.primary = best
        elif one.primary.key in one.deviations:
            one.primary = max(one.primary, one.deviations[one.primary.key], key=lambda each: each.size)
        if is_touched and one.ranked_count != len(one.deviations):
            self._rank_causes(one)

    def _rank_causes(self, one: SymptomState) -> None:
        cells = self.detector.cells
        here = sorted({n for token in one.tokens for n in self._cells_at.get(token, ())})
        delivered = {cells.signals[n].id for n in here if not math.isnan(cells.time[n])}
        one.ranked_count = len(one.deviations)
        groups = (self.locality.topology.group.get(token.removeprefix("group:")) for token in one.tokens)
        kinds = {group.kind for group in groups if group is not None}
        one.candidates = self._causes.rank(tuple(one.deviations.values()), delivered, kinds)
        one.decides = self._causes.decisive_signal(one.candidates)

    # --- places

    def _tokens_of(self, place: Entity) -> frozenset[str]:
        """Returns what deviations share that belong together: the entity, its node and its groups."""
        found = self._tokens.get(place)
        if found is None:
            found = self._tokens[place] = self._find_tokens(place)
        return found

    def _find_tokens(self, place: Entity) -> frozenset[str]:
        location = self.locality.location_of(place)
        topology = self.locality.topology
        port = topology.port.get(place.name) if place.kind == "port" else None
        if port is None:
            return location.self_tokens | location.nodes | location.groups
        ends = {f"port:{port.peer}"} if port.peer else set()
        nodes = {f"node:{port.node}"} if len(topology.node[port.node].ports) <= MAX_PORTS else set()
        return location.self_tokens | ends | nodes | location.groups

    def _index_cells(self) -> None:
        cells = self.detector.cells
        for n in range(self._cells_seen, len(cells)):
            for token in self._tokens_of(cells.places[n]):
                self._cells_at.setdefault(token, []).append(n)
        self._cells_seen = len(cells)

    # --- diagnoses

    def _explain(self, t: float, one: SymptomState, diagnoses: Sequence[DiagnosedPlace]) -> None:
        if one.explanation is not None:
            return
        for diagnosis in diagnoses:
            ended = diagnosis.resolved_at
            if ended is not None and one.opened_at - ended > EXPLAIN_S:
                continue
            if not one.tokens.isdisjoint(self._diagnosed_tokens(diagnosis.entities)):
                one.explanation = Explanation(diagnosis.id, "caused")
                self._record(t, one, f"explained by {diagnosis.id}")
                return

    def _diagnosed_tokens(self, entities: Iterable[Entity]) -> set[str]:
        """Returns the tokens of all places that a diagnosis may explain; a pool reaches its replicas."""
        found: set[str] = set()
        for entity in entities:
            location = self.locality.location_of(entity)
            found |= self._tokens_of(entity) | location.groups
            if entity.kind in ("pool", "fleet"):
                pools = self.locality.topology.pools
                replicas = (
                    name
                    for pool in pools
                    if entity.kind == "fleet" or pool.name == entity.name
                    for name in pool.replicas
                )
                found |= {f"group:{name}" for name in replicas}
        return found

    def _symptom_of(self, deviation: Deviation) -> str:
        """Returns the id of the symptom that a deviation shows in its form."""
        entry = self.catalogue.symptoms.get(deviation.symptom)
        return entry.instead.get(deviation.form, entry.id) if entry else deviation.symptom

    # --- results

    def list_incidents(self, known: Mapping[str, Incident]) -> list[Incident]:
        """Returns all symptoms as incidents; `known` are the diagnoses by id, which may have roots of their own."""
        return [self._to_incident(one, known) for one in self.symptoms.values()]

    def forget(self, before: float) -> None:
        """Drops the symptoms that resolved before a time."""
        kept = {n: one for n, one in self.symptoms.items() if one.resolved_at is None or one.resolved_at >= before}
        self.symptoms = kept

    def _to_incident(self, one: SymptomState, known: Mapping[str, Incident]) -> Incident:
        kind, name = self.locality.display_name(one.primary.place)
        symptom = self._symptom_of(one.primary)
        entry = self.catalogue.symptoms.get(symptom)
        places = sorted({deviation.place for deviation in one.deviations.values()} - {one.primary.place})
        top = one.candidates[0] if one.candidates else None
        explanation = one.explanation
        if explanation is not None:
            root = known.get(explanation.id)
            explanation = Explanation(root.root_id or root.id, explanation.relation) if root else None
        judged = one.primary.signal.judged
        follows_load = judged is not None and judged.role in LOAD_ROLES
        return Incident(
            id=one.id,
            condition=symptom,
            kind=kind,
            name=name,
            state="firing" if one.resolved_at is None else "resolved",
            opened_at=one.opened_at,
            resolved_at=one.resolved_at,
            severity=entry.severity if entry else "info",
            confidence=LOAD_CONFIDENCE if follows_load else CONFIDENCE[one.primary.form],
            coverage=_coverage(top),
            impact=_impact(one.primary),
            blast_radius=self._blast_radius(one),
            rule="",
            rule_hash="",
            also=self._also(name, places),
            evidence=tuple(_to_evidence(each) for each in sorted(one.deviations.values(), key=_rank)[:MAX_EVIDENCE]),
            against=tuple(_normal(signal) for signal in (top.normal if top else ())),
            unseen=top.unseen if top else (),
            candidates=tuple(each.condition for each in one.candidates),
            probabilities=tuple(each.probability for each in one.candidates),
            decides=one.decides,
            summary=self._summary(one, name),
            explained_by=explanation,
            mitigations=self._advice(one) if explanation is None else (),
            history=tuple(one.history),
            category=SYMPTOM,
        )

    def _also(self, name: str, places: Iterable[Entity]) -> tuple[str, ...]:
        names = sorted({self.locality.display_name(place)[1] for place in places} - {name})
        return tuple(names[:MAX_ALSO])

    def _blast_radius(self, one: SymptomState) -> BlastRadius:
        return self.locality.blast_radius({deviation.place for deviation in one.deviations.values()})

    def _summary(self, one: SymptomState, name: str) -> str:
        deviation, entry = one.primary, self.catalogue.symptoms.get(self._symptom_of(one.primary))
        template = entry.title if entry else "{signal} of {entity} is abnormal since {since}: {after} {unit}."
        unit = deviation.signal.unit + ("/s" if deviation.signal.type == "counter" else "")
        text = template.format(
            entity=name,
            signal=deviation.signal.name,
            ratio=_number(deviation.ratio),
            before=_number(deviation.before),
            after=_number(deviation.value),
            unit="" if unit in ("1", "{state}") else unit,
            since=rfc3339(deviation.since)[11:19],
        )
        text = text.replace(" ,", ",").replace(" .", ".").replace(" :", ":")
        return text if text.startswith(name) else text[:1].upper() + text[1:]

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


def _order(item: tuple[DeviationKey, Deviation]) -> tuple[object, ...]:
    return (*_rank(item[1]), item[0])


def _rank(deviation: Deviation) -> tuple[object, ...]:
    """Sorts the deviation after which a symptom is named first: by role, then form, then size."""
    judged = deviation.signal.judged
    role = ROLES.index(judged.role) if judged is not None and judged.role in ROLES else len(ROLES)
    return role, FORM_ORDER.index(deviation.form), -deviation.size, deviation.since, deviation.key


def _to_evidence(deviation: Deviation) -> IncidentEvidence:
    against = {PEERS: "its peers", MOVING: "the median of its peers", ZERO: "its siblings", REPEATS: "its past"}
    text = f"{deviation.signal.name} of {deviation.place.name} against {against.get(deviation.form, 'its past')}"
    unit = deviation.signal.unit + ("/s" if deviation.signal.type == "counter" else "")
    value = deviation.value if math.isfinite(deviation.value) else None
    return IncidentEvidence(text, "yes", 1.0, value, unit, deviation.signal.id)


def _normal(signal: str) -> IncidentEvidence:
    return IncidentEvidence(f"{signal} is normal", "yes", 1.0, None, "", signal)


def _impact(deviation: Deviation) -> Impact:
    change = deviation.ratio - 1 if deviation.before else None
    return Impact(deviation.signal.id, None if change is None or not math.isfinite(change) else round(change, 3), "1")


def _coverage(top: Candidate | None) -> float:
    if top is None:
        return 0.0
    seen, unseen = len(top.explained) + len(top.normal), len(top.unseen)
    return seen / (seen + unseen)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
