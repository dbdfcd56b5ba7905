"""A diagnosis with its life: what `skewscope replay --json` prints, one a line."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

SEVERITIES = ("info", "warning", "critical")
LIKELY_CONFIDENCE = 0.4
"""From here on it is told as a diagnosis, below as a suspicion. Telling from half of the best F1 on makes for the best
F1 (Z. Lipton, C. Elkan, B. Narayanaswamy, "Optimal thresholding of classifiers to maximize F1 measure", 2014)."""
MAX_LOCATIONS = 3
"""Named in a remark on where a candidate may be."""


@dataclass(frozen=True, slots=True)
class IncidentEvidence:
    """One item for or against, as it stood when it spoke loudest for the diagnosis."""

    name: str
    verdict: str
    """yes, no or unknown."""
    weight: float
    value: float | None
    unit: str
    expr: str


@dataclass(frozen=True, slots=True)
class CompetingCondition:
    """Another condition that could explain the same, and the measurement that would tell."""

    condition: str
    confidence: float
    separate_by: str


@dataclass(frozen=True, slots=True)
class Impact:
    """What it costs: `change` of `metric`, in `unit` ('1' is a share); None where it could not be measured."""

    metric: str
    change: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """How many are hit."""

    nodes: int = 0
    groups: int = 0
    replicas: int = 0


@dataclass(frozen=True, slots=True)
class Advice:
    """A mitigation worth considering, and why this one."""

    id: str
    actor: str
    why: str


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident. Times are seconds since 1970, UTC."""

    id: str
    condition: str
    kind: str
    name: str
    state: str
    """pending, firing or resolved."""
    opened_at: float
    resolved_at: float | None
    severity: str
    confidence: float
    coverage: float
    impact: Impact
    blast_radius: BlastRadius
    rule: str
    rule_hash: str
    also: tuple[str, ...] = ()
    evidence: tuple[IncidentEvidence, ...] = ()
    against: tuple[IncidentEvidence, ...] = ()
    unseen: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    """Conditions that it may be instead, or that may be behind it, and that nothing there is can judge. What is told
    is then that it is one of them or this one, and confidence is how sure that is."""
    elsewhere: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(candidate, names of where it may be): for those that may be apart from here, at another port of the group or at
    a sibling of this replica. The incident's own name is the first where it may be here as well; sixteen others are
    named at most."""
    competing: tuple[CompetingCondition, ...] = ()
    explained_by: str | None = None
    mitigations: tuple[Advice, ...] = ()
    input_hash: str = ""
    flaps: int = 0
    moves: int = 0
    """How often it went from one member of its group to another: what moves follows the work, not a machine."""
    history: tuple[tuple[float, str], ...] = field(default=())
    """(time, what happened), oldest first."""

    @property
    def is_likely(self) -> bool:
        """Whether it is a diagnosis; else it is a suspicion, told behind all diagnoses and counted as none."""
        return self.confidence >= LIKELY_CONFIDENCE

    def format_location(self, candidate: str) -> str:
        """Where a candidate may be, as a remark that follows its name; '' where it can only be here."""
        places = dict(self.elsewhere).get(candidate, ())
        others = [name for name in places if name != self.name]
        shown = ", ".join(others[:MAX_LOCATIONS]) + (" or elsewhere" if len(others) > MAX_LOCATIONS else "")
        return f" ({'or ' if self.name in places else ''}at {shown})" if others else ""

    def as_json(self) -> dict[str, Any]:
        """The contract's object, in the contract's order."""
        return {
            "id": self.id,
            "condition": self.condition,
            "entity": {"kind": self.kind, "name": self.name},
            "also": list(self.also),
            "state": self.state,
            "opened_at": rfc3339(self.opened_at),
            "resolved_at": None if self.resolved_at is None else rfc3339(self.resolved_at),
            "severity": self.severity,
            "confidence": round(self.confidence, 3),
            "coverage": round(self.coverage, 3),
            "impact": asdict(self.impact),
            "blast_radius": asdict(self.blast_radius),
            "evidence": [asdict(e) for e in self.evidence],
            "against": [asdict(e) for e in self.against],
            "unseen": list(self.unseen),
            "candidates": list(self.candidates),
            "elsewhere": {condition: list(names) for condition, names in self.elsewhere},
            "competing": [asdict(c) for c in self.competing],
            "explained_by": self.explained_by,
            "moves": self.moves,
            "mitigations": [asdict(a) for a in self.mitigations],
            "rule": self.rule,
            "rule_hash": self.rule_hash,
            "input_hash": self.input_hash,
        }

    def as_line(self) -> str:
        """One line of JSON."""
        return json.dumps(self.as_json(), allow_nan=False, ensure_ascii=False, separators=(", ", ": "))


def parse_incident(told: Mapping[str, Any]) -> Incident:
    """The incident that `Incident.as_json` told; its flaps and history are not in there."""
    entity = told["entity"]
    return Incident(
        told["id"],
        told["condition"],
        entity["kind"],
        entity["name"],
        told["state"],
        _seconds(told["opened_at"]),
        None if told["resolved_at"] is None else _seconds(told["resolved_at"]),
        told["severity"],
        told["confidence"],
        told["coverage"],
        Impact(**told["impact"]),
        BlastRadius(**told["blast_radius"]),
        told["rule"],
        told["rule_hash"],
        tuple(told["also"]),
        tuple(IncidentEvidence(**item) for item in told["evidence"]),
        tuple(IncidentEvidence(**item) for item in told["against"]),
        tuple(told["unseen"]),
        tuple(told["candidates"]),
        tuple((condition, tuple(names)) for condition, names in told.get("elsewhere", {}).items()),
        tuple(CompetingCondition(**one) for one in told["competing"]),
        told["explained_by"],
        tuple(Advice(**one) for one in told["mitigations"]),
        told["input_hash"],
        moves=told["moves"],
    )


def rfc3339(seconds: float) -> str:
    """A time as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(round(seconds, 3), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
