"""The series that are judged by themselves as one flat array of cells, and the sets of cells that are peers.

A cell is one series of a signal whose catalogue entry says what is bad about it. Cells and memberships of sets only
grow, so that what is learned about them stays in place when new series appear.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.ingest.layout import SeriesRows
from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.topology import Group, Topology
from skewscope.kb.model import Judgement, Signal
from skewscope.rules.entity_kinds import kind_of

PAST, PEERS, MOVING, ZERO, LESS = "past", "peers", "moving", "zero", "less"
REPEATS, SHARES, START = "repeats", "shares", "start"
"""Forms: from its past or peers, moving between peers, to nothing, far less than siblings let expect; again and again,
unequal shares, a slow start."""

DeviationKey = tuple[str, Entity, str]
"""Signal, place and form."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One signal that is abnormal on one entity, as of now."""

    signal: Signal
    place: Entity
    form: str
    """PAST, PEERS, MOVING, ZERO, LESS, REPEATS, SHARES or START."""
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
ROLES = (
    *("progress", "time-per-work", "state", "errors", "capacity", "share", "loss", "throughput", "wait", "pressure"),
    *("latency", "queue", "health", "spread", "utilisation", "workload"),
)
"""Roles that are judged, in the order in which a symptom is named after them."""
SET_KINDS = frozenset({"group", "node", "pool"})
"""Kinds of sets of peers that are entities themselves."""
UNJUDGED_KINDS = frozenset({"peer", "link", "fleet"})
COUNTER_TYPES = frozenset({"counter"})
CLIENT_SIDE = ("north-south",)
MIN_RENEWALS = 2.5
"""A counter stands still when it has not changed for so many of its usual intervals between changes."""
RENEWAL_LEARNING_RATE = 0.2


def judged_signals(signals: Mapping[str, Signal]) -> list[str]:
    """Returns the ids of the signals that are judged by themselves or others by them, in the order of their roles."""
    wholes = {s.judged.part_of for s in signals.values() if s.judged is not None}
    found = [s for s in signals.values() if s.judged is not None and (s.judged.bad != "none" or s.id in wholes)]
    found = [s for s in found if s.judged is not None and s.judged.role in ROLES]
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
    set_places: dict[int, Entity] = field(default_factory=dict)
    """The entity of each set that is a group, a node or a pool, by the number of the set."""
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
            for kind, name in sorted(self._peer_sets_of(cell, label)):
                number = self._set_numbers.setdefault((label, kind, name), len(self._set_numbers))
                if kind in SET_KINDS:
                    self.set_places[number] = Entity(kind, name)
                pairs.append(cell)
                sets.append(number)
        self.pair_cell = np.concatenate((self.pair_cell, np.array(pairs, np.intp)))
        self.pair_set = np.concatenate((self.pair_set, np.array(sets, np.intp)))
        self.set_sizes = np.bincount(self.pair_set, minlength=len(self._set_numbers))

    def _peer_sets_of(self, cell: int, label: str) -> set[tuple[str, str]]:
        """Returns (kind, name) of each set of entities that do the same as this one."""
        place = self.places[cell]
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
        # Clients talk to the front end of a group alone: it is compared with other front ends.
        is_client_side = self._shows_clients(cell) and self.serving_group(cell) is not None
        if place.kind == "node" and not is_client_side:
            return {("group", name) for name in self._groups_of_node.get(place.name, ())}
        replica = self.replica_of(cell) if place.kind == "node" else place.name
        return {("pool", pool.name) for pool in self.topology.pools if replica in pool.replicas}

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
        return role == "workload" and signal.type in COUNTER_TYPES and signal.unit == "{request}"

    def series_of(self, signal: str, place: str) -> int:
        """Returns the first series of a signal at a place; -1 for none."""
        if signal not in self.state.rows:
            return -1
        number = self.state.entities.numbers.get(self.state.kinds[signal], {}).get(place, -1)
        rows = self.state.rows_of(signal).series
        return int(rows[0, number]) if number >= 0 and rows.size else -1

    def load_series(self, cell: int) -> int:
        """Returns the series that shows whether requests are being served where a cell is; -1 where none does."""
        group = self.serving_group(cell)
        if group is None:
            return -1
        found = (self.series_of("serve.running", group.name), self.series_of("wire.open_streams", group.front_end))
        return next((series for series in found if series >= 0), -1)

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


# --- requests of replicas

MORE, NONE = 6.0, 1 / 50
"""Odds that are tested against the usual ones: many times the requests of another replica, and next to none. One with
2.4 times its usual odds is found in the end, one with twice as many is not."""
LEAST_EVIDENCE, MOST_EVIDENCE = 10.0, 16.0
"""Log-likelihood ratio of unequal shares, at low and at high rates. Random arrivals at two replicas of 1.5 requests a
second each reached 10 by chance nine times in 150 hours; at ten a second in all none did so (simulated)."""
EVIDENCE_S, MAX_GAIN = 11.0, 4.0
"""Between the two: as much as MORE yields in so many seconds; no more of one sample, for a client may send a burst."""
EXCESS, UNSURE = 4.0, 4.0
"""Evidence kept beyond the threshold, so that a symptom ends soon; that of one without requests over one with many."""
RATE_S, RECENT_S, USUAL_S = 60.0, 10.0, 120.0
"""Memories of the rate of a pool, of the rates of its replicas, and of what is usual there."""
MAX_DISPERSION, MAX_WEIGHT = 9.0, 1.6
"""How much more than by chance the counts of a pool may vary in health, and a share differ from an equal one."""
READY_LAG_S, SETTLE_S = 2.0, 60.0
"""Age at which a state of the pool still belongs to evidence; seconds until a replica that returns has its load."""


@dataclass
class RequestShares:
    """Replicas that get far more requests than the others of their pool, or none.

    Requests are counted, so chance is known. Each sample adds the log-likelihood ratio of unequal against equal shares
    to a sum that never falls below zero (E. Page, "Continuous inspection schemes", 1954). Nothing counts while a
    replica is out of service: the others are meant to take its requests.
    """

    cells: JudgedCells

    def __post_init__(self) -> None:
        pools = self.cells.topology.pools
        self._pool_of = {name: n for n, pool in enumerate(pools) for name in pool.replicas if len(pool.replicas) > 1}
        self._members: dict[tuple[int, int, str], int] = {}
        """Number of a member by board, pool and replica; a board is the counts of one signal at one pool."""
        self._boards: dict[tuple[str, int], int] = {}
        self._cell, self._cell_member, self._board, self._pool = (np.empty(0, np.intp) for _ in range(4))
        self._total, self._time, self._rate, self._weight = (np.empty(0) for _ in range(4))
        self._evidence, self._since, self._crossed = (np.empty((2, 0)) for _ in range(3))
        """[more or none, member]"""
        self._told: Mask = np.empty((2, 0), bool)
        self._pool_rate, self._dispersion, self._board_size = (np.empty(0) for _ in range(3))
        self._shown: dict[int, tuple[int, int]] = {}
        """(more or none, member) that is reported, by board."""
        self._size = np.array([len(pool.replicas) for pool in pools], float)
        self._ready, self._engine, self._engine_pool = (np.empty(0, np.intp) for _ in range(3))
        self._out_at = np.full(len(pools), -np.inf)
        """[pool] when a replica was last out of service, seconds."""
        self.unsettled: Mask = np.zeros(len(pools), bool)
        """[pool] whether a replica is out of service, or was a moment ago."""

    def pool_of(self, cell: int) -> int:
        """Returns the number of the pool among whose replicas a cell is; -1 for none."""
        return self._pool_of.get(getattr(self.cells.serving_group(cell), "name", ""), -1)

    def grow(self) -> None:
        """Makes room for new cells."""
        cells = self.cells
        pairs = []
        for n in range(len(cells)):
            name = cells.replica_of(n) if cells.is_request_count(n) else ""
            if (pool := self._pool_of.get(name, -1)) >= 0:
                board = self._boards.setdefault((cells.signals[n].id, pool), len(self._boards))
                pairs.append((n, self._members.setdefault((board, pool, name), len(self._members))))
        self._cell, self._cell_member = np.array(pairs, np.intp).reshape(-1, 2).T
        size = len(self._members)
        self._board, self._pool = (np.array([key[n] for key in self._members], np.intp) for n in (0, 1))
        self._total, self._time, self._rate = (_widened(old, size) for old in (self._total, self._time, self._rate))
        self._weight = _widened(self._weight, size, 1.0)
        self._evidence, self._told = _widened(self._evidence, size, 0.0), _widened(self._told, size, False)
        self._since, self._crossed = _widened(self._since, size), _widened(self._crossed, size)
        self._pool_rate = _widened(self._pool_rate, len(self._boards))
        self._dispersion = _widened(self._dispersion, len(self._boards), 1.0)
        self._board_size = self._size[np.array([pool for _, pool in self._boards], np.intp)]
        self._ready = np.array([cells.series_of("pool.ready", pool.name) for pool in cells.topology.pools], np.intp)
        engines = [(cells.series_of("serve.running", name), pool) for name, pool in self._pool_of.items()]
        self._engine, self._engine_pool = np.array([one for one in engines if one[0] >= 0], np.intp).reshape(-1, 2).T

    def step(self, t: float) -> None:
        """Takes in the counts of the tick that ends at `t` seconds."""
        self._find_unsettled(t)
        if not len(self._cell):
            return
        state, size, boards, sizes = self.cells.state, len(self._board), len(self._boards), self._board_size
        series = self.cells.series[self._cell]
        totals, times = state.counter_totals(series)
        fresh = ~np.isnan(state.fresh_values(series))
        known = np.bincount(self._cell_member, weights=fresh, minlength=size) > 0
        total = np.bincount(self._cell_member, weights=totals, minlength=size)
        time = np.full(size, -np.inf)
        with np.errstate(invalid="ignore"):
            np.maximum.at(time, self._cell_member, times)
        whole = np.bincount(self._board[known], minlength=boards) == sizes
        ready = known & whole[self._board] & ~self.unsettled[self._pool]
        self._time[~ready] = self._since[:, ~ready] = self._crossed[:, ~ready] = np.nan
        self._evidence[:, ~ready], self._told[:, ~ready] = 0.0, False
        begins = ready & np.isnan(self._time)
        self._total[begins], self._time[begins] = total[begins], time[begins]
        newer = np.bincount(self._board[ready & (time > self._time)], minlength=boards) == sizes
        some = np.flatnonzero(newer[self._board])
        if len(some):
            self._count(some, total[some] - self._total[some], time[some] - self._time[some], time[some])
            self._total[some], self._time[some] = total[some], time[some]
        self._choose()

    def _find_unsettled(self, t: float) -> None:
        """Learns which pools have a replica that is out of service, or whose engine is silent."""
        state, out = self.cells.state, np.zeros(len(self._size), bool)
        at = np.flatnonzero(self._ready >= 0)
        out[at] = state.fresh_values(self._ready[at]) < self._size[at]
        silent = np.isnan(state.fresh_values(self._engine)) & ~np.isnan(state.times[self._engine])
        out[self._engine_pool[silent]] = True
        self._out_at[out] = t
        self.unsettled = t - self._out_at < SETTLE_S

    def _count(self, at: Index, count: F64, passed: F64, time: F64) -> None:
        """Takes in the requests of some members, [k] each, and the seconds in which they came."""
        board, boards = self._board[at], len(self._boards)
        all_ = np.bincount(board, weights=count, minlength=boards)
        due = passed * np.clip(self._weight[at], 1 / MAX_WEIGHT, MAX_WEIGHT)
        usual = due / np.bincount(board, weights=due, minlength=boards)[board]
        here, total = np.unique(board), all_[board]
        seconds = (np.bincount(board, weights=passed, minlength=boards) / self._board_size)[here]
        self._pool_rate[here] = _moved(self._pool_rate[here], all_[here] / seconds, seconds / RATE_S)
        self._rate[at] = _moved(self._rate[at], count / passed, passed / RECENT_S)
        limit, odds = _limits(usual, self._pool_rate[board]), np.array([[MORE], [NONE]])
        share = _share(odds, usual)
        gain = count * np.log(share / usual) + (total - count) * np.log((1 - share) / (1 - usual))
        top = np.full(boards, MAX_GAIN)
        np.maximum.at(top, board, gain.max(axis=0))
        gain *= (MAX_GAIN / top / np.maximum(self._dispersion, 1.0))[board]
        old, kept = self._evidence[:, at], limit + EXCESS + np.array([[0.0], [UNSURE]])
        new = np.clip(old + gain, 0.0, kept)
        self._since[:, at] = np.where(new == 0, np.nan, np.where(old == 0, time - passed, self._since[:, at]))
        self._evidence[:, at] = new
        self._crossed[:, at] = np.where(new < limit, np.nan, np.fmin(self._crossed[:, at], time))
        self._told[:, at] = (new >= limit) | (self._told[:, at] & (new > 0))
        self._learn_usual(at, count, total * usual, passed)

    def _learn_usual(self, at: Index, count: F64, expected: F64, passed: F64) -> None:
        """Learns the shares of healthy pools, and how much more than by chance their counts vary."""
        board, boards = self._board[at], len(self._boards)
        top = np.zeros(boards)
        np.maximum.at(top, self._board, self._evidence.max(axis=0))
        total = np.bincount(board, weights=count, minlength=boards)
        calm = ((top < UNSURE) & (total > 0))[board]
        at, board, count, expected, passed = at[calm], board[calm], count[calm], expected[calm], passed[calm]
        weight = count / total[board] * self._board_size[board]
        self._weight[at] = _moved(self._weight[at], weight, passed / USUAL_S)
        squares = np.bincount(board, weights=(count - expected) ** 2 / expected, minlength=boards)
        apart = np.minimum(squares / (self._board_size - 1), MAX_DISPERSION)[board]
        self._dispersion[board] = _moved(self._dispersion[board], apart, passed / USUAL_S)

    def _choose(self) -> None:
        """Chooses the member of each board for which most speaks, once the state of its pool is known as of then."""
        shown, self._shown = self._shown, {}
        if not self._told.any():
            return
        state, read = self.cells.state, np.full(len(self._size), np.inf)
        at = np.flatnonzero((self._ready >= 0) & ~np.isnan(state.fresh_values(self._ready)))
        read[at] = state.times[self._ready[at]]
        # Of two replicas one gets none or the other too many: a few requests by chance must not decide.
        penalty = np.array([[0.0], [UNSURE]])
        weight, top = self._evidence - penalty, np.full((2, len(self._boards)), -np.inf)
        for row, n in shown.values():
            weight[row, n] += EXCESS  # one that is reported stays so while another is hardly more likely
        np.maximum.at(top[0], self._board, weight.max(axis=0))
        np.maximum.at(top[1], self._board, weight[1] + UNSURE)
        sure = (weight + penalty >= top[1, self._board]) & (read[self._pool] >= self._crossed - READY_LAG_S)
        for row, n in np.argwhere(self._told & (weight == top[0, self._board])).tolist():
            board = int(self._board[n])
            if shown.get(board) == (row, n) or sure[row, n]:
                self._shown.setdefault(board, (row, n))

    def deviations(self) -> Iterator[Deviation]:
        """Yields the replicas that get too many requests, or none."""
        names = [name for _, _, name in self._members]
        signals = [name for name, _ in self._boards]
        for board, (row, n) in self._shown.items():
            others = float(np.median(self._rate[(self._board == board) & (np.arange(len(names)) != n)]))
            signal, since = self.cells.state.signals[signals[board]], float(self._since[row, n])
            direction = ("up", "down")[row]
            yield Deviation(signal, Entity("replica", names[n]), PEERS, direction, since, float(self._rate[n]), others)


def _widened(values: NDArray[Any], size: int, fill: float | bool = np.nan) -> NDArray[Any]:
    out = np.full((*values.shape[:-1], size), fill, values.dtype)
    out[..., : values.shape[-1]] = values
    return out


def _share(odds: F64 | float, equal: F64) -> F64:
    """Returns the share of a member that gets `odds` times as much as one with an equal share."""
    return odds * equal / (odds * equal + 1 - equal)


def _limits(equal: F64, rate: F64) -> F64:
    """Returns the evidence that is needed at a rate of requests per second."""
    share = _share(MORE, equal)
    each = share * np.log(share / equal) + (1 - share) * np.log((1 - share) / (1 - equal))
    return np.clip(EVIDENCE_S * each * rate, LEAST_EVIDENCE, MOST_EVIDENCE)


def _moved(old: F64, new: F64, weight: F64) -> F64:
    """Returns averages moved towards new values; those without an old value take the new one."""
    found: F64 = np.where(np.isnan(old), new, old + (1 - np.exp(-weight)) * (new - old))
    return found
