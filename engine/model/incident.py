"""The incident, the engine's result: `skewscope replay --json` prints one per line.

docs/incidents.md describes the JSON and its versions.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

History = tuple[tuple[float, str], ...]
"""Events: (time in seconds since 1970, what), oldest first."""
MAX_HISTORY = 200
"""Events of an incident that are kept, the first and the latest ones."""
INCIDENT_VERSION = 3
"""Version of the JSON.

2: `explained_by` is an object with id and relation; it was the id. 3: `kind` is diagnosis or symptom; `candidates` are
objects with condition and probability, they were ids; `decides` and `summary` are new.
"""
RELATIONS = {
    "merged": "part of",
    "lingering": "after",
    "caused": "caused by",
    "coincident": "begins with",
}
"""Relations of an incident to the one that explains it, in words."""
DIAGNOSIS, SYMPTOM = "diagnosis", "symptom"
"""Categories of incidents: a diagnosis names a cause, a symptom says what is abnormal without naming one."""
HEALED, GONE = "healed", "gone"
"""How an incident ends: it is over, or its place is no longer there."""
SEVERITIES = ("info", "warning", "critical")
LIKELY_CONFIDENCE = 0.4
"""An incident with at least this confidence is a diagnosis, below it is a suspicion. A threshold of half the best F1
maximises F1 (Z. Lipton, C. Elkan, B. Narayanaswamy, "Optimal thresholding of classifiers to maximize F1 measure",
2014)."""
SURE = 0.9
"""From this confidence on something may be changed without another look, and is planned unless a site asks for more."""
WORD = re.compile(r"[\w-]+")
MAX_WITNESSES = 8
"""Senders of an incident's evidence that are named."""
MAX_LOCATIONS = 3
"""Locations named in a remark on a candidate."""


@dataclass(frozen=True, slots=True)
class IncidentEvidence:
    """One item for or against, at the time of the strongest evidence."""

    name: str
    verdict: str
    """yes, no or unknown."""
    weight: float
    value: float | None
    unit: str
    expr: str
    reference: float | None = None
    """What the value was compared with, in the same unit; None where that is no single value..."""
    compared: str = ""
    """...and what that is, in words that precede it: normally, peers, at most."""


@dataclass(frozen=True, slots=True)
class CompetingCondition:
    """Another condition that could explain the same evidence, and the measurement that separates the two."""

    condition: str
    confidence: float
    separate_by: str


@dataclass(frozen=True, slots=True)
class Impact:
    """The cost: `change` of `metric`, in `unit` ('1' is a share); None where it was not measured."""

    metric: str
    change: float | None
    unit: str
    before: float | None = None
    """The metric as it was before, in `level_unit`; None where it is not compared with its own past."""
    now: float | None = None
    """The metric as it is, in `level_unit`; None where no single level was measured."""
    level_unit: str = "1"

    @property
    def lost_share(self) -> float | None:
        """Which share is lost, 0 to 1: of what takes f times as long 1 - 1/f; None where that does not follow."""
        if self.change is None or self.unit != "1" or not math.isfinite(self.change):
            return None
        is_growth = self.change > 1 or (self.change > 0 and self.now is not None)
        return self.change / (1 + self.change) if is_growth else min(abs(self.change), 1.0)


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """Numbers of affected nodes, groups and replicas."""

    nodes: int = 0
    groups: int = 0
    replicas: int = 0


@dataclass(frozen=True, slots=True)
class Advice:
    """An advised mitigation and the reason."""

    id: str
    actor: str
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The incident that explains another one."""

    id: str
    relation: str
    """A key of RELATIONS."""

    @property
    def words(self) -> str:
        """The relation in words that precede a name: `caused by`."""
        return RELATIONS[self.relation]


@dataclass(frozen=True, slots=True, order=True)
class IncidentChange:
    """An event in the life of an incident."""

    t: float
    id: str
    what: str


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
    """Of a diagnosis: conditions that may be present instead, or be its cause, and that lack telemetry to be judged.
    The incident then says that it is this condition or one of them, with this confidence. Of a symptom: the conditions
    that may cause it, the most likely first."""
    elsewhere: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(candidate, names of its possible locations), for candidates that may be at another port of the group or at a
    sibling of this replica. The incident's own name is first if it may be here as well; at most sixteen others are
    named."""
    competing: tuple[CompetingCondition, ...] = ()
    explained_by: Explanation | None = None
    """None for a root."""
    mitigations: tuple[Advice, ...] = ()
    input_hash: str = ""
    flaps: int = 0
    moves: int = 0
    """Number of times it moved between members of its group: it follows the work, not a machine."""
    history: History = ()
    category: str = DIAGNOSIS
    """DIAGNOSIS or SYMPTOM."""
    probabilities: tuple[float, ...] = ()
    """The probability of each of its candidates."""
    none: float | None = None
    """Probability that it is none of the catalogue; None if it was not worked out."""
    decides: str = ""
    """Of a symptom: id of the signal that would best tell its candidates apart; '' where none would."""
    summary: str = ""
    """Of a symptom: what is abnormal, where, since when and by how much, in one sentence."""
    witnesses: tuple[str, ...] = ()
    """Senders of the telemetry on which the evidence for it rests, at most MAX_WITNESSES; empty if unknown."""
    catalogue: str = ""
    """Version of the catalogue by which it was found, with the fingerprint of a site's knowledge; '' if unknown."""
    is_gone: bool = False
    """Whether it ended with its place (a pod that was deleted, a node that was removed), not because it was over."""
    is_settled: bool = True
    """Whether what may explain it has been sampled since it opened, and it held on."""
    began_at: float | None = None
    """When it began, by its evidence and what it explains; None where only its history says so."""

    @property
    def began(self) -> float:
        """When it began, as far as is known: before it was reported, or then."""
        first = self.began_at if self.began_at is not None else min((t for t, _ in self.history[:1]), default=math.inf)
        return min(first, self.opened_at)

    @property
    def ending(self) -> str:
        """How it ended: HEALED, GONE, or '' while it fires."""
        return "" if self.resolved_at is None else GONE if self.is_gone else HEALED

    @property
    def is_symptom(self) -> bool:
        """Whether it says what is abnormal, not why. Its `condition` is then the id of a symptom."""
        return self.category == SYMPTOM

    @property
    def is_likely(self) -> bool:
        """Whether it is a diagnosis and no suspicion; suspicions are listed after all diagnoses and not counted."""
        return self.category == DIAGNOSIS and self.confidence >= LIKELY_CONFIDENCE

    @property
    def is_counted(self) -> bool:
        """Whether it is no suspicion."""
        return self.is_symptom or self.is_likely

    @property
    def is_reason(self) -> bool:
        """Whether something may act on it, or lower a health score for it: it fires and names its cause as a root."""
        return self.state == "firing" and self.explained_by is None and not self.is_symptom

    @property
    def posterior(self) -> tuple[tuple[str, float], ...]:
        """(condition, probability) of all that it lists, likeliest first: of a diagnosis its own condition as well."""
        found = {} if self.is_symptom else {self.condition: self.confidence}
        found |= {one.condition: one.confidence for one in self.competing}
        found |= dict(zip(self.candidates, self.probabilities, strict=False))
        return tuple(sorted(found.items(), key=lambda item: -item[1]))

    @property
    def likely_causes(self) -> tuple[tuple[str, float | None], ...]:
        """(condition, probability) of what may cause a symptom, likeliest first."""
        return tuple(zip_longest(self.candidates, self.probabilities)) if self.is_symptom else ()

    @property
    def leading_cause(self) -> tuple[str, float] | None:
        """(condition, probability) of the cause of a symptom that is likelier than all else together; None for none."""
        first = next(iter(self.likely_causes), ("", None))
        return (first[0], first[1]) if first[1] is not None and first[1] > 0.5 else None

    @property
    def is_sure(self) -> bool:
        """Whether its cause is sure enough to change something without another look."""
        first = self.leading_cause
        return (first[1] if first is not None else 0.0 if self.is_symptom else self.confidence) >= SURE

    @property
    def unjudged_conditions(self) -> tuple[str, ...]:
        """Conditions that may be present instead of a diagnosis, and that lack telemetry to be judged."""
        return () if self.is_symptom else self.candidates

    @property
    def root_id(self) -> str:
        """Id of the incident that explains it, '' for a root."""
        return self.explained_by.id if self.explained_by else ""

    def format_location(self, candidate: str) -> str:
        """Returns the possible locations of a candidate as a remark after its name; '' if it can only be here."""
        places = dict(self.elsewhere).get(candidate, ())
        others = [name for name in places if name != self.name]
        shown = ", ".join(others[:MAX_LOCATIONS]) + (" or elsewhere" if len(others) > MAX_LOCATIONS else "")
        return f" ({'or ' if self.name in places else ''}at {shown})" if others else ""

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON object, version INCIDENT_VERSION."""
        return {
            "version": INCIDENT_VERSION,
            "id": self.id,
            "kind": self.category,
            "condition": self.condition,
            "entity": {"kind": self.kind, "name": self.name},
            "also": list(self.also),
            "state": self.state,
            "began_at": rfc3339(self.began),
            "opened_at": rfc3339(self.opened_at),
            "resolved_at": None if self.resolved_at is None else rfc3339(self.resolved_at),
            "ended": self.ending or None,
            "severity": self.severity,
            "confidence": round(self.confidence, 3),
            "coverage": round(self.coverage, 3),
            "impact": _plain(self.impact),
            "blast_radius": _plain(self.blast_radius),
            "evidence": [_plain(e) for e in self.evidence],
            "against": [_plain(e) for e in self.against],
            "unseen": list(self.unseen),
            "candidates": [
                {"condition": condition, "probability": None if probability is None else round(probability, 3)}
                for condition, probability in zip_longest(self.candidates, self.probabilities)
            ],
            "none": None if self.none is None else round(self.none, 3),
            "decides": self.decides,
            "summary": self.summary,
            "witnesses": list(self.witnesses),
            "elsewhere": {condition: list(names) for condition, names in self.elsewhere},
            "competing": [_plain(c) for c in self.competing],
            "explained_by": None if self.explained_by is None else _plain(self.explained_by),
            "moves": self.moves,
            "mitigations": [_plain(a) for a in self.mitigations],
            "rule": self.rule,
            "rule_hash": self.rule_hash,
            "input_hash": self.input_hash,
            "catalogue": self.catalogue,
        }

    def as_line(self) -> str:
        """Returns one line of JSON."""
        return json.dumps(self.as_json(), allow_nan=False, ensure_ascii=False, separators=(", ", ": "))


def extend_history(past: History, t: float, what: str, most: int = MAX_HISTORY) -> History:
    """Returns a history with one more event; of one with more than `most` events the middle is dropped."""
    longer = (*past, (t, what))
    return longer if len(longer) <= most else (*longer[: most // 2], *longer[-(most - most // 2) :])


def round_significant(value: float) -> float | None:
    """Returns a measured number with six significant digits, None if it is not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _plain(value: Any) -> dict[str, Any]:
    """Returns the fields of a flat value; the function of dataclasses copies each, which takes eight times as long."""
    return {name: getattr(value, name) for name in value.__slots__}


def parse_incident(fields: Mapping[str, Any]) -> Incident:
    """Parses the object that `Incident.as_json` returns, of any version; flaps and history are not part of it."""
    entity = fields["entity"]
    candidates = _candidate_objects(fields["candidates"])
    probabilities = tuple(one["probability"] for one in candidates if one["probability"] is not None)
    return Incident(
        fields["id"],
        fields["condition"],
        entity["kind"],
        entity["name"],
        fields["state"],
        _seconds(fields["opened_at"]),
        None if fields["resolved_at"] is None else _seconds(fields["resolved_at"]),
        fields["severity"],
        fields["confidence"],
        fields["coverage"],
        Impact(**fields["impact"]),
        BlastRadius(**fields["blast_radius"]),
        fields["rule"],
        fields["rule_hash"],
        tuple(fields["also"]),
        tuple(IncidentEvidence(**item) for item in fields["evidence"]),
        tuple(IncidentEvidence(**item) for item in fields["against"]),
        tuple(fields["unseen"]),
        tuple(one["condition"] for one in candidates),
        tuple((condition, tuple(names)) for condition, names in fields.get("elsewhere", {}).items()),
        tuple(CompetingCondition(**one) for one in fields["competing"]),
        parse_explanation(fields["explained_by"]),
        tuple(Advice(**one) for one in fields["mitigations"]),
        fields["input_hash"],
        moves=fields["moves"],
        category=fields.get("kind", DIAGNOSIS),
        probabilities=probabilities,
        none=fields.get("none"),
        decides=fields.get("decides", ""),
        summary=fields.get("summary", ""),
        witnesses=tuple(fields.get("witnesses", ())),
        catalogue=fields.get("catalogue", ""),
        is_gone=fields.get("ended") == GONE,
        began_at=_seconds(fields["began_at"]) if fields.get("began_at") else None,
    )


def upgrade_incident(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the JSON object of an incident of any version as one of version INCIDENT_VERSION."""
    explanation = parse_explanation(fields["explained_by"])
    return {
        "kind": DIAGNOSIS,
        "began_at": fields["opened_at"],
        "none": None,
        "decides": "",
        "summary": "",
        "witnesses": [],
        "catalogue": "",
        "ended": None if fields["resolved_at"] is None else HEALED,
        **fields,
        "version": INCIDENT_VERSION,
        "explained_by": None if explanation is None else _plain(explanation),
        "candidates": _candidate_objects(fields["candidates"]),
    }


def _candidate_objects(candidates: Sequence[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns candidates of any version as objects; up to version 2 they were ids."""
    return [{"condition": one, "probability": None} if isinstance(one, str) else dict(one) for one in candidates]


def parse_explanation(field: str | Mapping[str, str] | None) -> Explanation | None:
    """Parses `explained_by`. Version 1 holds only the id; its relation is taken to be `caused`."""
    if field is None:
        return None
    return Explanation(field, "caused") if isinstance(field, str) else Explanation(field["id"], field["relation"])


def replace_ids(text: str, ids: Mapping[str, str]) -> str:
    """Returns a text in which incidents have other ids: `explained by ID` must name one that its reader knows."""
    return WORD.sub(lambda found: ids.get(found[0], found[0]), text)


def replace_references(one: Incident, ids: Mapping[str, str]) -> Incident:
    """Returns an incident that refers to others by other ids, in its explanation and in its history."""
    explanation = one.explained_by
    if explanation is not None and explanation.id in ids:
        one = replace(one, explained_by=replace(explanation, id=ids[explanation.id]))
    history = tuple((t, replace_ids(what, ids)) for t, what in one.history)
    return one if history == one.history else replace(one, history=history)


def rfc3339(seconds: float) -> str:
    """Returns a time as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(round(seconds, 3), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
