"""A deviation: one signal that is abnormal on one entity, and the forms that it may have."""

import math
from dataclasses import dataclass

from skewscope.engine.model.incident import Impact, IncidentEvidence
from skewscope.engine.model.locality import Entity
from skewscope.engine.symptoms.roles import ROLES
from skewscope.kb.model import Signal

PAST, PEERS, MOVING, ZERO, LESS = "past", "peers", "moving", "zero", "less"
REPEATS, SHARES, START, EVENT = "repeats", "shares", "start", "event"
LIMIT, TOTAL = "limit", "total"
"""Forms: from its past or peers, moving between peers, to nothing, far less than siblings let expect; again and again,
unequal shares, a slow start, a message; beyond a limit at one moment, or in what counters counted since they began."""

FORM_ORDER = (EVENT, PEERS, ZERO, REPEATS, SHARES, LESS, MOVING, PAST, LIMIT, START, TOTAL)
AGAINST = {
    PAST: "its past",
    PEERS: "its peers",
    MOVING: "the median of its peers",
    ZERO: "its siblings",
    REPEATS: "its past",
    LESS: "its siblings",
    SHARES: "its parallel links",
    START: "what followed",
    EVENT: "no message",
    LIMIT: "its limit",
    TOTAL: "its limit, since its counters began",
}
SILENT = "silent"
"""Direction of a signal that is no longer delivered."""
SILENT_SYMPTOM = "silent-telemetry"
DeviationKey = tuple[str, Entity, str]
"""Signal, place and form."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One signal that is abnormal on one entity, as of now."""

    signal: Signal
    place: Entity
    form: str
    """One of those above."""
    direction: str
    """up, down, stops, begins, uneven or silent."""
    since: float
    """Seconds since 1970."""
    value: float
    """In the signal's unit; of a counter its rate per second, of TOTAL what it counted."""
    before: float
    """The healthy value: of its own past, of its peers, or its limit."""
    message: str = ""
    """Of an event: the words of the first one; of a share, what it is of."""

    @property
    def key(self) -> DeviationKey:
        """Identifies it while it lasts."""
        return self.signal.id, self.place, self.form

    @property
    def ratio(self) -> float:
        """The value over the healthy one; 0 where that is zero."""
        return self.value / self.before if self.before else 0.0

    @property
    def size(self) -> float:
        """How far it is from the healthy value, as a factor of at least 1; 1 where nothing is known any more."""
        ratio = abs(self.ratio)
        if math.isnan(ratio):
            return 1.0
        return max(ratio, 1 / ratio) if ratio > 0 else 10.0

    @property
    def unit(self) -> str:
        """Unit of its values."""
        is_rate = self.signal.type == "counter" and self.form != TOTAL
        return self.signal.unit + ("/s" if is_rate else "")

    @property
    def symptom(self) -> str:
        """Id of the symptom that it shows."""
        if self.direction == SILENT:
            return SILENT_SYMPTOM
        judged = self.signal.judged
        return judged.symptom if judged else ""

    @property
    def rank(self) -> tuple[object, ...]:
        """Sorts the deviation first after which a symptom is named: by role, then form, then size."""
        judged = self.signal.judged
        role = ROLES.index(judged.role) if judged is not None and judged.role in ROLES else len(ROLES)
        # What is seen of a place says more of it than what is not.
        role = len(ROLES) if self.direction == SILENT else role
        is_worse = judged is not None and bool(judged.severity)
        return role, not is_worse, FORM_ORDER.index(self.form), -self.size, self.since, self.key

    def as_evidence(self) -> IncidentEvidence:
        """Returns it as evidence of an incident."""
        text = f"{self.signal.name} of {self.place.name} against {AGAINST[self.form]}"
        if self.message:
            text = self.message if self.form == EVENT else f"{text}: {self.message}"
        value = self.value if math.isfinite(self.value) else None
        return IncidentEvidence(text, "yes", 1.0, value, self.unit, self.signal.id)

    def impact(self) -> Impact:
        """Returns the relative change as the impact of an incident."""
        change = self.ratio - 1 if self.before else None
        share = None if change is None or not math.isfinite(change) else round(change, 3)
        return Impact(self.signal.id, share, "1")
