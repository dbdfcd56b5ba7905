"""Joins the ports' views of a group's rounds into one by topology, without synchronised clocks.

A port measures when the burst of each sender began, on its own clock: `onset_i(j) = c_i + x_j`, with `x_j` the sender's
place in the round and `c_i` the port's own offset. Every receiver gives such a row, complete in a mesh and of two
entries in a ring; the `x_j` that fit the rows are the members' lags (see `lags`). Only members count as receivers, and
each node has one vote, whatever the number of its ports.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable, empty_block
from skewscope.engine.model.arrays import F64, I64, Mask
from skewscope.engine.model.topology import Group, Topology
from skewscope.engine.wire.lags import LEAST_LAG, max_liars, median_vote, merge_lags, nan_extreme, nan_median
from skewscope.engine.wire.view import PIPELINES

PACE_SIGNALS = {
    "wire.port_round_rate": "wire.round_rate",
    "wire.port_round_period": "wire.round_period",
    "wire.port_round_period_cv": "wire.round_period_cv",
    "wire.port_exchange_time": "wire.exchange_time",
}
"""Signals of ports about a group's pace, and the group's signal that is their median."""
COMMON_PAUSE = "wire.common_pause"
"""Signal of groups: the pause that all members took."""
PAUSE_LAYERS = {
    "wire.own_pause": 0,
    "wire.own_pause_p95": 1,
    "wire.open_pause": 2,
    "wire.open_wait": 3,
    "wire.own_longest_pause": 4,
    "wire.own_wait": 5,
}
"""Layers of the table of the pauses and waits that members' own ports measured."""
LAG_LAYERS = {"onset_lag": 0, "onset_lag_p95": 1, "last_share": 2}
"""Layers of the table of receivers' values about senders."""
RANK_SIGNALS = ("wire.onset_lag", "wire.onset_lag_p95", "wire.last_sender_share", "wire.stopped_time")
"""Signals of ranks that the join emits."""
FORWARDED_SIGNALS = {
    "wire.own_retransmit_ratio": "wire.member_retransmit_ratio",
    "wire.own_burst_bytes": "wire.burst_bytes",
    "wire.own_pause": "wire.round_pause",
    "wire.own_wait": "wire.round_wait",
    "wire.own_partner_share": "wire.partner_share",
    "wire.own_turn_time": "wire.turn_time",
}
"""Signals of ports that are copied to the ranks on their node."""
UNROUNDED = frozenset({"wire.own_partner_share", "wire.own_turn_time"})
"""Copied signals that hold whether or not a port reads the rounds of its group."""
INPUT_SIGNALS = frozenset(
    {*PACE_SIGNALS, *PAUSE_LAYERS, *FORWARDED_SIGNALS, "wire.stage_time", "wire.rounds_unreadable"}
) | {f"wire.{whose}_{what}" for whose in ("own", "peer") for what in LAG_LAYERS}
"""Signals that the join reads, and the one that says which groups it cannot join."""
FRESH_TICKS = 1.5
"""A value younger than this many ticks is new."""
REPORT_ROUNDS = 1.5
"""Rounds for which a port's value stays part of the join."""

MIN_PORT_SHARE = 0.25
"""Share of the ports that see a group of which more have to read its rounds: a single one may read parts of rounds."""
SAME_PERIOD = 1.5
"""Ratio to the group's period from which a member reads other rounds than the rest."""
NORMAL_P95 = 1.645
"""Deviations of a normal distribution at its 95 % quantile."""
STAND_TIMES = 4.0
"""Periods for which all members pause where a job stands: single steps of up to 3.4 times the median are normal in
completed MLPerf runs."""
MIN_STAND = 0.5
"""...and for at least so many seconds: of what is shorter, all members have their part in the same tick (judgement)."""
SLOWEST_FACTOR = 1.1
"""Ratio to the median stage from which the longest counts as slowest: equal stages differ by a few hundredths."""


@dataclass
class _Cells:
    """The cell of each series of a kind in its bucket's table."""

    positions: list[tuple[int, ...]] = field(default_factory=list)
    series: list[int] = field(default_factory=list)
    _cells: tuple[I64, ...] = ()
    _numbers: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    """The same as arrays, as of the last table."""

    def table(self, shape: tuple[int, ...], values: F64) -> F64:
        """Returns the values as a table of this shape, NaN in cells without a series."""
        out = np.full(shape, np.nan)
        if len(self._numbers) != len(self.series):
            self._cells, self._numbers = tuple(np.array(self.positions).T), np.array(self.series)
        if self.series:
            out[self._cells] = values[self._numbers]
        return out


@dataclass
class _GroupBucket:
    """Groups of like size, joined together."""

    groups: list[Group] = field(default_factory=list)
    nodes: list[tuple[str, ...]] = field(default_factory=list)
    receivers: list[dict[str, tuple[int, int]]] = field(default_factory=list)
    """(node, slot) of each receiving port, by group: a node has a slot for each of its ports."""
    slots: int = 1
    """Slots of a node, in all groups."""
    lags: _Cells = field(default_factory=_Cells)
    """[layer, group, node, slot, sender]."""
    pauses: _Cells = field(default_factory=_Cells)
    """[layer, group, node, slot]."""
    stage: _Cells = field(default_factory=_Cells)
    """[group, node]."""
    pace: _Cells = field(default_factory=_Cells)
    """[what, group, node, slot]."""
    targets: tuple[I64, I64, I64] | None = None
    """Series of (what is said of groups, by signal), (rank signals by rank), and each rank's place in [group, node]."""
    period: F64 = field(default_factory=lambda: np.empty(0))
    """[group] seconds between rounds, as last known."""
    agrees: Mask = field(default_factory=lambda: np.empty((0, 0, 0), bool))
    """[group, node, slot] whether a receiver reads the rounds that its group has, as far as that is known."""
    supports: Mask = field(default_factory=lambda: np.empty((0, 0, 0), bool))
    """[group, node, member's node] whether a node's own telemetry supports that the member is late, as last known."""

    @property
    def has_reports(self) -> bool:
        """Whether any port ever reported a value of a group."""
        return bool(self.lags.series or self.pauses.series or self.stage.series or self.pace.series)

    def begin(self, table: SeriesTable) -> tuple[I64, I64, I64]:
        """Returns `targets`; they are looked up, and no period is known, at the first call."""
        if self.targets is None:
            self.targets = self._targets(table)
            self.period = np.full(len(self.groups), np.nan)
        return self.targets

    def to_samples(self, latest: F64, age: F64, table: SeriesTable, step: float) -> tuple[I64, F64]:
        """Returns ([sample] series, [sample] values) of all groups, NaN where unknown.

        Args:
            latest: [series] newest value of each.
            age: [series] its age in ticks of `step` seconds.
            table: all series.
            step: length of a tick, s.
        """
        paces, ranks, place = self.begin(table)
        groups, nodes, slots = len(self.groups), max(map(len, self.nodes)), self.slots
        reach = np.fmax(FRESH_TICKS, REPORT_ROUNDS * self.period / step)
        said, new = _recent_values(self.pace, (len(PACE_SIGNALS), groups, nodes, slots), (latest, age), reach)
        heard, anew = _recent_values(self.lags, (len(LAG_LAYERS), groups, nodes, slots, nodes), (latest, age), reach)
        room = (len(PAUSE_LAYERS), groups, nodes, slots)
        chained = ~np.isnan(self.pauses.table(room, latest)[0]).all(axis=(1, 2))
        middle = np.where(new & self._is_shared(said), _group_pace(said, ~np.isnan(heard[0]), chained), np.nan)
        period = middle[list(PACE_SIGNALS).index("wire.port_round_period")]
        before, self.period = self.period, np.where(np.isnan(period), self.period, period)
        flat = heard.reshape(len(LAG_LAYERS), groups, nodes * slots, nodes)
        lag, last, supports = merge_lags(flat[0], flat[2], self.period, slots)
        high = np.fmax(median_vote(np.moveaxis(heard[1], 3, 1)), lag)
        spot = anew[:, None]
        stage = self.stage.table((groups, nodes), np.where(age < FRESH_TICKS, latest, np.nan))
        slowest = np.where(np.isnan(stage), np.nan, _is_slowest_stage(stage))
        paused, again = _recent_values(self.pauses, room, (latest, age), reach)
        still, longest = paused[PAUSE_LAYERS["wire.open_pause"]], paused[PAUSE_LAYERS["wire.own_longest_pause"]]
        waits = paused[PAUSE_LAYERS["wire.own_wait"]]
        common = np.where(again, self._common_pause(longest), np.nan)
        # A port that carries little of a member's traffic pauses longer: its busiest port counts.
        self.agrees = _agrees(said, middle, before)
        paused[:2] = np.where(self.agrees, paused[:2], np.nan)
        owed = self._line_stops(still, stage)
        paused = _with_open_rounds(paused[:4], self.pauses.table(room, latest))
        pause, p95, stopped = (np.fmin.reduce(layer, axis=2) for layer in paused)
        # Where all stand, one does for a tick longer than another: none is late.
        stands = (self._common_pause(np.fmax(longest, still)) > np.fmax(STAND_TIMES * self.period, MIN_STAND))[:, None]
        lags = np.where(stands, np.nan, compare_pauses(pause, p95))
        behind = np.where(again[:, None], np.stack((*lags, stopped)), np.nan)
        none = np.full_like(high, np.nan)
        rows = (lag, stage), (high, none), (last, slowest), (none, owed)
        by_rank = np.stack([np.fmax(np.where(spot, mesh, np.nan), line) for mesh, line in rows])
        by_rank = np.fmax(by_rank, behind)
        self._follow_supports(supports, by_rank[0], np.fmax(lags[0], stage), np.fmin.reduce(waits, axis=2))
        by_rank = by_rank.reshape(len(RANK_SIGNALS), -1)[:, place]
        return np.concatenate((paces, ranks)), np.concatenate((middle.ravel(), common, by_rank.ravel()))

    def _is_shared(self, said: F64) -> Mask:
        """Returns [signal, group] whether enough of the ports that see a group read its rounds; each node counts once.

        `said` is [signal, group, node, slot].
        """
        ports = np.zeros(said.shape[1:3])
        for index, receivers in enumerate(self.receivers):
            for node, _ in receivers.values():
                ports[index, node] += 1
        share = (~np.isnan(said)).sum(axis=3) / np.maximum(ports, 1.0)
        return np.asarray(share.sum(axis=2) > MIN_PORT_SHARE * (ports > 0).sum(axis=1))

    def _follow_supports(self, heard: Mask, lag: F64, own: F64, waits: F64) -> None:
        """Notes which nodes support the lags of this tick: those that hear it, and the member's own ports.

        Those that wait for as long support what the member's own ports say: alone they do not say for whom they wait.

        Args:
            heard: [group, node, sender] whether a node hears the sender late.
            lag: [group, sender] s as told.
            own: [group, sender] s by which a member is late by its own ports.
            waits: [group, node] s that a node waits in a round.
        """
        least = np.fmax(lag / 2, LEAST_LAG)
        admits = own >= least
        supports = heard | admits[:, None] & ((waits[:, :, None] >= least[:, None]) | np.eye(lag.shape[1], dtype=bool))
        if self.supports.shape != supports.shape:
            self.supports = supports
        is_told = ~np.isnan(lag).all(axis=1)
        self.supports[is_told] = supports[is_told]

    def _common_pause(self, longest: F64) -> F64:
        """Returns [group] s that all members have paused for; NaN where half of them are unknown.

        `longest` is [group, node, slot] s. A long pause counts also where it is all that a port read in a tick.
        """
        by_node = np.fmin.reduce(longest, axis=2)
        known = (~np.isnan(by_node)).sum(axis=1)
        return np.where(2 * known > np.array(list(map(len, self.nodes))), np.fmin.reduce(by_node, axis=1), np.nan)

    def _line_stops(self, open_pause: F64, stage: F64) -> F64:
        """Returns [group, node] s for which a stage has not handed on an input, 0 for others; NaN outside pipelines.

        Args:
            open_pause: [group, node, slot] s.
            stage: [group, node] s that each stage took for what it handed on in this tick.
        """
        since = np.fmin.reduce(open_pause, axis=2)
        is_line = np.array([g.kind in PIPELINES for g in self.groups])
        alive = is_line & ~np.isnan(np.fmax(stage, since)).all(axis=1)
        return np.where(alive[:, None], np.nan_to_num(since, nan=0.0), np.nan)

    def _targets(self, table: SeriesTable) -> tuple[I64, I64, I64]:
        """Returns the numbers of the emitted series, in the order of `to_samples`."""
        names = (*PACE_SIGNALS.values(), COMMON_PAUSE)
        paces = [table.number(SeriesKey(s, "group", g.name)) for s in names for g in self.groups]
        senders = max(map(len, self.nodes))
        spots = [
            (g, m, i * senders + n.index(_node_of_member(m, n)))
            for i, (g, n) in enumerate(zip(self.groups, self.nodes, strict=True))
            for m in g.members
        ]
        ranks = [table.number(SeriesKey(s, "rank", f"{g.name}:{m}")) for s in RANK_SIGNALS for g, m, _ in spots]
        return np.array(paces), np.array(ranks), np.array([place for _, _, place in spots])


def _node_of_member(member: str, nodes: tuple[str, ...]) -> str:
    return member if member in nodes else member.rsplit("/", 1)[0]


@dataclass
class WireJoin:
    """The join by topology, as a derivation of the detector: call it once a tick."""

    lag_signals: ClassVar[Collection[str]] = frozenset(RANK_SIGNALS)
    pace_signals: ClassVar[Collection[str]] = frozenset((*PACE_SIGNALS.values(), COMMON_PAUSE))
    topology: Topology
    step: float = 1.0
    reads: frozenset[str] = INPUT_SIGNALS
    seen_series: int = 0
    buckets: dict[int, _GroupBucket] = field(default_factory=dict)
    bucket_of: dict[str, tuple[int, int]] = field(default_factory=dict)
    """(bucket, index in it) by group."""
    forwarded: list[tuple[int, int, int]] = field(default_factory=list)
    """(series of a port, series of a rank, source): values copied from ports."""
    _forwarded: I64 = field(default_factory=lambda: np.empty((0, 3), np.int64))
    """The same as an array."""
    sources: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    """Numbers of the sources of copied values about rounds, (bucket, index in it, node, slot), from 1 on."""
    _sources: I64 = field(default_factory=lambda: np.empty((0, 4), np.int64))
    """The same as an array."""
    _ranks: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """(group, member) of all ranks on each node."""

    def __post_init__(self) -> None:
        for group in self.topology.groups:
            nodes = tuple(dict.fromkeys(self.topology.node_of[m] for m in group.members))
            size = 1 << max(1, len(nodes) - 1).bit_length()
            bucket = self.buckets.setdefault(size, _GroupBucket())
            self.bucket_of[group.name] = size, len(bucket.groups)
            bucket.groups.append(group)
            bucket.nodes.append(nodes)
            bucket.receivers.append({})
            for member in group.members:
                self._ranks.setdefault(self.topology.node_of[member], []).append((group.name, member))

    def __call__(self, t: float, table: SeriesTable, latest: F64, times: F64) -> Block:
        """Returns samples of ranks and groups, stamped `t`, from the ports' values of the tick that ends at `t`.

        Args:
            t: end of the tick, s.
            table: all series.
            latest: [series] newest value of each.
            times: [series] when that was.
        """
        self._register_series(table)
        age = (t - times) / self.step
        told = [
            bucket.to_samples(latest, age, table, self.step) for bucket in self.buckets.values() if bucket.has_reports
        ]
        if self.forwarded:
            if len(self._forwarded) < len(self.forwarded):
                self._forwarded = np.array(self.forwarded)
            series, target, source = self._forwarded.T
            usable = (age[series] < FRESH_TICKS) & self._source_agrees()[source]
            told.append((target, np.where(usable, latest[series], np.nan)))
        if not told:
            return empty_block()
        series, values = np.concatenate([s for s, _ in told]), np.concatenate([v for _, v in told])
        known = ~np.isnan(values)
        return Block(np.full(int(known.sum()), t), series[known].astype(np.int32), values[known])

    def name_supporters(self, group: str, member: str) -> tuple[str, ...]:
        """Returns the nodes whose own telemetry supports that a member is late, as of the last tick that said so."""
        place = self.bucket_of.get(group)
        if place is None:
            return ()
        bucket, index = self.buckets[place[0]], place[1]
        nodes = bucket.nodes[index]
        node = _node_of_member(member, nodes)
        if node not in nodes or not bucket.supports.size:
            return ()
        return tuple(sorted(nodes[i] for i in np.flatnonzero(bucket.supports[index, : len(nodes), nodes.index(node)])))

    def name_voters(self, group: str) -> tuple[str, ...]:
        """Returns the nodes that have reported the pace of a group."""
        place = self.bucket_of.get(group)
        if place is None:
            return ()
        bucket, index = self.buckets[place[0]], place[1]
        return tuple(sorted({bucket.nodes[index][node] for node, _ in bucket.receivers[index].values()}))

    def take_over(self, before: "WireJoin", table: SeriesTable) -> None:
        """Goes on with the periods that another join learned of the groups that both have."""
        for name, (size, index) in self.bucket_of.items():
            then = before.bucket_of.get(name)
            periods = before.buckets[then[0]].period if then else ()
            if then and len(periods):
                self.buckets[size].begin(table)
                self.buckets[size].period[index] = periods[then[1]]

    def _source_agrees(self) -> Mask:
        """Returns [source] whether it reads the rounds of its group; true for source 0, of values about no rounds.

        A member that misses pauses takes several rounds for one, and so their bytes.
        """
        agrees = np.ones(len(self.sources) + 1, bool)
        if len(self._sources) < len(self.sources):
            self._sources = np.array(list(self.sources))
        for size, bucket in self.buckets.items():
            at = np.flatnonzero(self._sources[:, 0] == size)
            place = self._sources[at, 1:]
            known = (place < bucket.agrees.shape).all(axis=1)
            agrees[at[known] + 1] = bucket.agrees[tuple(place[known].T)]
        return agrees

    def _register_series(self, table: SeriesTable) -> None:
        """Assigns cells to series that are new in the table."""
        fresh, self.seen_series = range(self.seen_series, len(table.keys)), len(table.keys)
        for number in fresh:
            key = table.keys[number]
            source = 0
            if key.selector in self.bucket_of and key.kind in ("port", "peer") and key.signal not in UNROUNDED:
                receiver = self._register_receiver(number, key)
                if receiver is None:
                    continue
                source = self.sources.setdefault((*self.bucket_of[key.selector], *receiver), len(self.sources) + 1)
            if key.signal in FORWARDED_SIGNALS:
                self._forward_to_members(number, source, key, table)

    def _register_receiver(self, number: int, key: SeriesKey) -> tuple[int, int] | None:
        """Assigns a cell to a series about a group's rounds; returns (node, slot) of its receiver.

        None where the receiver is no member: what it says of the group counts for nothing.
        """
        size, index = self.bucket_of[key.selector]
        bucket = self.buckets[size]
        port, _, heard = key.entity.partition(">")
        own, nodes = port.partition("/")[0], bucket.nodes[index]
        if own not in nodes:
            return None
        node, sender = nodes.index(own), heard.partition("/")[0] or own
        receivers = bucket.receivers[index]
        if port not in receivers:
            receivers[port] = node, sum(other == node for other, _ in receivers.values())
            bucket.slots = max(bucket.slots, receivers[port][1] + 1)
        receiver = receivers[port]
        what = key.signal.removeprefix("wire.own_").removeprefix("wire.peer_")
        if sender not in nodes:
            return receiver
        if what in LAG_LAYERS:
            bucket.lags.positions.append((LAG_LAYERS[what], index, *receiver, nodes.index(sender)))
            bucket.lags.series.append(number)
        elif key.signal in PAUSE_LAYERS:
            bucket.pauses.positions.append((PAUSE_LAYERS[key.signal], index, *receiver))
            bucket.pauses.series.append(number)
        elif key.signal == "wire.stage_time":
            bucket.stage.positions.append((index, node))
            bucket.stage.series.append(number)
        elif key.signal in PACE_SIGNALS:
            bucket.pace.positions.append((list(PACE_SIGNALS).index(key.signal), index, *receiver))
            bucket.pace.series.append(number)
        return receiver

    def _forward_to_members(self, number: int, source: int, key: SeriesKey, table: SeriesTable) -> None:
        """Copies a value of an east-west port to each rank on its node, of its group or of any."""
        port = self.topology.port.get(key.entity)
        if port is None or port.network != "east-west":
            return
        for group, member in self._ranks.get(port.node, ()):
            if key.selector not in self.bucket_of or key.selector == group:
                rank = SeriesKey(FORWARDED_SIGNALS[key.signal], "rank", f"{group}:{member}", port.name)
                self.forwarded.append((number, table.number(rank), source))


def _recent_values(cells: _Cells, shape: tuple[int, ...], said: tuple[F64, F64], reach: F64) -> tuple[F64, Mask]:
    """Returns (values of the last `reach` ticks, NaN elsewhere; [group] whether it has a value in this tick).

    Groups lie along axis 1. Slow rounds do not give a value in every tick, nor at every port in the same tick.
    """
    values, ages = cells.table(shape, said[0]), cells.table(shape, said[1])
    within = reach.reshape(1, -1, *[1] * (len(shape) - 2))
    others = tuple(i for i in range(len(shape)) if i != 1)
    new = np.asarray((np.nan_to_num(ages, nan=np.inf) < FRESH_TICKS).any(axis=others))
    return np.where(ages < within, values, np.nan), new


def _group_pace(said: F64, heard: Mask, chained: Mask) -> F64:
    """Returns [signal, group] the pace of each group from its nodes' values, NaN where unknown.

    In a ring, a member that waits for a late one appears to send twice in a round, so there the slowest value counts.
    Where members measured their own rounds (`chained`), an exchange takes as long as for the one that waited least, and
    rounds are as uneven as for the one for which they are least so: some may take a step for two rounds. Of such
    extremes as many are left out as may be lies.

    Args:
        said: [signal, group, node, slot].
        heard: [group, node, slot, sender] whether a receiver hears a sender.
        chained: [group].
    """
    senders = heard.sum(axis=3).max(axis=2)
    is_ring = 2 * (senders == 2).sum(axis=1) > (senders > 0).sum(axis=1)
    ring = is_ring & (heard.any(axis=(1, 2)).sum(axis=1) > 2)
    middle = median_vote(said)
    for signal, low, where in (
        ("wire.port_round_rate", True, ring),
        ("wire.port_round_period", False, ring),
        ("wire.port_exchange_time", True, chained),
        ("wire.port_round_period_cv", True, chained),
    ):
        row = list(PACE_SIGNALS).index(signal)
        by_node = (np.fmin if low else np.fmax).reduce(said[row], axis=2)
        middle[row] = np.where(where, nan_extreme(by_node, low=low), middle[row])
    return middle


def _agrees(said: F64, middle: F64, before: F64) -> Mask:
    """Returns [group, node, slot] whether a receiver's period is about its group's, now or before, as far as known.

    Where a tick has few rounds, one that takes longer may count in this tick at some ports and in the next at others.
    """
    which = list(PACE_SIGNALS).index("wire.port_round_period")
    with np.errstate(invalid="ignore"):
        now, past = (np.abs(np.log(said[which] / period[:, None, None])) for period in (middle[which], before))
        return np.asarray(~((now > np.log(SAME_PERIOD)) & ~(past <= np.log(SAME_PERIOD))))


def _with_open_rounds(recent: F64, newest: F64) -> F64:
    """Returns [pause, 95 % quantile, stopped; group, node, slot] s, with rounds that are still open.

    While a member waits, one that owes the next step has paused ever since; the others' pauses are their last ones, of
    whatever age. Where none waits, or only so few as may lie, silent members are idle. One that may owe it or wait
    counts as stopped where no other one surely owes it.
    """
    pause, high, open_pause, open_wait = recent
    may_wait, may_owe = ~np.isnan(open_wait), ~np.isnan(open_pause)
    is_sure = (may_owe & ~may_wait).any(axis=(1, 2), keepdims=True)
    is_stopped = may_owe & ~(may_wait & is_sure)
    waits = may_wait & ~is_stopped
    tolerated = max_liars((~np.isnan(recent)).any(axis=(0, 3)).sum(axis=1))
    is_stopped &= (waits.any(axis=2).sum(axis=1) > tolerated)[:, None, None]
    stopped = np.where(is_stopped, open_pause, np.where(waits | ~np.isnan(pause), 0.0, np.nan))
    return np.stack(
        (
            np.where(is_stopped, open_pause, np.where(waits, newest[0], pause)),
            np.where(is_stopped, open_pause, np.where(waits, newest[1], high)),
            stopped,
        )
    )


def compare_pauses(pause: F64, high: F64) -> F64:
    """Returns [what, group, member] lag, its 95 % quantile and share of last places, from members' own ports.

    A member is late by how much longer it pauses than the one that pauses least, after as many as may lie. How often it
    is the last one follows from its pause and that of the longest other, each taken as normally distributed around its
    median.

    Args:
        pause: [group, member] median pause before a round, s; NaN where unknown.
        high: [group, member] its 95 % quantile.
    """
    known = (~np.isnan(pause)).sum(axis=1, keepdims=True) >= 2
    least = nan_extreme(pause, low=True)[:, None]
    ordered = np.sort(np.where(np.isnan(pause), -np.inf, pause), axis=1)
    first, second = ordered[:, -1:], ordered[:, -2:-1]
    longest = np.where(pause == first, second, first)
    spread = (high - pause) / NORMAL_P95
    widest = np.fmax.reduce(spread, axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = _normal_cdf((pause - longest) / np.hypot(spread, widest))
        share = np.where(np.isnan(share), 0.5, share)
        share = share / np.maximum(np.sum(share, axis=1, keepdims=True, where=~np.isnan(pause)), 1.0)
    behind = np.where(pause < least, 0.0, pause - least)
    out = np.stack((behind, np.fmax(high - least, behind), np.where(np.isnan(pause), np.nan, share)))
    return np.where(known, out, np.nan)


def _normal_cdf(value: F64) -> F64:
    """Returns the share of a normal distribution below `value` deviations, by the logistic approximation."""
    return np.asarray(1.0 / (1.0 + np.exp(-1.702 * np.clip(value, -30.0, 30.0))))


def _is_slowest_stage(stage: F64) -> Mask:
    """Returns [group, stage] whether a stage takes longest, by more than stages of equal work differ."""
    longest = np.fmax.reduce(stage, axis=1, keepdims=True)
    return np.asarray((stage == longest) & (stage > SLOWEST_FACTOR * nan_median(stage)[:, None]))
