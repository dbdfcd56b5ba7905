"""Restores incidents that were open when a controller stopped: they continue under their ids, or are resolved.

A new engine knows nothing of earlier incidents and opens anew what still holds. That is mapped to the earlier incident:
same id, same opening time, no second notification. While the engine cannot judge an earlier incident, because an agent
has not returned, the incident continues: unknown never resolves. The time that an incident has not been seen is kept
over restarts, so that a controller that is restarted again and again resolves what is over. A clock that was set back
makes no incident end before it began.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from skewscope.adapters.runtime.elapsed_time import ElapsedTime
from skewscope.engine.engine import IncidentChange
from skewscope.engine.model.incident import Incident, replace_ids, replace_references
from skewscope.engine.model.topology import TEXT_GONE
from skewscope.engine.model.verdict import NO, YES

RESTORE_WAIT = 90.0
"""Seconds within which an incident that still holds fires again: windows and holds are full by then."""
MAX_STEP = 10.0
"""Seconds that count for one tick, whatever the clock does."""
UNKNOWN_TIMEOUT = 86400.0
"""Seconds after which an incident that cannot be judged is resolved: its node may be gone for good."""
TEXT_STILL_FIRING = "still there after a restart"
TEXT_NOT_SEEN = "resolved: not seen again after a restart"
TEXT_FOUND_ANEW = "resolved: found anew while the store could not be read"
TEXT_SAME = "resolved: the same as another one that was open before a restart"
TEXT_UNKNOWN = "resolved: nothing was heard of it for a day after a restart"

Key = tuple[str, str, str]


class Wait(NamedTuple):
    """How long an earlier incident has waited to be seen again, in seconds, over all restarts."""

    unseen: float = 0.0
    """Judged, without being seen."""
    waited: float = 0.0
    """In all."""


@dataclass
class RestoredIncidents:
    """Earlier incidents, matched with those of the engine by condition and entity."""

    waiting: dict[Key, Incident]
    waits: dict[str, Wait] = field(default_factory=dict)
    """How long each of them has waited, by id."""
    same: list[Incident] = field(default_factory=list)
    """Those beside them of the same condition and entity, such as parts that had moved there: they end."""
    _live: set[Key] = field(default_factory=set)
    """Conditions and entities that fire."""
    _ids: set[str] = field(default_factory=set)
    _news: list[IncidentChange] = field(default_factory=list)
    """Changes for the next tick."""
    _time: ElapsedTime = field(default_factory=lambda: ElapsedTime(MAX_STEP))
    _restored: dict[str, Incident] = field(default_factory=dict)
    """The earlier incident, by the engine's id."""
    _resolved: list[Incident] = field(default_factory=list)
    _last: dict[str, tuple[Incident, int, Incident]] = field(default_factory=dict)
    """By the engine's id: an incident, the number of known ids, and the incident with restored identities."""

    @classmethod
    def from_incidents(
        cls, incidents: Iterable[Incident], waits: Mapping[str, Wait] | None = None
    ) -> "RestoredIncidents":
        """Creates it from the open incidents, and how long they had waited before.

        Of several of one condition and entity the oldest root goes on.
        """
        waiting: dict[Key, Incident] = {}
        ordered = sorted(incidents, key=lambda one: (one.explained_by is not None, one.opened_at, one.id))
        same = [one for one in ordered if waiting.setdefault(match_key(one), one) is not one]
        return cls(waiting, {one.id: (waits or {}).get(one.id, Wait()) for one in waiting.values()}, same)

    def apply(
        self,
        t: float,
        incidents: Sequence[Incident],
        changes: Iterable[IncidentChange],
        verdict: Callable[[Incident], int] = lambda _: NO,
    ) -> tuple[tuple[Incident, ...], tuple[IncidentChange, ...]]:
        """Returns incidents and changes of a tick with restored identities.

        Args:
            t: the end of the tick.
            incidents: incidents of the engine.
            changes: changes of the tick.
            verdict: what the engine says of an earlier incident: NO, UNKNOWN or YES.
        """
        if self._time.at is None:
            # The clock was set back since one that opened later than now.
            self.waiting = {key: replace(one, opened_at=min(one.opened_at, t)) for key, one in self.waiting.items()}
        step = self._time.advance(t)
        self._ids = {one.id for one in incidents}
        self._live = {match_key(one) for one in incidents if one.state == "firing"}
        if not (self.waiting or self._restored or self._resolved):
            return tuple(incidents), tuple(changes)
        for one in incidents:
            if one.id not in self._restored and (before := self.waiting.pop(match_key(one), None)):
                self._restored[one.id] = before
                self.waits.pop(before.id, None)
        ids = self._known_ids()
        payload = [_restore_change(change, self._restored, ids) for change in changes]
        self._end_same(t)
        payload += [*self._news, *self._resolve_missing(t, step, verdict)]
        self._news.clear()
        gone = (*self.waiting.values(), *self._resolved)
        return (*(self._restore(one, ids) for one in incidents), *gone), tuple(payload)

    def forget_before(self, before: float) -> None:
        """Forgets incidents resolved before a time."""
        self._resolved = [one for one in self._resolved if (one.resolved_at or 0.0) >= before]
        self._last = {id_: kept for id_, kept in self._last.items() if id_ in self._ids}

    def adopt(self, t: float, stored: Iterable[Incident]) -> None:
        """Takes over the open incidents of a store that could not be read at the start.

        One that was found again meanwhile is known under its new id: the earlier one ends.
        """
        known = {one.id for one in (*self.waiting.values(), *self._restored.values(), *self._resolved)} | self._ids
        for one in stored:
            if one.id in known:
                continue
            if match_key(one) in self._live:
                self._resolved.append(replace(one, state="resolved", resolved_at=max(t, one.opened_at)))
                self._news.append(IncidentChange(t, one.id, TEXT_FOUND_ANEW))
            elif self.waiting.setdefault(match_key(one), one) is not one:
                self.same.append(one)

    def end(self, t: float, gone: Iterable[Incident]) -> None:
        """Ends incidents of the engine whose places are no longer in the topology; resolved ones stay known."""
        ids = self._known_ids()
        for each in gone:
            one = self._restore(each, ids)
            self._resolved.append(self._end_gone(t, one) if one.state == "firing" else one)

    def end_waiting(self, t: float, is_gone: Callable[[Incident], bool]) -> None:
        """Ends the earlier incidents whose places are no longer there."""
        for key, one in tuple(self.waiting.items()):
            if is_gone(one):
                del self.waiting[key]
                self.waits.pop(one.id, None)
                self._resolved.append(self._end_gone(t, one))

    def _end_gone(self, t: float, one: Incident) -> Incident:
        self._news.append(IncidentChange(t, one.id, TEXT_GONE))
        return replace(one, state="resolved", resolved_at=max(t, one.opened_at), is_gone=True)

    def _end_same(self, t: float) -> None:
        for one in self.same:
            self._resolved.append(replace(one, state="resolved", resolved_at=max(t, one.opened_at)))
            self._news.append(IncidentChange(t, one.id, TEXT_SAME))
        self.same.clear()

    def waiting_incidents(self) -> Iterable[Incident]:
        """Returns the earlier incidents not matched yet."""
        return tuple(self.waiting.values())

    def _resolve_missing(self, t: float, step: float, verdict: Callable[[Incident], int]) -> list[IncidentChange]:
        """Resolves incidents judged as over, and those that could not be judged for too long."""
        payload = []
        for key, one in tuple(self.waiting.items()):
            says, wait = verdict(one), self.waits.get(one.id, Wait())
            # What holds again, if not yet for long enough to fire, is not over.
            unseen = 0.0 if says == YES else wait.unseen + (step if says == NO else 0.0)
            self.waits[one.id] = wait = Wait(unseen, wait.waited + step)
            if wait.unseen > RESTORE_WAIT or wait.waited > UNKNOWN_TIMEOUT:
                del self.waits[one.id]
                ended = replace(self.waiting.pop(key), state="resolved", resolved_at=max(t, one.opened_at))
                self._resolved.append(ended)
                why = TEXT_NOT_SEEN if wait.unseen > RESTORE_WAIT else TEXT_UNKNOWN
                payload.append(IncidentChange(t, one.id, why))
        return payload

    def _known_ids(self) -> dict[str, str]:
        """Returns the earlier id of each incident of the engine that has one."""
        return {id_: before.id for id_, before in self._restored.items()}

    def _restore(self, one: Incident, ids: Mapping[str, str]) -> Incident:
        kept = self._last.get(one.id)
        # Known ids are never replaced: as many are the same.
        if kept is None or kept[0] is not one or kept[1] != len(ids):
            kept = self._last[one.id] = one, len(ids), self._replace_identity(one, ids)
        return kept[2]

    def _replace_identity(self, one: Incident, ids: Mapping[str, str]) -> Incident:
        before = self._restored.get(one.id)
        if before is not None:
            ended = one.resolved_at and max(one.resolved_at, before.opened_at)
            one = replace(one, id=before.id, opened_at=before.opened_at, resolved_at=ended)
        return replace_references(one, ids)


def match_key(one: Incident) -> Key:
    """Returns by what an incident is known again under another id."""
    return one.condition, one.kind, one.name


def _restore_change(change: IncidentChange, known: Mapping[str, Incident], ids: Mapping[str, str]) -> IncidentChange:
    before, what = known.get(change.id), replace_ids(change.what, ids)
    if before is None:
        return IncidentChange(change.t, change.id, what)
    return IncidentChange(change.t, before.id, TEXT_STILL_FIRING if what == "opened" else what)
