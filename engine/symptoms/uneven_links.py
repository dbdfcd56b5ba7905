"""Parallel links between two switches, and the shares that they carry of what goes between these."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from skewscope.engine.model.arrays import F64, Fills, Index, sort_unique, widen_items
from skewscope.engine.model.finding import SHARES, Finding
from skewscope.engine.model.parameters import BURST_S, HALF, LEAST_PART, RESTART_S, RUN
from skewscope.engine.model.tick import Tick
from skewscope.engine.model.topology import Topology
from skewscope.engine.model.transfer import copy_items, match_places
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.levels import LevelShifts
from skewscope.engine.symptoms.series_detector import CellPlaces, SeriesDetector

UNKNOWN_SPEED = 1.25e9
"""judgement: bytes per second of a port that does not state its speed, 10 Gbit/s."""


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
BUNDLES: Fills = {"_since": np.nan, "_median": np.nan, "_busiest": -1}


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


class UnevenLinks(SeriesDetector):
    """Parallel links between two switches that carry strongly unequal shares for long.

    Of k equal flows hashed onto n links at random, the shares' squared coefficient of variation is (n - 1) / k on
    average (variance of the multinomial distribution). At (n - 1) / n the traffic is spread as if there were fewer
    flows than links. Healthy links of the 100 GbE Clos of cisco-ie/telemetry remain below a fourth of that, its bad
    hash is half as much again above it.
    """

    KEPT: ClassVar[Fills] = {"_mean": np.nan, "_time": np.nan}
    _mean: F64
    _time: F64
    """[path] smoothed rate, and the time of its newest sample."""
    _since: F64
    """[bundle] since when its shares are unequal."""
    _busiest: Index
    """[bundle] cell of the busiest link while its shares are told as unequal, else -1."""
    _median: F64
    """[bundle] of the smoothed rates of its links."""

    def __init__(self, cells: JudgedCells, shifts: LevelShifts, idle_cells: Callable[[], Index]) -> None:
        super().__init__(cells)
        self._shifts, self._idle_cells = shifts, idle_cells
        """The past of all cells; which have lost their traffic, and have no share."""
        self.links = find_parallel_links(cells.topology)
        """The parallel links of each port that has any, by `node/port`."""
        self._bundles: dict[int, BundleKey | None] = {}
        """[cell] the links whose traffic it counts; None for none."""
        self._bundle: Index = np.empty(0, np.intp)
        """[path]"""
        self._members: Index = np.empty((0, 0), np.intp)
        """[bundle, link] paths, -1 where there are no more."""
        self._least = np.empty(0)
        """[bundle] load of the busiest link from which on shares matter, in the signal's unit a second."""
        self._numbers: dict[BundleKey, int] = {}

    def grow(self) -> None:
        """Makes room for new cells; a path whose traffic is counted at its other end as well is judged there."""
        cells = self.cells
        known = {(cells.signals[n].id, cells.places[n].name) for n in range(len(cells))} if self.links else set()
        self._bundles = {n: self._bundle_of(n, known) for n in range(len(cells))} if self.links else {}
        super().grow()

    def judges(self, cell: int) -> bool:
        """Returns whether a cell counts the traffic of a link that has parallel ones."""
        return self._bundles.get(cell) is not None

    def learn_cells(self) -> None:
        """Works out the bundles."""
        keys = [key for key in self._bundles.values() if key is not None]
        for key in keys:
            self._numbers.setdefault(key, len(self._numbers))
        self._bundle = np.array([self._numbers[key] for key in keys], np.intp)
        links: list[list[int]] = [[] for _ in self._numbers]
        for path, number in enumerate(self._bundle.tolist()):
            links[number].append(path)
        widest = max(map(len, links), default=0)
        self._members = np.array([[*own, *[-1] * (widest - len(own))] for own in links], np.intp).reshape(
            len(links), widest
        )
        speeds = [links.speed or UNKNOWN_SPEED for _, links in self._numbers]
        self._least = (2 * LEAST_PART) * np.array(speeds)
        widen_items(self, BUNDLES, len(self._numbers))
        self._busiest[[number for number, own in enumerate(links) if not own]] = -1

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

    def judge(self, tick: Tick) -> None:
        """Takes in the new rates."""
        at, rate, time = self.select(tick.new)
        if not len(at):
            return
        passed = time - self._time[at]
        weight = np.where(np.isnan(self._mean[at]), 1.0, 1 - np.exp(-passed / BURST_S))
        self._mean[at] = np.where(np.isnan(self._mean[at]), 0.0, self._mean[at]) * (1 - weight) + weight * rate
        self._time[at] = time
        now = np.where(np.isin(self.at, self._idle_cells()), np.nan, self.cells.value[self.at])
        mean = np.where(np.isnan(now), np.nan, self._mean)
        self._judge(sort_unique(self._bundle[at]), now, mean, self._shifts.median[self.at])

    def _judge(self, some: Index, now: F64, mean: F64, past: F64) -> None:
        """Finds which of some bundles are unequal; [path] rates now, smoothed ones and those of the past."""
        members = self._members[some]
        rate, smooth, usual = (np.append(values, np.nan)[members] for values in (now, mean, past))
        peak = np.where(np.isnan(rate), 0.0, smooth).max(axis=1)
        carries = rate >= LEAST_PART * peak[:, None]
        used = (carries | (usual >= LEAST_PART * peak[:, None])) & ~np.isnan(smooth)
        links = used.sum(axis=1)
        share = np.where(used, smooth, 0.0)
        mean_share = share.sum(axis=1) / links
        apart = np.where(used, smooth - mean_share[:, None], 0.0)
        variation = (apart**2).sum(axis=1) / links / mean_share**2
        limit = (links - 1) / links
        told = self._busiest[some] >= 0
        limit[told] *= HALF
        # Of two links one that carries nothing has lost its traffic or waits to take over.
        there = (carries.sum(axis=1) >= 2) | (links > 2)
        uneven = there & (variation >= limit) & (peak >= np.where(told, HALF, 1.0) * self._least[some])
        newest = np.fmax.reduce(np.append(self._time, np.nan)[members], axis=1)
        first = uneven & np.isnan(self._since[some])
        self._since[some[first]] = newest[first]
        self._since[some[~uneven]] = np.nan
        self._busiest[some[~uneven]] = -1
        renewal = np.fmax.reduce(np.append(self.cells.renewal[self.at], np.nan)[members], axis=1)
        long = uneven & ~told & (newest - self._since[some] >= np.fmax(RESTART_S, RUN * renewal))
        self._busiest[some[long]] = self.at[members[long, share[long].argmax(axis=1)]]
        self._median[some[uneven]] = np.nanmedian(np.where(used, smooth, np.nan)[uneven], axis=1)

    def find(self) -> Iterator[Finding]:
        """Yields the busiest link of each bundle whose shares are unequal."""
        for number in np.flatnonzero(self._busiest >= 0).tolist():
            cell = int(self._busiest[number])
            value, since = float(self._mean[self._place[cell]]), float(self._since[number])
            yield Finding(*self.cells.subject(cell), SHARES, "uneven", since, value, float(self._median[number]))

    def take_over(self, before: Self, places: CellPlaces) -> None:
        """Goes on with another one's paths and bundles."""
        super().take_over(before, places)
        bundles = match_places(list(before._numbers), list(self._numbers))
        copy_items(self, before, BUNDLES, bundles)
        self._busiest[bundles.now] = places.cells.locate(before._busiest[bundles.before])
