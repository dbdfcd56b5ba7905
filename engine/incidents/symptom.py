"""A symptom: an incident that rests on findings, and whose causes are only likely."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from skewscope.engine.attribution.posterior import Posterior, find_posterior
from skewscope.engine.attribution.signature_evidence import Candidate
from skewscope.engine.incidents.confidence import Calibration
from skewscope.engine.incidents.state import IncidentState
from skewscope.engine.model.finding import Finding, FindingKey
from skewscope.engine.model.incident import SEVERITIES, SYMPTOM, IncidentEvidence
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.symptoms.summaries import summarise
from skewscope.kb.model import Catalogue

MAX_EVIDENCE = 12
MAX_ALSO = 32


@dataclass(slots=True, kw_only=True)
class SymptomState(IncidentState):
    """The state of a symptom."""

    category: ClassVar[str] = SYMPTOM
    primary: Finding
    """The finding that says most of it; it is named after this one."""
    calibration: Calibration = field(repr=False)
    tokens: set[str]
    """Places and groups of its findings; extended by `SymptomIndex` alone."""
    findings: dict[FindingKey, Finding] = field(default_factory=dict)
    """All that were ever found, as they were at their worst."""
    active: set[FindingKey] = field(default_factory=set)
    ended_at: float = math.inf
    """When nothing of it held any more; infinite while something does."""
    causes: tuple[Candidate, ...] = ()
    """The conditions that explain some of it, likeliest first."""
    rule_odds: Mapping[str, float] = field(default_factory=dict)
    """By condition: log-odds that it loses as its rules are judged here and do not hold. Replaced, never changed."""
    compared_at: float = -math.inf
    """When its causes were last compared with what rules say of them."""
    ranked_count: int = 0
    """Findings from which the causes were last worked out."""
    decides: str = ""

    @property
    def evidence_confidence(self) -> float:
        """The confidence that something is wrong."""
        return self.calibration.finding_confidence(one.pattern for one in self.findings.values())

    @property
    def posterior(self) -> Posterior:
        """The distribution over its causes and none of the catalogue."""
        return find_posterior({one.condition: one.log_odds for one in self.causes}, self.calibration)

    @property
    def basis(self) -> tuple[object, ...]:
        """The findings and their likely causes."""
        return self.primary, tuple(self.findings.values()), self.causes, self.decides

    def name_after(self, finding: Finding, catalogue: Catalogue) -> None:
        """Shows the symptom of a finding, at its place."""
        self.primary, self.primary_entity = finding, finding.place
        self.condition = symptom_of(finding, catalogue)
        entry = catalogue.symptoms.get(self.condition)
        judged = (one.what.judged for one in (finding, *self.findings.values()))
        stated = {each.severity for each in judged if each and each.severity}
        self.severity = max(map(SEVERITIES.index, {entry.severity, *stated} if entry else stated), default=0)
        self.members = frozenset(one.place for one in self.findings.values())

    def worst(self) -> list[Finding]:
        """Returns the findings that say most of it."""
        return sorted(self.findings.values(), key=lambda one: one.rank)[:MAX_EVIDENCE]

    def describe(self, locality: LocalityIndex, catalogue: Catalogue) -> dict[str, Any]:
        """Returns the fields of its `Incident` that come from findings and likely causes."""
        name = locality.display_name(self.primary_entity)[1]
        top = self.causes[0] if self.causes else None
        posterior = self.posterior
        shown = posterior.list_likeliest()
        return {
            "coverage": _coverage(top),
            "impact": self.primary.impact(),
            "rule": "",
            "rule_hash": "",
            "also": tuple(sorted({locality.display_name(place)[1] for place in self.members} - {name})[:MAX_ALSO]),
            "evidence": tuple(one.as_evidence() for one in self.worst()),
            "against": tuple(_normal(signal) for signal in (top.normal if top else ())),
            "unseen": top.unseen if top else (),
            "candidates": tuple(name for name, _ in shown),
            "probabilities": tuple(probability for _, probability in shown),
            "none": posterior.none,
            "decides": self.decides,
            "summary": summarise(replace(self.primary, since=self.began), catalogue.symptoms.get(self.condition), name),
        }

    def keep_known(self, is_known: Callable[[Entity], bool]) -> "SymptomState | None":
        """Returns the part of it that is at known places; None if nothing of it is."""
        known = {key: one for key, one in self.findings.items() if is_known(one.place)}
        if not known or len(known) == len(self.findings):
            return self if known else None
        primary = self.primary if is_known(self.primary.place) else min(known.values(), key=lambda one: one.rank)
        return replace(self, findings=known, active=self.active & known.keys(), primary=primary)


@dataclass
class SymptomIndex:
    """The symptoms that are open or have just ended, by what a finding may share with them."""

    _numbers: dict[str, int] = field(default_factory=dict)
    """By id: its place in the order in which they opened."""
    _by_token: dict[str, dict[str, SymptomState]] = field(default_factory=dict)
    _count: int = 0

    def add(self, one: SymptomState) -> None:
        """Adds a symptom, which opened after all others."""
        self._count += 1
        self._numbers[one.id] = self._count
        for token in one.tokens:
            self._by_token.setdefault(token, {})[one.id] = one

    def extend(self, one: SymptomState, tokens: Collection[str]) -> None:
        """Adds tokens to a symptom that is among them."""
        for token in tokens:
            if token not in one.tokens:
                one.tokens.add(token)
                self._by_token.setdefault(token, {})[one.id] = one

    def keep(self, kept: Collection[str]) -> None:
        """Drops the symptoms whose ids are not among some."""
        if len(self._numbers) == len(kept):
            return
        self._numbers = {id_: n for id_, n in self._numbers.items() if id_ in kept}
        self._by_token = {
            token: some
            for token, all_ in self._by_token.items()
            if (some := {id_: one for id_, one in all_.items() if id_ in kept})
        }

    def find_near(self, tokens: Iterable[str]) -> list[SymptomState]:
        """Returns those that have at least one of some tokens, in the order in which they opened."""
        near = {id_: one for token in tokens for id_, one in self._by_token.get(token, {}).items()}
        return [near[id_] for id_ in sorted(near, key=self._numbers.__getitem__)]


def symptom_of(finding: Finding, catalogue: Catalogue) -> str:
    """Returns the id of the symptom that a finding shows in its form."""
    entry = catalogue.symptoms.get(finding.symptom)
    return entry.instead.get(finding.pattern, entry.id) if entry else finding.symptom


def _normal(signal: str) -> IncidentEvidence:
    return IncidentEvidence(f"{signal} is normal", "yes", 1.0, None, "", signal)


def _coverage(top: Candidate | None) -> float:
    if top is None:
        return 0.0
    seen, unseen = len(top.explained) + len(top.normal), len(top.unseen)
    return seen / (seen + unseen)
