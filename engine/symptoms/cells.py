"""The series that are judged by themselves as one flat array of cells, and the sets of cells that are peers.

A cell is one series of a signal whose catalogue entry says what is bad about it. Cells and memberships of sets only
grow, so that what is learned about them stays in place when new series appear.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask, nan_to_zero
from skewscope.engine.model.incident import Impact, IncidentEvidence
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.topology import Group, Topology
from skewscope.engine.symptoms.gpu_peers import groups_by_member, peer_sets_of_gpu
from skewscope.engine.symptoms.samples import (
    HISTOGRAM,
    SUM,
    HistogramMeans,
    NewSamples,
    SampleSource,
    SignalRows,
    last_part,
)
from skewscope.kb.model import Judgement, Signal
from skewscope.rules.entity_kinds import kind_of

PAST, PEERS, MOVING, ZERO, LESS = "past", "peers", "moving", "zero", "less"
REPEATS, SHARES, START = "repeats", "shares", "start"
"""Forms: from its past or peers, moving between peers, to nothing, far less than siblings let expect; again and again,
unequal shares, a slow start."""

FORM_ORDER = (PEERS, ZERO, REPEATS, SHARES, LESS, MOVING, PAST, START)
AGAINST = {
    PAST: "its past",
    PEERS: "its peers",
    MOVING: "the median of its peers",
    ZERO: "its siblings",
    REPEATS: "its past",
    LESS: "its siblings",
    SHARES: "its parallel links",
    START: "what followed",
}
SILENT = "silent"
"""Direction of a signal that is no longer delivered."""
SILENT_SYMPTOM = "silent-telemetry"
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
    """up, down, stops, begins, uneven or silent."""
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
        """How far it is from the healthy value, as a factor of at least 1; 1 where nothing is known any more."""
        ratio = abs(self.ratio)
        if math.isnan(ratio):
            return 1.0
        return max(ratio, 1 / ratio) if ratio > 0 else 10.0

    @property
    def symptom(self) -> str:
        """Id of the symptom that it shows."""
        if self.direction == SILENT:
            return SILENT_SYMPTOM
        judged = self.signal.judged
        return judged.symptom if judged else ""

    @property
    def rank(self) -> tuple[object, ...]:
        """Sorts the deviation first after which a symptom is named: by role, then form, then size."""
        judged = self.signal.judged
        role = ROLES.index(judged.role) if judged is not None and judged.role in ROLES else len(ROLES)
        # What is seen of a place says more of it than what is not.
        role = len(ROLES) if self.direction == SILENT else role
        return role, FORM_ORDER.index(self.form), -self.size, self.since, self.key

    def as_evidence(self) -> IncidentEvidence:
        """Returns it as evidence of an incident."""
        text = f"{self.signal.name} of {self.place.name} against {AGAINST[self.form]}"
        unit = self.signal.unit + ("/s" if self.signal.type == "counter" else "")
        value = self.value if math.isfinite(self.value) else None
        return IncidentEvidence(text, "yes", 1.0, value, unit, self.signal.id)

    def impact(self) -> Impact:
        """Returns the relative change as the impact of an incident."""
        change = self.ratio - 1 if self.before else None
        share = None if change is None or not math.isfinite(change) else round(change, 3)
        return Impact(self.signal.id, share, "1")


MAX_CELLS = 250_000
"""So many series are judged, those that say most about work first; the coverage names the signals left out."""
CELLS_PER_GROWTH_S = 5_000
"""Where series come, all cells are looked at again, which takes some ten microseconds each: the next growth waits a
second for so many of them."""
CELLS_PER_TICK = 50_000
"""So many series are judged in one tick; more of them take turns."""
LARGE_FLEET_NODES = 1000
"""Of a fleet with more nodes, only signals that rules read as well are judged: others would cost memory per series."""
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
SCRAPED_FROM = "instance="
"""Begin of the part of a selector that names the server of a series."""
MIN_RENEWALS = 2.5
"""A counter stands still when it has not changed for so many of its usual intervals between changes."""
RENEWAL_LEARNING_RATE = 0.2


MIN_CHANGES = 3
"""Changes of a counter after which its usual pace is known."""
STALL_RENEWALS = 5.0
"""A counter has stopped when it has not changed for so many of its usual intervals..."""
MIN_STALL_S = 10.0
"""...and for at least so many seconds."""
PENDING = 0.5
"""A counter that has stood for this part of that time may be the one that is behind."""
MIN_GROUP_STALL_S = 60.0
"""A group that stands as a whole may wait for another one: that one is told first."""
RANK_SIGNALS = frozenset({"nccl.coll_seq", "nccl.coll_done"})
"""Counters that end with the process of a rank: where one stands and is still read, the job has not ended."""
STEP_SIGNAL = "step.duration"
"""Comes once a step, of a whole group."""
PART_SIGNAL = "step.compute_time"
"""What a member does of it."""
STEP_SYMPTOM = "stopped-progress"
MISSED_STEPS = 5.0
"""A step that has not come for so many of its usual intervals..."""
MIN_MISSED_S = 9.0
"""...and for so many seconds, the longest with which a stopped job is told within ten, and for LONGEST_TIMES the
longest interval of late has stopped."""
LONGEST_MEMORY_S = 3600.0
MIN_INTERVALS = 10
BURST_S = 60.0
"""Errors within this time belong together, and a burst of them ends after it."""
MIN_ERRORS = 1.5
"""Samples with new errors within a burst: one alone may be an event of no consequence."""
MIN_QUIET_S = 30.0
"""Seconds of observation before errors can begin."""
USUAL_S = 900.0
"""Memory of the usual share of samples with errors."""
USUAL_SHARE = 0.02
"""A counter that grows in more of its samples than this has errors that are usual for it."""
MIN_BAD_SAMPLES = 2
MIN_SILENCE_S = 60.0
"""An exporter that restarts is silent for less (judgement; the rule for blackouts waits for about as long)."""
FLAPS = 4
"""Changes of a state..."""
FLAP_S = 300.0
"""...within this time that are flapping."""

DISTINCT_ROLES = frozenset({"time-per-work", "wait", "latency", "spread"})
"""Measured once per unit of work: a poll that repeats the value is no new measurement."""
PAST_ROLES = frozenset(
    {
        "time-per-work",
        "capacity",
        "throughput",
        "loss",
        "wait",
        "latency",
        "queue",
        "pressure",
        "spread",
        "utilisation",
        "health",
    }
)
FOLLOWING_ROLES = frozenset({"pressure", "queue", "utilisation"})
"""What rises and falls with the load: when it returns to a level that was usual, nothing is wrong."""
MIN_RUN_S = {"time-per-work": 3.0, "capacity": 10.0, "wait": 10.0, "latency": 10.0}
"""Seconds that a shift must last, by role; that of latencies was set on the recording in tests/lab/gpu_serving."""
OTHER_MIN_RUN_S = 30.0
"""Of roles that follow the load: a burst of requests is shorter."""
LOADED_ROLES = frozenset({"time-per-work", "throughput", "wait", "progress"})
"""Where requests are served, these count only while some are: an idle replica turns slowly."""
POOLED_ROLES = frozenset({"workload", "throughput", "utilisation"})
"""While a replica of a pool is out of service, the others take its load: these do not count then."""
NEAR_FLOORS = 2.0
"""A value is near what is bad by itself from so many least differences below it (judgement)."""
COMPARABLE_LOADS = 4.0
"""A replica with more than so many times the load of another one of its pool is slower for that alone, as while that
one is drained (judgement, set on simulated fleets)..."""
LEAST_SERVING_SHIFT = 0.5
"""...by up to this share: the steps of a replica become longer with its batches, in simulated traffic surges by an
eighth, hence judgement."""
LOAD_SHARE = 0.5
"""A utilisation from which on a device is under load; other signals show load when they are above zero."""
FULL_LOAD_SHARE = 0.75
"""A utilisation from which on a device needs its whole clock: where little is to be done, its governor lowers the
clock, and the little work uses much of what is left. GPUs of public recordings whose clock was held down were used for
92 % of the time or more (median), idle ones of a desktop at an eighth of their clock for 45 to 59 %."""


MIN_PEERS = 3
"""Members of a set from which on it says more of a member than the member's own past."""


def judged_signals(signals: Mapping[str, Signal]) -> list[str]:
    """Returns the ids of the signals that are judged by themselves or others by them, in the order of their roles."""
    wholes = {s.judged.part_of for s in signals.values() if s.judged is not None}
    found = [s for s in signals.values() if s.judged is not None and (s.judged.bad != "none" or s.id in wholes)]
    found = [s for s in found if s.judged is not None and s.judged.role in ROLES]
    found = [s for s in found if kind_of(s.entity) not in UNJUDGED_KINDS]
    return [s.id for s in sorted(found, key=lambda s: (ROLES.index(s.judged.role) if s.judged else 0, s.id))]


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
    means: HistogramMeans = field(init=False)
    """What histograms counted; their cells have the mean of the newest observations."""
    pair_cell: Index = field(default_factory=lambda: np.empty(0, np.intp))
    pair_set: Index = field(default_factory=lambda: np.empty(0, np.intp))
    set_sizes: Index = field(default_factory=lambda: np.empty(0, np.intp))
    set_places: dict[int, Entity] = field(default_factory=dict)
    """The entity of each set that is a group, a node or a pool, by the number of the set."""
    left_out: frozenset[str] = frozenset()
    """Signals some of whose series are beyond MAX_CELLS."""
    _known: Mask = field(default_factory=lambda: np.empty(0, bool))
    """[series] whether it has a cell."""
    _entities: dict[str, dict[str, Entity]] = field(default_factory=dict)
    """By kind and name."""
    _serving: dict[Entity, Group | None] = field(default_factory=dict)
    """The serving group of each place."""
    _set_numbers: dict[tuple[str, str, str], int] = field(default_factory=dict)
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
        if np.isfinite(t):
            self._next_growth = t + len(self) / CELLS_PER_GROWTH_S
        return bool(added)

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
                self.signals += [signal] * len(some)
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
        return -np.inf if is_grouped else one.nominal - NEAR_FLOORS * one.floor

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
        nan = np.full(len(numbers), np.nan)
        self.series = np.concatenate((self.series, numbers))
        new = self.signals[len(self.is_counter) :]
        counts = np.array([signal.type in COUNTER_TYPES for signal in new], bool)
        self.is_counter = np.concatenate((self.is_counter, counts))
        for name in ("value", "time", "change_time", "renewal", "total"):
            setattr(self, name, np.concatenate((getattr(self, name), nan)))
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
                number = self._set_numbers.setdefault((label, kind, name), len(self._set_numbers))
                if kind in SET_KINDS:
                    self.set_places[number] = self._entity(kind, name)
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


@dataclass(frozen=True, slots=True)
class CellRelations:
    """The cells by which others are judged, [cell] each: the load that it follows, and what it is a part of."""

    given: Index
    """The cell that must show load, or -1."""
    load: F64
    """From which value on that one does."""
    is_yield: Mask
    """Whether it is compared per unit of the load that it follows."""
    whole: Index
    """The cell of which it is a part, or -1."""
    least_part: F64


def relate_cells(cells: JudgedCells, judged: Sequence[Judgement], serving: Sequence[bool]) -> CellRelations:
    """Returns the relations of all cells; `judged` and `serving` are [cell]."""
    size, signals, places = len(cells), cells.signals, cells.places
    by_place = {(signals[n].id, places[n]): n for n in range(size)}
    given = [by_place.get((one.given, places[n]), -1) if one.given else -1 for n, one in enumerate(judged)]
    units = [signals[n].unit if n >= 0 else "" for n in given]
    shares = [FULL_LOAD_SHARE if one.role == "capacity" else LOAD_SHARE for one in judged]
    load = np.array([{"%": 100 * least, "1": least}.get(unit, 0.0) for unit, least in zip(units, shares, strict=True)])
    follows = [one.role == "throughput" and serves for one, serves in zip(judged, serving, strict=True)]
    whole = np.full(size, -1, np.intp)
    for n, one in enumerate(judged):
        if one.part_of:
            group = Entity("group", places[n].name.split(":", 1)[0])
            whole[n] = by_place.get((one.part_of, places[n]), by_place.get((one.part_of, group), -1))
    at = np.array(given, np.intp)
    least_part = np.array([one.least_part for one in judged])
    return CellRelations(at, load, np.array(follows, bool) & (at >= 0), whole, least_part)
