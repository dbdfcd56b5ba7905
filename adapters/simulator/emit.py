"""Telemetry of a world, second by second, as samples of series: periods, phases, counters that wrap, silences."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.simulator import exporters
from skewscope.adapters.simulator.exporters import MUTES, TIMES
from skewscope.adapters.simulator.fleet import GPUS, Fleet
from skewscope.adapters.simulator.push import F64
from skewscope.adapters.simulator.rows import Row, Spread
from skewscope.adapters.simulator.world import World
from skewscope.engine.counters import ranges_of
from skewscope.engine.feed import Block, SeriesKey, SeriesTable
from skewscope.kb.model import Catalogue

BOUNDS = tuple(m * 10.0**e for e in range(-3, 5) for m in (1.0, 2.5, 5.0))
"""Upper bounds of the buckets of histograms."""

Index = NDArray[np.intp]


@dataclass(frozen=True)
class Place:
    """Entities that a row tells of: their names, their nodes, and how to take their values out of an array."""

    kind: str
    names: tuple[str, ...]
    nodes: Index
    """The node whose silence is theirs."""
    take: Callable[[F64], F64]


@dataclass
class _Source:
    """One exporter's series, side by side: gauges, then counters."""

    rows: list[tuple[Callable[[World], F64], Place]]
    order: list[int]
    """In which the rows stand side by side."""
    numbers: NDArray[np.int32]
    nodes: Index
    gauges: int
    """How many of the series are gauges."""
    grain: F64
    """[counters] what one counts in: whole things, or microseconds of a time."""
    wraps: F64
    """[counters] where one begins anew."""
    phase: Index
    period: int
    mute: str
    total: F64
    """[series]"""

    def add(self, world: World) -> None:
        """Takes in what a second made of each series."""
        said = [place.take(np.asarray(value(world), np.float64)) for value, place in self.rows]
        now = np.concatenate([said[n] for n in self.order])
        self.total[: self.gauges] = now[: self.gauges]
        count = self.total[self.gauges :]
        count += np.nan_to_num(now[self.gauges :])
        over = np.flatnonzero(count >= self.wraps)
        count[over] -= self.wraps[over]

    def read(self, chosen: Index) -> F64:
        """What is read of some series, in their order."""
        value = self.total[chosen]
        first = int(np.searchsorted(chosen, self.gauges))
        grain = self.grain[chosen[first:] - self.gauges]
        value[first:] = np.floor(value[first:] / grain) * grain
        return value


class Emitter:
    """Makes the samples of each second."""

    def __init__(
        self,
        fleet: Fleet,
        catalogue: Catalogue,
        table: SeriesTable,
        periods: Mapping[str, float],
        without: Collection[str] = (),
    ) -> None:
        self.fleet = fleet
        self.catalogue = catalogue
        self.table = table
        places = _places(fleet)
        found: dict[str, list[tuple[Row, Place]]] = {}
        for row in exporters.rows(fleet.plan.fabric):
            if row.exporter in without:
                continue
            found.setdefault(row.exporter, []).append((row, places[row.place]))
        self._sources = [self._source(name, pairs, int(periods[name])) for name, pairs in found.items()]
        self._buckets = [
            (make, places[place], self._parts(signal, places[place]))
            for signal, (place, make) in TIMES.items()
            if "engine" not in without
        ]
        self._histogram_period = int(periods["engine"])
        self._taken = [np.zeros((len(BOUNDS) + 3, len(place.names))) for _, place, _ in self._buckets]
        self._second = -1

    def _source(self, name: str, pairs: list[tuple[Row, Place]], period: int) -> _Source:
        counts = [self.catalogue.signals[row.signal].type == "counter" for row, _ in pairs]
        order = sorted(range(len(pairs)), key=counts.__getitem__)
        gauges = sum(len(place.names) for counted, (_, place) in zip(counts, pairs, strict=True) if not counted)
        numbers: list[int] = []
        grain, wraps = [np.empty(0)], [np.empty(0)]
        for row, place in (pairs[n] for n in order):
            keys = (SeriesKey(row.signal, place.kind, one, row.selector) for one in place.names)
            numbers += [self.table.number(key) for key in keys]
            signal, many = self.catalogue.signals[row.signal], len(place.names)
            if signal.type == "counter":
                grain.append(np.full(many, 1e-6 if signal.unit == "s" else 1.0))
                wraps.append(np.full(many, min((size for size, _ in ranges_of(signal)), default=np.inf)))
        at = np.concatenate([pairs[n][1].nodes for n in order])
        # Not all nodes are read in the same second.
        phase = (at * 7) % period
        total = np.zeros(len(at))
        total[gauges:] = 1000.0
        return _Source(
            [(row.value, place) for row, place in pairs],
            order,
            np.array(numbers, np.int32),
            at,
            gauges,
            np.concatenate(grain),
            np.concatenate(wraps),
            phase,
            period,
            MUTES[name],
            total,
        )

    def _parts(self, signal: str, place: Place) -> NDArray[np.int32]:
        parts = [*(f"bucket:{bound:g}" for bound in BOUNDS), "bucket:+Inf", "count", "sum"]
        keys = [
            [self.table.number(SeriesKey(signal, place.kind, name, part)) for name in place.names] for part in parts
        ]
        return np.array(keys, np.int32)

    def block(self, world: World, start: float) -> Block:
        """The samples of the world's last second, which ended `world.t` seconds after `start`."""
        self._second += 1
        parts = [*self._plain(world), *self._histograms(world)]
        series = np.concatenate([numbers for numbers, _ in parts])
        values = np.concatenate([values for _, values in parts])
        told = ~np.isnan(values)
        return Block(np.full(int(told.sum()), start + world.t), series[told], values[told])

    def _plain(self, world: World) -> Iterator[tuple[NDArray[np.int32], F64]]:
        for source in self._sources:
            source.add(world)
            chosen = (self._second % source.period) == source.phase
            if source.mute:
                mute = getattr(world.push, source.mute)[source.nodes] > 0
                chosen &= ~mute
                if source.mute == MUTES["engine"]:
                    source.total[mute] = 0.0  # an engine is silent while it restarts
                    chosen &= world.push.mute_page[source.nodes] <= 0
            at = np.flatnonzero(chosen)
            yield source.numbers[at], source.read(at)

    def _histograms(self, world: World) -> Iterator[tuple[NDArray[np.int32], F64]]:
        mute, unread = world.push.mute_engine, world.push.mute_page
        for n, (make, place, numbers) in enumerate(self._buckets):
            self._taken[n] += _observed(make(world), place)
            self._taken[n][:, mute[place.nodes] > 0] = 0.0
            if self._second % self._histogram_period == 0:
                chosen = np.flatnonzero((mute[place.nodes] <= 0) & (unread[place.nodes] <= 0))
                told = self._taken[n][:, chosen]
                # Observations are counted in whole ones; their sum is not.
                told = np.vstack([np.floor(told[:-1]), told[-1:]])
                yield numbers[:, chosen].ravel(), told.ravel()


def _observed(spread: Spread, place: Place) -> F64:
    """What a second adds to the buckets, the count and the sum of each entity."""
    count, median = place.take(spread.count), np.maximum(place.take(spread.median), 1e-9)
    away = (np.log(np.array(BOUNDS))[:, None] - np.log(median)[None, :]) / spread.sigma
    # A logistic curve is close enough to the normal one and needs no table.
    share = 1 / (1 + np.exp(-np.clip(1.702 * away, -60, 60)))
    mean = median * np.exp(spread.sigma**2 / 2)
    found = np.vstack([share * count, count[None, :], count[None, :], (mean * count)[None, :]])
    return found + _observed(spread.beside, place) if spread.beside else found


# --- places


def _places(fleet: Fleet) -> dict[str, Place]:
    names = [node.name for node in fleet.topology.nodes]
    nodes = np.arange(len(names))
    fronts = np.array([job.nodes[0] for n, job in enumerate(fleet.jobs) if fleet.serving[n]], np.intp)
    staged = np.array([n for job in fleet.jobs if fleet.pipelines[fleet.jobs.index(job)] for n in job.nodes], np.intp)
    every = range(fleet.ports)
    return {
        "gpu": Place(
            "gpu", tuple(f"{name}/gpu{g}" for name in names for g in range(GPUS)), nodes.repeat(GPUS), np.ravel
        ),
        "node": Place("node", tuple(names), nodes, _as_is),
        "front": Place("node", tuple(names[n] for n in fronts), fronts, lambda x: x[fronts]),
        "port": _ports(fleet, nodes, every, np.ravel),
        "rail": _ports(fleet, nodes, every[1:], np.ravel),
        "ns": _ports(fleet, nodes, every[:1], np.ravel),
        "stage": _ports(fleet, staged, every[1:], lambda x: x[staged].ravel()),
        **_of_jobs(fleet),
    }


def _as_is(x: F64) -> F64:
    return x


def _ports(fleet: Fleet, nodes: Index, ports: range, take: Callable[[F64], F64]) -> Place:
    names = tuple(fleet.port(int(n), p) for n in nodes for p in ports)
    return Place("port", names, np.repeat(nodes, len(ports)), take)


def _of_jobs(fleet: Fleet) -> dict[str, Place]:
    there, jobs = fleet.there, fleet.jobs
    first = np.array([job.nodes[0] for job in jobs], np.intp)
    ranks = tuple(f"{job.name}:{fleet.topology.nodes[n].name}" for job in jobs for n in job.nodes)
    serving = np.flatnonzero(fleet.serving)
    apart = np.array(fleet.of("pd"), np.intp)
    pools = fleet.topology.pools
    number = {job.name: n for n, job in enumerate(jobs)}
    members = [np.array([number[name] for name in pool.replicas]) for pool in pools]
    heads = np.array([first[one[0]] for one in members], np.intp)
    return {
        "rank": Place("rank", ranks, fleet.members[there], lambda x: x[there]),
        "group": Place("group", tuple(job.name for job in jobs), first, _as_is),
        "replica": Place("replica", tuple(jobs[n].name for n in serving), first[serving], lambda x: x[serving]),
        "pd": Place("replica", tuple(jobs[n].name for n in apart), first[apart], lambda x: x[apart]),
        "pool": Place(
            "pool", tuple(pool.name for pool in pools), heads, lambda x: np.array([x[one].sum() for one in members])
        ),
    }
