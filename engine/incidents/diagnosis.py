"""A diagnosis: an incident that rests on alerts of the rules of one condition."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from skewscope.engine.attribution.posterior import Posterior, find_posterior
from skewscope.engine.incidents.alerts import EvidenceSnapshot, EvidenceSpec
from skewscope.engine.incidents.confidence import CORROBORATION
from skewscope.engine.incidents.result_cache import ResultCache
from skewscope.engine.incidents.state import CAUSE_BEFORE_S, IncidentState
from skewscope.engine.model.incident import DIAGNOSIS, CompetingCondition, Impact, IncidentEvidence, round_significant
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.model.verdict import UNKNOWN
from skewscope.kb.model import Catalogue

MAX_COMPETING = 5
VERDICT_NAMES = {-1: "no", 0: "unknown", 1: "yes"}


@dataclass(slots=True, kw_only=True)
class DiagnosisState(IncidentState):
    """The state of a diagnosis."""

    category: ClassVar[str] = DIAGNOSIS
    peak_evidence: EvidenceSnapshot
    """Its strongest evidence so far."""
    agreeing_rules: int = 0
    """Number of further rules that agree."""
    cleared_at: float = math.inf
    """When its evidence ceased; it stays open for a while. Infinite while it holds."""
    alternatives: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """By condition: its log-odds instead, and the measurement that separates the two. Replaced, never changed."""
    candidates: Mapping[str, float] = field(default_factory=dict)
    """Log-odds of look-alikes and causes that cannot be judged here, because telemetry of their rules is missing.
    Replaced, never changed."""
    candidate_locations: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(candidate, names of its possible locations) for those that may be somewhere else."""
    alike_effects: Mapping[str, float] = field(default_factory=dict)
    """Log-odds of look-alikes that it explains. Replaced, never changed."""
    comparison_count: int = 0
    """Number of comparisons with alternatives at its current primary entity."""
    compared_at: float = -math.inf
    """When it was last compared with alternatives..."""
    needs_comparison: bool = True
    """...and whether it is due again: its evidence has grown since, or it has just opened."""
    _posterior: ResultCache[Posterior] = field(init=False, compare=False, repr=False, default_factory=ResultCache)

    @property
    def log_odds(self) -> float:
        """Log-odds by its own evidence and the rules that agree."""
        return self.peak_evidence.log_odds + CORROBORATION * self.agreeing_rules

    @property
    def posterior(self) -> Posterior:
        """The distribution over its condition, the alternatives and none of the catalogue."""
        return self._posterior.get((self.condition, *self.basis), self._find_posterior)

    def _find_posterior(self) -> Posterior:
        odds = {**self.candidates, **{name: each for name, (each, _) in self.alternatives.items()}}
        odds |= {name: max(each, odds.get(name, each)) for name, each in self.alike_effects.items()}
        odds[self.condition] = self.log_odds
        undecided = len(self.peak_evidence.decisive_unknowns)
        return find_posterior(odds, self.peak_evidence.info.calibration, self.condition, undecided)

    @property
    def lead_s(self) -> float:
        """How long before its evidence holds it may have begun: its rule needs the samples of a window."""
        return max(CAUSE_BEFORE_S, self.peak_evidence.info.lead)

    @property
    def persistence(self) -> float:
        """For how many seconds by its samples it has held, at least: those of the windows of its rule."""
        return self.peak_evidence.info.persistence

    @property
    def evidence_confidence(self) -> float:
        """The probability of its condition by the rules and the alternatives in the same place."""
        return self.posterior.probabilities[self.condition]

    @property
    def basis(self) -> tuple[object, ...]:
        """The evidence of the rules, and what it was compared with."""
        return (
            *(self.peak_evidence, self.agreeing_rules, self.alternatives),
            *(self.candidates, self.candidate_locations, self.alike_effects),
        )

    def describe(self, locality: LocalityIndex, _catalogue: Catalogue) -> dict[str, Any]:
        """Returns the fields of its `Incident` that come from the rule, its evidence and the comparisons."""
        evidence, info = self.peak_evidence, self.peak_evidence.info
        items = list(zip(info.items, evidence.verdicts, evidence.values, strict=True))
        posterior = self.posterior
        return {
            "coverage": _clamp_share(evidence.coverage),
            "impact": _describe_impact(evidence),
            "rule": info.rule,
            "rule_hash": info.hash,
            "also": self.other_entities(locality),
            "evidence": tuple(_to_evidence(*item) for item in items if not item[0].against),
            "against": tuple(_to_evidence(*item) for item in items if item[0].against),
            "unseen": unknown_signals(evidence),
            "candidates": tuple(self.candidates),
            "probabilities": tuple(posterior.probabilities[name] for name in self.candidates),
            "none": posterior.none,
            "elsewhere": self.candidate_locations,
            "competing": rank_alternatives(self.alternatives, posterior),
        }

    def other_entities(self, locality: LocalityIndex) -> tuple[str, ...]:
        """Returns the names of the other affected entities of its kind; of all kinds for a pool or the fleet."""
        own = locality.display_name(self.primary_entity)[1]
        is_whole = self.primary_entity.kind in ("pool", "fleet")
        names = {locality.display_name(m)[1] for m in self.members if is_whole or m.kind == self.primary_entity.kind}
        return tuple(sorted(names - {own}))

    def keep_known(self, is_known: Callable[[Entity], bool]) -> "DiagnosisState | None":
        """Returns it without the entities that there are no more; None where none is left."""
        members = frozenset(entity for entity in self.members if is_known(entity))
        is_there = is_known(self.primary_entity)
        if is_there and len(members) == len(self.members):
            return self
        if not (is_there or members):
            return None
        return replace(self, members=members, primary_entity=self.primary_entity if is_there else min(members))


def _describe_impact(evidence: EvidenceSnapshot) -> Impact:
    """Returns the impact, with the level before and now where it is a change of one."""
    info, change, now = evidence.info, evidence.impact, evidence.level
    before = now / (1 + change) if change > -1 else math.nan
    levels = (round_significant(before), round_significant(now)) if math.isfinite(before) else (None, None)
    return Impact(info.impact_metric, round_significant(change), info.impact_unit, *levels, info.level_unit)


def unknown_signals(evidence: EvidenceSnapshot) -> tuple[str, ...]:
    """Returns the signals of the items whose verdict is unknown."""
    items = zip(evidence.info.items, evidence.verdicts, strict=True)
    return tuple(sorted({signal for item, verdict in items if verdict == UNKNOWN for signal in item.signals}))


def rank_alternatives(
    alternatives: Mapping[str, tuple[float, str]], posterior: Posterior
) -> tuple[CompetingCondition, ...]:
    """Returns the MAX_COMPETING likeliest alternatives, likeliest first."""
    ranked = [name for name in posterior.probabilities if name in alternatives][:MAX_COMPETING]
    return tuple(
        CompetingCondition(name, round(posterior.probabilities[name], 3), alternatives[name][1]) for name in ranked
    )


def _to_evidence(item: EvidenceSpec, verdict: int, value: float) -> IncidentEvidence:
    return IncidentEvidence(
        item.name, VERDICT_NAMES[verdict], item.weight, round_significant(value), item.unit, item.expr
    )


def _clamp_share(value: float) -> float:
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0
