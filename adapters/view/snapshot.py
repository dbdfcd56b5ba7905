"""The state of a fleet at one time, as consoles show it: the contract between the engine's side and a console.

A `ViewSnapshot` never changes once it is built, so readers need no lock. The engine's side builds a `ViewFrame` each
tick (`adapters.view.builder`); values that are rarely shown are computed on request.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.features.peer_statistics import MIN_SPREAD_SHARE, TO_SIGMA
from skewscope.engine.model.arrays import F32, Mask
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology

RowIndex = NDArray[np.intp]

TREND_SAMPLES = 24
"""Number of samples in a sparkline."""
MIN_SHARE = 0.005
"""Smallest change of a share that counts as a change."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """One kind of telemetry and how many reporters deliver it."""

    name: str
    kind: str
    """What reports it: ports, nodes, replicas."""
    reporting: int
    known: int
    """Number of reporters that the topology has."""
    age_s: float | None
    """Age of the newest sample; None before the first sample."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class SeriesInfo:
    """Description of one series, a row of the table of signals."""

    signal: str
    kind: str
    """Kind of the entity, as in `SeriesKey`."""
    entity: str
    selector: str = ""
    unit: str = "1"
    """Unit of the shown values; counters are shown as rates per second."""
    group: int = -1
    """Comparison group: series of one number are peers; -1 for none."""


@dataclass(frozen=True, eq=False)
class SeriesIndex:
    """All series in a fixed order; later indexes extend earlier ones."""

    series: tuple[SeriesInfo, ...] = ()

    @cached_property
    def search_texts(self) -> list[str]:
        """Text of every row that a search matches against."""
        return [f"{s.signal} {s.entity} {s.selector}".rstrip().lower() for s in self.series]

    @cached_property
    def signals(self) -> list[str]:
        """Signal of every row."""
        return [s.signal for s in self.series]

    @cached_property
    def entities(self) -> list[str]:
        """Entity of every row."""
        return [s.entity for s in self.series]

    @cached_property
    def by_signal(self) -> Mapping[str, RowIndex]:
        """Rows of each signal."""
        found: dict[str, list[int]] = {}
        for row, one in enumerate(self.series):
            found.setdefault(one.signal, []).append(row)
        return {name: np.array(rows, np.intp) for name, rows in found.items()}

    def find_row(self, signal: str, entity: str) -> int:
        """Returns the first row of a signal on an entity, -1 where there is none."""
        return self._row_by_key.get((signal, entity), -1)

    @cached_property
    def _row_by_key(self) -> Mapping[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for row, one in enumerate(self.series):
            found.setdefault((one.signal, one.entity), row)
        return found

    def peers_of(self, row: int) -> RowIndex:
        """Returns the other rows of the row's comparison group."""
        group = self.series[row].group
        rows = self.by_signal[self.series[row].signal]
        found = [int(r) for r in rows if r != row and self.series[r].group == group and group >= 0]
        return np.array(found, np.intp)


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """Evidence of a rule on one entity at one time."""

    score: float
    coverage: float
    verdicts: tuple[int, ...]
    """NO, UNKNOWN or YES per item of evidence, in the rule's order."""
    values: tuple[float, ...]


EvidenceByEntity = Mapping[tuple[str, str, str], EvidenceRow]
"""By rule, kind and name of the entity as incidents show them; firing entities only."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewFrame:
    """All series at one time. Arrays are [row] of the index at that time."""

    time: float
    value: F32
    """Newest value, stale or not, in the row's unit; NaN where there is none."""
    baseline: F32
    """Mean of the row's own past; NaN while that is too short."""
    deviation: F32
    """Standard deviation of the row's own past."""
    peer_median: F32
    """Median of the row's peers; NaN where it has none."""
    peer_spread: F32
    """Median distance of the peers from their median; NaN with fewer than two peers."""
    age: F32
    """Seconds since the newest sample."""
    stale: Mask
    evidence: EvidenceByEntity = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleHealth:
    """State of one rule."""

    rule: str
    condition: str
    judged: int
    """Number of entities that it evaluates."""
    firing: int = 0
    suppressed: int = 0
    """Number of its incidents that another incident explains."""
    unknown: int = 0
    """Number of entities with an unknown verdict."""
    missing_signals: tuple[str, ...] = ()
    """Required signals that were never delivered."""

    @property
    def state(self) -> str:
        """Returns firing, suppressed, blind, unknown or quiet."""
        if self.firing:
            return "suppressed" if 0 < self.firing <= self.suppressed else "firing"
        if self.missing_signals:
            return "blind"
        return "unknown" if self.judged and self.unknown == self.judged else "quiet"


@dataclass(frozen=True, eq=False)
class SignalView:
    """The table of all series at one time, with its history."""

    series_index: SeriesIndex
    frames: Sequence[ViewFrame]
    """Oldest first; the last one is the newest."""

    @property
    def latest(self) -> ViewFrame:
        """The newest frame."""
        return self.frames[-1]

    def __len__(self) -> int:
        return len(self.latest.value) if self.frames else 0

    @cached_property
    def _fresh_values(self) -> F32:
        found: F32 = np.where(self.latest.stale, np.float32(np.nan), self.latest.value)
        return found

    @cached_property
    def peer_z(self) -> F32:
        """[row] float32 distance from the peers, in robust standard deviations."""
        now = self.latest
        with np.errstate(all="ignore"):
            found = (self._fresh_values - now.peer_median) / (
                TO_SIGMA * now.peer_spread + MIN_SPREAD_SHARE * np.abs(now.peer_median) + self._min_scale
            )
            return found.astype(np.float32, copy=False)

    @cached_property
    def own_z(self) -> F32:
        """[row] float32 distance from the row's own past, in standard deviations."""
        now = self.latest
        with np.errstate(all="ignore"):
            found = (self._fresh_values - now.baseline) / (
                now.deviation + MIN_SPREAD_SHARE * np.abs(now.baseline) + self._min_scale
            )
            return found.astype(np.float32, copy=False)

    @cached_property
    def _min_scale(self) -> F32:
        """[row] float32 lower bound of the scale: tiny differences between tiny values do not count."""
        out = np.full(len(self), MIN_SHARE, np.float32)
        for rows in self.series_index.by_signal.values():
            rows = rows[rows < len(self)]  # noqa: PLW2901 - rows that exist at this time
            if len(rows) and self.series_index.series[rows[0]].unit != "1":
                out[rows] = MIN_SPREAD_SHARE * np.nan_to_num(np.abs(self.latest.value[rows])).max()
        return out

    @cached_property
    def deviation(self) -> F32:
        """[row] float32 signed distance: the larger one of `own_z` and `peer_z`."""
        own, other = self.own_z, self.peer_z
        larger = np.abs(np.nan_to_num(other)) > np.abs(np.nan_to_num(own))
        found: F32 = np.where(larger | np.isnan(own), other, own)
        return found

    def as_of(self, time: float) -> "SignalView":
        """Returns the view at an earlier time, in seconds since 1970."""
        end = bisect_right(self.frames, time, key=lambda frame: frame.time)
        return SignalView(self.series_index, self.frames[: max(end, 1)])

    def trend(self, row: int, samples: int = TREND_SAMPLES) -> F32:
        """Returns [sample] float32 newest values of a row, oldest first; NaN before its first sample."""
        found: F32 = self.history(np.array([row]), samples)[0]
        return found

    def history(self, rows: RowIndex, samples: int = 0) -> F32:
        """Returns [row, sample] float32 values, oldest first; 0 samples for all that are kept."""
        frames = self.frames[-samples:]
        out = np.full((len(rows), len(frames)), np.nan, np.float32)
        for n, frame in enumerate(frames):
            there = rows < len(frame.value)
            out[there, n] = frame.value[rows[there]]
        return out

    def times(self, samples: int = 0) -> NDArray[np.float64]:
        """Returns [sample] float64 times of `history`, in seconds since 1970."""
        return np.array([frame.time for frame in self.frames[-samples:]])


@dataclass(frozen=True, eq=False)
class ViewSnapshot:
    """State of a fleet at one time."""

    time: float
    """Seconds since 1970, by the data."""
    start: float
    end: float
    """Time span of the recording; live: of the samples so far."""
    topology: Topology
    incidents: tuple[Incident, ...] = ()
    """In the order of the contract."""
    sources: tuple[SourceState, ...] = ()
    missing: tuple[str, ...] = ()
    """Missing telemetry and what is unknown without it, in sentences."""
    rules: tuple[RuleHealth, ...] = ()
    signals: SignalView = field(default_factory=lambda: SignalView(SeriesIndex(), ()))
    delivered_signals: frozenset[str] = frozenset()
    """Ids of the signals that have had a value."""
    evidence_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By rule, the names of its evidence in the order of `EvidenceRow.verdicts`."""
    silenced: Mapping[str, str] = field(default_factory=dict)
    """Id of the silence of each silenced incident, by incident id."""
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    """Who acknowledged each incident at the controller, by incident id."""
    unplaced: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Live: number of series that are not used, by source and reason."""


class ViewFeed(Protocol):
    """Source of view snapshots: a recording, an engine in this process, or a remote controller. Never blocks."""

    live: bool
    """True where new snapshots arrive; False for a recording."""
    trouble: str
    """Why no new snapshots arrive, in a few words; '' while they do."""

    def times(self) -> Sequence[float]:
        """Returns the times of the snapshots in seconds since 1970, oldest first."""

    def snapshot(self, at: int) -> ViewSnapshot:
        """Returns the snapshot at an index of `times`."""

    def export_recording(self, folder: Any, begin: float, end: float) -> str:
        """Writes the input between two times as a recording and returns a description of it.

        Raises:
            SkewscopeError: it cannot be written.
        """
