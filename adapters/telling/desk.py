"""What there is to tell: incidents that fire and are likely, without those that are explained or silenced.

What was told once stays told while it fires, even where its confidence sinks: telling it off and on would be worse.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from skewscope.adapters.telling.base import CHANGED, OPENED, RESOLVED, WITHDRAWN, Scope, Told
from skewscope.engine.incident import SEVERITIES, Incident


@dataclass
class Desk:
    """What one teller has been told."""

    scope: Scope
    told: dict[str, Incident] = field(default_factory=dict)
    """What is told as firing, by id."""

    def turn(self, t: float, incidents: Iterable[Incident], silenced: Mapping[str, str]) -> list[Told]:
        """What a tick changes; `silenced` names the silence of each incident that has one."""
        there = {one.id: one for one in incidents}
        found = [ended for id_ in self.told if (ended := self._ended(t, id_, there.get(id_), silenced))]
        for each in found:
            del self.told[each.incident.id]
        for id_, one in there.items():
            before = self.told.get(id_)
            if before is None and self._wanted(t, one, silenced):
                found.append(Told(OPENED, "", one))
                self.told[id_] = one
            elif before is not None:
                if _place(before) != _place(one):
                    found.append(Told(CHANGED, "", one))
                self.told[id_] = one
        return found

    def _ended(self, t: float, id_: str, now: Incident | None, silenced: Mapping[str, str]) -> Told | None:
        """That something is told no longer; None where it still is."""
        if now is None:
            before = self.told[id_]
            return Told(RESOLVED, "", replace(before, state="resolved", resolved_at=before.resolved_at or t))
        if now.state != "firing":
            return Told(RESOLVED, "", now)
        if self.scope.roots and now.explained_by is not None:
            return Told(WITHDRAWN, f"explained by {now.explained_by}", now)
        return Told(WITHDRAWN, f"silenced by {silenced[id_]}", now) if id_ in silenced else None

    def _wanted(self, t: float, one: Incident, silenced: Mapping[str, str]) -> bool:
        if one.state != "firing" or not one.likely or one.id in silenced:
            return False
        if self.scope.roots and one.explained_by is not None:
            return False
        return t - one.opened_at >= self.scope.after and _rank(one.severity) >= _rank(self.scope.least)


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else 0


def _place(one: Incident) -> tuple[object, ...]:
    return one.severity, one.kind, one.name
