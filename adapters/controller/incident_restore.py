"""Restores incidents that were open when a controller stopped: they continue under their ids, or are resolved.

A new engine knows nothing of earlier incidents and opens anew what still holds. That is mapped to the earlier incident:
same id, same opening time, no second notification. While the engine cannot judge an earlier incident, because an agent
has not returned, the incident continues: unknown never resolves.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from skewscope.engine.engine import IncidentChange
from skewscope.engine.model.incident import Incident

RESTORE_WAIT = 90.0
"""Seconds within which an incident that still holds fires again: windows and holds are full by then."""
UNKNOWN_TIMEOUT = 86400.0
"""Seconds after which an incident that cannot be judged is resolved: its node may be gone for good."""
TEXT_STILL_FIRING = "still there after a restart"
TEXT_NOT_SEEN = "resolved: not seen again after a restart"
TEXT_UNKNOWN = "resolved: nothing was heard of it for a day after a restart"

Key = tuple[str, str, str]


@dataclass
class RestoredIncidents:
    """Earlier incidents, matched with those of the engine by condition and entity."""

    waiting: dict[Key, Incident]
    _started_at: float | None = None
    _unknown_until: dict[Key, float] = field(default_factory=dict)
    """Time since which the engine can judge each waiting incident."""
    _restored: dict[str, Incident] = field(default_factory=dict)
    """The earlier incident, by the engine's id."""
    _resolved: list[Incident] = field(default_factory=list)

    @classmethod
    def from_incidents(cls, incidents: Iterable[Incident]) -> "RestoredIncidents":
        """Creates it from the open incidents."""
        return cls({_match_key(one): one for one in incidents})

    def apply(
        self,
        t: float,
        incidents: Sequence[Incident],
        changes: Iterable[IncidentChange],
        unknown: Callable[[Incident], bool] = lambda _: False,
    ) -> tuple[tuple[Incident, ...], tuple[IncidentChange, ...]]:
        """Returns incidents and changes of a tick with restored identities.

        Args:
            t: the end of the tick.
            incidents: incidents of the engine.
            changes: changes of the tick.
            unknown: whether the engine cannot judge an earlier incident.
        """
        self._started_at = t if self._started_at is None else self._started_at
        if not (self.waiting or self._restored or self._resolved):
            return tuple(incidents), tuple(changes)
        for one in incidents:
            if one.id not in self._restored and (before := self.waiting.pop(_match_key(one), None)):
                self._restored[one.id] = before
        payload = [_restore_change(change, self._restored) for change in changes]
        payload += self._resolve_missing(t, self._started_at, unknown)
        gone = (*self.waiting.values(), *self._resolved)
        return (*(self._restore(one) for one in incidents), *gone), tuple(payload)

    def forget_before(self, before: float) -> None:
        """Forgets incidents resolved before a time."""
        self._resolved = [one for one in self._resolved if (one.resolved_at or 0.0) >= before]

    def waiting_incidents(self) -> Iterable[Incident]:
        """Returns the earlier incidents not matched yet."""
        return tuple(self.waiting.values())

    def _resolve_missing(self, t: float, since: float, unknown: Callable[[Incident], bool]) -> list[IncidentChange]:
        """Resolves incidents judged as over, and those that could not be judged for too long."""
        payload = []
        for key, one in tuple(self.waiting.items()):
            if unknown(one):
                self._unknown_until[key] = t
            judged = t - self._unknown_until.get(key, since)
            if judged > RESTORE_WAIT or t - since > UNKNOWN_TIMEOUT:
                self._resolved.append(replace(self.waiting.pop(key), state="resolved", resolved_at=t))
                payload.append(IncidentChange(t, one.id, TEXT_NOT_SEEN if judged > RESTORE_WAIT else TEXT_UNKNOWN))
        return payload

    def _restore(self, one: Incident) -> Incident:
        before = self._restored.get(one.id)
        root = self._restored.get(one.root_id)
        if before is not None:
            one = replace(one, id=before.id, opened_at=before.opened_at)
        if root and one.explained_by:
            one = replace(one, explained_by=replace(one.explained_by, id=root.id))
        return one


def _match_key(one: Incident) -> Key:
    return one.condition, one.kind, one.name


def _restore_change(change: IncidentChange, known: dict[str, Incident]) -> IncidentChange:
    before = known.get(change.id)
    if before is None:
        return change
    return IncidentChange(change.t, before.id, TEXT_STILL_FIRING if change.what == "opened" else change.what)
