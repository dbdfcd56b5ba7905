"""Looks at a diagnosis as it runs and makes a scene of each tick."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from skewscope.adapters.scene import Frame, Roster, RuleHealth, Scene, Series, Signals, Spoken, beside
from skewscope.engine.baseline import Baseline
from skewscope.engine.diagnosis import Diagnosis
from skewscope.engine.incident import Incident
from skewscope.engine.places import Entity
from skewscope.engine.rhythm import longer
from skewscope.engine.sets import F64, Index
from skewscope.engine.verdict import UNKNOWN
from skewscope.rules.expr import Peers
from skewscope.rules.kinds import PEER_DEFAULTS, kind_of

if TYPE_CHECKING:
    from skewscope.adapters.machine import Snapshot

MEMORY = 120.0
"""Seconds that a series' own past looks back."""
MOST_SERIES = 100_000
"""More rows nobody reads; the rest is left out, and that is said."""
MOST_SPOKEN = 200
"""Entities of which the evidence is kept at each tick."""


class Album(Protocol):
    """What keeps the scenes that a camera makes."""

    def add(self, scene: Scene, frame: Frame) -> None:
        """Take one more; `scene` comes without its frames."""


@dataclass
class Camera:
    """Looks at a diagnosis after each tick and adds to a film what there is to see."""

    diagnosis: Diagnosis
    film: Album
    _roster: Roster = field(default_factory=Roster)
    _number: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """Of each row, its series in the panel."""
    _counts: np.ndarray = field(default_factory=lambda: np.empty(0, bool))
    _sum: F64 = field(default_factory=lambda: np.empty(0))
    _at: F64 = field(default_factory=lambda: np.empty(0))
    _value: F64 = field(default_factory=lambda: np.empty(0))
    _past: Baseline = field(default_factory=lambda: Baseline(MEMORY))
    _known: set[tuple[str, str, int]] = field(default_factory=set)
    _births: tuple[int, int] = (-1, -1)
    _places: dict[str, Index] = field(default_factory=dict)
    _groups: dict[tuple[str, str, object], int] = field(default_factory=dict)
    _delivered: frozenset[str] = frozenset()
    _lacking: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _terms: dict[str, tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        rules = self.diagnosis.detector.rules
        self._terms = {rule.id: tuple(item.name for item in rule.evidence) for rule in rules.values()}

    def take(self, snapshot: "Snapshot") -> None:
        """Add what is known now."""
        self._learn()
        scene = Scene(
            snapshot.time,
            snapshot.start,
            snapshot.end,
            self.diagnosis.topology,
            snapshot.incidents,
            snapshot.sources,
            (*snapshot.missing, *self._left_out()),
            self._rules(snapshot.incidents),
            Signals(self._roster, ()),
            self._delivered,
            self._terms,
            snapshot.silenced,
        )
        self.film.add(scene, self._frame(snapshot.time))

    def _left_out(self) -> Iterable[str]:
        if len(self._number) >= MOST_SERIES:
            yield f"The table of signals shows {MOST_SERIES:,} series only; rules judge all of them."

    # --- which series there are

    def _learn(self) -> None:
        panel = self.diagnosis.detector.panel
        births = panel.births, sum(rows.version for rows in panel.rows.values())
        if births == self._births:
            return
        self._births = births
        self._places = {}
        found = [row for signal in sorted(panel.rows) for row in self._born(signal)]
        found = found[: MOST_SERIES - len(self._number)]
        if not found:
            return
        self._roster = Roster((*self._roster.series, *(series for series, _, _ in found)))
        self._number = np.append(self._number, [number for _, number, _ in found]).astype(np.intp)
        self._counts = np.append(self._counts, [counts for _, _, counts in found]).astype(bool)
        size = len(self._number)
        self._sum, self._at, self._value = (longer(a, size) for a in (self._sum, self._at, self._value))
        self._past.grow(size)
        self._delivered = frozenset(self._roster.signals)
        self._lacking = {}

    def _born(self, signal: str) -> Iterable[tuple[Series, int, bool]]:
        """The series of a signal that had their first sample since the last look."""
        detector = self.diagnosis.detector
        rows, known = detector.panel.lay(signal), detector.catalogue.signals[signal]
        kind, counts = kind_of(known.entity), known.type in ("counter", "histogram")
        heard = (rows.series >= 0) & np.isfinite(detector.panel.newest(rows.series))
        for at, entity in zip(*(axis.tolist() for axis in np.nonzero(heard)), strict=True):
            selector = rows.selectors[at]
            if (signal, selector, entity) in self._known or "bucket:" in selector:
                continue
            self._known.add((signal, selector, entity))
            name = detector.entities.names[kind][entity]
            unit = f"{known.unit}/s" if counts and known.unit != "s" else "1" if counts else known.unit
            group = self._group(signal, selector, kind, entity)
            yield Series(signal, kind, name, selector, unit, group), int(rows.series[at, entity]), counts

    def _group(self, signal: str, selector: str, kind: str, entity: int) -> int:
        if kind not in self._places:
            self._places[kind] = self._classes(kind)
        place = self._places[kind]
        if entity >= len(place) or place[entity] < 0:
            return -1
        return self._groups.setdefault((signal, selector, int(place[entity])), len(self._groups))

    def _classes(self, kind: str) -> Index:
        """The number of the set of peers that each entity of a kind belongs to, -1 for none."""
        entities = self.diagnosis.detector.entities
        found = np.full(entities.count(kind) + 1, -1, np.intp)
        for bucket in entities.peers(Peers(kind, PEER_DEFAULTS[kind])).buckets:
            found[bucket.members] = bucket.owners[:, None]
        return found[:-1]

    # --- what they are

    def _frame(self, t: float) -> Frame:
        panel = self.diagnosis.detector.panel
        times = panel.newest(self._number)
        with np.errstate(all="ignore"):
            value = np.where(self._counts, self._rates(times), panel.latest[self._number])
            ready = self._past.ready()
            usual = np.where(ready, self._past.mean, np.nan)
            deviation = np.where(ready, np.sqrt(self._past.variance), np.nan)
            self._past.learn(value, times, np.zeros(len(value), bool))
            stale = t - times > panel.rhythm.horizon[self._number]
            now, past, around = (a.astype(np.float32) for a in (value, usual, deviation))
            peers, spread = beside(self._roster, np.where(stale, np.nan, value))
            age = np.maximum(t - times, 0.0).astype(np.float32)
            return Frame(t, now, past, around, peers, spread, age, stale, self._spoken())

    def _rates(self, times: F64) -> F64:
        """What counters counted in a second, since their sample before."""
        total, _ = self.diagnosis.detector.panel.counted(self._number)
        new = times > self._at
        rate = np.where(new, (total - self._sum) / (times - self._at), self._value)
        first = np.isnan(self._at) & ~np.isnan(times)
        self._sum = np.where(new | first, total, self._sum)
        self._at = np.where(new | first, times, self._at)
        self._value = rate
        return rate

    def _spoken(self) -> dict[tuple[str, str, str], Spoken]:
        places = self.diagnosis.incidents.places
        found: dict[tuple[str, str, str], Spoken] = {}
        for verdict in self.diagnosis.verdicts:
            at = np.flatnonzero(verdict.firing)[: MOST_SPOKEN - len(found)]
            if not len(at):
                continue
            said = verdict.of(at)
            for n, place in enumerate(at.tolist()):
                key = verdict.rule, *places.shown(Entity(verdict.kind, verdict.names[place]))
                verdicts, values = said.evidence[:, n].tolist(), said.values[:, n].tolist()
                found[key] = Spoken(float(said.score[n]), float(said.coverage[n]), tuple(verdicts), tuple(values))
        return found

    # --- how rules do

    def _rules(self, incidents: Sequence[Incident]) -> tuple[RuleHealth, ...]:
        folded: dict[str, int] = {}
        for incident in incidents:
            if incident.explained_by and incident.state == "firing":
                folded[incident.rule] = folded.get(incident.rule, 0) + 1
        rules = self.diagnosis.detector.rules
        return tuple(
            RuleHealth(
                verdict.rule,
                rules[verdict.rule].condition,
                len(verdict.names),
                int(np.count_nonzero(verdict.firing)),
                folded.get(verdict.rule, 0),
                int(np.count_nonzero(verdict.state == UNKNOWN)),
                self._lacks(verdict.rule),
            )
            for verdict in self.diagnosis.verdicts
        )

    def _lacks(self, rule: str) -> tuple[str, ...]:
        """The signals without which a rule is blind."""
        if rule not in self._lacking:
            needed = (e.when for e in self.diagnosis.detector.rules[rule].evidence if e.required)
            self._lacking[rule] = tuple(sorted({name for when in needed for name in when.lacking(self._delivered)}))
        return self._lacking[rule]
