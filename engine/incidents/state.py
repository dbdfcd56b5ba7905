"""One incident while it lives, and how it is told."""

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from skewscope.engine.attribution.confidence import ALTERNATIVE_WEIGHT, CORROBORATION, probability
from skewscope.engine.judge.alerts import EvidenceSnapshot, EvidenceSpec
from skewscope.engine.model.incident import (
    SEVERITIES,
    Advice,
    BlastRadius,
    CompetingCondition,
    Impact,
    Incident,
    IncidentEvidence,
)
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.model.verdict import UNKNOWN

MAX_COMPETING = 5
MAX_HISTORY = 200
VERDICT_NAMES = {-1: "no", 0: "unknown", 1: "yes"}


@dataclass(slots=True)
class IncidentState:
    """An incident that the engine still thinks about."""

    condition: str
    primary_entity: Entity
    """The entity that it is told on."""
    opened_at: float
    since: float
    peak_evidence: EvidenceSnapshot
    """What spoke for it when it spoke loudest."""
    id: str = ""
    """Given when it opens and kept, should a louder entity take over."""
    resolved_at: float | None = None
    severity: int = 0
    agreeing_rules: int = 0
    """How many further rules agree."""
    members: set[Entity] = field(default_factory=set)
    explained_by: str | None = None
    merged_into: str = ""
    alternatives: dict[str, tuple[float, str]] = field(default_factory=dict)
    """By condition: how likely it is instead, and what would tell."""
    candidates: tuple[str, ...] = ()
    """Look-alikes and causes that cannot be judged here, for want of what their rules read."""
    candidate_locations: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Which of them may be somewhere else, and the names of where they may be."""
    comparison_count: int = 0
    """How often it was held against what else it could be where it is now."""
    compared_at: float = -math.inf
    """When it was last held against what else it could be..."""
    needs_comparison: bool = True
    """...and whether it is to be once more: it has spoken louder since, or has just come up."""
    alternative_probability: float = 0.0
    """The chance of the likeliest other root that fires here."""
    mitigations: tuple[Advice, ...] = ()
    flaps: int = 0
    moves: int = 0
    """How often it ended on one member of a group as it began on another."""
    history: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.id = self.id or incident_id(self.condition, self.primary_entity, self.opened_at)

    @property
    def is_open(self) -> bool:
        """Whether it fires."""
        return self.resolved_at is None

    @property
    def sort_key(self) -> tuple[float, str]:
        """Sorts the oldest first."""
        return self.opened_at, self.id

    @property
    def log_odds(self) -> float:
        """How much its own evidence speaks for it, with what agrees."""
        return self.peak_evidence.log_odds + CORROBORATION * self.agreeing_rules

    @property
    def confidence(self) -> float:
        """How sure it is."""
        worth = self.peak_evidence.info.calibration
        return probability(
            worth.root_shift + worth.root_scale * (self.log_odds - ALTERNATIVE_WEIGHT * self.alternative_probability)
        )

    def add_history(self, t: float, what: str) -> None:
        """Remember what happened; the middle of a long story is dropped, not its start or end."""
        self.history.append((t, what))
        if len(self.history) > MAX_HISTORY:
            del self.history[MAX_HISTORY // 2]


def incident_id(condition: str, entity: Entity, opened_at: float) -> str:
    """A short id that depends on nothing but what, where and when."""
    text = f"{condition}|{entity.kind}|{entity.name}|{opened_at:.3f}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def to_incident(
    case: IncidentState, places: LocalityIndex, root: str | None, blast: BlastRadius, under: Collection[str] = ()
) -> Incident:
    """The incident as others see it. Advice stands with the root: what mends that mends what it explains.

    Args:
        case: the incident.
        places: the topology.
        root: the id of what explains it, None for a root.
        blast: whom it hits.
        under: the other conditions that it explains.
    """
    kind, name = places.display_name(case.primary_entity)
    voice = case.peak_evidence
    items = list(zip(voice.info.items, voice.verdicts, voice.values, strict=True))
    return Incident(
        id=case.id,
        condition=case.condition,
        kind=kind,
        name=name,
        state="firing" if case.is_open else "resolved",
        opened_at=case.opened_at,
        resolved_at=case.resolved_at,
        severity=SEVERITIES[case.severity],
        confidence=case.confidence,
        coverage=_clamp_share(voice.coverage),
        impact=Impact(voice.info.impact_metric, round_significant(voice.impact), voice.info.impact_unit),
        blast_radius=blast,
        rule=voice.info.rule,
        rule_hash=voice.info.hash,
        also=other_entities(case, places),
        evidence=tuple(_to_evidence(*item) for item in items if not item[0].against),
        against=tuple(_to_evidence(*item) for item in items if item[0].against),
        unseen=unknown_signals(voice),
        candidates=case.candidates,
        elsewhere=case.candidate_locations,
        competing=rank_alternatives(_discount_explained(case, under)),
        explained_by=root,
        mitigations=case.mitigations if root is None else (),
        flaps=case.flaps,
        moves=case.moves,
        history=tuple(case.history),
    )


def other_entities(case: IncidentState, places: LocalityIndex) -> tuple[str, ...]:
    """Names of the others hit: its own kind, or what a pool or the fleet stands for."""
    own = places.display_name(case.primary_entity)[1]
    whole = case.primary_entity.kind in ("pool", "fleet")
    names = {places.display_name(m)[1] for m in case.members if whole or m.kind == case.primary_entity.kind}
    return tuple(sorted(names - {own}))


def unknown_signals(voice: EvidenceSnapshot) -> tuple[str, ...]:
    """The signals of the items that could not be judged."""
    missing = zip(voice.info.items, voice.verdicts, strict=True)
    return tuple(sorted({signal for item, verdict in missing if verdict == UNKNOWN for signal in item.signals}))


def rank_alternatives(rivals: Mapping[str, tuple[float, str]]) -> tuple[CompetingCondition, ...]:
    """The other diagnoses, likeliest first."""
    ranked = sorted(rivals.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple(CompetingCondition(name, round(chance, 3), test) for name, (chance, test) in ranked[:MAX_COMPETING])


def _discount_explained(case: IncidentState, under: Collection[str]) -> dict[str, tuple[float, str]]:
    """The rivals, where one that this case explains is only left its chance of standing on its own."""
    left = 1.0 - case.confidence
    return {name: (p * left if name in under else p, test) for name, (p, test) in case.alternatives.items()}


def _to_evidence(item: EvidenceSpec, verdict: int, value: float) -> IncidentEvidence:
    return IncidentEvidence(
        item.name, VERDICT_NAMES[verdict], item.weight, round_significant(value), item.unit, item.expr
    )


def round_significant(value: float) -> float | None:
    """A measured number with the digits that it has; None for none."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _clamp_share(value: float) -> float:
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0


def find_final_root(case: IncidentState, cases: Mapping[str, IncidentState]) -> str | None:
    """The root at the end of a chain of explanations, always one that is told; None for a root."""
    seen = {case.id}
    root, last = case.explained_by, None
    while root is not None and root in cases and root not in seen:
        seen.add(root)
        last, root = root, cases[root].explained_by
    return last


def entities_of(cases: Iterable[IncidentState]) -> set[Entity]:
    """All entities of some cases."""
    return {entity for case in cases for entity in (case.primary_entity, *case.members)}
