"""Shares of what is divided among equals: traffic of sibling ports and parallel links, requests of replicas.

Traffic follows load, so no port is judged by its own past alone: its traffic over that of its own past is compared with
the same ratio of the other ports of its node in the same network.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, Index, Mask, sort_unique, widen
from skewscope.engine.model.entities import build_sets
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.topology import Topology
from skewscope.engine.symptoms.cells import LESS, PEERS, SHARES, ZERO, Deviation, JudgedCells
from skewscope.engine.symptoms.levels import MIN_PAST, LevelShifts
from skewscope.engine.symptoms.peer_ratios import row_median
from skewscope.engine.symptoms.samples import NewSamples

LOST = 0.2
"""A port that carries less than this part of what its siblings' common change lets expect has lost its traffic."""
LITTLE = 0.4
"""A port that carries less than this part of it, and its parallel links together too, has lost most of it..."""
LITTLE_RUN = 6
MIN_LITTLE_S = 60.0
"""...after so many samples and seconds: in the Clos recordings of cisco-ie/telemetry no healthy port does."""
LITTLE_BACK = 0.6
SIBLINGS_HOLD = 0.5
"""Siblings must carry at least this part of their own past: otherwise the load has fallen."""
SIGNIFICANT = 0.2
"""A port counts if its past traffic is at least this part of the median of its siblings' past."""
IDLE_RUN = 3
IDLE_BACK = 0.5


@dataclass
class IdlePaths:
    """Cells of traffic counters that lost their share."""

    cells: JudgedCells
    at: Index = field(default_factory=lambda: np.empty(0, np.intp))

    def __post_init__(self) -> None:
        self._place: Index = np.empty(0, np.intp)
        self._set: Index = np.empty(0, np.intp)
        """[path] number of its set of siblings, or -1."""
        self._run: Index = np.empty(0, np.intp)
        self._since, self._before, self._little_since = (np.empty(0) for _ in range(3))
        self._is_idle, self._is_little = np.empty(0, bool), np.empty(0, bool)
        self._little: Index = np.empty(0, np.intp)
        """[path] samples in a row with little traffic."""
        self._bundle: Index = np.empty(0, np.intp)
        """[path] number of its parallel links."""
        topology = self.cells.topology
        self._links = {name: topology.links_of(name) for name in topology.port}
        self._floor = np.empty(0)

    def grow(self) -> None:
        """Makes room for new cells."""
        cells = self.cells
        judged = [cells.judgement(cell) for cell in range(len(cells))]
        at = [n for n, one in enumerate(judged) if one.role == "share" and one.bad in ("down", "both")]
        self.at = np.array(at, np.intp)
        self._place = np.full(len(cells), -1, np.intp)
        self._place[self.at] = np.arange(len(at))
        self._floor = np.array([judged[n].floor for n in at])
        fill = {"_run": 0, "_little": 0, "_is_idle": False, "_is_little": False}
        for name in (*fill, "_since", "_before", "_little_since"):
            setattr(self, name, widen(getattr(self, name), len(at), fill.get(name, np.nan)))
        numbers: dict[tuple[str, str, str], int] = {}
        keys = [
            (cells.signals[n].id, cells.selectors[n], self._links.get(cells.places[n].name, cells.places[n].name))
            for n in at
        ]
        self._bundle = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.intp)
        set_of = {int(c): int(s) for c, s in zip(cells.pair_cell, cells.pair_set, strict=True)}
        self._set = np.array([set_of.get(n, -1) for n in at], np.intp)
        members: dict[int, list[int]] = {}
        for place, number in enumerate(self._set.tolist()):
            if number >= 0:
                members.setdefault(number, []).append(place)
        self._siblings = build_sets(members, len(cells.set_sizes))

    def step(self, new: NewSamples, shifts: LevelShifts) -> None:
        """Takes in the new rates; `shifts` has the past of all cells."""
        place = self._place[new.cells]
        mine = place[place >= 0]
        mine = mine[self._set[mine] >= 0]
        if not len(mine):
            return
        past = np.where(shifts.count[self.at] >= MIN_PAST, shifts.median[self.at], np.nan)
        past = np.where(self._is_idle | self._is_little, self._before, past)
        active = past > np.maximum(self._floor, 0.0)
        ratio = np.where(active, self.cells.value[self.at] / past, np.nan)
        common = self._reduced(ratio)[mine]
        usual = self._reduced(np.where(active, past, np.nan))[mine]
        expected = active[mine] & (common >= SIBLINGS_HOLD) & (past[mine] >= SIGNIFICANT * usual)
        # Where traffic grows, a port that carries as much as before has lost nothing.
        wanted = np.minimum(common, 1.0)
        lost = expected & (ratio[mine] < LOST * wanted)
        back = ratio[mine] >= IDLE_BACK * wanted
        time = new.time[place >= 0][self._set[place[place >= 0]] >= 0]
        self._begin(mine, time, lost, past)
        ended = mine[self._is_idle[mine] & back]
        self._is_idle[ended], self._run[ended], self._since[ended] = False, 0, np.nan
        # Flows that were placed anew move between parallel links, and none is lost.
        share = np.where(active, self.cells.value[self.at], 0.0)
        carried, before = (np.bincount(self._bundle, np.nan_to_num(one)) for one in (share, past * active))
        part = np.fmax(ratio, (carried / before)[self._bundle])[mine]
        self._find_little(mine, time, expected & (part < LITTLE * wanted), past)
        self._is_little[mine[part >= LITTLE_BACK * wanted]] = False

    def _find_little(self, at: Index, time: F64, little: Mask, past: F64) -> None:
        first = little & (self._little[at] == 0)
        self._little_since[at[first]] = time[first]
        self._little[at] = np.where(little, self._little[at] + 1, 0)
        long = (self._little[at] >= LITTLE_RUN) & (time - self._little_since[at] >= MIN_LITTLE_S)
        begun = at[long & ~self._is_little[at] & ~self._is_idle[at]]
        self._is_little[begun], self._before[begun] = True, past[begun]

    def _begin(self, at: Index, time: F64, lost: Mask, past: F64) -> None:
        first = lost & (self._run[at] == 0)
        self._since[at[first]] = time[first]
        self._run[at] = np.where(lost, self._run[at] + 1, np.where(self._is_idle[at], self._run[at], 0))
        begun = at[(self._run[at] >= IDLE_RUN) & ~self._is_idle[at]]
        self._is_idle[begun], self._before[begun] = True, past[begun]

    def _reduced(self, values: F64) -> F64:
        found = self._siblings.reduce(values, row_median)
        return found[np.maximum(self._set, 0)]

    def idle_cells(self) -> Index:
        """Returns the cells that lost their traffic."""
        return self.at[self._is_idle]

    def deviations(self) -> Iterator[Deviation]:
        """Yields the ports that lost their traffic, or most of it."""
        for n in np.flatnonzero(self._is_idle | self._is_little).tolist():
            cell, is_idle = int(self.at[n]), bool(self._is_idle[n])
            signal, place, value = self.cells.signals[cell], self.cells.places[cell], float(self.cells.value[cell])
            form, since = (ZERO, self._since[n]) if is_idle else (LESS, self._little_since[n])
            yield Deviation(signal, place, form, "down", float(since), value, float(self._before[n]))


SMOOTHING_S = 30.0
"""Time constant of the rates whose shares are compared: one flow for a moment is no share."""
MIN_UNEVEN_S = 60.0
"""Shares must be unequal for so long: the placement of new flows evens out by itself."""
MIN_RENEWALS = 4
"""...and for so many renewals of the counters."""
CARRIES = 0.02
"""A link is in use that carries, or carried in its past, this part of what the busiest one does."""
LEAST_LOAD = 0.1
"""Judgement: a link that is used less than this delays nothing, whatever its share."""
UNKNOWN_SPEED = 1.25e9
"""Bytes per second of a port that does not state its speed: 10 Gbit/s."""
BACK = 0.5
"""Shares are even again when limits times this hold."""


@dataclass(frozen=True, slots=True)
class ParallelLinks:
    """What parallel links have in common."""

    node: str
    peer: str
    """The node at the other end."""
    network: str
    speed: float | None
    """Bytes per second of each."""


BundleKey = tuple[str, ParallelLinks]
"""Signal and links."""


def find_parallel_links(topology: Topology) -> Mapping[str, ParallelLinks]:
    """Returns, by `node/port`, the links of each port that has parallel ones between the same two switches.

    Links of hosts are none of these: a host sends through the adapter that is next to the GPU, and not by a hash.
    """
    hosts = {node.name for node in topology.nodes if node.gpus} | set(topology.node_of.values())
    hosts |= {group.front_end.split("/", 1)[0] for group in topology.groups}
    ports: dict[ParallelLinks, list[str]] = {}
    for name, port in topology.port.items():
        peer = port.peer_node
        if peer and not {port.node, peer} & hosts:
            ports.setdefault(ParallelLinks(port.node, peer, port.network, port.speed), []).append(name)
    return {name: links for links, names in ports.items() if len(names) > 1 for name in names}


@dataclass
class UnevenLinks:
    """Parallel links between two switches that carry strongly unequal shares for long.

    Of k equal flows hashed onto n links at random, the shares' squared coefficient of variation is (n - 1) / k on
    average (variance of the multinomial distribution). At (n - 1) / n the traffic is spread as if there were fewer
    flows than links. Healthy links of the 100 GbE Clos of cisco-ie/telemetry remain below a fourth of that, its bad
    hash is half as much again above it.
    """

    cells: JudgedCells
    links: Mapping[str, ParallelLinks]
    """The parallel links of each port that has any, by `node/port`."""
    at: Index = field(default_factory=lambda: np.empty(0, np.intp))
    """[path] the cell of each port that is part of a bundle."""

    def __post_init__(self) -> None:
        self._place: Index = np.empty(0, np.intp)
        """[cell] path, or -1."""
        self._bundle: Index = np.empty(0, np.intp)
        """[path]"""
        self._members: Index = np.empty((0, 0), np.intp)
        """[bundle, link] paths, -1 where there are no more."""
        self._least = np.empty(0)
        """[bundle] load of the busiest link from which on shares matter, in the signal's unit a second."""
        self._mean, self._time = np.empty(0), np.empty(0)
        """[path] smoothed rate, and the time of its newest sample."""
        self._numbers: dict[BundleKey, int] = {}
        self._since = np.empty(0)
        """[bundle] since when its shares are unequal."""
        self._busiest: Index = np.empty(0, np.intp)
        """[bundle] cell of the busiest link while its shares are told as unequal, else -1."""
        self._median = np.empty(0)
        """[bundle] of the smoothed rates of its links."""

    def grow(self) -> None:
        """Makes room for new cells."""
        cells, old = self.cells, {int(cell): n for n, cell in enumerate(self.at)}
        known = {(cells.signals[n].id, cells.places[n].name) for n in range(len(cells))}
        keys = {n: self._bundle_of(n, known) for n in range(len(cells))}
        bundle_of = {n: key for n, key in keys.items() if key is not None}
        for key in bundle_of.values():
            self._numbers.setdefault(key, len(self._numbers))
        self.at = np.array(list(bundle_of), np.intp)
        self._bundle = np.array([self._numbers[key] for key in bundle_of.values()], np.intp)
        self._place = np.full(len(cells), -1, np.intp)
        self._place[self.at] = np.arange(len(self.at))
        before = np.array([old.get(int(cell), -1) for cell in self.at], np.intp)
        self._mean, self._time = (
            np.where(before >= 0, np.append(values, np.nan)[before], np.nan) for values in (self._mean, self._time)
        )
        links: list[list[int]] = [[] for _ in self._numbers]
        for path, number in enumerate(self._bundle.tolist()):
            links[number].append(path)
        widest = max(map(len, links), default=0)
        self._members = np.array([[*own, *[-1] * (widest - len(own))] for own in links], np.intp).reshape(
            len(links), widest
        )
        speeds = [links.speed or UNKNOWN_SPEED for _, links in self._numbers]
        self._least = LEAST_LOAD * np.array(speeds)
        more = len(self._numbers) - len(self._since)
        self._since = np.concatenate((self._since, np.full(more, np.nan)))
        self._busiest = np.concatenate((self._busiest, np.full(more, -1, np.intp)))
        self._busiest[[number for number, own in enumerate(links) if not own]] = -1
        self._median = np.concatenate((self._median, np.full(more, np.nan)))

    def _bundle_of(self, cell: int, known: Collection[tuple[str, str]]) -> BundleKey | None:
        """Returns the bundle whose traffic a cell counts.

        What a port receives is what its peer sends, and is judged there where that is `known`.
        """
        signal, place = self.cells.signals[cell], self.cells.places[cell]
        links = self.links.get(place.name) if place.kind == "port" else None
        if links is None or signal.unit != "By" or self.cells.selectors[cell]:
            return None
        sent = signal.id.replace("rx_", "tx_")
        judged_there = sent != signal.id and (sent, self.cells.topology.port[place.name].peer) in known
        return None if judged_there or self.cells.judgement(cell).role != "share" else (signal.id, links)

    def step(self, new: NewSamples, past: F64, idle: Index) -> None:
        """Takes in the new rates.

        Args:
            new: the new samples.
            past: [cell] usual rates.
            idle: cells that are told as having lost their traffic, which have no share.
        """
        path = self._place[new.cells]
        some = path >= 0
        at, rate, time = path[some], new.value[some], new.time[some]
        if not len(at):
            return
        passed = time - self._time[at]
        weight = np.where(np.isnan(self._mean[at]), 1.0, 1 - np.exp(-passed / SMOOTHING_S))
        self._mean[at] = np.where(np.isnan(self._mean[at]), 0.0, self._mean[at]) * (1 - weight) + weight * rate
        self._time[at] = time
        now = np.where(np.isin(self.at, idle), np.nan, self.cells.value[self.at])
        mean = np.where(np.isnan(now), np.nan, self._mean)
        self._judge(sort_unique(self._bundle[at]), now, mean, past[self.at])

    def _judge(self, some: Index, now: F64, mean: F64, past: F64) -> None:
        """Finds which of some bundles are unequal; [path] rates now, smoothed ones and those of the past."""
        members = self._members[some]
        rate, smooth, usual = (np.append(values, np.nan)[members] for values in (now, mean, past))
        peak = np.where(np.isnan(rate), 0.0, smooth).max(axis=1)
        carries = rate >= CARRIES * peak[:, None]
        used = (carries | (usual >= CARRIES * peak[:, None])) & ~np.isnan(smooth)
        links = used.sum(axis=1)
        share = np.where(used, smooth, 0.0)
        mean_share = share.sum(axis=1) / links
        apart = np.where(used, smooth - mean_share[:, None], 0.0)
        variation = (apart**2).sum(axis=1) / links / mean_share**2
        limit = (links - 1) / links
        told = self._busiest[some] >= 0
        limit[told] *= BACK
        # Of two links one that carries nothing has lost its traffic or waits to take over.
        there = (carries.sum(axis=1) >= 2) | (links > 2)
        uneven = there & (variation >= limit) & (peak >= np.where(told, BACK, 1.0) * self._least[some])
        newest = np.fmax.reduce(np.append(self._time, np.nan)[members], axis=1)
        first = uneven & np.isnan(self._since[some])
        self._since[some[first]] = newest[first]
        self._since[some[~uneven]] = np.nan
        self._busiest[some[~uneven]] = -1
        renewal = np.fmax.reduce(np.append(self.cells.renewal[self.at], np.nan)[members], axis=1)
        long = uneven & ~told & (newest - self._since[some] >= np.fmax(MIN_UNEVEN_S, MIN_RENEWALS * renewal))
        self._busiest[some[long]] = self.at[members[long, share[long].argmax(axis=1)]]
        self._median[some[uneven]] = np.nanmedian(np.where(used, smooth, np.nan)[uneven], axis=1)

    def deviations(self) -> Iterator[Deviation]:
        """Yields the busiest link of each bundle whose shares are unequal."""
        for number in np.flatnonzero(self._busiest >= 0).tolist():
            cell = int(self._busiest[number])
            value, since = float(self._mean[self._place[cell]]), float(self._since[number])
            signal, place = self.cells.signals[cell], self.cells.places[cell]
            yield Deviation(signal, place, SHARES, "uneven", since, value, float(self._median[number]))


MORE, NONE = 6.0, 1 / 50
"""Odds that are tested against the usual ones: many times the requests of another replica, and next to none. One with
2.4 times its usual odds is found in the end, one with twice as many is not."""
LEAST_EVIDENCE, MOST_EVIDENCE = 10.0, 16.0
"""Log-likelihood ratio of unequal shares, at low and at high rates. Random arrivals at two replicas of 1.5 requests a
second each reached 10 by chance nine times in 150 hours; at ten a second in all none did so (simulated)."""
EVIDENCE_S, MAX_GAIN = 11.0, 4.0
"""Between the two: as much as MORE yields in so many seconds; no more of one sample, for a client may send a burst."""
EXCESS, UNSURE, LEAD = 4.0, 4.0, 0.5
"""Evidence kept beyond the highest threshold of a board, so that a symptom ends soon; that of one without requests over
one with many; and by how much more it is kept, so that it wins where both are."""
AGAIN = 0.5
"""Part of all evidence that is left when a replica without requests gets some again (judgement)."""
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
        self._total, self._time, self._rate = (widen(old, size) for old in (self._total, self._time, self._rate))
        self._weight = widen(self._weight, size, 1.0)
        self._evidence, self._told = widen(self._evidence, size, 0.0), widen(self._told, size, False)
        self._since, self._crossed = widen(self._since, size), widen(self._crossed, size)
        self._pool_rate = widen(self._pool_rate, len(self._boards))
        self._dispersion = widen(self._dispersion, len(self._boards), 1.0)
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
        here, total = sort_unique(board), all_[board]
        seconds = (np.bincount(board, weights=passed, minlength=boards) / self._board_size)[here]
        self._pool_rate[here] = _moved(self._pool_rate[here], all_[here] / seconds, seconds / RATE_S)
        self._rate[at] = _moved(self._rate[at], count / passed, passed / RECENT_S)
        limit, odds = _limits(usual, self._pool_rate[board]), np.array([[MORE], [NONE]])
        share = _share(odds, usual)
        gain = count * np.log(share / usual) + (total - count) * np.log((1 - share) / (1 - usual))
        top = np.full(boards, MAX_GAIN)
        np.maximum.at(top, board, gain.max(axis=0))
        gain *= (MAX_GAIN / top / np.maximum(self._dispersion, 1.0))[board]
        # One bound for all of a board: what is compared must not depend on the usual share of each.
        most = np.zeros(boards)
        np.maximum.at(most, board, limit)
        old, kept = self._evidence[:, at], most[board] + EXCESS + np.array([[0.0], [UNSURE + LEAD]])
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
        again: set[int] = set()
        for row, n in np.argwhere(self._told & (weight == top[0, self._board])).tolist():
            board = int(self._board[n])
            if shown.get(board, (0, n))[0] > row:
                again.add(board)
            elif shown.get(board) == (row, n) or sure[row, n]:
                self._shown.setdefault(board, (row, n))
        # One that had none gets requests again: what the other one got meanwhile says nothing of now.
        members = np.isin(self._board, sorted(again))
        self._evidence[:, members] *= AGAIN
        self._told[:, members] = False

    def deviations(self) -> Iterator[Deviation]:
        """Yields the replicas that get too many requests, or none."""
        names = [name for _, _, name in self._members]
        signals = [name for name, _ in self._boards]
        for board, (row, n) in self._shown.items():
            others = float(np.median(self._rate[(self._board == board) & (np.arange(len(names)) != n)]))
            signal, since = self.cells.state.signals[signals[board]], float(self._since[row, n])
            direction = ("up", "down")[row]
            yield Deviation(signal, Entity("replica", names[n]), PEERS, direction, since, float(self._rate[n]), others)


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
