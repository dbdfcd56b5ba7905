"""Looks at a diagnosis as it runs and makes a scene of each tick."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from skewscope.adapters.view.snapshot import (
    EvidenceRow,
    RuleHealth,
    SeriesIndex,
    SeriesInfo,
    SignalView,
    ViewFrame,
    ViewSnapshot,
    peer_statistics,
)
from skewscope.engine.engine import Engine
from skewscope.engine.features.baseline import Baseline
from skewscope.engine.ingest.sampling import pad_to_length
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.sets import F64, Index
from skewscope.engine.model.verdict import UNKNOWN
from skewscope.rules.entity_kinds import PEER_DEFAULTS, kind_of
from skewscope.rules.expression import Peers

if TYPE_CHECKING:
    from skewscope.adapters.runtime.runtime import Snapshot

BASELINE_SECONDS = 120.0
"""Seconds that a series' own past looks back."""
MAX_SERIES = 100_000
"""More rows nobody reads; the rest is left out, and that is said."""
MAX_EVIDENCE = 200
"""Entities of which the evidence is kept at each tick."""


class ViewSink(Protocol):
    """What keeps the scenes that a camera makes."""

    def add(self, scene: ViewSnapshot, frame: ViewFrame) -> None:
        """Take one more; `scene` comes without its frames."""


@dataclass
class ViewBuilder:
    """Looks at a diagnosis after each tick and adds to a film what there is to see."""

    engine: Engine
    sink: ViewSink
    _series_index: SeriesIndex = field(default_factory=SeriesIndex)
    _series_numbers: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """Of each row, its series in the panel."""
    _is_counter: np.ndarray = field(default_factory=lambda: np.empty(0, bool))
    _last_total: F64 = field(default_factory=lambda: np.empty(0))
    _last_time: F64 = field(default_factory=lambda: np.empty(0))
    _last_rate: F64 = field(default_factory=lambda: np.empty(0))
    _baseline: Baseline = field(default_factory=lambda: Baseline(BASELINE_SECONDS))
    _known_series: set[tuple[str, str, int]] = field(default_factory=set)
    _seen_versions: tuple[int, int] = (-1, -1)
    _peer_sets: dict[str, Index] = field(default_factory=dict)
    _group_numbers: dict[tuple[str, str, object], int] = field(default_factory=dict)
    _delivered_signals: frozenset[str] = frozenset()
    _missing_by_rule: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _evidence_names: dict[str, tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        rules = self.engine.detector.rules
        self._evidence_names = {rule.id: tuple(item.name for item in rule.evidence) for rule in rules.values()}

    def update(self, snapshot: "Snapshot") -> None:
        """Add what is known now."""
        self._add_new_series()
        scene = ViewSnapshot(
            snapshot.time,
            snapshot.start,
            snapshot.end,
            self.engine.topology,
            snapshot.incidents,
            snapshot.sources,
            (*snapshot.missing, *self._omission_notes()),
            self._rule_health(snapshot.incidents),
            SignalView(self._series_index, ()),
            self._delivered_signals,
            self._evidence_names,
            snapshot.silenced,
        )
        self.sink.add(scene, self._build_frame(snapshot.time))

    def _omission_notes(self) -> Iterable[str]:
        if len(self._series_numbers) >= MAX_SERIES:
            yield f"The table of signals shows {MAX_SERIES:,} series only; rules judge all of them."

    # --- which series there are

    def _add_new_series(self) -> None:
        panel = self.engine.detector.series_state
        births = panel.first_samples, sum(rows.version for rows in panel.rows.values())
        if births == self._seen_versions:
            return
        self._seen_versions = births
        self._peer_sets = {}
        found = [row for signal in sorted(panel.rows) for row in self._new_series(signal)]
        found = found[: MAX_SERIES - len(self._series_numbers)]
        if not found:
            return
        self._series_index = SeriesIndex((*self._series_index.series, *(series for series, _, _ in found)))
        self._series_numbers = np.append(self._series_numbers, [number for _, number, _ in found]).astype(np.intp)
        self._is_counter = np.append(self._is_counter, [counts for _, _, counts in found]).astype(bool)
        size = len(self._series_numbers)
        self._last_total, self._last_time, self._last_rate = (
            pad_to_length(a, size) for a in (self._last_total, self._last_time, self._last_rate)
        )
        self._baseline.grow(size)
        self._delivered_signals = frozenset(self._series_index.signals)
        self._missing_by_rule = {}

    def _new_series(self, signal: str) -> Iterable[tuple[SeriesInfo, int, bool]]:
        """The series of a signal that had their first sample since the last look."""
        detector = self.engine.detector
        rows, known = detector.series_state.rows_of(signal), detector.catalogue.signals[signal]
        kind, counts = kind_of(known.entity), known.type in ("counter", "histogram")
        heard = (rows.series >= 0) & np.isfinite(detector.series_state.newest_times(rows.series))
        for at, entity in zip(*(axis.tolist() for axis in np.nonzero(heard)), strict=True):
            selector = rows.selectors[at]
            if (signal, selector, entity) in self._known_series or "bucket:" in selector:
                continue
            self._known_series.add((signal, selector, entity))
            name = detector.entities.names[kind][entity]
            unit = f"{known.unit}/s" if counts and known.unit != "s" else "1" if counts else known.unit
            group = self._group_number(signal, selector, kind, entity)
            yield SeriesInfo(signal, kind, name, selector, unit, group), int(rows.series[at, entity]), counts

    def _group_number(self, signal: str, selector: str, kind: str, entity: int) -> int:
        if kind not in self._peer_sets:
            self._peer_sets[kind] = self._peer_set_numbers(kind)
        place = self._peer_sets[kind]
        if entity >= len(place) or place[entity] < 0:
            return -1
        return self._group_numbers.setdefault((signal, selector, int(place[entity])), len(self._group_numbers))

    def _peer_set_numbers(self, kind: str) -> Index:
        """The number of the set of peers that each entity of a kind belongs to, -1 for none."""
        entities = self.engine.detector.entities
        found = np.full(entities.count(kind) + 1, -1, np.intp)
        for bucket in entities.peer_sets(Peers(kind, PEER_DEFAULTS[kind])).buckets:
            found[bucket.members] = bucket.owners[:, None]
        return found[:-1]

    # --- what they are

    def _build_frame(self, t: float) -> ViewFrame:
        panel = self.engine.detector.series_state
        times = panel.newest_times(self._series_numbers)
        with np.errstate(all="ignore"):
            value = np.where(self._is_counter, self._counter_rates(times), panel.latest[self._series_numbers])
            ready = self._baseline.ready_mask()
            usual = np.where(ready, self._baseline.mean, np.nan)
            deviation = np.where(ready, np.sqrt(self._baseline.variance), np.nan)
            self._baseline.learn(value, times, np.zeros(len(value), bool))
            stale = t - times > panel.sampling.stale_after[self._series_numbers]
            now, past, around = (a.astype(np.float32) for a in (value, usual, deviation))
            peers, spread = peer_statistics(self._series_index, np.where(stale, np.nan, value))
            age = np.maximum(t - times, 0.0).astype(np.float32)
            return ViewFrame(t, now, past, around, peers, spread, age, stale, self._collect_evidence())

    def _counter_rates(self, times: F64) -> F64:
        """What counters counted in a second, since their sample before."""
        total, _ = self.engine.detector.series_state.counter_totals(self._series_numbers)
        new = times > self._last_time
        rate = np.where(new, (total - self._last_total) / (times - self._last_time), self._last_rate)
        first = np.isnan(self._last_time) & ~np.isnan(times)
        self._last_total = np.where(new | first, total, self._last_total)
        self._last_time = np.where(new | first, times, self._last_time)
        self._last_rate = rate
        return rate

    def _collect_evidence(self) -> dict[tuple[str, str, str], EvidenceRow]:
        places = self.engine.incidents.locality
        found: dict[tuple[str, str, str], EvidenceRow] = {}
        for verdict in self.engine.verdicts:
            at = np.flatnonzero(verdict.firing)[: MAX_EVIDENCE - len(found)]
            if not len(at):
                continue
            said = verdict.evidence_of(at)
            for n, place in enumerate(at.tolist()):
                key = verdict.rule, *places.display_name(Entity(verdict.kind, verdict.names[place]))
                verdicts, values = said.evidence[:, n].tolist(), said.values[:, n].tolist()
                found[key] = EvidenceRow(float(said.score[n]), float(said.coverage[n]), tuple(verdicts), tuple(values))
        return found

    # --- how rules do

    def _rule_health(self, incidents: Sequence[Incident]) -> tuple[RuleHealth, ...]:
        folded: dict[str, int] = {}
        for incident in incidents:
            if incident.explained_by and incident.state == "firing":
                folded[incident.rule] = folded.get(incident.rule, 0) + 1
        rules = self.engine.detector.rules
        return tuple(
            RuleHealth(
                verdict.rule,
                rules[verdict.rule].condition,
                len(verdict.names),
                int(np.count_nonzero(verdict.firing)),
                folded.get(verdict.rule, 0),
                int(np.count_nonzero(verdict.state == UNKNOWN)),
                self._missing_signals(verdict.rule),
            )
            for verdict in self.engine.verdicts
        )

    def _missing_signals(self, rule: str) -> tuple[str, ...]:
        """The signals without which a rule is blind."""
        if rule not in self._missing_by_rule:
            needed = (e.when for e in self.engine.detector.rules[rule].evidence if e.required)
            self._missing_by_rule[rule] = tuple(
                sorted({name for when in needed for name in when.missing_signals(self._delivered_signals)})
            )
        return self._missing_by_rule[rule]
