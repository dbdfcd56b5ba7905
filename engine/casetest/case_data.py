"""The data of a case: the topology that its shorthand means, and the samples of every series."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property

import numpy as np

from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.arrays import F64, Mask
from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.topology import FLEET, Group, Node, Pool, Port, Topology
from skewscope.kb.model import Catalogue
from skewscope.kb.units import parse_unit
from skewscope.rules.case_file import CaseTopology, RuleCase, SignalInput, ValueSegment, network_of
from skewscope.rules.entity_kinds import kind_of

START_TIME = 1_700_000_000.0
"""When every case begins: far from zero, as real times are."""
NORTH_SOUTH_SPEED, EAST_WEST_SPEED = 25e9, 50e9
"""Speeds of the ports, in bytes per second."""
BUCKET_BOUNDS = tuple(m * 10.0**e for e in range(-4, 3) for m in (1.0, 2.0, 5.0))
"""Upper bounds of the buckets of histograms, in base units."""
OBSERVATIONS_PER_S = 10.0
"""Observations of a histogram per second."""


def build_topology(short: CaseTopology, prefix: str = "") -> Topology:
    """The topology that a case's shorthand stands for: nodes n0, n1, ... with the ports ns and ew.

    Every name, and that of the fleet, begins with `prefix`.
    """
    count = sum(nodes for _, _, nodes, _ in short.groups) + short.nodes
    gpus = max([short.gpus, *(gpus for *_, gpus in short.groups)])
    fleet = f"{prefix}{FLEET}"
    nodes = tuple(_node(f"{prefix}n{n}", gpus, short.rails, fleet) for n in range(max(count, 1)))
    groups, first = [], 0
    for name, kind, size, per_node in short.groups:
        names = [f"{prefix}n{n}" for n in range(first, first + size)]
        members = [f"{node}/gpu{g}" for node in names for g in range(per_node)] if per_node else names
        groups.append(Group(f"{prefix}{name}", kind, tuple(members), "" if name in short.jobs else names[0]))
        first += size
    serving = tuple(name for name, *_ in short.groups if name not in short.jobs)
    everyone = (("pool", serving),) if serving else ()
    pools = everyone if short.pools is None else short.pools
    named = (Pool(f"{prefix}{name}", tuple(f"{prefix}{replica}" for replica in found)) for name, found in pools)
    return Topology(nodes, tuple(groups), tuple(named))


def _node(name: str, gpus: int, rails: int, fleet: str) -> Node:
    more = (Port(name, f"ew{n}" if n else "ew", "east-west", EAST_WEST_SPEED) for n in range(rails))
    ports = (Port(name, "ns", "north-south", NORTH_SOUTH_SPEED), *more)
    return Node(name, gpus=gpus, sees=("north-south", "east-west"), ports=ports, fleet=fleet)


class CaseData:
    """The samples of a case: every series' values at every tick, made beforehand."""

    def __init__(self, case: RuleCase, catalogue: Catalogue, table: SeriesTable, prefix: str = "") -> None:
        self.case = case
        self.catalogue = catalogue
        self.table = table
        self.prefix = prefix
        """Of the names of its entities; the case itself does not know of it."""
        self.topology = build_topology(case.topology, prefix)
        self.entities = EntityIndex(self.topology)
        self.problems: list[str] = []
        self.times: F64 = np.arange(round(case.duration / case.tick) + 1, dtype=np.float64) * case.tick
        self._piece_values: dict[ValueSegment, tuple[Mask, F64]] = {}
        pieces: dict[SeriesKey, list[ValueSegment]] = {}
        for given in case.inputs:
            for key in self._keys(given):
                pieces.setdefault(key, []).extend(given.segments)
        series = [made for key, found in pieces.items() for made in self._series(key, found)]
        self.values: F64 = np.array([values for _, values in series]).reshape(len(series), len(self.times))
        self.numbers = np.array([self.table.number(key) for key, _ in series], np.int32)
        """Of its series, in the table."""

    @property
    def duration(self) -> float:
        """Seconds until its last tick."""
        return (len(self.times) - 1) * self.case.tick

    def case_name(self, name: str) -> str:
        """The name that the case gives to an entity."""
        return name.replace(self.prefix, "")

    def entity_name(self, kind: str, name: str) -> str:
        """The name of an entity in `entities`, from that which the case gives it."""
        return self._entity_names[kind].get(name, "")

    @cached_property
    def _entity_names(self) -> Mapping[str, Mapping[str, str]]:
        names = {**self.entities.names, "peer": _peer_names(self.entities)}
        return {kind: {self.case_name(name): name for name in found} for kind, found in names.items()}

    def _keys(self, given: SignalInput) -> Iterator[SeriesKey]:
        kind = kind_of(self.catalogue.signals[given.signal].entity)
        network = network_of(given.subscripts)
        selector = ",".join(word for word in given.subscripts if word.replace("_", "-") != network)
        ports = self.topology.port
        found = [name for bare, name in self._entity_names[kind].items() if fnmatchcase(bare, given.entity)]
        if kind in {"port", "peer"} and network:
            found = [name for name in found if ports[name.partition(">")[0]].network == network]
        if not found:
            self.problems.append(f"gives {given.signal} for {given.entity!r}, which is no {kind} of the case")
        for name in found:
            yield SeriesKey(given.signal, kind, name, selector)

    def _series(self, key: SeriesKey, pieces: list[ValueSegment]) -> Iterator[tuple[SeriesKey, F64]]:
        signal = self.catalogue.signals[key.signal]
        values = self._layer_pieces(key, pieces) / parse_unit(signal.unit).factor
        if signal.type == "histogram":
            yield from self._to_histogram(key, values)
        elif signal.type == "counter":
            yield key, self._to_counter(values, pieces)
        else:
            yield key, values

    def _layer_pieces(self, key: SeriesKey, pieces: list[ValueSegment]) -> F64:
        """Values in base units over time: later pieces lie over earlier ones; NaN where there is no sample."""
        values = np.full(len(self.times), np.nan)
        some = any(piece.noise for piece in pieces)
        noise = _noise(f"{self.case.name}|{self._case_key(key)}", len(self.times)) if some else None
        for piece in pieces:
            at, shape = self._values_of_piece(piece)
            values[at] = shape if noise is None else shape * (1 + piece.noise * noise[at])
        return values

    def _values_of_piece(self, piece: ValueSegment) -> tuple[Mask, F64]:
        """When a piece says something, and what but for its noise: the same for every series that it is given for."""
        if piece not in self._piece_values:
            at = (self.times >= piece.begin - 1e-9) & (self.times < piece.end - 1e-9)
            shape = _shape(piece, self.times, self.case.duration)
            if piece.every:
                shape[np.mod(self.times + 1e-9, piece.every) > 2e-9] = np.nan
            self._piece_values[piece] = at, shape[at]
        return self._piece_values[piece]

    def _case_key(self, key: SeriesKey) -> SeriesKey:
        return replace(key, entity=self.case_name(key.entity))

    def _to_counter(self, rates: F64, pieces: list[ValueSegment]) -> F64:
        """A counter that grows at these rates; unread while they are missing, restarted where a piece requires it."""
        total = 1000.0 + np.cumsum(np.nan_to_num(rates)) * self.case.tick
        for restart in sorted(piece.restart for piece in pieces if piece.restart is not None):
            after = self.times >= restart
            if after.any():
                total[after] -= total[np.argmax(after)]
        return np.where(np.isnan(rates), np.nan, total)

    def _to_histogram(self, key: SeriesKey, values: F64) -> Iterator[tuple[SeriesKey, F64]]:
        seen = np.where(np.isnan(values), 0.0, OBSERVATIONS_PER_S * self.case.tick)
        gone = np.isnan(values)
        factor = parse_unit(self.catalogue.signals[key.signal].unit).factor
        parts = {f"bucket:{bound / factor:g}": seen * (values <= bound / factor) for bound in BUCKET_BOUNDS}
        parts |= {"bucket:+Inf": seen, "count": seen, "sum": np.nan_to_num(seen * values)}
        for part, more in parts.items():
            selector = ",".join(word for word in (key.selector, part) if word)
            counted = np.where(gone, np.nan, np.cumsum(more))
            yield SeriesKey(key.signal, key.kind, key.entity, selector), counted


def iter_blocks(scripts: Sequence[CaseData], tick: float) -> Iterator[Block]:
    """The samples of all scripts together, tick by tick, to the end of the longest."""
    most, size = max((len(one.times) for one in scripts), default=0), sum(len(one.numbers) for one in scripts)
    values = np.full((most, size), np.nan)
    numbers = np.concatenate([np.empty(0, np.int32), *(one.numbers for one in scripts)])
    first = 0
    for one in scripts:
        values[: len(one.times), first : first + len(one.numbers)] = one.values.T
        first += len(one.numbers)
    for n, row in enumerate(values):
        there = np.flatnonzero(~np.isnan(row))
        yield Block(np.full(len(there), START_TIME + n * tick), numbers[there], row[there])


def _shape(piece: ValueSegment, times: F64, lasts: float) -> F64:
    if piece.missing:
        return np.full(len(times), np.nan)
    if piece.to_value is None:
        return np.full(len(times), piece.value)
    end = min(piece.end, lasts)
    share = np.clip((times - piece.begin) / max(end - piece.begin, 1e-9), 0.0, 1.0)
    ramp: F64 = piece.value + (piece.to_value - piece.value) * share
    return ramp


def _noise(seed: str, size: int) -> F64:
    """Normal noise within three deviations, the same for the same seed."""
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
    return np.clip(np.random.default_rng(number).standard_normal(size), -3.0, 3.0)


def _peer_names(entities: EntityIndex) -> list[str]:
    """Every port and every other one that it may talk to."""
    ports = list(entities.topology.port.values())
    return [f"{a.id}>{b.id}" for a in ports for b in ports if a is not b and a.network == b.network]
