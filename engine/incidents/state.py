"""The state that every incident has, and its conversion to an `Incident`.

What it rests on is added by `diagnosis` (alerts of rules) and `symptom` (findings).
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from skewscope.engine.incidents.confidence import HEARSAY_CONFIDENCE
from skewscope.engine.ingest.feed import TICK_S
from skewscope.engine.model.incident import SEVERITIES, Advice, Explanation, History, Incident, extend_history
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.kb.model import Catalogue

CAUSE_BEFORE_S = 10.0
"""An effect may be detected this long before its cause: their rules have different windows."""


@dataclass(frozen=True, slots=True)
class IncidentTiming:
    """How long incidents stay related after they end, and the length of a tick, in seconds of data time."""

    grouping_s: float = 10.0
    """What has cleared stays a part of its incident this long: alerts under a primary entity that has cleared, and
    findings, whose incident stays open."""
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
class IncidentState(ABC):
    """The mutable state of one incident."""

    category: ClassVar[str]
    condition: str
    """Id of the condition, or of the symptom, that it shows."""
    primary_entity: Entity
    """The entity that it is shown on."""
    opened_at: float
    since: float
    id: str = ""
    """Set when it opens; it stays if another entity becomes the primary one."""
    resolved_at: float | None = None
    severity: int = 0
    members: frozenset[Entity] = frozenset()
    explanation: Explanation | None = None
    """The incident that explains it directly, as of the last tick."""
    merged_into: str = ""
    """Id of the incident of the same condition that it became a part of."""
    mitigations: tuple[Advice, ...] = ()
    flaps: int = 0
    moves: int = 0
    """Number of times it ended on one member of a group as it began on another one."""
    history: History = ()
    witnesses: tuple[str, ...] = ()
    """Senders of the telemetry on which it rests."""
    is_hearsay: bool = False
    """Whether only one other node reports it."""
    is_gone: bool = False
    """Whether it ended with its place, not because it was over."""
    is_settled: bool = True
    """Whether what may explain it has been sampled since it opened, and it held on."""
    sampled_at: float = math.inf
    """Time of the newest sample that its first evidence may rest on, seconds since 1970."""
    others_sampled_at: float = math.inf
    """When samples of all other places had come that are no older; infinite until then."""

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
    def confidence(self) -> float:
        """The number that is shown and that policies match; see `incidents.confidence`."""
        found = self.evidence_confidence
        return min(found, HEARSAY_CONFIDENCE) if self.is_hearsay else found

    @property
    def began(self) -> float:
        """When its first evidence held, seconds since 1970."""
        return min([self.opened_at, self.since, *(time for time, _ in self.history[:1])])

    @property
    def lead_s(self) -> float:
        """How long before its evidence holds it may have begun."""
        return CAUSE_BEFORE_S

    @property
    def persistence(self) -> float:
        """For how many seconds by its samples it has held, at least, when its evidence holds."""
        return 0.0

    def begin_with(self, effects: Iterable["IncidentState"], lead_s: float) -> float:
        """Returns when it began: no later than the effects after which alone it could be recognised.

        Args:
            effects: what it explains; what has fired again, on either side, may have begun with something else.
            lead_s: how long windows are at least where samples are rare, seconds.
        """
        earliest = self.began - self.lead_s - lead_s
        times = [one.began for one in effects if not (one.flaps or self.flaps) and one.began >= earliest]
        return min([self.began, *times])

    @property
    def content(self) -> tuple[object, ...]:
        """All that changes of it and that its `Incident` is made of, but for what explains it and what it explains."""
        return (
            *(self.condition, self.primary_entity, self.since, self.resolved_at, self.severity, self.members),
            *(self.mitigations, self.flaps, self.moves, self.history, self.witnesses, self.is_hearsay, self.is_gone),
            *(self.is_settled, *self.basis),
        )

    @property
    @abstractmethod
    def evidence_confidence(self) -> float:
        """The confidence by its evidence, whoever reports it."""

    @property
    @abstractmethod
    def basis(self) -> tuple[object, ...]:
        """All of the evidence that is shown."""

    @abstractmethod
    def describe(self, locality: LocalityIndex, catalogue: Catalogue) -> dict[str, Any]:
        """Returns the fields of its `Incident` that depend on its evidence."""

    @abstractmethod
    def keep_known(self, is_known: Callable[[Entity], bool]) -> Self | None:
        """Returns it without the entities that there are no more; None where none is left."""

    def resolved_age(self, t: float) -> float:
        """Returns the seconds since it resolved, 0 while it is open."""
        return 0.0 if self.resolved_at is None else t - self.resolved_at

    def add_history(self, t: float, what: str) -> None:
        """Append an event."""
        self.history = extend_history(self.history, t, what)


def incident_id(condition: str, entity: Entity, opened_at: float) -> str:
    """Returns a short id that depends only on condition, entity and time."""
    text = f"{condition}|{entity.kind}|{entity.name}|{opened_at:.3f}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def final_explanation(incident: IncidentState, states: Mapping[str, IncidentState]) -> Explanation | None:
    """Returns the root at the end of a chain of explanations, None for a root.

    The relation is that of the first link that is no merge: part of an incident that something causes is caused by it.
    """
    link = incident.explanation
    if link is not None and link.id in states and link.id != incident.id and states[link.id].explanation is None:
        return link  # as of almost all: nothing is made anew
    root, relation, seen = "", "", {incident.id}
    while link is not None and link.id in states and link.id not in seen:
        seen.add(link.id)
        root, relation = link.id, link.relation if relation in ("", "merged") else relation
        link = states[link.id].explanation
    return Explanation(root, relation) if root else None


def find_root(incident: IncidentState, states: Mapping[str, IncidentState]) -> IncidentState | None:
    """Returns the incident at the end of a chain of explanations; None for a root."""
    link = final_explanation(incident, states)
    return states.get(link.id) if link else None


@dataclass(frozen=True, slots=True)
class IncidentRelations:
    """What explains an incident, and what it explains."""

    root: Explanation | None = None
    """The root that explains it, None for a root."""
    parts: Sequence[IncidentState] = ()
    """The incidents that it explains; its blast radius includes theirs."""
    began: float | None = None
    """When it began, seconds since 1970; None for when its own evidence held."""


def to_incident(
    state: IncidentState, locality: LocalityIndex, catalogue: Catalogue, relations: IncidentRelations, input_hash: str
) -> Incident:
    """Returns the incident as it is shown. Only roots have mitigations: they resolve what the root explains, too."""
    kind, name = locality.display_name(state.primary_entity)
    return Incident(
        id=state.id,
        condition=state.condition,
        kind=kind,
        name=name,
        state="firing" if state.is_open else "resolved",
        opened_at=state.opened_at,
        began_at=state.began if relations.began is None else relations.began,
        resolved_at=state.resolved_at,
        severity=SEVERITIES[state.severity],
        confidence=state.confidence,
        blast_radius=locality.blast_radius(entities_of([state, *relations.parts])),
        explained_by=relations.root,
        mitigations=state.mitigations if relations.root is None else (),
        input_hash=input_hash,
        flaps=state.flaps,
        moves=state.moves,
        history=state.history,
        category=state.category,
        witnesses=state.witnesses,
        catalogue=catalogue.version,
        is_gone=state.is_gone,
        is_settled=state.is_settled,
        **state.describe(locality, catalogue),
    )


def entities_of(states: Iterable[IncidentState]) -> set[Entity]:
    """Returns all entities of some incidents."""
    return {entity for state in states for entity in (state.primary_entity, *state.members)}
