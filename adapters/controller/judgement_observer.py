"""How far the engine judges incidents, for those who act on them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from skewscope.adapters.actions.view import JudgementState
from skewscope.adapters.controller.uncertainty import UncertaintyCheck
from skewscope.adapters.runtime.elapsed_time import ElapsedTime
from skewscope.engine.engine import Engine, SignalSeries
from skewscope.engine.model.arrays import Index
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.verdict import UNKNOWN, YES, find_decisive_unknowns

MAX_STEP = 10.0
"""Seconds that count for one tick, whatever the clock does."""
MAX_ROOTS = 200
"""Diagnoses whose counter-evidence is looked at in one tick, the surest first: more are no ground for an act."""
TOO_MANY = ("any counter-evidence holds, since too many diagnoses fire",)


@dataclass
class JudgementObserver:
    """Follows since when places report; kept over a change of the engine."""

    places: frozenset[str] = frozenset()
    """Names of the places whose age matters: the members of targets."""
    _time: ElapsedTime = field(default_factory=lambda: ElapsedTime(MAX_STEP))
    _first_seen: dict[str, float] = field(default_factory=dict)
    """By name of a place: elapsed seconds at its first sample."""
    _counters: dict[str, Index] = field(default_factory=dict)
    """Positions of the series of each place."""
    _known: tuple[Engine, frozenset[str], tuple[int, int]] | None = None
    """The engine, the places and the version of its series that were looked through."""
    _members: dict[str, dict[int, str]] = field(default_factory=dict)
    """By kind: the names of the places, by the numbers of their entities."""

    def observe(
        self,
        t: float,
        engine: Engine,
        incidents: Iterable[Incident],
        inherited: Collection[str],
        check: UncertaintyCheck,
    ) -> JudgementState:
        """Returns what is known at a tick. To be called by the thread that owns the engine, once for each tick."""
        self._time.advance(t)
        self._find_series(engine)
        firing = [one for one in incidents if one.state == "firing"]
        verdicts = {one.id: check.verdict(one) for one in firing if check.has_rule(one)}
        roots = [one for one in firing if one.is_reason]
        roots.sort(key=lambda one: -one.confidence)
        undecided = {one.id: found for one in roots[:MAX_ROOTS] if (found := self._list_undecided(engine, one, check))}
        undecided |= {one.id: TOO_MANY for one in roots[MAX_ROOTS:]}
        return JudgementState(
            frozenset(id_ for id_, each in verdicts.items() if each == UNKNOWN),
            frozenset(id_ for id_, each in verdicts.items() if each != YES),
            frozenset(inherited),
            self._time.seconds,
            {one.id: age for one in roots[:MAX_ROOTS] if (age := self._age_of(t, engine, one.name)) is not None},
            undecided,
        )

    def _find_series(self, engine: Engine) -> None:
        known = engine, self.places, engine.series_version
        if known == self._known or not self.places:
            return
        if self._known is None or self._known[:2] != known[:2]:
            self._members = {}
        self._known = known
        found: dict[str, list[int]] = {}
        for series in engine.list_series():
            names = self._names_of(engine, series)
            here = np.isin(series.entity, list(names))
            for number, position in zip(series.entity[here].tolist(), series.position[here].tolist(), strict=True):
                found.setdefault(names[number], []).append(position)
        self._counters = {name: np.array(positions, np.intp) for name, positions in found.items()}
        for name in found:
            self._first_seen.setdefault(name, self._time.seconds)

    def _names_of(self, engine: Engine, series: SignalSeries) -> dict[int, str]:
        """Returns the places of the kind of a signal, by number; found once for each kind."""
        if series.kind not in self._members:
            shown = [engine.display_name(series.kind, name)[1] for name in series.entity_names]
            self._members[series.kind] = {n: name for n, name in enumerate(shown) if name in self.places}
        return self._members[series.kind]

    def _age_of(self, t: float, engine: Engine, name: str) -> float | None:
        """Returns the seconds since a place, or the node that it is a part of, began to report or began anew."""
        place = name if name in self._counters else name.partition("/")[0]
        if place not in self._counters:
            return None
        starts = engine.counter_starts(self._counters[place])
        newest = float(np.fmax.reduce(starts, initial=-np.inf))
        return min(self._time.seconds - self._first_seen[place], max(t - newest, 0.0))

    def _list_undecided(self, engine: Engine, one: Incident, check: UncertaintyCheck) -> tuple[str, ...]:
        """Returns the counter-evidence of an incident that is unknown now and would end it."""
        rule, truth = engine.rules.get(one.rule), check.present_truth(one)
        if rule is None or truth is None:
            return ()
        items = rule.evidence
        return find_decisive_unknowns(
            *([item.name for item in items], [item.weight for item in items], [item.against for item in items]),
            *(truth, rule.fire.score),
        )
