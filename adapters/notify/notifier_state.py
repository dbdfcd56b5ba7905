"""Selects the incidents to report: firing, settled, likely or a symptom, neither explained by another one nor silenced.

A diagnosis that is unlikely by itself is reported once it explains what is likely: that is not reported beside it.

A reported incident stays reported while it fires even if its confidence sinks, to avoid flapping.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skewscope.adapters.notify.base import CHANGED, OPENED, RESOLVED, WITHDRAWN, IncidentUpdate, NotificationScope
from skewscope.engine.model.incident import SEVERITIES, Incident

SYMPTOM_MIN_AGE = 30.0
"""Seconds a symptom must have fired: meanwhile a diagnosis may explain it."""


@dataclass
class NotifierState:
    """What one notifier has reported."""

    scope: NotificationScope
    reported: dict[str, Incident] = field(default_factory=dict)
    """Incidents reported as firing, by id."""

    def update(self, t: float, incidents: Iterable[Incident], silenced: Mapping[str, str]) -> list[IncidentUpdate]:
        """Returns the updates of a tick; `silenced` maps incident ids to the name of their silence."""
        known = tuple(incidents)
        there = {one.id: one for one in _with_effects(known)}
        shown = {one.root_id for one in known if one.root_id and self._is_certain(one)}
        found = [ended for id_ in self.reported if (ended := self._closing_update(t, id_, there.get(id_), silenced))]
        for each in found:
            del self.reported[each.incident.id]
        for id_, one in there.items():
            before = self.reported.get(id_)
            if before is None and (self._is_certain(one) or id_ in shown) and self._is_wanted(t, one, silenced):
                found.append(IncidentUpdate(OPENED, "", one))
                self.reported[id_] = one
            elif before is not None and before is not one:
                if _identity(before) != _identity(one):
                    found.append(IncidentUpdate(CHANGED, "", one))
                self.reported[id_] = one
        return found

    def _closing_update(
        self, t: float, id_: str, now: Incident | None, silenced: Mapping[str, str]
    ) -> IncidentUpdate | None:
        """Returns the update that ends a report; None while it continues."""
        if now is None:
            before = self.reported[id_]
            return IncidentUpdate(RESOLVED, "", replace(before, state="resolved", resolved_at=before.resolved_at or t))
        if now.state != "firing":
            return IncidentUpdate(RESOLVED, "", now)
        if self.scope.roots_only and now.explained_by is not None:
            return IncidentUpdate(WITHDRAWN, f"{now.explained_by.words} {now.explained_by.id}", now)
        return IncidentUpdate(WITHDRAWN, f"silenced by {silenced[id_]}", now) if id_ in silenced else None

    def _is_certain(self, one: Incident) -> bool:
        """Whether an incident fires, and is likely or a symptom: what explains such a one is sent instead of it."""
        return one.state == "firing" and (self.scope.symptoms if one.is_symptom else one.is_likely)

    def _is_wanted(self, t: float, one: Incident, silenced: Mapping[str, str]) -> bool:
        is_hidden = self.scope.roots_only and one.explained_by is not None
        if one.state != "firing" or not one.is_settled or is_hidden or one.id in silenced:
            return False
        min_age = max(self.scope.min_age, SYMPTOM_MIN_AGE) if one.is_symptom else self.scope.min_age
        return t - one.opened_at >= min_age and _severity_rank(one.severity) >= _severity_rank(self.scope.min_severity)


def _with_effects(known: Sequence[Incident]) -> Iterator[Incident]:
    """Yields incidents; a diagnosis is at least as severe as what it explains, which is not sent by itself."""
    worst: dict[str, int] = {}
    for one in known:
        if one.root_id and one.is_counted:
            worst[one.root_id] = max(worst.get(one.root_id, 0), _severity_rank(one.severity))
    for one in known:
        rank = worst.get(one.id, 0)
        is_worse = rank > _severity_rank(one.severity) and not one.is_symptom
        yield replace(one, severity=SEVERITIES[rank]) if is_worse else one


def _severity_rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else 0


def _identity(one: Incident) -> tuple[object, ...]:
    return one.severity, one.kind, one.name
