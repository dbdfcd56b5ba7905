"""What is known at one time, as every screen shows it: the contract between the engine's side and a console.

A scene never changes once it is made, so whoever shows it needs no lock and holds up nobody. The engine's side makes a
`Frame` each tick (`adapters.film`); what is only looked at now and then, like peers, is worked out when asked for.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.features import FLOOR, TO_SIGMA, others
from skewscope.engine.incident import Incident
from skewscope.engine.sets import F64, Sets, sets
from skewscope.engine.topology import Topology

F32 = NDArray[np.float32]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

TREND = 24
"""Samples of a sparkline."""
LEAST_SHARE = 0.005
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
class Series:
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
class Roster:
    """All series there are, in a fixed order: a later roster begins with an earlier one."""

    series: tuple[Series, ...] = ()

    @cached_property
    def peers(self) -> Sets:
        """Rows that are compared with one another."""
        members: dict[int, list[int]] = {}
        for row, one in enumerate(self.series):
            if one.group >= 0:
                members.setdefault(one.group, []).append(row)
        several = [rows for rows in members.values() if len(rows) > 1]
        return sets(several, len(several))

    @cached_property
    def texts(self) -> list[str]:
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
    def by_signal(self) -> Mapping[str, Rows]:
        """The rows of each signal."""
        found: dict[str, list[int]] = {}
        for row, one in enumerate(self.series):
            found.setdefault(one.signal, []).append(row)
        return {name: np.array(rows, np.intp) for name, rows in found.items()}

    def row(self, signal: str, entity: str) -> int:
        """The first row of a signal on an entity, -1 where there is none."""
        return self._rows.get((signal, entity), -1)

    @cached_property
    def _rows(self) -> Mapping[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for row, one in enumerate(self.series):
            found.setdefault((one.signal, one.entity), row)
        return found

    def like(self, row: int) -> Rows:
        """The other rows that a row is compared with."""
        group = self.series[row].group
        rows = self.by_signal[self.series[row].signal]
        found = [int(r) for r in rows if r != row and self.series[r].group == group and group >= 0]
        return np.array(found, np.intp)


def beside(roster: Roster, value: F64) -> tuple[F32, F32]:
    """Of each row, the median of its peers and their usual distance from it; `value` has NaN for what is stale."""
    whole = np.append(value, np.full(len(roster.series) - len(value), np.nan))
    centre, spread = np.full((2, len(whole)), np.nan, np.float32)
    with np.errstate(all="ignore"):
        for bucket in roster.peers.buckets:
            values = bucket.gathered(whole)
            there = bucket.members >= 0
            middle, away = others(values)
            # One other alone says nothing of what is usual between them.
            several = (~np.isnan(values)).sum(axis=1) >= 3
            centre[bucket.members[there]] = middle[there]
            spread[bucket.members[there]] = np.where(several[:, None], away, np.nan)[there]
    return centre[: len(value)], spread[: len(value)]


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a rule said of one entity at one time, item by item."""

    score: float
    coverage: float
    verdicts: tuple[int, ...]
    """NO, UNKNOWN or YES for each item of evidence, in the rule's order."""
    values: tuple[float, ...]


Said = Mapping[tuple[str, str, str], Spoken]
"""By rule, kind and name of the entity as an incident tells them: only of those that it fires on."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """All series at one time; [rows of the roster as it was then]."""

    time: float
    value: F32
    """The newest, stale or not; NaN where there is none."""
    usual: F32
    """By its own past; NaN while that is too short."""
    deviation: F32
    """How far it usually is from that."""
    peers: F32
    """The median of those that each row is compared with; NaN where there is nobody."""
    spread: F32
    """How far its peers usually are from that; NaN where there are not two of them."""
    age: F32
    """Seconds since it was sampled."""
    stale: Mask
    said: Said = field(default_factory=dict)


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
    lacking: tuple[str, ...] = ()
    """Signals that it cannot do without and nobody ever delivered."""

    @property
    def state(self) -> str:
        """firing, suppressed, blind, unknown or quiet."""
        if self.firing:
            return "suppressed" if 0 < self.firing <= self.suppressed else "firing"
        if self.lacking:
            return "blind"
        return "unknown" if self.judged and self.unknown == self.judged else "quiet"


@dataclass(frozen=True, eq=False)
class Signals:
    """The table of all signals at one time."""

    roster: Roster
    frames: Sequence[Frame]
    """Oldest first; the last is now."""

    @property
    def now(self) -> Frame:
        """The newest frame."""
        return self.frames[-1]

    def __len__(self) -> int:
        return len(self.now.value) if self.frames else 0

    @cached_property
    def _fresh(self) -> F32:
        found: F32 = np.where(self.now.stale, np.float32(np.nan), self.now.value)
        return found

    @cached_property
    def peer_z(self) -> F32:
        """How far each row is from its peers, in their robust deviations."""
        now = self.now
        with np.errstate(all="ignore"):
            found = (self._fresh - now.peers) / (TO_SIGMA * now.spread + FLOOR * np.abs(now.peers) + self._least)
            return found.astype(np.float32, copy=False)

    @cached_property
    def own_z(self) -> F32:
        """How far each row is from its own past, in standard deviations."""
        now = self.now
        with np.errstate(all="ignore"):
            found = (self._fresh - now.usual) / (now.deviation + FLOOR * np.abs(now.usual) + self._least)
            return found.astype(np.float32, copy=False)

    @cached_property
    def _least(self) -> F32:
        """No yardstick is shorter: next to nothing, compared with nothing at all, is no news."""
        out = np.full(len(self), LEAST_SHARE, np.float32)
        for rows in self.roster.by_signal.values():
            rows = rows[rows < len(self)]  # noqa: PLW2901 - the same rows, as far as they are there
            if len(rows) and self.roster.series[rows[0]].unit != "1":
                out[rows] = FLOOR * np.nan_to_num(np.abs(self.now.value[rows])).max()
        return out

    @cached_property
    def deviation(self) -> F32:
        """The larger of both distances, from its own past and from its peers, with its sign."""
        own, other = self.own_z, self.peer_z
        larger = np.abs(np.nan_to_num(other)) > np.abs(np.nan_to_num(own))
        found: F32 = np.where(larger | np.isnan(own), other, own)
        return found

    def until(self, time: float) -> "Signals":
        """The same as it was at an earlier time."""
        end = bisect_right(self.frames, time, key=lambda frame: frame.time)
        return Signals(self.roster, self.frames[: max(end, 1)])

    def trend(self, row: int, samples: int = TREND) -> F32:
        """The newest samples of a row, oldest first; NaN where it did not exist yet."""
        found: F32 = self.lines(np.array([row]), samples)[0]
        return found

    def lines(self, rows: Rows, samples: int = 0) -> F32:
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
class Scene:
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
    signals: Signals = field(default_factory=lambda: Signals(Roster(), ()))
    delivered: frozenset[str] = frozenset()
    """Ids of the signals that ever had a value."""
    terms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By rule, the names of its evidence in the order of `Spoken.verdicts`."""
    silenced: Mapping[str, str] = field(default_factory=dict)
    """The silence of each firing incident that has one: it is told to nobody but here."""


class Feed(Protocol):
    """Where scenes come from: a recording, an engine in this process, or a controller far away. It never blocks."""

    live: bool
    """Whether more is to come; else it is a recording."""
    trouble: str
    """Why nothing new comes, in a few words; '' while all is well."""

    def times(self) -> Sequence[float]:
        """The times of the scenes there are, oldest first; it only grows, or live loses its beginning."""

    def scene(self, at: int) -> Scene:
        """One of them, by its place in `times`."""

    def keep(self, folder: Any, begin: float, end: float) -> str:
        """Keep what happened between two times as a recording of its own; what was kept, in words.

        Raises:
            SkewscopeError: it cannot be kept, and why.
        """
