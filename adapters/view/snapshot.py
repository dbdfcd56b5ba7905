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

from skewscope.engine.features.peer_statistics import MIN_SPREAD_SHARE, TO_SIGMA, leave_one_out
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.sets import F64, EntitySets, build_sets
from skewscope.engine.model.topology import Topology

F32 = NDArray[np.float32]
Mask = NDArray[np.bool_]
RowIndex = NDArray[np.intp]

TREND_SAMPLES = 24
"""Samples of a sparkline."""
MIN_SHARE = 0.005
"""A share that moves by less than this has not moved."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """One kind of telemetry and who delivers it."""

    name: str
    kind: str
    """What it is told of: ports, nodes, replicas."""
    reporting: int
    known: int
    """How many could report, by the topology."""
    age_s: float | None
    """Of the newest sample; None where there never was one."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class SeriesInfo:
    """What one row of the table of signals is about."""

    signal: str
    kind: str
    """Of the entity, as in `SeriesKey`."""
    entity: str
    selector: str = ""
    unit: str = "1"
    """Of the values shown: a counter is shown as what it counts in a second."""
    group: int = -1
    """Series with the same number are compared with one another; -1: none is like it."""


@dataclass(frozen=True, eq=False)
class SeriesIndex:
    """All series there are, in a fixed order: a later roster begins with an earlier one."""

    series: tuple[SeriesInfo, ...] = ()

    @cached_property
    def peer_sets(self) -> EntitySets:
        """Rows that are compared with one another."""
        members: dict[int, list[int]] = {}
        for row, one in enumerate(self.series):
            if one.group >= 0:
                members.setdefault(one.group, []).append(row)
        several = [rows for rows in members.values() if len(rows) > 1]
        return build_sets(several, len(several))

    @cached_property
    def search_texts(self) -> list[str]:
        """Every row as the words in which it is searched."""
        return [f"{s.signal} {s.entity} {s.selector}".rstrip().lower() for s in self.series]

    @cached_property
    def signals(self) -> list[str]:
        """The signal of every row."""
        return [s.signal for s in self.series]

    @cached_property
    def entities(self) -> list[str]:
        """The entity of every row."""
        return [s.entity for s in self.series]

    @cached_property
    def by_signal(self) -> Mapping[str, RowIndex]:
        """The rows of each signal."""
        found: dict[str, list[int]] = {}
        for row, one in enumerate(self.series):
            found.setdefault(one.signal, []).append(row)
        return {name: np.array(rows, np.intp) for name, rows in found.items()}

    def find_row(self, signal: str, entity: str) -> int:
        """The first row of a signal on an entity, -1 where there is none."""
        return self._row_by_key.get((signal, entity), -1)

    @cached_property
    def _row_by_key(self) -> Mapping[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for row, one in enumerate(self.series):
            found.setdefault((one.signal, one.entity), row)
        return found

    def peers_of(self, row: int) -> RowIndex:
        """The other rows that a row is compared with."""
        group = self.series[row].group
        rows = self.by_signal[self.series[row].signal]
        found = [int(r) for r in rows if r != row and self.series[r].group == group and group >= 0]
        return np.array(found, np.intp)


def peer_statistics(roster: SeriesIndex, value: F64) -> tuple[F32, F32]:
    """Of each row, the median of its peers and their usual distance from it; `value` has NaN for what is stale."""
    whole = np.append(value, np.full(len(roster.series) - len(value), np.nan))
    centre, spread = np.full((2, len(whole)), np.nan, np.float32)
    with np.errstate(all="ignore"):
        for bucket in roster.peer_sets.buckets:
            values = bucket.gather(whole)
            there = bucket.members >= 0
            middle, away = leave_one_out(values)
            # One other alone says nothing of what is usual between them.
            several = (~np.isnan(values)).sum(axis=1) >= 3
            centre[bucket.members[there]] = middle[there]
            spread[bucket.members[there]] = np.where(several[:, None], away, np.nan)[there]
    return centre[: len(value)], spread[: len(value)]


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """What a rule said of one entity at one time, item by item."""

    score: float
    coverage: float
    verdicts: tuple[int, ...]
    """NO, UNKNOWN or YES for each item of evidence, in the rule's order."""
    values: tuple[float, ...]


EvidenceByEntity = Mapping[tuple[str, str, str], EvidenceRow]
"""By rule, kind and name of the entity as an incident tells them: only of those that it fires on."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewFrame:
    """All series at one time; [rows of the roster as it was then]."""

    time: float
    value: F32
    """The newest, stale or not; NaN where there is none."""
    baseline: F32
    """By its own past; NaN while that is too short."""
    deviation: F32
    """How far it usually is from that."""
    peer_median: F32
    """The median of those that each row is compared with; NaN where there is nobody."""
    peer_spread: F32
    """How far its peers usually are from that; NaN where there are not two of them."""
    age: F32
    """Seconds since it was sampled."""
    stale: Mask
    evidence: EvidenceByEntity = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleHealth:
    """How one rule does."""

    rule: str
    condition: str
    judged: int
    """Entities that it looks at."""
    firing: int = 0
    suppressed: int = 0
    """Its incidents that are explained by something else."""
    unknown: int = 0
    """Entities of which it cannot tell."""
    missing_signals: tuple[str, ...] = ()
    """Signals that it cannot do without and nobody ever delivered."""

    @property
    def state(self) -> str:
        """firing, suppressed, blind, unknown or quiet."""
        if self.firing:
            return "suppressed" if 0 < self.firing <= self.suppressed else "firing"
        if self.missing_signals:
            return "blind"
        return "unknown" if self.judged and self.unknown == self.judged else "quiet"


@dataclass(frozen=True, eq=False)
class SignalView:
    """The table of all signals at one time."""

    series_index: SeriesIndex
    frames: Sequence[ViewFrame]
    """Oldest first; the last is now."""

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
        """How far each row is from its peers, in their robust deviations."""
        now = self.latest
        with np.errstate(all="ignore"):
            found = (self._fresh_values - now.peer_median) / (
                TO_SIGMA * now.peer_spread + MIN_SPREAD_SHARE * np.abs(now.peer_median) + self._min_scale
            )
            return found.astype(np.float32, copy=False)

    @cached_property
    def own_z(self) -> F32:
        """How far each row is from its own past, in standard deviations."""
        now = self.latest
        with np.errstate(all="ignore"):
            found = (self._fresh_values - now.baseline) / (
                now.deviation + MIN_SPREAD_SHARE * np.abs(now.baseline) + self._min_scale
            )
            return found.astype(np.float32, copy=False)

    @cached_property
    def _min_scale(self) -> F32:
        """No yardstick is shorter: next to nothing, compared with nothing at all, is no news."""
        out = np.full(len(self), MIN_SHARE, np.float32)
        for rows in self.series_index.by_signal.values():
            rows = rows[rows < len(self)]  # noqa: PLW2901 - the same rows, as far as they are there
            if len(rows) and self.series_index.series[rows[0]].unit != "1":
                out[rows] = MIN_SPREAD_SHARE * np.nan_to_num(np.abs(self.latest.value[rows])).max()
        return out

    @cached_property
    def deviation(self) -> F32:
        """The larger of both distances, from its own past and from its peers, with its sign."""
        own, other = self.own_z, self.peer_z
        larger = np.abs(np.nan_to_num(other)) > np.abs(np.nan_to_num(own))
        found: F32 = np.where(larger | np.isnan(own), other, own)
        return found

    def as_of(self, time: float) -> "SignalView":
        """The same as it was at an earlier time."""
        end = bisect_right(self.frames, time, key=lambda frame: frame.time)
        return SignalView(self.series_index, self.frames[: max(end, 1)])

    def trend(self, row: int, samples: int = TREND_SAMPLES) -> F32:
        """The newest samples of a row, oldest first; NaN where it did not exist yet."""
        found: F32 = self.history(np.array([row]), samples)[0]
        return found

    def history(self, rows: RowIndex, samples: int = 0) -> F32:
        """[rows, samples] of some rows, oldest first; all that is kept for no number of samples."""
        frames = self.frames[-samples:]
        out = np.full((len(rows), len(frames)), np.nan, np.float32)
        for n, frame in enumerate(frames):
            there = rows < len(frame.value)
            out[there, n] = frame.value[rows[there]]
        return out

    def times(self, samples: int = 0) -> NDArray[np.float64]:
        """When the samples of `lines` were taken."""
        return np.array([frame.time for frame in self.frames[-samples:]])


@dataclass(frozen=True, eq=False)
class ViewSnapshot:
    """What is known at one time."""

    time: float
    """Seconds since 1970, by the data."""
    start: float
    end: float
    """Of what is recorded; live, of what was heard so far."""
    topology: Topology
    incidents: tuple[Incident, ...] = ()
    """In the order of the contract."""
    sources: tuple[SourceState, ...] = ()
    missing: tuple[str, ...] = ()
    """What cannot be seen, and why, in sentences."""
    rules: tuple[RuleHealth, ...] = ()
    signals: SignalView = field(default_factory=lambda: SignalView(SeriesIndex(), ()))
    delivered_signals: frozenset[str] = frozenset()
    """Ids of the signals that ever had a value."""
    evidence_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By rule, the names of its evidence in the order of `Spoken.verdicts`."""
    silenced: Mapping[str, str] = field(default_factory=dict)
    """The silence of each firing incident that has one: it is told to nobody but here."""


class ViewFeed(Protocol):
    """Where scenes come from: a recording, an engine in this process, or a controller far away. It never blocks."""

    live: bool
    """Whether more is to come; else it is a recording."""
    trouble: str
    """Why nothing new comes, in a few words; '' while all is well."""

    def times(self) -> Sequence[float]:
        """The times of the scenes there are, oldest first; it only grows, or live loses its beginning."""

    def snapshot(self, at: int) -> ViewSnapshot:
        """One of them, by its place in `times`."""

    def export_recording(self, folder: Any, begin: float, end: float) -> str:
        """Keep what happened between two times as a recording of its own; what was kept, in words.

        Raises:
            SkewscopeError: it cannot be kept, and why.
        """
