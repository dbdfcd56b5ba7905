"""Incidents that were open when a controller stopped: they go on under their old names, or end with a reason.

An engine that starts knows nothing of before, and opens anew what still holds. Here that becomes the incident that was
there: same id, same opening time, not announced again. Where the engine cannot say yet whether it still holds, as long
as an agent has not come back, it goes on too: what is unknown ends nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from skewscope.engine.incidents.lifecycle import IncidentChange
from skewscope.engine.model.incident import Incident

RESTORE_WAIT = 90.0
"""Seconds in which what still holds has fired again: windows and holds are full by then."""
UNKNOWN_TIMEOUT = 86400.0
"""Seconds after which what nobody can say anything of is given up: a node may be gone for good."""
TEXT_STILL_FIRING = "still there after a restart"
TEXT_NOT_SEEN = "resolved: not seen again after a restart"
TEXT_UNKNOWN = "resolved: nothing was heard of it for a day after a restart"

Key = tuple[str, str, str]


@dataclass
class RestoredIncidents:
    """What was open before, matched by condition and entity with what fires now."""

    waiting: dict[Key, Incident]
    _started_at: float | None = None
    _unknown_until: dict[Key, float] = field(default_factory=dict)
    """Since when the engine can say that of those that wait."""
    _restored: dict[str, Incident] = field(default_factory=dict)
    """By the engine's id: what it was before."""
    _resolved: list[Incident] = field(default_factory=list)

    @classmethod
    def from_incidents(cls, incidents: Iterable[Incident]) -> "RestoredIncidents":
        """From those that were open."""
        return cls({_match_key(one): one for one in incidents})

    def apply(
        self,
        t: float,
        incidents: Sequence[Incident],
        changes: Iterable[IncidentChange],
        unknown: Callable[[Incident], bool] = lambda _: False,
    ) -> tuple[tuple[Incident, ...], tuple[IncidentChange, ...]]:
        """Incidents and changes of a tick, as who knew them before is told.

        Args:
            t: the end of the tick.
            incidents: as the engine knows them.
            changes: of the tick.
            unknown: whether the engine cannot say if an incident of before still holds.
        """
        self._started_at = t if self._started_at is None else self._started_at
        if not (self.waiting or self._restored or self._resolved):
            return tuple(incidents), tuple(changes)
        for one in incidents:
            if one.id not in self._restored and (before := self.waiting.pop(_match_key(one), None)):
                self._restored[one.id] = before
        told = [_restore_change(change, self._restored) for change in changes]
        told += self._resolve_missing(t, self._started_at, unknown)
        gone = (*self.waiting.values(), *self._resolved)
        return (*(self._restore(one) for one in incidents), *gone), tuple(told)

    def forget_before(self, before: float) -> None:
        """Drops what ended before a time."""
        self._resolved = [one for one in self._resolved if (one.resolved_at or 0.0) >= before]

    def waiting_incidents(self) -> Iterable[Incident]:
        """Those of before that nothing was heard of yet."""
        return tuple(self.waiting.values())

    def _resolve_missing(self, t: float, since: float, unknown: Callable[[Incident], bool]) -> list[IncidentChange]:
        """Ends those that the engine has judged for long enough, and those that it could not for too long."""
        told = []
        for key, one in tuple(self.waiting.items()):
            if unknown(one):
                self._unknown_until[key] = t
            judged = t - self._unknown_until.get(key, since)
            if judged > RESTORE_WAIT or t - since > UNKNOWN_TIMEOUT:
                self._resolved.append(replace(self.waiting.pop(key), state="resolved", resolved_at=t))
                told.append(IncidentChange(t, one.id, TEXT_NOT_SEEN if judged > RESTORE_WAIT else TEXT_UNKNOWN))
        return told

    def _restore(self, one: Incident) -> Incident:
        before = self._restored.get(one.id)
        root = self._restored.get(one.explained_by or "")
        if before is not None:
            one = replace(one, id=before.id, opened_at=before.opened_at)
        return replace(one, explained_by=root.id) if root else one


def _match_key(one: Incident) -> Key:
    return one.condition, one.kind, one.name


def _restore_change(change: IncidentChange, known: dict[str, Incident]) -> IncidentChange:
    before = known.get(change.id)
    if before is None:
        return change
    return IncidentChange(change.t, before.id, TEXT_STILL_FIRING if change.what == "opened" else change.what)
