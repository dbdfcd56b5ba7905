"""The series that are judged by themselves as one flat array of cells, and the sets of cells that are peers.

A cell is one series of a signal whose catalogue entry says what is bad about it. Cells and memberships of sets only
grow, so that what is learned about them stays in place when new series appear.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, Fills, Index, Mask, nan_to_zero, widen_items
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.parameters import LEARNING_RATE, MISSED, TAIL
from skewscope.engine.model.tick import NewSamples
from skewscope.engine.model.topology import Group, Topology
from skewscope.engine.symptoms.gpu_peers import MAX_SET_SIZE, groups_by_member, peer_sets_of_gpu
from skewscope.engine.symptoms.own_numbers import name_signal, own_name, stem
from skewscope.engine.symptoms.relations import CellRelations, relate_cells
from skewscope.engine.symptoms.roles import LOADED_ROLES, UNCOMPARED_ROLES, JudgedColumns, judged_signals
from skewscope.engine.symptoms.samples import (
    HISTOGRAM,
    SUM,
    HistogramMeans,
    SampleSource,
    SignalRows,
    last_part,
)
from skewscope.kb.model import OTHER_AREA, Judgement, Signal

MAX_CELLS = 250_000
"""computing: so many series are judged, those that say most about work first; the coverage names those left out."""
CELLS_PER_GROWTH_S = 5_000
"""computing: where series come, all cells are looked at again, which takes some ten microseconds each. The next growth
waits a second for so many of them."""
CELLS_PER_TICK = 50_000
"""computing: so many series are judged in one tick; more of them take turns."""
SET_KINDS = frozenset({"group", "node", "pool"})
"""Kinds of sets of peers that are entities themselves."""
CELLS: Fills = dict.fromkeys(("value", "time", "begun", "change_time", "renewal", "total"), np.nan) | {
    "samples": np.int32(0)
}
"""What is known of each cell by its samples."""
CLIENT_SIDE = ("north-south",)
SCRAPED_FROM = "instance=", "pod="
"""Begins of the parts of a selector that name the server of a series, by which peers differ."""


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
    value: F64 = field(init=False)
    """Newest value; NaN before the first, or where it is stale."""
    time: F64 = field(init=False)
    """Seconds since 1970 of the newest sample."""
    begun: F64 = field(init=False)
    """The same of the first one."""
    samples: NDArray[np.int32] = field(init=False)
    change_time: F64 = field(init=False)
    """Of a counter: when it last changed."""
    renewal: F64 = field(init=False)
    """Of a counter: usual seconds between two changes."""
    total: F64 = field(init=False)
    """Of a counter: its total at the last change."""
    means: HistogramMeans = field(init=False)
    """What histograms counted; their cells have the mean of the newest observations."""
    pair_cell: Index = field(default_factory=lambda: np.empty(0, np.intp))
    pair_set: Index = field(default_factory=lambda: np.empty(0, np.intp))
    set_sizes: Index = field(default_factory=lambda: np.empty(0, np.intp))
    set_places: dict[int, Entity] = field(default_factory=dict)
    """The entity of each set that is a group, a node or a pool, by the number of the set."""
    left_out: frozenset[str] = frozenset()
    """Signals some of whose series are beyond MAX_CELLS."""
    floor: F64 = field(default_factory=lambda: np.empty(0))
    """Least difference that matters, as of now."""
    serves: Mask = field(default_factory=lambda: np.empty(0, bool))
    """Whether it is of what serves requests."""
    is_printed: Mask = field(default_factory=lambda: np.empty(0, bool))
    """Whether it is the duration of a step that a job prints, of which the next one may be as long."""
    compared: Mask = field(default_factory=lambda: np.empty(0, bool))
    """[pair] whether the value of the cell is compared with those of the set."""
    judged: JudgedColumns = field(default_factory=lambda: JudgedColumns.of([]))
    ties: CellRelations = field(default_factory=CellRelations.empty)
    _known: Mask = field(default_factory=lambda: np.empty(0, bool))
    """[series] whether it has a cell."""
    _entities: dict[str, dict[str, Entity]] = field(default_factory=dict)
    """By kind and name."""
    _serving: dict[Entity, Group | None] = field(default_factory=dict)
    """The serving group of each place."""
    set_numbers: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _labels: dict[tuple[str, str], str] = field(default_factory=dict)
    """What names the series of each signal and selector."""
    _own_groups: dict[str, dict[str, str]] = field(default_factory=dict)
    """The group that the series of a member name, by label and member; '' where they name several."""
    _versions: list[int] = field(default_factory=list)
    _next_growth: float = -np.inf
    """Seconds since 1970 from which on series that came since the last growth get cells."""
    _wanted: list[str] = field(default_factory=list)
    _wanted_rows: list[SignalRows] = field(default_factory=list)
    """The series of the signals that are wanted."""

    def __post_init__(self) -> None:
        rows = self.state.rows
        self.means = HistogramMeans(self.state)
        widen_items(self, CELLS, 0)
        self._wanted = [name for name in judged_signals(self.state.signals) if name in rows]
        self._wanted_rows = [rows[name] for name in self._wanted]
        self._groups_of_node = groups_by_member(self.topology)
        self._groups_of_member = groups_by_member(self.topology, with_nodes=False)

    def __len__(self) -> int:
        """The number of cells."""
        return len(self.series)

    def judgement(self, cell: int) -> Judgement:
        """How the signal of a cell is judged."""
        found = self.signals[cell].judged
        assert found is not None
        return found

    # --- growth

    def grow(self, t: float = np.inf) -> bool:
        """Adds cells for series that are new at `t` seconds; returns whether there were any.

        Many cells grow again only after a while. Without a time, they grow now.
        """
        versions = [rows.version for rows in self._wanted_rows]
        if versions == self._versions or t < self._next_growth:
            return False
        changed = [
            name for name, version, known in zip_longest(self._wanted, versions, self._versions) if version != known
        ]
        self._versions = versions
        before = len(self.signals)
        added = [numbers for name in changed for numbers in self._add_series(name)]
        if added:
            self._extend(np.concatenate(added))
            self._join_sets(range(before, len(self)))
            self._relate()
        if np.isfinite(t):
            self._next_growth = t + len(self) / CELLS_PER_GROWTH_S
        return bool(added)

    def _relate(self) -> None:
        judged = [self.judgement(cell) for cell in range(len(self))]
        self.judged = JudgedColumns.of(judged)
        # What is measured on the wire has all its digits.
        self.is_printed = np.array([one.is_printed_time for one in self.signals], bool)
        has_peers = [
            "peers" in one.against and one.role not in UNCOMPARED_ROLES and not self.is_request_count(n)
            for n, one in enumerate(judged)
        ]
        self.compared = np.array(has_peers, bool)[self.pair_cell] & (self.set_sizes <= MAX_SET_SIZE)[self.pair_set]
        self.serves = np.array([self.serving_group(cell) is not None for cell in range(len(self))], bool)
        requests = [self.load_series(n) if one.role in LOADED_ROLES else -1 for n, one in enumerate(judged)]
        self.ties = relate_cells(self.signals, self.places, judged, self.serves.tolist(), np.array(requests, np.intp))

    def _add_series(self, name: str) -> Iterator[Index]:
        """Appends the new series of a signal as far as there is room; yields their numbers, selector by selector."""
        signal, rows, kind = self.state.signals[name], self.state.rows_of(name), self.state.kinds[name]
        names = self.state.entities.names[kind]
        for row, selector in enumerate(rows.selectors):
            # The mean of its observations stands for a histogram.
            if signal.type == HISTOGRAM and last_part(selector) != SUM:
                continue
            series = rows.series[row, : len(names)]
            new = np.flatnonzero(series >= 0)
            new = new[~self._is_known(series[new])]
            room = MAX_CELLS - len(self.signals)
            if len(new) > room:
                self.left_out |= {name}
            some = new[:room]
            if len(some):
                self._known[series[some]] = True
                self.signals += [name_signal(signal, selector)] * len(some)
                self.selectors += [selector] * len(some)
                self.places += [self._entity(kind, names[n]) for n in some.tolist()]
                yield series[some].astype(np.intp)

    def comparison_minimum(self, cell: int) -> float:
        """Returns the value from which on a cell is compared with peers, in the unit of its signal.

        Without a group, the GPUs of a node may each do something else, and an idle one is colder than a busy one: they
        are compared where the value comes near what is bad by itself.
        """
        one, place = self.judgement(cell), self.places[cell]
        if place.kind != "gpu" or one.role != "health" or one.nominal is None or one.bad != "up":
            return -np.inf
        node = place.name.rsplit("/", 1)[0]
        is_grouped = any(self._groups_of_member.get(member) for member in (place.name, node))
        return -np.inf if is_grouped else one.nominal - 2 * one.floor

    def _is_known(self, numbers: Index) -> Mask:
        """Returns whether series have a cell."""
        size = int(numbers.max(initial=-1)) + 1
        if size > len(self._known):
            self._known = np.concatenate((self._known, np.zeros(size - len(self._known), bool)))
        return self._known[numbers]

    def _entity(self, kind: str, name: str) -> Entity:
        """Returns the one object that stands for an entity: there are many cells of each."""
        known = self._entities.setdefault(kind, {})
        found = known.get(name)
        if found is None:
            found = known[name] = Entity(kind, name)
        return found

    def _label_of(self, cell: int) -> str:
        """Returns the one text that stands for the signal and the selector of a cell, as cells of its peers have them.

        What scrapes several servers says which one each series is from.
        """
        key = self.signals[cell].id, self.selectors[cell]
        if key not in self._labels:
            parts = (part for part in key[1].split(",") if not part.startswith(SCRAPED_FROM))
            self._labels[key] = sys.intern(f"{key[0]} {','.join(parts)}")
        return self._labels[key]

    def _extend(self, numbers: Index) -> None:
        self.series = np.concatenate((self.series, numbers))
        new = self.signals[len(self.is_counter) :]
        counts = np.array([signal.type == "counter" for signal in new], bool)
        self.is_counter = np.concatenate((self.is_counter, counts))
        widen_items(self, CELLS, len(self.series))
        self.means.grow(self.signals, self.selectors, [place.name for place in self.places])

    def _join_sets(self, cells: Iterable[int]) -> None:
        pairs, sets = [], []
        for cell in cells:
            if self.places[cell].kind == "rank":
                group, member = map(sys.intern, self.places[cell].name.split(":", 1))
                known = self._own_groups.setdefault(self._label_of(cell), {})
                if known.setdefault(member, group) != group:
                    known[member] = ""
        for cell in cells:
            label = self._label_of(cell)
            for kind, name in sorted(self._peer_sets_of(cell, label)):
                number = self.set_numbers.setdefault((label, kind, name), len(self.set_numbers))
                if kind in SET_KINDS:
                    self.set_places[number] = self._entity(kind, name)
                pairs.append(cell)
                sets.append(number)
        self.pair_cell = np.concatenate((self.pair_cell, np.array(pairs, np.intp)))
        self.pair_set = np.concatenate((self.pair_set, np.array(sets, np.intp)))
        self.set_sizes = np.bincount(self.pair_set, minlength=len(self.set_numbers))

    def _peer_sets_of(self, cell: int, label: str) -> set[tuple[str, str]]:
        """Returns (kind, name) of each set of entities that do the same as this one."""
        place = self.places[cell]
        if place.kind == "rank":
            group, member = place.name.split(":", 1)
            # A member with one series for each of its groups is compared within these alone.
            is_only = self._own_groups[label][member] != ""
            others = self._groups_of_node.get(member, ()) if is_only else ()
            return {("group", group), *(("group", name) for name in others)}
        if place.kind == "gpu":
            return peer_sets_of_gpu(self.topology, self._groups_of_member, place.name, self.judgement(cell).role)
        if place.kind == "port":
            port = self.topology.port.get(place.name)
            return {("ports", f"{port.node} {port.network} {port.speed}")} if port else set()
        # Clients talk to the front end of a group alone: it is compared with other front ends.
        is_client_side = self._shows_clients(cell) and self.serving_group(cell) is not None
        if place.kind == "node" and not is_client_side:
            return {("group", name) for name in self._groups_of_node.get(place.name, ())}
        replica = self.replica_of(cell) if place.kind == "node" else place.name
        return {("pool", pool.name) for pool in self.topology.pools if replica in pool.replicas}

    def siblings_of(self, cell: int) -> tuple[str, ...]:
        """Returns what the cells of one signal at one node have in common; of a number of `other.*`, its name."""
        id_, place = self.signals[cell].id, self.places[cell].name
        if id_.startswith(OTHER_AREA):
            return id_, own_name(self.selectors[cell]), stem(place)
        return id_, place.partition("/")[0]

    def subject(self, cell: int) -> tuple[Signal, Entity]:
        """Returns the signal and the place of a cell."""
        return self.signals[cell], self.places[cell]

    def serving_group(self, cell: int) -> Group | None:
        """Returns the group that serves requests to which a cell belongs; its work follows these."""
        place = self.places[cell]
        if place not in self._serving:
            self._serving[place] = self._find_serving_group(place)
        return self._serving[place]

    def _find_serving_group(self, place: Entity) -> Group | None:
        if place.kind in ("group", "replica"):
            names: Sequence[str] = (place.name,)
        elif place.kind == "rank":
            names = (place.name.split(":", 1)[0],)
        else:
            node = self.topology.port[place.name].node if place.name in self.topology.port else place.name
            names = self._groups_of_node.get(node.rsplit("/gpu", 1)[0], ())
        serving = self.topology.serving_groups
        return next((self.topology.group[name] for name in names if name in serving), None)

    def replica_of(self, cell: int) -> str:
        """Returns the group whose requests a cell shows: its engine's, or those at its front end; '' for none."""
        group, place = self.serving_group(cell), self.places[cell]
        if group is None:
            return ""
        if place.kind in ("group", "replica"):
            return group.name
        front = self.topology.node_of.get(group.front_end, group.front_end)
        return group.name if self._shows_clients(cell) and place == Entity("node", front) else ""

    def _shows_clients(self, cell: int) -> bool:
        return self.signals[cell].vantage == CLIENT_SIDE or self.judgement(cell).role == "workload"

    def is_request_count(self, cell: int) -> bool:
        """Returns whether a cell counts requests that arrive or end."""
        signal, role = self.signals[cell], self.judgement(cell).role
        return role == "workload" and signal.type == "counter" and signal.unit == "{request}"

    def series_of(self, signal: str, place: str) -> int:
        """Returns the first series of a signal at a place, whatever its selector; -1 for none."""
        return next(iter(self.all_series_of(signal, place)), -1)

    def all_series_of(self, signal: str, place: str) -> list[int]:
        """Returns the series of a signal at a place, one of each selector."""
        if signal not in self.state.rows:
            return []
        number = self.state.entities.numbers.get(self.state.kinds[signal], {}).get(place, -1)
        found = self.state.rows_of(signal).series[:, number].tolist() if number >= 0 else ()
        return [int(one) for one in found if one >= 0]

    def load_series(self, cell: int) -> int:
        """Returns the series that shows whether requests are being served where a cell is; -1 where none does."""
        group = self.serving_group(cell)
        if group is None:
            return -1
        found = (self.series_of("serve.running", group.name), self.series_of("wire.open_streams", group.front_end))
        return next((series for series in found if series >= 0), -1)

    def is_load_known(self, cell: int, since: float) -> bool:
        """Returns whether the load that a cell needs has been sampled since a time: it may have ended with the work."""
        series = int(self.ties.requests[cell])
        return series < 0 or bool(self.state.times[series] >= since)

    # --- samples

    @property
    def turns(self) -> int:
        """Seconds in which each cell has its turn once."""
        return -(-len(self) // CELLS_PER_TICK)

    def read(self, t: float) -> NewSamples:
        """Takes in the newest samples of the tick that ends at `t` seconds and returns those that are new.

        Of more than CELLS_PER_TICK cells a part has its turn in each second, by the time of the data.
        """
        turns = self.turns
        some = np.arange(int(t) % turns, len(self), turns) if turns > 1 else np.arange(len(self))
        series = self.series[some]
        latest, times = self.state.latest[series], self.state.times[series]
        fresh = self.state.fresh_values(series)
        with np.errstate(invalid="ignore"):
            new = ~np.isnan(times) & ~np.isnan(latest) & ~(times <= self.time[some])
        self.value[some[np.isnan(fresh)]] = np.nan
        at, latest, times = some[new], latest[new], times[new]
        self.samples[at] += 1
        self.begun[at] = np.fmin(self.begun[at], times)
        is_mean = self.means.place[at] >= 0
        if is_mean.any():
            averaged, means, ends = self.means.read(at[is_mean])
            self.value[averaged], self.time[averaged] = means, ends
            at, latest, times = at[~is_mean], latest[~is_mean], times[~is_mean]
        else:
            averaged = at[:0]
        counting = self.is_counter[at]
        gauges, counters = at[~counting], at[counting]
        self.value[gauges], self.time[gauges] = latest[~counting], times[~counting]
        moved = self._read_counters(counters)
        cells = np.sort(np.concatenate((gauges, moved, averaged)))
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
        usual = np.fmax(nan_to_zero(self.renewal[cells]), times - self.time[cells])
        known = ((grew != 0) | (since > MISSED / 2 * usual)) & (since > 0)
        changed = (grew != 0) & (since > 0)
        self.time[cells] = times
        at, interval = cells[changed], since[changed]
        old = self.renewal[at]
        learned = old + LEARNING_RATE * (np.minimum(interval, TAIL * old) - old)
        self.renewal[at] = np.where(np.isnan(old), interval, learned)
        self.value[cells[known]] = grew[known] / since[known]
        self.total[at], self.change_time[at] = totals[changed], times[changed]
        found: Index = cells[known]
        return found
