"""What the coordinator knows of the fleet at one time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skewscope.engine.actions.grounds import Preconditions, has_same_hardware, shows_past
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology


@dataclass(frozen=True, slots=True)
class JudgementState:
    """How far incidents are judged at one tick, beside the incidents themselves."""

    unknown: frozenset[str] = frozenset()
    """Ids of firing incidents whose rule cannot be judged at present, such as where a drained member has no work."""
    quiet: frozenset[str] = frozenset()
    """Ids of firing incidents whose evidence does not hold at present, those of `unknown` included."""
    inherited: frozenset[str] = frozenset()
    """Ids of incidents of an earlier run of the controller that were not judged since its start."""
    running_for: float = math.inf
    """Seconds for which the controller has judged."""
    member_age: Mapping[str, float] = field(default_factory=dict)
    """Seconds for which the place of an incident has reported without a new start, by id."""
    undecided: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Counter-evidence that is unknown at present and would end an incident, by id."""


NOTHING_KNOWN = JudgementState()


@dataclass
class IncidentView:
    """The incidents of the last tick, and since when each has stopped firing."""

    t: float = 0.0
    incidents: Mapping[str, Incident] = field(default_factory=dict)
    judgement: JudgementState = field(default_factory=JudgementState)
    _quiet_since: dict[str, float] = field(default_factory=dict)
    _held_since: dict[str, float] = field(default_factory=dict)
    """Since when the evidence of each firing incident holds without a break."""
    _had_past: set[str] = field(default_factory=set)
    """Ids of incidents whose places were seen to be well before."""

    def update(self, t: float, incidents: Sequence[Incident], judgement: JudgementState = NOTHING_KNOWN) -> None:
        """Takes the incidents of a tick."""
        self.t, self.judgement = t, judgement
        self.incidents = {one.id: one for one in incidents}
        firing = {one.id for one in incidents if one.state == "firing"}
        holds = firing - judgement.quiet - judgement.inherited
        self._held_since = {id_: self._held_since.get(id_, t) for id_ in holds}
        self._had_past &= self.incidents.keys()
        self._had_past |= {one.id for one in incidents if one.id not in self._had_past and shows_past(one)}
        self._quiet_since = {id_: at for id_, at in self._quiet_since.items() if id_ not in firing}
        for one in incidents:
            if one.state == "resolved":
                self._quiet_since.setdefault(one.id, t if one.resolved_at is None else min(one.resolved_at, t))

    def shift(self, seconds: float) -> None:
        """Moves all times by what the clock was set."""
        self.t += seconds
        self._quiet_since = {id_: since + seconds for id_, since in self._quiet_since.items()}
        self._held_since = {id_: since + seconds for id_, since in self._held_since.items()}

    def is_firing(self, id_: str) -> bool | None:
        """Returns whether an incident fires; None where it does but cannot be judged at present."""
        one = self.incidents.get(id_)
        if one is None or one.state != "firing":
            return False
        return None if id_ in self.judgement.unknown or id_ in self.judgement.inherited else True

    def is_judged(self, id_: str) -> bool:
        """Returns whether an incident was judged since the controller started."""
        return id_ not in self.judgement.inherited

    def held_since(self, id_: str) -> float:
        """Returns since when the evidence of an incident holds without a break; -inf where it does not."""
        return self._held_since.get(id_, -math.inf)

    def holds(self, id_: str) -> bool:
        """Returns whether an incident fires and its evidence holds at present."""
        return id_ in self._held_since

    def preconditions_of(self, incident: Incident, topology: Topology) -> Preconditions:
        """Returns what is known of an incident beside its evidence."""
        known, id_ = self.judgement, incident.id
        return Preconditions(
            known.running_for,
            known.member_age.get(id_, math.inf),
            known.undecided.get(id_, ()),
            id_ in self._had_past,
            has_same_hardware(incident.name, topology),
        )

    def quiet_for(self, id_: str) -> float:
        """Returns the seconds since an incident stopped firing; of one that is not known, since it is not."""
        if id_ not in self.incidents:
            self._quiet_since.setdefault(id_, self.t)
        since = self._quiet_since.get(id_)
        return 0.0 if since is None else max(self.t - since, 0.0)
