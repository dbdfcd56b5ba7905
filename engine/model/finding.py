"""A finding: one thing that is abnormal on one entity, and the typed protocol of what finds it.

Findings come in batches, one of each detector or rule. A batch yields its findings; that of a rule keeps them in
columns, `[entity]` each, and makes objects only of those that are asked for: most rules fire nowhere, on millions of
entities.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from skewscope.engine.model.incident import Impact, IncidentEvidence, round_significant
from skewscope.engine.model.parameters import LEAST_NATS
from skewscope.engine.model.topology import Entity
from skewscope.kb.model import Judgement, Signal
from skewscope.kb.quantities import NORMALLY
from skewscope.kb.quantities import PEERS as PEERS_VALUE

SHIFT, SHARE, STOP = "shift", "share", "stop"
PAST, PEERS, MOVING, ZERO, LESS = "past", "peers", "moving", "zero", "less"
REPEATS, SHARES, START, EVENT = "repeats", "shares", "start", "event"
LIMIT, TOTAL, RULE = "limit", "total", "rule"
"""Patterns: from its past or peers, moving between peers, to nothing, far less than siblings let expect; again and
again, unequal shares, a slow start, a message; beyond a limit at one moment, or in what counters counted since they
began; a conjunction that holds. The form of a finding follows from its pattern and direction."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What the healthy value of a pattern is, and how it is called."""

    form: str
    against: str
    """What it is, in evidence."""
    comparisons: tuple[str, ...] = ()
    """What a signature may compare with to mean a finding of the pattern."""
    compared: str = "before"
    """What it is, as sentences end."""
    preceded: str = NORMALLY
    """The same in words that precede it."""


OWN, OTHERS = ("past", "nominal"), ("peers", "siblings")
PATTERNS = {
    EVENT: Pattern(EVENT, "no message", OWN),
    PEERS: Pattern(PEERS, "its peers", OTHERS, "at its peers", PEERS_VALUE),
    ZERO: Pattern(SHARE, "its siblings", OTHERS, preceded="siblings"),
    REPEATS: Pattern(SHIFT, "its past", OWN, "else"),
    SHARES: Pattern(SHARE, "its parallel links", OTHERS, "at its parallel links", "parallel links"),
    LESS: Pattern(SHARE, "its siblings", OTHERS, preceded="siblings"),
    MOVING: Pattern(PEERS, "the median of its peers", OTHERS, "at its peers", PEERS_VALUE),
    PAST: Pattern(SHIFT, "its past", OWN),
    LIMIT: Pattern(LIMIT, "its limit", OWN, "at most", "limit"),
    START: Pattern(SHIFT, "what followed", OWN, "later", "later"),
    TOTAL: Pattern(LIMIT, "its limit, since its counters began", OWN, preceded="limit"),
    RULE: Pattern(RULE, "the score from which on it fires"),
}
"""In the order after which a symptom is named."""
PATTERN_ORDER = tuple(PATTERNS)
ROLES = (
    *("event", "progress", "time-per-work", "state", "errors", "capacity", "share", "loss", "throughput", "wait"),
    "pressure",
    *("latency", "queue", "health", "spread", "utilisation", "workload"),
)
"""Roles of signals that are judged, in the order in which a symptom is named after them."""
WORK_ROLES = frozenset({"utilisation", "workload", "throughput"})
"""How much work a member has, which is compared only among members of the same work: not where that is unknown, not
while it begins or ends, and not while the others of a pool take the load of a replica that is out of service."""
SILENT = "silent"
"""Direction of a signal that is no longer delivered."""
SILENT_SYMPTOM = "silent-telemetry"
FindingKey = tuple[str, Entity, str]
"""Signal or rule, place and pattern."""


@dataclass(frozen=True, slots=True)
class RuleSubject:
    """A rule, as what a finding is about."""

    id: str
    name: str
    unit: str = "1"
    type: str = RULE
    bits: Mapping[str, int] = field(default_factory=dict)
    judged: Judgement | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is abnormal on one entity, as of now."""

    what: Signal | RuleSubject
    """The signal, which may be an event, or the rule."""
    place: Entity
    pattern: str
    """One of those above."""
    direction: str
    """up, down, stops, begins, uneven or silent."""
    since: float
    """Seconds since 1970."""
    value: float
    """In the signal's unit; of a counter its rate per second, of TOTAL what it counted, of a rule its score."""
    reference: float
    """The healthy value: of its own past, of its peers, or its limit."""
    message: str = ""
    """Of an event: the words of the first one; of a share, what it is of."""
    against: str = ""
    """What the reference is, where it is not that of the pattern: it may be computed."""
    nats: float = LEAST_NATS
    """Evidence that it is no chance: the logarithm of a likelihood ratio."""

    @property
    def form(self) -> str:
        """Returns shift, peers, share, stop, limit, event or rule."""
        return STOP if self.direction in ("stops", SILENT) else PATTERNS[self.pattern].form

    @property
    def key(self) -> FindingKey:
        """Identifies it while it lasts."""
        return self.what.id, self.place, self.pattern

    @property
    def ratio(self) -> float:
        """The value over the healthy one; 0 where that is zero."""
        return self.value / self.reference if self.reference else 0.0

    @property
    def size(self) -> float:
        """How far it is from the healthy value in its direction, as a factor; 1 where nothing is known any more.

        Below 1 it is on the healthy side.
        """
        ratio = abs(self.ratio)
        if math.isnan(ratio):
            return 1.0
        if ratio == 0:
            return 10.0
        return {"up": ratio, "down": 1 / ratio}.get(self.direction, max(ratio, 1 / ratio))

    @property
    def unit(self) -> str:
        """Unit of its values."""
        is_rate = self.what.type == "counter" and self.pattern != TOTAL
        return self.what.unit + ("/s" if is_rate else "")

    @property
    def reasons(self) -> str:
        """Returns the names of the bits that a mask has and its healthy value lacks; '' for what is no mask."""
        if self.what.type != "bitmask" or self.pattern == REPEATS or not math.isfinite(self.value):
            return ""
        bits = int(self.value) & ~int(self.reference if math.isfinite(self.reference) else 0)
        return ", ".join(name for name, bit in self.what.bits.items() if bit & bits)

    @property
    def comparison(self) -> str:
        """Returns what the healthy value is, as a sentence ends: before, at its peers, or by what it is computed."""
        return f"by {self.against}" if self.against else PATTERNS[self.pattern].compared

    @property
    def symptom(self) -> str:
        """Id of the symptom that it shows; '' of a rule."""
        if self.direction == SILENT:
            return SILENT_SYMPTOM
        judged = self.what.judged
        return judged.symptom if judged else ""

    @property
    def rank(self) -> tuple[object, ...]:
        """Sorts the finding first after which a symptom is named: by role, then pattern, then size."""
        judged = self.what.judged
        role = ROLES.index(judged.role) if judged is not None and judged.role in ROLES else len(ROLES)
        # What is seen of a place says more of it than what is not.
        role = len(ROLES) if self.direction == SILENT else role
        is_worse = judged is not None and bool(judged.severity)
        return role, not is_worse, PATTERN_ORDER.index(self.pattern), -self.size, self.since, self.key

    def as_evidence(self) -> IncidentEvidence:
        """Returns it as evidence of an incident."""
        text = f"{self.what.name} of {self.place.name} against {self.against or PATTERNS[self.pattern].against}"
        if self.message:
            text = self.message if self.pattern == EVENT else f"{text}: {self.message}"
        if self.reasons:
            # The sum of its bits is no quantity.
            return IncidentEvidence(f"{text}: {self.reasons}", "yes", 1.0, None, self.unit, self.what.id)
        value = self.value if math.isfinite(self.value) else None
        is_compared = value is not None and math.isfinite(self.reference) and self.what.type not in ("bitmask", "state")
        compared = "expected" if self.against else PATTERNS[self.pattern].preceded
        reference = (round_significant(self.reference), compared) if is_compared and self.pattern != EVENT else ()
        return IncidentEvidence(text, "yes", 1.0, value, self.unit, self.what.id, *reference)

    def impact(self) -> Impact:
        """Returns the relative change as the impact of an incident, with the levels of its own past and of now.

        There is none of a mask, whose value is no quantity.
        """
        is_quantity = bool(self.reference) and self.what.type not in ("bitmask", "state")
        change = self.ratio - 1 if is_quantity else None
        if change is None or not math.isfinite(change):
            return Impact(self.what.id, None, "1")
        if self.pattern in (LIMIT, TOTAL):
            # A limit is no level that it had.
            return Impact(self.what.id, round(change, 3), "1", None, round_significant(self.value), self.unit)
        if self.pattern != PAST or self.against:
            # What it is compared with is not its own level of before.
            return Impact(self.what.id, round(change, 3), "1")
        levels = round_significant(self.reference), round_significant(self.value)
        return Impact(self.what.id, round(change, 3), "1", *levels, self.unit)


class FindingBatch(Protocol):
    """What a detector or a rule finds as of now."""

    def __iter__(self) -> Iterator[Finding]:
        """Yields its findings."""
