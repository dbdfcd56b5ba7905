"""Builds a `ViewSnapshot` and a `ViewFrame` from the state of an engine after each tick, and keeps them by time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
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
)
from skewscope.engine.engine import Engine, NewestSamples, SignalSeries
from skewscope.engine.features.baselines import Baseline
from skewscope.engine.features.peer_statistics import leave_one_out
from skewscope.engine.model.arrays import F32, F64, Index, Mask
from skewscope.engine.model.entities import EntitySets, build_sets
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.verdict import UNKNOWN
from skewscope.kb.problems import SkewscopeError

if TYPE_CHECKING:
    from skewscope.adapters.runtime.runtime import Snapshot

BASELINE_SECONDS = 120.0
"""Memory of the baselines that a console shows."""
MAX_SERIES = 100_000
"""Limit on the rows shown; rules still evaluate all series."""
MAX_EVIDENCE = 200
"""Limit on the entities per tick whose evidence is kept."""
MAX_CELLS = 4_000_000
"""Limit on stored values: a history of a recording is thinned at the limit, a live one drops its oldest half."""

RecordingExporter = Callable[[Path, float, float], str]


class ViewSink(Protocol):
    """Receives what a builder makes of each tick."""

    def add(self, snapshot: ViewSnapshot, frame: ViewFrame) -> None:
        """Adds the state of one tick; `snapshot` has no frames yet."""


@dataclass
class ViewBuilder:
    """Builds the view of one engine after each tick and adds it to a sink."""

    engine: Engine
    sink: ViewSink
    _series_index: SeriesIndex = field(default_factory=SeriesIndex)
    _positions: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """[row] position of the series in the engine."""
    _is_counter: Mask = field(default_factory=lambda: np.empty(0, bool))
    _last_total: F64 = field(default_factory=lambda: np.empty(0))
    """[row] total of a counter at its newest sample."""
    _last_time: F64 = field(default_factory=lambda: np.empty(0))
    """[row] seconds since 1970 of that sample."""
    _last_rate: F64 = field(default_factory=lambda: np.empty(0))
    """[row] rate per second at that sample."""
    _baseline: Baseline = field(default_factory=lambda: Baseline(BASELINE_SECONDS))
    _known_series: set[tuple[str, str, int]] = field(default_factory=set)
    """(signal, selector, number of the entity)."""
    _seen_version: tuple[int, int] = (-1, -1)
    _peer_sets: dict[str, Index] = field(default_factory=dict)
    """By kind: [entity] number of its peer set, -1 for none."""
    _group_numbers: dict[tuple[str, str, object], int] = field(default_factory=dict)
    _shown_peers: EntitySets = field(default_factory=lambda: build_sets([], 0))
    """Sets of rows that are peers."""
    _delivered_signals: frozenset[str] = frozenset()
    _missing_by_rule: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _evidence_names: dict[str, tuple[str, ...]] = field(init=False)
    _compared_counters: frozenset[str] = field(init=False)
    """Counters whose readings rules compare: they are shown as they are, others as rates."""

    def __post_init__(self) -> None:
        rules = self.engine.rules.values()
        nodes = (node for rule in rules for expr in rule.expressions for node in expr.walk())
        self._compared_counters = frozenset(name for node in nodes if node.name == "reading" for name in node.signals)
        self._evidence_names = {rule.id: tuple(item.name for item in rule.evidence) for rule in rules}

    def update(self, snapshot: "Snapshot") -> None:
        """Builds the view of the last tick and adds it to the sink."""
        self._add_new_series()
        view = ViewSnapshot(
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
            snapshot.acknowledged,
            snapshot.unplaced,
        )
        self.sink.add(view, self._build_frame(snapshot.time))

    def _omission_notes(self) -> Iterable[str]:
        if len(self._positions) >= MAX_SERIES:
            yield f"The table of signals shows {MAX_SERIES:,} series only; rules judge all of them."

    # --- series

    def _add_new_series(self) -> None:
        version = self.engine.series_version
        if version == self._seen_version:
            return
        self._seen_version = version
        self._peer_sets = {}
        found = [row for series in self.engine.list_series() for row in self._new_series(series)]
        found = found[: MAX_SERIES - len(self._positions)]
        if not found:
            return
        self._series_index = SeriesIndex((*self._series_index.series, *(info for info, _, _ in found)))
        self._shown_peers = build_peer_sets(self._series_index.series)
        self._positions = np.append(self._positions, [position for _, position, _ in found]).astype(np.intp)
        self._is_counter = np.append(self._is_counter, [is_counter for _, _, is_counter in found]).astype(bool)
        unknown = np.full(len(found), np.nan)
        self._last_total, self._last_time, self._last_rate = (
            np.append(column, unknown) for column in (self._last_total, self._last_time, self._last_rate)
        )
        self._baseline.grow(len(self._positions))
        self._delivered_signals = frozenset(info.signal for info in self._series_index.series)
        self._missing_by_rule = {}

    def _new_series(self, series: SignalSeries) -> Iterable[tuple[SeriesInfo, int, bool]]:
        """Yields (description, position, is it a counter) of a signal's series that are not shown yet."""
        signal, kind = series.signal, series.kind
        entry = self.engine.catalogue.signals[signal]
        is_counter = entry.type in ("counter", "histogram") and signal not in self._compared_counters
        unit = entry.unit
        if is_counter:
            unit = f"{unit}/s" if unit != "s" else "1"
        columns = series.selector.tolist(), series.entity.tolist(), series.position.tolist()
        for number, entity, position in zip(*columns, strict=True):
            selector = series.selectors[number]
            if (signal, selector, entity) in self._known_series or "bucket:" in selector:
                continue
            self._known_series.add((signal, selector, entity))
            group = self._group_number(signal, selector, kind, entity)
            name = series.entity_names[entity]
            yield SeriesInfo(signal, kind, name, selector, unit, group), position, is_counter

    def _group_number(self, signal: str, selector: str, kind: str, entity: int) -> int:
        """Returns the number of the series' comparison group, -1 for none."""
        if kind not in self._peer_sets:
            self._peer_sets[kind] = self.engine.peer_set_numbers(kind)
        peer_set = self._peer_sets[kind]
        if entity >= len(peer_set) or peer_set[entity] < 0:
            return -1
        return self._group_numbers.setdefault((signal, selector, int(peer_set[entity])), len(self._group_numbers))

    # --- values

    def _build_frame(self, t: float) -> ViewFrame:
        newest = self.engine.newest_samples(self._positions)
        times = newest.time
        with np.errstate(all="ignore"):
            value = np.where(self._is_counter, self._counter_rates(newest), newest.value)
            ready = self._baseline.ready_mask()
            mean = np.where(ready, self._baseline.mean, np.nan)
            deviation = np.where(ready, np.sqrt(self._baseline.variance), np.nan)
            self._baseline.learn(value, times, np.zeros(len(value), bool))
            stale = t - times > newest.stale_after
            value32, mean32, deviation32 = (column.astype(np.float32) for column in (value, mean, deviation))
            peers = peer_statistics(self._shown_peers, np.where(stale, np.nan, value))
            age = np.maximum(t - times, 0.0).astype(np.float32)
            return ViewFrame(t, value32, mean32, deviation32, *peers, age, stale, self._collect_evidence())

    def _counter_rates(self, newest: NewestSamples) -> F64:
        """Returns [row] float64 increase per second since the sample before, NaN where unknown."""
        total, time = newest.counter_total, newest.time
        new = time > self._last_time
        rate = np.where(new, (total - self._last_total) / (time - self._last_time), self._last_rate)
        first = np.isnan(self._last_time) & ~np.isnan(time)
        self._last_total = np.where(new | first, total, self._last_total)
        self._last_time = np.where(new | first, time, self._last_time)
        self._last_rate = rate
        return rate

    def _collect_evidence(self) -> dict[tuple[str, str, str], EvidenceRow]:
        found: dict[tuple[str, str, str], EvidenceRow] = {}
        for verdict in self.engine.verdicts:
            firing = np.flatnonzero(verdict.firing)[: MAX_EVIDENCE - len(found)]
            if not len(firing):
                continue
            batch = verdict.evidence_of(firing)
            for n, entity in enumerate(firing.tolist()):
                key = verdict.rule, *self.engine.display_name(verdict.kind, verdict.names[entity])
                verdicts, values = batch.evidence[:, n].tolist(), batch.values[:, n].tolist()
                found[key] = EvidenceRow(
                    float(batch.score[n]), float(batch.coverage[n]), tuple(verdicts), tuple(values)
                )
        return found

    # --- rules

    def _rule_health(self, incidents: Sequence[Incident]) -> tuple[RuleHealth, ...]:
        explained: dict[str, int] = {}
        for incident in incidents:
            if incident.explained_by and incident.state == "firing":
                explained[incident.rule] = explained.get(incident.rule, 0) + 1
        return tuple(
            RuleHealth(
                verdict.rule,
                self.engine.rules[verdict.rule].condition,
                len(verdict.names),
                int(np.count_nonzero(verdict.firing)),
                explained.get(verdict.rule, 0),
                int(np.count_nonzero(verdict.state == UNKNOWN)),
                self._missing_signals(verdict.rule),
            )
            for verdict in self.engine.verdicts
        )

    def _missing_signals(self, rule: str) -> tuple[str, ...]:
        """Returns the signals that the rule requires and that were never delivered."""
        if rule not in self._missing_by_rule:
            needed = (e.when for e in self.engine.rules[rule].evidence if e.is_needed)
            self._missing_by_rule[rule] = tuple(
                sorted({name for when in needed for name in when.missing_signals(self._delivered_signals)})
            )
        return self._missing_by_rule[rule]


def build_peer_sets(series: Sequence[SeriesInfo]) -> EntitySets:
    """Returns the sets of rows that are peers."""
    members: dict[int, list[int]] = {}
    for row, one in enumerate(series):
        if one.group >= 0:
            members.setdefault(one.group, []).append(row)
    several = [rows for rows in members.values() if len(rows) > 1]
    return build_sets(several, len(several))


def peer_statistics(peers: EntitySets, value: F64) -> tuple[F32, F32]:
    """Returns two [row] float32 arrays: median of the row's peers, and their median distance from it.

    `value` is [row] float64 with NaN for stale rows. NaN where a row has no peers, or too few for a distance.
    """
    centre, spread = np.full((2, len(value)), np.nan, np.float32)
    with np.errstate(all="ignore"):
        for bucket in peers.buckets:
            values = bucket.gather(value)
            there = bucket.members >= 0
            middle, away = leave_one_out(values)
            # A single peer gives no spread.
            several = (~np.isnan(values)).sum(axis=1) >= 3
            centre[bucket.members[there]] = middle[there]
            spread[bucket.members[there]] = np.where(several[:, None], away, np.nan)[there]
    return centre, spread


@dataclass
class ViewHistory:
    """View snapshots of one engine by time. One thread may add while others read."""

    topology: Topology = field(default_factory=Topology)
    live: bool = False
    trouble: str = ""
    """Why no new snapshots arrive; '' while they do."""
    exporter: RecordingExporter | None = None
    """Writes a part of the input as a recording; None where there is no input to write."""
    max_cells: int = MAX_CELLS
    """Values that are kept at most."""
    _snapshots: list[ViewSnapshot] = field(default_factory=list)
    _frames: list[ViewFrame] = field(default_factory=list)
    _stride: int = 1
    _added_count: int = 0

    def add(self, snapshot: ViewSnapshot, frame: ViewFrame) -> None:
        """Adds the state of one tick; `snapshot` has no frames yet."""
        self._added_count += 1
        if self._snapshots and self._added_count % self._stride:
            return
        self._frames.append(frame)
        self._snapshots.append(snapshot)
        if len(self._frames) * max(len(frame.value), 1) > self.max_cells:
            self._thin()

    def _thin(self) -> None:
        # New lists: another thread may be reading the old ones.
        if self.live:
            half = len(self._frames) // 2
            self._snapshots, self._frames = self._snapshots[half:], self._frames[half:]
        else:
            self._stride *= 2
            self._snapshots, self._frames = self._snapshots[::2], self._frames[::2]

    def restart(self, snapshot: ViewSnapshot, frame: ViewFrame) -> None:
        """Drops all snapshots and starts with this one."""
        self._added_count, self._stride = 1, 1
        self._snapshots, self._frames = [snapshot], [frame]

    def times(self) -> Sequence[float]:
        """Returns the times of the snapshots in seconds since 1970, oldest first."""
        return [snapshot.time for snapshot in self._snapshots]

    def snapshot(self, at: int) -> ViewSnapshot:
        """Returns the snapshot at an index of `times`, with all frames up to it."""
        snapshots, frames = self._snapshots, self._frames
        at = min(max(at, 0), len(snapshots) - 1)
        found = snapshots[at]
        end = max(found.end, snapshots[-1].time)
        return replace(found, end=end, signals=SignalView(found.signals.series_index, frames[: at + 1]))

    def export_recording(self, folder: Path, begin: float, end: float) -> str:
        """Writes the input between two times as a recording and returns a description of it.

        Raises:
            SkewscopeError: there is no input to write, or it cannot be written.
        """
        if self.exporter is None:
            raise SkewscopeError("This view has no input that can be written as a recording.")
        return self.exporter(folder, begin, end)
