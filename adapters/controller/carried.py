"""Incidents that were open when a controller stopped: they go on under their old names, or end with a reason.

An engine that starts knows nothing of before, and opens anew what still holds. Here that becomes the incident that was
there: same id, same opening time, not announced again. Where the engine cannot say yet whether it still holds, as long
as an agent has not come back, it goes on too: what is unknown ends nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from skewscope.engine.incident import Incident
from skewscope.engine.incidents import Change

WAIT = 90.0
"""Seconds in which what still holds has fired again: windows and holds are full by then."""
UNHEARD = 86400.0
"""Seconds after which what nobody can say anything of is given up: a node may be gone for good."""
AGAIN = "still there after a restart"
GONE = "resolved: not seen again after a restart"
LOST = "resolved: nothing was heard of it for a day after a restart"

Key = tuple[str, str, str]


@dataclass
class Carried:
    """What was open before, matched by condition and entity with what fires now."""

    waiting: dict[Key, Incident]
    _since: float | None = None
    _judged: dict[Key, float] = field(default_factory=dict)
    """Since when the engine can say that of those that wait."""
    _known: dict[str, Incident] = field(default_factory=dict)
    """By the engine's id: what it was before."""
    _ended: list[Incident] = field(default_factory=list)

    @classmethod
    def of(cls, incidents: Iterable[Incident]) -> "Carried":
        """From those that were open."""
        return cls({_key(one): one for one in incidents})

    def over(
        self,
        t: float,
        incidents: Sequence[Incident],
        changes: Iterable[Change],
        unknown: Callable[[Incident], bool] = lambda _: False,
    ) -> tuple[tuple[Incident, ...], tuple[Change, ...]]:
        """Incidents and changes of a tick, as who knew them before is told.

        Args:
            t: the end of the tick.
            incidents: as the engine knows them.
            changes: of the tick.
            unknown: whether the engine cannot say if an incident of before still holds.
        """
        self._since = t if self._since is None else self._since
        if not (self.waiting or self._known or self._ended):
            return tuple(incidents), tuple(changes)
        for one in incidents:
            if one.id not in self._known and (before := self.waiting.pop(_key(one), None)):
                self._known[one.id] = before
        told = [_renamed(change, self._known) for change in changes]
        told += self._end(t, self._since, unknown)
        gone = (*self.waiting.values(), *self._ended)
        return (*(self._as_before(one) for one in incidents), *gone), tuple(told)

    def forget(self, before: float) -> None:
        """Drops what ended before a time."""
        self._ended = [one for one in self._ended if (one.resolved_at or 0.0) >= before]

    def open(self) -> Iterable[Incident]:
        """Those of before that nothing was heard of yet."""
        return tuple(self.waiting.values())

    def _end(self, t: float, since: float, unknown: Callable[[Incident], bool]) -> list[Change]:
        """Ends those that the engine has judged for long enough, and those that it could not for too long."""
        told = []
        for key, one in tuple(self.waiting.items()):
            if unknown(one):
                self._judged[key] = t
            judged = t - self._judged.get(key, since)
            if judged > WAIT or t - since > UNHEARD:
                self._ended.append(replace(self.waiting.pop(key), state="resolved", resolved_at=t))
                told.append(Change(t, one.id, GONE if judged > WAIT else LOST))
        return told

    def _as_before(self, one: Incident) -> Incident:
        before = self._known.get(one.id)
        root = self._known.get(one.explained_by or "")
        if before is not None:
            one = replace(one, id=before.id, opened_at=before.opened_at)
        return replace(one, explained_by=root.id) if root else one


def _key(one: Incident) -> Key:
    return one.condition, one.kind, one.name


def _renamed(change: Change, known: dict[str, Incident]) -> Change:
    before = known.get(change.id)
    if before is None:
        return change
    return Change(change.t, before.id, AGAIN if change.what == "opened" else change.what)
