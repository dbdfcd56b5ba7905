"""Telemetry that is no longer delivered: an exporter, a node or a GPU that falls silent while others like it go on.

Samples that are taken by the clock (`CLOCKED`) are due after their usual interval. Where those of one place have not
come for several times as long while those of other places have, the place is silent. What falls silent everywhere says
something of the collector, and what comes once a step or a request says something of the work: neither is judged here.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import numpy as np

from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.arrays import F64, Fills, Index, Mask, sort_unique, widen_items
from skewscope.engine.model.finding import PAST, SILENT, Finding
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.parameters import ALIKE, LEARNING_RATE, MAJORITY, MIN_PAST, MISSED, RESTART_S, TAIL
from skewscope.engine.model.senders import node_of_entity
from skewscope.engine.model.tick import NewSamples, Tick
from skewscope.engine.model.transfer import copy_items, match_places
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.series_detector import CellPlaces, SeriesDetector

CLOCKED = frozenset({"cc", "dpu", "gpu", "hft", "host", "pcie", "port", "prio", "rdma", "vport"})
"""What exporters sample by the clock, by how the ids of its signals begin."""
PLACE_KINDS = frozenset({"gpu", "node", "port"})
MOST_SIGNALS = 4
"""judgement: signals that are reported of a silent place."""
SOURCES: Fills = {"_newest": np.nan, "_usual": np.nan, "_longest": 0.0, "_count": 0, "silent": False}


class Silences(SeriesDetector):
    """When each place was last heard of, by exporter. Arrays are [source]; a source is the series of one place."""

    _newest: F64
    _usual: F64
    _longest: F64
    """Seconds since 1970; usual seconds between two times of samples, and the most."""
    _count: Index
    """Intervals so far."""
    silent: Mask
    """Whether it is silent while others go on."""

    def __init__(self, cells: JudgedCells) -> None:
        super().__init__(cells)
        none = np.empty(0, np.intp)
        self.ends: dict[tuple[str, Entity], float] = {}
        """When the input of a source ends, in seconds since 1970, where that is known."""
        self.keys: dict[tuple[str, Entity], int] = {}
        """Number of each source, by how its signals begin and place."""
        self._source: Index = none
        """[cell] its source, or -1."""
        self._family: Index = none
        self._families: dict[str, int] = {}
        self._node: Index = none
        """Number of its node, one for each family."""
        self._node_families: Index = none
        """[node] its family."""
        self._end = np.empty(0)
        """When the input ends, in seconds since 1970; infinite where that is not known."""
        widen_items(self, SOURCES, 0)

    def expect_ends(self, ends: Mapping[SeriesKey, float]) -> None:
        """Tells when the inputs of series end, in seconds since 1970."""
        for key, end in ends.items():
            kind = self.cells.state.kinds.get(key.signal, key.kind)
            source = key.signal.partition(".")[0], Entity(kind, key.entity)
            self.ends[source] = max(self.ends.get(source, end), end)

    def grow(self) -> None:
        """Makes room for new cells."""
        begun = len(self._source)
        sources = [self._add_cell(cell) for cell in range(begun, len(self.cells))]
        self._source = np.concatenate((self._source, np.array(sources, np.intp)))
        families = [self._families.setdefault(name, len(self._families)) for name, _ in self.keys]
        self._family = np.array(families, np.intp)
        places = [(name, node_of_entity(place.name)) for name, place in self.keys]
        numbers = {one: number for number, one in enumerate(dict.fromkeys(places))}
        self._node = np.array([numbers[one] for one in places], np.intp)
        self._node_families = np.array([self._families[name] for name, _ in numbers], np.intp)
        self._end = np.array([self.ends.get(key, np.inf) for key in self.keys])
        widen_items(self, SOURCES, len(self.keys))

    def _add_cell(self, cell: int) -> int:
        name, place = self.cells.signals[cell].id.partition(".")[0], self.cells.places[cell]
        if name not in CLOCKED or place.kind not in PLACE_KINDS:
            return -1
        return self.keys.setdefault((sys.intern(name), place), len(self.keys))

    def _told_cells(self) -> Mapping[int, Sequence[int]]:
        """Returns the first cells of each silent source."""
        some = np.flatnonzero((self._source >= 0) & self.silent[self._source])
        ordered = some[np.argsort(self._source[some], kind="stable")]
        sources, starts = np.unique(self._source[ordered], return_index=True)
        ends = np.append(starts[1:], len(ordered))
        return {
            source: ordered[start : min(end, start + MOST_SIGNALS)].tolist()
            for source, start, end in zip(sources.tolist(), starts.tolist(), ends.tolist(), strict=True)
        }

    def judge(self, tick: Tick) -> None:
        """Takes in the samples of a tick."""
        if len(self.keys) < 2:
            return
        t = tick.t
        self._hear(tick.new)
        limit = np.fmax(np.fmax(MISSED * self._usual, ALIKE * self._longest), RESTART_S)
        known = self._count >= MIN_PAST
        with np.errstate(invalid="ignore"):
            quiet = known & (t - self._newest > limit)
        if not quiet.any():
            self.silent = quiet
            return
        live, count = known & ~quiet, len(self._families)
        last = np.full(count, -np.inf)
        np.maximum.at(last, self._family[live], self._newest[live])
        quiets, lives = (np.bincount(self._family[some], minlength=count) for some in (quiet, live))
        with np.errstate(invalid="ignore"):
            others_go_on = last[self._family] - self._newest > limit
        is_cut_off = self._newest > self._end - limit
        are_many = (quiets <= lives)[self._family] & self._have_witnesses(live)
        self.silent = quiet & ~is_cut_off & others_go_on & are_many

    def _have_witnesses(self, live: Mask) -> Mask:
        """Returns [source] whether others on its node are heard of, or enough other nodes."""
        beside = np.bincount(self._node, weights=live, minlength=len(self._node_families))[self._node] > 0
        nodes = sort_unique(self._node[live])
        counts = np.bincount(self._node_families[nodes], minlength=len(self._families))
        enough: Mask = counts[self._family] >= MAJORITY
        return beside | enough

    def _hear(self, new: NewSamples) -> None:
        source = self._source[new.cells]
        mine = source >= 0
        heard = np.full(len(self._newest), -np.inf)
        np.maximum.at(heard, source[mine], new.time[mine])
        with np.errstate(invalid="ignore"):
            newer = np.isfinite(heard) & ~(heard <= self._newest)
        interval = heard[newer] - self._newest[newer]
        self._newest[newer] = heard[newer]
        at, interval = np.flatnonzero(newer)[~np.isnan(interval)], interval[~np.isnan(interval)]
        # The silence that was told is none of its intervals.
        at, interval = at[~self.silent[at]], interval[~self.silent[at]]
        old = self._usual[at]
        learned = old + LEARNING_RATE * (np.minimum(interval, TAIL * old) - old)
        self._usual[at] = np.where(np.isnan(old), interval, learned)
        self._longest[at] = np.maximum(self._longest[at], interval)
        self._count[at] += 1

    def find(self) -> Iterator[Finding]:
        """Yields what is silent: each signal of a place, or of a node where all GPUs or ports of it are silent."""
        if not self.silent.any():
            return
        keys = list(self.keys)
        whole = self._find_silent_nodes(keys)
        told: set[tuple[str, Entity]] = set()
        cells = self._told_cells()
        for source in np.flatnonzero(self.silent).tolist():
            name, place = keys[source]
            node = Entity("node", node_of_entity(place.name))
            at = node if (name, node) in whole else place
            for cell in cells[source]:
                signal = self.cells.signals[cell]
                if (signal.id, at) not in told:
                    told.add((signal.id, at))
                    value, since = float(self.cells.value[cell]), float(self._newest[source])
                    yield Finding(signal, at, PAST, SILENT, since, np.nan, value)

    def take_over(self, before: Self, places: CellPlaces) -> None:
        """Goes on with what another one heard of the sources that both have."""
        super().take_over(before, places)
        sources = match_places(list(before.keys), list(self.keys))
        copy_items(self, before, SOURCES, sources)

    def _find_silent_nodes(self, keys: list[tuple[str, Entity]]) -> set[tuple[str, Entity]]:
        """Returns the nodes of which several places are known and all are silent, by exporter."""
        found: dict[tuple[str, Entity], list[bool]] = {}
        for (name, place), silent, count in zip(keys, self.silent.tolist(), self._count.tolist(), strict=True):
            if place.kind != "node" and count >= MIN_PAST:
                found.setdefault((name, Entity("node", node_of_entity(place.name))), []).append(silent)
        return {key for key, some in found.items() if len(some) > 1 and all(some)}
