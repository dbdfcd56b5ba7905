"""The state of one incident, the grouping of alerts that share it, and its conversion to an `Incident`."""

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from skewscope.engine.incidents.alerts import EvidenceSnapshot, EvidenceSpec
from skewscope.engine.incidents.confidence import HEARSAY_CONFIDENCE, corroborated_log_odds, incident_confidence
from skewscope.engine.ingest.feed import TICK_S
from skewscope.engine.model.incident import (
    SEVERITIES,
    Advice,
    BlastRadius,
    CompetingCondition,
    Explanation,
    History,
    Impact,
    Incident,
    IncidentEvidence,
    extend_history,
)
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.model.verdict import UNKNOWN

MAX_COMPETING = 5
MAX_OPENED = 1000
"""Incidents of a kind that open, and that are compared with alternatives, in one tick; the others follow in the next
ones. So a fault of thousands of places holds up no tick for seconds."""
VERDICT_NAMES = {-1: "no", 0: "unknown", 1: "yes"}


@dataclass(frozen=True, slots=True)
class IncidentTiming:
    """How long incidents stay related after they end, and the length of a tick, in seconds of data time."""

    grouping_s: float = 10.0
    """Entities whose primary entity has cleared stay grouped under it this long, then get an incident of their own."""
    explain_s: float = 20.0
    """A resolved root explains this long: the window of an effect's rule is often longer than its cause's."""
    linger_s: float = 60.0
    """A resolved root keeps what it explains this long: the queue that it left has to drain."""
    cool_down_s: float = 30.0
    """An incident that fires again within this time is the same one; it has flapped."""
    hand_over_s: float = 15.0
    """An incident that ends on one member of a group as it begins on another one has moved."""
    tick_s: float = TICK_S
    """Between two ticks, unless some are left out."""


@dataclass(slots=True)
class IncidentState:
    """The mutable state of one incident."""

    condition: str
    primary_entity: Entity
    """The entity that it is shown on."""
    opened_at: float
    since: float
    peak_evidence: EvidenceSnapshot
    """Its strongest evidence so far."""
    id: str = ""
    """Set when it opens; it stays if another entity becomes the primary one."""
    resolved_at: float | None = None
    severity: int = 0
    agreeing_rules: int = 0
    """Number of further rules that agree."""
    members: frozenset[Entity] = frozenset()
    explanation: Explanation | None = None
    """The incident that explains it directly, as of the last tick."""
    merged_into: str = ""
    """Id of the incident of the same condition that it became a part of."""
    alternatives: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """By condition: its probability instead, and the measurement that separates the two. Replaced, never changed."""
    candidates: tuple[str, ...] = ()
    """Look-alikes and causes that cannot be judged here, because telemetry of their rules is missing."""
    candidate_locations: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(candidate, names of its possible locations) for those that may be somewhere else."""
    comparison_count: int = 0
    """Number of comparisons with alternatives at its current primary entity."""
    compared_at: float = -math.inf
    """When it was last compared with alternatives..."""
    needs_comparison: bool = True
    """...and whether it is due again: its evidence has grown since, or it has just opened."""
    alternative_probability: float = 0.0
    """The highest probability so far of another root that fires in the same place."""
    mitigations: tuple[Advice, ...] = ()
    flaps: int = 0
    moves: int = 0
    """Number of times it ended on one member of a group as it began on another one."""
    history: History = ()
    witnesses: tuple[str, ...] = ()
    """Senders of the telemetry on which it rests, as of its strongest evidence."""
    is_hearsay: bool = False
    """Whether only one other node reports it."""

    def __post_init__(self) -> None:
        self.id = self.id or incident_id(self.condition, self.primary_entity, self.opened_at)

    @property
    def is_open(self) -> bool:
        """Whether it still fires."""
        return self.resolved_at is None

    @property
    def sort_key(self) -> tuple[float, str]:
        """Sorts the oldest first."""
        return self.opened_at, self.id

    @property
    def log_odds(self) -> float:
        """Log-odds by its own evidence and the rules that agree."""
        return corroborated_log_odds(self.peak_evidence.log_odds, self.agreeing_rules)

    @property
    def confidence(self) -> float:
        """The number that is shown and that policies match; see `incidents.confidence`."""
        calibration = self.peak_evidence.info.calibration
        found = incident_confidence(self.log_odds, self.alternative_probability, calibration)
        return min(found, HEARSAY_CONFIDENCE) if self.is_hearsay else found

    @property
    def content(self) -> tuple[object, ...]:
        """All that changes of it and that its `Incident` is made of, but for what explains it and what it explains."""
        return (
            *(self.primary_entity, self.resolved_at, self.severity, self.peak_evidence, self.agreeing_rules),
            *(self.members, self.alternatives, self.alternative_probability, self.candidates),
            *(self.candidate_locations, self.mitigations, self.flaps, self.moves, self.history),
            *(self.witnesses, self.is_hearsay),
        )

    def resolved_age(self, t: float) -> float:
        """Returns the seconds since it resolved, 0 while it is open."""
        return 0.0 if self.resolved_at is None else t - self.resolved_at

    def add_history(self, t: float, what: str) -> None:
        """Append an event."""
        self.history = extend_history(self.history, t, what)


@dataclass(frozen=True, slots=True)
class DiagnosedPlace:
    """Where a diagnosis is, and until when."""

    id: str
    """Of its root."""
    resolved_at: float | None
    entities: tuple[Entity, ...]


def incident_id(condition: str, entity: Entity, opened_at: float) -> str:
    """Returns a short id that depends only on condition, entity and time."""
    text = f"{condition}|{entity.kind}|{entity.name}|{opened_at:.3f}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def to_incident(
    state: IncidentState,
    locality: LocalityIndex,
    root: Explanation | None,
    blast_radius: BlastRadius,
    explained_conditions: Collection[str] = (),
) -> Incident:
    """Returns the incident as it is shown. Only roots have mitigations: they resolve what the root explains, too.

    Args:
        state: the state of the incident.
        locality: the topology.
        root: the root that explains it, None for a root.
        blast_radius: of the incident and of what it explains.
        explained_conditions: the other conditions that it explains.
    """
    kind, name = locality.display_name(state.primary_entity)
    evidence = state.peak_evidence
    items = list(zip(evidence.info.items, evidence.verdicts, evidence.values, strict=True))
    return Incident(
        id=state.id,
        condition=state.condition,
        kind=kind,
        name=name,
        state="firing" if state.is_open else "resolved",
        opened_at=state.opened_at,
        resolved_at=state.resolved_at,
        severity=SEVERITIES[state.severity],
        confidence=state.confidence,
        coverage=_clamp_share(evidence.coverage),
        impact=Impact(evidence.info.impact_metric, round_significant(evidence.impact), evidence.info.impact_unit),
        blast_radius=blast_radius,
        rule=evidence.info.rule,
        rule_hash=evidence.info.hash,
        also=other_entities(state, locality),
        evidence=tuple(_to_evidence(*item) for item in items if not item[0].against),
        against=tuple(_to_evidence(*item) for item in items if item[0].against),
        unseen=unknown_signals(evidence),
        candidates=state.candidates,
        elsewhere=state.candidate_locations,
        competing=rank_alternatives(_discount_explained(state, explained_conditions)),
        explained_by=root,
        mitigations=state.mitigations if root is None else (),
        flaps=state.flaps,
        moves=state.moves,
        history=state.history,
        witnesses=state.witnesses,
    )


def other_entities(state: IncidentState, locality: LocalityIndex) -> tuple[str, ...]:
    """Returns the names of the other affected entities of its kind; of all kinds for a pool or the fleet."""
    own = locality.display_name(state.primary_entity)[1]
    is_whole = state.primary_entity.kind in ("pool", "fleet")
    names = {locality.display_name(m)[1] for m in state.members if is_whole or m.kind == state.primary_entity.kind}
    return tuple(sorted(names - {own}))


def unknown_signals(evidence: EvidenceSnapshot) -> tuple[str, ...]:
    """Returns the signals of the items whose verdict is unknown."""
    items = zip(evidence.info.items, evidence.verdicts, strict=True)
    return tuple(sorted({signal for item, verdict in items if verdict == UNKNOWN for signal in item.signals}))


def rank_alternatives(alternatives: Mapping[str, tuple[float, str]]) -> tuple[CompetingCondition, ...]:
    """Returns the MAX_COMPETING likeliest alternatives, likeliest first."""
    ranked = sorted(alternatives.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple(CompetingCondition(name, round(p, 3), test) for name, (p, test) in ranked[:MAX_COMPETING])


def _discount_explained(state: IncidentState, explained_conditions: Collection[str]) -> dict[str, tuple[float, str]]:
    """Returns the alternatives; one that this incident explains keeps only its share beside the incident."""
    left = 1.0 - state.confidence
    return {
        name: (p * left if name in explained_conditions else p, test) for name, (p, test) in state.alternatives.items()
    }


def _to_evidence(item: EvidenceSpec, verdict: int, value: float) -> IncidentEvidence:
    return IncidentEvidence(
        item.name, VERDICT_NAMES[verdict], item.weight, round_significant(value), item.unit, item.expr
    )


def round_significant(value: float) -> float | None:
    """Returns a measured number with six significant digits, None if it is not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _clamp_share(value: float) -> float:
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0


def entities_of(states: Iterable[IncidentState]) -> set[Entity]:
    """Returns all entities of some incidents."""
    return {entity for state in states for entity in (state.primary_entity, *state.members)}
