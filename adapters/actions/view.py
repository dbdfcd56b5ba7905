"""What the coordinator knows of the fleet at one time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skewscope.engine.model.incident import Incident


@dataclass
class IncidentView:
    """The incidents of the last tick, and since when each has stopped firing."""

    t: float = 0.0
    incidents: Mapping[str, Incident] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    """Ids of firing incidents whose rule cannot be judged at present, such as where a drained member has no work."""
    _quiet_since: dict[str, float] = field(default_factory=dict)

    def update(self, t: float, incidents: Sequence[Incident], unknown: frozenset[str]) -> None:
        """Takes the incidents of a tick."""
        self.t, self.unknown = t, unknown
        self.incidents = {one.id: one for one in incidents}
        firing = {one.id for one in incidents if one.state == "firing"}
        self._quiet_since = {id_: at for id_, at in self._quiet_since.items() if id_ not in firing}
        for one in incidents:
            if one.state == "resolved":
                self._quiet_since.setdefault(one.id, t if one.resolved_at is None else min(one.resolved_at, t))

    def shift(self, seconds: float) -> None:
        """Moves all times by what the clock was set."""
        self.t += seconds
        self._quiet_since = {id_: since + seconds for id_, since in self._quiet_since.items()}

    def is_firing(self, id_: str) -> bool | None:
        """Returns whether an incident fires; None where it does but cannot be judged at present."""
        one = self.incidents.get(id_)
        if one is None or one.state != "firing":
            return False
        return None if id_ in self.unknown else True

    def quiet_for(self, id_: str) -> float:
        """Returns the seconds since an incident stopped firing; of one that is not known, since it is not."""
        if id_ not in self.incidents:
            self._quiet_since.setdefault(id_, self.t)
        since = self._quiet_since.get(id_)
        return 0.0 if since is None else max(self.t - since, 0.0)
