"""Emits the telemetry of a simulation, second by second: periods, phases, counters that wrap, silences."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.simulator import exporters
from skewscope.adapters.simulator.exporters import ENGINE_HISTOGRAMS, MUTE_FIELDS
from skewscope.adapters.simulator.fleet import GPUS_PER_NODE, SimulatedFleet
from skewscope.adapters.simulator.metric_spec import Distribution, MetricSpec
from skewscope.adapters.simulator.simulation import FleetSimulation
from skewscope.engine.ingest.counters import ranges_of
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.arrays import F64, Index
from skewscope.kb.model import Catalogue

BUCKET_BOUNDS = tuple(m * 10.0**e for e in range(-3, 5) for m in (1.0, 2.5, 5.0))
"""Upper bounds of histogram buckets."""


@dataclass(frozen=True)
class EntityScope:
    """Entities of a metric: their names, their nodes, and the selection of their values from an array."""

    kind: str
    names: tuple[str, ...]
    nodes: Index
    """[entity] the node whose silence makes them silent."""
    take: Callable[[F64], F64]


@dataclass
class _ExporterSeries:
    """The series of one exporter, contiguous: gauges, then counters."""

    rows: list[tuple[Callable[[FleetSimulation], F64], EntityScope]]
    order: list[int]
    """Order of the metrics in the arrays."""
    numbers: NDArray[np.int32]
    nodes: Index
    gauges: int
    """Number of series that are gauges."""
    resolution: F64
    """[counter] float64 unit of the counter: integers, or microseconds of a time."""
    wrap_at: F64
    """[counter] float64 value at which it wraps."""
    phase: Index
    period: int
    mute: str
    totals: F64
    """[series] float64 values or running totals."""

    def advance(self, simulation: FleetSimulation) -> None:
        """Adds the increments of one second."""
        said = [place.take(np.asarray(value(simulation), np.float64)) for value, place in self.rows]
        now = np.concatenate([said[n] for n in self.order])
        self.totals[: self.gauges] = now[: self.gauges]
        count = self.totals[self.gauges :]
        count += np.nan_to_num(now[self.gauges :])
        over = np.flatnonzero(count >= self.wrap_at)
        count[over] -= self.wrap_at[over]

    def read(self, chosen: Index) -> F64:
        """Returns [chosen] float64 exported values of some series."""
        value = self.totals[chosen]
        first = int(np.searchsorted(chosen, self.gauges))
        grain = self.resolution[chosen[first:] - self.gauges]
        value[first:] = np.floor(value[first:] / grain) * grain
        return value


class SampleEmitter:
    """Emits the samples of each second."""

    def __init__(
        self,
        fleet: SimulatedFleet,
        catalogue: Catalogue,
        table: SeriesTable,
        periods: Mapping[str, float],
        without: Collection[str] = (),
    ) -> None:
        self.fleet = fleet
        self.catalogue = catalogue
        self.table = table
        places = _entity_scopes(fleet)
        found: dict[str, list[tuple[MetricSpec, EntityScope]]] = {}
        for row in exporters.metric_specs(fleet.plan.fabric):
            if row.exporter in without:
                continue
            found.setdefault(row.exporter, []).append((row, places[row.scope]))
        self._exporters = [self._build_exporter(name, pairs, int(periods[name])) for name, pairs in found.items()]
        self._buckets = [
            (make, places[place], self._histogram_series(signal, places[place]))
            for signal, (place, make) in ENGINE_HISTOGRAMS.items()
            if "engine" not in without
        ]
        self._histogram_period = int(periods["engine"])
        self._histogram_totals = [np.zeros((len(BUCKET_BOUNDS) + 3, len(place.names))) for _, place, _ in self._buckets]
        self._second = -1

    def _build_exporter(self, name: str, pairs: list[tuple[MetricSpec, EntityScope]], period: int) -> _ExporterSeries:
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
        # Nodes are read in different seconds.
        phase = (at * 7) % period
        total = np.zeros(len(at))
        total[gauges:] = 1000.0
        return _ExporterSeries(
            [(row.value, place) for row, place in pairs],
            order,
            np.array(numbers, np.int32),
            at,
            gauges,
            np.concatenate(grain),
            np.concatenate(wraps),
            phase,
            period,
            MUTE_FIELDS[name],
            total,
        )

    def _histogram_series(self, signal: str, place: EntityScope) -> NDArray[np.int32]:
        parts = [*(f"bucket:{bound:g}" for bound in BUCKET_BOUNDS), "bucket:+Inf", "count", "sum"]
        keys = [
            [self.table.number(SeriesKey(signal, place.kind, name, part)) for name in place.names] for part in parts
        ]
        return np.array(keys, np.int32)

    def block(self, simulation: FleetSimulation, start: float) -> Block:
        """Returns the samples of the last second, which ended `simulation.t` seconds after `start`."""
        self._second += 1
        parts = [*self._emit_plain(simulation), *self._emit_histograms(simulation)]
        series = np.concatenate([numbers for numbers, _ in parts])
        values = np.concatenate([values for _, values in parts])
        reported = ~np.isnan(values)
        return Block(np.full(int(reported.sum()), start + simulation.t), series[reported], values[reported])

    def _emit_plain(self, simulation: FleetSimulation) -> Iterator[tuple[NDArray[np.int32], F64]]:
        for source in self._exporters:
            source.advance(simulation)
            chosen = (self._second % source.period) == source.phase
            if source.mute:
                mute = getattr(simulation.effects, source.mute)[source.nodes] > 0
                chosen &= ~mute
                if source.mute == MUTE_FIELDS["engine"]:
                    source.totals[mute] = 0.0  # An engine is silent while it restarts.
                    chosen &= simulation.effects.mute_page[source.nodes] <= 0
            at = np.flatnonzero(chosen)
            yield source.numbers[at], source.read(at)

    def _emit_histograms(self, simulation: FleetSimulation) -> Iterator[tuple[NDArray[np.int32], F64]]:
        mute, unread = simulation.effects.mute_engine, simulation.effects.mute_page
        for n, (make, place, numbers) in enumerate(self._buckets):
            self._histogram_totals[n] += _histogram_increment(make(simulation), place)
            self._histogram_totals[n][:, mute[place.nodes] > 0] = 0.0
            if self._second % self._histogram_period == 0:
                chosen = np.flatnonzero((mute[place.nodes] <= 0) & (unread[place.nodes] <= 0))
                reported = self._histogram_totals[n][:, chosen]
                # Observations are counted as integers; their sum is not.
                reported = np.vstack([np.floor(reported[:-1]), reported[-1:]])
                yield numbers[:, chosen].ravel(), reported.ravel()


def _histogram_increment(spread: Distribution, place: EntityScope) -> F64:
    """Returns [bucket..., +Inf, count, sum][entity] increments of a histogram."""
    count, median = place.take(spread.count), np.maximum(place.take(spread.median), 1e-9)
    away = (np.log(np.array(BUCKET_BOUNDS))[:, None] - np.log(median)[None, :]) / spread.sigma
    # A logistic curve approximates the normal one well enough, without a table.
    share = 1 / (1 + np.exp(-np.clip(1.702 * away, -60, 60)))
    mean = median * np.exp(spread.sigma**2 / 2)
    found = np.vstack([share * count, count[None, :], count[None, :], (mean * count)[None, :]])
    return found + _histogram_increment(spread.mixed_with, place) if spread.mixed_with else found


# --- scopes


def _entity_scopes(fleet: SimulatedFleet) -> dict[str, EntityScope]:
    names = [node.name for node in fleet.topology.nodes]
    nodes = np.arange(len(names))
    fronts = np.array([job.nodes[0] for n, job in enumerate(fleet.jobs) if fleet.is_serving[n]], np.intp)
    staged = np.array([n for job in fleet.jobs if fleet.is_pipeline[fleet.jobs.index(job)] for n in job.nodes], np.intp)
    every = range(fleet.ports)
    return {
        "gpu": EntityScope(
            "gpu",
            tuple(f"{name}/gpu{g}" for name in names for g in range(GPUS_PER_NODE)),
            nodes.repeat(GPUS_PER_NODE),
            np.ravel,
        ),
        "node": EntityScope("node", tuple(names), nodes, _identity),
        "front": EntityScope("node", tuple(names[n] for n in fronts), fronts, lambda x: x[fronts]),
        "port": _port_scope(fleet, nodes, every, np.ravel),
        "rail": _port_scope(fleet, nodes, every[1:], np.ravel),
        "ns": _port_scope(fleet, nodes, every[:1], np.ravel),
        "stage": _port_scope(fleet, staged, every[1:], lambda x: x[staged].ravel()),
        **_job_scopes(fleet),
    }


def _identity(x: F64) -> F64:
    return x


def _port_scope(fleet: SimulatedFleet, nodes: Index, ports: range, take: Callable[[F64], F64]) -> EntityScope:
    names = tuple(fleet.port_name(int(n), p) for n in nodes for p in ports)
    return EntityScope("port", names, np.repeat(nodes, len(ports)), take)


def _job_scopes(fleet: SimulatedFleet) -> dict[str, EntityScope]:
    there, jobs = fleet.is_member, fleet.jobs
    first = np.array([job.nodes[0] for job in jobs], np.intp)
    ranks = tuple(f"{job.name}:{fleet.topology.nodes[n].name}" for job in jobs for n in job.nodes)
    serving = np.flatnonzero(fleet.is_serving)
    apart = np.array(fleet.jobs_of_kind("pd"), np.intp)
    pools = fleet.topology.pools
    number = {job.name: n for n, job in enumerate(jobs)}
    members = [np.array([number[name] for name in pool.replicas]) for pool in pools]
    heads = np.array([first[one[0]] for one in members], np.intp)
    return {
        "rank": EntityScope("rank", ranks, fleet.members[there], lambda x: x[there]),
        "group": EntityScope("group", tuple(job.name for job in jobs), first, _identity),
        "replica": EntityScope("replica", tuple(jobs[n].name for n in serving), first[serving], lambda x: x[serving]),
        "pd": EntityScope("replica", tuple(jobs[n].name for n in apart), first[apart], lambda x: x[apart]),
        "pool": EntityScope(
            "pool", tuple(pool.name for pool in pools), heads, lambda x: np.array([x[one].sum() for one in members])
        ),
    }
