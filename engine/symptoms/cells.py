"""The series that are judged by themselves as one flat array of cells, and the sets of cells that are peers.

A cell is one series of a signal whose catalogue entry says what is bad about it. Cells and memberships of sets only
grow, so that what is learned about them stays in place when new series appear.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from skewscope.engine.ingest.layout import SeriesRows
from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.topology import Group, Topology
from skewscope.kb.model import Judgement, Signal
from skewscope.rules.entity_kinds import kind_of

PAST, PEERS, MOVING, ZERO, REPEATS, SHARES, START = "past", "peers", "moving", "zero", "repeats", "shares", "start"
"""Forms: from its past or peers, moving between peers, to nothing, again and again, unequal shares, a slow start."""

DeviationKey = tuple[str, Entity, str]
"""Signal, place and form."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One signal that is abnormal on one entity, as of now."""

    signal: Signal
    place: Entity
    form: str
    """PAST, PEERS, MOVING, ZERO, REPEATS, SHARES or START."""
    direction: str
    """up, down, stops, begins or uneven."""
    since: float
    """Seconds since 1970."""
    value: float
    """In the signal's unit; of a counter its rate per second."""
    before: float
    """The healthy value: of its own past, or of its peers."""

    @property
    def key(self) -> DeviationKey:
        """Identifies it while it lasts."""
        return self.signal.id, self.place, self.form

    @property
    def ratio(self) -> float:
        """The value over the healthy one; 0 where that is zero."""
        return self.value / self.before if self.before else 0.0

    @property
    def size(self) -> float:
        """How far it is from the healthy value, as a factor of at least 1."""
        ratio = abs(self.ratio)
        return max(ratio, 1 / ratio) if ratio > 0 else 10.0

    @property
    def symptom(self) -> str:
        """Id of the symptom that it shows."""
        judged = self.signal.judged
        return judged.symptom if judged else ""


MAX_CELLS = 250_000
"""So many series are judged, those that say most about work first; the coverage names the signals left out."""
CELLS_PER_TICK = 50_000
"""So many series are judged in one tick; more of them take turns."""
LARGE_FLEET_NODES = 1000
"""Of a fleet with more nodes, only signals that rules read as well are judged: others would cost memory per series."""
MAX_SET_SIZE = 512
MIN_SET_SIZE = 2
ROLES = (
    *("progress", "time-per-work", "state", "errors", "capacity", "share", "loss", "throughput", "wait", "pressure"),
    *("latency", "queue", "health", "spread", "utilisation", "workload"),
)
"""Roles that are judged, in the order in which a symptom is named after them."""
UNJUDGED_KINDS = frozenset({"peer", "link", "fleet"})
COUNTER_TYPES = frozenset({"counter"})
MIN_RENEWALS = 2.5
"""A counter stands still when it has not changed for so many of its usual intervals between changes."""
RENEWAL_LEARNING_RATE = 0.2


def judged_signals(signals: Mapping[str, Signal]) -> list[str]:
    """Returns the ids of the signals that are judged by themselves, in the order of their roles."""
    found = [s for s in signals.values() if s.judged is not None and s.judged.bad != "none" and s.judged.role in ROLES]
    found = [s for s in found if kind_of(s.entity) not in UNJUDGED_KINDS and s.type != "histogram"]
    return [s.id for s in sorted(found, key=lambda s: (ROLES.index(s.judged.role) if s.judged else 0, s.id))]


class SampleSource(Protocol):
    """The state of all series, as far as cells read it."""

    @property
    def signals(self) -> Mapping[str, Signal]:
        """Signals by id."""

    @property
    def entities(self) -> EntityIndex:
        """Entities by kind."""

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kind of entity of each signal in `rows`."""

    @property
    def rows(self) -> Mapping[str, SeriesRows]:
        """The series of each signal that is read."""

    @property
    def latest(self) -> F64:
        """[series] newest value; NaN after a gap."""

    @property
    def times(self) -> F64:
        """[series] time of the newest sample, seconds since 1970."""

    def rows_of(self, name: str) -> SeriesRows:
        """Returns the rows of a signal, as wide as its kind is now."""

    def fresh_values(self, series: Index | slice) -> F64:
        """Returns [series] values, NaN for stale ones."""

    def counter_totals(self, series: Index | slice) -> tuple[F64, F64]:
        """Returns ([series] totals, [series] times in seconds)."""


@dataclass(frozen=True, slots=True)
class NewSamples:
    """The cells that have a new sample in this tick, [k] each."""

    cells: Index
    value: F64
    """In the signal's unit; of a counter its rate per second since the sample before."""
    time: F64
    """Seconds since 1970."""


@dataclass
class JudgedCells:
    """All judged series of a fleet. Arrays are [cell]; sets of peers are rows of memberships, [pair]."""

    state: SampleSource
    topology: Topology
    signals: list[Signal] = field(default_factory=list)
    """[cell]"""
    places: list[Entity] = field(default_factory=list)
    selectors: list[str] = field(default_factory=list)
    series: Index = field(default_factory=lambda: np.empty(0, np.intp))
    is_counter: Mask = field(default_factory=lambda: np.empty(0, bool))
    value: F64 = field(default_factory=lambda: np.empty(0))
    """Newest value; NaN before the first, or where it is stale."""
    time: F64 = field(default_factory=lambda: np.empty(0))
    """Seconds since 1970 of the newest sample."""
    change_time: F64 = field(default_factory=lambda: np.empty(0))
    """Of a counter: when it last changed."""
    renewal: F64 = field(default_factory=lambda: np.empty(0))
    """Of a counter: usual seconds between two changes."""
    total: F64 = field(default_factory=lambda: np.empty(0))
    """Of a counter: its total at the last change."""
    pair_cell: Index = field(default_factory=lambda: np.empty(0, np.intp))
    pair_set: Index = field(default_factory=lambda: np.empty(0, np.intp))
    set_sizes: Index = field(default_factory=lambda: np.empty(0, np.intp))
    left_out: frozenset[str] = frozenset()
    """Signals some of whose series are beyond MAX_CELLS."""
    _cell_of_series: dict[int, int] = field(default_factory=dict)
    _set_numbers: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _pairs: dict[tuple[int, int], int] = field(default_factory=dict)
    _own_groups: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """The groups that the series of a member name, by signal and selector, and member."""
    _versions: tuple[int, ...] = ()
    _wanted: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        rows = self.state.rows
        self._wanted = [name for name in judged_signals(self.state.signals) if name in rows]
        self._groups_of_node = _groups_by_member(self.topology)

    def __len__(self) -> int:
        """The number of cells."""
        return len(self.series)

    def judgement(self, cell: int) -> Judgement:
        """How the signal of a cell is judged."""
        found = self.signals[cell].judged
        assert found is not None
        return found

    # --- growth

    def grow(self) -> bool:
        """Adds cells for series that are new; returns whether there were any."""
        versions = tuple(self.state.rows[name].version for name in self._wanted)
        if versions == self._versions:
            return False
        self._versions = versions
        new = [found for name in self._wanted for found in self._new_series(name)]
        room = MAX_CELLS - len(self)
        if len(new) > room:
            self.left_out |= {signal.id for signal, _, _, _ in new[room:]}
            new = new[:room]
        for signal, place, selector, number in new:
            self._cell_of_series[number] = len(self.signals)
            self.signals.append(signal)
            self.places.append(place)
            self.selectors.append(selector)
        if new:
            self._extend(np.array([number for *_, number in new], np.intp))
            self._join_sets(range(len(self) - len(new), len(self)))
        return bool(new)

    def _new_series(self, name: str) -> Iterable[tuple[Signal, Entity, str, int]]:
        signal, rows = self.state.signals[name], self.state.rows_of(name)
        kind = self.state.kinds[name]
        names = self.state.entities.names[kind]
        for row, selector in enumerate(rows.selectors):
            for entity in np.flatnonzero(rows.series[row] >= 0).tolist():
                number = int(rows.series[row, entity])
                if number not in self._cell_of_series and entity < len(names):
                    yield signal, Entity(kind, names[entity]), selector, number

    def _extend(self, numbers: Index) -> None:
        nan = np.full(len(numbers), np.nan)
        self.series = np.concatenate((self.series, numbers))
        new = self.signals[len(self.is_counter) :]
        counts = np.array([signal.type in COUNTER_TYPES for signal in new], bool)
        self.is_counter = np.concatenate((self.is_counter, counts))
        for name in ("value", "time", "change_time", "renewal", "total"):
            setattr(self, name, np.concatenate((getattr(self, name), nan)))

    def _join_sets(self, cells: Iterable[int]) -> None:
        pairs, sets = [], []
        labels = {cell: f"{self.signals[cell].id} {self.selectors[cell]}" for cell in cells}
        for cell, label in labels.items():
            if self.places[cell].kind == "rank":
                group, member = self.places[cell].name.split(":", 1)
                self._own_groups.setdefault((label, member), set()).add(group)
        for cell, label in labels.items():
            for kind, name in sorted(self._peer_sets_of(self.places[cell], label)):
                number = self._set_numbers.setdefault((label, kind, name), len(self._set_numbers))
                pairs.append(cell)
                sets.append(number)
        self.pair_cell = np.concatenate((self.pair_cell, np.array(pairs, np.intp)))
        self.pair_set = np.concatenate((self.pair_set, np.array(sets, np.intp)))
        self.set_sizes = np.bincount(self.pair_set, minlength=len(self._set_numbers))

    def _peer_sets_of(self, place: Entity, label: str) -> set[tuple[str, str]]:
        """Returns (kind, name) of each set of entities that do the same as this one."""
        if place.kind == "rank":
            group, member = place.name.split(":", 1)
            # A member with one series for each of its groups is compared within these alone.
            is_only = len(self._own_groups[label, member]) == 1
            others = self._groups_of_node.get(member, ()) if is_only else ()
            return {("group", group), *(("group", name) for name in others)}
        if place.kind == "gpu":
            node = place.name.rsplit("/", 1)[0]
            groups = (*self._groups_of_node.get(place.name, ()), *self._groups_of_node.get(node, ()))
            return {("node", node), *(("group", name) for name in groups)}
        if place.kind == "port":
            port = self.topology.port.get(place.name)
            return {("ports", f"{port.node} {port.network} {port.speed}")} if port else set()
        if place.kind == "node":
            return {("group", name) for name in self._groups_of_node.get(place.name, ())}
        if place.kind in ("group", "replica"):
            return {("pool", pool.name) for pool in self.topology.pools if place.name in pool.replicas}
        return set()

    def serving_group(self, cell: int) -> Group | None:
        """Returns the group with a front end that a cell belongs to; its work follows the requests."""
        place = self.places[cell]
        if place.kind in ("group", "replica"):
            names: Sequence[str] = (place.name,)
        elif place.kind == "rank":
            names = (place.name.split(":", 1)[0],)
        else:
            node = self.topology.port[place.name].node if place.name in self.topology.port else place.name
            names = self._groups_of_node.get(node.rsplit("/gpu", 1)[0], ())
        groups = (self.topology.group.get(name) for name in names)
        return next((group for group in groups if group is not None and group.front_end), None)

    def load_series(self, cell: int) -> int:
        """Returns the series that shows whether requests are being served where a cell is; -1 where none does."""
        group = self.serving_group(cell)
        if group is None:
            return -1
        for name, place in (("serve.running", group.name), ("wire.open_streams", group.front_end)):
            if name not in self.state.rows:
                continue
            kind = self.state.kinds[name]
            number = self.state.entities.numbers.get(kind, {}).get(place, -1)
            rows = self.state.rows_of(name).series
            if number >= 0 and rows.size and rows[0, number] >= 0:
                return int(rows[0, number])
        return -1

    def set_places(self) -> dict[int, Entity]:
        """Returns the entity of each set that is a group, a node or a pool, by the number of the set."""
        kinds = {"group": "group", "node": "node", "pool": "pool"}
        return {
            number: Entity(kinds[kind], name) for (_, kind, name), number in self._set_numbers.items() if kind in kinds
        }

    # --- samples

    def read(self, t: float) -> NewSamples:
        """Takes in the newest samples of the tick that ends at `t` seconds and returns those that are new.

        Of more than CELLS_PER_TICK cells a part has its turn in each second, by the time of the data.
        """
        turns = -(-len(self) // CELLS_PER_TICK)
        some = np.arange(int(t) % turns, len(self), turns) if turns > 1 else np.arange(len(self))
        series = self.series[some]
        latest, times = self.state.latest[series], self.state.times[series]
        fresh = self.state.fresh_values(series)
        with np.errstate(invalid="ignore"):
            new = ~np.isnan(times) & ~np.isnan(latest) & ~(times <= self.time[some])
        self.value[some[np.isnan(fresh)]] = np.nan
        at, latest, times = some[new], latest[new], times[new]
        counting = self.is_counter[at]
        gauges, counters = at[~counting], at[counting]
        self.value[gauges], self.time[gauges] = latest[~counting], times[~counting]
        moved = self._read_counters(counters)
        cells = np.sort(np.concatenate((gauges, moved)))
        return NewSamples(cells, self.value[cells], self.time[cells])

    def _read_counters(self, cells: Index) -> Index:
        """Updates the rates of counters; returns those whose rate is known anew.

        A counter that is polled more often than it is renewed repeats its total: its rate is that between changes, and
        zero only when it stands still for longer than it usually does.
        """
        totals, times = self.state.counter_totals(self.series[cells])
        first = np.isnan(self.total[cells])
        begun = cells[first]
        self.total[begun], self.change_time[begun], self.time[begun] = totals[first], times[first], times[first]
        cells, totals, times = cells[~first], totals[~first], times[~first]
        grew = totals - self.total[cells]
        since = times - self.change_time[cells]
        usual = np.fmax(np.nan_to_num(self.renewal[cells]), times - self.time[cells])
        known = ((grew != 0) | (since > MIN_RENEWALS * usual)) & (since > 0)
        changed = (grew != 0) & (since > 0)
        self.time[cells] = times
        at, interval = cells[changed], since[changed]
        old = self.renewal[at]
        learned = old + RENEWAL_LEARNING_RATE * (np.minimum(interval, 4 * old) - old)
        self.renewal[at] = np.where(np.isnan(old), interval, learned)
        self.value[cells[known]] = grew[known] / since[known]
        self.total[at], self.change_time[at] = totals[changed], times[changed]
        found: Index = cells[known]
        return found


def _groups_by_member(topology: Topology) -> Mapping[str, tuple[str, ...]]:
    """Returns the names of the groups of each member and of each node that a member lies on."""
    found: dict[str, set[str]] = {}
    for group in topology.groups:
        if len(group.members) > MAX_SET_SIZE:
            continue
        for member in group.members:
            found.setdefault(member, set()).add(group.name)
            found.setdefault(topology.node_of[member], set()).add(group.name)
    return {name: tuple(sorted(groups)) for name, groups in found.items()}


def row_median(values: F64) -> F64:
    """Returns [sets] the median of [sets, members]; of two members their smaller value is the healthy one."""
    count = (~np.isnan(values)).sum(axis=1)
    with np.errstate(all="ignore"):
        ordered = np.sort(values, axis=1)
        rows = np.arange(len(values))
        low = ordered[rows, np.maximum((count - 1) // 2, 0)]
        high = ordered[rows, np.maximum(count // 2, 0) % values.shape[1]]
        middle = np.where(count % 2 == 1, low, (low + high) / 2)
    return np.where(count >= 2, np.where(count == 2, low, middle), np.nan)
