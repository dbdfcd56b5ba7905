"""The life of all incidents: here alone one opens, fires again, is explained, resolves and is forgotten.

Which alerts are one incident is decided in `alert_incidents`, which findings are one in `finding_incidents`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from skewscope.engine.incidents.state import IncidentState, IncidentTiming, final_explanation
from skewscope.engine.model.incident import DIAGNOSIS, SYMPTOM, Explanation, IncidentChange
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.parameters import RESTART_S
from skewscope.engine.model.topology import TEXT_GONE

MAX_OPENED = 1000
"""Incidents that open, and that are compared with alternatives, in one tick; the others follow in the next ones. So a
fault of thousands of places holds up no tick for seconds."""
WINDOW_SAMPLES = 3
"""Samples that the windows of rules hold at least."""
QUIET_SAMPLES = 2
"""What has cleared is over after so many samples: one below a limit that it was above is chance..."""
RULES_CLEAR_S = 10.0
"""...of which rules wait for those of so many seconds themselves."""
SETTLE_SAMPLES = 1.2
"""The next sample of another place, and the seconds that rules wait for then: a likelier cause may show until then."""
MAX_HOLD_S = 300.0
"""Longest time for which one that comes and goes stays open: it doubles each time that it comes back."""
State = TypeVar("State", bound=IncidentState)


@dataclass(frozen=True, slots=True)
class SampleTimes:
    """When the samples of all series come, in seconds."""

    period: float
    """Usual time between two samples of a series."""
    delay: float
    """By how much they come late, beyond a tick."""
    since: float = -math.inf
    """Since when nearly all series have been sampled."""
    newest: float = math.inf
    """Of the newest sample."""


class IncidentLifecycle:
    """The states of all incidents."""

    def __init__(self, timing: IncidentTiming) -> None:
        self.timing = timing
        self.states: dict[str, IncidentState] = {}
        """All incidents by id, in the order in which they opened."""
        self.room = MAX_OPENED
        """How many more may open in this tick."""
        self.period = 0.0
        """Usual seconds between two samples of a series."""
        self.delay = 0.0
        """Seconds by which samples come late, beyond a tick."""
        self.newest = math.inf
        """Time of the newest sample, seconds since 1970."""
        self.version = 0
        """Counts the changes."""
        self._recent: dict[str, dict[str, Any]] = {DIAGNOSIS: {}, SYMPTOM: {}}
        self._changes: list[IncidentChange] = []

    def recent(self, kind: type[State]) -> dict[str, State]:
        """Returns the incidents of a kind that are open, or so young that they may fire again or explain others."""
        return self._recent[kind.category]

    def begin_tick(self) -> None:
        """Lets incidents open again, after as many as may open in one tick."""
        self.room = MAX_OPENED

    @property
    def quiet_s(self) -> float:
        """Seconds that samples need beyond what rules wait for themselves; 0 where they come as often as rules look."""
        return max(QUIET_SAMPLES * self.period - RULES_CLEAR_S, 0.0)

    @property
    def settle_s(self) -> float:
        """Seconds for which a diagnosis has to hold before it is known that nothing else explains it."""
        return min(SETTLE_SAMPLES * self.period, self.quiet_s) if self.period else RESTART_S

    def hold_s(self, incident: IncidentState) -> float:
        """Returns for how many seconds an incident stays open once its evidence has cleared."""
        return min(self.quiet_s * 2.0 ** min(incident.flaps, 10), MAX_HOLD_S)

    def settles_at(self, incident: IncidentState) -> float:
        """Returns when an open diagnosis settles if it still holds then; infinite once it has.

        What has held for long when its evidence holds has left that time for others to be sampled, but for a period: it
        may have begun just before the first sample that shows it. Samples that come late are waited for.
        """
        if incident.is_settled or not incident.is_open:
            return math.inf
        sampled = max(incident.persistence - self.period, 0.0)
        settled = incident.since + max(self.settle_s - sampled, 0.0)
        late = min(self.delay, self.period) if settled > incident.since else 0.0
        return min(max(settled, incident.others_sampled_at), settled + late)

    def follow_samples(self, t: float, sampling: SampleTimes) -> None:
        """Takes in when samples come: diagnoses wait for those of other places, taken no earlier than their own."""
        self.period, self.delay, self.newest = sampling.period, sampling.delay, sampling.newest
        for one in self._recent[DIAGNOSIS].values():
            if not one.is_settled and math.isinf(one.others_sampled_at) and sampling.since >= one.sampled_at:
                one.others_sampled_at = t

    @property
    def explain_s(self) -> float:
        """Seconds for which a resolved root explains: the windows of rules hold some samples at least."""
        return max(self.timing.explain_s, WINDOW_SAMPLES * self.period)

    def cool_down_s(self, incident: IncidentState) -> float:
        """Returns for how many seconds after its end an incident that fires again is the same one."""
        return max(self.timing.cool_down_s, self.hold_s(incident))

    def open(self, t: float, incident: IncidentState) -> None:
        """Adds an incident."""
        self.room -= 1
        self.states[incident.id] = self._recent[incident.category][incident.id] = incident
        self.record_change(t, incident, "opened")

    def reopen(self, t: float, incident: IncidentState) -> None:
        """Lets an incident fire again that has resolved a short time ago."""
        incident.resolved_at = None
        incident.flaps += 1
        self.record_change(t, incident, "fired again")

    def explain(self, t: float, incident: IncidentState, new: Explanation | None) -> None:
        """Sets what explains an incident."""
        old, incident.explanation = incident.explanation, new
        if (old and old.id) != (new and new.id):
            self.record_change(t, incident, f"explained by {new.id}" if new else "a root again")

    def resolve(self, t: float, incident: IncidentState) -> None:
        """Ends an incident that is over."""
        incident.resolved_at = t
        self.record_change(t, incident, "resolved")

    def end_places(self, t: float, has_ended: Callable[[Entity], bool]) -> None:
        """Ends the incidents of which no entity is there any more: whether they were over is not known.

        None of them fires again: what comes there next is another one.
        """
        for incident in self.states.values():
            if incident.is_open and incident.keep_known(lambda entity: not has_ended(entity)) is None:
                incident.resolved_at, incident.is_gone = t, True
                self._recent[incident.category].pop(incident.id, None)
                self.record_change(t, incident, TEXT_GONE)

    def record_change(self, t: float, incident: IncidentState, what: str) -> None:
        """Add an event to an incident's history and to the changes."""
        incident.add_history(t, what)
        self.version += 1
        self._changes.append(IncidentChange(t, incident.id, what))

    def take_changes(self) -> tuple[IncidentChange, ...]:
        """Returns the changes since the last call, in order."""
        changes, self._changes = tuple(self._changes), []
        return changes

    def expire_recent(self, t: float) -> bool:
        """Drop from the recent incidents those that resolved too long ago to fire again or to explain.

        Returns whether there were some.
        """
        gone = [
            (some, id_)
            for some in self._recent.values()
            for id_, one in some.items()
            if not one.is_open and one.resolved_age(t) > max(self.cool_down_s(one), self.explain_s)
        ]
        for some, id_ in gone:
            del some[id_]
        return bool(gone)

    def forget(self, before: float) -> None:
        """Drop the incidents that resolved before a time, except those that still explain others."""
        states = self.states
        recent = {id_: one for some in self._recent.values() for id_, one in some.items()}
        kept = {one.id for one in states.values() if one.resolved_at is None or one.resolved_at >= before} | set(recent)
        kept |= {one.explanation.id for one in recent.values() if one.explanation and one.explanation.id in states}
        roots = {id_: final_explanation(states[id_], states) for id_ in kept}
        named = kept | {root.id for root in roots.values() if root}
        self.states = {id_: one for id_, one in states.items() if id_ in named}
        for one in self.states.values():
            if one.explanation and one.explanation.id not in named:
                one.explanation = roots.get(one.id)  # the incident between the two is dropped
        self.version += 1

    def take_over(self, before: "IncidentLifecycle", is_known: Callable[[Entity], bool]) -> None:
        """Goes on with the incidents of another lifecycle, except those on entities that there are no more."""
        found = (one.keep_known(is_known) for one in before.states.values())
        self.states = {one.id: one for one in found if one is not None}
        self._recent = {
            kind: {id_: self.states[id_] for id_ in some if id_ in self.states}
            for kind, some in before._recent.items()  # noqa: SLF001 - one of its own kind
        }
        self.version, self.period, self.delay = before.version + 1, before.period, before.delay
        self.newest = before.newest
